"""A walk policy of your own, and the suite that checks it: own_policy.py [QUESTION]."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

import airw
from airw.protocols import Edges, Rank, Records, ask

NOTES = Path(__file__).parent / "data" / "eips"
State = airw.WalkState[dict[str, tuple[str, float]]]  # the memory of a walk: the best record of a note, and its score


@dataclass(frozen=True)
class Greedy(airw.Policy[dict[str, tuple[str, float]]]):
    """Expand the best notes of the frontier in each step. A node is the id of a note."""

    width: int = 2
    keeps_frontier = True  # nodes that are not selected stay in the frontier for later steps

    def begin(self, state: State) -> dict[str, tuple[str, float]]:
        return {}

    async def seed(self, state: State, store: airw.Corpus) -> list[str]:
        return [hit.artifact_id for hit in await store.search(state.query, k=3)]

    async def score(self, state: State, nodes: Sequence[str], store: airw.Corpus) -> Any:
        query = await store.embedder.embed_query(state.query)
        [best] = await ask(store.store, Rank(query[None], per_artifact=True, among=nodes))
        state.memory.update(zip(best.artifact_ids, zip(best.record_ids, best.scores, strict=True), strict=True))
        return [state.memory.get(node, ("", -1))[1] for node in nodes]  # a note without text comes last

    def select(self, state: State, frontier: airw.Frontier) -> Any:
        return frontier.best_first(self.width)

    async def expand(self, state: State, committed: Sequence[airw.CommittedNode], store: airw.Corpus) -> list[Any]:
        edge_lists = await ask(store.store, Edges([item.node for item in committed], "both"))
        return [[end for edge in edges for end in (edge.source, edge.target)] for edges in edge_lists]

    async def to_hits(self, state: State, committed: Sequence[airw.CommittedNode], store: airw.Corpus) -> list[Any]:
        records = await ask(store.store, Records([state.memory.get(item.node, [""])[0] for item in committed]))
        return [record and record.as_hit(committed[n].score, store.name) for n, record in enumerate(records)]


async def main(question: str) -> int:
    """Print the best hits of a walk and the suite's report; return the number of failures."""
    async with airw.build(airw.from_notes(NOTES, embedder="light"), store=airw.stores.MemoryStore()) as corpus:
        for hit in await airw.top_k(airw.traverse(question, corpus, policy=Greedy()), k=5):
            print(f"{hit.score:.3f}  {' > '.join(hit.metadata['walk_path'])}")
        print(report := await airw.testing.PolicySuite(Greedy, lambda: nullcontext(corpus), question).run())
        return len(report.failed)


sys.exit(anyio.run(main, " ".join(sys.argv[1:]) or "how do wallets sign typed structured data"))

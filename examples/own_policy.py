"""A walk policy of one's own, and the exam that says what it keeps: python examples/own_policy.py [QUESTION]."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import numpy as np

import airw
from airw.testing import PolicySuite

State = airw.WalkState[dict[str, str | None]]  # with what one walk remembers: the best record of each note


@dataclass(frozen=True)
class Greedy(airw.Policy[dict[str, str | None]]):
    """Go on from the nearest notes that wait; a node is the id of a note, `walk.ranking` is by nearness."""

    width: int = 2
    keeps_frontier = True  # who is not selected waits for a later step

    def begin(self, state: State) -> dict[str, str | None]:
        return {}

    async def seed(self, state: State, store: airw.Corpus) -> list[str]:
        return [hit.artifact_id for hit in await store.search(state.query, k=3)]

    async def score(self, state: State, nodes: Sequence[str], store: airw.Corpus) -> Any:
        records, cosines = await store.store.best_of(await store.embedder.embed_query(state.query), nodes)
        state.memory.update(zip(nodes, records, strict=True))
        return np.nan_to_num(cosines, nan=-1)  # without text, far

    def select(self, state: State, frontier: airw.Frontier) -> Any:
        return frontier.best_first(self.width)

    async def expand(self, state: State, committed: Sequence[airw.CommittedNode], store: airw.Corpus) -> list[Any]:
        links = await store.store.neighbors([entry.node for entry in committed], direction="both")
        return [[end for link in found for end in (link.source, link.target)] for found in links]

    async def to_hits(self, state: State, committed: Sequence[airw.CommittedNode], store: airw.Corpus) -> list[Any]:
        records = await store.store.get_records([state.memory[entry.node] or "" for entry in committed])
        return [each and each.as_hit(entry.score, store.name) for each, entry in zip(records, committed, strict=True)]


async def main(question: str, notes: Path) -> int:
    """Print the best of a walk, and the report of the exam."""
    async with airw.build(airw.from_notes(notes, embedder="light"), store=airw.stores.MemoryStore()) as corpus:
        for hit in await airw.top_k(airw.traverse(question, corpus, policy=Greedy()), k=5):
            print(f"{hit.score:.3f}  {' > '.join(hit.metadata['walk_path'])}")
        print(report := await PolicySuite(Greedy, lambda: nullcontext(corpus), question).run())
        return len(report.failed)


QUESTION = " ".join(sys.argv[1:]) or "how do wallets sign typed structured data"
sys.exit(anyio.run(main, QUESTION, Path(__file__).parent / "data" / "eips"))

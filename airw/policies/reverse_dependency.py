"""The policy `ReverseDependency`: from libraries to the artifacts that depend on them."""

import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_count, check_weight
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw._base.requirements import bare_name, requirement_name
from airw.errors import ArgumentError
from airw.policies._capabilities import Walkable, require
from airw.policies._columns import has_numbers
from airw.policies._read_ahead import ReadOptions
from airw.policies._several_corpora import Id, check_nodes, member_names, member_ranks, order_key
from airw.policies.artifact_memory import ArtifactMemory, selectable
from airw.policies.scope import ALLOW_ALL, Scope, check_scope
from airw.protocols import AdjacencyReader, OpenCorpus
from airw.retrieval import check_corpus
from airw.stores.steps import reads_steps
from airw.values import ArtifactRef, Edge, NodeIdLike, SearchHit, canonical_node_id
from airw.values.hits import add_facts
from airw.walking import CommittedNode, Frontier, Policy, WalkState

REF = "REF"


class _Node(NamedTuple):
    """A seed, or an artifact that depends on `library`; `seed` is the seed of its path."""

    id: Id
    seed: Id
    library: Id | None = None


@dataclass(frozen=True, slots=True)
class _Dependents:
    """The dependents of a node, created when they are read, as a limit may allow only a few."""

    ids: Sequence[str]
    library: _Node

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[_Node]:
        return (_Node(id, self.library.seed, self.library.id) for id in self.ids)


@dataclass(slots=True, eq=False)
class DependencyMemory(ArtifactMemory):
    """The memory of one walk of `ReverseDependency`.

    Args:
        outside: The seeds that the corpus does not contain, each with the spellings that links may use for it.
        referrers: The dependents of each node.
        max_fan_in: The largest number of dependents in the corpus; 0 if it is not needed.
        order: The sort key of artifacts.
    """

    outside: dict[Id, list[Id]] = field(default_factory=dict)
    referrers: dict[Id, Sequence[Id]] = field(default_factory=dict)
    max_fan_in: int = 0
    order: Callable[[Id], Any] = field(init=False)


State: TypeAlias = WalkState[DependencyMemory]


@dataclass(frozen=True, kw_only=True)
class ReverseDependency(Policy[DependencyMemory]):
    """Walk from libraries to the artifacts that depend on them, directly or indirectly.

    ```text
    score = cosine of the best surface + fan_in_weight * fan_in / largest fan_in + proximity_weight / (1 + depth)
    ```

    `fan_in` is the number of artifacts that link to an artifact; the largest one is that of the corpus. A link counts
    for the artifact that it resolves to. A seed that the corpus does not contain scores 0 and is a router: for example
    a third-party library or a pair of another corpus.

    Each depth is committed best first; ties in order of discovery. Seeds are discovered in order of id, strings before
    pairs. Dependents are discovered in the order of the artifacts they depend on, then of id. The order of a depth is
    final when it streams; `walk.ranking` orders all depths. The metadata of hits contain `fan_in` and, except for
    seeds, `seed`: the seed of their best path.

    Args:
        seeds: Ids or names of artifacts, or of libraries that links name and the corpus does not contain; or `(source,
            id)` pairs. A pair of the walked corpus means its id. In several corpora, an id means every artifact with
            that id, and a pair means one artifact. Order and duplicates do not count. If `edge_type` is `"REF"`, a
            library may be spelled in any case, with `-`, `_` or `.`, or as a requirement such as `"PyYAML>=6"`.
        edge_type: The type of the links to follow, from a dependent to its dependency.
        fan_in_weight: The weight of the fan-in in the score.
        proximity_weight: The weight of the distance to a seed in the score.
        scope: The artifacts that may be started from, crossed and returned. It does not apply to seeds that the corpus
            does not contain.
        max_depth: The depth cap if the caller of `traverse` passes none.

    Raises:
        ArgumentError: If a parameter cannot be used.

    Example:
        >>> import airw, anyio
        >>> from airw.links import extractor_from
        >>> needs = extractor_from(lambda _, fields: {"REF": fields["needs"]}, id="needs")
        >>> packages = {"pipes": ["pyyaml"], "flow": ["pipes"], "cake": []}
        >>> async def main():
        ...     source = airw.from_mapping(
        ...         dict.fromkeys(packages, "text"), name="packages", embedder="light", edge_extractor=needs,
        ...         metadata_of=lambda id, _: {"needs": packages[id]},
        ...     )
        ...     async with airw.build(source, store=airw.stores.MemoryStore()) as corpus:
        ...         walk = airw.traverse("parse", corpus, policy=ReverseDependency(seeds=["PyYAML>=6"]))
        ...         return [(hit.artifact_id, hit.metadata["seed"]) async for hit in walk]
        >>> anyio.run(main)
        [('pipes', 'pyyaml'), ('flow', 'pyyaml')]
    """

    seeds: Collection[NodeIdLike]
    edge_type: str = REF
    fan_in_weight: float = 0.0
    proximity_weight: float = 0.0
    scope: Scope = ALLOW_ALL
    max_depth: int | None = 2

    def __post_init__(self) -> None:
        """Check the parameters, and sort the seeds, so that policies with equal seeds are equal."""
        object.__setattr__(self, "seeds", tuple(sorted(set(check_nodes("seeds", self.seeds)), key=order_key({}))))
        if not isinstance(self.edge_type, str):
            raise ArgumentError(f"edge_type must be a string such as 'REF', not {short_repr(self.edge_type)}")
        check_weight("fan_in_weight", self.fan_in_weight)
        check_weight("proximity_weight", self.proximity_weight)
        check_scope(self.scope)
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth)

    @override
    def begin(self, state: State) -> DependencyMemory:
        return DependencyMemory(state.query, self.scope, keeps_records=self.scope != ALLOW_ALL)

    async def seed(self, state: State, store: Walkable) -> list[_Node]:
        """Return the nodes that the seeds mean, in order; two store calls at most."""
        memory, corpus = state.memory, check_corpus(store)
        require(corpus, "referrers", "ReverseDependency")
        if self.fan_in_weight:
            links = require(corpus, "max_fan_in", "ReverseDependency", "fan_in_weight=...")
            memory.max_fan_in = await links.max_fan_in(types=[self.edge_type])
        inside, memory.outside = await self._resolve(corpus)
        memory.order = order_key(member_ranks(corpus))
        memory.best_surfaces.update(dict.fromkeys(memory.outside, (None, -math.inf)))
        return [_Node(id, id) for id in sorted([*inside, *memory.outside], key=memory.order)]

    async def _resolve(self, corpus: OpenCorpus[object]) -> tuple[set[Id], dict[Id, list[Id]]]:
        """Return the artifacts that the seeds mean, and the spellings of the other seeds by id."""
        members = member_names(corpus)
        # 1. A pair that names the walked corpus itself is an id in it.
        pairs = [canonical_node_id(seed, source=None) for seed in self.seeds]
        seeds = [(None if source == corpus.name else source, text) for source, text in pairs]
        spellings_of = [self._references(source, text, members) for source, text in seeds]
        # 2. All spellings of all seeds are resolved in one call, except those of corpora that are not walked.
        references = [
            reference
            for (source, _), spellings in zip(seeds, spellings_of, strict=True)
            if source is None or source in members
            for reference in spellings
        ]
        references = list(dict.fromkeys(references))
        resolver = require(corpus, "resolve", "ReverseDependency")
        meanings = dict(zip(references, await resolver.resolve(references), strict=True))
        # 3. The first spelling that means something counts. A seed that means nothing stays, under its name.
        inside, outside = set[Id](), dict[Id, list[Id]]()
        for (source, text), spellings in zip(seeds, spellings_of, strict=True):
            resolved = [(reference, meanings[reference]) for reference in spellings if meanings.get(reference)]
            if resolved:
                inside.update(_select_meaning(*resolved[0]))
            else:
                id = requirement_name(text) if source is None and self.edge_type == REF else spellings[0]
                outside[id] = list(dict.fromkeys([*outside.get(id, []), *spellings]))
        return inside, outside

    def _references(self, source: str | None, text: str, members: Collection[str]) -> list[Id]:
        """Return the references to look up for a seed, the seed itself first.

        A seed in a corpus that is not walked has one spelling only.
        """
        if source is None:
            return list[Id](self._spellings(text))
        return [ArtifactRef(source, name) for name in (self._spellings(text) if source in members else [text])]

    def _spellings(self, seed: str) -> list[str]:
        """Return the spellings of a seed, the seed itself first."""
        if self.edge_type != REF:
            return [seed]
        name = requirement_name(seed)
        return list(dict.fromkeys([seed, bare_name(seed), *(name.replace("-", mark) for mark in "-_.")]))

    async def score(self, state: State, nodes: Sequence[_Node], store: Walkable) -> NDArray[np.float64]:
        """Score by the best surface, the fan-in and the depth; five store calls at most."""
        memory, ids = state.memory, [node.id for node in nodes]
        await self._read_step(state, [id for id in ids if id not in memory.outside], store)
        cosines = await memory.score(ids, store)
        await self._read_referrers(memory, ids, store)
        await memory.apply_scope([id for id in ids if id not in memory.outside], store)
        return np.where(np.isneginf(cosines), 0.0, cosines + self._bonus(state, ids))

    async def _read_step(self, state: State, ids: Sequence[Id], corpus: Walkable) -> None:
        """Read the scores, records and dependents of artifacts in one call if the store can.

        All of them will be committed, unless a limit keeps them out.
        """
        memory, room = state.memory, state.node_budget - len(state.visited)
        if not ids or not reads_steps(corpus.store) or (len(ids) > room and self.scope == ALLOW_ALL):
            return
        await memory.read_step(
            ids,
            ids,
            corpus.store,
            query=await memory.embed_query(corpus),
            links={"direction": "in", "types": [self.edge_type]},
            options=ReadOptions(max_ends=0),
            visited=state.visited,
        )
        for id in ids:
            # Edges are in the order of the ids at their other ends, but one artifact may link more than once.
            memory.referrers[id] = list(dict.fromkeys(edge.source for edge in memory.ahead.edges.pop(id)))

    async def _read_referrers(self, memory: DependencyMemory, ids: Sequence[Id], corpus: OpenCorpus[object]) -> None:
        """Remember the dependents of each node; three store calls at most.

        They are its fan-in now, and its neighbours later.
        """
        if has_numbers(corpus.store) and not reads_steps(corpus.store):
            await self._read_dependents(memory, ids, corpus.store)
        new_ids = {id: memory.outside.get(id, [id]) for id in ids if id not in memory.referrers}
        if not new_ids:
            return
        nodes = [node for spellings in new_ids.values() for node in spellings]
        answers = iter(await require(corpus, "referrers", "ReverseDependency").referrers(nodes, types=[self.edge_type]))
        for id, spellings in new_ids.items():
            referrers = [next(answers) for _ in spellings]
            if len(referrers) == 1:
                memory.referrers[id] = referrers[0]
            else:
                memory.referrers[id] = sorted(set[Id]().union(*referrers), key=memory.order)

    async def _read_dependents(self, memory: DependencyMemory, ids: Sequence[Id], store: AdjacencyReader) -> None:
        """Remember the dependents of the artifacts among nodes.

        At most two store calls, and often none of them reads the file.
        """
        new_ids = [id for id in ids if id not in memory.referrers and id not in memory.outside]
        if not new_ids:
            return
        numbers = await store.artifact_numbers(new_ids)
        links = await store.neighbor_columns(numbers, direction="in", types=[self.edge_type])
        # They are in the order of their ids, but one may link more than once.
        sources = [str(links.nodes[end]) for end in links.ends.tolist()]
        for id, (start, stop) in zip(new_ids, pairwise(links.offsets.tolist()), strict=True):
            memory.referrers[id] = list(dict.fromkeys(sources[start:stop]))

    def _bonus(self, state: State, ids: Sequence[Id]) -> NDArray[np.float64]:
        """Return the part of the score that links add; all nodes of a step have the same depth."""
        memory, bonus = state.memory, np.zeros(len(ids))
        if memory.max_fan_in:
            fan_ins = np.array([len(memory.referrers[id]) for id in ids])
            bonus += self.fan_in_weight * fan_ins / memory.max_fan_in
        if self.proximity_weight:
            bonus += self.proximity_weight / (1 + (state.depth_of(ids[0]) or 0))
        return bonus

    def select(self, state: State, frontier: Frontier) -> Iterable[int] | Awaitable[Iterable[int]]:
        """Commit all artifacts that are not excluded, best first; ties in order of discovery."""
        if self.scope == ALLOW_ALL:
            return super().select(state, frontier)
        are_excluded = partial(state.memory.are_excluded, is_start=not state.visited)
        allowed = set(selectable(state.memory, frontier, are_excluded).tolist())
        return [position for position in frontier.best_first().tolist() if position in allowed]

    async def expand(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> list[_Dependents]:
        """Return the dependents of each node, in order; `score` has read them."""
        memory = state.memory
        return [
            _Dependents(memory.referrers[entry.id] if memory.permissions_of(entry.id).cross else (), entry.node)
            for entry in committed
        ]

    def node_id(self, node: _Node) -> Id:
        """Return the id of an artifact, or the name of a seed outside the corpus."""
        return node.id

    def edge_of(self, node: _Node) -> Edge | None:
        """Return the edge from a dependent to its dependency."""
        return None if node.library is None else Edge(node.id, node.library, self.edge_type, "derived")

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface; `None` for a seed outside the corpus.

        One store call.
        """
        hits = await state.memory.make_hits(committed, [entry.score for entry in committed], store)
        for hit, entry in zip(hits, committed, strict=True):
            if hit is not None:
                seed = {"seed": entry.node.seed} if entry.depth else {}
                add_facts(hit.metadata, {"fan_in": len(state.memory.referrers[entry.id]), **seed})
        return hits


def _select_meaning(reference: Id, ids: Sequence[Id]) -> Sequence[Id]:
    """Return the artifacts that a reference means, of those it resolves to.

    Artifacts with that very id count first; in several corpora all of them. Otherwise it is the first artifact.
    """
    _, text = canonical_node_id(reference, source=None)
    return [id for id in ids if canonical_node_id(id, source=None)[1] == text] or ids[:1]

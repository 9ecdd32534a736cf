"""Dependencies walked backwards: from libraries that the caller names to the artifacts that depend on them."""

import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_count, check_weight
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw._base.requirements import bare_name, requirement_name
from airw.errors import ArgumentError
from airw.policies._capabilities import Walkable, require
from airw.policies._several_corpora import Id, check_nodes, member_names, order_key, places_of
from airw.policies.artifact_memory import ArtifactMemory, selectable
from airw.policies.scope import ALLOW_ALL, Scope, check_scope
from airw.protocols import OpenCorpus
from airw.retrieval import check_corpus
from airw.values import ArtifactRef, Edge, NodeIdLike, SearchHit, canonical_node_id
from airw.walking import CommittedNode, Frontier, Policy, WalkState

REF = "REF"


class _Node(NamedTuple):
    """A seed, or an artifact that was found to depend on `library`."""

    id: Id
    seed: Id
    library: Id | None = None


@dataclass(frozen=True, slots=True)
class _Dependents:
    """The dependents of a node, as nodes that are made when they are read: a limit may let in only a few."""

    ids: Sequence[str]
    of: _Node

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[_Node]:
        return (_Node(id, self.of.seed, self.of.id) for id in self.ids)


@dataclass(slots=True, eq=False)
class DependencyMemory(ArtifactMemory):
    """What one walk remembers besides: who depends on what.

    Args:
        outside: What seeds name and the corpus does not hold, each with the ways to spell it.
        referrers: The dependents of each node.
        max_fan_in: How many dependents the node with most has; 0 where nobody asks.
        order: The key that orders artifacts.
    """

    outside: dict[Id, list[Id]] = field(default_factory=dict)
    referrers: dict[Id, Sequence[Id]] = field(default_factory=dict)
    max_fan_in: int = 0
    order: Callable[[Id], Any] = field(init=False)


State: TypeAlias = WalkState[DependencyMemory]


@dataclass(frozen=True, kw_only=True)
class ReverseDependency(Policy[DependencyMemory]):
    """Walk from given libraries to the artifacts that depend on them, to those that depend on these, and so on.

    ```text
    score = cosine of the best surface + fan_in_weight * fan_in / largest fan_in + proximity_weight / (1 + depth)
    ```

    `fan_in` counts the artifacts whose links lead to one; the largest is that of the corpus. Links count for what they
    resolve to. A seed that the corpus does not hold, a third-party library or a pair of another corpus, scores 0 and
    only routes. Each depth is committed best first, ties in the order of discovery: seeds by id, strings before pairs,
    then dependents by the order of what they depend on, then by id. The order of a depth is final when it streams, that
    over all depths is `walk.ranking`. Hits carry `fan_in` and, but for seeds, `seed`: the seed on their best path.

    Args:
        seeds: Ids or names of artifacts, or of what links name and the corpus does not hold; or `(source, id)` pairs,
            where a pair of the walked corpus means its id. Of several corpora, an id means all that have it there, a
            pair one of them. They are a set: order and repeats do not count. Where links are of the type `"REF"`, a
            library may be spelled in any case, with `-`, `_` or `.`, or as a requirement such as `"PyYAML>=6"`.
        edge_type: The type of the links to follow, from a dependent to what it depends on.
        fan_in_weight: What being depended on by many is worth.
        proximity_weight: What being near to a seed is worth.
        scope: What may be started from, crossed and returned; seeds that the corpus does not hold are not asked.
        max_depth: The depth cap when the caller of `traverse` names none.

    Raises:
        ArgumentError: A parameter cannot be used.

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
        """Check every parameter at birth; keep the seeds sorted, so that equal sets make equal policies."""
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
        """Return what the seeds mean, sorted, strings before pairs; one store call, and one for the largest fan-in."""
        memory, corpus = state.memory, check_corpus(store)
        require(corpus, "referrers", "ReverseDependency")
        if self.fan_in_weight:
            links = require(corpus, "max_fan_in", "ReverseDependency", "fan_in_weight=...")
            memory.max_fan_in = await links.max_fan_in(types=[self.edge_type])
        inside, memory.outside = await self._resolve(corpus)
        memory.order = order_key(places_of(corpus))
        memory.best.update(dict.fromkeys(memory.outside, (None, -math.inf)))
        return [_Node(id, id) for id in sorted([*inside, *memory.outside], key=memory.order)]

    async def _resolve(self, corpus: OpenCorpus[object]) -> tuple[set[Id], dict[Id, list[Id]]]:
        """Return the artifacts that seeds mean; and what the corpus does not hold, by id, as links may spell it."""
        members = member_names(corpus)
        seeds = [canonical_node_id(seed, source=None) for seed in self.seeds]
        named = [(None if source == corpus.name else source, text) for source, text in seeds]
        spelled = [self._references(source, text, members) for source, text in named]
        known = [refs for (source, _), refs in zip(named, spelled, strict=True) if source is None or source in members]
        asked = list(dict.fromkeys(ref for refs in known for ref in refs))
        resolver = require(corpus, "resolve", "ReverseDependency")
        meant = dict(zip(asked, await resolver.resolve(asked), strict=True))
        inside, outside = set[Id](), dict[Id, list[Id]]()
        for (source, text), spellings in zip(named, spelled, strict=True):
            found = [(ref, meant[ref]) for ref in spellings if meant.get(ref)]
            if found:
                inside.update(_strongest(*found[0]))
            else:
                id = requirement_name(text) if source is None and self.edge_type == REF else spellings[0]
                outside[id] = list(dict.fromkeys([*outside.get(id, []), *spellings]))
        return inside, outside

    def _references(self, source: str | None, text: str, members: Collection[str]) -> list[Id]:
        """Return what to look for, the seed as it was given first; what is of a corpus not walked has one spelling."""
        if source is None:
            return list[Id](self._spellings(text))
        return [ArtifactRef(source, each) for each in (self._spellings(text) if source in members else [text])]

    def _spellings(self, seed: str) -> list[str]:
        """Return the ways to write what a seed names, the given one first."""
        if self.edge_type != REF:
            return [seed]
        name = requirement_name(seed)
        return list(dict.fromkeys([seed, bare_name(seed), *(name.replace("-", mark) for mark in "-_.")]))

    async def score(self, state: State, nodes: Sequence[_Node], store: Walkable) -> NDArray[np.float64]:
        """Score by the best surface, the fan-in and the depth; three store calls at most, one to judge the scope."""
        memory, ids = state.memory, [node.id for node in nodes]
        cosines = await memory.score(ids, store)
        await self._read_referrers(memory, ids, store)
        await memory.judge([id for id in ids if id not in memory.outside], store)
        return np.where(np.isneginf(cosines), 0.0, cosines + self._bonus(state, ids))

    async def _read_referrers(self, memory: DependencyMemory, ids: Sequence[Id], corpus: OpenCorpus[object]) -> None:
        """Remember the dependents of each node, which are its fan-in now and lead on later; one store call."""
        known, asked = memory.referrers, {id: memory.outside.get(id, [id]) for id in ids if id not in memory.referrers}
        nodes = [node for spellings in asked.values() for node in spellings]
        answers = iter(await require(corpus, "referrers", "ReverseDependency").referrers(nodes, types=[self.edge_type]))
        for id, spellings in asked.items():
            found = [next(answers) for _ in spellings]
            known[id] = found[0] if len(found) == 1 else sorted(set[Id]().union(*found), key=memory.order)

    def _bonus(self, state: State, ids: Sequence[Id]) -> NDArray[np.float64]:
        """Return what the links are worth; all that is found in one step is equally far from its seed."""
        memory, bonus = state.memory, np.zeros(len(ids))
        if memory.max_fan_in:
            fan_ins = np.array([len(memory.referrers[id]) for id in ids])
            bonus += self.fan_in_weight * fan_ins / memory.max_fan_in
        if self.proximity_weight:
            bonus += self.proximity_weight / (1 + (state.depth_of(ids[0]) or 0))
        return bonus

    def select(self, state: State, frontier: Frontier) -> Iterable[int] | Awaitable[Iterable[int]]:
        """Commit all that the scope does not pass over, best first, ties in order of discovery."""
        if self.scope == ALLOW_ALL:
            return super().select(state, frontier)
        are_excluded = partial(state.memory.are_excluded, is_start=not state.visited)
        allowed = set(selectable(frontier, are_excluded).tolist())
        return [at for at in frontier.best_first().tolist() if at in allowed]

    async def expand(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> list[_Dependents]:
        """Return the dependents of each one, sorted; they were read when it was scored."""
        memory = state.memory
        return [
            _Dependents(memory.referrers[entry.id] if memory.verdict(entry.id).cross else (), entry.node)
            for entry in committed
        ]

    def node_id(self, node: _Node) -> Id:
        """Identify a node by its artifact, or as links name it where there is none."""
        return node.id

    def edge_of(self, node: _Node) -> Edge | None:
        """Return the edge from a dependent to what it depends on."""
        return None if node.library is None else Edge(node.id, node.library, self.edge_type, "derived")

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface, `None` for what the corpus does not hold; one store call."""
        hits = await state.memory.make_hits(committed, store)
        for hit, entry in zip(hits, committed, strict=True):
            if hit is not None:
                hit.metadata["fan_in"] = len(state.memory.referrers[entry.id])
                if entry.depth:
                    hit.metadata["seed"] = entry.node.seed
        return hits


def _strongest(ref: Id, ids: Sequence[Id]) -> Sequence[Id]:
    """Return what a reference means: the artifact of that very id, of several corpora all of them, else the first."""
    _, text = canonical_node_id(ref, source=None)
    return [id for id in ids if canonical_node_id(id, source=None)[1] == text] or ids[:1]

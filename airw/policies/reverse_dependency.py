"""The policy `ReverseDependency`: from libraries to the artifacts that depend on them."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_kind, check_weight
from airw._base.overriding import override
from airw._base.requirements import bare_name, requirement_name
from airw.errors import ArgumentError
from airw.policies._corpora import Id, Walkable, check_nodes, member_names, member_ranks, order_key
from airw.policies.artifact_memory import ArtifactMemory
from airw.policies.artifact_policy import ArtifactPolicy, ids_of
from airw.policies.scope import ALLOW_ALL, Scope
from airw.protocols import MaxFanIn, Names, Referrers, ask
from airw.retrieval import check_corpus
from airw.values import ArtifactRef, Edge, NodeIdLike, canonical_node_id
from airw.walking import CommittedNode, LazyNeighbors, WalkState
from airw.walking.policy import NeighborValues

REF = "REF"


class _Node(NamedTuple):
    """A seed, or an artifact that depends on `library`; `seed` is the seed of its path."""

    id: Id
    seed: Id
    library: Id | None = None


@dataclass(slots=True, eq=False)
class DependencyMemory(ArtifactMemory):
    """The memory of one walk of `ReverseDependency`.

    Args:
        outside: The seeds that the corpus does not contain, each with the spellings that links may use for it.
        referrers: The dependents of each node.
        max_fan_in: The largest number of dependents in the corpus; 0 if it is not needed.
    """

    outside: dict[Id, list[Id]] = field(default_factory=dict)
    referrers: dict[Id, Sequence[Id]] = field(default_factory=dict)
    max_fan_in: int = 0


State: TypeAlias = WalkState[DependencyMemory]


@dataclass(frozen=True, kw_only=True)
class ReverseDependency(ArtifactPolicy[DependencyMemory]):
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
    _memory = DependencyMemory

    def __post_init__(self) -> None:
        """Check the parameters, and sort the seeds, so that policies with equal seeds are equal."""
        object.__setattr__(self, "seeds", tuple(sorted(set(check_nodes("seeds", self.seeds)), key=order_key({}))))
        check_kind("edge_type", self.edge_type, str, "be a string such as 'REF'", error=ArgumentError)
        check_weight("fan_in_weight", self.fan_in_weight)
        check_weight("proximity_weight", self.proximity_weight)
        self._check_shared()

    async def seed(self, state: State, store: Walkable) -> list[_Node]:
        """Return the nodes that the seeds mean, in order; two store calls at most."""
        memory, links = state.memory, check_corpus(store).store
        if self.fan_in_weight:
            memory.max_fan_in = await ask(links, MaxFanIn([self.edge_type]))
        # 1. A pair of the walked corpus is an id in it. One of a corpus that is not walked stays as it is.
        members, seeds = member_names(store), list[Id](self.seeds)
        seeds = [seed.id if isinstance(seed, ArtifactRef) and seed.source == store.name else seed for seed in seeds]
        memory.outside = {
            seed: [seed] for seed in seeds if isinstance(seed, ArtifactRef) and seed.source not in members
        }
        # 2. All spellings of all other seeds are resolved in one call.
        spellings_of = {seed: self._spellings(seed) for seed in seeds if seed not in memory.outside}
        references = list(dict.fromkeys(chain.from_iterable(spellings_of.values())))
        meanings = dict(zip(references, await ask(links, Names(references)), strict=True))
        # 3. The first spelling that means something counts. A seed that means nothing stays, under its name.
        inside: set[Id] = set()
        for seed, spellings in spellings_of.items():
            reference = next(filter(meanings.get, spellings), None)
            if reference is not None:
                # Artifacts with that very id count first; in several corpora all of them. Otherwise the first one does.
                ids, (_, text) = meanings[reference], canonical_node_id(reference, source=None)
                inside.update([id for id in ids if canonical_node_id(id, source=None)[1] == text] or ids[:1])
            else:
                id = requirement_name(seed) if isinstance(seed, str) and self.edge_type == REF else seed
                memory.outside[id] = list(dict.fromkeys([*memory.outside.get(id, []), *spellings]))
        memory.best_surfaces.update(dict.fromkeys(memory.outside))
        memory.cosine_of.update(dict.fromkeys(memory.outside, -math.inf))
        seeds = sorted([*inside, *memory.outside], key=order_key(member_ranks(store)))
        return [_Node(seed, seed) for seed in seeds]

    def _spellings(self, seed: Id) -> list[Id]:
        """Return the references to look up for a seed, the seed itself first."""
        if isinstance(seed, ArtifactRef):
            return [seed._replace(id=text) for text in self._spellings(seed.id)]
        if self.edge_type != REF:
            return [seed]
        name = requirement_name(seed)
        return list(dict.fromkeys([seed, bare_name(seed), *(name.replace("-", mark) for mark in "-_.")]))

    @override
    async def _read_surfaces(self, state: State, ids: Sequence[Id], store: Walkable) -> None:
        """Read the surfaces, records and dependents of nodes; one store call.

        Dependents are the fan-in of a node now, and its neighbours later.
        """
        memory = state.memory
        await memory.embed_query(store)
        artifacts = [id for id in ids if id not in memory.outside]
        new_ids = memory.find_new(artifacts)
        parts = memory.ask_best(new_ids, self._count_ahead(state)) if new_ids else []
        spellings_of = {id: memory.outside.get(id, [id]) for id in ids if id not in memory.referrers}
        references = list(chain.from_iterable(spellings_of.values()))

        def keep(answer: Iterable[Sequence[Id]]) -> None:
            answers, order = iter(answer), order_key(member_ranks(store))
            for id, spellings in spellings_of.items():
                referrers, *more = islice(answers, len(spellings))
                memory.referrers[id] = sorted(set(referrers).union(*more), key=order) if more else referrers

        parts.append((Referrers(references, [self.edge_type]), keep))
        await memory.read(store, parts)
        await super()._read_surfaces(state, artifacts, store)

    @override
    def value(self, state: State, nodes: Sequence[_Node]) -> NDArray[np.float64]:
        """Return the cosine plus what links add; all nodes of a step have the same depth."""
        memory = state.memory
        ids = ids_of(nodes)
        cosines = memory.cosines(ids)
        fan_ins = np.array([len(memory.referrers[id]) for id in ids])
        depth = state.depth_of(ids[0]) or 0
        bonus = self.fan_in_weight * fan_ins / max(memory.max_fan_in, 1) + self.proximity_weight / (1 + depth)
        return np.where(np.isneginf(cosines), 0.0, cosines + bonus)

    @override
    async def follow(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> list[LazyNeighbors]:
        """Return the dependents of each node, in order; `score` has read them."""
        return [self._dependents(entry.node, state.memory.referrers[entry.id]) for entry in committed]

    def _dependents(self, library: _Node, ids: Sequence[Id]) -> LazyNeighbors:
        return NeighborValues(ids, lambda part: [_Node(id, library.seed, library.id) for id in ids[part]])

    @override
    def edge_of(self, node: _Node) -> Edge | None:
        """Return the edge from a dependent to its dependency."""
        return None if node.library is None else Edge(node.id, node.library, self.edge_type, "derived")

    @override
    def _filter_followed(self, state: State, committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        return []  # `score` reads dependents

    @override
    def _facts(self, state: State, entry: CommittedNode) -> dict[str, Any]:
        seed = {"seed": entry.node.seed} if entry.depth else {}
        return {"fan_in": len(state.memory.referrers[entry.id]), **seed}

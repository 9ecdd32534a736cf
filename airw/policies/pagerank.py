"""The policy `PersonalizedPageRank`: rank by a random walker, with error bounds."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, TypeAlias, cast

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.checks import MAX_HITS, check_choice, check_count, check_weight
from airw._base.concurrency import offload_if
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw._base.vectors import best_first
from airw.errors import ArgumentError
from airw.links.columns import Numbers
from airw.policies._capabilities import Walkable, require
from airw.policies._forward_push import ROUNDING, Bounds, ForwardPush, has_final_rank, is_among_first
from airw.policies._read_ahead import ReadOptions
from airw.policies._roots import check_roots, find_roots
from airw.policies._seeding import artifacts_in_query, find_start
from airw.policies._several_corpora import Id
from airw.policies._shared_fields import ID
from airw.policies.artifact_memory import ArtifactMemory, node_of_hit
from airw.policies.artifact_policy import ArtifactNode, ArtifactPolicy
from airw.policies.scope import ALLOW_ALL
from airw.protocols import OpenCorpus
from airw.values import Direction, SearchHit
from airw.values.hits import with_facts
from airw.walking import Columns, CommittedNode, CommittedNodes, Frontier, WalkState

Weighting: TypeAlias = Literal["uniform", "score"]
_WEIGHTINGS: tuple[Weighting, ...] = ("uniform", "score")
_METADATA_FIELDS = ("ppr_lower", "ppr_upper", "rank_final")
_OFFLOAD_ABOVE = 5_000  # neighbours; numbering and pushing to this many takes about a millisecond
_DIGITS = -round(math.log10(ROUNDING))


@dataclass(slots=True, eq=False)
class PushMemory(ArtifactMemory):
    """The memory of one walk of `PersonalizedPageRank`.

    Args:
        numbers: The node number of each discovered artifact, in order of discovery. In a walk in columns those of
            scored artifacts.
        push: The forward push; unset if the walk has no seeds.
        number_at: The node number of the artifact at each position of the walk record.
        columns: In a walk in columns, the node number of each number of the store, plus 1; 0 if it was not discovered.
        count: The number of discovered artifacts in a walk in columns.
    """

    numbers: dict[Id, int] = field(default_factory=dict)
    push: ForwardPush = field(init=False)
    number_at: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    columns: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    count: int = 0

    def numbers_of(self, ids: Sequence[Id] | Numbers) -> NDArray[np.intp]:
        """Return the node numbers of artifacts, by their ids or the numbers of the store."""
        if isinstance(ids, np.ndarray):
            return self.columns[ids] - 1
        return np.fromiter(map(self.numbers.__getitem__, ids), np.intp, len(ids))

    def number(self, nodes: Numbers) -> NDArray[np.intp]:
        """Return the node numbers of nodes in a walk in columns; new ones get the next numbers."""
        self.columns = reserve(self.columns, int(nodes.max(initial=-1)) + 1)
        new = nodes[self.columns[nodes] == 0]
        new = new[np.sort(np.unique(new, return_index=True)[1])]
        self.columns[new] = np.arange(self.count + 1, self.count + len(new) + 1)
        self.count += len(new)
        return self.numbers_of(nodes)


State: TypeAlias = WalkState[PushMemory]


@dataclass(frozen=True, kw_only=True)
class PersonalizedPageRank(ArtifactPolicy[PushMemory]):
    """Rank artifacts by the probability to meet a random walker from the seeds there.

    With probability `1 - restart` the walker goes from an artifact to one of its distinct neighbours, all with equal
    probability. Otherwise, or if there is no neighbour, it starts again (Page, Brin, Motwani and Winograd, 1999; the
    definition is that of networkx). Each step of the walk explores the `width` artifacts with the largest residuals by
    forward push (Andersen, Chung and Lang, FOCS 2006); ties in order of discovery. Artifacts without surfaces are
    routers.

    Hits stream in that order, and their score is a lower bound; neither is final. `walk.ranking` is ordered by the last
    estimates, highest first; ties in order of commitment. The estimates are exact if the walk ends because nothing is
    left. The metadata of these hits contain bounds of the exact value in the whole graph, explored or not: `ppr_lower`
    and `ppr_upper`. `rank_final` is True if the rank of a hit is proven: it is one of the first `certify_k` of all
    possible hits, or this is its exact rank. Numbers are accurate to 1e-12. Neighbours counted beyond the limits (see
    `Limits`) improve the estimates, too.

    The masses of the seeds are added up by artifact. The seeding of HippoRAG 2 (Gutiérrez et al., ICML 2025), with
    names instead of phrases, is `weighting="score", search_weight=0.05, title_weight=1`.

    Args:
        restart: The probability to start again at each step, between 0 and 1; with 0.5 the walk stays near the seeds.
        seed_k: The number of artifacts to start from, found by the seeding; 0 for the `roots`, or the artifacts that
            the query names, alone.
        width: The number of artifacts to explore per step.
        certify_k: Prove for this number of hits that they are the first. A small number is proven early, a large one
            late.
        degree_exponent: Rank by the estimate divided by the number of neighbours to this power; above 0, hubs sink. The
            order of the walk and the bounds in the metadata do not depend on it.
        weighting: With `"uniform"`, an artifact found by search has the mass `search_weight`. With `"score"`, that is
            multiplied by its cosine to the query. Cosines are scaled to 0 for the lowest one found, whose artifact is
            then no seed, and 1 for the highest.
        search_weight: The mass of artifacts found by search; each of the `roots` has mass 1.
        title_weight: The mass of each name in the query. It is divided among the artifacts with that name. The part of
            each is divided by the number of artifacts that link to it.
        seeding: How to find the start: by `"dense"`, `"lexical"` or `"hybrid"` search, or by `"titles"` in the query.
            By default `"hybrid"`, or the one channel that the store has. Several ways: see `ArtifactPolicy`.
        roots: Ids of further artifacts to start from; in several corpora, `(source, id)` pairs. The walk raises a
            `NoLedgerEntry` if one does not exist.
        edges: Fields to follow instead of links; see `ArtifactPolicy`. Ids without an artifact are no neighbours.
        direction: Follow links `"both"` ways, `"out"` or `"in"` (backlinks).
        types: Follow links of these types only; `None` for all types.
        scope: The artifacts that may be started from, crossed and returned. Excluded artifacts are no seeds, but the
            random walker crosses every artifact.
        max_depth: The depth cap if the caller of `traverse` passes none; `None` for no cap.

    Raises:
        ArgumentError: If a parameter cannot be used.

    Example:
        >>> PersonalizedPageRank(seed_k=0, roots=["a.md"], restart=0.15).direction
        'both'
    """

    restart: float = 0.5
    seed_k: int = 5
    width: int = 8
    certify_k: int = 10
    degree_exponent: float = 0.0
    weighting: Weighting = "uniform"
    search_weight: float = 1.0
    title_weight: float = 0.0
    direction: Direction = "both"
    keeps_frontier = True
    speaks_columns = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        check_count("seed_k", self.seed_k, most=MAX_HITS)
        check_count("width", self.width, least=1)
        check_count("certify_k", self.certify_k)
        check_choice("weighting", self.weighting, _WEIGHTINGS)
        for name in ("restart", "degree_exponent", "search_weight", "title_weight"):
            check_weight(name, getattr(self, name))
        if not 0 < self.restart < 1:
            raise ArgumentError(f"restart must be a number between 0 and 1, not {short_repr(self.restart)}")

    @override
    def begin(self, state: State) -> PushMemory:
        return PushMemory(state.query, self.scope, self._reads_fields)

    async def seed(self, state: State, store: Walkable) -> list[ArtifactNode] | Numbers:
        """Return the artifacts with mass: from the search, the roots and the query's names."""
        memory = state.memory
        if self.edges is not None:
            require(store, "matching", self._name, "edges=...")
        masses = {id: mass for id, mass in (await self._masses(state, store)).items() if mass}
        if self._reads_fields:
            await memory.score(list(masses), store)
            await check_roots(memory, store)
            await memory.apply_scope(list(masses), store)
            are_excluded = self._are_excluded(state, list(masses))
            masses = {id: mass for (id, mass), out in zip(masses.items(), are_excluded, strict=True) if not out}
        if masses:
            memory.numbers = {id: number for number, id in enumerate(masses)}
            memory.push = ForwardPush.start(list(masses.values()), self.restart)
        seeds = await self._to_seeds(state, [ArtifactNode(id) for id in masses], store)
        if isinstance(seeds, np.ndarray):
            memory.number(seeds)
        return seeds

    @property
    @override
    def _read_options(self) -> ReadOptions:
        # Without a scope, an artifact is compared with the query only when it is a hit.
        options = super()._read_options
        return options._replace(max_ends=0) if self.scope == ALLOW_ALL else options

    async def _masses(self, state: State, corpus: Walkable) -> dict[Id, float]:
        """Return the mass of each seed, in order of discovery."""
        memory = state.memory
        k = self.seed_k if self.search_weight else 0
        filter = self.scope.start_filter
        found_ids = await find_start(memory, corpus, self._name, k=k, seeding=self.seeding, filter=filter)
        roots = find_roots(memory, self.roots, corpus)
        await self._read_start(state, list(dict.fromkeys([*found_ids, *roots])), corpus)
        shares = np.ones(len(found_ids))
        if self.weighting == "score" and found_ids:
            shares = _scale(await memory.score(found_ids, corpus))
        masses = defaultdict[Id, float](float)
        for id, share in zip(found_ids, shares.tolist(), strict=True):
            masses[id] += self.search_weight * share
        for id in roots:
            masses[id] += 1
        if self.title_weight:
            await self._add_title_masses(masses, memory.query, corpus)
        return masses

    async def _add_title_masses(self, masses: dict[Id, float], query: str, corpus: OpenCorpus[object]) -> None:
        """Add the mass of the artifacts that the query names; two store calls."""
        links = require(corpus, "resolve", self._name, "title_weight=...")
        require(corpus, "fan_in", self._name, "title_weight=...")
        names = await artifacts_in_query(query, links)
        ids = list(dict.fromkeys(id for artifacts in names for id in artifacts))
        fan_in = dict(zip(ids, await links.fan_in(ids), strict=True)) if ids else {}
        for artifacts in names:
            for id in artifacts:
                masses[id] += self.title_weight / (len(artifacts) * max(1, fan_in[id]))

    async def score(
        self, state: State, nodes: Sequence[ArtifactNode] | Numbers, store: Walkable
    ) -> NDArray[np.float64]:
        """Score by the lower bound at discovery; no store call without a scope."""
        memory = state.memory
        if self.scope != ALLOW_ALL:
            await super().score(state, nodes, store)
            if isinstance(nodes, np.ndarray):
                memory.numbers.update(zip(memory.ids_of(nodes), memory.numbers_of(nodes).tolist(), strict=True))
        return self._lower_bounds(memory, nodes if isinstance(nodes, np.ndarray) else memory.ids_of(nodes))

    def _lower_bounds(self, memory: PushMemory, ids: Sequence[Id] | Numbers) -> NDArray[np.float64]:
        """Return the lower bounds of artifacts that are not explored, and so have no estimate yet."""
        return self.restart * memory.push.residual[memory.numbers_of(ids)]

    def select(self, state: State, frontier: Frontier) -> NDArray[np.intp]:
        """Commit the `width` artifacts with the largest residuals; ties in order of discovery."""
        memory, live = state.memory, self._selectable(state, frontier)
        new_numbers = memory.numbers_of(frontier.ids[len(memory.number_at) : len(frontier.ids)])
        memory.number_at = np.concatenate([memory.number_at, new_numbers])
        return live[best_first(memory.push.residual[memory.number_at[live]], self.width)]

    @override
    async def _neighbors(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[ArtifactNode]]:
        # The push needs all neighbours, also those that a limit will keep out of the walk. One store call for links,
        # two for fields.
        memory, neighbors = state.memory, await super()._neighbors(state, committed, store)
        if self.edges is not None:
            neighbors = await _drop_missing(memory, neighbors, store)
        if committed:
            ids = [entry.node.id for entry in committed]
            is_long = len(memory.push.targets) + sum(map(len, neighbors)) > _OFFLOAD_ABOVE
            memory.push = await offload_if(is_long, _explore, memory, ids, neighbors)
        return neighbors

    @override
    async def _read_columns(
        self, memory: PushMemory, crossable: Sequence[CommittedNode], committed: CommittedNodes
    ) -> Columns:
        neighbors = await super()._read_columns(memory, crossable, committed)
        if crossable:
            crossable_ids = {entry.id for entry in crossable}
            is_crossable = np.array([id in crossable_ids for id in committed.ids])
            nodes, counts = cast("Numbers", committed.nodes)[is_crossable], np.diff(neighbors.offsets)[is_crossable]
            is_long = len(memory.push.targets) + len(neighbors.ids) > _OFFLOAD_ABOVE
            ends = cast("Numbers", neighbors.ids)
            memory.push = await offload_if(is_long, _explore_columns, memory, nodes, counts, ends)
        return neighbors

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface, with the lower bound as score.

        At most two store calls.
        """
        memory, ids = state.memory, state.memory.ids_of_committed(committed)
        await self._read_step(state, committed, store)
        await memory.score(ids, store)
        await check_roots(memory, store)
        if memory.reader is not None:
            numbers = memory.numbers_of(cast("Numbers", cast("CommittedNodes", committed).nodes))
            memory.numbers.update(zip(ids, numbers.tolist(), strict=True))
        return await memory.make_hits(committed, self._lower_bounds(memory, ids).tolist(), store)

    def rank(self, state: State, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """Return the hits by their last estimate, with bounds and proven ranks in their metadata."""
        if not hits:
            return []
        # 1. Push what is left at explored nodes: this makes the bounds as narrow as the exploration allows.
        memory = state.memory
        push = memory.push.push_fully()
        bounds = push.bounds(may_loop=self._may_loop)
        scores, score_bounds = self._scores(push, bounds)
        # 2. Rank by rounded scores, so that values that are equal but for rounding are ties.
        numbers = memory.numbers_of([node_of_hit(hit, memory.numbers) for hit in hits])
        order = np.argsort(-np.round(scores[numbers], _DIGITS), kind="stable")
        ranked = numbers[order]
        # 3. Find the hits whose rank is proven against the other hits and all artifacts that may become hits.
        rivals = _rivals(memory, numbers, len(scores))
        is_first = is_among_first(score_bounds, ranked, rivals, self.certify_k)
        is_final = is_first | has_final_rank(score_bounds, ranked, rivals)
        columns = [column[ranked].tolist() for column in (scores, bounds.lower, bounds.upper)]
        rows = zip([hits[index] for index in order.tolist()], *columns, is_final.tolist(), strict=True)
        return [
            replace(
                hit, score=score, metadata=with_facts(hit.metadata, dict(zip(_METADATA_FIELDS, values, strict=True)))
            )
            for hit, score, *values in rows
        ]

    def _scores(self, push: ForwardPush, bounds: Bounds) -> tuple[NDArray[np.float64], Bounds]:
        """Return the scores of all nodes, and their bounds.

        The number of neighbours of an unexplored node is unknown. With `degree_exponent`, its lower bound is therefore
        0, and its upper bound is that of a node with one neighbour.
        """
        counts = push.neighbor_counts()
        divisors = np.maximum(counts, 1.0) ** self.degree_exponent
        scores = bounds.lower / divisors
        has_lower_bound = (counts >= 0) | (self.degree_exponent == 0)
        return scores, Bounds(np.where(has_lower_bound, scores, 0.0), bounds.upper / divisors, bounds.unseen)

    @property
    def _may_loop(self) -> bool:
        """True if an artifact may be its own neighbour, which only `edges` that name ids allow."""
        if self.edges is None:
            return False
        return callable(self.edges) or any(to_field == ID for _, to_field in self.edges)


def _explore(memory: PushMemory, ids: Sequence[Id], neighbors: Sequence[Sequence[ArtifactNode]]) -> ForwardPush:
    """Number the neighbours of artifacts, without duplicates, and push on."""
    numbers = memory.numbers
    distinct_ids = [dict.fromkeys(node.id for node in nodes) for nodes in neighbors]
    neighbor_numbers = [[numbers.setdefault(id, len(numbers)) for id in distinct] for distinct in distinct_ids]
    return memory.push.explore([numbers[id] for id in ids], neighbor_numbers, len(numbers)).push_roughly()


def _explore_columns(memory: PushMemory, nodes: Numbers, counts: Numbers, ends: Numbers) -> ForwardPush:
    """Do the same in a walk in columns.

    `ends` are the neighbours, and `counts` how many of them each node has.
    """
    owners = np.repeat(np.arange(len(nodes)), counts)
    first = np.sort(np.unique(owners * (ends.max(initial=0) + 1) + ends, return_index=True)[1])
    numbers, degrees = memory.number(ends[first]).tolist(), np.bincount(owners[first], minlength=len(nodes))
    bounds = pairwise([0, *np.cumsum(degrees).tolist()])
    neighbors = [numbers[start:stop] for start, stop in bounds]
    return memory.push.explore(memory.numbers_of(nodes).tolist(), neighbors, memory.count).push_roughly()


async def _drop_missing(
    memory: PushMemory, neighbors: Sequence[Sequence[ArtifactNode]], corpus: Walkable
) -> list[list[ArtifactNode]]:
    """Return the neighbours that have a record; one store call.

    The others lead nowhere and are no hits.
    """
    await memory.score(list(dict.fromkeys(node.id for nodes in neighbors for node in nodes)), corpus)
    return [[node for node in nodes if memory.has_surface(node.id)] for nodes in neighbors]


def _scale(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale scores to 0 for the lowest and 1 for the highest.

    All are 1 if they are equal. An infinite score, of an artifact without surfaces, becomes 0.
    """
    is_finite = np.isfinite(scores)
    low, high = scores[is_finite].min(initial=np.inf), scores[is_finite].max(initial=-np.inf)
    return np.where(is_finite, (scores - low) / (high - low) if high > low else 1.0, 0.0)


def _rivals(memory: PushMemory, ranked: NDArray[np.intp], count: int) -> NDArray[np.bool_]:
    """Return the artifacts that are not ranked and may become hits, `(count,) bool`."""
    numbers = memory.numbers
    routers = [id for id in memory.best_surfaces if not (memory.has_surface(id) and memory.permissions_of(id).keep)]
    rivals = np.ones(count, np.bool_)
    rivals[ranked] = False
    rivals[[numbers[id] for id in routers if id in numbers]] = False
    return rivals

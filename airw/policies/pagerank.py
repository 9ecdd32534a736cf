"""The policy `PersonalizedPageRank`: rank by a random walker, with error bounds."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress, count
from typing import Literal, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import MAX_HITS, check_choice, check_count, check_weight
from airw._base.concurrency import offload_if
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw._base.vectors import best_first
from airw.errors import ArgumentError
from airw.policies._corpora import Id, Walkable, require
from airw.policies._forward_push import ROUNDING, Bounds, ForwardPush, has_final_rank, is_among_first
from airw.policies._shared_fields import ID
from airw.policies._start import artifacts_in_query, find_roots, find_start
from airw.policies.artifact_memory import ArtifactMemory, Part, node_of_hit
from airw.policies.artifact_policy import ArtifactNode, SearchingPolicy, SearchParameters, ids_of
from airw.policies.scope import ALLOW_ALL
from airw.protocols import EdgeRow, Ends, Referrers, ask
from airw.values import Direction, SearchHit
from airw.values.hits import with_facts
from airw.walking import CommittedNode, Frontier, WalkState

Weighting: TypeAlias = Literal["uniform", "score"]
_WEIGHTINGS: tuple[Weighting, ...] = ("uniform", "score")
_OFFLOAD_ABOVE = 10_000  # neighbours; numbering and pushing to this many takes about a millisecond
_DIGITS = -round(math.log10(ROUNDING))


@dataclass(slots=True, eq=False)
class PushMemory(ArtifactMemory):
    """The memory of one walk of `PersonalizedPageRank`.

    Args:
        numbers: The node number of each discovered artifact, in order of discovery.
        push: The forward push; unset if the walk has no seeds.
        number_at: The node number of the artifact at each position of the walk record.
    """

    numbers: dict[Id, int] = field(default_factory=lambda: defaultdict(count().__next__))
    push: ForwardPush = field(init=False)
    number_at: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))

    def number(self, ids: Iterable[Id]) -> list[int]:
        """Return the node numbers of artifacts without duplicates; a new one gets the next number."""
        return list(map(self.numbers.__getitem__, dict.fromkeys(ids)))

    def numbers_of(self, ids: Iterable[Id]) -> NDArray[np.intp]:
        """Return the node numbers of artifacts."""
        return np.fromiter(map(self.numbers.__getitem__, ids), np.intp)


State: TypeAlias = WalkState[PushMemory]


@dataclass(frozen=True, kw_only=True)
class PersonalizedPageRank(SearchParameters, SearchingPolicy[PushMemory]):
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
            By default `"hybrid"`, or the one channel that the store has. Several ways: see `SearchParameters`.
        roots: Ids of further artifacts to start from; in several corpora, `(source, id)` pairs. The walk raises a
            `NoLedgerEntry` if one does not exist.
        edges: Fields to follow instead of links; see `SearchParameters`. Ids without an artifact are no neighbours.
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
    _memory = PushMemory

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

    async def seed(self, state: State, store: Walkable) -> list[ArtifactNode]:
        """Return the artifacts with mass: from the search, the roots and the query's names."""
        memory = state.memory
        if self.edges is not None:
            require(store, "matching", self._name, "edges=...")
        masses = {id: mass for id, mass in (await self._masses(state, store)).items() if mass}
        if self._reads_fields:
            await self._read_surfaces(state, list(masses), store)
            for id in compress(list(masses), self._are_excluded(state, list(masses))):
                del masses[id]
        if masses:
            memory.number(masses)
            memory.push = ForwardPush.start(list(masses.values()), self.restart)
        return list(map(ArtifactNode, masses))

    @override
    def _ask_surfaces(self, state: State, of: Sequence[Id] | Ends, limit: int | None) -> list[Part]:
        # Without a scope, an artifact is compared with the query only when it is a hit.
        if isinstance(of, Ends) and self.scope == ALLOW_ALL:
            return []
        return super()._ask_surfaces(state, of, limit)

    async def _masses(self, state: State, corpus: Walkable) -> dict[Id, float]:
        """Return the mass of each seed, in order of discovery.

        The artifacts that the query names take two more store calls.
        """
        memory, filter = state.memory, self.scope.start_filter
        k = self.seed_k if self.search_weight else 0
        found_ids = await find_start(memory, corpus, self._name, k=k, seeding=self.seeding, filter=filter)
        roots = find_roots(memory, self.roots, corpus)
        await self._read_start(state, list(dict.fromkeys([*found_ids, *roots])), corpus)
        shares = np.ones(len(found_ids))
        if self.weighting == "score" and found_ids:
            await self._read_scores(state, found_ids, corpus)
            shares = _scale(memory.cosines(found_ids))
        masses = defaultdict[Id, float](float)
        masses.update(zip(found_ids, (self.search_weight * shares).tolist(), strict=True))
        for id in roots:
            masses[id] += 1
        if self.title_weight:
            require(corpus, "names", self._name, "title_weight=...")
            require(corpus, "links", self._name, "title_weight=...")
            names = await artifacts_in_query(memory.query, corpus.store)
            ids = list(dict.fromkeys(chain.from_iterable(names)))
            referrers = await ask(corpus.store, Referrers(ids)) if ids else []
            fan_in = {id: len(own) for id, own in zip(ids, referrers, strict=True)}
            for artifacts in names:
                for id in artifacts:
                    masses[id] += self.title_weight / (len(artifacts) * max(1, fan_in[id]))
        return masses

    async def score(self, state: State, nodes: Sequence[ArtifactNode], store: Walkable) -> NDArray[np.float64]:
        """Score by the lower bound at discovery; no store call without a scope."""
        if self.scope != ALLOW_ALL:
            await self._read_surfaces(state, list(dict.fromkeys(ids_of(nodes))), store)
        return self.value(state, nodes)

    def value(self, state: State, nodes: Sequence[ArtifactNode]) -> NDArray[np.float64]:
        """Return the lower bound of each node; none is explored, so none has an estimate yet."""
        memory = state.memory
        return self.restart * memory.push.residual[memory.numbers_of(ids_of(nodes))]

    def select(self, state: State, frontier: Frontier) -> NDArray[np.intp]:
        """Commit the `width` artifacts with the largest residuals; ties in order of discovery."""
        memory, live = state.memory, self._selectable(state, frontier)
        new_numbers = memory.numbers_of(frontier.ids[len(memory.number_at) : len(frontier.ids)])
        memory.number_at = np.concatenate([memory.number_at, new_numbers])
        return live[best_first(memory.push.residual[memory.number_at[live]], self.width)]

    @override
    async def _find_edges(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> Sequence[EdgeRow]:
        # The push needs all neighbours, also those that a limit will keep out of the walk. One store call for links,
        # two for fields.
        memory, rows = state.memory, await super()._find_edges(state, committed, store)
        if self.edges is not None:
            # Ids without a record lead nowhere and are no hits.
            await self._read_scores(state, list(dict.fromkeys(id for row in rows for id in row.ends)), store)
            rows = [row.pick([at for at, id in enumerate(row.ends) if memory.has_surface(id)]) for row in rows]
        if committed:
            ids = [entry.node.id for entry in committed]
            is_long = len(memory.push.targets) + sum(map(len, rows)) > _OFFLOAD_ABOVE
            memory.push = await offload_if(is_long, _explore, memory, ids, [row.ends for row in rows])
        return rows

    @override
    async def _read_hits(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> None:
        # Without a scope, only hits are compared with the query.
        await super()._read_hits(state, committed, store)
        await self._read_surfaces(state, [entry.id for entry in committed], store)

    @override
    def _hit_scores(self, state: State, committed: Sequence[CommittedNode]) -> list[float]:
        bounds: list[float] = self.value(state, [entry.node for entry in committed]).tolist()
        return bounds

    def rank(self, state: State, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """Return the hits by their last estimate, with bounds and proven ranks in their metadata."""
        if not hits:
            return []
        # 1. Push what is left at explored nodes: this makes the bounds as narrow as the exploration allows.
        memory = state.memory
        push = memory.push.push_fully()
        # An artifact may be its own neighbour only if `edges` name ids.
        edges = self.edges or ()
        bounds = push.bounds(may_loop=callable(edges) or any(to_field == ID for _, to_field in edges))
        # 2. Score. The number of neighbours of an unexplored node is unknown. With `degree_exponent`, its lower bound
        #    is therefore 0, and its upper bound is that of a node with one neighbour.
        divisors = np.maximum(push.degrees, 1.0) ** self.degree_exponent
        scores = bounds.lower / divisors
        lowest = scores if self.degree_exponent == 0 else np.where(push.explored, scores, 0.0)
        score_bounds = Bounds(lowest, bounds.upper / divisors, bounds.unseen)
        # 3. Rank by rounded scores, so that values that are equal but for rounding are ties.
        numbers = memory.numbers_of(node_of_hit(hit, memory.numbers) for hit in hits)
        order = np.argsort(-np.round(scores[numbers], _DIGITS), kind="stable")
        ranked = numbers[order]
        # 4. Find the hits whose rank is proven against the other hits and all artifacts that may become hits.
        rivals = _rivals(memory, numbers, len(scores))
        is_final = is_among_first(score_bounds, ranked, rivals, self.certify_k)
        is_final |= has_final_rank(score_bounds, ranked, rivals)
        columns = [order, scores[ranked], bounds.lower[ranked], bounds.upper[ranked], is_final]
        ranking = []
        for index, score, lower, upper, final in zip(*(column.tolist() for column in columns), strict=True):
            facts = {"ppr_lower": lower, "ppr_upper": upper, "rank_final": final}
            ranking.append(replace(hits[index], score=score, metadata=with_facts(hits[index].metadata, facts)))
        return ranking


def _explore(memory: PushMemory, ids: Sequence[Id], neighbors: Sequence[Sequence[Id]]) -> ForwardPush:
    """Number the neighbours of artifacts, without duplicates, and push on."""
    targets = [memory.number(own) for own in neighbors]
    return memory.push.explore(memory.number(ids), targets, len(memory.numbers)).push_roughly()


def _scale(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale scores to 0 for the lowest and 1 for the highest.

    All are 1 if they are equal. An infinite score, of an artifact without surfaces, becomes 0.
    """
    is_finite = np.isfinite(scores)
    low, high = scores[is_finite].min(initial=np.inf), scores[is_finite].max(initial=-np.inf)
    return np.where(is_finite, (scores - low) / (high - low) if high > low else 1.0, 0.0)


def _rivals(memory: PushMemory, ranked: NDArray[np.intp], count: int) -> NDArray[np.bool_]:
    """Return the artifacts that are not ranked and may become hits, `(count,) bool`."""
    rivals = np.ones(count, np.bool_)
    for id in memory.best_surfaces.keys() & memory.numbers.keys():
        # The others that were read are routers.
        rivals[memory.numbers[id]] = memory.has_surface(id) and memory.permissions_of(id).keep
    rivals[ranked] = False
    return rivals

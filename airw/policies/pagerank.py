"""Personalised PageRank, as far as the walk has come, with bounds on how far off it may be."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_choice, check_count, check_weight
from airw._base.concurrency import offload_if
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw._base.vectors import best_first
from airw.errors import ArgumentError
from airw.policies._capabilities import Walkable, require
from airw.policies._forward_push import ROUNDING, Bounds, Push, are_final, are_first
from airw.policies._seeding import find_start, named_artifacts
from airw.policies._several_corpora import Id, root_ids
from airw.policies._shared_fields import ID
from airw.policies.artifact_memory import ArtifactMemory, node_of_hit
from airw.policies.artifact_policy import ArtifactNode, ArtifactPolicy
from airw.policies.scope import ALLOW_ALL
from airw.protocols import OpenCorpus
from airw.values import Direction, SearchHit
from airw.walking import CommittedNode, Frontier, WalkState

Weighting: TypeAlias = Literal["uniform", "score"]
_WEIGHTINGS: tuple[Weighting, ...] = ("uniform", "score")
_TOLD = ("ppr_lower", "ppr_upper", "rank_final")
_MANY = 5_000  # neighbours, numbered and pushed to in about a millisecond
_DIGITS = -round(math.log10(ROUNDING))


@dataclass(slots=True, eq=False)
class PushMemory(ArtifactMemory):
    """What one walk remembers besides: how far the walker has come.

    Args:
        numbers: The number of each artifact that was heard of, in that order.
        push: The mass at each number; there is none where the walk has no seeds.
        at_positions: The number of the artifact at each position.
    """

    numbers: dict[Id, int] = field(default_factory=dict)
    push: Push = field(init=False)
    at_positions: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))

    def numbers_of(self, ids: Sequence[Id]) -> NDArray[np.intp]:
        """Return the numbers of artifacts that were heard of."""
        return np.fromiter(map(self.numbers.__getitem__, ids), np.intp, len(ids))


State: TypeAlias = WalkState[PushMemory]


@dataclass(frozen=True, kw_only=True)
class PersonalizedPageRank(ArtifactPolicy[PushMemory]):
    """Rank artifacts by where a random walker is found that starts again and again from the seeds.

    With probability `1 - restart` it goes on from an artifact to one of its distinct neighbours, each as likely as the
    others; else, or where there is none, it starts again (Page, Brin, Motwani and Winograd, 1999; as networkx has it).
    Each step explores the `width` artifacts from where most has still to walk, ties in order of discovery, by forward
    push (Andersen, Chung and Lang, FOCS 2006). Artifacts without surfaces only route.

    Hits stream in that order with a lower bound as score; neither is final. `walk.ranking` is by the last estimates,
    highest first, ties in order of commitment; they are exact where a walk ends because nothing is left. In its
    metadata, `ppr_lower` and `ppr_upper` say between what the exact value in the whole graph lies, seen or not, and
    `rank_final` whether such bounds prove that a hit is one of the first `certify_k` among all that may be returned, or
    has this very place. All is meant to 1e-12. What a look past the edge finds (see `Limits`) counts too.

    The masses of the seeds are added up by artifact. The seeding of HippoRAG 2 (Gutiérrez et al., ICML 2025), with
    names in the place of phrases, is `weighting="score", search_weight=0.05, title_weight=1`.

    Args:
        restart: The probability to start again at each step, between 0 and 1; 0.5 keeps near the seeds.
        seed_k: Artifacts to start from, found by search; 0 for `roots`, or for what the query names, alone.
        width: Artifacts explored per step.
        certify_k: Say of hits whether they are proven to be among so many; the first soon are, the last late.
        degree_exponent: Rank by the estimate, divided by the number of neighbours to this power: above 0 hubs sink. The
            order of the walk, and the bounds in the metadata, are without it.
        weighting: An artifact found by search weighs `search_weight`, or with `"score"` that times its cosine to the
            query, scaled to 0 for the lowest that was found (which is no seed then) and 1 for the highest.
        search_weight: What the search's artifacts weigh, where each of the `roots` weighs 1.
        title_weight: What each name in the query weighs, divided by the number of artifacts that carry it, and for each
            of these by how many others link to it.
        seeding: What finds the start: `"dense"`, `"lexical"` or `"hybrid"` search, or `"titles"` in the query.
        roots: Ids of artifacts to start from besides those found; of several corpora, `(source, id)` pairs.
        edges: Instead of links, fields that lead on; see `ArtifactPolicy`. Ids that lead nowhere are no neighbours.
        direction: Follow links `"out"`, `"in"` (backlinks) or `"both"`.
        types: Follow links of these types only; `None` for all.
        scope: What may be started from, crossed and returned. What may not be started from is no seed; the walker
            whose way is measured crosses everything.
        max_depth: The depth cap when the caller of `traverse` names none; `None` for none.

    Raises:
        ArgumentError: A parameter cannot be used.

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

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        super().__post_init__()
        check_count("seed_k", self.seed_k)
        check_count("width", self.width, least=1)
        check_count("certify_k", self.certify_k)
        check_choice("weighting", self.weighting, _WEIGHTINGS)
        for name in ("restart", "degree_exponent", "search_weight", "title_weight"):
            check_weight(name, getattr(self, name))
        if not 0 < self.restart < 1:
            raise ArgumentError(f"restart must lie between 0 and 1, not {short_repr(self.restart)}")

    @override
    def begin(self, state: State) -> PushMemory:
        return PushMemory(state.query, self.scope, self._reads_fields)

    async def seed(self, state: State, store: Walkable) -> list[ArtifactNode]:
        """Return what has mass: what is found by search, the roots, what the query names; each once, in this order."""
        memory = state.memory
        if self.edges is not None:
            require(store, "matching", self._name, "edges=...")
        masses = {id: mass for id, mass in (await self._masses(memory, store)).items() if mass}
        if self._reads_fields:
            await memory.score(list(masses), store)
            await memory.judge(list(masses), store)
            excluded = self._are_excluded(state, list(masses))
            masses = {id: mass for (id, mass), out in zip(masses.items(), excluded, strict=True) if not out}
        if masses:
            memory.numbers = {id: at for at, id in enumerate(masses)}
            memory.push = Push.start(list(masses.values()), self.restart)
        return [ArtifactNode(id) for id in masses]

    async def _masses(self, memory: PushMemory, corpus: Walkable) -> dict[Id, float]:
        """Return the mass of each seed, in order of discovery."""
        k = self.seed_k if self.search_weight else 0
        found = await find_start(memory, corpus, self._name, k=k, seeding=self.seeding, filter=self.scope.of_starts)
        shares = np.ones(len(found))
        if self.weighting == "score" and found:
            shares = _scale(await memory.score(found, corpus))
        masses = defaultdict[Id, float](float)
        for id, share in zip(found, shares.tolist(), strict=True):
            masses[id] += self.search_weight * share
        for id in root_ids(self.roots, corpus):
            masses[id] += 1
        if self.title_weight:
            await self._weigh_names(masses, memory.query, corpus)
        return masses

    async def _weigh_names(self, masses: dict[Id, float], query: str, corpus: OpenCorpus[object]) -> None:
        """Add the mass of what the query names; two store calls."""
        links = require(corpus, "resolve", self._name, "title_weight=...")
        require(corpus, "fan_in", self._name, "title_weight=...")
        named = await named_artifacts(query, links)
        ids = list(dict.fromkeys(id for meant in named for id in meant))
        linking = dict(zip(ids, await links.fan_in(ids), strict=True)) if ids else {}
        for meant in named:
            for id in meant:
                masses[id] += self.title_weight / (len(meant) * max(1, linking[id]))

    async def score(self, state: State, nodes: Sequence[ArtifactNode], store: Walkable) -> NDArray[np.float64]:
        """Score by the lower bound at discovery; no store call without a scope."""
        if self.scope != ALLOW_ALL:
            await super().score(state, nodes, store)
        return self._lower_bounds(state.memory, [node.id for node in nodes])

    def _lower_bounds(self, memory: PushMemory, ids: Sequence[Id]) -> NDArray[np.float64]:
        return self.restart * memory.push.residual[memory.numbers_of(ids)]

    def select(self, state: State, frontier: Frontier) -> NDArray[np.intp]:
        """Commit the `width` largest residuals, ties in order of discovery."""
        memory, live = state.memory, self._selectable(state, frontier)
        fresh = memory.numbers_of(frontier.ids[len(memory.at_positions) : len(frontier.ids)])
        memory.at_positions = np.concatenate([memory.at_positions, fresh])
        return live[best_first(memory.push.residual[memory.at_positions[live]], self.width)]

    @override
    async def _neighbors(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[ArtifactNode]]:
        # All neighbours of each one, from where it is pushed on; one store call for links, two for fields.
        memory, found = state.memory, await super()._neighbors(state, committed, store)
        if self.edges is not None:
            found = await _leave_out_unknown(memory, found, store)
        if committed:
            ids = [entry.node.id for entry in committed]
            is_long = len(memory.push.targets) + sum(map(len, found)) > _MANY
            memory.push = await offload_if(is_long, _push_on, memory, ids, found)
        return found

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface, with the lower bound as score; at most two store calls."""
        ids = [entry.node.id for entry in committed]
        await state.memory.score(ids, store)
        scores = self._lower_bounds(state.memory, ids).tolist()
        scored = [entry._replace(score=score) for entry, score in zip(committed, scores, strict=True)]
        return await super().to_hits(state, scored, store)

    def rank(self, state: State, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """Order by the last estimate, and write into hits how far off it may be and which places are proven."""
        if not hits:
            return []
        memory = state.memory
        push, at = memory.push.settled(), memory.numbers_of([node_of_hit(hit, memory.numbers) for hit in hits])
        bounds = push.bounds(may_loop=self._may_loop)
        scores, ranked = self._by_degree(push, bounds)
        order = np.argsort(-np.round(scores[at], _DIGITS), kind="stable")
        rivals = _rivals(memory, at, len(scores))
        finals = are_first(ranked, at[order], rivals, self.certify_k) | are_final(ranked, at[order], rivals)
        columns = [column[at[order]].tolist() for column in (scores, bounds.lower, bounds.upper)]
        rows = zip([hits[number] for number in order.tolist()], *columns, finals.tolist(), strict=True)
        return [
            replace(hit, score=score, metadata=hit.metadata | dict(zip(_TOLD, said, strict=True)))
            for hit, score, *said in rows
        ]

    def _by_degree(self, push: Push, bounds: Bounds) -> tuple[NDArray[np.float64], Bounds]:
        """Return what is ranked by, and its bounds; who was not explored may have any number of neighbours, but one."""
        counts = push.neighbor_counts()
        power = np.maximum(counts, 1.0) ** self.degree_exponent
        scores = bounds.lower / power
        is_sure = (counts >= 0) | (self.degree_exponent == 0)
        return scores, Bounds(np.where(is_sure, scores, 0.0), bounds.upper / power, bounds.unseen)

    @property
    def _may_loop(self) -> bool:
        """Whether an artifact may be its own neighbour: links never lead back, nor does a shared value."""
        return self.edges is not None and (callable(self.edges) or any(there == ID for _, there in self.edges))


def _push_on(memory: PushMemory, ids: Sequence[Id], found: Sequence[Sequence[ArtifactNode]]) -> Push:
    """Number what was found behind some artifacts, each once, and push on."""
    numbers = memory.numbers
    ends = [dict.fromkeys(node.id for node in nodes) for nodes in found]
    neighbors = [[numbers.setdefault(id, len(numbers)) for id in each] for each in ends]
    return memory.push.explore([numbers[id] for id in ids], neighbors, len(numbers)).pushed_on()


async def _leave_out_unknown(
    memory: PushMemory, found: Sequence[Sequence[ArtifactNode]], corpus: Walkable
) -> list[list[ArtifactNode]]:
    """Leave out ends without a record, which lead nowhere and are no hits; one store call."""
    await memory.score(list(dict.fromkeys(node.id for nodes in found for node in nodes)), corpus)
    return [[node for node in nodes if memory.has_surface(node.id)] for nodes in found]


def _scale(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale to 0 for the lowest and 1 for the highest; 1 where all are equal, 0 for what has no score."""
    known = np.isfinite(scores)
    low, high = scores[known].min(initial=np.inf), scores[known].max(initial=-np.inf)
    return np.where(known, (scores - low) / (high - low) if high > low else 1.0, 0.0)


def _rivals(memory: PushMemory, ranked: NDArray[np.intp], count: int) -> NDArray[np.bool_]:
    """Return which of the known artifacts may be returned and are not ranked."""
    numbers = memory.numbers
    routers = [id for id in memory.best if not (memory.has_surface(id) and memory.verdict(id).keep)]
    rivals = np.ones(count, np.bool_)
    rivals[ranked] = False
    rivals[[numbers[id] for id in routers if id in numbers]] = False
    return rivals

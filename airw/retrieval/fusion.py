"""Reciprocal rank fusion: one ranking from several, by rank and never by score.

Each list gives every hit `weight / (rrf_k + rank)`, ranks counted from 1; a hit's mass is the sum over the lists
(Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
SIGIR 2009).
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar

from airw._base.checks import check_count, check_weight
from airw.errors import ArgumentError
from airw.values import SearchHit

Key = TypeVar("Key", bound=Hashable)
HitsBySource: TypeAlias = Mapping[str | None, Sequence[SearchHit]] | Mapping[str, Sequence[SearchHit]]
Identity: TypeAlias = Callable[[SearchHit], Any] | Literal["pointer"] | None
"""What makes hits of different sources the same thing."""


def fuse_ranks(
    rankings: Sequence[Sequence[Key]], *, rrf_k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[Key, float]]:
    """Fuse rankings of keys into `(key, mass)` pairs, largest mass first; ties in order of first appearance.

    Args:
        rankings: Each best first; a key counts once in each, at its best rank.
        rrf_k: The rank constant; larger flattens the difference between ranks.
        weights: One factor a ranking; 1.0 each when left out.

    Raises:
        ArgumentError: `rrf_k` or the number of weights cannot be used.

    Example:
        >>> [(key, round(mass, 4)) for key, mass in fuse_ranks([["a", "b"], ["b"]])]
        [('b', 0.0325), ('a', 0.0164)]
    """
    check_count("rrf_k", rrf_k)
    factors = [1.0] * len(rankings) if weights is None else weights
    if len(factors) != len(rankings):
        raise ArgumentError(f"weights must hold one factor a ranking: {len(rankings)}, not {len(factors)}")
    mass: dict[Key, float] = {}
    for ranking, weight in zip(rankings, factors, strict=True):
        for rank, key in enumerate(dict.fromkeys(ranking), start=1):
            mass[key] = mass.get(key, 0.0) + weight / (rrf_k + rank)
    return sorted(mass.items(), key=lambda pair: -pair[1])


def tag_source(hits: Iterable[SearchHit], source: str | None) -> list[SearchHit]:
    """Give the hits with `source` filled in where they have none; existing sources win.

    Example:
        >>> [hit.source for hit in tag_source([SearchHit("a", "document", 1.0, "")], "notes")]
        ['notes']
    """
    return [hit if hit.source is not None or source is None else replace(hit, source=source) for hit in hits]


@dataclass(slots=True)
class FusedEntry:
    """What is known of one identity over all lists.

    Args:
        key: What it is known by: `hit.key`, or its identity.
        rank: The best of its ranks, from 1.
        position: The list of that rank, by its place among all lists; the first of several.
        hit: The hit there.
        mass: The sum of its reciprocal ranks.
        sources: The names of the lists that hold it, in their order.
    """

    key: Hashable
    rank: int
    position: int
    hit: SearchHit
    mass: float = 0.0
    sources: list[str | None] = field(default_factory=list)

    @property
    def place(self) -> tuple[float, int, int, str]:
        """Give what the order goes by: mass, best rank, the order of the lists, the artifact id."""
        return -self.mass, self.rank, self.position, self.hit.artifact_id


def fuse_hits(
    hits_by_source: HitsBySource,
    *,
    rrf_k: int = 60,
    weights: Mapping[str, float] | None = None,
    identity: Identity = None,
    k: int | None = None,
) -> list[SearchHit]:
    """Fuse ranked hits of several sources into one ranking by weighted reciprocal rank.

    Within a source, hits of one artifact (and of one identity) collapse to their best raw score first. The fused hit
    is the one with the best rank, then the earlier source; its metadata gains `source_score`, `source_rank` and, where
    several sources gave it, `fused_sources`. A single source that answers passes through with its raw scores.

    Args:
        hits_by_source: Ranked hits by source name; `None` names hits that stay unattributed.
        rrf_k: The rank constant.
        weights: A factor for each source, 1.0 where not named; names that are not among the sources are ignored.
        identity: What makes hits of different sources the same thing: `"pointer"`, a function of a hit whose falsy
            answer means itself alone, or `None` for never.
        k: Keep this many hits.

    Returns:
        Hits, largest mass first; ties by best rank, then the order of the sources, then the artifact id.

    Raises:
        ArgumentError: `rrf_k`, a weight, `identity` or `k` cannot be used.

    Example:
        >>> a = [SearchHit("x", "document", 0.9, ""), SearchHit("y", "document", 0.8, "")]
        >>> b = [SearchHit("z", "document", 12.0, "")]
        >>> [(hit.source, hit.artifact_id) for hit in fuse_hits({"a": a, "b": b})]
        [('a', 'x'), ('b', 'z'), ('a', 'y')]
    """
    if k is not None:
        check_count("k", k)
    ordered = fuse_entries(hits_by_source, rrf_k=rrf_k, weights=weights, identity=identity)
    if sum(map(bool, hits_by_source.values())) <= 1:
        return [entry.hit for entry in sorted(ordered, key=lambda entry: entry.rank)][:k]
    return [_as_hit(entry) for entry in ordered[:k]]


def fuse_entries(
    hits_by_source: HitsBySource,
    *,
    rrf_k: int = 60,
    weights: Mapping[str, float] | None = None,
    identity: Identity = None,
) -> list[FusedEntry]:
    """Give what `fuse_hits` makes its hits of, in its order; a lone list is fused like any other.

    Raises:
        ArgumentError: As `fuse_hits`.
    """
    check_count("rrf_k", rrf_k)
    identify = _identity(identity)
    factors = _check_weights(weights or {})
    found: dict[Hashable, FusedEntry] = {}
    for position, (source, given) in enumerate(hits_by_source.items()):
        weight = factors.get(source, 1.0) if source is not None else 1.0
        for rank, hit in enumerate(_collapsed(tag_source(given, source), identify), start=1):
            key = _key(hit, identify)
            entry = found.setdefault(key, FusedEntry(key, rank, position, hit))
            if rank < entry.rank:
                entry.rank, entry.position, entry.hit = rank, position, hit
            entry.mass += weight / (rrf_k + rank)
            entry.sources.append(source)
    return sorted(found.values(), key=lambda entry: entry.place)


def _as_hit(entry: FusedEntry) -> SearchHit:
    metadata = {**entry.hit.metadata, "source_score": entry.hit.score, "source_rank": entry.rank}
    if len(entry.sources) > 1:
        metadata["fused_sources"] = entry.sources
    return replace(entry.hit, score=entry.mass, metadata=metadata)


def _collapsed(hits: list[SearchHit], identify: Callable[[SearchHit], Any]) -> list[SearchHit]:
    """Keep the best hit of each artifact, then the first of each identity, best first."""
    best: dict[Hashable, SearchHit] = {}
    for hit in hits:
        held = best.get(hit.key)
        if held is None or _worth(hit) > _worth(held):
            best[hit.key] = hit
    kept: dict[Hashable, SearchHit] = {}
    for hit in sorted(best.values(), key=_worth, reverse=True):
        kept.setdefault(_key(hit, identify), hit)
    return list(kept.values())


def _worth(hit: SearchHit) -> float:
    """Give the score to order by: one that is not a number comes last."""
    return -math.inf if math.isnan(hit.score) else hit.score


def _key(hit: SearchHit, identify: Callable[[SearchHit], Any]) -> Hashable:
    known = identify(hit)
    if not known:
        return hit.key
    try:
        hash(known)
    except TypeError:
        raise ArgumentError(f"identity must give something hashable, not {known!r}") from None
    return "identity", known


def _identity(identity: object) -> Callable[[SearchHit], Any]:
    if identity is None:
        return lambda _hit: None
    if identity == "pointer":
        return lambda hit: hit.pointer
    if callable(identity):
        return identity
    raise ArgumentError(f"identity must be None, 'pointer' or a function of a hit, not {identity!r}")


def _check_weights(weights: Mapping[str, float]) -> Mapping[str, float]:
    for source, weight in weights.items():
        check_weight(f"the weight of {source!r}", weight)
    return weights

"""Reciprocal rank fusion (RRF): one ranking from several, by rank and not by score.

A hit gets `weight / (rrf_k + rank)` from each list that contains it, with ranks counted from 1. The sum is its RRF
score. Ranks can be compared even if the scores of the lists are on different scales. See Cormack, Clarke and Büttcher,
"Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods", SIGIR 2009.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal, TypeAlias, TypeVar

from airw._base.checks import check_count, check_kind, check_weight
from airw._base.messages import short_repr
from airw._base.slices import sort_in_slices
from airw.errors import ArgumentError
from airw.values import SearchHit, check_hit
from airw.values.hits import with_facts

_IDENTITY = object()

Key = TypeVar("Key", bound=Hashable)
HitsBySource: TypeAlias = Mapping[str | None, Sequence[SearchHit]] | Mapping[str, Sequence[SearchHit]]
Identity: TypeAlias = Callable[[SearchHit], Any] | Literal["pointer"] | None
"""The rule that decides whether hits of different sources are the same thing."""


def fuse_ranks(
    rankings: Sequence[Sequence[Key]], *, rrf_k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[Key, float]]:
    """Fuse rankings of keys into `(key, RRF score)` pairs, largest score first.

    Args:
        rankings: Lists of keys, best first. A key counts once in each list, at its best rank.
        rrf_k: The rank constant; a larger one makes the difference between ranks smaller.
        weights: One factor for each ranking; 1.0 by default.

    Returns:
        Pairs, largest score first; ties in order of first appearance.

    Raises:
        ArgumentError: If `rrf_k` or the number of weights cannot be used.

    Example:
        >>> [(key, round(score, 4)) for key, score in fuse_ranks([["a", "b"], ["b"]])]
        [('b', 0.0325), ('a', 0.0164)]
    """
    check_count("rrf_k", rrf_k)
    factors = [1.0] * len(rankings) if weights is None else weights
    if len(factors) != len(rankings):
        raise ArgumentError(f"weights must contain one factor for each of {len(rankings)} rankings, not {len(factors)}")
    scores: defaultdict[Key, float] = defaultdict(float)
    for ranking, weight in zip(rankings, factors, strict=True):
        for rank, key in enumerate(dict.fromkeys(ranking), start=1):
            scores[key] += weight / (rrf_k + rank)
    return sort_in_slices(scores.items(), key=lambda pair: -pair[1])


def tag_source(hits: Iterable[SearchHit], source: str | None) -> list[SearchHit]:
    """Return the hits with `source` filled in where it is missing; existing sources stay.

    Example:
        >>> [hit.source for hit in tag_source([SearchHit("a", "document", 1.0, "")], "notes")]
        ['notes']
    """
    return [hit if hit.source is not None or source is None else replace(hit, source=source) for hit in hits]


@dataclass(slots=True)
class FusedEntry:
    """An entry of a fused ranking: the best hit of a thing, and its RRF score.

    Args:
        key: The key that hits are merged by: `hit.key`, or the identity.
        rank: Its best rank in any list, from 1.
        position: The position of the list with that rank; the first one on a tie.
        hit: The hit with that rank in that list.
        rrf_score: The sum of its weighted reciprocal ranks.
        sources: The names of the lists that contain it, in their order.
    """

    key: Hashable
    rank: int
    position: int
    hit: SearchHit
    rrf_score: float = 0.0
    sources: list[str | None] = field(default_factory=list)


def fuse_hits(
    hits_by_source: HitsBySource,
    *,
    rrf_k: int = 60,
    weights: Mapping[str, float] | None = None,
    identity: Identity = None,
    k: int | None = None,
) -> list[SearchHit]:
    """Fuse the ranked hits of several sources into one ranking by weighted reciprocal rank.

    Within a source, hits of one artifact or one identity first collapse to the hit with the best raw score. If several
    sources return the same artifact or identity, the fused hit is the one with the best rank; on a tie, the one of the
    earlier source. Its metadata gain `source_score`, `source_rank` and, if several sources returned it,
    `fused_sources`. If only one source has hits, they pass through with their raw scores.

    Args:
        hits_by_source: Ranked hits by source name; hits under `None` stay without a source.
        rrf_k: The rank constant.
        weights: A factor for each source, 1.0 if it is not named; names of other sources are ignored.
        identity: Decides whether hits of different sources are the same thing: `"pointer"` compares pointers, a
            function of a hit compares what it returns (a falsy value means the hit is only itself), and `None` keeps
            all of them apart.
        k: Return at most this many hits.

    Returns:
        Hits, largest RRF score first; ties by best rank, then the order of the sources, then the artifact id.

    Raises:
        ArgumentError: If `rrf_k`, a weight, `identity` or `k` cannot be used, or something is no hit.

    Example:
        >>> a = [SearchHit("x", "document", 0.9, ""), SearchHit("y", "document", 0.8, "")]
        >>> b = [SearchHit("z", "document", 12.0, "")]
        >>> [(hit.source, hit.artifact_id) for hit in fuse_hits({"a": a, "b": b})]
        [('a', 'x'), ('b', 'z'), ('a', 'y')]
    """
    if k is not None:
        check_count("k", k)
    entries = fuse_entries(hits_by_source, rrf_k=rrf_k, weights=weights, identity=identity)
    # Ranks of a single list add nothing to its order, so its raw scores, which mean more, stay.
    if sum(map(bool, hits_by_source.values())) <= 1:
        return [entry.hit for entry in entries[:k]]
    fused = []
    for entry in entries[:k]:
        facts: dict[str, Any] = {"source_score": entry.hit.score, "source_rank": entry.rank}
        if len(entry.sources) > 1:
            facts["fused_sources"] = entry.sources
        fused.append(replace(entry.hit, score=entry.rrf_score, metadata=with_facts(entry.hit.metadata, facts)))
    return fused


def merge_copies(hits: Iterable[SearchHit], identity: Identity) -> list[SearchHit]:
    """Return the first hit of each thing, in order.

    The metadata of a hit whose copies are dropped gain `fused_sources`, the sources of all of them.

    Args:
        hits: Ranked hits.
        identity: Decides which hits are the same thing, as in `fuse_hits`.

    Raises:
        ArgumentError: If `identity` cannot be used.
    """
    if identity is None:
        return list(hits)
    key_of = _merge_key(identity)
    copies: defaultdict[Hashable, list[SearchHit]] = defaultdict(list)
    for hit in hits:
        copies[key_of(hit)].append(hit)
    merged = []
    for same in copies.values():
        first = same[0]
        if len(same) > 1:
            sources = list(dict.fromkeys(hit.source for hit in same))
            first = replace(first, metadata=with_facts(first.metadata, {"fused_sources": sources}))
        merged.append(first)
    return merged


def fuse_entries(
    hits_by_source: HitsBySource,
    *,
    rrf_k: int = 60,
    weights: Mapping[str, float] | None = None,
    identity: Identity = None,
) -> list[FusedEntry]:
    """Return the entries behind the hits of `fuse_hits`, in the same order.

    A single list is fused like any other.

    Raises:
        ArgumentError: As `fuse_hits`.
    """
    check_count("rrf_k", rrf_k)
    check_kind("hits_by_source", hits_by_source, Mapping, "be a mapping of sources to their hits")
    key_of = _merge_key(identity)
    factors: dict[str | None, float] = {
        source: check_weight(f"weights[{source!r}]", weight) for source, weight in (weights or {}).items()
    }
    entries: dict[Hashable, FusedEntry] = {}
    for position, (source, hits) in enumerate(hits_by_source.items()):
        check_kind(f"hits_by_source[{short_repr(source)}]", hits, Iterable, "be a list of hits")
        checked = [hit if type(hit) is SearchHit and type(hit.score) is float else check_hit(hit) for hit in hits]
        weight = factors.get(source, 1.0)
        for rank, (key, hit) in enumerate(_collapse(tag_source(checked, source), key_of), start=1):
            entry = entries.setdefault(key, FusedEntry(key, rank, position, hit))
            # Lists are visited in order, so a strict comparison keeps the earlier source on equal ranks.
            if rank < entry.rank:
                entry.rank, entry.position, entry.hit = rank, position, hit
            # Copies in several sources add up: agreement between sources is the evidence that RRF rewards.
            entry.rrf_score += weight / (rrf_k + rank)
            entry.sources.append(source)
    return sorted(
        entries.values(), key=lambda entry: (-entry.rrf_score, entry.rank, entry.position, entry.hit.artifact_id)
    )


def _collapse(
    hits: Iterable[SearchHit], key_of: Callable[[SearchHit], Hashable]
) -> Iterable[tuple[Hashable, SearchHit]]:
    """Return the best hit of each artifact and of each identity with its key, best first.

    Without this, an artifact with many matching surfaces would take several ranks of its list.
    """
    best: dict[Hashable, SearchHit] = {}
    for hit in hits:
        best[hit.key] = max(best.get(hit.key, hit), hit, key=_comparable_score)
    merged: dict[Hashable, SearchHit] = {}
    for hit in sorted(best.values(), key=_comparable_score, reverse=True):
        merged.setdefault(key_of(hit), hit)
    return merged.items()


def _comparable_score(hit: SearchHit) -> float:
    """Return the score, or minus infinity for NaN, so that NaN comes last."""
    return -math.inf if math.isnan(hit.score) else hit.score


def _merge_key(identity: Identity) -> Callable[[SearchHit], Hashable]:
    """Return the function that returns what a hit is merged by: its identity or key."""
    identify: Callable[[SearchHit], Any]
    if identity is None:
        return attrgetter("key")
    if identity == "pointer":
        identify = attrgetter("pointer")
    elif callable(identity):
        identify = identity
    else:
        raise ArgumentError(f"identity must be None, 'pointer' or a function of a hit, not {short_repr(identity)}")

    def key_of(hit: SearchHit) -> Hashable:
        thing = identify(hit)
        if not thing:
            return hit.key
        try:
            hash(thing)
        except TypeError:
            raise ArgumentError(f"identity must return a hashable value, not {short_repr(thing)}") from None
        # The tag keeps identities apart from the `(source, artifact_id)` keys of hits: no source can have its name.
        return _IDENTITY, thing

    return key_of

"""The start of a walk: artifacts that a search finds or the query names, and roots."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, cast

from airw._base.checks import check_choice
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.policies._capabilities import has_method, require
from airw.policies._roots import find_roots, require_query
from airw.policies._several_corpora import Id
from airw.policies.artifact_memory import ArtifactMemory
from airw.protocols import LinkReader, OpenCorpus
from airw.retrieval import MODES, Mode, SearchQuery, channel_rankings, channels_of, check_corpus
from airw.retrieval.merging import ChannelRankings, merge_rankings
from airw.values import NodeIdLike, fold_name
from airw.values.filters import Filter, matches, parse_filter

AnyFilter: TypeAlias = Mapping[str, Any] | Filter | None
SeedingWay: TypeAlias = Literal["dense", "lexical", "hybrid", "titles"]
Seeding: TypeAlias = SeedingWay | Sequence[SeedingWay]
"""A way to find a start, or several: each finds as many artifacts as a policy asks for."""

_WAYS: tuple[SeedingWay, ...] = (*MODES, "titles")

_WORD = re.compile(r"\w+(?:[-'\u2019.&/]\w+)*")
_MAX_WORDS = 8  # in a name
_MIN_CHARACTERS = 3  # a shorter name is often in a query by chance


def check_seeding(seeding: object) -> Seeding | None:
    """Return the argument `seeding`: `None`, one way, or a tuple of several.

    Raises:
        ArgumentError: If a way is unknown, or there is none.

    Example:
        >>> check_seeding(["titles", "hybrid"]), check_seeding(("dense",))
        (('titles', 'hybrid'), 'dense')
    """
    if seeding is None or isinstance(seeding, str) or not isinstance(seeding, Sequence):
        return None if seeding is None else check_choice("seeding", seeding, _WAYS)
    ways = tuple(dict.fromkeys(check_choice("each way of seeding", way, _WAYS) for way in seeding))
    if not ways:
        raise ArgumentError(
            f"seeding must name a way to find a start, not {short_repr(seeding)}; pass None for a search"
        )
    return ways if len(ways) > 1 else ways[0]


async def find_start(
    memory: ArtifactMemory,
    corpus: OpenCorpus[object],
    policy: str,
    *,
    k: int,
    seeding: Seeding | None,
    roots: Sequence[NodeIdLike] = (),
    filter: AnyFilter,
) -> list[Id]:
    """Return the artifacts that the seeding finds, then the roots, without duplicates.

    Args:
        memory: The memory of the walk, with the query.
        corpus: The open corpus.
        policy: The name of the policy, for errors.
        k: The number of artifacts that each way of the seeding finds at most; they come best first.
        seeding: How to find them; `None` for `"hybrid"`, or the one channel that the store has. Of several ways
            the first comes first, then what the second adds, and so on.
        roots: Further artifacts to start from.
        filter: A filter that the found artifacts satisfy; roots are not filtered.

    Raises:
        NoLedgerEntry: If a root is in another corpus. `check_roots` finds those that do not exist.
        ArgumentError: If the query is blank, or the store lacks a method that the seeding needs.
    """
    if k:
        require_query(memory.query, policy)
    start = find_roots(memory, roots, corpus)
    if not k:
        return start
    if seeding is None:
        seeding = _default_seeding(check_corpus(corpus))
    found: list[Id] = []
    for way in (seeding,) if isinstance(seeding, str) else seeding:
        if way == "titles":
            found += await _find_by_titles(memory.query, corpus, policy, k, filter)
        else:
            found += await _find_by_search(memory, corpus, policy, k=k, mode=way, filter=filter)
    return list(dict.fromkeys([*found, *start]))


def _default_seeding(corpus: OpenCorpus[object]) -> Mode:
    """Return `"hybrid"`, or the one channel that the store has."""
    if not has_method(corpus, "search_text"):
        return "dense"
    return "hybrid" if has_method(corpus, "search_vectors") else "lexical"


async def _find_by_titles(
    query: str, corpus: OpenCorpus[object], policy: str, k: int, filter: AnyFilter
) -> Sequence[Id]:
    """Return the artifacts that the query names and that have a surface within the filter.

    Two store calls at most.
    """
    setting = "seeding='titles'"
    names = await artifacts_in_query(query, require(corpus, "resolve", policy, setting))
    ids, parsed_filter = [id for meanings in names for id in meanings], parse_filter(filter)
    if parsed_filter is not None:
        reader = require(corpus, "records_of", policy, f"{setting}, scope=...")
        surfaces = zip(ids, await reader.records_of(ids), strict=True)
        ids = [
            id for id, records in surfaces if any(matches(parsed_filter, record.metadata) for record in records or ())
        ]
    return ids[:k]


async def _find_by_search(
    memory: ArtifactMemory, corpus: OpenCorpus[object], policy: str, *, k: int, mode: Mode, filter: AnyFilter
) -> list[Id]:
    """Return the artifacts that `retrieve` would find.

    Unlike `retrieve`, it reads no records, and it keeps the cosines in memory. That saves two store calls.
    """
    query = SearchQuery.preset("seeding", {"k": k, "mode": mode})
    channels, depth = channels_of(mode), query.list_depth if mode == "hybrid" else k
    for channel in channels:
        require(corpus, "search_vectors" if channel == "dense" else "search_text", policy, f"seeding={mode!r}")
    vector = partial(memory.embed_query, corpus)
    rankings = await channel_rankings(corpus, channels, memory.query, vector, depth, filter=filter, per_artifact=True)
    if len(channels) > 1:
        query = query.for_embedder(corpus.embedder.id)
    ranked = [ChannelRankings(kind, [ranking]) for kind, ranking in zip(channels, rankings, strict=True)]
    merged = merge_rankings(ranked, query, k)
    ids: list[Id] = [candidate.artifact_id for candidate in merged]
    for channel, ranking in zip(channels, rankings, strict=True):
        if channel == "dense":
            surfaces = zip(ranking.record_ids, ranking.scores.tolist(), strict=True)
            best = dict(zip(ranking.artifact_ids, surfaces, strict=True))
            # With a filter, these are the best surfaces among those that satisfy it. They score the start only: an
            # artifact that the walk reaches later scores by its best surface of all.
            if filter is not None:
                best = {id: surface for id, surface in best.items() if id in ids}
            memory.best_surfaces.update(best)
    return ids


async def artifacts_in_query(query: str, store: LinkReader) -> list[list[Id]]:
    """Return, for each name in the query, the artifacts that it means.

    Names are those that links use: ids, titles and aliases. Of overlapping names the longest counts. Longer names come
    first; names of the same length are in the order of the query. One store call.
    """
    query = unicodedata.normalize("NFC", query)
    spans = list(_word_spans(query))
    texts = [" ".join(query[start:end].split()) for start, end in spans]
    # All candidates, as written and case-folded, are resolved in one call.
    spellings = [spelling for text in texts for spelling in (text, fold_name(text))]
    meanings = await store.resolve(spellings)
    names, used_characters = cast("list[list[Id]]", []), set[int]()
    for index, (start, end) in enumerate(spans):
        artifacts = meanings[2 * index] or meanings[2 * index + 1]
        if artifacts and used_characters.isdisjoint(range(start, end)):
            used_characters.update(range(start, end))
            names.append(artifacts)
    return names


def _word_spans(query: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each run of words in the query, runs of more words first."""
    # `re` does not count combining marks as letters, so they are replaced by one; positions stay the same.
    letters = "".join("a" if unicodedata.category(letter).startswith("M") else letter for letter in query)
    words = [match.span() for match in _WORD.finditer(letters)]
    for length in range(min(_MAX_WORDS, len(words)), 0, -1):
        for first in range(len(words) - length + 1):
            start, end = words[first][0], words[first + length - 1][1]
            if end - start >= _MIN_CHARACTERS:
                yield start, end

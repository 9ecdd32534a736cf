"""Where a walk starts: a search by cosine, by words or by both, artifacts that the query names, given ids."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, cast

from airw.policies._capabilities import require
from airw.policies._several_corpora import Id, root_ids
from airw.policies.artifact_memory import ArtifactMemory
from airw.protocols import LinkReader, OpenCorpus
from airw.retrieval import MODES, Mode, channel_rankings, channels_of, hybrid_depth
from airw.retrieval.fusion import fuse_ranks
from airw.values import NodeIdLike
from airw.values.filters import Filter, matches, parse_filter

AnyFilter: TypeAlias = Mapping[str, Any] | Filter | None
Seeding: TypeAlias = Literal["dense", "lexical", "hybrid", "titles"]

SEEDINGS: tuple[Seeding, ...] = (*MODES, "titles")
"""The ways to find a start: the modes of a search, and artifacts whose names the query holds."""

_WORD = re.compile(r"\w+(?:[-'\u2019.&/]\w+)*")
_LONGEST = 8  # words in a name
_SHORTEST = 3  # characters: shorter ones stand in a query by chance


async def find_start(
    memory: ArtifactMemory,
    corpus: OpenCorpus[object],
    who: str,
    *,
    k: int,
    seeding: Seeding,
    roots: Sequence[NodeIdLike] = (),
    filter: AnyFilter,
) -> list[Id]:
    """Return the `k` artifacts that are found, best first, then the given roots; each once.

    Raises:
        NoLedgerEntry: A root is not of this corpus.
        ArgumentError: The store lacks what the seeding needs; the message names the policy.
    """
    given = root_ids(roots, corpus)
    if not k:
        return list(dict.fromkeys(given))
    if seeding == "titles":
        found = await _named(memory.query, corpus, who, k, filter)
    else:
        found = await _searched(memory, corpus, who, k=k, mode=seeding, filter=filter)
    return list(dict.fromkeys([*found, *given]))


async def _named(query: str, corpus: OpenCorpus[object], who: str, k: int, filter: AnyFilter) -> Sequence[Id]:
    """Find the artifacts that the query names, and that have a surface that satisfies the filter; two store calls."""
    setting = "seeding='titles'"
    named = await named_artifacts(query, require(corpus, "resolve", who, setting))
    ids, parsed = [id for ids in named for id in ids], parse_filter(filter)
    if parsed is not None:
        reader = require(corpus, "records_of", who, f"{setting}, scope=...")
        found = zip(ids, await reader.records_of(ids), strict=True)
        ids = [id for id, records in found if any(matches(parsed, record.metadata) for record in records or ())]
    return ids[:k]


async def _searched(
    memory: ArtifactMemory, corpus: OpenCorpus[object], who: str, *, k: int, mode: Mode, filter: AnyFilter
) -> list[Id]:
    """Find the artifacts that `retrieve` finds; no records are read, and cosines are kept: two store calls fewer."""
    channels, depth = channels_of(mode), hybrid_depth(k) if mode == "hybrid" else k
    for channel in channels:
        require(corpus, "search_vectors" if channel == "dense" else "search_text", who, f"seeding={mode!r}")
    vector = partial(memory.embed_query, corpus)
    rankings = await channel_rankings(corpus, channels, memory.query, vector, depth, filter=filter, per_artifact=True)
    found = [id for id, _ in fuse_ranks([ranking.artifact_ids for ranking in rankings])[:k]]
    for channel, ranking in zip(channels, rankings, strict=True):
        if channel == "dense":
            best = zip(ranking.artifact_ids, zip(ranking.record_ids, ranking.scores.tolist(), strict=True), strict=True)
            # What was filtered may not be the best surface of what is not started from.
            memory.best.update(best if filter is None else ((id, each) for id, each in best if id in found))
    return found


async def named_artifacts(query: str, store: LinkReader) -> list[list[Id]]:
    """Give for each name that the query holds the artifacts it means; longer names first, then as they stand there.

    Names are what links go by: ids, titles, aliases. Of overlapping names the longest counts. One store call.
    """
    query = unicodedata.normalize("NFC", query)
    spans = list(_spans(query))
    texts = [" ".join(query[start:end].split()) for start, end in spans]
    forms = [form for text in texts for form in (text, _fold(text))]
    found = await store.resolve(forms)
    named, taken = cast("list[list[Id]]", []), set[int]()
    for at, (start, end) in enumerate(spans):
        meant = found[2 * at] or found[2 * at + 1]
        if meant and taken.isdisjoint(range(start, end)):
            taken.update(range(start, end))
            named.append(meant)
    return named


def _spans(query: str) -> Iterator[tuple[int, int]]:
    """Give where each run of words starts and ends, those of the most words first."""
    flat = "".join("a" if unicodedata.category(letter).startswith("M") else letter for letter in query)
    words = [match.span() for match in _WORD.finditer(flat)]  # where marks count as letters, as they do not to `re`
    for length in range(min(_LONGEST, len(words)), 0, -1):
        for at in range(len(words) - length + 1):
            start, end = words[at][0], words[at + length - 1][1]
            if end - start >= _SHORTEST:
                yield start, end


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())

"""The start of a walk: artifacts that a search finds or the query names, and roots."""

import difflib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, compress, islice
from typing import Any, Literal, TypeAlias

from airw._base.checks import check_choice
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.errors import ArgumentError, NoLedgerEntry
from airw.policies._corpora import Id, is_lost, require, root_ids
from airw.policies.artifact_memory import ArtifactMemory
from airw.protocols import ArtifactIds, Ledger, Names, OpenCorpus, RecordsOf, Store, ask
from airw.retrieval import MODES, Mode, SearchQuery, channel_rankings
from airw.retrieval.merging import ChannelRankings, merge_rankings
from airw.values import ArtifactRef, NodeIdLike, canonical_node_id, fold_name
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
    if seeding is None:
        return None
    if isinstance(seeding, str) or not isinstance(seeding, Sequence):
        return check_choice("seeding", seeding, _WAYS)
    ways = tuple(dict.fromkeys(check_choice("each way of seeding", way, _WAYS) for way in seeding))
    if not ways:
        raise ArgumentError(
            f"seeding must name a way to find a start, not {short_repr(seeding)}; pass None for a search"
        )
    return ways if len(ways) > 1 else ways[0]


async def find_start(
    memory: ArtifactMemory,
    corpus: OpenCorpus,
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
        ArgumentError: If the query is blank, or the store cannot do what the seeding needs.
    """
    if k:
        require_query(memory.query, policy)
    found, start = list[Id](), find_roots(memory, roots, corpus)
    ways = [seeding] if seeding is None or isinstance(seeding, str) else seeding
    for way in ways if k else ():
        if way == "titles":
            found += await _find_by_titles(memory.query, corpus, policy, k, filter)
        else:
            found += await _find_by_search(memory, corpus, k=k, mode=way, filter=filter)
    return list(dict.fromkeys([*found, *start]))


async def _find_by_titles(query: str, corpus: OpenCorpus, policy: str, k: int, filter: AnyFilter) -> Sequence[Id]:
    """Return the artifacts that the query names and that have a surface within the filter.

    Two store calls at most.
    """
    require(corpus, "names", policy, "seeding='titles'")
    names = await artifacts_in_query(query, corpus.store)
    ids, parsed_filter = list(chain.from_iterable(names)), parse_filter(filter)
    if parsed_filter is not None:
        answers = await ask(corpus.store, RecordsOf(ids))
        are_within = [any(matches(parsed_filter, record.metadata) for record in records or ()) for records in answers]
        ids = list(compress(ids, are_within))
    return ids[:k]


async def _find_by_search(
    memory: ArtifactMemory, corpus: OpenCorpus, *, k: int, mode: Mode | None, filter: AnyFilter
) -> list[Id]:
    """Return the artifacts that `retrieve` would find.

    Unlike `retrieve`, it reads no records, and it keeps the cosines in memory. That saves two store calls.
    """
    query = SearchQuery.preset("seeding", {"k": k, "mode": mode or "hybrid"}).for_embedder(corpus.embedder.id)
    if mode is None:
        query = query.for_store(corpus.store)
    channels = query.channels
    vector, depth = partial(memory.embed_query, corpus), query.ranking_depth(len(channels))
    conditions: dict[str, Any] = {"filter": filter, "contains": memory.contains, "per_artifact": True}
    rankings = await channel_rankings(corpus, channels, memory.query, vector, depth, **conditions)
    ranked = [ChannelRankings(kind, [ranking]) for kind, ranking in zip(channels, rankings, strict=True)]
    merged = merge_rankings(ranked, query, None, needs_evidence=True)
    # A search shows these surfaces, also of artifacts that the walk reaches later.
    memory.passages.update((candidate.artifact_id, candidate.record_id) for candidate in merged)
    ids: list[Id] = [candidate.artifact_id for candidate in merged[:k]]
    if channels[0] == "dense":
        dense = rankings[0]
        # With a filter, these are the best surfaces among those that satisfy it. They score the start only: an
        # artifact that the walk reaches later scores by its best surface of all.
        start = set(dense.artifact_ids if filter is None and memory.contains is None else ids)
        rows = zip(dense.artifact_ids, dense.record_ids, dense.scores.tolist(), strict=True)
        for id, best, cosine in rows:
            if id in start:
                memory.best_surfaces[id], memory.cosine_of[id] = best, cosine
    return ids


async def artifacts_in_query(query: str, store: Store) -> list[list[Id]]:
    """Return, for each name in the query, the artifacts that it means.

    Names are those that links use: ids, titles and aliases. Of overlapping names the longest counts. Longer names come
    first; names of the same length are in the order of the query. One store call.
    """
    query = unicodedata.normalize("NFC", query)
    spans = list(_word_spans(query))
    texts = [" ".join(query[start:end].split()) for start, end in spans]
    # All candidates, as written and case-folded, are resolved in one call.
    meanings = await ask(store, Names([*texts, *map(fold_name, texts)]))
    names, used_characters = list[list[Id]](), set[int]()
    as_written, folded = meanings[: len(spans)], meanings[len(spans) :]
    for (start, end), exact, similar in zip(spans, as_written, folded, strict=True):
        artifacts = exact or similar
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


_MOST_COMPARED = 20_000  # ids; comparing more of them with a wrong one would take seconds


def find_roots(memory: ArtifactMemory, roots: Sequence[NodeIdLike], corpus: OpenCorpus) -> list[Id]:
    """Return roots as ids of the store, without duplicates, and remember to check them.

    Raises:
        NoLedgerEntry: If a root is in another corpus or, in several corpora, does not name its corpus.
    """
    memory.unchecked_roots = root_ids(roots, corpus)
    return memory.unchecked_roots


async def check_roots(memory: ArtifactMemory, corpus: OpenCorpus) -> None:
    """Check that the roots exist, once they are scored.

    A root with a surface exists, so a store call is needed only for one without.

    Raises:
        NoLedgerEntry: If a root is not an artifact of this corpus.
    """
    if not memory.unchecked_roots:
        return
    scored = [id for id in memory.unchecked_roots if id in memory.best_surfaces]
    memory.unchecked_roots = [id for id in memory.unchecked_roots if id not in memory.best_surfaces]
    doubtful = [id for id in scored if not memory.has_surface(id) and not is_lost(id, corpus)]
    # A store without a ledger knows artifacts by their surfaces.
    if doubtful and "ledger" in corpus.store.capabilities:
        entries = zip(doubtful, await ask(corpus.store, Ledger(doubtful)), strict=True)
        # The corpus may have been lost by this very call.
        doubtful = [id for id, entry in entries if entry is None and not is_lost(id, corpus)]
    if doubtful:
        raise await unknown_root(doubtful[0], corpus)


async def unknown_root(id: Id, corpus: OpenCorpus) -> NoLedgerEntry:
    """Return the error about a root that a corpus does not contain; it names similar ids."""
    source, text = canonical_node_id(id, source=None)
    known = await ask(corpus.store, ArtifactIds()) if "ledger" in corpus.store.capabilities else []
    own = (each for each in known if not isinstance(each, ArtifactRef) or each.source == source)
    names = {canonical_node_id(each, source=None)[1]: each for each in islice(own, _MOST_COMPARED)}
    similar = await in_thread(difflib.get_close_matches, text, list(names))
    such_as = f" such as {', '.join(short_repr(names[name]) for name in similar)}" if similar else ""
    return NoLedgerEntry(
        f"corpus {corpus.name!r} contains no artifact {short_repr(id)}; pass roots as ids of artifacts{such_as}"
    )


def require_query(query: str, policy: str) -> None:
    """Check that a walk that starts from a search for its query has one.

    Raises:
        ArgumentError: If the query is blank.
    """
    if not query.strip():
        raise ArgumentError(f"query must not be blank, not {short_repr(query)}: {policy} searches for it to start")

"""Run a search in an open corpus: rank in each channel, merge, rerank and boost."""

import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias, Unpack

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_kind, check_number
from airw._base.concurrency import call_user_function, in_thread, map_bounded, offload_if
from airw._base.messages import one_line, short_repr
from airw._base.signatures import shows_options
from airw._base.slices import consume_in_slices
from airw._base.telemetry import record_span
from airw._base.vectors import unit_rows
from airw.errors import ArgumentError, UnknownFieldWarning
from airw.protocols import OpenCorpus, Rank, Records, RecordsOf, Reranker, Schema, ask
from airw.reranking import score_texts
from airw.retrieval.merging import (
    ArtifactWeight,
    Candidate,
    ChannelRankings,
    RankedRecord,
    append_artifacts,
    apply_weights,
    extends_rankings,
    merge_rankings,
    was_cut_short,
)
from airw.retrieval.query import (
    SEARCH_DEFAULTS,
    Boost,
    Mode,
    SearchOptions,
    SearchQuery,
    queries_of,
    rank_weights,
)
from airw.stores import hide_password
from airw.values import Ranking, Record, SearchHit, TermCounts
from airw.values.filters import And, Compare, Filter, Or
from airw.values.hits import add_facts

QueryVectors: TypeAlias = Callable[[], Awaitable[Floats]]
"""Returns the vector of a query, flat or as one row.

Only a dense channel calls it, so a lexical search embeds nothing.
"""

Ranker: TypeAlias = Callable[[SearchQuery], Awaitable[Sequence[ChannelRankings]]]
"""Returns the rankings to fuse."""

_MOST_AT_ONCE = 16  # queries embedded, functions of users called, or stores asked
_OFFLOAD_ABOVE = 1_000  # candidates: merging more of them takes longer than about a millisecond

_MAX_NAMES = 10  # names in a list of a message
_MAX_NAME = 60  # characters
_MAX_MESSAGE = 800
_MOST_REMEMBERED = 100  # warnings
_MATCH_ABSENT = ("$exists", "$ne", "$nin")  # operators that mean something for a field that no record has


@shows_options(SearchOptions, SEARCH_DEFAULTS)
async def retrieve(corpus: OpenCorpus, query: str, **options: Unpack[SearchOptions]) -> list[SearchHit]:
    """Rank the surfaces of an open corpus against a query, as `airw.search` does.

    Args:
        corpus: An object with a name, a store and an embedder.
        query: The text to search for.
        options: The options of `airw.search`, which explains them.

    Returns:
        Hits, best first, as `airw.search` returns them.

    Raises:
        ArgumentError: If a value cannot be used, or a function among the options returns an unusable value.
        FilterError: If the filter is malformed.
        EmbedderError: If the embedder fails, or does not fit the stored vectors (`EmbedderMismatch`).
        RerankerError: If the reranker fails, or its package or model is missing (`RerankerUnavailable`).
        StoreError: If the store fails.

    Errors of your own functions pass through.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return [hit.artifact_id for hit in await retrieve(corpus, "signing keys", k=1)]
        >>> anyio.run(main)
        ['a']
    """
    return await answer_query(check_corpus(corpus), SearchQuery.parse("retrieve", query, options))


async def answer_query(corpus: OpenCorpus, query: SearchQuery) -> list[SearchHit]:
    """Search an open corpus; if nothing is found, report names that no record has.

    Raises:
        ArgumentError: If the store cannot answer what the search asks, or no record is of the surface kinds.
    """
    hits = await run_search(corpus, query, needs_evidence=True)
    if not hits:
        await explain_no_hits(query, [corpus])
    return hits


async def explain_no_hits(query: SearchQuery, corpora: Sequence[OpenCorpus]) -> None:
    """Raise or warn if a search found nothing because no record has a name in it.

    Call it only after a search of these corpora found no hit: it may read all records. A corpus whose store has no
    schema may contain any name, so nothing is reported then.

    Args:
        query: The search.
        corpora: All corpora that were searched.

    Raises:
        ArgumentError: If there are records, and none has one of the surface kinds.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> query = SearchQuery.parse("search", "keys", {"surfaces": ["chunks"]})
        >>> async def main():
        ...     source = from_mapping({"a": "rotate the keys"}, name="notes", embedder="light")
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         await explain_no_hits(query, [corpus])
        >>> anyio.run(main)
        Traceback (most recent call last):
        airw.errors.ArgumentError: surfaces: no record of 'notes' is of the kind 'chunks'; there are: 'document'
    """
    stores = [corpus.store for corpus in corpora]
    has_names = query.surfaces or query.filter
    if not query.k or not has_names or not all("schema" in store.capabilities for store in stores):
        return
    paths = sorted(set(_find_required(query.filter)))
    columns = await map_bounded(lambda store: ask(store, Schema(paths)), stores, limit=_MOST_AT_ONCE)
    kinds = sorted({kind for each in columns for kind in each.kinds})
    # Without kinds there are no records, and no field of an empty corpus is unknown.
    if not kinds:
        return
    names = _join(sorted(corpus.name for corpus in corpora))
    if query.surfaces and set(query.surfaces).isdisjoint(kinds):
        wanted = _join(query.surfaces, " or ")
        message = f"surfaces: no record of {names} is of the kind {wanted}; there are: {_join(kinds)}"
        raise ArgumentError(one_line(message, longest=_MAX_MESSAGE))
    has_fields = zip(paths, *(each.has_fields for each in columns), strict=True)
    unknown = [path for path, *has_path in has_fields if not any(has_path)]
    if unknown:
        from difflib import get_close_matches

        known = sorted({name for each in columns for name in each.fields})
        similar = get_close_matches(one_line(unknown[0]), known, n=3)
        hint = f"similar: {_join(similar)}" if similar else f"there are: {_join(known) or 'none'}"
        message = f"filter: no record of {names} has the field {_join(unknown)}; {hint}"
        # Python keeps the text of each warning for ever, and clients of a server choose the texts.
        remembered = globals().get("__warningregistry__", {})
        if len(remembered) > _MOST_REMEMBERED:
            remembered.clear()
        warnings.warn(UnknownFieldWarning(one_line(message, longest=_MAX_MESSAGE)), stacklevel=1)


def _find_required(filter: Filter | None) -> Iterator[str]:
    """Yield the fields that a record must have to match some condition of the filter."""
    match filter:
        case Compare(path, op) if op not in _MATCH_ABSENT:
            yield path
        case And(parts) | Or(parts):
            for part in parts:
                yield from _find_required(part)
    # Not: an absent field satisfies it.


def _join(names: Sequence[str], separator: str = ", ") -> str:
    shown = [one_line(short_repr(name), longest=_MAX_NAME) for name in names[:_MAX_NAMES]]
    if len(names) > _MAX_NAMES:
        shown.append(f"{len(names) - _MAX_NAMES} more")
    return separator.join(shown)


async def formulate_queries(query: SearchQuery) -> tuple[str, ...]:
    """Return the formulator's queries; the original query without a formulator or an answer.

    Raises:
        ArgumentError: If the formulator returns neither a string nor a list of strings.
    """
    if query.formulate is None:
        return (query.text,)
    return queries_of(await call_user_function(query.formulate, query.text)) or (query.text,)


async def run_search(
    corpus: OpenCorpus,
    query: SearchQuery,
    queries: Sequence[str] | None = None,
    *,
    rank: Ranker | None = None,
    weigh: ArtifactWeight | None = None,
    needs_evidence: bool = False,
) -> list[SearchHit]:
    """Search an open corpus as `retrieve` does, with options that are checked already.

    With `k=0` nothing runs, not even the formulator.

    Args:
        corpus: The corpus.
        query: The search.
        queries: The answer of `formulate_queries`, if the caller has it already: a discovery formulates once for all
            corpora. By default the formulator runs here.
        rank: Returns the rankings to fuse; by default `rank_channels` asks the corpus for them. Records are read from
            the corpus.
        weigh: The factor of the score of each artifact; by default none.
        needs_evidence: Whether a hybrid search leaves out hits that have no word of the query and a cosine of 0.

    Raises:
        ArgumentError: If the store cannot answer what the search asks.
    """
    if not query.k:
        return []
    with record_span("search", corpus.name, query.text, _describe_search, query) as span:
        queries = await formulate_queries(query) if queries is None else queries
        query = query.for_store(corpus.store).for_embedder(corpus.embedder.id)
        if rank is None:
            depth = query.ranking_depth(len(query.channels) * len(queries))
            rank = partial(rank_channels, corpus, queries=queries, depth=depth, vectors=[])
        ranked = await _find_candidates(corpus, query, rank, weigh, needs_evidence=needs_evidence)
        if query.rerank is not None:
            ranked = await _rerank(corpus, query, ranked, query.rerank)
        if query.boost is None:
            del ranked[query.k :]
        hits = await offload_if(len(ranked) > _OFFLOAD_ABOVE, _to_hits, corpus.name, ranked)
        if query.boost is not None:
            hits = (await _apply_boost(hits, query.boost))[: query.k]
        if span is not None:
            span.set({"airw.search.hits": len(hits)})
        return hits


def _describe_search(query: SearchQuery) -> Mapping[str, Any]:
    return {
        "gen_ai.retrieval.top_k": query.k,
        "airw.search.mode": query.mode,
        "airw.search.rerank": query.rerank is not None,
    }


def _to_hits(corpus: str, candidates: list[RankedRecord]) -> list[SearchHit]:
    """Return the candidates as hits; the list is empty afterwards."""
    hits = []
    for record, _, score, earlier_scores in consume_in_slices(candidates):
        hit = record.as_hit(score, corpus)
        add_facts(hit.metadata, earlier_scores)
        hits.append(hit)
    return hits


async def rank_channels(
    corpus: OpenCorpus, query: SearchQuery, *, queries: Sequence[str], depth: int, vectors: list[Floats]
) -> list[ChannelRankings]:
    """Rank artifacts, or surfaces if these are weighted or requested, in each channel.

    Args:
        corpus: The corpus.
        query: The search.
        queries: The formulated queries.
        depth: The length of each ranking.
        vectors: The vectors of the queries, as one array; empty if they are not known yet, then it is added.
    """

    async def rank(channel: tuple[Mode, float]) -> ChannelRankings:
        kind, weight = channel
        if kind == "dense" and not vectors:
            vectors.append(await embed_texts(corpus, queries))
        asked = vectors[0] if kind == "dense" else queries
        first, *more = rank_requests(query, asked, depth)
        answers = [await ask(corpus.store, first)]
        if more and any(was_cut_short(ranking, depth, query.k) for ranking in answers[0]):
            answers += await corpus.store.read(*more)
        return ChannelRankings(kind, join_rankings(answers), weight)

    channels = [*rank_weights(query.channels, query.alpha or 0.0).items()]
    return await map_bounded(rank, channels, limit=len(channels))


def rank_requests(
    query: SearchQuery, asked: Sequence[str] | Floats, depth: int, counts: TermCounts | None = None
) -> list[Rank]:
    """Return what asks a store to rank in one channel.

    Args:
        query: The search.
        asked: Its formulated queries, or their vectors.
        depth: The length of each ranking.
        counts: The word counts to rank texts with; by default those of the store.
    """
    rank = Rank(asked, depth, per_artifact=query.ranks_artifacts, statistics=counts, **query.conditions)
    # A weighted search for artifacts ranks surfaces. Artifacts with many matching surfaces may fill such a ranking;
    # artifacts extend it, or there would be fewer than `k` of them in the end.
    return [rank, replace(rank, k=query.k, per_artifact=True)] if extends_rankings(query) else [rank]


def join_rankings(answers: Sequence[Sequence[Ranking]]) -> Sequence[Ranking]:
    """Return the ranking of each query from the answers to `rank_requests`."""
    return answers[0] if len(answers) == 1 else list(map(append_artifacts, *answers))


async def _find_candidates(
    corpus: OpenCorpus, query: SearchQuery, rank: Ranker, weigh: ArtifactWeight | None, *, needs_evidence: bool
) -> list[RankedRecord]:
    """Rank, merge and read; return the candidates, best first, before reranking and boost.

    There are at most `k`, or `depth` if a reranker, a boost or weights may reorder them.
    """
    limit = query.depth if query.has_second_stage else query.k

    def merge(rankings: Sequence[ChannelRankings]) -> tuple[list[Candidate], Records]:
        # Weights need the records, which are read later: until then every ranked record stays a candidate.
        most = None if query.surface_weights else limit
        candidates = merge_rankings(rankings, query, most, weigh, needs_evidence=needs_evidence)
        return candidates, Records([candidate.record_id for candidate in candidates])

    ranked: list[RankedRecord] = []
    # A writer may remove a record after it was ranked and before it is read. The answer then mixes two states of
    # the store, so rank once more. If that happens again, the result lacks the removed records.
    for _ in range(2):
        rankings = await rank(query)
        count = sum(len(ranking) for channel in rankings for ranking in channel.rankings)
        candidates, request = await offload_if(count > _OFFLOAD_ABOVE, merge, rankings)
        records = await ask(corpus.store, request)
        ranked = await offload_if(len(records) > _OFFLOAD_ABOVE, _pair_with_records, records, candidates)
        if len(ranked) == len(candidates):
            break
    if query.surface_weights:
        ranked = await offload_if(len(ranked) > _OFFLOAD_ABOVE, apply_weights, ranked, query)
    return ranked[:limit]


def _pair_with_records(records: Sequence[Record | None], candidates: Sequence[Candidate]) -> list[RankedRecord]:
    pairs = zip(records, candidates, strict=True)
    return [RankedRecord(record, *candidate[1:]) for record, candidate in pairs if record is not None]


async def _rerank(
    corpus: OpenCorpus, query: SearchQuery, candidates: Sequence[RankedRecord], reranker: Reranker
) -> list[RankedRecord]:
    """Return the candidates with the reranker's scores, best first.

    Ties stay in order. Each distinct text is scored once, because a reranker is slow and
    candidates of one artifact may share its text.
    """
    texts = await _read_passages(corpus, query, candidates)
    distinct = list(dict.fromkeys(texts))
    scores = dict(zip(distinct, await score_texts(reranker, query.text, distinct), strict=True))
    rescored = [
        ranked._replace(score=scores[text], earlier_scores={**ranked.earlier_scores, "retrieval_score": ranked.score})
        for ranked, text in zip(candidates, texts, strict=True)
    ]
    return sorted(rescored, key=lambda ranked: -ranked.score)


async def _read_passages(corpus: OpenCorpus, query: SearchQuery, candidates: Sequence[RankedRecord]) -> list[str]:
    """Return, for each candidate, the text that the reranker reads."""
    if query.rerank_text == "surface":
        return [ranked.record.text for ranked in candidates]
    if callable(query.rerank_text):
        read = partial(_call_reader, corpus, query.rerank_text)
        return await map_bounded(read, [ranked.record for ranked in candidates], limit=_MOST_AT_ONCE)
    # The id in the ranking also names the corpus, if there are several.
    ids = list(dict.fromkeys(ranked.artifact_id for ranked in candidates))
    siblings = await ask(corpus.store, RecordsOf(ids))

    def join() -> list[str]:
        return [stitch([record for record in records or () if record.text]) for records in siblings]

    texts = dict(zip(ids, await in_thread(join), strict=True))
    # An artifact that was removed meanwhile has no text: score the surface that was found.
    return [texts[ranked.artifact_id][: query.rerank_max_chars] or ranked.record.text for ranked in candidates]


async def _call_reader(corpus: OpenCorpus, reader: Callable[..., Any], record: Record) -> str:
    text: str = await call_user_function(reader, corpus, record)
    return check_kind("rerank_text", text, str, f"return a string for {short_repr(record.artifact_id)}")


def stitch(records: Sequence[Record]) -> str:
    """Join the texts of records, which must be in plan order.

    Two neighbouring chunks are joined by their stored offsets, `start` and `end`, or `span`. If a chunk begins inside
    its predecessor, their overlap appears once; if it begins exactly at its end, nothing is inserted. A blank line
    separates all other records: those of another kind, those after a gap, and those whose offsets are missing or do not
    fit their text. The overlap is compared character by character before it is dropped, so no text is lost.

    Example:
        >>> cuts = [("signing keys", 0, 12), ("keys rotate", 8, 19)]
        >>> records = [Record(f"r{i}", "a", "chunk", i, text, {"start": start, "end": end})
        ...            for i, (text, start, end) in enumerate(cuts)]
        >>> stitch(records)
        'signing keys rotate'
    """
    parts = [record.text for record in records[:1]]
    for previous, record in pairwise(records):
        overlap = _count_overlap(previous, record)
        parts += ["\n\n", record.text] if overlap is None else [record.text[overlap:]]
    return "".join(parts)


def _count_overlap(previous: Record, record: Record) -> int | None:
    """Count the characters that both records share; return `None` if they do not touch."""
    before, after = _find_span(previous), _find_span(record)
    is_next = record.surface_kind == previous.surface_kind and record.surface_index == previous.surface_index + 1
    if is_next and before and after:
        overlap = before[1] - after[0]
        # Offsets may be stale or mean something else: trust them only if the texts agree.
        if 0 <= overlap <= len(record.text) and previous.text.endswith(record.text[:overlap]):
            return overlap
    return None


def _find_span(record: Record) -> tuple[int, int] | None:
    """Return the offsets of a record if they fit its text.

    `start` and `end` may be fields of the artifact, such as the dates of an event; the offsets are then in `span`.
    """
    get = record.metadata.get
    for span in (get("span"), [get("start"), get("end")]):
        match span:
            case [int(start), int(end)] if end - start == len(record.text):
                return start, end
    return None


async def _apply_boost(hits: Sequence[SearchHit], boost: Boost) -> list[SearchHit]:
    """Add the boost of each hit to its score, best first; ties stay in order.

    Raises:
        ArgumentError: If `boost` returns something else than a finite number.
    """

    def add_boost(hit: SearchHit) -> SearchHit:
        extra = check_number(f"boost of {short_repr(hit.artifact_id)}", boost(hit))
        return replace(hit, score=hit.score + extra)

    # In a worker thread, because a boost may block.
    boosted = await in_thread(lambda: [*map(add_boost, hits)])
    return sorted(boosted, key=lambda hit: -hit.score)


def check_corpus(corpus: OpenCorpus) -> OpenCorpus:
    """Return the corpus, or raise if it has no name, store or embedder.

    Raises:
        ArgumentError: If one of the three is missing.
    """
    if not all(hasattr(corpus, part) for part in ("name", "store", "embedder")):
        found = describe_mistaken_corpus(corpus) or short_repr(corpus)
        made = "as `build`, `open_corpus` or `Corpus(name, store, embedder)` return it"
        raise ArgumentError(f"expected an open corpus, {made}, not {found}")
    return corpus


def describe_mistaken_corpus(corpus: object) -> str | None:
    """Return what was taken for an open corpus, and what would do; `None` for all else.

    Example:
        >>> describe_mistaken_corpus("notes")
        "the name 'notes'; open it with open_corpus('notes')"
    """
    if isinstance(corpus, str):
        shown = short_repr(hide_password(corpus))
        return f"the name {shown}; open it with open_corpus({shown})"
    if isinstance(corpus, Awaitable):
        return "one that is not open yet; write `async with open_corpus(...) as corpus:`, or await it"
    if isinstance(corpus, list | tuple):
        return f"a {type(corpus).__name__}; discover asks several corpora, and FederatedCorpus([...]) joins open ones"
    return None


async def channel_rankings(
    corpus: OpenCorpus, channels: Sequence[Mode], text: str, vector: QueryVectors, depth: int, **store_options: Any
) -> list[Ranking]:
    """Rank one query in several channels at once, `depth` deep.

    Args:
        corpus: The corpus.
        channels: `"dense"` and `"lexical"`, or one of them; `"hybrid"` is not a channel.
        text: The query.
        vector: An async function that returns the query's vector, a `(dim,)` or `(1, dim)` row. It is only called if a
            channel needs the vector.
        depth: The length of each ranking.
        store_options: Other arguments of `Rank`.

    Returns:
        One ranking a channel, in the order of `channels`.
    """
    requests = [
        Rank(np.atleast_2d(await vector()) if channel == "dense" else [text], depth, **store_options)
        for channel in channels
    ]
    return [ranking for (ranking,) in await corpus.store.read(*requests)]


async def embed_text(corpus: OpenCorpus, text: str) -> Floats:
    """Embed a query with the embedder of a corpus.

    Returns:
        `(1, dim) float32`, a unit row, or zeros if the embedder recognizes nothing in the text.

    Raises:
        EmbedderError: If the embedder fails, or returns something else than a vector.
    """
    return await embed_texts(corpus, [text])


async def embed_texts(corpus: OpenCorpus, texts: Sequence[str]) -> Floats:
    """Embed several queries at once.

    Returns:
        `(m, dim) float32`, rows as `embed_text` returns them, in the order of the texts.

    Raises:
        EmbedderError: If the embedder fails, returns something else than vectors, or vectors of several widths.
    """
    embed = corpus.embedder.embed_query
    # Most often there is one, which needs no task.
    vectors = [await embed(texts[0])] if len(texts) == 1 else await map_bounded(embed, texts, limit=_MOST_AT_ONCE)
    return unit_rows([*map(np.asarray, vectors)], count=len(texts), of=f"the embedder of corpus {corpus.name!r}")

"""Words of texts on a PostgreSQL server: which records contain each, and BM25 over them."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airw._base.concurrency import in_thread, offload_if
from airw._base.messages import short_repr
from airw.errors import ArgumentError, StoreError
from airw.stores.postgres import _filter_sql
from airw.values import Analyser, Language, Ranking, TermCounts, check_language, formula_of
from airw.values.filters import Filter
from airw.values.term_counts import K1, B

if TYPE_CHECKING:
    from asyncpg import Connection

_LONGEST_KEY = 256  # bytes of a word that is its own key; an index of PostgreSQL refuses keys above 2,700
_MANY_LETTERS = 5_000  # of queries, that take about a millisecond to analyse
_PAGE = 1_000  # texts that are indexed again at a time


@dataclass(slots=True)
class KnownLanguage:
    """The language of a corpus when a store last saw it.

    Words are cut before the server is asked. If its answer tells of another language, the call is repeated.
    """

    value: Language | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextWords:
    """The words of some texts.

    Args:
        language: The language they were analysed for.
        counts: How often each text contains each of its words.
    """

    language: Language | None
    counts: Sequence[Mapping[str, int]]


def analyse(texts: Sequence[str], language: Language | None) -> TextWords:
    """Return the words of texts; a thread should do it for more than a few."""
    return TextWords(language, [Counter(words) for words in Analyser(language).split(texts)])


async def create_state(c: "Connection", language: Language | None) -> None:
    """Set the language of a new corpus."""
    await c.execute("INSERT INTO text_state VALUES (0, 0, $1)", language)


async def search(
    c: "Connection",
    known: KnownLanguage,
    queries: Sequence[str],
    k: int,
    *,
    filter: Filter | None,
    surfaces: Sequence[str] | None,
    per_artifact: bool,
    statistics: TermCounts | None,
) -> list[Ranking]:
    """Return the best records or artifacts of each query; see `TermStatistics.search_text`."""
    while True:
        language = known.value
        words_by_query = await _query_terms(queries, language)
        parameters, asked = _filter_sql.Parameters(), _add_words(words_by_query)
        if statistics is not None and isinstance(statistics, TermCounts) and statistics.analyser == Analyser(language):
            _check_statistics(statistics, words_by_query, formula_of(Analyser(language)))
            asked[-1][:] = [statistics.frequencies[word] for words in words_by_query for word in words]
        columns = [
            parameters.add(values, f"{type}[]")
            for values, type in zip(asked, ("int", "text", "float8", "bigint"), strict=True)
        ]
        totals = (
            parameters.add(getattr(statistics, "records", None), "bigint"),
            parameters.add(getattr(statistics, "words", None), "bigint"),
        )
        conditions = ["true"] if filter is None else [_filter_sql.compile_filter(filter, "record.fields", parameters)]
        if surfaces is not None:
            conditions.append(f"record.kind = ANY({parameters.add([*surfaces], 'text[]')})")
        sql = _search_sql(columns, totals, " AND ".join(conditions), parameters.add(max(k, 0), "bigint"), per_artifact)
        rows = await c.fetch(sql, *parameters.values)
        if _follow(known, rows[0]["language"] if rows else "missing") == language:
            break
    if statistics is not None:
        _check_statistics(statistics, words_by_query, formula_of(Analyser(language)))
    found = {row["query"]: row for row in rows}
    rankings = []
    for place in range(len(words_by_query)):
        row = found.get(place)
        scores = np.array((row and row["scores"]) or [], np.float64)
        limit = row["best"] if row is not None and k > 0 else 0.0
        rankings.append(Ranking((row and row["ids"]) or [], (row and row["artifact_ids"]) or [], scores, limit or 0.0))
    return rankings


def _search_sql(columns: Sequence[str], totals: tuple[str, str], condition: str, k: str, per_artifact: bool) -> str:  # noqa: FBT001
    order = "score DESC, artifact_id, idx, number"
    pick = f"SELECT *, row_number() OVER (PARTITION BY query ORDER BY {order}) AS rank FROM scored"
    if per_artifact:
        pick = f"""SELECT *, row_number() OVER (PARTITION BY query ORDER BY {order}) AS rank FROM (
            SELECT DISTINCT ON (query, artifact_id) * FROM scored ORDER BY query, artifact_id, {order}
        ) AS best_of_artifact"""
    return f"""WITH state AS MATERIALIZED (
        SELECT coalesce({totals[0]}, records)::float8 AS records, coalesce({totals[1]}, words)::float8 AS words,
            language
        FROM text_state
    ), asked AS MATERIALIZED (
        SELECT query, place, word, repeats, coalesce(
            given, (SELECT count(*) FROM posting WHERE posting.word = asked.word)
        )::float8 AS frequency
        FROM unnest({", ".join(columns)}) WITH ORDINALITY AS asked (query, word, repeats, given, place)
    ), weighed AS MATERIALIZED (
        SELECT asked.*, CASE WHEN frequency > 0
            THEN repeats * ln(1 + (records - frequency + 0.5) / (frequency + 0.5)) ELSE 0 END AS weight,
            CASE WHEN state.words > 0 THEN state.words / records ELSE 1 END AS average
        FROM asked, state
    ), summed AS (
        SELECT query, number, sum(weight * (
            count * {K1 + 1} / (count + {K1} * (1 - {B} + {B} * length / average))
        ) ORDER BY place) AS score
        FROM weighed JOIN posting ON posting.word = weighed.word
        GROUP BY query, number
    ), scored AS (
        SELECT query, score, record.number, id, artifact_id, idx FROM summed JOIN record USING (number)
        WHERE {condition}
    ), best AS (
        SELECT query, array_agg(id ORDER BY rank) AS ids, array_agg(artifact_id ORDER BY rank) AS artifact_ids,
            array_agg(score ORDER BY rank) AS scores
        FROM ({pick}) AS ranked WHERE rank <= {k} GROUP BY query
    ), bound AS (
        SELECT query, sum(weight * {K1 + 1} ORDER BY place) AS best FROM weighed GROUP BY query
    )
    SELECT language, bound.query, bound.best, ids, artifact_ids, scores
    FROM state LEFT JOIN (bound LEFT JOIN best USING (query)) ON true"""


async def count_terms(c: "Connection", known: KnownLanguage, queries: Sequence[str]) -> TermCounts:
    """Return the counts behind the scores of queries; see `TermStatistics.term_statistics`."""
    while True:
        language = known.value
        words_by_query = await _query_terms(queries, language)
        words = sorted({word for words in words_by_query for word in words})
        row = await c.fetchrow(
            """SELECT language, records, words, ARRAY(
                SELECT (SELECT count(*) FROM posting WHERE posting.word = asked.word)
                FROM unnest($1::text[]) WITH ORDINALITY AS asked (word, place) ORDER BY place
            ) AS frequencies FROM text_state""",
            [_to_key(word) for word in words],
        )
        if _follow(known, row["language"] if row else "missing") == language:
            break
    repeats: dict[str, int] = {}
    for each in words_by_query:
        repeats.update({word: max(count, repeats.get(word, 1)) for word, count in each.items() if count > 1})
    frequencies = dict(zip(words, row["frequencies"], strict=True))
    return TermCounts(formula_of(Analyser(language)), row["records"], row["words"], frequencies, repeats)


async def read_language(c: "Connection") -> Language | None:
    """Return the language of the texts."""
    row = await c.fetchrow("SELECT language FROM text_state")
    return _check_stored(row[0] if row else "missing")


async def insert(c: "Connection", numbers: Sequence[int], texts: Sequence[str], words: TextWords | None = None) -> None:
    """Index the texts of new records.

    Args:
        c: A connection in the transaction of a writer.
        numbers: The number of each record.
        texts: The text of each.
        words: What `analyse` returned for the texts. They are analysed again if the corpus has another language.
    """
    if not numbers:
        return
    language = await read_language(c)
    if words is None or words.language != language:
        words = await in_thread(analyse, texts, language)
    rows, total = await in_thread(_to_rows, numbers, words)
    await c.copy_records_to_table("posting", records=rows, columns=["word", "number", "count", "length"])
    await c.execute("UPDATE text_state SET records = records + $1, words = words + $2", len(numbers), total)


async def delete(c: "Connection", artifact_ids: Sequence[str]) -> None:
    """Remove the texts of all records of some artifacts from the index.

    The records must still be there.
    """
    rows = await c.fetch("SELECT number, text FROM record WHERE artifact_id = ANY($1::text[])", artifact_ids)
    if not rows:
        return
    numbers, texts = [row[0] for row in rows], [row[1].decode() for row in rows]
    words = await in_thread(analyse, texts, await read_language(c))
    postings, total = await in_thread(_to_rows, numbers, words)
    await c.execute(
        """DELETE FROM posting USING unnest($1::text[], $2::bigint[]) AS gone (word, number)
        WHERE posting.word = gone.word AND posting.number = gone.number""",
        [row[0] for row in postings],
        [row[1] for row in postings],
    )
    await c.execute("UPDATE text_state SET records = records - $1, words = words - $2", len(numbers), total)


async def change_language(c: "Connection", language: Language | None) -> None:
    """Index all texts again for a language, unless it is the present one."""
    language = check_language(language)
    if await read_language(c) == language:
        return
    await c.execute("TRUNCATE posting")
    await c.execute("UPDATE text_state SET records = 0, words = 0, language = $1", language)
    last = 0
    while rows := await c.fetch(
        "SELECT number, text FROM record WHERE number > $1 ORDER BY number LIMIT $2", last, _PAGE
    ):
        texts = [row[1].decode() for row in rows]
        await insert(c, [row[0] for row in rows], texts, await in_thread(analyse, texts, language))
        last = rows[-1][0]


def _to_rows(numbers: Sequence[int], words: TextWords) -> tuple[list[tuple[str, int, int, int]], int]:
    """Return the rows of `posting`, and the number of words in all texts."""
    rows, total = [], 0
    for number, counts in zip(numbers, words.counts, strict=True):
        length = sum(counts.values())
        total += length
        rows += [(_to_key(word), number, count, length) for word, count in counts.items()]
    return rows, total


def _to_key(word: str) -> str:
    """Return the key of a word in the index: the word itself, or the hash of a long one."""
    data = word.encode()
    # No word contains a space, so that a hash never is the key of another word.
    return word if len(data) <= _LONGEST_KEY else f"sha256 {hashlib.sha256(data).hexdigest()}"


async def _query_terms(queries: Sequence[str], language: Language | None) -> list[dict[str, int]]:
    return await offload_if(sum(map(len, queries)) > _MANY_LETTERS, Analyser(language).query_terms, queries)


def _add_words(words_by_query: Iterable[Mapping[str, int]]) -> tuple[list[int], list[str], list[int], list[int | None]]:
    """Return the words of all queries as columns: query, key, number in the query, frequency."""
    rows = [(query, *item) for query, words in enumerate(words_by_query) for item in words.items()]
    return [row[0] for row in rows], [_to_key(row[1]) for row in rows], [row[2] for row in rows], [None] * len(rows)


def _follow(known: KnownLanguage, stored: object) -> Language | None:
    """Note the language that the server told, and return it."""
    known.value = _check_stored(stored)
    return known.value


def _check_stored(stored: object) -> Language | None:
    try:
        return check_language(stored)
    except ArgumentError:
        raise StoreError("the corpus has texts of a language that this version does not know; update airw") from None


def _check_statistics(statistics: object, words_by_query: Iterable[Iterable[str]], formula: str) -> None:
    """Check that word counts fit these queries and this store, or raise `ArgumentError`."""
    if not isinstance(statistics, TermCounts):
        raise ArgumentError(
            f"search_text: statistics must be TermCounts, as term_statistics returns, not {short_repr(statistics)}"
        )
    if statistics.formula != formula:
        raise ArgumentError(
            f"search_text: the statistics are of the formula {short_repr(statistics.formula)}, but this store "
            f"computes {formula!r}; add only counts of stores with one formula"
        )
    for word in (word for words in words_by_query for word in words if word not in statistics.frequencies):
        raise ArgumentError(
            f"search_text: the statistics have no count of the word {short_repr(word)}; "
            "pass the sum of what term_statistics returns for the same queries"
        )

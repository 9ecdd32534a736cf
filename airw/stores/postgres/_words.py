"""Words of texts on a PostgreSQL server: BM25 over the index of `_word_runs`.

The server finds the rows of the index that contain the words of a query. The scores are computed here, as in the other
stores and from the same numbers, so that they are equal to the last bit. Then the server names the best records.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import in_thread, offload_if
from airw._base.messages import short_repr
from airw.errors import ArgumentError, StoreCorrupt, StoreError
from airw.stores._indexes.best_rows import Postings, RowScorer, Weighing, Word
from airw.stores.postgres._copy_rows import copy_columns, encode_bytes, encode_numbers
from airw.stores.postgres._filter_sql import Parameters, compile_filter
from airw.stores.postgres._texts import keep_storable
from airw.stores.postgres._word_runs import (
    COLUMNS,
    Blocks,
    Pairs,
    Row,
    Run,
    TextWords,
    analyse,
    count_records,
    drop_records,
    find_group,
    find_keys,
    hash_words,
    list_codes,
    merge_runs,
    pack_rows,
    split_runs,
)
from airw.values import Analyser, Language, Ranking, TermCounts, check_language, formula_of
from airw.values.filters import Filter

if TYPE_CHECKING:
    from asyncpg import Connection

_MANY_LETTERS = 5_000  # of queries, that take about a millisecond to analyse
_MANY_BYTES = 100_000  # of rows of the index, that take about a millisecond to score
_FEW = 200  # rows of the index that are inserted without COPY
_PAGE = 1_000  # texts that are indexed again at a time
_GROWTH = 16  # factor by which more records are named while too few of them pass
_FIRST = 16  # records per result that are named at first if some may not pass
_ATTEMPTS = 10  # of a search while others remove the records it finds
_RUN_ARRAYS = ", ".join(f"${place}::bigint[]" for place in range(1, len(Run._fields) + 1))
_STATE = """(
    SELECT (SELECT value FROM setting WHERE kind = 'language' AND key = '') AS language,
        coalesce(sum(records), 0)::bigint AS records, coalesce(sum(words), 0)::bigint AS words FROM text_run
) AS state"""


@dataclass(slots=True)
class KnownLanguage:
    """The language of a corpus when a store last saw it.

    Words are cut before the server is asked. If its answer tells of another language, the call is repeated.
    """

    value: Language | None


class TextScope(NamedTuple):
    """Which records to rank, and how.

    Args:
        k: The largest number of results per query.
        filter: A condition on the metadata of records.
        surfaces: The surface kinds to rank; `None` for all.
        per_artifact: Whether to rank artifacts, each by its best record.
    """

    k: int
    filter: Filter | None
    surfaces: Sequence[str] | None
    per_artifact: bool

    @property
    def passes_all(self) -> bool:
        """True if each record with a score is a result of its own."""
        return self.filter is None and self.surfaces is None and not self.per_artifact


async def create_state(c: "Connection", language: Language | None) -> None:
    """Set the language of a new corpus."""
    await c.execute("INSERT INTO setting VALUES ('language', '', $1)", json.dumps(language))


async def read_language(c: "Connection") -> Language | None:
    """Return the language of the texts."""
    value = await c.fetchval("SELECT value FROM setting WHERE kind = 'language' AND key = ''")
    return _parse_language(value)


async def search(
    c: "Connection", known: KnownLanguage, queries: Sequence[str], scope: TextScope, statistics: TermCounts | None
) -> list[Ranking]:
    """Return the best records or artifacts of each query; see `TermStatistics.search_text`."""
    for _ in range(_ATTEMPTS):
        words_by_query, state, rows = await _read_rows(c, known, queries)
        if statistics is None:
            records, words, frequencies = state["records"], state["words"], None
        else:
            _check_statistics(statistics, words_by_query, formula_of(Analyser(known.value)))
            records, words, frequencies = statistics.records, statistics.words, statistics.frequencies
        if scope.k <= 0 or not any(words_by_query):
            return [Ranking([], [], np.empty(0), 0.0) for _ in words_by_query]
        is_long = sum(len(row[4]) for row in rows) > _MANY_BYTES
        searches = await offload_if(is_long, _Scores, rows, words_by_query, records, words, frequencies)
        rankings = await _rank(c, searches, scope, is_long=is_long)
        if rankings is not None:
            return rankings
    raise StoreError("search_text: others remove the records that were found again and again; try later")


async def count_terms(c: "Connection", known: KnownLanguage, queries: Sequence[str]) -> TermCounts:
    """Return the counts behind the scores of queries; see `TermStatistics.term_statistics`."""
    words_by_query, state, rows = await _read_rows(
        c, known, queries, columns="code, run, part, directory, NULL AS entries"
    )
    words = sorted({word for words in words_by_query for word in words})
    repeats: dict[str, int] = {}
    for each in words_by_query:
        repeats.update({word: max(count, repeats.get(word, 1)) for word, count in each.items() if count > 1})
    frequencies = dict(zip(words, count_records([row[3] for row in rows], hash_words(words)), strict=True))
    return TermCounts(formula_of(Analyser(known.value)), state["records"], state["words"], frequencies, repeats)


async def _read_rows(
    c: "Connection", known: KnownLanguage, queries: Sequence[str], columns: str = ", ".join(COLUMNS)
) -> tuple[list[dict[str, int]], Any, list[Row]]:
    """Return the words of each query, the state of the corpus, and the rows with the words."""
    while True:
        language = known.value
        words_by_query = await _query_terms(queries, language)
        codes = list_codes(hash_words({word for words in words_by_query for word in words}))
        found = await c.fetch(
            f"SELECT language, records, words, {columns} FROM {_STATE} LEFT JOIN posting ON code = ANY($1::integer[])",
            codes,
        )
        known.value = _parse_language(found[0]["language"])
        if known.value == language:
            rows = [tuple(row[3:]) for row in found if row[3] is not None]
            return words_by_query, found[0], rows


class _Scores:
    """The scores of all records with a word of some queries.

    Args:
        rows: The rows of the index that contain the words.
        words_by_query: The words of each query, and how often it has each.
        records: The number of records of the corpus, or of several.
        words: The number of words in them.
        frequencies: In how many of them each word is; `None` for this corpus alone.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        words_by_query: Sequence[Mapping[str, int]],
        records: int,
        words: int,
        frequencies: Mapping[str, int] | None,
    ) -> None:
        blocks = Blocks(rows)
        # Rows of the scorer are numbers of records without the gaps between runs.
        self._runs, starts = np.unique(blocks.runs, return_index=True)
        self._bases = np.zeros(len(self._runs), np.int64)
        spans = np.maximum.reduceat(blocks.offsets, starts) + 1 if len(starts) else np.empty(0, np.int64)
        self._bases[1:] = np.cumsum(spans)[:-1]
        self._scorer = RowScorer(int(spans.sum()))
        postings = dict[str, tuple[Postings, NDArray[np.float64]]]()
        names = sorted({word for each in words_by_query for word in each})
        for name, code in zip(names, hash_words(names), strict=True):
            places = blocks.find(int(code))
            bases = self._bases[np.searchsorted(self._runs, blocks.runs[places])]
            numbers = (bases + blocks.offsets[places]).astype(np.int32)
            found = Postings(numbers, blocks.counts[places].astype(np.int32))
            postings[name] = found, blocks.lengths[places].astype(np.float64)
        self.queries: list[list[Word]] = []
        for each in words_by_query:
            query = []
            for name, repeats in each.items():
                found, lengths = postings[name]
                frequency = len(found.rows) if frequencies is None else frequencies[name]
                word = Word(found, Weighing.of(frequency, records, words, repeats), partial(_get_lengths, lengths))
                word.score_all()
                query.append(word)
            self.queries.append(query)

    def find_best(self, query: int, depth: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the numbers of the `depth` best records and all that tie, with their scores."""
        rows, scores = self._scorer.find_best(self.queries[query], depth, None)
        if len(rows) > depth:
            keep = np.flatnonzero(scores >= np.partition(scores, -depth)[-depth])
            rows, scores = rows[keep], scores[keep]
        runs = np.searchsorted(self._bases, rows, "right") - 1
        return self._runs[runs] + rows - self._bases[runs], scores


def _get_lengths(lengths: NDArray[np.float64], _: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the lengths of the records of a word; they are asked for only for all of them."""
    return lengths


async def _rank(c: "Connection", scores: _Scores, scope: TextScope, *, is_long: bool) -> list[Ranking] | None:
    """Return the ranking of each query; `None` if a record was removed meanwhile."""
    depth = scope.k if scope.passes_all else scope.k * _FIRST
    names, found = dict[int, tuple[str, int, int, str] | None](), dict[int, list[Any]]()
    while open_queries := [query for query in range(len(scores.queries)) if query not in found]:
        best = {query: await offload_if(is_long, scores.find_best, query, depth) for query in open_queries}
        numbers = {number for each, _ in best.values() for number in each.tolist()}
        if not await _read_names(c, names, numbers - names.keys(), scope):
            return None
        for query, (each, values) in best.items():
            ranked = _put_in_order(each.tolist(), values.tolist(), names, scope)
            if len(ranked) >= scope.k or len(each) < depth:
                found[query] = ranked[: scope.k]
        depth *= _GROWTH
    rankings = []
    for query, words in enumerate(scores.queries):
        ids, artifact_ids = [row[-1] for row in found[query]], [row[1] for row in found[query]]
        values = np.array([-row[0] for row in found[query]], np.float64)
        rankings.append(Ranking(ids, artifact_ids, values, sum(word.limit for word in words)))
    return rankings


async def _read_names(
    c: "Connection", names: dict[int, tuple[str, int, int, str] | None], numbers: Iterable[int], scope: TextScope
) -> bool:
    """Add the names of these records, `None` for one that is not to be ranked.

    Returns:
        Whether all of them are still there.
    """
    wanted, parameters = sorted(numbers), Parameters()
    if not wanted:
        return True
    condition = f"record.number = ANY({parameters.add(wanted, 'bigint[]')})"
    tests = [] if scope.filter is None else [compile_filter(scope.filter, "record.fields", parameters)]
    if scope.surfaces is not None:
        tests.append(f"record.kind = ANY({parameters.add(keep_storable(scope.surfaces), 'text[]')})")
    rows = await c.fetch(
        f"SELECT number, artifact_id, idx, id, {' AND '.join(tests) or 'true'} AS passes FROM record WHERE {condition}",
        *parameters.values,
    )
    for number, artifact_id, index, id, passes in rows:
        names[number] = (artifact_id, index, number, id) if passes else None
    return len(rows) == len(wanted)


def _put_in_order(
    numbers: Sequence[int],
    scores: Sequence[float],
    names: Mapping[int, tuple[str, int, int, str] | None],
    scope: TextScope,
) -> list[tuple[float, str, int, int, str]]:
    """Return negative scores and names, best first."""
    pairs = zip(numbers, scores, strict=True)
    ranked = sorted((-score, *name) for number, score in pairs if (name := names[number]) is not None)
    if not scope.per_artifact:
        return ranked
    best = dict[str, tuple[float, str, int, int, str]]()
    for row in ranked:
        best.setdefault(row[1], row)
    return [*best.values()]


async def insert(c: "Connection", numbers: Sequence[int], texts: Sequence[str], words: TextWords | None = None) -> None:
    """Index the texts of new records.

    Args:
        c: A connection in the transaction of a writer.
        numbers: The number of each record, ascending; higher than all before.
        texts: The text of each.
        words: What `analyse` returned for the texts. They are analysed again if the corpus has another language.
    """
    if not numbers:
        return
    language, runs = await _read_state(c)
    if words is None or words.language != language:
        words = await in_thread(analyse, texts, language)
    await _add(c, runs, np.array(numbers, np.int64), words)


async def _add(c: "Connection", runs: list[Run], numbers: NDArray[np.int64], words: TextWords) -> None:
    """Write the runs of new records, merged with others; they are added to `runs`."""
    pairs = words.pairs._replace(numbers=numbers[words.pairs.numbers])
    new = dict(await in_thread(split_runs, pairs, numbers, words.lengths))
    runs += new
    # Merge in memory before the first row is written, so that a merged run is written once.
    gone = list[int]()
    while (group := find_group(runs)) is not None:
        old = [run for run in runs[group] if run not in new]
        rows = await _take_rows(c, "run = ANY($1::bigint[])", [run.first for run in old]) if old else []
        gone += [run.first for run in old]
        parts = [new.pop(run) for run in runs[group] if run in new]
        merged = merge_runs(runs[group])
        new[merged] = await in_thread(_join, rows, parts)
        runs[group] = [merged]
    if gone:
        await c.execute("DELETE FROM text_run WHERE first = ANY($1::bigint[])", gone)
    await c.execute(
        f"INSERT INTO text_run ({', '.join(Run._fields)}) SELECT * FROM unnest({_RUN_ARRAYS})",
        *map(list, zip(*new, strict=True)),
    )
    rows = [row for run, each in new.items() for row in await in_thread(pack_rows, run, each)]
    await _insert_rows(c, rows)


def _join(rows: Sequence[Row], parts: Sequence[Pairs]) -> Pairs:
    """Return the pairs of rows of the index, and of other parts."""
    return Pairs.join([Blocks(rows).to_pairs(), *parts])


async def delete(c: "Connection", artifact_ids: Sequence[str]) -> None:
    """Remove the texts of all records of some artifacts from the index.

    The records must still be there.
    """
    found = await c.fetch("SELECT number, text FROM record WHERE artifact_id = ANY($1::text[])", artifact_ids)
    if not found:
        return
    found = sorted(found)
    texts = [row[1].decode() for row in found]
    language, runs = await _read_state(c)
    words = await in_thread(analyse, texts, language)
    numbers = np.array([row[0] for row in found], np.int64)
    changes, keys = await in_thread(_find_changes, runs, numbers, words)
    # All parts 0 that contain a word of a removed record, and the parts with its number.
    rows = await _take_rows(
        c,
        "(code, run, part) IN (SELECT * FROM unnest($1::integer[], $2::bigint[], $3::integer[]))"
        " AND run = ANY($4::bigint[])",
        *keys,
        [run.first for run in changes],
    )
    changed, count = await in_thread(drop_records, rows, numbers)
    if count != len(words.pairs.words):
        # Another version of the library cut other words: look at all rows.
        rest = await _take_rows(c, "run = ANY($1::bigint[])", [run.first for run in changes])
        changed += (await in_thread(drop_records, rest, numbers))[0]
    await _insert_rows(c, changed)
    await c.execute(
        f"""UPDATE text_run SET records = new.records, words = new.words, pairs = new.pairs
        FROM unnest({_RUN_ARRAYS}) AS new ({", ".join(Run._fields)}) WHERE text_run.first = new.first""",
        *map(list, zip(*changes, strict=True)),
    )
    if not all(run.records for run in changes):
        await c.execute("DELETE FROM text_run WHERE records = 0")


def _find_changes(
    runs: Sequence[Run], numbers: NDArray[np.int64], words: TextWords
) -> tuple[list[Run], tuple[list[int], ...]]:
    """Return the runs that change if these records go, and the keys of their rows.

    Args:
        runs: All runs.
        numbers: The numbers of the records, ascending.
        words: The words of their texts.
    """
    changes, keys = list[Run](), list[NDArray[np.int64]]()
    at = np.searchsorted(np.array([run.first for run in runs], np.int64), numbers, "right") - 1
    for place in np.unique(at).tolist():
        run, is_here = runs[place], at == place
        pairs = words.pairs.take(is_here[words.pairs.numbers])
        records, lengths = run.records - int(is_here.sum()), run.words - int(words.lengths[is_here].sum())
        changes.append(run._replace(records=records, words=lengths, pairs=run.pairs - len(pairs.words)))
        keys.append(find_keys(run, pairs._replace(numbers=numbers[pairs.numbers])))
    return changes, tuple(np.concatenate(keys, axis=1).tolist())


async def change_language(c: "Connection", language: Language | None) -> None:
    """Index all texts again for a language, unless it is the present one."""
    language = check_language(language)
    if await read_language(c) == language:
        return
    # TRUNCATE would make others wait, and find nothing meanwhile.
    await c.execute("DELETE FROM posting")
    await c.execute("DELETE FROM text_run")
    await c.execute("UPDATE setting SET value = $1 WHERE kind = 'language' AND key = ''", json.dumps(language))
    last, runs = -1, list[Run]()
    while rows := await c.fetch(
        "SELECT number, text FROM record WHERE number > $1 ORDER BY number LIMIT $2", last, _PAGE
    ):
        words = await in_thread(analyse, [row[1].decode() for row in rows], language)
        await _add(c, runs, np.array([row[0] for row in rows], np.int64), words)
        last = rows[-1][0]


async def _read_state(c: "Connection") -> tuple[Language | None, list[Run]]:
    """Return the language of the texts, and all runs."""
    rows = await c.fetch(
        f"""SELECT (SELECT value FROM setting WHERE kind = 'language' AND key = '') AS language,
        {", ".join(Run._fields)} FROM (SELECT) AS state LEFT JOIN text_run ON true ORDER BY first"""
    )
    return _parse_language(rows[0][0]), [Run(*row[1:]) for row in rows if row[1] is not None]


async def _take_rows(c: "Connection", condition: str, *values: Any) -> list[Row]:
    """Delete rows of the index, and return them."""
    rows = await c.fetch(f"DELETE FROM posting WHERE {condition} RETURNING {', '.join(COLUMNS)}", *values)
    return [tuple(row) for row in rows]


async def _insert_rows(c: "Connection", rows: Sequence[Row]) -> None:
    """Insert rows of the index."""
    if len(rows) > _FEW:
        await copy_columns(c, "posting", await in_thread(_encode_rows, rows))
    elif rows:  # COPY would take a round trip more
        await c.execute(
            f"""INSERT INTO posting ({", ".join(COLUMNS)})
            SELECT * FROM unnest($1::integer[], $2::bigint[], $3::integer[], $4::bytea[], $5::bytea[])""",
            *map(list, zip(*rows, strict=True)),
        )


def _encode_rows(rows: Sequence[Row]) -> dict[str, list[bytes]]:
    codes, runs, parts, directories, entries = zip(*rows, strict=True)
    numbers = encode_numbers(codes, ">i4"), encode_numbers(runs), encode_numbers(parts, ">i4")
    return dict(zip(COLUMNS, (*numbers, encode_bytes(directories), encode_bytes(entries)), strict=True))


async def _query_terms(queries: Sequence[str], language: Language | None) -> list[dict[str, int]]:
    return await offload_if(sum(map(len, queries)) > _MANY_LETTERS, Analyser(language).query_terms, queries)


def _parse_language(value: str | None) -> Language | None:
    """Return the language in a setting."""
    if value is None:
        raise StoreCorrupt("the corpus does not say the language of its texts; build it again")
    try:
        return check_language(json.loads(value))
    except (ValueError, ArgumentError):
        raise StoreError("the texts are of a language that this version of airw does not know; update it") from None


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

"""Words of texts on a PostgreSQL server: BM25 over the index of `_word_runs`.

The server finds the rows of the index that contain the words of a query. The scores are computed here, as in the other
stores and from the same numbers, so that they are equal to the last bit. Then the server names the best records.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import in_thread, offload_if
from airw.errors import StoreError
from airw.stores._indexes.best_rows import Postings, Word, find_best
from airw.stores._stored_values import DamagedValue, check_types, detect_damage
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
    to_runs,
)
from airw.values import Analyser, Language, Ranking, TermCounts, check_language, check_term_counts, formula_of
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
# How settings name a language. Earlier versions wrote "en" and null.
_NAMES: Mapping[Language | None, str | None] = {
    "en": "en, words with marks",
    None: "words with marks",
    "en-unicode61": "en",
    "unicode61": None,
}
LANGUAGE = "(SELECT value FROM setting WHERE kind = 'language' AND key = '')"
"""The SQL of the language that `IndexedTexts.of` takes."""
RUNS = f"(SELECT array_agg(ARRAY[{', '.join(Run._fields)}] ORDER BY first) FROM text_run)"
"""The SQL of the runs that `IndexedTexts.of` takes."""

# A condition with OR would read the whole table.
_TAKE = f"""
    WITH of_records AS (
        DELETE FROM posting
        WHERE (code, run, part) IN (SELECT * FROM unnest($1::integer[], $2::bigint[], $3::integer[]))
            AND run = ANY($4::bigint[])
        RETURNING {", ".join(COLUMNS)}
    ), of_runs AS (DELETE FROM posting WHERE run = ANY($5::bigint[]) RETURNING {", ".join(COLUMNS)})
    SELECT * FROM of_records UNION ALL SELECT * FROM of_runs"""
_WRITE = f"""
    WITH gone AS (DELETE FROM text_run WHERE first = ANY($1::bigint[])), written AS (
        INSERT INTO text_run ({", ".join(Run._fields)})
        SELECT * FROM unnest({", ".join(f"${place}::bigint[]" for place in range(2, len(Run._fields) + 2))})
        ON CONFLICT (first) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in Run._fields[1:])}
    )
    INSERT INTO posting ({", ".join(COLUMNS)})
    SELECT * FROM unnest($8::integer[], $9::bigint[], $10::integer[], $11::bytea[], $12::bytea[])"""
_STATE = f"""(
    SELECT {LANGUAGE} AS language, coalesce(sum(records), 0)::bigint AS records,
        coalesce(sum(words), 0)::bigint AS words FROM text_run
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
    await c.execute("INSERT INTO setting VALUES ('language', '', $1)", json.dumps(_NAMES[language]))


async def read_language(c: "Connection") -> Language | None:
    """Return the language of the texts."""
    value = await c.fetchval(f"SELECT {LANGUAGE}")
    return _parse_language(value)


async def search(
    c: "Connection", known: KnownLanguage, queries: Sequence[str], scope: TextScope, statistics: TermCounts | None
) -> list[Ranking]:
    """Return the best records or artifacts of each query; see `Rank`."""
    for _ in range(_ATTEMPTS):
        words_by_query, state, rows = await _read_rows(c, known, queries)
        if statistics is None:
            records, words, frequencies = state["records"], state["words"], None
        else:
            check_term_counts(statistics, words_by_query, formula_of(Analyser(known.value)))
            records, words, frequencies = statistics.records, statistics.words, statistics.frequencies
        if scope.k <= 0 or not any(words_by_query):
            return [Ranking([], [], np.empty(0), 0.0) for _ in words_by_query]
        with detect_damage():
            is_long = sum(len(row[4]) for row in rows) > _MANY_BYTES
        searches = await offload_if(is_long, _Scores, rows, words_by_query, records, words, frequencies)
        rankings = await _rank(c, searches, scope, is_long=is_long)
        if rankings is not None:
            return rankings
    raise StoreError("Rank: others remove the records that were found again and again; try later")


async def count_terms(c: "Connection", known: KnownLanguage, queries: Sequence[str]) -> TermCounts:
    """Return the counts behind the scores of queries; see `Words`."""
    words_by_query, state, rows = await _read_rows(
        c, known, queries, columns="code, run, part, directory, NULL AS entries"
    )
    words = sorted({word for words in words_by_query for word in words})
    repeats: dict[str, int] = {}
    for each in words_by_query:
        repeats.update({word: max(count, repeats.get(word, 1)) for word, count in each.items() if count > 1})
    frequencies = dict(zip(words, count_records([row[3] for row in rows], hash_words(words)), strict=True))
    with detect_damage():
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
            _check_totals(found[0]["records"], found[0]["words"], rows)
            return words_by_query, found[0], rows


def _check_totals(records: int, words: int, rows: Sequence[Row]) -> None:
    """Check the numbers of records and of their words, which scores are divided by."""
    if records < 0 or words < 0 or (rows and not (records and words)):
        raise DamagedValue(f"the word index counts {records} records with {words} words")


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
        self._row_count, postings = int(spans.sum()), dict[str, Postings]()
        names = sorted({word for each in words_by_query for word in each})
        for name, code in zip(names, hash_words(names), strict=True):
            places = blocks.find(int(code))
            bases = self._bases[np.searchsorted(self._runs, blocks.runs[places])]
            numbers = (bases + blocks.offsets[places]).astype(np.int32)
            columns = blocks.counts[places].astype(np.int32), blocks.lengths[places].astype(np.int32)
            postings[name] = Postings(numbers, *columns)
        self.queries: list[list[Word]] = []
        for each in words_by_query:
            query = []
            for name, repeats in each.items():
                frequency = len(postings[name].rows) if frequencies is None else frequencies[name]
                query.append(Word(postings[name], frequency, records, words, repeats))
            self.queries.append(query)

    def find_best(self, query: int, depth: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the numbers of the `depth` best records and all that tie, with their scores."""
        rows, scores = find_best(self.queries[query], depth, self._row_count)
        if len(rows) > depth:
            keep = np.flatnonzero(scores >= np.partition(scores, -depth)[-depth])
            rows, scores = rows[keep], scores[keep]
        runs = np.searchsorted(self._bases, rows, "right") - 1
        return self._runs[runs] + rows - self._bases[runs], scores


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
    check_types([[part for row in rows for part in (row[1], row[3])], [row[2] for row in rows]], [str, int])
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


@dataclass(slots=True)
class IndexedTexts:
    """What a writer has to know of the index before it changes it.

    Args:
        language: The language of the texts.
        runs: All runs, in their order.
        removed: The number and the text of each record that goes, in the order of numbers.
    """

    language: Language | None
    runs: Sequence[Run]
    removed: Sequence[tuple[int, str]] = ()

    @classmethod
    @detect_damage()
    def of(
        cls, language: str | None, runs: Iterable[Sequence[int]] | None, removed: Iterable[tuple[int, bytes]]
    ) -> "IndexedTexts":
        """Return it from the values of `LANGUAGE` and `RUNS`, and from numbers and texts."""
        texts = [(number, text.decode()) for number, text in sorted(removed)]
        return cls(_parse_language(language), to_runs(runs or ()), texts)


async def change(
    c: "Connection",
    indexed: IndexedTexts,
    numbers: Sequence[int],
    texts: Sequence[str],
    words: TextWords | None = None,
) -> None:
    """Remove the texts of some records from the index, and add those of new ones.

    Args:
        c: A connection in the transaction of a writer.
        indexed: What is in the index, and what of it goes.
        numbers: The number of each new record, ascending; higher than all before.
        texts: The text of each.
        words: What `analyse` returned for the texts. They are analysed again if the corpus has another language.
    """
    if not numbers and not indexed.removed:
        return
    if words is None or words.language != indexed.language:
        words = await in_thread(analyse, texts, indexed.language)
    await _change(c, indexed, np.array(numbers, np.int64), words)


async def _change(
    c: "Connection", indexed: IndexedTexts, numbers: NDArray[np.int64], words: TextWords
) -> Sequence[Run]:
    """Change the index, and return all runs."""
    gone = np.array([number for number, _ in indexed.removed], np.int64)
    changed, keys, pairs = await in_thread(_find_changes, indexed, gone)
    runs = [run for old in indexed.runs if (run := changed.get(old.first, old)).records]
    new = await in_thread(_split, numbers, words)
    runs += new
    # Runs are merged in memory before the first row is written, so that a merged run is written once.
    made = _merge(runs, new)
    whole = [part.first for parts in made.values() for part in parts if part not in new]
    rows = await _take_rows(c, keys[:, ~np.isin(keys[1], whole)], whole) if whole or keys.size else []
    if len(gone):
        rows, count = await in_thread(drop_records, rows, gone)
        if count != pairs:
            # Another version of the library cut other words: look at all rows.
            rest = await _take_rows(c, keys[:, :0], [*changed.keys() - set(whole)])
            rows += (await in_thread(drop_records, rest, gone))[0]
    packed = await in_thread(_pack, rows, made, new)
    stay = {run.first for run in runs}
    left = [old.first for old in indexed.runs if old.first not in stay]
    await _write_rows(c, packed, left, [run for run in runs if run.first in changed or run in made])
    return runs


def _split(numbers: NDArray[np.int64], words: TextWords) -> dict[Run, Pairs]:
    """Return the runs of new records, with their pairs."""
    pairs = words.pairs._replace(numbers=numbers[words.pairs.numbers])
    return dict(split_runs(pairs, numbers, words.lengths))


def _merge(runs: list[Run], new: Iterable[Run]) -> dict[Run, list[Run]]:
    """Merge runs in place, and return the runs to write, each with those it is made of."""
    made = {run: [run] for run in new}
    while (group := find_group(runs)) is not None:
        merged = merge_runs(runs[group])
        made[merged] = [part for run in runs[group] for part in made.pop(run, [run])]
        runs[group] = [merged]
    return made


def _pack(rows: Sequence[Row], made: Mapping[Run, Sequence[Run]], new: Mapping[Run, Pairs]) -> list[Row]:
    """Return the rows to write: those of the runs that are made, and the others among `rows`."""
    rows_by_run: dict[int, list[Row]] = {}
    for row in rows:
        rows_by_run.setdefault(row[1], []).append(row)
    packed = list[Row]()
    for run, parts in made.items():
        old = [row for part in parts for row in rows_by_run.pop(part.first, ())]
        packed += pack_rows(run, Pairs.join([Blocks(old).to_pairs(), *(new[part] for part in parts if part in new)]))
    return packed + [row for each in rows_by_run.values() for row in each]


def _find_changes(indexed: IndexedTexts, numbers: NDArray[np.int64]) -> tuple[dict[int, Run], NDArray[np.int64], int]:
    """Return what changes if some records go.

    Args:
        indexed: What is in the index.
        numbers: The numbers of the records, ascending.

    Returns:
        The runs that change by their first numbers, the codes, runs and parts of all rows that may change, and how many
        pairs go.
    """
    changes, keys = dict[int, Run](), [np.empty((3, 0), np.int64)]
    if not len(numbers):
        return changes, keys[0], 0
    words = analyse([text for _, text in indexed.removed], indexed.language)
    at = np.searchsorted(np.array([run.first for run in indexed.runs], np.int64), numbers, "right") - 1
    if at[0] < 0:
        raise DamagedValue("the word index lacks records")
    for place in np.unique(at).tolist():
        run, is_here = indexed.runs[place], at == place
        pairs = words.pairs.take(is_here[words.pairs.numbers])
        records, lengths = run.records - int(is_here.sum()), run.words - int(words.lengths[is_here].sum())
        changes[run.first] = run._replace(records=records, words=lengths, pairs=run.pairs - len(pairs.words))
        keys.append(find_keys(run, pairs._replace(numbers=numbers[pairs.numbers])))
    return changes, np.concatenate(keys, axis=1), len(words.pairs.words)


async def change_language(c: "Connection", language: Language | None) -> None:
    """Index all texts again for a language, unless it is the present one."""
    language = check_language(language)
    if await read_language(c) == language:
        return
    # TRUNCATE would make others wait, and find nothing meanwhile.
    await c.execute("DELETE FROM posting")
    await c.execute("DELETE FROM text_run")
    await c.execute("UPDATE setting SET value = $1 WHERE kind = 'language' AND key = ''", json.dumps(_NAMES[language]))
    last, indexed = -1, IndexedTexts(language, [])
    while rows := await c.fetch(
        "SELECT number, text FROM record WHERE number > $1 ORDER BY number LIMIT $2", last, _PAGE
    ):
        with detect_damage():
            texts = [row[1].decode() for row in rows]
        words = await in_thread(analyse, texts, language)
        indexed.runs = await _change(c, indexed, np.array([row[0] for row in rows], np.int64), words)
        last = rows[-1][0]


async def _take_rows(c: "Connection", keys: NDArray[np.int64], runs: Sequence[int]) -> list[Row]:
    """Delete the rows with these keys and all rows of these runs, and return them."""
    rows = await c.fetch(_TAKE, *keys.tolist(), np.unique(keys[1]).tolist(), runs)
    return [tuple(row) for row in rows]


async def _write_rows(c: "Connection", rows: Sequence[Row], gone: Sequence[int], runs: Sequence[Run]) -> None:
    """Insert rows of the index, delete runs, and write others anew."""
    is_few = len(rows) <= _FEW
    columns = zip(*rows, strict=True) if rows and is_few else repeat((), len(COLUMNS))
    of_runs = zip(*runs, strict=True) if runs else repeat((), len(Run._fields))
    await c.execute(_WRITE, gone, *map(list, of_runs), *map(list, columns))
    if not is_few:
        await copy_columns(c, "posting", await in_thread(_encode_rows, rows))


def _encode_rows(rows: Sequence[Row]) -> dict[str, list[bytes]]:
    codes, runs, parts, directories, entries = zip(*rows, strict=True)
    numbers = encode_numbers(codes, ">i4"), encode_numbers(runs), encode_numbers(parts, ">i4")
    return dict(zip(COLUMNS, (*numbers, encode_bytes(directories), encode_bytes(entries)), strict=True))


async def _query_terms(queries: Sequence[str], language: Language | None) -> list[dict[str, int]]:
    return await offload_if(sum(map(len, queries)) > _MANY_LETTERS, Analyser(language).query_terms, queries)


def _parse_language(value: str | None) -> Language | None:
    """Return the language in a setting."""
    if value is None:
        raise DamagedValue("the corpus does not say the language of its texts")
    with detect_damage():
        language = json.loads(value)
    if not isinstance(language, str | None):
        raise DamagedValue("the language of the texts is no text")
    for known, name in _NAMES.items():
        if name == language:
            return known
    raise StoreError("the texts are of a language that this version of airw does not know; update it")

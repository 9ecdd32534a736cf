"""An inverted index in memory that ranks texts by BM25, with the scores of SQLite's FTS5.

The postings of a word are the rows that contain it, and how often each does. They are read from the FTS5 index in the
database (see the module `texts`) when the word is first searched for. Scores equal those of FTS5's own function
`bm25`, made positive. FTS5 computes the scores of the rows one by one; here a few array operations compute them all.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.messages import short_repr
from airw._base.slices import consume_in_slices, dump_in_slices
from airw.errors import ArgumentError
from airw.stores._indexes.texts import has_split_runs, split_queries, split_words
from airw.values import Ranking, TermCounts

if TYPE_CHECKING:
    import sqlite3

# -score, artifact id, surface index, rowid, record id: so rows sort by rank
_RankedRow: TypeAlias = tuple[float, str, int, int, str]

_K1, _B = 1.2, 0.75
# The id of the formula changes with any rule that a score depends on: by whether runs of letters are split.
_FORMULAS = {False: "bm25 of fts5/unicode61", True: "bm25 of fts5/unicode61, unspaced letters in pairs"}
_LEAST_WEIGHT = 1e-6  # FTS5's weight of a word in half of all rows or more, where BM25 would be zero or negative
_GROWTH = 4  # factor by which more records are read while they belong to too few artifacts
_MAX_BYTES = 1 << 26  # memory of all postings
_PARSE_CHARS = 1 << 18  # parsed in about a millisecond
_WORD_BYTES = 300  # rough memory of a word besides its rows
_MAX_NEW_WORDS = (
    1 << 16
)  # words of new rows counted in Python since the postings were last cleared; beyond that, they are cleared


@dataclass(slots=True)
class _PostingList:
    """The postings of one word.

    Args:
        rows: The positions of the rows that contain the word, ascending.
        counts: How often each row contains it.
        removal_count: The number of removed rows in the index when `rows` was last cleaned.
        new: Pairs of row and count that are not yet in `rows` and `counts`.
    """

    rows: NDArray[np.int32]
    counts: NDArray[np.int32]
    removal_count: int
    new: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Return the rough number of bytes in memory.

        New pairs are not counted; `_MAX_NEW_WORDS` limits them.
        """
        return self.rows.nbytes + self.counts.nbytes + _WORD_BYTES


class InvertedIndex:
    """Ranks the texts of a database by BM25; not for two threads at the same time.

    Each call first brings the index up to date with the database. It reads only the changes, except that it reads all
    rowids again after a removal. It also copies arrays with one entry per row. A call may be interrupted at any
    statement; the next call repeats its work.

    Example:
        >>> import sqlite3
        >>> from airw.stores._indexes.texts import TEXT_TABLES, insert_records, prepare_texts
        >>> connection = sqlite3.connect(":memory:", isolation_level=None)
        >>> prepare_texts(connection)
        >>> for statement in TEXT_TABLES:
        ...     _ = connection.execute(statement)
        >>> texts = ["rotate the keys", "the weather"]
        >>> _ = insert_records(connection, [(f"r{at}", f"a{at}", "d", 0, "{}", text) for at, text in enumerate(texts)])
        >>> [ranking] = InvertedIndex().rank(connection, ["Keys?"], 10)
        >>> ranking.record_ids
        ['r0']
        >>> connection.close()
    """

    def __init__(self) -> None:
        self._clear()

    def rank(
        self,
        connection: "sqlite3.Connection",
        queries: Sequence[str],
        k: int,
        *,
        allowed: NDArray[np.int64] | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
        statistics: TermCounts | None = None,
    ) -> list[Ranking]:
        """Return the `k` best records or artifacts of each query.

        Only records that contain at least one word of the query are ranked.

        Args:
            connection: A connection with a snapshot of the database, prepared by `prepare_texts`.
            queries: The queries, in plain words.
            k: The largest number of results per query.
            allowed: The numbers (rowids) of the records to rank; `None` for all.
            surfaces: The surface kinds to rank; `None` for all.
            per_artifact: Whether to rank artifacts, each by its best record.
            statistics: The word counts to compute scores with; `None` for those of this index.

        Returns:
            One ranking per query, best first; ties by artifact id, then surface index.

        Raises:
            ArgumentError: If the statistics are of another formula, or lack a word of the queries.
            sqlite3.DatabaseError: If the text index does not match the records.
        """
        self._update(connection)
        words_by_query = split_queries(queries, split_runs=self._splits_runs)
        if statistics is not None:
            _check_statistics(statistics, words_by_query, _FORMULAS[self._splits_runs])
        if surfaces is not None:
            self._read_kinds(connection)
        k, rankings = max(k, 0), []
        for words in words_by_query:
            scores = self._score(connection, words if k else [], statistics)
            matches = self._select_rows(np.flatnonzero(scores), allowed, surfaces)
            best = self._find_best(connection, scores, matches, k, per_artifact=per_artifact)
            ids, artifact_ids = [row[-1] for row in best], [row[1] for row in best]
            best_scores = np.fromiter((-row[0] for row in consume_in_slices(best)), np.float64, len(best))
            rankings.append(Ranking(ids, artifact_ids, best_scores))
        return rankings

    def count_terms(self, connection: "sqlite3.Connection", queries: Sequence[str]) -> TermCounts:
        """Return the counts behind the scores of these queries.

        The postings that this reads stay in memory for the search that follows.
        """
        self._update(connection)
        words_by_query = split_queries(queries, split_runs=self._splits_runs)
        words = sorted({word for words in words_by_query for word in words})
        frequencies = {word: len(self._get_postings(connection, word).rows) for word in words}
        return TermCounts(_FORMULAS[self._splits_runs], self._count, self._word_count, frequencies)

    def _clear(self) -> None:
        self._count = self._last = 0  # number of live rows; highest rowid ever indexed
        self._splits_runs = True  # read with the first rows
        self._word_count = 0  # in all live rows
        # One entry per row. Removed rows keep their position, so that postings stay valid.
        self._rowids: NDArray[np.int64] = np.empty(0, np.int64)
        self._lengths: NDArray[np.float64] = np.empty(0)
        self._live: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._norms: NDArray[np.float64] = np.empty(0)
        self._kind_codes: NDArray[np.int32] = np.empty(
            0, np.int32
        )  # read only for searches by surface, so it may be shorter
        self._code_of_kind: dict[str, int] = {}
        self._clear_postings()

    def _clear_postings(self) -> None:
        self._postings: dict[str, _PostingList] = {}  # least recently used first
        self._bytes = self._new_words = 0

    def _update(self, connection: "sqlite3.Connection") -> None:
        """Bring the index up to date with the rows of the database."""
        # Rowids are never used twice. So the rows are unchanged if their number and the last rowid are.
        count, last = connection.execute(
            """SELECT (SELECT count(*) FROM record_text_docsize),
            (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'record')"""
        ).fetchone()
        if (count, last) == (self._count, self._last):
            return
        self._splits_runs = has_split_runs(connection)
        # Append the new rows, then mark the removed ones; these are known only by comparing all rowids.
        new_numbers, new_lengths = read_lengths(connection, self._last)
        numbers = np.concatenate([self._rowids, new_numbers])
        live = np.concatenate([self._live, np.ones(len(new_numbers), np.bool_)])
        if count < np.count_nonzero(live):
            live = np.isin(numbers, _read_rowids(connection), assume_unique=True)
        # Removed rows keep their positions. Once they are more than half of all, start again with an empty index.
        if 2 * count < len(numbers):
            self._clear()
            self._update(connection)
            return
        # All reads come before the first change that rankings depend on, so that an interrupted call can be repeated.
        self._add_new_words(connection, new_lengths)
        self._rowids, self._live, self._lengths = numbers, live, np.concatenate([self._lengths, new_lengths])
        self._count, self._last = count, last
        self._word_count = int(self._lengths[self._live].sum())
        self._norms = _compute_norms(self._lengths, self._word_count, count)

    def _add_new_words(self, connection: "sqlite3.Connection", lengths: NDArray[np.float64]) -> None:
        """Add the new rows to the postings in memory."""
        if not self._postings:
            return
        self._new_words += int(lengths.sum())
        if self._new_words > _MAX_NEW_WORDS:
            self._clear_postings()
            return
        texts = connection.execute("SELECT text FROM record WHERE rowid > ? ORDER BY rowid", [self._last]).fetchall()
        words_by_row = split_words([text for (text,) in texts], split_runs=self._splits_runs)
        for row, words in enumerate(words_by_row, len(self._rowids)):
            for word, count in Counter(words).items():
                if word in self._postings:
                    self._postings[word].new.append((row, count))

    def _score(
        self, connection: "sqlite3.Connection", words: Sequence[str], statistics: TermCounts | None
    ) -> NDArray[np.float64]:
        """Return the BM25 score of each row, 0 for rows without any of the words.

        The arithmetic is that of FTS5, step by step, so that rounding is the same, too. It is the same for statistics
        of several indexes, so that their scores equal those of one index with all rows.
        """
        scores = np.zeros(len(self._rowids))
        for word in words:
            postings = self._get_postings(connection, word)
            rows, counts = postings.rows, postings.counts
            if statistics is None:
                norms, row_count, frequency = self._norms[rows], self._count, len(rows)
            else:
                row_count, frequency = statistics.records, statistics.frequencies[word]
                norms = _compute_norms(self._lengths[rows], statistics.words, row_count)
            weight = math.log((row_count - frequency + 0.5) / (frequency + 0.5))
            scores[rows] += max(weight, _LEAST_WEIGHT) * (counts * (_K1 + 1.0) / (counts + norms))
        return scores

    def _get_postings(self, connection: "sqlite3.Connection", word: str) -> _PostingList:
        """Return the current postings of a word; evict others above `_MAX_BYTES` in all."""
        postings = self._postings.pop(word, None)
        if postings is None:
            rows, counts = self._read_postings(connection, word)
            postings = _PostingList(rows, counts, self._removal_count)
        else:
            self._bytes -= postings.size
            self._merge_new(postings)
        self._postings[word] = postings
        self._bytes += postings.size
        # Evict the least recently used words, but never the one just requested.
        while self._bytes > _MAX_BYTES and len(self._postings) > 1:
            self._bytes -= self._postings.pop(next(iter(self._postings))).size
        return postings

    @property
    def _removal_count(self) -> int:
        return len(self._rowids) - self._count

    def _merge_new(self, postings: _PostingList) -> None:
        """Merge the new rows into the postings of a word, and drop the removed rows."""
        if postings.new:
            # New rows have higher positions than all others, so appending keeps the order.
            rows, counts = np.array(postings.new, np.int32).T
            postings.rows = np.concatenate([postings.rows, rows])
            postings.counts = np.concatenate([postings.counts, counts])
            postings.new = []
        if postings.removal_count != self._removal_count:
            is_live = self._live[postings.rows]
            postings.rows, postings.counts = postings.rows[is_live], postings.counts[is_live]
            postings.removal_count = self._removal_count

    def _read_postings(
        self, connection: "sqlite3.Connection", word: str
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        # FTS5 lists the rowid of a row once per occurrence of the word, one after the other. So the length of each run
        # is the count.
        sql = "SELECT group_concat(doc) FROM temp.record_word WHERE term = ?"
        numbers = _parse_numbers(*connection.execute(sql, [word]).fetchone())
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        rows, counts = np.searchsorted(self._rowids, numbers[starts]), np.diff(starts, append=len(numbers))
        self._check_rows(rows, numbers[starts])
        return rows.astype(np.int32), counts.astype(np.int32)

    def _read_kinds(self, connection: "sqlite3.Connection") -> None:
        """Read the surface kinds of the rows after those already read.

        Only searches with `surfaces` need them.
        """
        start = len(self._kind_codes)
        if start == len(self._rowids):
            return
        numbers, kinds = connection.execute(
            "SELECT group_concat(rowid), json_group_array(kind) FROM record WHERE rowid >= ?",
            [int(self._rowids[start])],
        ).fetchone()
        codes = [self._code_of_kind.setdefault(kind, len(self._code_of_kind)) for kind in json.loads(kinds)]
        # -1 equals no code: rows that were removed already have no kind.
        added = np.full(len(self._rowids) - start, -1, np.int32)
        rowids = _parse_numbers(numbers)
        rows = np.searchsorted(self._rowids, rowids)
        self._check_rows(rows, rowids)
        added[rows - start] = codes
        self._kind_codes = np.concatenate([self._kind_codes, added])

    def _check_rows(self, rows: NDArray[np.int64], rowids: NDArray[np.int64]) -> None:
        """Check that these rows of the index have these rowids.

        Raises:
            sqlite3.DatabaseError: If they do not, because the text index is damaged.
        """
        is_known = not len(rows) or bool(len(self._rowids))
        _check_consistent(
            is_known and np.array_equal(self._rowids.take(rows, mode="clip") if len(rows) else rows, rowids)
        )

    def _select_rows(
        self, matches: NDArray[np.int64], allowed: NDArray[np.int64] | None, surfaces: Sequence[str] | None
    ) -> NDArray[np.int64]:
        """Return the matching rows that the filter and the surface kinds let through."""
        if allowed is not None:
            matches = matches[np.isin(self._rowids[matches], allowed)]
        if surfaces is not None:
            codes = [self._code_of_kind[kind] for kind in surfaces if kind in self._code_of_kind]
            matches = matches[np.isin(self._kind_codes[matches], codes)]
        return matches

    def _find_best(
        self,
        connection: "sqlite3.Connection",
        scores: NDArray[np.float64],
        matches: NDArray[np.int64],
        k: int,
        *,
        per_artifact: bool,
    ) -> list[_RankedRow]:
        """Return the `k` best of the matching rows, or the best row of each of `k` artifacts."""
        # Start with `k` rows; per artifact that may be too few, as one artifact may own many of them.
        depth = min(k, len(matches))
        while True:
            rows = self._read_best(connection, scores, matches, depth)
            if not per_artifact:
                return rows[:k]
            best = dict[str, _RankedRow]()
            for row in rows:
                best.setdefault(row[1], row)
            if len(best) >= k or depth == len(matches):
                return [*best.values()][:k]
            # The best records belong to fewer than `k` artifacts: read more records.
            depth = min(_GROWTH * depth, len(matches))

    def _read_best(
        self, connection: "sqlite3.Connection", scores: NDArray[np.float64], matches: NDArray[np.int64], depth: int
    ) -> list[_RankedRow]:
        """Return the `depth` best of the matching rows, in rank order."""
        if not depth:
            return []
        # Sorting all matches by artifact would read a table row for each of them. So find the last score that ranks,
        # sort the few better rows here, and let SQLite sort the rows that tie with it. There may be many, and it
        # returns only those that are missing.
        values, cut = scores[matches], len(matches) - depth
        last_score = np.partition(values, cut)[cut]
        better, equal = matches[values > last_score], matches[values == last_score]
        rows = [*self._read_rows(connection, scores, better, depth)]
        # The rows come in the order of ties, which a stable sort by score keeps.
        order = np.argsort(np.fromiter((row[0] for row in rows), np.float64, len(rows)), kind="stable")
        sorted_rows = [rows[place] for place in order.tolist()]
        return [*sorted_rows, *self._read_rows(connection, scores, equal, depth - len(rows))]

    def _read_rows(
        self, connection: "sqlite3.Connection", scores: NDArray[np.float64], rows: NDArray[np.int64], limit: int
    ) -> Iterator[_RankedRow]:
        """Yield at most `limit` of the rows, ordered by artifact id and surface index."""
        row_scores = scores[rows].tolist()
        for position, artifact_id, index, number, record_id in connection.execute(
            """SELECT key, artifact_id, CAST(idx AS INTEGER), record.rowid, record.id
            FROM json_each(?) JOIN record ON record.rowid = value
            ORDER BY artifact_id, idx, record.rowid LIMIT ?""",
            [dump_in_slices(self._rowids[rows].tolist()), limit],
        ):
            # A damaged or foreign file may have bytes here.
            _check_consistent(isinstance(artifact_id, str) and isinstance(record_id, str))
            yield -row_scores[position], artifact_id, index, number, record_id


def _compute_norms(lengths: NDArray[np.float64], word_count: int, row_count: int) -> NDArray[np.float64]:
    """Return the part of the BM25 denominator that depends on the length of each row."""
    average = word_count / row_count if word_count else 1.0
    norms: NDArray[np.float64] = _K1 * (1 - _B + _B * lengths / average)
    return norms


def _check_statistics(statistics: object, words_by_query: Sequence[Sequence[str]], formula: str) -> None:
    """Check that word counts fit these queries and this index, or raise `ArgumentError`."""
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


def read_lengths(connection: "sqlite3.Connection", after: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rowids after `after`, and the number of words in each of these rows."""
    numbers, sizes = connection.execute(
        "SELECT group_concat(id), CAST(group_concat(sz, '') AS BLOB) FROM record_text_docsize WHERE id > ?", [after]
    ).fetchone()
    # FTS5 stores each length as a varint: base 128, highest digit first, 128 added to all digits but the last.
    digits = np.frombuffer(sizes or b"", np.uint8)
    ends = np.flatnonzero(digits < 128)
    digit_counts = np.diff(ends, prepend=-1)
    powers = np.repeat(ends, digit_counts) - np.arange(len(digits))
    values = (digits & 127) * 128.0**powers
    lengths = np.add.reduceat(values, ends - digit_counts + 1) if len(ends) else values
    rowids = _parse_numbers(numbers)
    _check_consistent(len(rowids) == len(lengths))
    return rowids, lengths


def _read_rowids(connection: "sqlite3.Connection") -> NDArray[np.int64]:
    return _parse_numbers(*connection.execute("SELECT group_concat(id) FROM record_text_docsize").fetchone())


def _parse_numbers(numbers: str | None) -> NDArray[np.int64]:
    """Parse numbers separated by commas.

    The text is parsed in slices, as numpy keeps the GIL and so stops all other threads while it parses one.
    """
    text, start, parts = numbers or "", 0, [np.empty(0, np.int64)]
    while start < len(text):
        comma = text.find(",", start + _PARSE_CHARS)
        end = len(text) if comma < 0 else comma
        parts.append(np.fromstring(text[start:end], np.int64, sep=","))
        start = end + 1
    return np.concatenate(parts)


def _check_consistent(is_consistent: object) -> None:
    import sqlite3

    if not is_consistent:
        raise sqlite3.DatabaseError("the text index does not match the records")

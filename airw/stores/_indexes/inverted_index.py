"""An inverted index in memory that ranks texts by BM25.

The postings of a word are the rows that contain it, and how often each does. They are read from the FTS5 index in the
database (see the module `texts`) when the word is first searched for. A score is the sum, over the words of the query,
of the weight of the word (`weigh_word`) times its number in the query and a factor below 2.2. That factor grows with
the occurrences in the row, and falls with its length. Most rows are skipped (see `best_rows`).
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from airw._base.arrays import NDArray
from airw._base.slices import consume_in_slices
from airw.stores._indexes.best_rows import (
    AnyWord,
    CommonWord,
    Postings,
    RowScorer,
    RowTest,
    Scores,
    Weighing,
    Word,
)
from airw.stores._indexes.record_names import RankedRow, RecordNames
from airw.stores._indexes.row_table import RowTable, RowTexts
from airw.stores._indexes.word_tables import (
    TextState,
    check_consistent,
    parse_numbers,
    read_frequency,
    read_lengths,
    read_rowids,
    read_state,
    read_word,
)
from airw.values import Ranking, TermCounts, check_term_counts, formula_of

if TYPE_CHECKING:
    import sqlite3

_GROWTH = 4  # factor by which more records are read while they belong to too few artifacts
_MAX_BYTES = 1 << 26  # memory of all postings
_SHORT = 1_000  # the postings of a word in all of so many rows are read in less than a millisecond
_WORD_BYTES = 300  # rough memory of a word besides its rows
_MAX_NEW_WORDS = 1 << 16  # of new rows, counted in Python; beyond that, all postings are cleared
_QUICK_CHARS, _QUICK_ROWS = 1_000, 20_000  # letters of queries, and rows of their words, in less than a millisecond


class _Unread(Exception):
    """Something is not in memory."""


class _NoDatabase:
    """A connection for answers from memory: whoever has to read something gets `_Unread`."""

    def execute(self, *_: object) -> "sqlite3.Cursor":
        raise _Unread


class _Outdated(Exception):
    """The index follows a later state of the database than the connection sees."""


@dataclass(slots=True, eq=False, repr=False)
class _PostingList:
    """The postings of one word.

    Args:
        current: The rows that contain the word.
        removal_count: The number of removed rows in the index when `current` was last cleaned.
        new: Pairs of row and count that are not yet in `current`.
    """

    current: Postings
    removal_count: int
    new: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Return the rough number of bytes in memory.

        New pairs are not counted; `_MAX_NEW_WORDS` limits them.
        """
        return self.current.size + _WORD_BYTES


class InvertedIndex:
    """Ranks the texts of a database by BM25.

    Several threads may use it, each with its own connection. Each call first brings the index up to date with the
    database. It reads only the changes, except that it reads all rowids again after a removal. It also copies arrays
    with one entry per row. A call may be interrupted at any statement; the next call repeats its work. A connection
    that sees an earlier state than the index is answered from that state, which takes as long as a first call.

    Example:
        >>> import sqlite3
        >>> from airw.stores._indexes.texts import RECORD_TABLES, create_index, insert_records, prepare_texts
        >>> connection = sqlite3.connect(":memory:", isolation_level=None)
        >>> prepare_texts(connection)
        >>> for statement in RECORD_TABLES:
        ...     _ = connection.execute(statement)
        >>> create_index(connection, "en")
        >>> texts = ["rotate the keys", "the weather"]
        >>> _ = insert_records(connection, [(f"r{at}", f"a{at}", "d", 0, "{}", text) for at, text in enumerate(texts)])
        >>> [ranking] = InvertedIndex().rank(connection, ["Keys?"], 10)
        >>> ranking.record_ids
        ['r0']
        >>> connection.close()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held to follow the database and to read words, not to rank
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
        rank = partial(
            InvertedIndex._rank,
            connection=connection,
            queries=queries,
            k=k,
            allowed=allowed,
            surfaces=surfaces,
            per_artifact=per_artifact,
            statistics=statistics,
        )
        try:
            return rank(self)
        except _Outdated:
            return rank(InvertedIndex())

    @property
    def is_used(self) -> bool:
        """True if words were searched for."""
        return bool(self._postings)

    def rank_if_quick(self, queries: Sequence[str], k: int, *, per_artifact: bool) -> list[Ranking] | None:
        """Return what `rank` would return in the state of the database that the last call saw.

        The result is `None` if something is not in memory, or if that may take more than about a millisecond.
        """
        if not all(map(str.isascii, queries)) or sum(map(len, queries)) > _QUICK_CHARS:
            return None
        if not self._lock.acquire(blocking=False):
            return None
        try:
            table = self._table
            words_by_query = table.analyser.query_terms(queries)
            postings = {name: self._get_clean(name) for names in words_by_query for name in names}
        except _Unread:
            return None
        finally:
            self._lock.release()
        # Each query ranks by itself, also one with the same words as another.
        if k * len(queries) + sum(len(postings[name].rows) for names in words_by_query for name in names) > _QUICK_ROWS:
            return None
        nowhere = cast("sqlite3.Connection", _NoDatabase())

        def weigh(name: str, repeats: int) -> Word:
            rows = postings[name].rows
            weighing = Weighing.of(len(rows), table.count, table.word_count, repeats)
            return _weigh(nowhere, table, postings[name], weighing)

        rank = partial(self._names.rank, nowhere)
        with suppress(_Unread):
            weighed = [[weigh(*item) for item in names.items()] for names in words_by_query]
            return [_find_ranking(table, words, k, None, rank=rank, per_artifact=per_artifact) for words in weighed]
        return None

    def count_terms(self, connection: "sqlite3.Connection", queries: Sequence[str]) -> TermCounts:
        """Return the counts behind the scores of these queries.

        The postings that this reads stay in memory for the search that follows.
        """
        try:
            table, _ = self._open(connection, None)
            words_by_query = table.analyser.query_terms(queries)
            words = sorted({word for words in words_by_query for word in words})
            frequencies = {word: len(self._find_postings(connection, table, word).rows) for word in words}
            formula, repeats = formula_of(table.analyser), _find_repeats(words_by_query)
            return TermCounts(formula, table.count, table.word_count, frequencies, repeats)
        except _Outdated:
            return InvertedIndex().count_terms(connection, queries)

    def _rank(
        self,
        *,
        connection: "sqlite3.Connection",
        queries: Sequence[str],
        k: int,
        allowed: NDArray[np.int64] | None,
        surfaces: Sequence[str] | None,
        per_artifact: bool,
        statistics: TermCounts | None,
    ) -> list[Ranking]:
        table, is_kind = self._open(connection, surfaces)
        words_by_query = table.analyser.query_terms(queries)
        if statistics is not None:
            check_term_counts(statistics, words_by_query, formula_of(table.analyser))
        is_allowed = _join_tests(None if allowed is None else table.mark(allowed).take, is_kind)
        rank, rankings = partial(self._names.rank, connection), []
        for names in words_by_query:
            texts = RowTexts(connection, table)
            words = [
                self._read_word(connection, table, texts, name, repeats=repeats, statistics=statistics)
                for name, repeats in names.items()
                if k > 0
            ]
            rankings.append(_find_ranking(table, words, k, is_allowed, rank=rank, per_artifact=per_artifact))
        return rankings

    def _clear(self) -> None:
        nothing, no_marks = np.empty(0, np.int64), np.empty(0, np.bool_)
        self._table = RowTable(
            TextState(None, 0),
            count=0,
            word_count=0,
            rowids=nothing,
            is_live=no_marks,
            lengths=np.empty(0),
            scorer=RowScorer(0),
        )
        # Read only for searches by surface, so there may be fewer than rows.
        self._kind_codes: NDArray[np.int32] = np.empty(0, np.int32)
        self._code_of_kind: dict[str, int] = {}
        self._names = RecordNames()
        self._clear_postings()

    def _clear_postings(self) -> None:
        self._postings: dict[str, _PostingList] = {}  # least recently used first
        self._counted: set[str] = set()  # common words of earlier queries whose postings were not read
        self._bytes = self._new_words = 0

    def _open(
        self, connection: "sqlite3.Connection", surfaces: Sequence[str] | None
    ) -> tuple[RowTable, RowTest | None]:
        """Bring the index up to date; return its rows, and the test of their surface kinds."""
        with self._lock:
            self._update(connection)
            if surfaces is None:
                return self._table, None
            self._read_kinds(connection)
            codes = self._kind_codes
            is_wanted = np.zeros(len(self._code_of_kind) + 1, np.bool_)  # the last is for rows without a kind
            is_wanted[[self._code_of_kind[kind] for kind in surfaces if kind in self._code_of_kind]] = True
            return self._table, lambda rows: is_wanted[codes[rows]]

    def _update(self, connection: "sqlite3.Connection") -> None:
        """Bring the index up to date with the rows of the database."""
        state = read_state(connection)
        if state == self._table.state:
            return
        # An older state, of an earlier language perhaps, must not take the place of a later one.
        if state.schema < self._table.state.schema:
            raise _Outdated
        # The words of another language are other words of the same rows.
        if state.language != self._table.state.language:
            self._clear()
        old = self._table
        # Rowids are never used twice. So of two states with the same last rowid, the later one has fewer rows.
        count, word_count = state.decode()
        if (state.last, -count) < (old.state.last, -old.count):
            raise _Outdated
        # Append the new rows, then mark the removed ones; these are known only by comparing all rowids.
        is_first = not len(old.rowids)
        new_rowids = read_rowids(connection, old.state.last)
        # The lengths of the first rows are read when they are needed.
        new_lengths = np.full(len(new_rowids), -1.0) if is_first else read_lengths(connection, old.state.last)[1]
        rowids = np.concatenate([old.rowids, new_rowids])
        is_live = np.concatenate([old.is_live, np.ones(len(new_rowids), np.bool_)])
        if count < np.count_nonzero(is_live):
            is_live = np.isin(rowids, read_rowids(connection, 0), assume_unique=True)
        check_consistent(count == np.count_nonzero(is_live))
        # Removed rows keep their positions. Once they are more than half of all, start again with an empty index.
        if 2 * count < len(rowids):
            self._clear()
            self._update(connection)
            return
        # All reads come before the first change that rankings depend on, so that an interrupted call can be repeated.
        self._add_new_words(connection, new_lengths)
        self._counted.clear()
        lengths = np.concatenate([old.lengths, new_lengths])
        self._table = RowTable(state, count, word_count, rowids, is_live, lengths, RowScorer(len(rowids)))

    def _add_new_words(self, connection: "sqlite3.Connection", lengths: Scores) -> None:
        """Add the new rows to the postings in memory."""
        if not self._postings:
            return
        self._new_words += int(lengths.sum())
        if self._new_words > _MAX_NEW_WORDS:
            self._clear_postings()
            return
        texts = connection.execute(
            "SELECT text FROM record WHERE rowid > ? ORDER BY rowid", [self._table.state.last]
        ).fetchall()
        words_by_row = self._table.analyser.split([text for (text,) in texts])
        for row, words in enumerate(words_by_row, len(self._table.rowids)):
            for word, count in Counter(words).items():
                if word in self._postings:
                    self._postings[word].new.append((row, count))

    def _read_word(
        self,
        connection: "sqlite3.Connection",
        table: RowTable,
        texts: RowTexts,
        name: str,
        *,
        repeats: int,
        statistics: TermCounts | None,
    ) -> AnyWord:
        """Return a word with its postings and weight.

        The weight is the same for statistics of several indexes, so that scores equal those of one index with all rows.
        """
        common = self._count_common(connection, table, name)
        postings = None if common else self._find_postings(connection, table, name)
        frequency = common if postings is None else len(postings.rows)
        if statistics is None:
            weighing = Weighing.of(frequency, table.count, table.word_count, repeats)
        else:
            weighing = Weighing.of(statistics.frequencies[name], statistics.records, statistics.words, repeats)
        read_lengths = partial(table.read_lengths, connection)
        if postings is None:

            def read() -> Word:
                return Word(self._find_postings(connection, table, name), weighing, read_lengths)

            return CommonWord(frequency, weighing, read_lengths, count=partial(texts.count, name), read=read)
        return _weigh(connection, table, postings, weighing)

    def _count_common(self, connection: "sqlite3.Connection", table: RowTable, word: str) -> int:
        """Return the number of rows with a word that is in half of them.

        It is 0 for other words, and from the second query on. The first query need not wait for such long
        postings. Later ones are faster with them.
        """
        with self._lock:
            if table.count <= _SHORT or word in self._postings or word in self._counted:
                return 0
            frequency = read_frequency(connection, word)
            if 2 * frequency < table.count:
                return 0
            self._counted.add(word)
            return frequency

    def _find_postings(self, connection: "sqlite3.Connection", table: RowTable, word: str) -> Postings:
        """Return the postings of a word in these rows; evict others above `_MAX_BYTES` in all."""
        with self._lock:
            if self._table is not table:
                raise _Outdated
            postings = self._postings.pop(word, None)
            if postings is None:
                rowids, counts = read_word(connection, word)
                postings = _PostingList(Postings(table.locate(rowids), counts), table.removal_count)
                self._bytes += postings.size
            elif postings.new or postings.removal_count != table.removal_count:
                self._bytes -= postings.size
                self._merge_new(postings)
                self._bytes += postings.size
            self._postings[word] = postings
            # Evict the least recently used words, but never the one just requested.
            while self._bytes > _MAX_BYTES and len(self._postings) > 1:
                self._bytes -= self._postings.pop(next(iter(self._postings))).size
            return postings.current

    def _get_clean(self, word: str) -> Postings:
        """Return the postings of a word that needs no update; the caller holds the lock."""
        postings = self._postings.pop(word, None)
        if postings is None:
            raise _Unread
        self._postings[word] = postings
        if postings.new or postings.removal_count != self._table.removal_count:
            raise _Unread
        return postings.current

    def _merge_new(self, postings: _PostingList) -> None:
        """Merge the new rows into the postings of a word, and drop the removed rows."""
        rows, counts = postings.current.rows, postings.current.counts
        if postings.new:
            # New rows have higher positions than all others, so appending keeps the order.
            new_rows, new_counts = np.array(postings.new, np.int32).T
            rows, counts = np.concatenate([rows, new_rows]), np.concatenate([counts, new_counts])
            postings.new = []
        if postings.removal_count != self._table.removal_count:
            is_live = self._table.is_live[rows]
            rows, counts = rows[is_live], counts[is_live]
            postings.removal_count = self._table.removal_count
        postings.current = Postings(rows, counts)

    def _read_kinds(self, connection: "sqlite3.Connection") -> None:
        """Read the surface kinds of new rows."""
        table, start = self._table, len(self._kind_codes)
        if start == len(table.rowids):
            return
        numbers, kinds = connection.execute(
            "SELECT group_concat(rowid), json_group_array(kind) FROM record WHERE rowid >= ?",
            [int(table.rowids[start])],
        ).fetchone()
        codes = [self._code_of_kind.setdefault(kind, len(self._code_of_kind)) for kind in json.loads(kinds)]
        # -1 equals no code: rows that were removed already have no kind.
        added = np.full(len(table.rowids) - start, -1, np.int32)
        added[table.locate(parse_numbers(numbers)) - start] = codes
        self._kind_codes = np.concatenate([self._kind_codes, added])


def _join_tests(is_allowed: RowTest | None, is_kind: RowTest | None) -> RowTest | None:
    """Return a test that both tests pass; `None` if there is none."""
    if is_allowed is None or is_kind is None:
        return is_allowed or is_kind
    return lambda rows: is_allowed(rows) & is_kind(rows)


def _weigh(connection: "sqlite3.Connection", table: RowTable, postings: Postings, weighing: Weighing) -> Word:
    """Return a word with its postings and weight."""
    word = Word(postings, weighing, partial(table.read_lengths, connection))
    # The exact gains of a word are a better bound than its weight. But do not read many lengths only for that.
    if table.has_few(postings.rows):
        word.score_all()
    return word


def _find_ranking(
    table: RowTable,
    words: Sequence[AnyWord],
    k: int,
    is_allowed: RowTest | None,
    *,
    rank: Callable[[NDArray[np.int64], Scores, int], list[RankedRow]],
    per_artifact: bool,
) -> Ranking:
    best = _find_best(table, words, k, is_allowed, rank=rank, per_artifact=per_artifact)
    ids, artifact_ids = [row[-1] for row in best], [row[1] for row in best]
    scores = np.fromiter((-row[0] for row in consume_in_slices(best)), np.float64, len(best))
    return Ranking(ids, artifact_ids, scores, sum(word.limit for word in words))


def _find_best(
    table: RowTable,
    words: Sequence[AnyWord],
    k: int,
    is_allowed: RowTest | None,
    *,
    rank: Callable[[NDArray[np.int64], Scores, int], list[RankedRow]],
    per_artifact: bool,
) -> list[RankedRow]:
    """Return the `k` best rows, or the best row of each of `k` artifacts.

    Rows with scores are put in order by `rank`.
    """
    # Start with `k` rows; per artifact that may be too few, as one artifact may own many of them.
    most = sum(word.frequency for word in words)
    depth = min(k, most)
    while depth > 0:
        rows, scores = table.scorer.find_best(words, depth, is_allowed)
        ranked_rows = rank(table.rowids[rows], scores, depth)
        if not per_artifact:
            return ranked_rows
        best = dict[str, RankedRow]()
        for row in ranked_rows:
            best.setdefault(row[1], row)
        if len(best) >= k or len(rows) < depth or depth == most:
            return [*best.values()][:k]
        # The best records belong to fewer than `k` artifacts: read more records.
        depth = min(_GROWTH * depth, most)
    return []


def _find_repeats(words_by_query: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the words that a query has more than once, and how often."""
    repeats: dict[str, int] = {}
    for words in words_by_query:
        repeats.update({word: max(count, repeats.get(word, 1)) for word, count in words.items() if count > 1})
    return repeats

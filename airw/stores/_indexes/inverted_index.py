"""An inverted index in memory that ranks texts by BM25.

The postings of a word are the rows that contain it, and how often each does. They are read from the FTS5 index in the
database (see the module `texts`) when the word is first searched for. A score is the sum, over the words of the query,
of the weight of the word (`weigh_word`) times its number in the query and a factor below 2.2. That factor grows with
the occurrences in the row, and falls with its length. Most rows are skipped (see `best_rows`).
"""

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.slices import consume_in_slices, dump_in_slices, iterate_slices, sort_in_slices
from airw.stores._indexes.best_rows import Postings, Scores, Word, factors_of, find_best
from airw.stores._indexes.texts import (
    BEGINNING,
    TextState,
    check_consistent,
    parse_numbers,
    read_beginning,
    read_lengths,
    read_state,
    read_word,
)
from airw.values import Analyser, Contains, Ranking, TermCounts, check_term_counts, formula_of
from airw.values.term_counts import weigh_word

if TYPE_CHECKING:
    import sqlite3

_GROWTH = 4  # factor by which more records are read while they belong to too few artifacts
_MAX_BYTES = 1 << 26  # memory of all postings
_WORD_BYTES = 300  # rough memory of a word besides its rows
_MAX_NEW_WORDS = 1 << 16  # of new rows, counted in Python; beyond that, all postings are cleared
_QUICK_CHARS, _QUICK_ROWS = 1_000, 20_000  # letters of queries, and rows of their words, in less than a millisecond
_MAX_KINDS = 8  # groups of surface kinds whose rows are kept, until the next write
_MANY_TIES = 1_000  # rows that are named though they do not rank
_MAX_NAMES = 10_000  # names of records that are kept: some MiB

_Name: TypeAlias = tuple[str, int, int, str]  # artifact id, surface index, rowid, record id


class _Unread(Exception):
    """An answer without a connection needs something that is not in memory, or takes long."""


class _Texts:
    """The rows in one state of the database, and the postings that were read in it.

    Several threads may use it, each with its own connection that sees this state; or with none, for what is in memory.

    Args:
        state: The state.
        rowids: The rowid of each row, ascending; a row is a position in this list.
        lengths: The number of words in each row.
    """

    def __init__(self, state: TextState, rowids: NDArray[np.int64], lengths: NDArray[np.int32]) -> None:
        self.state = state
        self.rowids = rowids
        self.count, self.word_count = state.decode()
        self.analyser = Analyser(state.language)
        self.postings: dict[str, Postings] = {}  # least recently used first
        self.lengths = lengths
        self._bytes = 0
        self._lock = threading.Lock()  # held for moments only, so that the event loop may wait for it
        self._of_kinds: dict[str, NDArray[np.bool_]] = {}  # the rows of groups of surface kinds

    @classmethod
    def none(cls) -> "_Texts":
        """Return the rows of a database that has none, which any other state follows."""
        return cls(TextState(None, 0), np.empty(0, np.int64), np.empty(0, np.int32))

    def follow(self, connection: "sqlite3.Connection", state: TextState) -> "_Texts":
        """Return the rows in a later state of the same language, with these postings."""
        added = read_lengths(connection, self.state.last)
        count, _ = state.decode()
        if count == len(self.rowids) + len(added[0]):
            is_kept = np.ones(len(self.rowids), np.bool_)
        else:  # the rows that were removed are known only by comparing all
            is_kept = np.isin(self.rowids, read_lengths(connection, 0)[0], assume_unique=True)
        rowids = np.concatenate([self.rowids[is_kept], added[0]])
        check_consistent(count == len(rowids))
        texts = _Texts(state, rowids, np.concatenate([self.lengths[is_kept], added[1].astype(np.int32)]))
        with self._lock:
            # The words of a beginning are not known, so it is read again.
            postings = {word: found for word, found in self.postings.items() if not word.endswith(BEGINNING)}
        if postings and added[1].sum() <= _MAX_NEW_WORDS:
            new = texts._count_words(connection, self.state.last, len(rowids) - len(added[0]), postings)
            positions = None if is_kept.all() else np.cumsum(is_kept, dtype=np.int32) - 1
            for word, known in postings.items():
                found = known
                if positions is not None:
                    stays = is_kept[found.rows]
                    found = texts._make_postings(positions[found.rows[stays]], found.counts[stays])
                if word in new:  # higher positions than all others: appending keeps the order
                    rows, counts = np.array(new[word], np.int32).T
                    columns = np.concatenate([found.rows, rows]), np.concatenate([found.counts, counts])
                    found = texts._make_postings(*columns)
                texts._keep(word, found)
        return texts

    def _count_words(
        self, connection: "sqlite3.Connection", after: int, first: int, words: dict[str, Postings]
    ) -> dict[str, list[tuple[int, int]]]:
        """Return the rows after a rowid that contain each of some words, and how often."""
        found = defaultdict[str, list[tuple[int, int]]](list)
        texts = connection.execute("SELECT text FROM record WHERE rowid > ? ORDER BY rowid", [after]).fetchall()
        for row, words_of_row in enumerate(self.analyser.split([text for (text,) in texts]), first):
            for word, count in Counter(words_of_row).items():
                if word in words:
                    found[word].append((row, count))
        return found

    def find(self, connection: "sqlite3.Connection | None", word: str) -> Postings:
        """Return the postings of a word, which stay in memory."""
        with self._lock:
            found = self.postings.pop(word, None)
            if found is not None:
                self.postings[word] = found
                return found
        if connection is None:
            raise _Unread
        read = read_beginning if word.endswith(BEGINNING) else read_word
        rowids, counts = read(connection, word)
        rows, is_there = self._locate(rowids)
        check_consistent(is_there.all())
        found = self._make_postings(rows.astype(np.int32), counts)
        self._keep(word, found)
        return found

    def _make_postings(self, rows: NDArray[np.int32], counts: NDArray[np.int32]) -> Postings:
        return Postings(rows, counts, self.lengths[rows])

    def _keep(self, word: str, found: Postings) -> None:
        """Keep the postings of a word; evict others above `_MAX_BYTES` in all."""
        with self._lock:
            if word in self.postings:  # another thread was faster
                return
            self.postings[word] = found
            self._bytes += found.size + _WORD_BYTES
            while self._bytes > _MAX_BYTES and len(self.postings) > 1:
                self._bytes -= self.postings.pop(next(iter(self.postings))).size + _WORD_BYTES

    def _locate(self, rowids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the row with each rowid, and whether there is one."""
        rows = self.rowids.searchsorted(rowids)
        is_there = (
            np.zeros(len(rows), np.bool_) if not len(self.rowids) else self.rowids.take(rows, mode="clip") == rowids
        )
        return rows, is_there

    def mark(
        self, connection: "sqlite3.Connection", allowed: NDArray[np.int64] | None, surfaces: Sequence[str] | None
    ) -> NDArray[np.bool_] | None:
        """Return which rows have one of these rowids and of these surface kinds; `None` if all do."""
        marks = None if allowed is None else self._mark(allowed)
        if surfaces is not None:
            kinds = json.dumps(sorted(kind for kind in surfaces if "\0" not in kind))  # no record is of such a kind
            of_kinds = self._of_kinds.get(kinds)
            if of_kinds is None:
                [numbers] = connection.execute(
                    "SELECT group_concat(rowid) FROM record WHERE kind IN (SELECT value FROM json_each(?))", [kinds]
                ).fetchone()
                of_kinds = self._mark(parse_numbers(numbers))
                if len(self._of_kinds) >= _MAX_KINDS:
                    self._of_kinds = {}
                self._of_kinds[kinds] = of_kinds
            marks = of_kinds if marks is None else marks & of_kinds
        return marks

    def _mark(self, rowids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows have one of these rowids."""
        rows, is_there = self._locate(rowids)
        marks = np.zeros(len(self.rowids), np.bool_)
        marks[rows[is_there]] = True
        return marks


class InvertedIndex:
    """Ranks the texts of a database by BM25.

    Several threads may use it, each with its own connection. Each call first brings the index up to date with the
    database. It reads only the changes, except that it reads all rowids and lengths again after a removal. It also
    copies arrays with one entry per row. A call may be interrupted at any statement; the next call repeats its work. A
    connection that sees an earlier state than the index is answered from that state, which takes as long as a first
    call.

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
        self._lock = threading.Lock()  # held to follow the database
        self._latest = _Texts.none()
        self._names: dict[int, _Name] = {}  # by rowid, which always means the same record

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
        contains: Contains | None = None,
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
            contains: What the `allowed` records contain; its beginnings of words are words of each query.

        Returns:
            One ranking per query, best first; ties by artifact id, then surface index.

        Raises:
            ArgumentError: If the statistics are of another formula, or lack a word of the queries.
            sqlite3.DatabaseError: If the text index does not match the records.
        """
        texts = self._open(connection)
        marks = texts.mark(connection, allowed, surfaces)
        beginnings = () if contains is None else contains.beginnings
        return self._rank_all(
            connection,
            texts,
            queries,
            k,
            marks,
            statistics=statistics,
            beginnings=beginnings,
            per_artifact=per_artifact,
        )

    def score_apart(
        self, connection: "sqlite3.Connection", query: str, groups: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Scores, list[TermCounts]]:
        """Score the records with a word of a query, as if each group were all that there is.

        Args:
            connection: As for `rank`.
            query: The query, in plain words.
            groups: The group of each record, `(n,)`, in the order of the rowids; no number below the
                largest is missing.

        Returns:
            The positions of these records in that order, their scores, and the counts of words in each group.
        """
        texts = self._open(connection)
        [names] = texts.analyser.query_terms([query])
        records = np.bincount(groups)
        words = np.bincount(groups, texts.lengths)
        averages = np.where(words > 0, words / records, 1.0)
        sums, frequencies = np.zeros(len(groups)), dict[str, list[int]]()
        for name, repeats in names.items():
            found = texts.find(connection, name)
            own = groups[found.rows]
            frequencies[name] = np.bincount(own, minlength=len(records)).tolist()
            pairs = zip(records.tolist(), frequencies[name], strict=True)
            weights = np.array([repeats * weigh_word(*pair) for pair in pairs])
            sums[found.rows] += weights[own] * factors_of(found.counts, found.lengths, averages[own])
        formula, repeated = formula_of(texts.analyser), {name: n for name, n in names.items() if n > 1}
        counts = [
            TermCounts(formula, count, int(length), {name: each[at] for name, each in frequencies.items()}, repeated)
            for at, (count, length) in enumerate(zip(records.tolist(), words.tolist(), strict=True))
        ]
        rows = sums.nonzero()[0]
        return rows, sums[rows], counts

    @property
    def is_used(self) -> bool:
        """True if words were searched for."""
        return bool(self._latest.postings)

    def rank_if_quick(
        self, queries: Sequence[str], k: int, *, per_artifact: bool, statistics: TermCounts | None = None
    ) -> list[Ranking] | None:
        """Return what `rank` would return in the state of the database that the last call saw.

        The result is `None` if something is not in memory, or if that may take more than about a millisecond.
        """
        texts = self._latest
        if not all(map(str.isascii, queries)) or sum(map(len, queries)) > _QUICK_CHARS:
            return None
        try:
            return self._rank_all(None, texts, queries, k, None, statistics=statistics, per_artifact=per_artifact)
        except _Unread:
            return None

    def _rank_all(
        self,
        connection: "sqlite3.Connection | None",
        texts: _Texts,
        queries: Sequence[str],
        k: int,
        marks: NDArray[np.bool_] | None,
        *,
        statistics: TermCounts | None = None,
        beginnings: Sequence[str] = (),
        per_artifact: bool,
    ) -> list[Ranking]:
        """Return the ranking of each query; without a connection only if that is quick."""
        words_by_query = texts.analyser.query_terms(queries)
        if statistics is not None:
            check_term_counts(statistics, words_by_query, formula_of(texts.analyser))
        weighed = list[list[Word]]()
        for names in words_by_query if k > 0 else ():
            weighed.append([])
            for name, repeats in names.items():
                found = texts.find(connection, name)
                # The same for statistics of several indexes, so that scores equal those of one index with all rows.
                counts = (len(found.rows), texts.count, texts.word_count)
                if statistics is not None:
                    counts = (statistics.frequencies[name], statistics.records, statistics.words)
                weighed[-1].append(Word(found, *counts, repeats))
            for beginning in beginnings:
                found = texts.find(connection, beginning)
                # All results contain it, so its frequency would tell them nothing. It is taken for a common word.
                records, length = (texts.count, texts.word_count)
                if statistics is not None:
                    records, length = statistics.records, statistics.words
                weighed[-1].append(Word(found, records, records, length))
        cost = k * len(queries) + sum(len(word.rows) for words in weighed for word in words)
        if connection is None and cost > _QUICK_ROWS:
            raise _Unread
        return [
            self._rank(connection, texts, words, k, marks, per_artifact=per_artifact)
            for words in weighed or [[] for _ in queries]
        ]

    def count_terms(self, connection: "sqlite3.Connection", queries: Sequence[str]) -> TermCounts:
        """Return the counts behind the scores of these queries.

        The postings that this reads stay in memory for the search that follows.
        """
        texts = self._open(connection)
        words_by_query = texts.analyser.query_terms(queries)
        words = sorted({word for words in words_by_query for word in words})
        frequencies = {word: len(texts.find(connection, word).rows) for word in words}
        repeats: dict[str, int] = {}  # of the words that a query has more than once
        for names in words_by_query:
            repeats.update({word: max(n, repeats.get(word, 1)) for word, n in names.items() if n > 1})
        return TermCounts(formula_of(texts.analyser), texts.count, texts.word_count, frequencies, repeats)

    def _open(self, connection: "sqlite3.Connection") -> _Texts:
        """Return the rows in the state that the connection sees."""
        with self._lock:
            state, latest = read_state(connection), self._latest
            known = latest.state
            if state == known:
                return latest
            # Rowids are never used twice. So of two states with the same last rowid, the later one has fewer rows. And
            # an older state, of an earlier language perhaps, must not take the place of a later one.
            if state.schema < known.schema or (state.last, -state.decode()[0]) < (known.last, -latest.count):
                return _Texts.none().follow(connection, state)
            # The words of another language are other words of the same rows.
            is_same = state.statement == known.statement
            self._latest = (latest if is_same else _Texts.none()).follow(connection, state)
            return self._latest

    def _rank(
        self,
        connection: "sqlite3.Connection | None",
        texts: _Texts,
        words: Sequence[Word],
        k: int,
        marks: NDArray[np.bool_] | None,
        *,
        per_artifact: bool,
    ) -> Ranking:
        """Return the `k` best rows, or the best row of each of `k` artifacts."""
        # Start with `k` rows; per artifact that may be too few, as one artifact may own many of them.
        most = sum(len(word.rows) for word in words)
        depth, best = min(k, most), list[tuple[float, *_Name]]()
        while depth > 0:
            rows, scores = find_best(words, depth, len(texts.rowids), marks)
            best = self._put_in_order(connection, texts.rowids[rows], scores, depth)
            if not per_artifact:
                break
            best_of = dict[str, tuple[float, *_Name]]()
            for row in best:
                best_of.setdefault(row[1], row)
            best = [*best_of.values()][:k]
            if len(best) >= k or len(rows) < depth or depth == most:
                break
            # The best records belong to fewer than `k` artifacts: read more records.
            depth = min(_GROWTH * depth, most)
        ids, artifact_ids = [row[-1] for row in best], [row[1] for row in best]
        values = np.fromiter((-row[0] for row in consume_in_slices(best)), np.float64, len(best))
        return Ranking(ids, artifact_ids, values, sum(word.limit for word in words))

    def _put_in_order(
        self, connection: "sqlite3.Connection | None", rowids: NDArray[np.int64], scores: Scores, depth: int
    ) -> list[tuple[float, *_Name]]:
        """Return the `depth` best of these records; ties by artifact id, then surface index."""
        # Very many may tie with the last one that ranks: SQLite returns only those of them that are missing.
        if len(rowids) > depth + _MANY_TIES and connection is not None:
            last_score = np.partition(scores, len(scores) - depth)[len(scores) - depth]
            better, equal = (scores > last_score).nonzero()[0], (scores == last_score).nonzero()[0]
            cursor = connection.execute(
                """SELECT key FROM json_each(?) JOIN record ON record.rowid = value
                ORDER BY artifact_id, idx, record.rowid LIMIT ?""",
                [dump_in_slices(rowids[equal].tolist()), depth - len(better)],
            )
            best = np.concatenate([better, equal[[key for (key,) in cursor]]])
            rowids, scores = rowids[best], scores[best]
        names = self._read_names(connection, rowids.tolist())
        pairs = zip(rowids.tolist(), scores.tolist(), strict=True)
        return sort_in_slices((-score, *names[rowid]) for rowid, score in pairs if rowid in names)[:depth]

    def _read_names(self, connection: "sqlite3.Connection | None", rowids: list[int]) -> dict[int, _Name]:
        """Return the names of the records with these rowids."""
        names = {rowid: name for rowid in rowids if (name := self._names.get(rowid)) is not None}
        missing = [rowid for rowid in rowids if rowid not in names]
        if not missing:
            return names
        if connection is None:
            raise _Unread
        rows = connection.execute(
            """SELECT artifact_id, CAST(idx AS INTEGER), record.rowid, record.id
            FROM json_each(?) AS wanted CROSS JOIN record ON record.rowid = wanted.value""",
            [dump_in_slices(missing)],
        )
        for part in iterate_slices(rows):
            # A damaged or foreign file may have bytes here.
            check_consistent(all(isinstance(row[0], str) and isinstance(row[3], str) for row in part))
            names.update((row[2], row) for row in part)
        if len(missing) <= _MAX_NAMES:
            if len(self._names) > _MAX_NAMES:
                self._names = {}
            self._names.update((rowid, names[rowid]) for rowid in missing if rowid in names)
        return names

"""BM25 as SQLite's FTS5 means it, from postings in memory: which rows hold a word, and how often.

They are read from the text index word by word, when a word is first searched for, and follow the tables that the
module `texts` describes. Scores are those of FTS5's own function `bm25`, made positive, which would work out every
match one by one.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw.stores._indexes.texts import split_queries, split_words
from airw.values import Ranking

if TYPE_CHECKING:
    import sqlite3

Row: TypeAlias = tuple[float, str, int, int, str]  # in order: score made negative, artifact, surface, number, id

_K1, _B = 1.2, 0.75
_COMMON = 1e-6  # the weight of a word that half of all rows hold
_DEEPER = 4  # times as many records as artifacts are looked at, and again as often as these are too few
_ROOM = 1 << 26  # bytes of all postings
_SLICE = 1 << 18  # characters, read in about a millisecond
_WORD_BYTES = 300  # that a word takes beside its rows, about
_LATE = 1 << 16  # words of new rows that are counted one by one; after more, postings are read again


@dataclass(slots=True)
class _Posting:
    """The rows that hold a word and how often each does, as far as was known when `left` rows had left."""

    rows: NDArray[np.int32]
    counts: NDArray[np.int32]
    left: int
    late: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Return the bytes that it takes, about."""
        return self.rows.nbytes + self.counts.nbytes + _WORD_BYTES


class Postings:
    """Follows the texts of a database and ranks them; one user at a time.

    The work of following grows with what changed, but for eight bytes of each row that are read again where rows have
    left. It may be interrupted at any statement: the next call begins again where this one did.

    Example:
        >>> import sqlite3
        >>> from airw.stores._indexes.texts import TEXT_TABLES, insert_records, prepare_texts
        >>> connection = sqlite3.connect(":memory:", isolation_level=None)
        >>> prepare_texts(connection)
        >>> for statement in TEXT_TABLES:
        ...     _ = connection.execute(statement)
        >>> texts = ["rotate the keys", "the weather"]
        >>> _ = insert_records(connection, [(f"r{at}", f"a{at}", "d", 0, "{}", text) for at, text in enumerate(texts)])
        >>> [ranking] = Postings().rank(connection, ["Keys?"], 10)
        >>> ranking.record_ids
        ['r0']
        >>> connection.close()
    """

    def __init__(self) -> None:
        self._forget()

    def rank(
        self,
        connection: "sqlite3.Connection",
        queries: Sequence[str],
        k: int,
        *,
        allowed: NDArray[np.int64] | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Rank for each query the best `k` records, or artifacts, that hold at least one of its words.

        Args:
            connection: Sees one state of the database, and was prepared by `prepare_texts`.
            queries: In plain words.
            k: How many at most.
            allowed: Rank only the records of these numbers (rowids).
            surfaces: Rank only surfaces of these kinds.
            per_artifact: Rank artifacts, each by its best record.
        """
        self._follow(connection)
        if surfaces is not None:
            self._read_kinds(connection)
        k, rankings = max(k, 0), []
        for words in split_queries(queries):
            scores = self._score(connection, words if k else [])
            found = self._select(np.flatnonzero(scores), allowed, surfaces)
            best = self._find_best(connection, scores, found, k, per_artifact=per_artifact)
            ids, artifact_ids = [row[-1] for row in best], [row[1] for row in best]
            rankings.append(Ranking(ids, artifact_ids, np.array([-row[0] for row in best], np.float64)))
        return rankings

    def _forget(self) -> None:
        self._count = self._last = 0  # rows there are, and the highest number that one of them ever had
        # Of every row, those that left included: a row keeps its place.
        self._numbers: NDArray[np.int64] = np.empty(0, np.int64)
        self._lengths: NDArray[np.float64] = np.empty(0)
        self._stays: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._norms: NDArray[np.float64] = np.empty(0)
        self._kinds: NDArray[np.int32] = np.empty(0, np.int32)  # of the first rows, as far as was asked
        self._codes: dict[str, int] = {}
        self._forget_words()

    def _forget_words(self) -> None:
        self._postings: dict[str, _Posting] = {}  # those asked for last at the end
        self._bytes = self._late = 0

    def _follow(self, connection: "sqlite3.Connection") -> None:
        """Take in which rows there are now, and what words the new ones hold."""
        # Numbers are never given twice: with the same last one and as many rows, they are the same rows.
        count, last = connection.execute(
            """SELECT (SELECT count(*) FROM record_text_docsize),
            (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'record')"""
        ).fetchone()
        if (count, last) == (self._count, self._last):
            return
        numbers, lengths = _read_lengths(connection, self._last)
        there = np.concatenate([self._numbers, numbers])
        stays = np.concatenate([self._stays, np.ones(len(numbers), np.bool_)])
        if count < np.count_nonzero(stays):
            stays = np.isin(there, _read_numbers(connection), assume_unique=True)
        if 2 * count < len(there):  # most rows have left: begin anew
            self._forget()
            self._follow(connection)
            return
        self._take_words(connection, lengths)
        self._numbers, self._stays, self._lengths = there, stays, np.concatenate([self._lengths, lengths])
        self._count, self._last = count, last
        self._compute_norms()

    def _take_words(self, connection: "sqlite3.Connection", lengths: NDArray[np.float64]) -> None:
        """Count, in rows that are new, the words that are known already."""
        if not self._postings:
            return
        self._late += int(lengths.sum())
        if self._late > _LATE:
            self._forget_words()
            return
        texts = connection.execute("SELECT text FROM record WHERE rowid > ? ORDER BY rowid", [self._last]).fetchall()
        for row, words in enumerate(split_words([text for (text,) in texts]), len(self._numbers)):
            for word, count in Counter(words).items():
                if word in self._postings:
                    self._postings[word].late.append((row, count))

    def _compute_norms(self) -> None:
        """Work out what the length of each row does to its score."""
        words = float(self._lengths[self._stays].sum())
        average = words / self._count if words else 1.0
        self._norms = _K1 * (1 - _B + _B * self._lengths / average)

    def _score(self, connection: "sqlite3.Connection", words: Sequence[str]) -> NDArray[np.float64]:
        """Return the score of each row, 0 for those without any of the words; in the very steps that FTS5 takes."""
        scores = np.zeros(len(self._numbers))
        for word in words:
            posting = self._get_posting(connection, word)
            rows, counts, held = posting.rows, posting.counts, len(posting.rows)
            weight = math.log((self._count - held + 0.5) / (held + 0.5))
            scores[rows] += max(weight, _COMMON) * (counts * (_K1 + 1.0) / (counts + self._norms[rows]))
        return scores

    def _get_posting(self, connection: "sqlite3.Connection", word: str) -> _Posting:
        """Return what is known of a word, brought up to date or read now; others are forgotten where it is too much."""
        posting = self._postings.pop(word, None)
        if posting is None:
            rows, counts = self._read_posting(connection, word)
            posting = _Posting(rows, counts, self._left)
        else:
            self._bytes -= posting.size
            self._update(posting)
        self._postings[word] = posting
        self._bytes += posting.size
        while self._bytes > _ROOM and len(self._postings) > 1:
            self._bytes -= self._postings.pop(next(iter(self._postings))).size
        return posting

    @property
    def _left(self) -> int:
        return len(self._numbers) - self._count

    def _update(self, posting: _Posting) -> None:
        """Put what came late with the rest, and take out the rows that left."""
        if posting.late:
            rows, counts = np.array(posting.late, np.int32).T
            posting.rows = np.concatenate([posting.rows, rows])
            posting.counts = np.concatenate([posting.counts, counts])
            posting.late = []
        if posting.left != self._left:
            stays = self._stays[posting.rows]
            posting.rows, posting.counts, posting.left = posting.rows[stays], posting.counts[stays], self._left

    def _read_posting(self, connection: "sqlite3.Connection", word: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        # The number of a row comes once for each time that the row holds the word, one beside the other.
        asked = "SELECT group_concat(doc) FROM temp.record_word WHERE term = ?"
        numbers = _parse_numbers(*connection.execute(asked, [word]).fetchone())
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        rows, counts = np.searchsorted(self._numbers, numbers[starts]), np.diff(starts, append=len(numbers))
        _check_fits(np.array_equal(self._numbers.take(rows, mode="clip") if len(rows) else rows, numbers[starts]))
        return rows.astype(np.int32), counts.astype(np.int32)

    def _read_kinds(self, connection: "sqlite3.Connection") -> None:
        """Read the surface kind of the rows where it is not known yet."""
        known = len(self._kinds)
        if known == len(self._numbers):
            return
        numbers, kinds = connection.execute(
            "SELECT group_concat(rowid), json_group_array(kind) FROM record WHERE rowid >= ?",
            [int(self._numbers[known])],
        ).fetchone()
        codes = [self._codes.setdefault(kind, len(self._codes)) for kind in json.loads(kinds)]
        added = np.full(len(self._numbers) - known, -1, np.int32)
        added[np.searchsorted(self._numbers, _parse_numbers(numbers)) - known] = codes
        self._kinds = np.concatenate([self._kinds, added])

    def _select(
        self, found: NDArray[np.int64], allowed: NDArray[np.int64] | None, surfaces: Sequence[str] | None
    ) -> NDArray[np.int64]:
        """Return those of the found rows that are to be ranked."""
        if allowed is not None:
            found = found[np.isin(self._numbers[found], allowed)]
        if surfaces is not None:
            found = found[np.isin(self._kinds[found], [self._codes[kind] for kind in surfaces if kind in self._codes])]
        return found

    def _find_best(
        self,
        connection: "sqlite3.Connection",
        scores: NDArray[np.float64],
        found: NDArray[np.int64],
        k: int,
        *,
        per_artifact: bool,
    ) -> list[Row]:
        depth = min(k, len(found))
        while True:
            rows = self._find_first(connection, scores, found, depth)
            best = dict[str, Row]()
            for row in rows:
                best.setdefault(row[1], row)
            if not per_artifact or len(best) >= k or depth == len(found):
                return [*(best.values() if per_artifact else rows)][:k]
            depth = min(_DEEPER * depth, len(found))

    def _find_first(
        self, connection: "sqlite3.Connection", scores: NDArray[np.float64], found: NDArray[np.int64], depth: int
    ) -> list[Row]:
        """Return the best `depth` of the found rows, in order."""
        if not depth:
            return []
        values, cut = scores[found], len(found) - depth
        last = np.partition(values, cut)[cut]
        better, equal = found[values > last], found[values == last]
        rows = [*self._read(connection, scores, better, depth)]
        return [*sorted(rows), *self._read(connection, scores, equal, depth - len(rows))]

    def _read(
        self, connection: "sqlite3.Connection", scores: NDArray[np.float64], rows: NDArray[np.int64], most: int
    ) -> Iterator[Row]:
        """Return at most so many of the rows, by artifact and surface."""
        numbers = self._numbers[rows].tolist()
        score_of = dict(zip(numbers, scores[rows].tolist(), strict=True))
        for artifact_id, index, number, record_id in connection.execute(
            """SELECT artifact_id, idx, record.rowid, record.id FROM json_each(?) JOIN record ON record.rowid = value
            ORDER BY artifact_id, idx, record.rowid LIMIT ?""",
            [json.dumps(numbers), most],
        ):
            yield -score_of[number], artifact_id, index, number, record_id


def _read_lengths(connection: "sqlite3.Connection", after: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows numbered higher, and how many words each holds."""
    numbers, sizes = connection.execute(
        "SELECT group_concat(id), CAST(group_concat(sz, '') AS BLOB) FROM record_text_docsize WHERE id > ?", [after]
    ).fetchone()
    # Each size is base 128, the highest digit first, and 128 is added to all digits but the last.
    digits = np.frombuffer(sizes or b"", np.uint8)
    ends = np.flatnonzero(digits < 128)
    spans = np.diff(ends, prepend=-1)
    places = np.repeat(ends, spans) - np.arange(len(digits))
    values = (digits & 127) * 128.0**places
    lengths = np.add.reduceat(values, ends - spans + 1) if len(ends) else values
    found = _parse_numbers(numbers)
    _check_fits(len(found) == len(lengths))
    return found, lengths


def _read_numbers(connection: "sqlite3.Connection") -> NDArray[np.int64]:
    return _parse_numbers(*connection.execute("SELECT group_concat(id) FROM record_text_docsize").fetchone())


def _parse_numbers(numbers: str | None) -> NDArray[np.int64]:
    """Read numbers with commas between; in slices, as each holds up all other threads."""
    text, start, parts = numbers or "", 0, [np.empty(0, np.int64)]
    while start < len(text):
        comma = text.find(",", start + _SLICE)
        end = len(text) if comma < 0 else comma
        parts.append(np.fromstring(text[start:end], np.int64, sep=","))
        start = end + 1
    return np.concatenate(parts)


def _check_fits(is_whole: object) -> None:
    import sqlite3

    if not is_whole:
        raise sqlite3.DatabaseError("the index of its texts does not fit its records; build it again")

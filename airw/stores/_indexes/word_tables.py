"""The tables of FTS5: the rows of each word, and the number of words in each row.

The tables may be from a stranger or damaged. So what is read is compared with the rows that exist, and anything that
does not fit raises `sqlite3.DatabaseError`.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from airw._base.arrays import NDArray
from airw._base.slices import dump_in_slices
from airw.stores._indexes.texts import language_of
from airw.values import Language

if TYPE_CHECKING:
    import sqlite3

_PARSE_CHARS = 1 << 18  # parsed in about a millisecond
_MAX_DIGITS = 7  # of a number: below 2**49, so that floats contain each exactly
_TOTALS = 1  # the rowid of the totals of all rows


class TextState(NamedTuple):
    """What changes with each write of texts.

    Args:
        totals: The number of rows, and of words in each column, as FTS5 stores them.
        last: The highest rowid that was ever used.
        language: The language of the words.
        schema: A number that grows with each change of the tables, and so with each change of the language.
    """

    totals: bytes | None
    last: int
    language: Language | None = None
    schema: int = 0

    def decode(self) -> tuple[int, int]:
        """Return the number of rows, and of words in all of them."""
        numbers = _decode_numbers(self.totals or bytes(2))
        check_consistent(len(numbers) == 2)
        return int(numbers[0]), int(numbers[1])


def read_state(connection: "sqlite3.Connection") -> TextState:
    """Return the state of the texts, in the same time for any number of them."""
    row = connection.execute(
        """SELECT (SELECT CAST(block AS BLOB) FROM record_text_data WHERE id = ?),
        (SELECT coalesce(max(CAST(seq AS INTEGER)), 0) FROM sqlite_sequence WHERE name = 'record'),
        (SELECT sql FROM main.sqlite_schema WHERE name = 'record_text'),
        (SELECT schema_version FROM pragma_schema_version)""",
        [_TOTALS],
    ).fetchone()
    totals, last, sql, schema = row
    return TextState(totals, last, language_of(sql), schema)


def read_rowids(connection: "sqlite3.Connection", after: int) -> NDArray[np.int64]:
    """Return the rowids after `after`, ascending."""
    first, last = connection.execute(
        """SELECT (SELECT min(id) FROM record_text_docsize WHERE id > ?1),
        (SELECT max(id) FROM record_text_docsize WHERE id > ?1)""",
        [after],
    ).fetchone()
    if first is None:
        return np.empty(0, np.int64)
    (count,) = connection.execute("SELECT count(*) FROM record_text_docsize WHERE id > ?", [after]).fetchone()
    if count == last - first + 1:  # there are no gaps
        return np.arange(first, last + 1)
    sql = "SELECT group_concat(id) FROM record_text_docsize WHERE id > ?"
    return parse_numbers(*connection.execute(sql, [after]).fetchone())


def read_lengths(connection: "sqlite3.Connection", after: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rowids after `after`, and the number of words in each of these rows."""
    rowids = read_rowids(connection, after)
    sql = "SELECT CAST(group_concat(sz, '') AS BLOB) FROM record_text_docsize WHERE id > ?"
    lengths = _decode_numbers(connection.execute(sql, [after]).fetchone()[0] or b"")
    check_consistent(len(rowids) == len(lengths))
    return rowids, lengths


def read_lengths_of(connection: "sqlite3.Connection", rowids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the number of words in each of these rows, which are ascending."""
    sizes = connection.execute(
        """SELECT CAST(group_concat(sz, '') AS BLOB) FROM (
            SELECT sz FROM json_each(?) AS wanted CROSS JOIN record_text_docsize AS found ON found.id = wanted.value
        )""",
        [dump_in_slices(rowids.tolist())],
    ).fetchone()
    lengths = _decode_numbers(sizes[0] or b"")
    check_consistent(len(rowids) == len(lengths))
    return lengths


def read_frequency(connection: "sqlite3.Connection", word: str) -> int:
    """Return the number of rows that contain a word, in a tenth of the time of `read_word`."""
    row = connection.execute("SELECT doc FROM temp.record_frequency WHERE term = ?", [word]).fetchone()
    return int(row[0]) if row else 0


def read_texts_of(connection: "sqlite3.Connection", rowids: NDArray[np.int64]) -> list[str]:
    """Return the texts of these rows, in their order."""
    texts = connection.execute(
        "SELECT text FROM json_each(?) AS wanted CROSS JOIN record ON record.rowid = wanted.value ORDER BY wanted.key",
        [dump_in_slices(rowids.tolist())],
    ).fetchall()
    check_consistent(len(texts) == len(rowids) and all(isinstance(text, str) for (text,) in texts))
    return [text for (text,) in texts]


def read_word(connection: "sqlite3.Connection", word: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the rowids of the rows that contain a word, ascending, and how often each does."""
    # FTS5 lists the rowid of a row once per occurrence of the word, one after the other. So the length of each run is
    # the count.
    sql = "SELECT group_concat(doc) FROM temp.record_word WHERE term = ?"
    numbers = parse_numbers(*connection.execute(sql, [word]).fetchone())
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    rowids = numbers[starts]
    check_consistent((np.diff(rowids) > 0).all())
    return rowids, np.diff(starts, append=len(numbers)).astype(np.int32)


def parse_numbers(numbers: str | None) -> NDArray[np.int64]:
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


def check_consistent(is_consistent: object) -> None:
    """Raise `sqlite3.DatabaseError` if the text index is damaged."""
    import sqlite3

    if not is_consistent:
        raise sqlite3.DatabaseError("the text index does not match the records")


def _decode_numbers(data: bytes) -> NDArray[np.float64]:
    """Decode varints: base 128, highest digit first, 128 added to all digits but the last."""
    digits = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(digits < 128)
    if len(ends) == len(digits):
        return digits.astype(np.float64)
    digit_counts = np.diff(ends, prepend=-1)
    check_consistent(digits[-1] < 128 and digit_counts.max() <= _MAX_DIGITS)
    powers = np.repeat(ends, digit_counts) - np.arange(len(digits))
    values = (digits & 127) * 128.0**powers
    return np.add.reduceat(values, ends - digit_counts + 1)

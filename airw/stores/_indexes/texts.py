"""The tables of texts in SQLite, which both stores use, and the words in them.

The tables may be from a stranger or damaged. So what is read of words is compared with the rows that exist, and
anything that does not fit raises `sqlite3.DatabaseError`.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray
from airw.errors import StoreError
from airw.values import LANGUAGES, Analyser, Language
from airw.values.analysers import EARLIER_LANGUAGES

if TYPE_CHECKING:
    import sqlite3

RECORD_TABLES = (
    """CREATE TABLE record (
        rowid INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        artifact_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        idx INTEGER NOT NULL,
        metadata TEXT NOT NULL,
        text TEXT NOT NULL
    )""",
    "CREATE INDEX record_of_artifact ON record (artifact_id)",
)
"""The statements that create the table `record`; `create_index` creates the full-text index over it."""

_LAST_ROWID = 1 << 62  # a corpus that comes so far was made by a stranger
_PARSE_CHARS = 1 << 18  # parsed in about a millisecond
_MAX_DIGITS = 7  # of a number: below 2**49, so that floats contain each exactly
_TOTALS = 1  # the rowid of the totals of all rows


def _to_sql(language: Language | None) -> str:
    analyser = Analyser(language)
    quote = '"' if analyser.keeps_marks else "'"  # as earlier versions wrote it
    return (
        "CREATE VIRTUAL TABLE record_text USING fts5 "
        f"(text, content='record', content_rowid='rowid', tokenize={quote}{analyser.tokenizer}{quote})"
    )


# The statement by which SQLite made the index says its language, so that the two never differ.
_LANGUAGE_BY_SQL = {_to_sql(language): language for language in (*LANGUAGES, *EARLIER_LANGUAGES, None)}
INDEX_STATEMENTS = frozenset(_LANGUAGE_BY_SQL)
"""The statements that create the full-text index, one for each way of cutting texts."""


def language_of(sql: object) -> Language | None:
    """Return the language of an index from the SQL statement that made it."""
    return _LANGUAGE_BY_SQL.get(sql) if isinstance(sql, str) else None


def read_language(connection: "sqlite3.Connection") -> Language | None:
    """Return the language of the full-text index."""
    row = connection.execute("SELECT sql FROM main.sqlite_schema WHERE name = 'record_text'").fetchone()
    return language_of(row and row[0])


def create_index(connection: "sqlite3.Connection", language: Language | None) -> None:
    """Create the full-text index of a language, without any text.

    It contains composed characters (NFC) and runs of unspaced letters cut; see `prepare_text`. `insert_records` and
    `delete_records` keep it up to date.
    """
    connection.execute(_to_sql(language))
    # Parts are merged later and more at once than by default, as that costs a third of the time of a build.
    connection.execute("INSERT INTO record_text (record_text, rank) VALUES ('automerge', 16)")


def change_language(connection: "sqlite3.Connection", language: Language | None) -> None:
    """Index all texts again for a language, unless that is the present one.

    The caller holds a transaction.
    """
    if read_language(connection) == language:
        return
    connection.execute("DROP TABLE record_text")
    create_index(connection, language)
    words = _words_function(language)
    connection.execute(f"INSERT INTO record_text (rowid, text) SELECT rowid, {words}(text) FROM record")


def insert_records(connection: "sqlite3.Connection", rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows of `id, artifact_id, kind, idx, metadata, text`, and return the first rowid.

    Rowids are consecutive, and higher than all that were ever used.

    Raises:
        StoreError: If two records have the same id.
    """
    import sqlite3

    (last,) = connection.execute(
        """SELECT max(
            coalesce((SELECT max(CAST(seq AS INTEGER)) FROM sqlite_sequence WHERE name = 'record'), 0),
            coalesce((SELECT max(rowid) FROM record), 0))"""
    ).fetchone()
    if last > _LAST_ROWID:
        raise StoreError("the file has no more numbers for records; build the corpus again in a new file")
    first = int(last) + 1
    numbered = [(rowid, *row) for rowid, row in enumerate(rows, first)]
    try:
        connection.executemany(
            "INSERT INTO record (rowid, id, artifact_id, kind, idx, metadata, text) VALUES (?, ?, ?, ?, ?, ?, ?)",
            numbered,
        )
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise
        raise StoreError("puts contains two records with the same id; create ids with Record.make_id") from error
    prepare = Analyser(read_language(connection)).prepare
    connection.executemany(
        "INSERT INTO record_text (rowid, text) VALUES (?, ?)", ((row[0], prepare(row[-1])) for row in numbered)
    )
    return first


def delete_records(connection: "sqlite3.Connection", artifact_ids: Sequence[str]) -> None:
    """Delete the records of these artifacts."""
    condition, parameters = "artifact_id IN (SELECT value FROM json_each(?))", [json.dumps(artifact_ids)]
    words = _words_function(read_language(connection))
    connection.execute(
        f"""INSERT INTO record_text (record_text, rowid, text)
        SELECT 'delete', rowid, {words}(text) FROM record WHERE {condition}""",
        parameters,
    )
    connection.execute(f"DELETE FROM record WHERE {condition}", parameters)


def _words_function(language: Language | None) -> str:
    """Return the name of the function in SQL that prepares a text to index."""
    return "airw_words" if Analyser(language).keeps_marks else "airw_words_without_marks"


def prepare_texts(connection: "sqlite3.Connection") -> None:
    """Prepare a connection for these tables and `InvertedIndex`.

    It registers the functions that `delete_records` uses, and creates a virtual table: `temp.record_word` lists each
    occurrence of each word in the index.
    """
    for analyser in (Analyser(None), Analyser("unicode61")):
        connection.create_function(_words_function(analyser.language), 1, analyser.prepare, deterministic=True)
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.record_word USING fts5vocab (main, record_text, instance)"
    )


# The words of the index


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


def read_lengths(connection: "sqlite3.Connection", after: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rowids after `after`, ascending, and the number of words in each row."""
    numbers, sizes = connection.execute(
        "SELECT group_concat(id), CAST(group_concat(sz, '') AS BLOB) FROM record_text_docsize WHERE id > ?", [after]
    ).fetchone()
    rowids, lengths = parse_numbers(numbers), _decode_numbers(sizes or b"")
    check_consistent(len(rowids) == len(lengths))
    return rowids, lengths


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
    digit_counts = np.diff(ends, prepend=-1)
    check_consistent(digit_counts.sum() == len(digits) and digit_counts.max(initial=0) <= _MAX_DIGITS)
    powers = np.repeat(ends, digit_counts) - np.arange(len(digits))
    values = (digits & 127) * 128.0**powers
    return np.add.reduceat(values, ends - digit_counts + 1)

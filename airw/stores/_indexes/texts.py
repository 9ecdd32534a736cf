"""The tables of texts in SQLite, which both stores use, and the words in them.

The tables may be from a stranger or damaged. So what is read of words is compared with the rows that exist, and
anything that does not fit raises `sqlite3.DatabaseError`.
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray
from airw._base.slices import dump_in_slices, iterate_slices
from airw.errors import StoreError
from airw.values import LANGUAGES, Analyser, Contains, Language
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

BEGINNING = "*"
"""The end of a term of `Contains` that is the beginning of a word."""

_LAST_ROWID = 1 << 62  # a corpus that comes so far was made by a stranger
_PARSE_CHARS = 1 << 18  # parsed in about a millisecond
_MAX_DIGITS = 7  # of a number: below 2**49, so that floats contain each exactly
_WORDS = "airw_words(text, ?)"  # of a text in a language; see `prepare_texts`
_TOTALS = 1  # the rowid of the totals of all rows


def _to_sql(tokenizer: str) -> str:
    return (
        "CREATE VIRTUAL TABLE record_text USING fts5 "
        f"(text, content='record', content_rowid='rowid', tokenize={tokenizer})"
    )


_WITH_MARKS = "unicode61 categories 'L* N* Co Mn Mc'"
_PASSING: dict[str, Language | None] = {
    _to_sql(f'"porter {_WITH_MARKS}"'): LANGUAGES[0],
    _to_sql(f'"{_WITH_MARKS}"'): None,
}
PASSING_STATEMENTS = frozenset(_PASSING)
"""The statements of indexes that were made for a while before format 8; the first write makes others of them."""

# The statement by which SQLite made the index says its language, so that the two never differ.
_LANGUAGE_BY_SQL: dict[str, Language | None] = {
    **_PASSING,
    **{_to_sql(f"'{Analyser(each).tokenizer}'"): each for each in (*LANGUAGES, *EARLIER_LANGUAGES, None)},
}
INDEX_STATEMENTS = frozenset(_LANGUAGE_BY_SQL)
"""The statements that create the full-text index, one for each way of cutting texts."""


def _read_statement(connection: "sqlite3.Connection") -> str:
    row = connection.execute("SELECT sql FROM main.sqlite_schema WHERE name = 'record_text'").fetchone()
    return str(row and row[0])


def read_language(connection: "sqlite3.Connection") -> Language | None:
    """Return the language of the full-text index."""
    return _LANGUAGE_BY_SQL.get(_read_statement(connection))


def create_index(connection: "sqlite3.Connection", language: Language | None) -> None:
    """Create the full-text index of a language, without any text.

    It contains texts as `Analyser.prepare` returns them. `insert_records` and `delete_records` keep it up to date.
    """
    connection.execute(_to_sql(f"'{Analyser(language).tokenizer}'"))
    # Parts are merged later and more at once than by default, as that costs a third of the time of a build.
    connection.execute("INSERT INTO record_text (record_text, rank) VALUES ('automerge', 16)")


def change_language(connection: "sqlite3.Connection", language: Language | None) -> None:
    """Index all texts again for a language, unless they are.

    The caller holds a transaction.
    """
    statement = _read_statement(connection)
    if _LANGUAGE_BY_SQL.get(statement) == language and statement not in PASSING_STATEMENTS:
        return
    connection.execute("DROP TABLE record_text")
    create_index(connection, language)
    _index_records(connection, 0)


def _index_records(connection: "sqlite3.Connection", first: int) -> None:
    """Index the texts from a rowid on."""
    connection.execute(
        f"INSERT INTO record_text (rowid, text) SELECT rowid, {_WORDS} FROM record WHERE rowid >= ?",
        [read_language(connection), first],
    )


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
    _index_records(connection, first)
    return first


def delete_records(connection: "sqlite3.Connection", artifact_ids: Sequence[str]) -> None:
    """Delete the records of these artifacts."""
    condition, ids = "artifact_id IN (SELECT value FROM json_each(?))", json.dumps(artifact_ids)
    connection.execute(
        f"""INSERT INTO record_text (record_text, rowid, text)
        SELECT 'delete', rowid, {_WORDS} FROM record WHERE {condition}""",
        [read_language(connection), ids],
    )
    connection.execute(f"DELETE FROM record WHERE {condition}", [ids])


def prepare_texts(connection: "sqlite3.Connection") -> None:
    """Prepare a connection for these tables and `InvertedIndex`.

    It registers the function that prepares texts to index, and creates a virtual table: `temp.record_word` lists each
    occurrence of each word in the index.
    """
    connection.create_function("airw_words", 2, lambda text, language: Analyser(language).prepare(text))
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.record_word USING fts5vocab (main, record_text, instance)"
    )


# The words of the index


class TextState(NamedTuple):
    """What changes with each write of texts.

    Args:
        totals: The number of rows, and of words in each column, as FTS5 stores them.
        last: The highest rowid that was ever used.
        statement: The SQL statement that made the index, and so says the language of the words.
        schema: A number that grows with each change of the tables, and so with each change of the language.
    """

    totals: bytes | None
    last: int
    statement: str = ""
    schema: int = 0

    @property
    def language(self) -> Language | None:
        """Return the language of the words."""
        return _LANGUAGE_BY_SQL.get(self.statement)

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
    return TextState(*row)


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


def read_beginning(connection: "sqlite3.Connection", beginning: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the rows with a word that begins so, and how many such words each has.

    They are rowids, ascending.

    Args:
        connection: The connection.
        beginning: The beginning, with a `*` after it.
    """
    analyser = Analyser(read_language(connection))
    words = analyser.cut([beginning])[0]
    if len(words) != 1:  # in this language; so they are a phrase
        rowids = _find_phrase(connection, analyser, beginning)
        return rowids, np.ones(len(rowids), np.int32)
    [word], unsure = words, json.dumps(analyser.list_stems(words[0]))
    sql = """SELECT group_concat(doc) FROM temp.record_word
        WHERE term BETWEEN ? AND ? AND term NOT IN (SELECT value FROM json_each(?))"""
    numbers = parse_numbers(*connection.execute(sql, [word, f"{word}\U0010ffff", unsure]).fetchone())
    rowids, counts = np.unique(numbers, return_counts=True)
    # A text that has these letters, or others than those of ASCII.
    cursor = connection.execute(
        """SELECT rowid, text FROM record WHERE rowid IN (
            SELECT doc FROM temp.record_word WHERE term IN (SELECT value FROM json_each(?))
        ) AND (text LIKE ? OR text GLOB '*[^\x01-\x7f]*')""",
        [unsure, f"%{word}%" if word.isascii() else "%"],
    )
    found = dict(zip(rowids.tolist(), counts.tolist(), strict=True))
    for rows in iterate_slices(cursor):
        for (rowid, _), own in zip(rows, analyser.cut([text for _, text in rows]), strict=True):
            if count := sum(each.startswith(word) for each in own):
                found[rowid] = count
    pairs = sorted(found.items())
    return np.array([row for row, _ in pairs], np.int64), np.array([count for _, count in pairs], np.int32)


def _find_phrase(connection: "sqlite3.Connection", analyser: Analyser, term: str) -> NDArray[np.int64]:
    """Return the rowids of the rows that contain a phrase, ascending."""
    # FTS5 stems the words between the quotes. Without any, there is no word in this language.
    match = " ".join(f'"{part}"' for part in analyser.phrases(term)) or '""'
    sql = "SELECT group_concat(rowid) FROM record_text WHERE record_text MATCH ?"
    return np.sort(parse_numbers(*connection.execute(sql, [match]).fetchone()))


def find_texts(connection: "sqlite3.Connection", contains: Contains) -> NDArray[np.int64]:
    """Return the records of the artifacts whose texts contain what they must.

    They are rowids, ascending.
    """
    analyser = Analyser(read_language(connection))
    conditions, parameters = list[str](), list[str]()
    for term in (*contains.every, *contains.none):
        is_beginning = term.endswith(BEGINNING)
        rowids = read_beginning(connection, term)[0] if is_beginning else _find_phrase(connection, analyser, term)
        conditions.append(
            f"artifact_id {'IN' if len(conditions) < len(contains.every) else 'NOT IN'} "
            "(SELECT artifact_id FROM record WHERE rowid IN (SELECT value FROM json_each(?)))"
        )
        parameters.append(dump_in_slices(rowids.tolist()))
    sql = f"SELECT group_concat(rowid) FROM record WHERE {' AND '.join(conditions)}"
    return np.sort(parse_numbers(*connection.execute(sql, parameters).fetchone()))


def parse_numbers(numbers: str | None) -> NDArray[np.int64]:
    """Parse numbers separated by commas.

    The text is parsed in slices, as numpy keeps the GIL and so stops all other threads while it parses one.
    """
    slices = re.finditer(f".{{1,{_PARSE_CHARS}}}[^,]*", numbers or "")
    parts = [np.fromstring(each[0].strip(","), np.int64, sep=",") for each in slices]
    return np.concatenate([np.empty(0, np.int64), *parts])


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

"""The tables of texts in SQLite, which both stores use, and the split of texts into words."""

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airw.errors import StoreError
from airw.stores._indexes.unspaced import space_query, space_text

if TYPE_CHECKING:
    import sqlite3

TEXT_TABLES = (
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
    "CREATE VIRTUAL TABLE record_text USING fts5 (text, content='record', content_rowid='rowid', tokenize='unicode61')",
    # Parts are merged later and more at once than by default, as that costs a third of the time of a build.
    "INSERT INTO record_text (record_text, rank) VALUES ('automerge', 16)",
)
"""The statements that create the table `record` and the full-text index over it.

The index contains composed characters (NFC) for any text, as FTS5 would split a word before a combining mark. Runs of
letters without spaces are split; see the module `unspaced`. `insert_records` and `delete_records` keep it up to date.
"""

_WORD = re.compile("[a-z0-9]+")
_LAST_ROWID = 1 << 62  # a corpus that comes so far was made by a stranger
_MAX_TOKEN = 32_768  # FTS5 indexes only this many bytes of a word


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
    connection.executemany(
        "INSERT INTO record_text (rowid, text) VALUES (?, ?)", ((row[0], _prepare_text(row[-1])) for row in numbered)
    )
    return first


def delete_records(connection: "sqlite3.Connection", artifact_ids: Sequence[str]) -> None:
    """Delete the records of these artifacts."""
    condition, parameters = "artifact_id IN (SELECT value FROM json_each(?))", [json.dumps(artifact_ids)]
    connection.execute(
        f"""INSERT INTO record_text (record_text, rowid, text)
        SELECT 'delete', rowid, airw_words(text) FROM record WHERE {condition}""",
        parameters,
    )
    connection.execute(f"DELETE FROM record WHERE {condition}", parameters)


def prepare_texts(connection: "sqlite3.Connection") -> None:
    """Prepare a connection for `TEXT_TABLES` and `InvertedIndex`.

    It registers a function that `delete_records` uses, and creates two virtual tables: `temp.record_word` lists each
    occurrence of each word in the index, and `temp.record_frequency` the number of rows with each.
    """
    connection.create_function("airw_words", 1, _prepare_text, deterministic=True)
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.record_word USING fts5vocab (main, record_text, instance)"
    )
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.record_frequency USING fts5vocab (main, record_text, row)"
    )


def _compose(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _prepare_text(text: str) -> str:
    return text if text.isascii() else space_text(_compose(text))


def _prepare_query(text: str) -> str:
    return text if text.isascii() else space_query(_compose(text))


def split_queries(queries: Sequence[str]) -> list[list[str]]:
    """Return the words of each query, sorted and without duplicates.

    Example:
        >>> split_queries(["Rotate the KEYS, re-rotate!", "?!", "東京都"])
        [['keys', 're', 'rotate', 'the'], [], ['京都', '東京']]
    """
    return [sorted({*words}) for words in _split(queries, _prepare_query)]


def split_words(texts: Sequence[str]) -> list[list[str]]:
    """Return all words of each text as FTS5 would index them, in any order.

    FTS5 itself splits the texts, so that the result is right for every script. For plain ASCII, a regular expression
    has the same result without a database.

    Example:
        >>> split_words(["An ox, an axe"])
        [['an', 'ox', 'an', 'axe']]
    """
    return _split(texts, _prepare_text)


def _split(texts: Sequence[str], prepare: Callable[[str], str]) -> list[list[str]]:
    if all(map(str.isascii, texts)):
        return [[word[:_MAX_TOKEN] for word in _WORD.findall(text.lower())] for text in texts]
    import sqlite3

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.text_factory = lambda data: data.decode(errors="replace")
        connection.execute("CREATE VIRTUAL TABLE piece USING fts5 (text, tokenize='unicode61')")
        connection.execute("CREATE VIRTUAL TABLE word USING fts5vocab (piece, instance)")
        connection.executemany(
            "INSERT INTO piece (rowid, text) VALUES (?, ?)",
            ((row, prepare(text).encode(errors="replace").decode()) for row, text in enumerate(texts)),
        )
        words: list[list[str]] = [[] for _ in texts]
        for row, word in connection.execute("SELECT doc, term FROM word"):
            if "\ufffd" not in word:  # else FTS5 cut a long word inside a character, and no query can match it
                words[row].append(word)
    return words

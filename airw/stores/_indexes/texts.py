"""The tables of texts that both stores rank, one in its file and one in memory, and the words that they index."""

import json
import re
import unicodedata
from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any

from airw.errors import StoreError

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
    """CREATE TRIGGER record_added AFTER INSERT ON record BEGIN
        INSERT INTO record_text (rowid, text) VALUES (new.rowid, airw_composed(new.text));
    END""",
    """CREATE TRIGGER record_removed AFTER DELETE ON record BEGIN
        INSERT INTO record_text (record_text, rowid, text) VALUES ('delete', old.rowid, airw_composed(old.text));
    END""",
)
"""What to execute once to make the table `record` and the index over its text; triggers keep the two together.

The index holds composed characters (NFC) whatever the text holds, as it takes a letter and its mark for two otherwise.
Connections that write need `prepare_texts`.
"""

_ROWS = 256  # inserted by one statement
_WORD = re.compile("[a-z0-9]+")
_LONGEST = 32_768  # FTS5 drops the rest of a word


def insert_records(connection: "sqlite3.Connection", rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows of `id, artifact_id, kind, idx, metadata, text` under consecutive rowids; return the first of these.

    Many rows a statement: where a trigger writes to its index, FTS5 writes its buffer out at every statement.

    Raises:
        StoreError: A record's id is not its own.
    """
    import sqlite3

    (first,) = connection.execute(
        "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'record'"
    ).fetchone()
    for start in range(0, len(rows), _ROWS):
        numbered = [(rowid, *row) for rowid, row in enumerate(rows[start : start + _ROWS], first + start)]
        places = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(numbered))
        try:
            connection.execute(
                f"INSERT INTO record (rowid, id, artifact_id, kind, idx, metadata, text) VALUES {places}",
                [*chain.from_iterable(numbered)],
            )
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise
            raise StoreError("two records have one id; make ids with Record.make_id") from error
    return int(first)


def delete_records(connection: "sqlite3.Connection", artifact_ids: Sequence[str]) -> None:
    """Delete the records of these artifacts."""
    connection.execute(
        "DELETE FROM record WHERE artifact_id IN (SELECT value FROM json_each(?))", [json.dumps(artifact_ids)]
    )


def prepare_texts(connection: "sqlite3.Connection") -> None:
    """Make callable what the triggers of `TEXT_TABLES` call, and readable, as `temp.record_word`, what they index."""
    connection.create_function("airw_composed", 1, _compose, deterministic=True)
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.record_word USING fts5vocab (main, record_text, instance)"
    )


def _compose(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def split_queries(queries: Sequence[str]) -> list[list[str]]:
    """Return for each query its words, sorted and each once.

    Example:
        >>> split_queries(["Rotate the KEYS, re-rotate!", "?!"])
        [['keys', 're', 'rotate', 'the'], []]
    """
    return [sorted({*words}) for words in split_words(queries)]


def split_words(texts: Sequence[str]) -> list[list[str]]:
    """Return for each text all of its words as the index holds them, in no particular order.

    FTS5 itself cuts the words, so that they are the ones it would index, whatever the script; those of plain ASCII are
    known without asking it.

    Example:
        >>> split_words(["An ox, an axe"])
        [['an', 'ox', 'an', 'axe']]
    """
    if all(map(str.isascii, texts)):
        return [[word[:_LONGEST] for word in _WORD.findall(text.lower())] for text in texts]
    import sqlite3

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.text_factory = lambda data: data.decode(errors="replace")
        connection.execute("CREATE VIRTUAL TABLE piece USING fts5 (text, tokenize='unicode61')")
        connection.execute("CREATE VIRTUAL TABLE word USING fts5vocab (piece, instance)")
        connection.executemany(
            "INSERT INTO piece (rowid, text) VALUES (?, ?)",
            ((row, _compose(text).encode(errors="replace").decode()) for row, text in enumerate(texts)),
        )
        found: list[list[str]] = [[] for _ in texts]
        for row, word in connection.execute("SELECT doc, term FROM word"):
            if "\ufffd" not in word:  # cut at 32,768 bytes, inside a character: no text can ask for that
                found[row].append(word)
    return found

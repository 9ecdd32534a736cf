"""BM25 as SQLite's FTS5 means it: the tables, the words of a query, and the statement that ranks.

Both stores use these, one over its file and one in memory, so that their scores are equal by construction.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from airw.values import Ranking

if TYPE_CHECKING:
    import sqlite3

Row: TypeAlias = tuple[str, str, float]

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
Connections that write need `register_text_functions`.
"""

_ROWS = 256  # inserted by one statement
_DEEPER = 4  # times as many records as artifacts are looked at, and again as often as these are too few
_MOST = 2**62
_WORD = re.compile("[a-z0-9]+")
_LONGEST = 32_768  # FTS5 drops the rest of a word


def insert_records(connection: "sqlite3.Connection", rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows of `id, artifact_id, kind, idx, metadata, text` under consecutive rowids and give the first of these.

    Many rows a statement: where a trigger writes to its index, FTS5 writes its buffer out at every statement.
    """
    (first,) = connection.execute(
        "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'record'"
    ).fetchone()
    for start in range(0, len(rows), _ROWS):
        numbered = [(rowid, *row) for rowid, row in enumerate(rows[start : start + _ROWS], first + start)]
        places = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(numbered))
        connection.execute(
            f"INSERT INTO record (rowid, id, artifact_id, kind, idx, metadata, text) VALUES {places}",
            [*chain.from_iterable(numbered)],
        )
    return int(first)


def register_text_functions(connection: "sqlite3.Connection") -> None:
    """Make callable what the triggers of `TEXT_TABLES` call."""
    connection.create_function("airw_composed", 1, _composed, deterministic=True)


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def match_expressions(queries: Sequence[str]) -> list[str]:
    """Give for each query the FTS5 expression "any of its words"; `""` for a query without words.

    FTS5 itself cuts the words, so that they are the ones it would index, whatever the script; those of plain ASCII are
    known without asking it.

    Example:
        >>> match_expressions(["Rotate the KEYS, re-rotate!", "?!"])
        ['"keys" OR "re" OR "rotate" OR "the"', '']
    """
    if all(map(str.isascii, queries)):
        words = ([word[:_LONGEST] for word in _WORD.findall(query.lower())] for query in queries)
        return [" OR ".join(f'"{word}"' for word in sorted({*each})) for each in words]
    import sqlite3

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        # A word is cut at 32,768 bytes, which may be inside a character.
        connection.text_factory = lambda data: data.decode(errors="ignore")
        connection.execute("CREATE VIRTUAL TABLE query USING fts5 (text, tokenize='unicode61')")
        connection.execute("CREATE VIRTUAL TABLE word USING fts5vocab (query, instance)")
        connection.executemany(
            "INSERT INTO query (rowid, text) VALUES (?, ?)",
            ((row, _composed(query).encode(errors="replace").decode()) for row, query in enumerate(queries)),
        )
        found: list[list[str]] = [[] for _ in queries]
        for row, term in connection.execute("SELECT DISTINCT doc, term FROM word ORDER BY doc, term"):
            found[row].append(f'"{term}"')
    return [" OR ".join(terms) for terms in found]


def rank_texts(
    connection: "sqlite3.Connection",
    queries: Sequence[str],
    k: int,
    *,
    per_artifact: bool,
    condition: str = "1",
    parameters: Sequence[Any] = (),
) -> list[Ranking]:
    """Rank what is in the tables of `TEXT_TABLES` for each query; `condition` and `parameters` as SQL on `record`."""
    # Of most matches the score is all that is read.
    where = "JOIN record ON record.rowid = record_text.rowid" if condition != "1" else ""
    matches = f"""SELECT record_text.rowid AS number, -bm25(record_text) AS score FROM record_text {where}
        WHERE record_text MATCH ? AND ({condition})"""
    rankings = []
    for expression in match_expressions(queries):
        ranked = partial(_ranked, connection, matches, [expression, *parameters])
        rows: list[Row] = []
        if expression and k > 0:
            rows = _best_of_each(ranked, k) if per_artifact else ranked(k)[:k]
        ids, artifact_ids, scores = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
        rankings.append(Ranking(ids, artifact_ids, np.array(scores, np.float64)))
    return rankings


def _ranked(connection: "sqlite3.Connection", matches: str, parameters: Sequence[Any], depth: int) -> list[Row]:
    """Give the best `depth` records, and all that tie with the last of them, as `(id, artifact id, score)`."""
    depth = min(depth, _MOST)
    # Materialised, as bm25() works only where FTS5's own rows are read.
    ranking = """WITH found AS MATERIALIZED ({})
        SELECT record.id, record.artifact_id, score FROM found CROSS JOIN record ON record.rowid = number
        WHERE score >= {} ORDER BY score DESC, record.artifact_id, record.idx"""
    few = ranking.format(f"{matches} ORDER BY score DESC LIMIT ?", "-9e999")
    enough = min(_DEEPER * depth, _MOST) + 1  # mostly holds all that tie with the last one
    rows: list[Row] = connection.execute(few, [*parameters, enough]).fetchall()
    if len(rows) < enough or rows[-1][2] < rows[depth - 1][2]:
        return [row for at, row in enumerate(rows) if at < depth or row[2] == rows[depth - 1][2]]
    last = "(SELECT score FROM found ORDER BY score DESC LIMIT 1 OFFSET ?)"
    return list(connection.execute(ranking.format(matches, last), [*parameters, depth - 1]))


def _best_of_each(ranked: Callable[[int], list[Row]], k: int) -> list[Row]:
    """Give the best record of each of `k` artifacts, looking at more records until there are enough."""
    depth = k
    while True:
        depth *= _DEEPER
        rows, best = ranked(depth), dict[str, Row]()
        for row in rows:
            best.setdefault(row[1], row)
        if len(best) >= k or len(rows) < depth:
            return [*best.values()][:k]


def one_of(column: str, values: Sequence[str]) -> tuple[str, list[Any]]:
    """Give the condition that a column is one of these values, and its parameter."""
    return f"{column} IN (SELECT value FROM json_each(?))", [json.dumps(list(values))]

"""BM25 as SQLite's FTS5 means it: the tables, the words of a query, and the statement that ranks.

Both stores use these, one over its file and one in memory, so that their scores are equal by construction.
"""

import json
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from airw.values import Ranking

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
        INSERT INTO record_text (rowid, text) VALUES (new.rowid, new.text);
    END""",
    """CREATE TRIGGER record_removed AFTER DELETE ON record BEGIN
        INSERT INTO record_text (record_text, rowid, text) VALUES ('delete', old.rowid, old.text);
    END""",
)
"""What to execute once to make the table `record` and the index over its text; triggers keep the two together."""


def match_expressions(queries: Sequence[str]) -> list[str]:
    """Give for each query the FTS5 expression "any of its words"; `""` for a query without words.

    FTS5 itself cuts the words, so that they are the ones it would index, whatever the script.

    Example:
        >>> match_expressions(["Rotate the KEYS, re-rotate!", "?!"])
        ['"keys" OR "re" OR "rotate" OR "the"', '']
    """
    import sqlite3

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        # A word is cut at 32,768 bytes, which may be inside a character.
        connection.text_factory = lambda data: data.decode(errors="ignore")
        connection.execute("CREATE VIRTUAL TABLE query USING fts5 (text, tokenize='unicode61')")
        connection.execute("CREATE VIRTUAL TABLE word USING fts5vocab (query, instance)")
        connection.executemany(
            "INSERT INTO query (rowid, text) VALUES (?, ?)",
            ((row, query.encode(errors="replace").decode()) for row, query in enumerate(queries)),
        )
        words: list[list[str]] = [[] for _ in queries]
        for row, term in connection.execute("SELECT DISTINCT doc, term FROM word ORDER BY doc, term"):
            words[row].append(f'"{term}"')
    return [" OR ".join(terms) for terms in words]


def ranking_statement(*, per_artifact: bool, condition: str = "1") -> str:
    """Give the statement that ranks records, or artifacts by their best record, for one expression.

    Its parameters: the expression, those of `condition` (a test of `record` columns), and the number of rows wanted.
    Its columns: record id, artifact id, score. The cut comes after the condition and after the collapse to artifacts.
    """
    matching = f"""
        SELECT record.id, record.artifact_id, record.idx, -bm25(record_text) AS score
        FROM record_text JOIN record ON record.rowid = record_text.rowid
        WHERE record_text MATCH ? AND ({condition})"""
    if per_artifact:
        # Materialised, because bm25() works only where FTS5's own rows are read.
        matching = f"""
            WITH found AS MATERIALIZED ({matching})
            SELECT *, row_number() OVER (PARTITION BY artifact_id ORDER BY score DESC, idx) AS place FROM found"""
    return f"""
        SELECT id, artifact_id, score FROM ({matching}) {"WHERE place = 1" if per_artifact else ""}
        ORDER BY score DESC, artifact_id, idx LIMIT ?"""


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
    statement = ranking_statement(per_artifact=per_artifact, condition=condition)
    rankings = []
    for expression in match_expressions(queries):
        wanted = expression and k > 0
        rows = connection.execute(statement, [expression, *parameters, k]).fetchall() if wanted else []
        ids, artifact_ids, scores = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
        rankings.append(Ranking(ids, artifact_ids, np.array(scores, np.float64)))
    return rankings


def one_of(column: str, values: Sequence[str]) -> tuple[str, list[Any]]:
    """Give the condition that a column is one of these values, and its parameter."""
    return f"{column} IN (SELECT value FROM json_each(?))", [json.dumps(list(values))]

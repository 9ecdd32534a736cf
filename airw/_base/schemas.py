"""The statements in a file of SQLite, compared with those that airw wrote.

A file may come from a stranger. SQLite runs what its schema says while it reads a row: the expression of a generated
column, a view, a check. So nothing of a file is read before each statement is known.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airw._base.messages import one_line

if TYPE_CHECKING:
    import sqlite3

_MOST_BYTES = 1_000_000  # of a statement or value, while the schema is read
_MOST_DEPTH = 100  # of an expression in it

# A table that only stores: names, types and keys. It may be there: SQLite and FTS5 add some, and so may the user.
_PLAIN_TABLE = re.compile(
    r"""CREATE TABLE (?:\w+|'\w+'|"\w+") ?\((?:[\w ,]|\([\w ,]*\))*\)(?: WITHOUT ROWID)?""", re.ASCII | re.IGNORECASE
)
_COMPUTES = re.compile(r"\b(?:AS|CHECK)\b", re.IGNORECASE)


@contextmanager
def small_limits(connection: "sqlite3.Connection") -> Iterator[None]:
    """Refuse long statements and deep expressions while the block reads the schema."""
    import sqlite3

    limits = {
        sqlite3.SQLITE_LIMIT_LENGTH: _MOST_BYTES,
        sqlite3.SQLITE_LIMIT_SQL_LENGTH: _MOST_BYTES,
        sqlite3.SQLITE_LIMIT_EXPR_DEPTH: _MOST_DEPTH,
    }
    before = {limit: connection.setlimit(limit, most) for limit, most in limits.items()}
    try:
        yield
    finally:
        for limit, most in before.items():
            connection.setlimit(limit, most)


def read_schema(connection: "sqlite3.Connection") -> tuple[tuple[str, str, str], ...]:
    """Return kind, name and statement of all in a file that SQLite did not make."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    return tuple(
        (str(kind), str(name), str(sql))
        for kind, name, sql in rows
        if sql is not None or not str(name).startswith("sqlite_autoindex_")
    )


def find_foreign(schema: Iterable[tuple[str, str, str]], own: Mapping[str, Collection[str]]) -> tuple[str, str] | None:
    """Return kind and name of the first thing in a schema that airw did not make.

    A table that can only store values is none: SQLite makes some, and a user may.

    Args:
        schema: What `read_schema` returned.
        own: By name, the statements that airw wrote for it, as `tidy_sql` returns them.
    """
    for kind, name, sql in ((kind, name, tidy_sql(sql)) for kind, name, sql in schema):
        is_plain = _PLAIN_TABLE.fullmatch(sql) is not None and not _COMPUTES.search(sql)
        if sql not in own[name] if name in own else not is_plain:
            return one_line(kind, longest=20), name
    return None


def tidy_sql(sql: str) -> str:
    """Return a statement with single spaces, as SQLite keeps those of its source."""
    return re.sub(r"\s+", " ", sql, flags=re.ASCII).strip()

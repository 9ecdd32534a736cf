"""Finds damage in the file of a corpus: every page, row, vector and posting is read."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from airw._base.messages import error_text, one_line
from airw._base.slices import iterate_slices
from airw.errors import StoreCorrupt
from airw.stores._indexes.texts import read_lengths
from airw.stores._stored_values import parse_mappings
from airw.stores.sqlite._links import weight_column
from airw.stores.sqlite._records import decode_vectors
from airw.stores.sqlite._vectors import read_corpus_mark
from airw.values.links import LEAST_WEIGHT

if TYPE_CHECKING:
    import sqlite3

_MAX_ROWID = 2**63 - 1
_MOST_FAULTS = 10  # of each kind

# What must not exist in a whole corpus, by the name of the fault.
_ORPHANS = {
    "records without an artifact": "SELECT count(*) FROM record WHERE artifact_id NOT IN (SELECT id FROM artifact)",
    "records without a vector": "SELECT count(*) FROM record WHERE rowid NOT IN (SELECT rowid FROM vector)",
    "vectors without a record": "SELECT count(*) FROM vector WHERE rowid NOT IN (SELECT rowid FROM record)",
    "records that are not in the text index": """
        SELECT count(*) FROM record WHERE rowid NOT IN (SELECT id FROM record_text_docsize)""",
    "rows of the text index without a record": """
        SELECT count(*) FROM record_text_docsize WHERE id NOT IN (SELECT rowid FROM record)""",
    "links without an artifact": "SELECT count(*) FROM link WHERE artifact_id NOT IN (SELECT id FROM artifact)",
    "names without an artifact": "SELECT count(*) FROM name WHERE artifact_id NOT IN (SELECT id FROM artifact)",
    "links with a wrong target": """
        SELECT count(*) FROM link WHERE (state = 'resolved') <> (target IS NOT NULL)
        OR (state = 'foreign') <> (target_source IS NOT NULL)
        OR state NOT IN ('resolved', 'dangling', 'ambiguous', 'foreign')
        OR target NOT IN (SELECT id FROM artifact)""",
    "records that are not counted": """
        SELECT (SELECT count(*) FROM record) <> (SELECT coalesce(sum(live), 0) FROM bucket)""",
    "links with a wrong weight": f"""
        SELECT count(*) FROM link WHERE {{weight}} IS NOT NULL
        AND (typeof({{weight}}) <> 'real' OR {{weight}} NOT BETWEEN {LEAST_WEIGHT} AND 1)""",
}


def prepare_check(connection: "sqlite3.Connection") -> None:
    """Create the virtual table that counts words; to be called outside a transaction."""
    connection.execute("PRAGMA query_only = 0")
    connection.execute("CREATE VIRTUAL TABLE temp.record_term USING fts5vocab (main, record_text, row)")
    connection.execute("PRAGMA query_only = 1")


def find_damage(connection: "sqlite3.Connection") -> Iterator[str]:
    """Yield what is damaged in a file, one line each."""
    import sqlite3

    for name, check in _CHECKS.items():
        try:
            yield from check(connection)
        except (sqlite3.Error, StoreCorrupt, ValueError, TypeError, ArithmeticError, LookupError) as error:
            # An interrupted check has found nothing.
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise
            yield f"{name}: {error_text(error)}"


def _check_pages(connection: "sqlite3.Connection") -> Iterator[str]:
    for (fault,) in connection.execute(f"PRAGMA integrity_check({_MOST_FAULTS})"):
        if fault != "ok":
            yield one_line(fault)


def _check_orphans(connection: "sqlite3.Connection") -> Iterator[str]:
    for fault, sql in _ORPHANS.items():
        (count,) = connection.execute(sql.format(weight=weight_column(connection))).fetchone()
        if count:
            yield f"{count} {fault}"


def _check_records(connection: "sqlite3.Connection") -> Iterator[str]:
    for rows in iterate_slices(
        connection.execute("SELECT rowid, id, artifact_id, kind, idx, text, metadata FROM record")
    ):
        parse_mappings([row[-1] for row in rows])
        if not {tuple(map(type, row)) for row in rows} <= {(int, str, str, str, int, str, str)}:
            yield "records: a value has another type"
            return


def _check_vectors(connection: "sqlite3.Connection") -> Iterator[str]:
    widths = set()
    for rows in iterate_slices(connection.execute("SELECT data, sum FROM vector")):
        widths.add(decode_vectors(*zip(*rows, strict=True)).shape[1])
    if len(widths) > 1:
        yield f"vectors: they are {' and '.join(map(str, sorted(widths)))} wide"


def _check_words(connection: "sqlite3.Connection") -> Iterator[str]:
    """Compare the lengths of the texts with the number of words in the text index."""
    _, lengths = read_lengths(connection, 0)
    (words,) = connection.execute("SELECT coalesce(sum(cnt), 0) FROM temp.record_term").fetchone()
    if int(lengths.sum()) != words:
        yield f"the text index contains {words} words, but the texts {int(lengths.sum())}"


def _check_settings(connection: "sqlite3.Connection") -> Iterator[str]:
    rows = connection.execute("SELECT value FROM setting WHERE kind <> 'file'").fetchall()
    parse_mappings([value for (value,) in rows])
    read_corpus_mark(connection)
    (last,) = connection.execute("SELECT max(seq) FROM sqlite_sequence").fetchone()
    if (last or 0) > _MAX_ROWID // 2:
        yield "settings: the numbers of rows are used up"


_CHECKS: dict[str, Callable[["sqlite3.Connection"], Iterator[str]]] = {
    "pages": _check_pages,
    "settings": _check_settings,
    "records": _check_records,
    "vectors": _check_vectors,
    "rows": _check_orphans,
    "words": _check_words,
}

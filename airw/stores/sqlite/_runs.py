"""Runs in a corpus's file: settings of a kind of their own, written together with what they tell of."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airw.protocols import IngestRun, RunRows
from airw.stores.sqlite._records import settings
from airw.stores.sqlite._schema import transaction
from airw.stores.sqlite._writing import Rows, prepare_rows, set_setting, write

if TYPE_CHECKING:
    import sqlite3

_RUN = ""  # the key of the run's own row; those of its parts are numbers


def begin_run(
    connection: "sqlite3.Connection", run: IngestRun, row: Mapping[str, Any], removals: Sequence[str]
) -> None:
    """Keep a row for a run, in place of an earlier run of its name and all its parts, and remove artifacts."""
    with transaction(connection, "IMMEDIATE"):
        write(connection, prepare_rows([]), removals)
        connection.execute("DELETE FROM setting WHERE kind = ?", [_kind(run)])
        set_setting(connection, _kind(run), _RUN, {"mark": run.mark, "row": row})


def read_run(connection: "sqlite3.Connection", run: IngestRun, parts: Sequence[int] | None) -> RunRows | None:
    """Return the row of a run and those of its parts; `None` where it was replaced."""
    begun = _rows(connection, run, [_RUN]).get(_RUN, {})
    if begun.get("mark") != run.mark:
        return None
    found = settings(connection, _kind(run)) if parts is None else _rows(connection, run, list(map(str, parts)))
    numbers = sorted(found.keys() - {_RUN}, key=int)
    return RunRows(begun["row"], {int(part): found[part] for part in numbers})


def apply_part(
    connection: "sqlite3.Connection", run: IngestRun, part: int, row: Mapping[str, Any], rows: Rows
) -> dict[str, Any] | None:
    """Put artifacts and a row for the part, unless there is one; `None` where the run can no longer be written."""
    with transaction(connection, "IMMEDIATE"):
        found = read_run(connection, run, [part])
        if found is None or not run.fits(settings(connection, "config").get("", {})):
            return None
        if part not in found.parts:
            write(connection, rows, ())
            set_setting(connection, _kind(run), str(part), row)
        return found.parts.get(part) or dict(_rows(connection, run, [str(part)])[str(part)])


def forget_run(
    connection: "sqlite3.Connection", run: IngestRun, parts: Sequence[int] | None, removals: Sequence[str]
) -> None:
    """Forget parts of a run, or all of it, and remove artifacts; nothing, where the run was replaced."""
    with transaction(connection, "IMMEDIATE"):
        if read_run(connection, run, []) is not None:
            write(connection, prepare_rows([]), removals)
            which = "" if parts is None else "AND key IN (SELECT value FROM json_each(?))"
            keys = [] if parts is None else [json.dumps(list(map(str, parts)))]
            connection.execute(f"DELETE FROM setting WHERE kind = ? {which}", [_kind(run), *keys])


def _kind(run: IngestRun) -> str:
    return f"run {run.name}"


def _rows(connection: "sqlite3.Connection", run: IngestRun, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
    rows = connection.execute(
        "SELECT key, value FROM setting WHERE kind = ? AND key IN (SELECT value FROM json_each(?))",
        [_kind(run), json.dumps(keys)],
    )
    return {key: json.loads(value) for key, value in rows}

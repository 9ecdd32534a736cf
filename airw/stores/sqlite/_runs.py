"""Ingest runs in the file of a corpus.

Their rows are settings, each written in one transaction with the artifacts of its part.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airw.protocols import IngestRun, RunRows
from airw.stores.sqlite._records import read_settings
from airw.stores.sqlite._schema import write_transaction
from airw.stores.sqlite._writing import ArtifactRows, prepare_rows, set_setting, write_rows

if TYPE_CHECKING:
    import sqlite3

_RUN = ""  # the key of the row of the run; the keys of its parts are their numbers


def begin_run(
    connection: "sqlite3.Connection", run: IngestRun, row: Mapping[str, Any], removals: Sequence[str]
) -> None:
    """Replace any run of the same name by this one, and remove artifacts."""
    with write_transaction(connection):
        write_rows(connection, prepare_rows([]), removals)
        connection.execute("DELETE FROM setting WHERE kind = ?", [_setting_kind(run)])
        set_setting(connection, _setting_kind(run), _RUN, {"mark": run.mark, "row": row})


def read_run(connection: "sqlite3.Connection", run: IngestRun, parts: Sequence[int] | None) -> RunRows | None:
    """Return the rows of a run and of its parts; `None` if it was replaced or forgotten."""
    stored_run = _read_rows(connection, run, [_RUN]).get(_RUN, {})
    if stored_run.get("mark") != run.mark:
        return None
    if parts is None:
        rows = read_settings(connection, _setting_kind(run))
    else:
        rows = _read_rows(connection, run, list(map(str, parts)))
    numbers = sorted(rows.keys() - {_RUN}, key=int)
    return RunRows(stored_run["row"], {int(part): rows[part] for part in numbers})


def apply_part(
    connection: "sqlite3.Connection", run: IngestRun, part: int, row: Mapping[str, Any], rows: ArtifactRows
) -> dict[str, Any] | None:
    """Write the artifacts and the row of a part, unless it has a row already."""
    with write_transaction(connection):
        stored_run = read_run(connection, run, [part])
        if stored_run is None or not run.fits(read_settings(connection, "config").get("", {})):
            return None
        if part not in stored_run.parts:
            write_rows(connection, rows, ())
            set_setting(connection, _setting_kind(run), str(part), row)
        return stored_run.parts.get(part) or dict(_read_rows(connection, run, [str(part)])[str(part)])


def forget_run(
    connection: "sqlite3.Connection", run: IngestRun, parts: Sequence[int] | None, removals: Sequence[str]
) -> None:
    """Delete the rows of these parts, or the whole run, and remove artifacts."""
    with write_transaction(connection):
        if read_run(connection, run, []) is not None:
            write_rows(connection, prepare_rows([]), removals)
            condition = "" if parts is None else "AND key IN (SELECT value FROM json_each(?))"
            keys = [] if parts is None else [json.dumps(list(map(str, parts)))]
            connection.execute(f"DELETE FROM setting WHERE kind = ? {condition}", [_setting_kind(run), *keys])


def _setting_kind(run: IngestRun) -> str:
    return f"run {run.name}"


def _read_rows(connection: "sqlite3.Connection", run: IngestRun, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
    rows = connection.execute(
        "SELECT key, value FROM setting WHERE kind = ? AND key IN (SELECT value FROM json_each(?))",
        [_setting_kind(run), json.dumps(keys)],
    )
    return {key: json.loads(value) for key, value in rows}

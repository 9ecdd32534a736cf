"""Ingest runs on a PostgreSQL server.

Their rows are settings, each written in one transaction with the artifacts of its part.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airw.protocols import IngestRun, RunRows
from airw.stores._changes import settings_json
from airw.stores._stored_values import check_types, detect_damage
from airw.stores.postgres._settings import delete_settings, read_config, read_settings, set_setting
from airw.stores.postgres._writing import NewRows, write_rows

if TYPE_CHECKING:
    from asyncpg import Connection

_RUN = ""  # the key of the row of the run; the keys of its parts are their numbers


async def begin_run(c: "Connection", run: IngestRun, row: Mapping[str, Any], removals: Sequence[str]) -> None:
    """Replace any run of the same name by this one, and remove artifacts."""
    await write_rows(c, NewRows(), removals)
    await delete_settings(c, _setting_kind(run))
    await set_setting(c, _setting_kind(run), _RUN, {"mark": run.mark, "row": row})


async def read_run(c: "Connection", run: IngestRun, parts: Sequence[int] | None) -> RunRows | None:
    """Return the rows of a run and of its parts; `None` if it was replaced or forgotten."""
    keys = None if parts is None else [_RUN, *map(str, parts)]
    rows = await read_settings(c, _setting_kind(run), keys)
    stored_run = rows.pop(_RUN, {})
    if stored_run.get("mark") != run.mark:
        return None
    with detect_damage():
        check_types([[stored_run["row"]]], [dict])
        return RunRows(stored_run["row"], {int(part): rows[part] for part in sorted(rows, key=int)})


async def apply_part(
    c: "Connection", run: IngestRun, part: int, row: Mapping[str, Any], rows: NewRows
) -> dict[str, Any] | None:
    """Write the artifacts and the row of a part, unless it has a row already."""
    stored_run = await read_run(c, run, [part])
    if stored_run is None or not run.fits(await read_config(c)):
        return None
    if part not in stored_run.parts:
        await write_rows(c, rows, ())
        await set_setting(c, _setting_kind(run), str(part), row)
        # As JSON returns it, with lists for tuples.
        stored_run.parts[part] = json.loads(settings_json(row))
    return stored_run.parts[part]


async def forget_run(c: "Connection", run: IngestRun, parts: Sequence[int] | None, removals: Sequence[str]) -> None:
    """Delete the rows of these parts, or the whole run, and remove artifacts."""
    kind = _setting_kind(run)
    stored_run = (await read_settings(c, kind, [_RUN])).get(_RUN, {})
    if stored_run.get("mark") == run.mark:
        await write_rows(c, NewRows(), removals)
        await delete_settings(c, kind, None if parts is None else [*map(str, parts)])


def _setting_kind(run: IngestRun) -> str:
    return f"run {run.name}"

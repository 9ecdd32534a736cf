"""Cases of `RunKeeper`: parts and their rows are stored together, and only once."""

import math
from collections.abc import Mapping
from typing import Any

import anyio

from airw.errors import StoreError
from airw.protocols import ArtifactIds, Change, IngestRun, Ledger, RunKeeper, ask
from airw.testing._store_tools import DELAYS, StoreCase, StoreFixture
from airw.testing.changes import put
from airw.testing.exam import case, expect, expect_equal, expect_refusal

CASES: list[StoreCase] = []
RUN, LATER, OTHER = IngestRun("notes", "first", {}), IngestRun("notes", "second", {}), IngestRun("mails", "first", {})
ROW: Mapping[str, Any] = {"held": {"a": "1"}, "é": [1, None, True]}


@case(
    CASES,
    "runs",
    promise="`read_run` returns the rows of one run in the order of their parts, without those of other runs.",
)
async def _rows_of_a_run_are_read_by_part_and_apart_from_those_of_other_runs(fixture: StoreFixture) -> None:
    store = await fixture.open_store()
    expect_equal(await store.read_run(RUN), None, "read_run() before any run")
    await store.begin_run(RUN, {"of": "notes"})
    await store.begin_run(OTHER, {"of": "mails"})
    for part in (10, 9, 2):
        expect_equal(await store.apply_part(RUN, part, {"at": part}, []), {"at": part}, f"apply_part({part})")
    rows = {2: {"at": 2}, 9: {"at": 9}, 10: {"at": 10}}
    expect_equal(await store.read_run(RUN), ({"of": "notes"}, rows), "read_run()")
    expect_equal(list((await store.read_run(RUN) or ({}, {}))[1]), [2, 9, 10], "the order of the parts")
    expect_equal(await store.read_run(RUN, [9, 3]), ({"of": "notes"}, {9: {"at": 9}}), "read_run(parts=[9, 3])")
    expect_equal(await store.read_run(RUN, []), ({"of": "notes"}, {}), "read_run(parts=[])")
    expect_equal(await store.read_run(OTHER), ({"of": "mails"}, {}), "read_run() of another run")


@case(
    CASES, "runs", "ledger", promise="`apply_part` stores the row and the artifacts of a part together or not at all."
)
async def _a_part_of_a_run_and_its_artifacts_come_together_or_not_at_all(fixture: StoreFixture) -> None:
    store = await fixture.open_store()
    await store.begin_run(RUN, {})
    await store.apply_part(RUN, 0, ROW, [put("a", "x")])
    for row, puts in ((ROW, [put("b", "y"), put("b", "z")]), ({"held": math.nan}, [put("b", "y")])):
        call = store.apply_part(RUN, 1, row, puts)
        await expect_refusal(StoreError, call, "apply_part with a value that cannot be stored")
        expect_equal(await ask(store, ArtifactIds()), ["a"], "artifact_ids() after a part was refused")
        expect_equal(await store.read_run(RUN), ({}, {0: ROW}), "read_run() after a part was refused")
    for part, delay in enumerate(DELAYS, 1):
        names = [f"p{part}n{number:02}" for number in range(50)]
        with anyio.move_on_after(delay):
            await store.apply_part(RUN, part, ROW, [put(name, "text") for name in names])
        stored = [id for id in await ask(store, ArtifactIds()) if id.startswith(f"p{part}")]
        _, rows = await store.read_run(RUN) or ({}, {})
        expected = names if part in rows else []
        has_row = "with" if part in rows else "without"
        expect_equal(stored, expected, f"artifacts of a part cancelled after {delay} s ({has_row} its row)")


@case(CASES, "runs", "ledger", promise="`apply_part` returns the stored row of a part that exists, and writes nothing.")
async def _a_part_that_is_there_is_not_written_again_and_gives_its_row(fixture: StoreFixture) -> None:
    store = await fixture.open_store()
    await store.begin_run(RUN, {})
    await store.apply_part(RUN, 0, ROW, [put("a", "x", version="1")])
    row = await store.apply_part(RUN, 0, {"other": 1}, [put("a", "y", version="2"), put("b", "z")])
    expect_equal(row, ROW, "the row of a part that exists")
    expect_equal([entry and entry.version for entry in await ask(store, Ledger())], ["1"], "versions in ledger()")
    await store.forget_run(RUN, [0])
    expect_equal(await store.read_run(RUN), ({}, {}), "read_run() after a part was forgotten")
    await store.apply_part(RUN, 0, {"other": 1}, [put("a", "y", version="2")])
    expect_equal(
        [entry and entry.version for entry in await ask(store, Ledger())], ["2"], "versions after it was forgotten"
    )


@case(
    CASES,
    "runs",
    "ledger",
    promise="`apply_part` returns `None` and writes nothing if its run was replaced or forgotten.",
)
async def _a_run_that_was_replaced_or_forgotten_takes_no_part_and_says_so(fixture: StoreFixture) -> None:
    store = await fixture.open_store()
    await store.begin_run(RUN, {})
    await store.apply_part(RUN, 0, ROW, [put("a", "x")])
    await store.begin_run(LATER, {"later": True})
    expect_equal(await store.read_run(RUN), None, "read_run() of a run that was replaced")
    expect_equal(await store.apply_part(RUN, 1, ROW, [put("b", "y")]), None, "apply_part of a run that was replaced")
    await store.forget_run(RUN, removals=["a"])
    expect_equal(await store.read_run(LATER), ({"later": True}, {}), "read_run() of the later run")
    await store.forget_run(LATER)
    expect_equal(await store.read_run(LATER), None, "read_run() of a run that was forgotten")
    expect_equal(await store.apply_part(LATER, 1, ROW, [put("b", "y")]), None, "apply_part of a forgotten run")
    expect_equal(await ask(store, ArtifactIds()), ["a"], "artifact_ids()")


@case(
    CASES,
    "runs",
    "ledger",
    "settings",
    "writing",
    promise="`apply_part` writes nothing while the settings are not those that its run needs.",
)
async def _a_part_is_refused_while_the_settings_are_not_what_its_run_needs(fixture: StoreFixture) -> None:
    run = IngestRun("notes", "first", {"embedder_id": "e", "dim": 2})
    store = await fixture.open_store()
    await store.begin_run(run, {})
    for config in ({}, {"embedder_id": "e"}, {"embedder_id": "f", "dim": 2}):
        await store.apply(Change(config=config))
        expect_equal(await store.apply_part(run, 0, ROW, [put("a", "x")]), None, f"apply_part with settings {config}")
    expect_equal(await ask(store, ArtifactIds()), [], "artifact_ids()")
    await store.apply(Change(config={"embedder_id": "e", "dim": 2, "more": 1}))
    expect_equal(await store.apply_part(run, 0, ROW, [put("a", "x")]), ROW, "apply_part with the settings it needs")


@case(CASES, "runs", "ledger", promise="`begin_run` and `forget_run` remove artifacts in the same write.")
async def _a_run_begins_and_ends_with_removals_in_the_same_write(fixture: StoreFixture) -> None:
    store = await fixture.open_store([put(name, "x") for name in "abc"])
    await expect_refusal(StoreError, store.begin_run(RUN, {"a": math.nan}, removals=["a"]), "begin_run with NaN")
    expect_equal(await ask(store, ArtifactIds()), ["a", "b", "c"], "artifact_ids() after a run was refused")
    await store.begin_run(RUN, {}, removals=["a", "never there"])
    expect_equal(await ask(store, ArtifactIds()), ["b", "c"], "artifact_ids() after begin_run")
    await store.forget_run(RUN, removals=["b"])
    expect_equal(await ask(store, ArtifactIds()), ["c"], "artifact_ids() after forget_run")


@case(
    CASES,
    "shared",
    "runs",
    "ledger",
    promise="If several stores write the same part at once, one does and all return its row.",
)
async def _of_stores_that_write_one_part_at_once_one_does(fixture: StoreFixture) -> None:
    rows: list[dict[str, Any] | None] = []

    async def write(store: RunKeeper, number: int) -> None:
        change = put("a", f"text {number}", version=str(number))
        rows.append(await store.apply_part(RUN, 0, {"by": number}, [change]))

    one, other = await fixture.open_store(), await fixture.open_store()
    await one.begin_run(RUN, {})
    async with anyio.create_task_group() as group:
        for number, store in enumerate((one, other, one, other)):
            group.start_soon(write, store, number)
    expect(all(row == rows[0] for row in rows), f"expected the same row from all writers, got {rows}")
    versions = [entry and entry.version for entry in await ask(other, Ledger())]
    expect_equal(versions, [str((rows[0] or {})["by"])], "the stored version")

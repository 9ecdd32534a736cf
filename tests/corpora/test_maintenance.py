"""Maintenance: when a corpus is due, and the effects of a run."""

import json
import os
import time
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from hypothesis import given, strategies as st

from airw.corpora import Definition, Maintenance, build_corpus, corpus_names, maintain, open_corpus, register
from airw.errors import ArgumentError, SourceError, StoreCorrupt
from airw.protocols import Config, ask

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def zone(monkeypatch):
    """A function that sets the local time zone of this process for the test."""

    def set_zone(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    set_zone("UTC")
    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def vault(tmp_path):
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "keys.md").write_text("rotate the signing keys")
    return folder


async def vault_of(folder, name="vault", **options):
    return await register(name, "files", root=folder, embedder="light", **options)


async def read_maintenance_time(name) -> datetime | None:
    async with open_corpus(name) as corpus:
        time_as_text = (await ask(corpus.store, Config())).get("maintained")
    return None if time_as_text is None else datetime.fromisoformat(time_as_text)


def actions(report):
    return {each.name: each.action for each in report.corpora}


# When a corpus is due


@pytest.mark.parametrize(
    "given",
    [
        {"reindex": "daily"},
        {"reindex": None},
        {"reindex": "interval"},
        {"reindex": "interval", "every_hours": 0},
        {"reindex": "interval", "every_hours": -1},
        {"reindex": "interval", "every_hours": float("nan")},
        {"reindex": "interval", "every_hours": True},
        {"reindex": "interval", "every_hours": "24"},
        {"every_hours": 24},
        {"reindex": "manual", "every_hours": 24},
        {"window": "22:00"},
        {"window": ("22:00",)},
        {"window": ("22:00", "22:00")},
        {"window": ("22:00", "24:00")},
        {"window": ("9:00", "17:00")},
        {"window": ("22:00", "06:00\n")},
        {"window": (22, 6)},
        {"window": ("22:00", "25:00")},
    ],
)
def test_a_meaningless_schedule_is_refused_in_one_line(given):
    with pytest.raises(ArgumentError) as caught:
        Maintenance(**given)
    assert "\n" not in str(caught.value)


HOURS = st.floats(0.01, 1000)
CLOCKS = st.times().map(lambda clock: clock.strftime("%H:%M"))


@given(HOURS, HOURS)
def test_an_interval_is_due_as_soon_as_it_has_passed(every, age):
    found = Maintenance("interval", every).decide(NOON - timedelta(hours=age), NOON)
    assert found.action == ("due" if timedelta(hours=age) >= timedelta(hours=every) else "not-due")


def test_an_interval_is_due_without_a_last_time_or_with_one_from_the_future():
    daily = Maintenance("interval", 24)
    assert daily.decide(None, NOON).action == "due"
    assert daily.decide(NOON + timedelta(days=900), NOON).action == "due"


@given(st.none() | st.just(NOON), CLOCKS, CLOCKS)
def test_manual_is_never_due_and_on_change_is_always_due(last, start, end):
    assert Maintenance("manual", window=None if start == end else (start, end)).decide(last, NOON).action == "manual"
    assert Maintenance().decide(last, NOON).action == "due"


@given(CLOCKS, CLOCKS, st.datetimes(timezones=st.just(UTC)))
def test_a_window_and_the_one_from_its_end_to_its_start_share_the_day(start, end, now):
    if start == end or now.year in (1, 9999):
        return
    found = {Maintenance(window=window).decide(None, now).action for window in ((start, end), (end, start))}
    assert found == {"due", "deferred"}


@pytest.mark.parametrize(
    ("window", "clock", "action"),
    [
        (("09:00", "17:00"), "09:00", "due"),
        (("09:00", "17:00"), "16:59", "due"),
        (("09:00", "17:00"), "17:00", "deferred"),
        (("09:00", "17:00"), "08:59", "deferred"),
        (("22:00", "06:00"), "22:00", "due"),
        (("22:00", "06:00"), "00:00", "due"),
        (("22:00", "06:00"), "05:59", "due"),
        (("22:00", "06:00"), "06:00", "deferred"),
        (("22:00", "06:00"), "21:59", "deferred"),
        (("22:00", "00:00"), "23:59", "due"),
        (("22:00", "00:00"), "00:00", "deferred"),
    ],
)
def test_a_window_goes_from_its_first_time_up_to_its_second_past_midnight_too(zone, window, clock, action):
    now = datetime.fromisoformat(f"2026-11-21T{clock}").astimezone()
    assert Maintenance(window=window).decide(None, now).action == action


def test_a_window_is_local_time(zone):
    nightly = Maintenance(window=("22:00", "06:00"))
    assert nightly.decide(None, NOON).action == "deferred"
    zone("Pacific/Auckland")  # one o'clock at night
    assert nightly.decide(None, NOON).action == "due"


def test_a_corpus_that_is_not_due_is_not_deferred():
    schedule = Maintenance("interval", 24, window=("00:00", "00:01"))
    assert schedule.decide(NOON - timedelta(hours=1), NOON).action == "not-due"


def test_by_default_records_are_built_daily_and_other_kinds_on_change():
    assert Definition("a", "records").schedule == Maintenance("interval", every_hours=24)
    assert Definition("a", "records", maintenance=Maintenance("manual")).schedule == Maintenance("manual")
    for kind in ("files", "jsonl", "notes", "packages", "reports", "skills"):
        assert Definition("a", kind).schedule == Maintenance()


# Effects of a run

pytestmark = pytest.mark.asyncio_only


@pytest.mark.slow
async def test_a_sweep_builds_due_corpora_in_order_of_name_and_reports_why_others_are_not_due(vault, zone):
    await vault_of(vault, "d-manual", maintenance=Maintenance("manual"))
    await vault_of(vault, "c-nightly", maintenance=Maintenance(window=("22:00", "06:00")))
    await vault_of(vault, "b-daily", maintenance=Maintenance("interval", 24))
    await vault_of(vault, "a-always")
    report = await maintain(now=NOON)
    assert [(each.name, each.action) for each in report.corpora] == [
        ("a-always", "built"),
        ("b-daily", "built"),
        ("c-nightly", "deferred"),
        ("d-manual", "manual"),
    ]
    assert [each.report and each.report.added for each in report.corpora] == [1, 1, None, None]
    assert corpus_names() == ["a-always", "b-daily"]
    assert report.ok
    later = await maintain(now=NOON + timedelta(hours=23))
    assert list(actions(later).values()) == ["built", "not-due", "deferred", "manual"]
    assert later.corpora[0].report.unchanged == 1
    assert later.corpora[1].reason == "built 23.0 hours ago, due every 24 hours"
    night = await maintain(now=NOON + timedelta(hours=12))
    assert list(actions(night).values()) == ["built", "not-due", "built", "manual"]
    assert list(actions(await maintain(now=NOON + timedelta(hours=24))).values())[1] == "built"


async def test_changes_of_the_source_are_in_the_report(vault):
    await vault_of(vault)
    await maintain()
    (vault / "bread.md").write_text("bake a loaf")
    (vault / "keys.md").write_text("rotate them")
    [found] = (await maintain()).corpora
    assert (found.report.added, found.report.updated, found.report.removed) == (1, 1, 0)
    assert found.seconds >= found.report.seconds > 0


async def test_a_corpus_that_fails_is_reported_with_its_error_and_the_others_are_built(vault, tmp_path):
    await vault_of(tmp_path / "missing", "a")
    await vault_of(vault, "b")
    (tmp_path / "home").write_text("")
    report = await maintain()
    assert actions(report) == {"a": "failed", "b": "built"}
    [failed] = report.failed
    assert isinstance(failed.error, SourceError)
    assert failed.reason == str(failed.error)
    assert "does not exist" in failed.reason
    assert not report.ok
    told = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert told["ok"] is False
    assert [each["error"] for each in told["corpora"]] == ["SourceError", None]
    assert told["corpora"][1]["report"]["added"] == 1


async def test_a_damaged_corpus_does_not_stop_a_sweep(vault):
    await vault_of(vault, "a", maintenance=Maintenance("interval", 24))
    await vault_of(vault, "b")
    await maintain()
    async with build_corpus("a") as corpus:
        path = corpus.store._path
    path.write_bytes(b"no database at all " * 500)
    report = await maintain()
    assert actions(report) == {"a": "failed", "b": "built"}
    assert isinstance(report.failed[0].error, StoreCorrupt)


async def test_a_corpus_requested_by_name_is_built_despite_its_schedule_and_no_other(vault, zone):
    await vault_of(vault, "manual", maintenance=Maintenance("manual"))
    await vault_of(vault, "daily", maintenance=Maintenance("interval", 24, window=("22:00", "06:00")))
    await vault_of(vault, "other")
    for name in ("manual", "Daily", "daily"):
        report = await maintain(name, now=NOON)
        assert actions(report) == {name.lower(): "built"}
        assert report.corpora[0].reason == "requested by name"
    assert corpus_names() == ["daily", "manual"]


async def test_errors_of_a_corpus_requested_by_name_are_raised_and_its_lock_is_released(vault, tmp_path):
    await vault_of(tmp_path / "missing", "a")
    with pytest.raises(SourceError, match="does not exist"):
        await maintain("a")
    await vault_of(vault, "a")
    assert (await maintain("a")).ok


async def test_an_item_that_cannot_be_indexed_is_left_out_and_reported_or_fails_the_corpus(vault):
    (vault / "bad.md").write_bytes(b"\xff")
    await vault_of(vault)
    [found] = (await maintain()).corpora
    assert (found.action, found.report.added) == ("built", 1)
    assert [problem.item for problem in found.report.problems] == ["bad.md"]
    [found] = (await maintain(on_error="raise")).corpora
    assert found.action == "failed"
    with pytest.raises(ArgumentError, match="on_error"):
        await maintain(on_error="ignore")


def read_all_files(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


async def test_a_dry_run_lists_the_due_corpora_and_writes_nothing(home, vault):
    await vault_of(vault, "always")
    await vault_of(vault, "daily", maintenance=Maintenance("interval", 24))
    await vault_of(vault, "manual", maintenance=Maintenance("manual"))
    before = read_all_files(home)
    assert actions(await maintain(dry_run=True)) == {"always": "due", "daily": "due", "manual": "manual"}
    assert actions(await maintain("manual", dry_run=True)) == {"manual": "due"}
    assert read_all_files(home) == before
    await maintain(now=NOON)
    before = read_all_files(home)
    report = await maintain(dry_run=True, now=NOON + timedelta(hours=1))
    assert actions(report) == {"always": "due", "daily": "not-due", "manual": "manual"}
    assert read_all_files(home) == before
    assert report.to_dict()["dry_run"] is True


async def test_the_time_of_maintenance_is_the_start_of_its_build_and_other_builds_keep_it(vault):
    await vault_of(vault)
    await maintain(now=NOON)
    assert await read_maintenance_time("vault") == NOON
    (vault / "keys.md").write_text("another text")
    async with build_corpus("vault"):
        pass
    assert await read_maintenance_time("vault") == NOON
    before = datetime.now(UTC).replace(microsecond=0)
    await maintain()
    found = await read_maintenance_time("vault")
    assert before <= found <= datetime.now(UTC)
    assert found.utcoffset() == timedelta(0)


async def test_a_corpus_that_failed_is_due_again_at_once(vault):
    await vault_of(vault, maintenance=Maintenance("interval", 24))
    await maintain(now=NOON)
    (vault / "keys.md").rename(vault / "keys.txt")
    assert actions(await maintain(now=NOON + timedelta(hours=25))) == {"vault": "failed"}
    (vault / "keys.txt").rename(vault / "keys.md")
    assert actions(await maintain(now=NOON + timedelta(hours=26))) == {"vault": "built"}


async def test_progress_names_the_corpus(vault):
    await vault_of(vault, "a")
    await vault_of(vault, "b")
    seen = []
    await maintain(progress=lambda name, counts: seen.append((name, counts.done)))
    assert list(dict.fromkeys(seen)) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


async def test_a_cancelled_run_ends_at_once_and_keeps_no_lock(vault):
    await vault_of(vault, "a")
    await vault_of(vault, "b")
    with anyio.CancelScope() as scope:
        await maintain(progress=lambda name, counts: counts.done and scope.cancel())
    assert scope.cancelled_caught
    assert corpus_names() == ["a"]
    assert actions(await maintain()) == {"a": "built", "b": "built"}


async def test_a_preset_is_built_by_its_name_and_is_registered_then(tmp_path, monkeypatch):
    docs = tmp_path / "projects" / "group" / "project" / "docs"
    docs.mkdir(parents=True)
    (docs / "plan.md").write_text("rotate the keys")
    monkeypatch.setenv("AIRW_PROJECTS", os.fspath(tmp_path / "projects"))
    assert actions(await maintain("reports", dry_run=True)) == {"reports": "due"}
    await register("reports", "reports", embedder="light")
    assert actions(await maintain()) == {"reports": "built"}

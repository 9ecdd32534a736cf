"""Maintenance: building again what is due, one corpus after another, one run at a time."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from airw._base.checks import check_choice
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.json import json_clean
from airw.corpora.ingestion.drafts import OnError
from airw.corpora.ingestion.pipeline import BuildProgress
from airw.corpora.ingestion.report import BuildReport
from airw.corpora.opening import Corpus
from airw.corpora.registry.building import build_corpus
from airw.corpora.registry.definitions import Definition
from airw.corpora.registry.file import find, list_corpora, made_home
from airw.corpora.registry.schedules import Action, Decision
from airw.corpora.searching import reading
from airw.errors import AirwError, CorpusNotFound

__all__ = ["Maintained", "MaintenanceReport", "maintain"]

Progress = Callable[[str, BuildProgress], None]
_ASKED = Decision("due", "asked for by name")


@dataclass(frozen=True, slots=True)
class Maintained:
    """What maintenance did about one corpus.

    Args:
        name: The corpus.
        action: `"built"`; `"failed"`; in a dry run `"due"`; or what kept it from being built: `"not-due"`,
            `"deferred"` to its window, `"manual"`.
        reason: Why, in one line; the error's text where it failed.
        report: What the build did; `None` where there was none.
        seconds: How long it took.
        error: What went wrong; `None` where nothing did.
    """

    name: str
    action: Action
    reason: str
    report: BuildReport | None = None
    seconds: float = 0.0
    error: Exception | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as JSON; of the error, its type."""
        return {
            "name": self.name,
            "action": self.action,
            "reason": self.reason,
            "report": None if self.report is None else json_clean(asdict(self.report)),
            "seconds": self.seconds,
            "error": None if self.error is None else type(self.error).__name__,
        }


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What one run of `maintain` did.

    Args:
        corpora: What was done about each, in order of name.
        dry_run: Whether it only said what was due.

    Example:
        >>> report = MaintenanceReport((Maintained("vault", "manual", "built only when asked for by name"),))
        >>> report.ok, report.failed
        (True, ())
    """

    corpora: tuple[Maintained, ...]
    dry_run: bool = False

    @property
    def failed(self) -> tuple[Maintained, ...]:
        """Give those that failed."""
        return tuple(each for each in self.corpora if each.action == "failed")

    @property
    def ok(self) -> bool:
        """Say whether none failed."""
        return not self.failed

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as JSON."""
        return {"ok": self.ok, "dry_run": self.dry_run, "corpora": [each.to_dict() for each in self.corpora]}


async def maintain(
    name: str | None = None,
    *,
    dry_run: bool = False,
    on_error: OnError = "skip",
    progress: Progress | None = None,
    now: datetime | None = None,
) -> MaintenanceReport:
    """Build again the corpora that are due, one after the other in order of name; on asyncio only.

    A corpus that fails is reported, and the others are built all the same. One run at a time: the lock is free as soon
    as the process that held it has ended, in whatever way. When a corpus was last maintained is kept in its settings,
    as `maintained`: the moment its build began, in UTC.

    Args:
        name: Build this one, whatever its schedule says, and raise what goes wrong; it may be a preset. Left out, all
            that are registered and due.
        dry_run: Say what is due; build, make and lock nothing.
        on_error: What `build` does about an item that cannot be indexed: leave it out and report it, or fail.
        progress: Called with the corpus's name and the counts so far after each page.
        now: The time it is, local unless it says otherwise; unless given, the clock's, read again for each corpus.

    Raises:
        ArgumentError: A parameter's value cannot be used.
        CorpusNotFound: `name` is neither registered nor a preset.
        StoreBusy: Another maintenance is running.
        StoreCorrupt: The registry is damaged.
        AirwError: The corpus that was named could not be built.

    Example:
        >>> import anyio, tempfile
        >>> from pathlib import Path
        >>> from airw.corpora.registry.file import register, unregister
        >>> async def main(folder):
        ...     Path(folder, "a.md").write_text("rotate the signing keys")
        ...     await register("vault", "notes", root=folder, embedder="light")
        ...     report = await maintain()
        ...     await unregister("vault")
        ...     return [(each.name, each.action, each.report.added) for each in report.corpora]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, folder)
        [('vault', 'built', 1)]
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    found = list((await in_thread(list_corpora)).values()) if name is None else [await in_thread(find, name)]
    run = _Run(is_asked=name is not None, dry_run=dry_run, on_error=on_error, progress=progress, now=now)
    if dry_run or not found:
        return await run.over(found)
    async with hold_file(await made_home() / "maintenance.lock", timeout=0, holder="maintenance"):
        return await run.over(found)


@dataclass(frozen=True, slots=True)
class _Run:
    """What `maintain` was asked for."""

    is_asked: bool
    dry_run: bool
    on_error: OnError
    progress: Progress | None
    now: datetime | None

    async def over(self, definitions: list[Definition]) -> MaintenanceReport:
        return MaintenanceReport(tuple([await self._isolated(each) for each in definitions]), self.dry_run)

    async def _isolated(self, definition: Definition) -> Maintained:
        """Maintain one corpus; what goes wrong is part of the report, unless it was asked for by name."""
        start = time.perf_counter()
        try:
            return await self._maintained(definition, start)
        except Exception as error:
            if self.is_asked:
                raise
            reason = str(error) if isinstance(error, AirwError) else f"{type(error).__name__}: {error}"
            seconds = time.perf_counter() - start
            return Maintained(definition.name, "failed", " ".join(reason.split()), seconds=seconds, error=error)

    async def _maintained(self, definition: Definition, start: float) -> Maintained:
        now = (self.now or datetime.now(UTC)).astimezone(UTC)
        decision = _ASKED if self.is_asked else definition.schedule.decide(await _last(definition), now)
        if decision.action != "due" or self.dry_run:
            return Maintained(definition.name, decision.action, decision.reason, seconds=time.perf_counter() - start)
        report = await self._build(definition.name, now)
        return Maintained(definition.name, "built", decision.reason, report, time.perf_counter() - start)

    async def _build(self, name: str, now: datetime) -> BuildReport | None:
        progress = None if self.progress is None else partial(self.progress, name)
        async with build_corpus(name, on_error=self.on_error, progress=progress) as corpus:
            await _note(corpus, now)
            return corpus.report


async def _last(definition: Definition) -> datetime | None:
    """Give when a corpus was last maintained, where its schedule asks for it and it was."""
    if definition.schedule.every_hours is None:
        return None
    try:
        async with reading(definition.name) as (_, store):
            kept = (await store.config()).get("maintained")
    except CorpusNotFound:
        return None
    return None if kept is None else datetime.fromisoformat(kept)


async def _note(corpus: Corpus, now: datetime) -> None:
    async with corpus.store.writing():
        config = await corpus.store.config()
        await corpus.store.set_config({**config, "maintained": now.isoformat(timespec="seconds")})

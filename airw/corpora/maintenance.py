"""Whether corpora are up to date with their sources, and building again those that are due."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from airw._base.checks import check_choice, name_missing_method
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.json import json_clean
from airw._base.messages import one_line, short_repr
from airw.corpora.definitions import Action, Decision, Definition
from airw.corpora.opening import Corpus, CorpusLike, use_store
from airw.corpora.pipeline import BuildProgress, BuildReport, SourcePages, with_survey
from airw.corpora.recipes import BuildRecipe, OnError, check_id
from airw.corpora.registry import build_corpus, find_definition, list_corpora, made_home
from airw.errors import AirwError, ArgumentError, CorpusNotFound, SourceError
from airw.protocols import RecordReader, Source
from airw.values import Artifact, ItemProblem, LedgerEntry

Progress = Callable[[str, BuildProgress], None]
_ASKED = Decision("due", "asked for by name")


@dataclass(frozen=True, slots=True)
class MaintenanceOutcome:
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
        >>> report = MaintenanceReport((MaintenanceOutcome("vault", "manual", "built only when asked for by name"),))
        >>> report.ok, report.failed
        (True, ())
    """

    corpora: tuple[MaintenanceOutcome, ...]
    dry_run: bool = False

    @property
    def failed(self) -> tuple[MaintenanceOutcome, ...]:
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
        >>> from airw.corpora.registry import register, unregister
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
    found = list((await in_thread(list_corpora)).values()) if name is None else [await in_thread(find_definition, name)]
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

    async def _isolated(self, definition: Definition) -> MaintenanceOutcome:
        """Maintain one corpus; what goes wrong is part of the report, unless it was asked for by name."""
        start = time.perf_counter()
        try:
            return await self._maintained(definition, start)
        except Exception as error:
            if self.is_asked:
                raise
            reason = str(error) if isinstance(error, AirwError) else f"{type(error).__name__}: {error}"
            seconds = time.perf_counter() - start
            return MaintenanceOutcome(
                definition.name, "failed", one_line(reason, longest=1_000), seconds=seconds, error=error
            )

    async def _maintained(self, definition: Definition, start: float) -> MaintenanceOutcome:
        now = (self.now or datetime.now(UTC)).astimezone(UTC)
        decision = _ASKED if self.is_asked else definition.schedule.decide(await _last(definition), now)
        if decision.action != "due" or self.dry_run:
            return MaintenanceOutcome(
                definition.name, decision.action, decision.reason, seconds=time.perf_counter() - start
            )
        report = await self._build(definition.name, now)
        return MaintenanceOutcome(definition.name, "built", decision.reason, report, time.perf_counter() - start)

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
        async with use_store(definition.name) as (_, store):
            kept = (await store.config()).get("maintained")
    except CorpusNotFound:
        return None
    return None if kept is None else datetime.fromisoformat(kept)


async def _note(corpus: Corpus, now: datetime) -> None:
    async with corpus.store.writing():
        config = await corpus.store.config()
        await corpus.store.set_config({**config, "maintained": now.isoformat(timespec="seconds")})


_PAGE = 256


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a source has beside what a corpus holds of it; ids are sorted.

    Args:
        name: The source.
        expected: The ids that the source gives.
        indexed: Those of them that the corpus holds.
        missing: Those that it does not hold.
        outdated: Those that it holds as they were, or as another strategy or extractor made them.
        gone: The ids that it holds from this source, which no longer has them.
        problems: What the source could not give, in its order.
        excluded: What lies beside the artifacts and is left out on purpose, by reason.

    Example:
        >>> Coverage("vault", expected=("a", "b"), indexed=("a",), missing=("b",)).ratio
        0.5
    """

    name: str
    expected: tuple[str, ...] = ()
    indexed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    problems: tuple[ItemProblem, ...] = ()
    excluded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Give which part of the expected is indexed; 1.0 where nothing is expected."""
        return len(self.indexed) / len(self.expected) if self.expected else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as JSON; of the expected and the indexed, how many there are."""
        return {
            "name": self.name,
            "expected": len(self.expected),
            "indexed": len(self.indexed),
            "ratio": self.ratio,
            "missing": list(self.missing),
            "outdated": list(self.outdated),
            "gone": list(self.gone),
            "problems": [{"item": each.item, "reason": each.reason, "lost": each.lost} for each in self.problems],
            "excluded": json_clean(self.excluded),
        }


async def coverage(name_or_source: str | Source, *, corpus: CorpusLike[RecordReader] | None = None) -> Coverage:
    """Say what of a source is indexed and what is not; nothing is embedded, and nothing is written.

    The source is read as a build reads it. What a build would index again counts as outdated, except that embedders are
    not compared: that could mean loading one.

    Args:
        name_or_source: The name of a registered corpus or of a preset; or a source.
        corpus: An open corpus, or the name or path of one; unless given, the one of that name or of the source's. One
            that is not built yet holds nothing.

    Raises:
        ArgumentError: It is neither a name nor a source.
        CorpusNotFound: The name is neither registered nor a preset, or there is no such `corpus`.
        SourceError: The source is missing or cannot be read.
        StoreError: The corpus cannot be read.

    Example:
        >>> import anyio
        >>> from airw.corpora.building import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "one", "b": "two"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         texts = {"a": "one!", "c": "three"}
        ...         found = await coverage(from_mapping(texts, name="notes"), corpus=corpus)
        ...     return found.missing, found.outdated, found.gone, found.ratio
        >>> anyio.run(main)
        (('c',), ('a',), ('b',), 0.5)
    """
    source = await in_thread(_source, name_or_source)
    config, entries = await _held(corpus, source.name)
    recipe = BuildRecipe.of(source, config.get("embedder_id", ""), source.edge_extractor, "skip")
    recipe = await with_survey(recipe, source, _PAGE)
    versions, problems = await _given(source, recipe)
    excluded = getattr(source, "excluded", None)
    left_out = {} if excluded is None else await in_thread(excluded)
    return await in_thread(_compared, recipe, versions, entries, problems, left_out)


def _source(given: str | Source) -> Source:
    if isinstance(given, str):
        return find_definition(given).source()
    if isinstance(given, type) or not hasattr(given, "items") or not hasattr(given, "change_signal"):
        raise ArgumentError(f"coverage takes the name of a registered corpus or a source, not {short_repr(given)}")
    return given


async def _held(corpus: CorpusLike[RecordReader] | None, name: str) -> tuple[dict[str, Any], list[LedgerEntry]]:
    """Give the settings of a corpus and what it holds; nothing of one that is not built yet."""
    try:
        async with use_store(name if corpus is None else corpus) as (_, store):
            with name_missing_method("coverage", store):
                return await store.config(), [entry for entry in await store.ledger() if entry is not None]
    except CorpusNotFound:
        if corpus is not None:
            raise
        return {}, []


async def _given(source: Source, recipe: BuildRecipe) -> tuple[dict[str, str], list[ItemProblem]]:
    """Read the source: the version of each artifact by its id, and what it could not give."""
    versions: dict[str, str] = {}
    problems: list[ItemProblem] = []
    async with aclosing(SourcePages(source, _PAGE)) as pages:
        while page := await pages.next():
            await in_thread(_sort, page, recipe, versions, problems)
    return versions, problems


def _sort(
    page: Iterable[Artifact | ItemProblem], recipe: BuildRecipe, versions: dict[str, str], problems: list[ItemProblem]
) -> None:
    for item in page:
        if isinstance(item, ItemProblem):
            problems.append(item)
            continue
        version = recipe.attempt(_version, item, recipe, versions)
        if isinstance(version, ItemProblem):
            problems.append(version)
        else:
            versions[item.id] = version


def _version(artifact: Artifact, recipe: BuildRecipe, versions: Mapping[str, str]) -> str:
    if check_id(artifact) in versions:
        raise SourceError("the source yields this id twice; ids must differ")
    return recipe.source.change_signal(artifact)


def _compared(
    recipe: BuildRecipe,
    versions: Mapping[str, str],
    entries: Iterable[LedgerEntry],
    problems: Iterable[ItemProblem],
    excluded: Mapping[str, Iterable[str]],
) -> Coverage:
    stored = {entry.artifact_id: entry for entry in entries if recipe.owns(entry)}
    expected = sorted(versions)
    indexed = [each for each in expected if each in stored]
    # What could not be read, or lies below a folder that could not, is not gone: a build keeps it.
    lost = {problem.item for problem in problems if problem.lost}
    unseen = [each for each in sorted(stored) if each not in versions and each not in lost]
    return Coverage(
        recipe.source.name,
        expected=tuple(expected),
        indexed=tuple(indexed),
        missing=tuple(each for each in expected if each not in stored),
        outdated=tuple(each for each in indexed if not recipe.is_current(stored[each], versions[each])),
        gone=tuple(each for each in unseen if lost.isdisjoint(map(str, PurePosixPath(each).parents))),
        problems=tuple(problems),
        excluded={reason: tuple(sorted(excluded[reason])) for reason in sorted(excluded)},
    )

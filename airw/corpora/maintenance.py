"""Maintenance: building the corpora that are due, and comparing a corpus with its source."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from airw._base.checks import check_choice
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.json import fields_to_json, json_clean
from airw._base.messages import one_line, short_repr
from airw.corpora.definitions import Action, Decision, Definition
from airw.corpora.opening import Corpus, CorpusLike, use_store
from airw.corpora.pipeline import BuildReport, with_survey
from airw.corpora.progress import BuildProgress
from airw.corpora.recipes import BuildRecipe, OnError, check_id, keep_extractor, keep_strategy
from airw.corpora.registry import build_corpus, ensure_home, find_definition, list_corpora
from airw.corpora.source_pages import SourcePages
from airw.errors import AirwError, ArgumentError, CorpusNotFound, SourceError
from airw.protocols import Change, Config, Ledger, Source, ask, ask_all, check_capabilities
from airw.values import Artifact, ItemProblem, LedgerEntry

Progress = Callable[[str, BuildProgress], None]
_REQUESTED = Decision("due", "requested by name")


@dataclass(frozen=True, slots=True)
class MaintenanceOutcome:
    """The result of maintenance for one corpus.

    Args:
        name: The name of the corpus.
        action: `"built"` or `"failed"`; in a dry run `"due"`. If it was not built, the cause: `"not-due"`,
            `"deferred"` to its window, or `"manual"`.
        reason: The reason in one line; if the build failed, the text of the error.
        report: The report of the build; `None` if there was none.
        seconds: The time that it took.
        error: The error of the build; `None` if there was none.
    """

    name: str
    action: Action
    reason: str
    report: BuildReport | None = None
    seconds: float = 0.0
    error: Exception | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON; the error by its type."""
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
    """The result of one run of `maintain`.

    Args:
        corpora: The outcome of each corpus, in order of name.
        dry_run: Whether the run only listed the corpora that are due.

    Example:
        >>> report = MaintenanceReport((MaintenanceOutcome("vault", "manual", "built only when requested by name"),))
        >>> report.ok, report.failed
        (True, ())
    """

    corpora: tuple[MaintenanceOutcome, ...]
    dry_run: bool = False

    @property
    def failed(self) -> tuple[MaintenanceOutcome, ...]:
        """Return the outcomes of the corpora that failed."""
        return tuple(outcome for outcome in self.corpora if outcome.action == "failed")

    @property
    def ok(self) -> bool:
        """Return whether no corpus failed."""
        return not self.failed

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return fields_to_json(self, "ok", "dry_run", "corpora")


async def maintain(
    name: str | None = None,
    *,
    dry_run: bool = False,
    on_error: OnError = "skip",
    progress: Progress | None = None,
    now: datetime | None = None,
) -> MaintenanceReport:
    """Build the registered corpora that are due, one after the other in order of name.

    If the build of a corpus fails, the failure is reported and the other corpora are still built. Only one maintenance
    runs at a time; its lock ends with its process, even if that is killed. The settings of a corpus record the start of
    its last maintenance build as `maintained`, in UTC. It runs on asyncio only.

    Args:
        name: Build only this corpus, whatever its schedule, and raise the error if it fails; a preset is allowed. By
            default all registered corpora that are due are built.
        dry_run: Only report which corpora are due; build, create and lock nothing.
        on_error: What to do with an item that cannot be indexed, as in `build`: skip and report it, or fail.
        progress: A function that is called with the corpus's name and the counts so far, as in `build`.
        now: The current time, in local time if it has no time zone. By default the clock is read for each corpus.

    Returns:
        The outcome of each corpus.

    Raises:
        ArgumentError: If a value cannot be used.
        CorpusNotFound: If `name` is neither registered nor a preset.
        StoreBusy: If another maintenance is running.
        StoreCorrupt: If the registry is damaged.
        AirwError: If the corpus `name` cannot be built.

    Example:
        >>> import anyio, tempfile
        >>> from pathlib import Path
        >>> from airw.corpora.registry import register, unregister
        >>> async def main(folder):
        ...     Path(folder, "a.md").write_text("rotate the signing keys")
        ...     await register("vault", "notes", root=folder, embedder="light")
        ...     report = await maintain()
        ...     await unregister("vault")
        ...     return [(outcome.name, outcome.action, outcome.report.added) for outcome in report.corpora]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, folder)
        [('vault', 'built', 1)]
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    if name is None:
        definitions = list((await in_thread(list_corpora)).values())
    else:
        definitions = [await in_thread(find_definition, name)]
    run = _MaintenanceRun(is_named=name is not None, dry_run=dry_run, on_error=on_error, progress=progress, now=now)
    # Nothing to build: create neither the home folder nor a lock file.
    if dry_run or not definitions:
        return await run.maintain_all(definitions)
    # Do not wait for another run: it builds the same corpora.
    async with hold_file(await ensure_home() / "maintenance.lock", timeout=0, holder="maintenance"):
        return await run.maintain_all(definitions)


@dataclass(frozen=True, slots=True)
class _MaintenanceRun:
    """A run of `maintain` with its options; `is_named` if the caller named a corpus."""

    is_named: bool
    dry_run: bool
    on_error: OnError
    progress: Progress | None
    now: datetime | None

    async def maintain_all(self, definitions: list[Definition]) -> MaintenanceReport:
        outcomes = [await self._try_corpus(definition) for definition in definitions]
        return MaintenanceReport(tuple(outcomes), self.dry_run)

    async def _try_corpus(self, definition: Definition) -> MaintenanceOutcome:
        """Maintain one corpus; an error becomes its outcome, unless the caller named the corpus."""
        start = time.perf_counter()
        try:
            return await self._maintain_corpus(definition, start)
        except Exception as error:
            if self.is_named:
                raise
            reason = str(error) if isinstance(error, AirwError) else f"{type(error).__name__}: {error}"
            seconds = time.perf_counter() - start
            return MaintenanceOutcome(
                definition.name, "failed", one_line(reason, longest=1_000), seconds=seconds, error=error
            )

    async def _maintain_corpus(self, definition: Definition, start: float) -> MaintenanceOutcome:
        # Read the clock for each corpus: the builds before it may have taken hours, and its window may be over.
        now = (self.now or datetime.now(UTC)).astimezone(UTC)
        decision = _REQUESTED if self.is_named else definition.schedule.decide(await _read_last_build(definition), now)
        if decision.action != "due" or self.dry_run:
            return MaintenanceOutcome(
                definition.name, decision.action, decision.reason, seconds=time.perf_counter() - start
            )
        report = await self._build(definition.name, now)
        return MaintenanceOutcome(definition.name, "built", decision.reason, report, time.perf_counter() - start)

    async def _build(self, name: str, now: datetime) -> BuildReport | None:
        progress = None if self.progress is None else partial(self.progress, name)
        async with build_corpus(name, on_error=self.on_error, progress=progress) as corpus:
            await _record_build(corpus, now)
            return corpus.report


async def _read_last_build(definition: Definition) -> datetime | None:
    """Return the time at which a corpus was last maintained, or `None`."""
    # Only schedules with an interval need it; do not open the files of other corpora.
    if definition.schedule.every_hours is None:
        return None
    try:
        async with use_store(definition.name) as (_, store):
            maintained = (await ask(store, Config())).get("maintained")
    except CorpusNotFound:
        return None
    return None if maintained is None else datetime.fromisoformat(maintained)


async def _record_build(corpus: Corpus, now: datetime) -> None:
    async with corpus.store.writing():
        config = await ask(corpus.store, Config())
        await corpus.store.apply(Change(config={**config, "maintained": now.isoformat(timespec="seconds")}))


_PAGE = 256


@dataclass(frozen=True, slots=True)
class Coverage:
    """A comparison of a source with a corpus; ids are sorted.

    Args:
        name: The name of the source.
        expected: The ids of all artifacts of the source.
        indexed: Those that are in the corpus.
        missing: Those that are not in the corpus.
        outdated: Those whose indexed version is old, or was made by another strategy or extractor.
        gone: The ids of artifacts in the corpus that came from this source, but that it no longer has.
        problems: The items that the source could not read, in its order.
        excluded: The items that the source leaves out on purpose, by reason.

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
        """Return the share of expected artifacts that are indexed; 1.0 if none are expected."""
        return len(self.indexed) / len(self.expected) if self.expected else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON; `expected` and `indexed` as numbers."""
        return {
            "name": self.name,
            "expected": len(self.expected),
            "indexed": len(self.indexed),
            "ratio": self.ratio,
            "missing": list(self.missing),
            "outdated": list(self.outdated),
            "gone": list(self.gone),
            "problems": [
                {"item": problem.item, "reason": problem.reason, "lost": problem.lost} for problem in self.problems
            ],
            "excluded": json_clean(self.excluded),
        }


async def coverage(name_or_source: str | Source, *, corpus: CorpusLike | None = None) -> Coverage:
    """Compare a source with its corpus; nothing is embedded and nothing is written.

    The source is read as in a build. An artifact that a build would index again counts as outdated. Embedders are not
    compared, because that may mean loading a model.

    Args:
        name_or_source: The name of a registered corpus or of a preset; or a source.
        corpus: An open corpus, or the name or path of one. The default is the corpus of that name, or of the source's
            name; if it is not built yet, it counts as empty.

    Returns:
        The ids that are indexed, missing, outdated and removed, and the problems.

    Raises:
        ArgumentError: If `name_or_source` is neither a name nor a source.
        CorpusNotFound: If the name is neither registered nor a preset, or there is no such `corpus`.
        SourceError: If the source is missing or cannot be read.
        StoreError: If the corpus cannot be read.

    Example:
        >>> import anyio
        >>> from airw.corpora.building import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "one", "b": "two"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         texts = {"a": "one!", "c": "three"}
        ...         result = await coverage(from_mapping(texts, name="notes"), corpus=corpus)
        ...     return result.missing, result.outdated, result.gone, result.ratio
        >>> anyio.run(main)
        (('c',), ('a',), ('b',), 0.5)
    """
    source = await in_thread(_to_source, name_or_source)
    config, entries = await _read_corpus(corpus, source.name)
    recipe = BuildRecipe.of(source, config.get("embedder_id", ""), source.edge_extractor, "skip")
    recipe = keep_strategy(await in_thread(keep_extractor, recipe, config), config)
    recipe = await with_survey(recipe, source, _PAGE)
    versions, problems = await _read_source(source, recipe)
    list_excluded = getattr(source, "excluded", None)
    excluded = {} if list_excluded is None else await in_thread(list_excluded)
    return await in_thread(_compare, recipe, versions, entries, problems, excluded)


def _to_source(name_or_source: str | Source) -> Source:
    if isinstance(name_or_source, str):
        return find_definition(name_or_source).source()
    is_source = hasattr(name_or_source, "items") and hasattr(name_or_source, "change_signal")
    if isinstance(name_or_source, type) or not is_source:
        raise ArgumentError(
            f"coverage takes the name of a registered corpus or a source, not {short_repr(name_or_source)}"
        )
    return name_or_source


async def _read_corpus(corpus: CorpusLike | None, name: str) -> tuple[dict[str, Any], list[LedgerEntry]]:
    """Return the settings and the ledger of a corpus, both empty if it is not built yet."""
    try:
        async with use_store(name if corpus is None else corpus) as (_, store):
            check_capabilities("coverage", store, "settings", "ledger")
            config, entries = await ask_all(store, Config(), Ledger())
            return config, [entry for entry in entries if entry is not None]
    except CorpusNotFound:
        if corpus is not None:
            raise
        return {}, []


async def _read_source(source: Source, recipe: BuildRecipe) -> tuple[dict[str, str], list[ItemProblem]]:
    """Read a source and return the versions of its artifacts by id, and its problems."""
    versions: dict[str, str] = {}
    problems: list[ItemProblem] = []
    async with aclosing(SourcePages(source, _PAGE)) as pages:
        while page := await pages.next():
            await in_thread(_read_versions, page, recipe, versions, problems)
    return versions, problems


def _read_versions(
    page: Iterable[Artifact | ItemProblem], recipe: BuildRecipe, versions: dict[str, str], problems: list[ItemProblem]
) -> None:
    """Add the versions and the problems of a page to `versions` and `problems`."""
    for item in page:
        if isinstance(item, ItemProblem):
            problems.append(item)
            continue
        version = recipe.attempt(_read_version, item, recipe, versions)
        if isinstance(version, ItemProblem):
            problems.append(version)
        else:
            versions[item.id] = version


def _read_version(artifact: Artifact, recipe: BuildRecipe, versions: Mapping[str, str]) -> str:
    if check_id(artifact) in versions:
        raise SourceError("the source yields this id twice; ids must differ")
    return recipe.source.change_signal(artifact)


def _compare(
    recipe: BuildRecipe,
    versions: Mapping[str, str],
    entries: Iterable[LedgerEntry],
    problems: Iterable[ItemProblem],
    excluded: Mapping[str, Iterable[str]],
) -> Coverage:
    stored = {entry.artifact_id: entry for entry in entries if recipe.owns(entry)}
    expected = sorted(versions)
    indexed = [artifact_id for artifact_id in expected if artifact_id in stored]
    # An artifact that cannot be read now, or lies below a folder that cannot be read, still exists: a build keeps it.
    lost = {problem.item for problem in problems if problem.lost}
    unseen = [artifact_id for artifact_id in sorted(stored) if artifact_id not in versions and artifact_id not in lost]
    removed_ids = [
        artifact_id for artifact_id in unseen if lost.isdisjoint(map(str, PurePosixPath(artifact_id).parents))
    ]
    return Coverage(
        recipe.source.name,
        expected=tuple(expected),
        indexed=tuple(indexed),
        missing=tuple(name for name in expected if name not in stored),
        outdated=tuple(name for name in indexed if not recipe.is_current(stored[name], versions[name])),
        gone=tuple(removed_ids),
        problems=tuple(problems),
        excluded={reason: tuple(sorted(excluded[reason])) for reason in sorted(excluded)},
    )

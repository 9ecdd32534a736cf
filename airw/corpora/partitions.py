"""Ingesting in partitions: a plan that travels, parts that any process may write, and an end that checks them all.

```text
prepare_ingest ──plan──> ingest_partition(plan, 0, items)  ─┐
                   ├───> ingest_partition(plan, 1, items)  ─┼──> finish_ingest(plan, partitions=n)
                   └───> …  in any process, any order      ─┘
```
"""

import os
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import anyio.lowlevel

from airw._base.checks import check_count
from airw._base.concurrency import in_thread
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.corpora.building import BuildOptions, BuildRequest, built_corpus, find_outdated, find_pruning, make_config
from airw.corpora.opening import Corpus, Opening
from airw.corpora.pipeline import Builder, BuildReport, Page, SourcePages
from airw.corpora.recipes import BuildRecipe, OnError
from airw.embedders import check_embedder, resolve_embedder
from airw.errors import ArgumentError, ArgumentKindError, EmbedderMismatch, PartitionsMissing, SourceError
from airw.protocols import (
    ChangeFinder,
    CorpusWideExtractor,
    EdgeExtractor,
    Embedder,
    EmbedderLike,
    IngestRun,
    RunKeeper,
    RunRows,
    Source,
    Store,
)
from airw.sources import CorpusSource
from airw.stores import SqliteStore
from airw.values import Artifact, ArtifactChange, ItemProblem

Items: TypeAlias = Mapping[str, Any] | Iterable[Artifact | ItemProblem]

_PATIENCE = 300.0  # seconds that a partition, embedded already, waits for builders and for others to be written
_NAMED = 10  # partitions or ids named in an error


class RunStore(Store, RunKeeper, Protocol):
    """A store that keeps the rows of runs."""


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What every partition of an ingest has to know; made by `prepare_ingest`, and pickled to wherever that is.

    Args:
        run: Tells this ingest from all others.
        store: The corpus's file; or an open store, which only serves the process it is in.
        source: How the artifacts are indexed; it holds none.
        embedder: The specification of the embedder, or the embedder that was given.
        on_error: What becomes of an item that cannot be indexed, as in `build`.
        began: When the ingest was prepared, in seconds since 1970.
    """

    run: IngestRun
    store: Path | Store
    source: CorpusSource
    embedder: str | Embedder
    on_error: OnError
    began: float


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What became of one partition.

    Args:
        number: Which one.
        added: Artifacts that were not in the corpus before.
        updated: Artifacts written again, because they or the way to index them changed.
        unchanged: Artifacts that needed nothing.
        problems: What could not be indexed, or not whole, in the order of the items.
    """

    number: int
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    problems: tuple[ItemProblem, ...] = ()


async def prepare_ingest(
    source: Source,
    *,
    store: Store | str | os.PathLike[str] | None = None,
    embedder: EmbedderLike | None = None,
    edge_extractor: EdgeExtractor | None = None,
    on_error: OnError = "raise",
) -> IngestPlan:
    """Begin an ingest in partitions: what many workers do then equals one `build` of all their items.

    Any engine can drive it, Dask or a pool of processes: it sends the plan and some items each to `ingest_partition`,
    repeats what failed, and ends with `finish_ingest`. The source says how to index; what it holds is not read.

    Another ingest of this source that is under way ends here, and its workers are refused from now on. What another
    embedder made is removed at once, under the rules of `build` with `full=True`.

    Args:
        source: How the artifacts are indexed, such as `from_mapping({}, name="notes")`. For the plan to be pickled, so
            must be its strategy, its extractor and its functions: those of a module, for example, and no lambda.
        store: The name or path of a corpus, which all workers must reach: a file on the machine they run on. An open
            store serves workers that are tasks of this process.
        embedder: A specification, from which each process makes the embedder once; or an embedder, which is pickled
            with the plan. The source's when left out.
        edge_extractor: What finds links; the source's when left out. One that has to know all artifacts is given as
            what it becomes then: `TitleMentions().over(artifacts)`.
        on_error: `"raise"`: an item that cannot be indexed ends its partition, and an id that two partitions give the
            ingest. `"skip"`: it is reported; of such an id, the partition with the lower number has it.

    Raises:
        ArgumentError: A parameter's value cannot be used, or the source's name cannot name a corpus.
        EmbedderError: The embedder failed, or the corpus also holds what another embedder made (`EmbedderMismatch`).
        StoreError: The store failed, or a builder held it for too long (`StoreBusy`).

    Example:
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     plan = await prepare_ingest(from_mapping({}, name="notes"), store=MemoryStore(), embedder="light")
        ...     for number, items in enumerate([{"a": "one", "b": "two"}, {"c": "three"}]):
        ...         await ingest_partition(plan, number, items)
        ...     async with finish_ingest(plan, partitions=2) as corpus:
        ...         return corpus.report.added, await corpus.store.artifact_ids()
        >>> anyio.run(main)
        (3, ['a', 'b', 'c'])
    """
    options: BuildOptions = {
        "store": store,
        "embedder": embedder,
        "edge_extractor": edge_extractor,
        "on_error": on_error,
    }
    request = BuildRequest.from_options("prepare_ingest", source, options)
    if isinstance(request.extractor, CorpusWideExtractor):
        named = type(request.extractor).__name__
        raise ArgumentError(
            f"{named} has to see all artifacts first, which no partition does: pass what {named}.over(artifacts) gives"
        )
    began = time.time()
    made, recipe = await in_thread(request.resolve)
    async with AsyncExitStack() as opened, request.hold_store(opened, anyio.lowlevel.checkpoint) as given:
        run, config = await _begin(request, recipe, _run_store(given), made)
    spec = config["embedder"] if isinstance(request.spec, str | os.PathLike) else request.spec
    where = request.place.absolute() if isinstance(request.place, Path) else request.place  # whatever a worker's folder
    return IngestPlan(run, where, _emptied(source, request.extractor), spec, on_error, began)


async def _begin(
    request: BuildRequest, recipe: BuildRecipe, store: RunStore, embedder: Embedder
) -> tuple[IngestRun, dict[str, Any]]:
    """Open the run, then write the settings: at every moment they fit the vectors."""
    config = await make_config(request, recipe, store, embedder)
    outdated = sorted(await find_outdated(request, recipe, store, config))
    needed = {name: config[name] for name in ("embedder_id", "dim")}
    run = IngestRun(request.source.name.casefold(), os.urandom(16).hex(), needed)
    await store.begin_run(run, {"outdated": outdated}, removals=outdated)
    if await store.config() != config:
        await store.set_config(config)
    return run, config


def _emptied(source: Source, extractor: EdgeExtractor | None) -> CorpusSource:
    """Give a source that says how to index as this one does, and holds nothing."""
    if isinstance(source, CorpusSource):
        return replace(source, scope={}, edge_extractor=extractor, excluded=None)
    return CorpusSource(
        source.name,
        {},
        indexing_strategy=source.indexing_strategy,
        change_signal=source.change_signal,
        embedder=source.embedder,
        edge_extractor=extractor,
    )


async def ingest_partition(plan: IngestPlan, number: int, items: Items) -> PartitionReport:
    """Index the items of one partition and write them in one transaction, once, however often this is called.

    Partitions may come in any order and at once, from any process; one that was killed leaves nothing behind, and one
    that is written already gives its report again. What did not change since the last ingest is not embedded again.
    Workers decompose and embed side by side; only the write waits for others, a `build` included. The items of a
    partition and their vectors are in memory together: 500 to 5,000 documents are a good size, as writing them then
    keeps others waiting for a second at most.

    Args:
        plan: What `prepare_ingest` gave.
        number: Which partition it is, from 0; the same one always has the same items.
        items: A mapping of id to raw value, or artifacts and problems as a source gives them.

    Raises:
        ArgumentError: The number or the items cannot be used.
        SourceError: An item cannot be indexed, or the ingest has ended: it was finished, or another one was prepared.
        EmbedderError: The embedder failed, or is not the one of the plan, or the corpus has another one by now
            (`EmbedderMismatch`).
        StoreError: The store failed, or builders held it for five minutes (`StoreBusy`).

    Example:
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     plan = await prepare_ingest(from_mapping({}, name="notes"), store=MemoryStore(), embedder="light")
        ...     first = await ingest_partition(plan, 0, {"a": "one", "b": "two"})
        ...     return first, first == await ingest_partition(plan, 0, {"a": "one", "b": "two"})
        >>> anyio.run(main)
        (PartitionReport(number=0, added=2, updated=0, unchanged=0, problems=()), True)
    """
    check_count("number", number, least=0)
    source = _filled(plan.source, items)
    async with AsyncExitStack() as opened:
        store = await _open_store(plan, opened)
        rows = await _rows(plan, store, [number])
        if number in rows.parts:
            return report_of(number, rows.parts[number])
        embedder, recipe = await in_thread(_resolve, plan)
        builder = Builder(recipe, store, embedder, plan.run.settings, frozenset(rows.row["outdated"]), None)
        async with aclosing(SourcePages(source, sys.maxsize)) as pages:
            page, changes = await builder.prepare(await pages.next())
        row = await _applied(plan, store, number, row_of(page, changes, builder.held), changes)
    return report_of(number, row)


def _filled(source: CorpusSource, items: object) -> CorpusSource:
    """Give a source of these items."""
    if isinstance(items, Mapping):
        return replace(source, scope=items)
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise ArgumentKindError(f"a partition is {{id: raw value}} or artifacts, not {short_repr(items)}")
    given = items

    def pages() -> Generator[Sequence[Artifact | ItemProblem], None, None]:
        yield list(given)

    return replace(source, scope=pages)


async def _applied(
    plan: IngestPlan, store: RunStore, number: int, row: Mapping[str, Any], changes: Sequence[ArtifactChange]
) -> Mapping[str, Any]:
    """Write a partition, unless another worker has; give the row that is stored."""
    async with store.writing(timeout=_PATIENCE):  # no build may change the embedder between check and write
        stored = await store.apply_part(plan.run, number, row, changes)
    if stored is None:
        await _rows(plan, store, [])
        raise _mismatch(plan)
    return stored


async def _open_store(plan: IngestPlan, opened: AsyncExitStack) -> RunStore:
    """Give the store of an ingest, opened for as long as `opened` is; one that was given stays its owner's."""
    if isinstance(plan.store, Path):
        return await opened.enter_async_context(await SqliteStore.open(plan.store))
    return _run_store(plan.store)


def _run_store(store: Store) -> RunStore:
    """Give the store, when it can keep the rows of an ingest."""
    if not isinstance(store, RunKeeper):
        raise ArgumentError(
            f"an ingest in partitions needs a store that keeps runs, as SqliteStore does; not {store!r}"
        )
    return cast("RunStore", store)


async def _rows(plan: IngestPlan, store: RunStore, parts: Sequence[int] | None = None) -> RunRows:
    """Return the row of an ingest, which must still be under way, and those of its partitions."""
    rows = await store.read_run(plan.run, parts)
    if rows is None:
        raise SourceError(
            f"this ingest of source {plan.source.name!r} has ended: it was finished, or another one was prepared; "
            "prepare_ingest begins a new one"
        )
    if not plan.run.fits(await store.config()):
        raise _mismatch(plan)
    return rows


def _mismatch(plan: IngestPlan) -> EmbedderMismatch:
    """Make the error that says so."""
    return EmbedderMismatch(
        f"the corpus is no longer one of embedder {plan.run.settings['embedder_id']!r}, for which this ingest of "
        f"source {plan.source.name!r} was prepared; prepare_ingest begins a new one"
    )


def _resolve(plan: IngestPlan) -> tuple[Embedder, BuildRecipe]:
    """Give the embedder, checked to be that of the plan, and what it makes of an artifact."""
    embedder = _made(plan.embedder) if isinstance(plan.embedder, str) else plan.embedder
    settings = plan.run.settings
    check_embedder(embedder, settings["embedder_id"], settings["dim"], plan.source.name)
    return embedder, BuildRecipe.of(plan.source, settings["embedder_id"], plan.source.edge_extractor, plan.on_error)


@lru_cache(maxsize=4)
def _made(spec: str) -> Embedder:
    """Make an embedder once in each process: its model may take seconds to load."""
    return resolve_embedder(spec)


def row_of(page: Page, changes: Iterable[ArtifactChange], held: Iterable[str]) -> dict[str, Any]:
    """Say what a partition adds, updates and finds unchanged, with versions; what else it keeps; and its problems."""
    puts = {change.entry.artifact_id: change.entry.version for change in changes}
    return {
        "added": {name: version for name, version in puts.items() if name not in page.known},
        "updated": {name: version for name, version in puts.items() if name in page.known},
        "unchanged": page.unchanged,
        "kept": sorted(name for name in held if name not in puts and name not in page.unchanged),
        "problems": [json_clean([each.item, each.reason, each.lost]) for each in page.problems],
    }


def report_of(number: int, row: Mapping[str, Any]) -> PartitionReport:
    """Give the report of the partition whose row this is."""
    counts = {verdict: len(row[verdict]) for verdict in ("added", "updated", "unchanged")}
    return PartitionReport(number, **counts, problems=tuple(_problems(row)))


@dataclass(slots=True)
class PartitionTotals:
    """What all partitions hold together; of an id that several give, the partition with the lowest number has it."""

    version_of: dict[str, str] = field(default_factory=dict)
    number_of: dict[str, int] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    problems: list[ItemProblem] = field(default_factory=list)
    doubles: list[ItemProblem] = field(default_factory=list)
    verdicts: dict[str, set[str]] = field(
        default_factory=lambda: {"added": set(), "updated": set(), "unchanged": set()}
    )

    @classmethod
    def of(cls, rows: Mapping[int, Mapping[str, Any]]) -> "PartitionTotals":
        """Read the rows, which come in the order of their numbers."""
        totals = cls()
        for number, row in rows.items():
            totals._add(number, row)
        return totals

    def _add(self, number: int, row: Mapping[str, Any]) -> None:
        self.problems.extend(_problems(row))
        self.kept.update(row["kept"])
        for verdict, names in self.verdicts.items():
            names.update(row[verdict])
        for name, version in chain.from_iterable(row[verdict].items() for verdict in self.verdicts):
            first = self.number_of.setdefault(name, number)
            self.version_of.setdefault(name, version)
            if first != number:
                problem = ItemProblem(name, f"is given by partition {number} as by partition {first}; ids must differ")
                self.doubles.append(problem)
                self.problems.append(problem)

    @property
    def held(self) -> set[str]:
        """Give all that must not be pruned."""
        return self.kept.union(self.number_of)

    @property
    def counts(self) -> dict[str, int]:
        """Count each artifact once: as added if any partition added it, else as updated if any updated it."""
        added, updated, unchanged = self.verdicts.values()
        return {
            "added": len(added),
            "updated": len(updated - added),
            "unchanged": len(unchanged - updated - added),
        }


def _problems(row: Mapping[str, Any]) -> Iterator[ItemProblem]:
    return (ItemProblem(item, reason, lost=lost) for item, reason, lost in row["problems"])


def finish_ingest(plan: IngestPlan, *, partitions: int, full: bool = True, force: bool = False) -> Opening[Corpus]:
    """End an ingest once all its partitions are written, and open the corpus; to be awaited or entered as `build` is.

    What the source no longer has is removed, by the rules of `build`. It is checked that the corpus still holds what
    the partitions wrote: where two gave the same id, or a builder wrote meanwhile, a partition may have to be ingested
    again, and is then missing.

    Args:
        plan: What `prepare_ingest` gave.
        partitions: How many there are: those from 0 to one less.
        full: Remove the artifacts that came from this source and are in none of the partitions.
        force: Let partitions without any artifact empty the corpus.

    Returns:
        The open corpus; `corpus.report` says what was done, as if by one build, in seconds since it was prepared.

    Raises:
        ArgumentError: More partitions than that were ingested.
        SourceError: Partitions are missing (`PartitionsMissing`, whose `partitions` are their numbers); two give the
            same id, and problems are errors; nothing of the source would be left; or the ingest has ended already.
        EmbedderMismatch: The corpus has another embedder by now.
        StoreError: The store failed, or a builder held it for too long (`StoreBusy`).

    Example:
        >>> from airw.errors import PartitionsMissing
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     plan = await prepare_ingest(from_mapping({}, name="notes"), store=MemoryStore(), embedder="light")
        ...     await ingest_partition(plan, 1, {"a": "one"})
        ...     try:
        ...         await finish_ingest(plan, partitions=3)
        ...     except PartitionsMissing as error:
        ...         return error.partitions
        >>> anyio.run(main)
        (0, 2)
    """
    check_count("partitions", partitions, least=0)
    return Opening(_finish(plan, partitions, full=full, force=force))


async def _finish(plan: IngestPlan, partitions: int, *, full: bool, force: bool) -> Corpus:
    embedder, recipe = await in_thread(_resolve, plan)
    async with AsyncExitStack() as opened:
        store = await _open_store(plan, opened)
        async with store.writing():
            rows = await _rows(plan, store)
            _check_numbers(plan, partitions, rows.parts)
            totals = await in_thread(PartitionTotals.of, rows.parts)
            for problem in totals.doubles:
                recipe.complain(problem)
            await _check_written(plan, store, recipe, totals)
            config, outdated = await store.config(), frozenset(rows.row["outdated"])
            builder = Builder(
                recipe, store, embedder, config, outdated, None, held=totals.held, problems=totals.problems
            )
            pruning = await find_pruning(builder, full=full, force=force)
            await store.forget_run(plan.run, removals=pruning.stored)
        opened.pop_all()
    seconds = max(0.0, time.time() - plan.began)
    report = BuildReport(**totals.counts, removed=pruning.count, problems=tuple(builder.problems), seconds=seconds)
    return built_corpus(builder, report, owns_store=isinstance(plan.store, Path))


def _check_numbers(plan: IngestPlan, partitions: int, rows: Mapping[int, object]) -> None:
    if beyond := [number for number in rows if number >= partitions]:
        raise ArgumentError(f"partitions={partitions}, but there also is partition {max(beyond)}; count them from 0")
    if missing := [number for number in range(partitions) if number not in rows]:
        raise PartitionsMissing(
            f"source {plan.source.name!r}: {_listed(missing)} of {partitions} partitions "
            f"{'is' if len(missing) == 1 else 'are'} missing; ingest them, then finish",
            missing,
        )


async def _check_written(plan: IngestPlan, store: RunStore, recipe: BuildRecipe, totals: PartitionTotals) -> None:
    """Make sure that all that was written is there; forget the partitions that have to be written again."""
    versions = totals.version_of
    unsure = await store.find_changed(versions, recipe.stamp()) if isinstance(store, ChangeFinder) else list(versions)
    entries = await store.ledger(unsure)
    lost = [
        name
        for name, entry in zip(unsure, entries, strict=True)
        if entry is None or not recipe.is_current(entry, versions[name])
    ]
    if lost:
        again = sorted({totals.number_of[name] for name in lost})
        await store.forget_run(plan.run, again)
        raise PartitionsMissing(
            f"source {plan.source.name!r}: {min(lost)!r} was written by others meanwhile; "
            f"ingest {_listed(again)} again, then finish",
            again,
        )


def _listed(numbers: Sequence[int]) -> str:
    more = len(numbers) - _NAMED
    return ", ".join(map(str, numbers[:_NAMED])) + (f" and {more} more" if more > 0 else "")

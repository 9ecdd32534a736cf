"""Ingesting a source in partitions, which any process may write, in any order.

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
from airw.corpora.building import (
    BuildOptions,
    BuildRequest,
    find_outdated,
    find_pruning,
    keep_settings,
    make_config,
    to_corpus,
)
from airw.corpora.floors import refresh_floors
from airw.corpora.opening import Corpus, Opening
from airw.corpora.pipeline import Builder, BuildReport, Page
from airw.corpora.places import CorpusAddress, open_store
from airw.corpora.problems import forget_problems, keep_problems
from airw.corpora.recipes import BuildRecipe, OnError
from airw.corpora.source_pages import SourcePages
from airw.embedders import check_embedder, resolve_embedder
from airw.errors import ArgumentError, ArgumentKindError, EmbedderMismatch, PartitionsMissing, SourceError
from airw.protocols import (
    Change,
    Config,
    CorpusWideExtractor,
    EdgeExtractor,
    Embedder,
    EmbedderLike,
    IngestRun,
    Ledger,
    RunKeeper,
    RunRows,
    Source,
    Stale,
    Store,
    ask,
)
from airw.sources import CorpusSource
from airw.stores import refuse_password
from airw.values import Artifact, ArtifactChange, ItemProblem

Items: TypeAlias = Mapping[str, Any] | Iterable[Artifact | ItemProblem]

# A partition waits this many seconds for other writers. That is long, because its embedding would be lost otherwise.
_WRITE_TIMEOUT = 300.0
_MAX_LISTED = 10  # partitions that an error message lists


class RunStore(Store, RunKeeper, Protocol):
    """A store that can keep ingest runs."""


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """The settings that every partition of an ingest needs; `prepare_ingest` returns one.

    A plan can be pickled and sent to workers.

    Args:
        run: The identity of this ingest.
        store: The path of the corpus file, or its address on a server; or an open store, which works only inside its
            own process.
        source: The source without its artifacts: how to index.
        embedder: The embedder or its specification.
        on_error: What to do with an item that cannot be indexed, as in `build`.
        began: The time at which the ingest was prepared, in seconds since 1970.
    """

    run: IngestRun
    store: Path | CorpusAddress | Store
    source: CorpusSource
    embedder: str | Embedder
    on_error: OnError
    began: float


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The result of one partition, in numbers of artifacts.

    Args:
        number: The number of the partition.
        added: Artifacts that were not in the corpus before.
        updated: Artifacts that were stored again, because they or the way to index them changed.
        unchanged: Artifacts that were up to date.
        problems: The items that could not be indexed, or only in part, in their order.
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
    """Start an ingest in partitions and return the plan for its workers.

    The result of all workers together equals one `build` of all their items. Any engine can drive an ingest, such as
    Dask or a pool of processes. It calls `ingest_partition` with the plan and the items of each partition, repeats
    failed calls, and ends with `finish_ingest`. The source only defines how to index; its items are not read.

    If another ingest of this source is running, it ends here, and calls of its workers fail from now on. Artifacts
    that another embedder made are removed at once, under the rules of `build` with `full=True`.

    Args:
        source: How the artifacts are indexed, such as `from_mapping({}, name="notes")`. If the plan is to be pickled,
            its strategy, extractor and functions must be picklable: functions of a module, for example, not lambdas.
        store: The address of a corpus on a server, for workers on any machine. Or the name or path of a corpus file,
            which must be on the machine that the workers run on. An open store works only for tasks of this process. A
            new corpus is in English; for another language, create it before, for example by building it from an empty
            source.
        embedder: A specification, from which each process makes the embedder once; or an embedder, which is pickled
            with the plan. The default is the source's.
        edge_extractor: The extractor of links; the default is the source's. An extractor that must see all artifacts
            first is passed in its prepared form, such as `TitleMentions().over(artifacts)`.
        on_error: `"raise"`: an item that cannot be indexed ends its partition; an id in two partitions ends the
            ingest. `"skip"`: both are reported, and the partition with the lower number keeps the id.

    Raises:
        ArgumentError: If a value cannot be used, the source's name cannot name a corpus, or the address of a server
            contains a password, which the plan would carry.
        EmbedderError: If the embedder fails, or the corpus also contains artifacts of another source that were made
            with another embedder (`EmbedderMismatch`).
        StoreError: If the store fails, or a builder keeps it locked for too long (`StoreBusy`).

    Example:
        >>> from airw.protocols import ArtifactIds, ask
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     plan = await prepare_ingest(from_mapping({}, name="notes"), store=MemoryStore(), embedder="light")
        ...     for number, items in enumerate([{"a": "one", "b": "two"}, {"c": "three"}]):
        ...         await ingest_partition(plan, number, items)
        ...     async with finish_ingest(plan, partitions=2) as corpus:
        ...         return corpus.report.added, await ask(corpus.store, ArtifactIds())
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
    if isinstance(request.target, CorpusAddress):
        # The plan is sent to workers, and may be kept in files and logs on the way.
        refuse_password("the address of an ingest", request.target.server)
    if isinstance(request.extractor, CorpusWideExtractor):
        extractor = type(request.extractor).__name__
        raise ArgumentError(
            f"edge_extractor {extractor} must see all artifacts first, but a partition has only some of them; "
            f"pass {extractor}.over(artifacts)"
        )
    began = time.time()
    resolved, recipe = await in_thread(request.resolve)
    async with AsyncExitStack() as exit_stack, request.lock_store(exit_stack, anyio.lowlevel.checkpoint) as locked:
        run, config, kept = await _begin(request, recipe, _check_run_store(locked), resolved)
    spec = config["embedder"] if isinstance(request.spec, str | os.PathLike) else request.spec
    # Workers may have other working folders, so the path must be absolute.
    target = request.target.absolute() if isinstance(request.target, Path) else request.target
    return IngestPlan(run, target, _without_items(source, kept), spec, on_error, began)


async def _begin(
    request: BuildRequest, recipe: BuildRecipe, store: RunStore, embedder: Embedder
) -> tuple[IngestRun, dict[str, Any], BuildRecipe]:
    """Begin the run; return it, the settings of the corpus, and the recipe that they decide."""
    recipe, embedder = await keep_settings(request, recipe, store, embedder)
    config = await make_config(request, recipe, store, embedder)
    outdated = sorted(await find_outdated(request, recipe, store, config))
    run_settings = {name: config[name] for name in ("embedder_id", "dim")}
    # The random mark distinguishes this run from an earlier one of the source, whose workers may still be running.
    run = IngestRun(request.source.name.casefold(), os.urandom(16).hex(), run_settings)
    # Remove the artifacts of an old embedder before the settings name the new one: they match at every moment.
    await store.begin_run(run, {"outdated": outdated}, removals=outdated)
    if await ask(store, Config()) != config:
        await store.apply(Change(config=config))
    return run, config, recipe


def _without_items(source: Source, recipe: BuildRecipe) -> CorpusSource:
    """Return an empty source that indexes as the recipe of this one does."""
    if not isinstance(source, CorpusSource):
        source = CorpusSource(source.name, {}, change_signal=source.change_signal, embedder=source.embedder)
    strategy, extractor = recipe.strategy, recipe.extractor
    return replace(source, scope={}, indexing_strategy=strategy, edge_extractor=extractor, excluded=None, left_out=None)


async def ingest_partition(plan: IngestPlan, number: int, items: Items) -> PartitionReport:
    """Index the items of one partition and write them in one transaction.

    A partition is written only once, however often this is called: a later call returns the same report. Partitions
    may be ingested in any order and at the same time, in any process. A worker that is killed leaves nothing of its
    partition behind. Artifacts that did not change since the last ingest are not embedded again.

    Workers decompose and embed in parallel; they write one after the other, and also wait for a `build`. The items of
    a partition and their vectors are in memory together. 500 to 5,000 documents are a good size: writing them keeps
    others waiting for a second at most.

    Args:
        plan: The plan that `prepare_ingest` returned.
        number: The number of the partition, from 0; the same number must always have the same items.
        items: A mapping of id to raw value, or artifacts and problems as a source yields them.

    Raises:
        ArgumentError: If the number or the items cannot be used.
        SourceError: If an item cannot be indexed, or the ingest has ended, because it was finished or another one was
            prepared.
        EmbedderError: If the embedder fails or is not the one of the plan, or if the corpus has another one by now
            (`EmbedderMismatch`).
        StoreError: If the store fails, or builders keep it locked for five minutes (`StoreBusy`).

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
    source = _with_items(plan.source, items)
    async with AsyncExitStack() as exit_stack:
        store = await _open_store(plan, exit_stack)
        # If the row of the partition exists, it is written: a repeated call embeds nothing.
        rows = await _read_run(plan, store, [number])
        if number in rows.parts:
            return to_report(number, rows.parts[number])
        embedder, recipe = await in_thread(_resolve, plan)
        config = {**await ask(store, Config()), **plan.run.settings}
        builder = Builder(recipe, store, embedder, config, frozenset(rows.row["outdated"]))
        # Plan and embed without a lock, in parallel with other workers. The partition is one page.
        async with aclosing(SourcePages(source, sys.maxsize, max_chars=sys.maxsize)) as pages:
            prepared = await builder.prepare(await pages.next())
        row = await _write_part(plan, store, number, builder, prepared)
    return to_report(number, row)


def _with_items(source: CorpusSource, items: object) -> CorpusSource:
    """Return the source with these items."""
    if isinstance(items, Mapping):
        return replace(source, scope=items)
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise ArgumentKindError(
            f"ingest_partition takes {{id: raw value}} or a list of Artifact, not {short_repr(items)}"
        )
    artifacts = items

    def pages() -> Generator[Sequence[Artifact | ItemProblem], None, None]:
        yield list(artifacts)

    return replace(source, scope=pages)


async def _write_part(
    plan: IngestPlan, store: RunStore, number: int, builder: Builder, prepared: tuple[Page, list[ArtifactChange]]
) -> Mapping[str, Any]:
    """Write a partition unless another worker has written it; return the stored row."""
    page, changes = prepared
    row = {**to_row(page, changes, builder.kept_ids), "cut": builder.cut}
    # The lock keeps a build from changing the embedder in the meantime. The store writes the artifacts and the row in
    # one transaction, and only if there is no row: thus each partition is written once, even if two workers try.
    async with store.writing(timeout=_WRITE_TIMEOUT):
        if number not in (await _read_run(plan, store, [number])).parts:
            await keep_problems(store, {draft.artifact_id: draft.problems for draft in page.drafts})
        stored_row = await store.apply_part(plan.run, number, row, changes)
    if stored_row is None:
        # Nothing was written: the run has ended, which `_read_run` reports, or the embedder is another one.
        await _read_run(plan, store, [])
        raise _mismatch_error(plan)
    return stored_row


async def _open_store(plan: IngestPlan, exit_stack: AsyncExitStack) -> RunStore:
    """Return the store of an ingest; `exit_stack` closes it if it is opened here."""
    if isinstance(plan.store, Path | CorpusAddress):
        return await exit_stack.enter_async_context(await open_store(plan.store))
    return _check_run_store(plan.store)


def _check_run_store(store: Store) -> RunStore:
    """Return the store if it can keep ingest runs."""
    if not isinstance(store, RunKeeper):
        raise ArgumentError(f"prepare_ingest needs a store that keeps runs, such as SqliteStore, not {store!r}")
    return cast("RunStore", store)


async def _read_run(plan: IngestPlan, store: RunStore, parts: Sequence[int] | None = None) -> RunRows:
    """Return the row of the run and the rows of these partitions, or of all.

    Raises:
        SourceError: If the ingest has ended.
        EmbedderMismatch: If the corpus has another embedder by now.
    """
    rows = await store.read_run(plan.run, parts)
    if rows is None:
        raise SourceError(
            f"this ingest of source {plan.source.name!r} has ended: it was finished, or another one was prepared; "
            "prepare_ingest starts a new one"
        )
    if not plan.run.fits(await ask(store, Config())):
        raise _mismatch_error(plan)
    return rows


def _mismatch_error(plan: IngestPlan) -> EmbedderMismatch:
    return EmbedderMismatch(
        f"the corpus no longer has embedder {plan.run.settings['embedder_id']!r}, for which this ingest of "
        f"source {plan.source.name!r} was prepared; prepare_ingest starts a new one"
    )


def _resolve(plan: IngestPlan) -> tuple[Embedder, BuildRecipe]:
    """Return the embedder, after checking that it is the one of the plan, and the recipe."""
    settings = plan.run.settings
    embedder = plan.embedder
    if isinstance(embedder, str):
        embedder = _make_embedder(embedder, settings["embedder_id"])
    check_embedder(embedder, settings["embedder_id"], settings["dim"], plan.source.name)
    return embedder, BuildRecipe.of(plan.source, settings["embedder_id"], plan.source.edge_extractor, plan.on_error)


@lru_cache(maxsize=4)
def _make_embedder(spec: str, stored_id: str) -> Embedder:
    """Make an embedder once in each process, because its model may take seconds to load."""
    return resolve_embedder(spec, stored_id)


def to_row(page: Page, changes: Iterable[ArtifactChange], kept_ids: Iterable[str]) -> dict[str, Any]:
    """Return the row to store for a partition, as JSON.

    It contains the versions of the artifacts that the partition adds, updates and leaves unchanged, by id; the ids
    that it keeps in an old version; and its problems.
    """
    versions = {change.entry.artifact_id: change.entry.version for change in changes}
    return {
        "added": {name: version for name, version in versions.items() if name not in page.existing_ids},
        "updated": {name: version for name, version in versions.items() if name in page.existing_ids},
        "unchanged": page.unchanged,
        "kept": sorted(name for name in kept_ids if name not in versions and name not in page.unchanged),
        "problems": [json_clean([problem.item, problem.reason, problem.lost]) for problem in page.problems],
    }


def to_report(number: int, row: Mapping[str, Any]) -> PartitionReport:
    """Return the report of a partition from its row."""
    counts = {verdict: len(row[verdict]) for verdict in ("added", "updated", "unchanged")}
    return PartitionReport(number, **counts, problems=tuple(_read_problems(row)))


@dataclass(slots=True)
class PartitionTotals:
    """The rows of all partitions, added up.

    An id that is in several partitions counts for the one with the lowest number, and is a problem.

    Args:
        version_of: The version of each artifact.
        number_of: The partition of each artifact.
        kept: The ids of artifacts that are kept in an old version.
        problems: All problems, in the order of the partitions.
        doubles: The problems of ids that are in several partitions.
        verdicts: The ids that were added, updated and unchanged.
    """

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
        """Add up the rows, which must be in ascending order of their numbers."""
        totals = cls()
        for number, row in rows.items():
            totals._add(number, row)
        return totals

    def _add(self, number: int, row: Mapping[str, Any]) -> None:
        self.problems.extend(_read_problems(row))
        self.kept.update(row["kept"])
        for verdict, names in self.verdicts.items():
            names.update(row[verdict])
        for name, version in chain.from_iterable(row[verdict].items() for verdict in self.verdicts):
            first = self.number_of.setdefault(name, number)
            self.version_of.setdefault(name, version)
            if first != number:
                problem = ItemProblem(name, f"is in partition {number} and in partition {first}; ids must differ")
                self.doubles.append(problem)
                self.problems.append(problem)

    @property
    def ids_to_keep(self) -> set[str]:
        """Return the ids of all artifacts that must not be pruned."""
        return self.kept.union(self.number_of)

    @property
    def counts(self) -> dict[str, int]:
        """Return the numbers of added, updated and unchanged artifacts, each counted once.

        An artifact counts as added if any partition added it, else as updated if any updated it.
        """
        added, updated, unchanged = self.verdicts.values()
        return {
            "added": len(added),
            "updated": len(updated - added),
            "unchanged": len(unchanged - updated - added),
        }


def _read_problems(row: Mapping[str, Any]) -> Iterator[ItemProblem]:
    return (ItemProblem(item, reason, lost=lost) for item, reason, lost in row["problems"])


def finish_ingest(plan: IngestPlan, *, partitions: int, full: bool = True, force: bool = False) -> Opening[Corpus]:
    """Finish an ingest after all its partitions are written, and open the corpus.

    `await` the result, or enter it with `async with` to close the corpus afterwards. Artifacts that the source no
    longer has are removed, as in `build`. The corpus must still contain everything that the partitions wrote. If
    another builder or a second partition has overwritten an artifact, its partition counts as missing and must be
    ingested again.

    Args:
        plan: The plan that `prepare_ingest` returned.
        partitions: The number of partitions; they are numbered from 0.
        full: Remove the artifacts that came from this source and are in none of the partitions.
        force: Allow partitions without any artifact to empty the corpus.

    Returns:
        An `Opening` of the corpus; `corpus.report` adds up all partitions, in seconds since `prepare_ingest`.

    Raises:
        ArgumentError: If a partition with a higher number was ingested.
        SourceError: If partitions are missing (`PartitionsMissing`; its `partitions` are their numbers); if two have
            the same id and problems are errors; if no artifact of the source would be left; or if the ingest has
            already ended.
        EmbedderMismatch: If the corpus has another embedder by now.
        StoreError: If the store fails, or a builder keeps it locked for too long (`StoreBusy`).

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
    async with AsyncExitStack() as exit_stack:
        store = await _open_store(plan, exit_stack)
        # Under the lock nobody else writes, so that everything checked here is still true at the end.
        async with store.writing():
            rows = await _read_run(plan, store)
            _check_numbers(plan, partitions, rows.parts)
            totals = await in_thread(PartitionTotals.of, rows.parts)
            for problem in totals.doubles:
                recipe.accept_problem(problem)
            await _check_written(plan, store, recipe, totals)
            config, outdated = await ask(store, Config()), frozenset(rows.row["outdated"])
            kept_ids, problems = totals.ids_to_keep, totals.problems
            builder = Builder(recipe, store, embedder, config, outdated, kept_ids=kept_ids, problems=problems)
            pruning = await find_pruning(builder, full=full, force=force)
            # Prune and end the run in one transaction: a process killed before it can simply finish again.
            await store.forget_run(plan.run, removals=pruning.stored)
            await forget_problems(store, pruning.removed.intersection(builder.earlier_problems))
            changed = totals.counts["added"] + totals.counts["updated"] + len(pruning.removed)
            floors = await refresh_floors(config["name"], store, embedder, changed)
        # The ingest succeeded: the store stays open, and closing the corpus will close it.
        exit_stack.pop_all()
    seconds = max(0.0, time.time() - plan.began)
    report = BuildReport(
        **totals.counts,
        removed=len(pruning.removed),
        problems=tuple(builder.problems),
        seconds=seconds,
        floors=floors,
        left_out={},
        cut=sum(row.get("cut", 0) for row in rows.parts.values()),
    )
    return to_corpus(builder, report, owns_store=isinstance(plan.store, Path | CorpusAddress))


def _check_numbers(plan: IngestPlan, partitions: int, rows: Mapping[int, object]) -> None:
    if beyond := [number for number in rows if number >= partitions]:
        raise ArgumentError(f"partitions={partitions}, but partition {max(beyond)} was ingested; numbers start from 0")
    if missing := [number for number in range(partitions) if number not in rows]:
        raise PartitionsMissing(
            f"source {plan.source.name!r}: {_name_partitions(missing)} of {partitions} "
            f"{'is' if len(missing) == 1 else 'are'} missing; call ingest_partition, then finish_ingest again",
            missing,
        )


async def _check_written(plan: IngestPlan, store: RunStore, recipe: BuildRecipe, totals: PartitionTotals) -> None:
    """Check that the corpus still contains everything that the partitions wrote.

    Partitions with an artifact that is missing or has another version are forgotten, so that they can be ingested
    again.

    Raises:
        PartitionsMissing: If there are any.
    """
    versions = totals.version_of
    suspects = await ask(store, Stale(versions, recipe.stamp()))
    entries = await ask(store, Ledger(suspects))
    lost_ids = [
        name
        for name, entry in zip(suspects, entries, strict=True)
        if entry is None or not recipe.is_current(entry, versions[name])
    ]
    if lost_ids:
        numbers = sorted({totals.number_of[name] for name in lost_ids})
        await store.forget_run(plan.run, numbers)
        raise PartitionsMissing(
            f"source {plan.source.name!r}: {min(lost_ids)!r} was overwritten or removed by another writer; "
            f"ingest {_name_partitions(numbers)} again, then call finish_ingest again",
            numbers,
        )


def _name_partitions(numbers: Sequence[int]) -> str:
    more = len(numbers) - _MAX_LISTED
    noun = "partition" if len(numbers) == 1 else "partitions"
    return f"{noun} " + ", ".join(map(str, numbers[:_MAX_LISTED])) + (f" and {more} more" if more > 0 else "")

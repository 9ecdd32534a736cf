"""The stages of a build: read, plan, embed and write pages of artifacts.

```text
source ──items──> plan ──drafts──> embed ──changes──> write
```

The four stages run at the same time, each on another page. The plan stage finds the artifacts that changed, decomposes
them and extracts their links, in a worker thread and with one ledger call per page. It passes over unchanged artifacts
many at once, and sends the others on in smaller pages.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, zip_longest
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import anyio
import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import find_text_fault
from airw._base.concurrency import first_error, in_thread, map_bounded
from airw._base.messages import one_line
from airw._base.vectors import unit_rows
from airw.corpora.floors import BuiltFloor
from airw.corpora.problems import keep_problems, read_problems
from airw.corpora.progress import ProgressMeter
from airw.corpora.recipes import BuildRecipe, Draft, PlannedDraft, PlanResult, check_id
from airw.corpora.source_pages import Item, SourcePages
from airw.errors import EmbedderError, SourceError
from airw.links.sites import SiteSurvey, site_of
from airw.protocols import (
    Change,
    Config,
    CorpusWideExtractor,
    Embedder,
    Ledger,
    Records,
    Source,
    Stale,
    Store,
    Vectors,
    ask,
)
from airw.values import Artifact, ArtifactChange, ItemProblem, LedgerEntry, Record

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream


VersionedArtifact: TypeAlias = tuple[Artifact, str]
ChangeSignals: TypeAlias = Callable[[Sequence[Artifact]], list[str]]
In = TypeVar("In")
Out = TypeVar("Out")

_QUICK, _SLOW = 0.25, 1.0  # seconds
_PAGES_TOGETHER = 4  # of the largest size, written at once
_PLANS_AT_ONCE = 16
"""The largest number of plans that an async strategy makes at the same time."""

_CUT = "the embedder reads only about"
_MOST_CUT_NAMED = 20
"""The texts of which problems are reported because the embedder reads them only in part."""

_FIRST_SLICE, _LARGEST_SLICE = 32, 512
"""The texts embedded in one call: few at first, so that the progress of a slow model shows within a second."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The result of a build or an upsert: numbers of artifacts, and the problems.

    Args:
        added: Artifacts that were not in the corpus before.
        updated: Artifacts that were stored again, because they or the way to index them changed.
        unchanged: Artifacts that were up to date.
        removed: Artifacts that were removed, because their source no longer has them; 0 for an upsert.
        problems: The problems of items, in the order of the pages; an item may have several. Those of artifacts that
            were up to date are among them.
        seconds: The time that it took, waiting for another builder included.
        floors: The floors that the corpus has now, by mode; empty for a corpus that is too small, and for an upsert.
        left_out: How many files and folders a source of folders leaves out although their kind would be read, by
            reason, such as hidden ones. A folder counts once; `airw.corpora.coverage` lists them.
        cut: How many texts the embedder reads only in part, of the artifacts that were stored. A rest that the next
            text repeats does not count. Problems name the first artifacts.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    problems: tuple[ItemProblem, ...] = ()
    seconds: float = 0.0
    floors: Mapping[str, BuiltFloor] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    cut: int = 0


@dataclass(slots=True)
class BatchSize:
    """The number of artifacts that are written at once, which adapts to how long it takes.

    Args:
        least: The first and smallest number.
        largest: The largest number.
    """

    least: int
    largest: int
    now: int = field(init=False)

    def __post_init__(self) -> None:
        """Start with the smallest number."""
        self.now = self.least

    @property
    def is_largest(self) -> bool:
        """Return whether batches have grown to the largest size."""
        return self.least < self.now == self.largest

    def adapt(self, seconds: float) -> None:
        """Write larger batches if one took little time, and smaller ones again if it took long.

        Each batch has costs of its own. But what a killed build has not written is done again.
        """
        if seconds < _QUICK:
            self.now = min(2 * self.now, self.largest)
        elif seconds > _SLOW:
            self.now = max(self.now // 2, self.least)


@dataclass(slots=True)
class Page:
    """A page of items after planning.

    Args:
        drafts: The artifacts to store.
        reusable: Those drafts whose stored vectors may be reused.
        existing_ids: The artifacts of this page that the corpus contained before the build; unchanged ones may be
            absent.
        unchanged: The versions of the artifacts that are up to date, by id.
        problems: The items that cannot be indexed, or only in part.
    """

    drafts: list[Draft] = field(default_factory=list)
    reusable: list[Draft] = field(default_factory=list)
    existing_ids: set[str] = field(default_factory=set)
    unchanged: dict[str, str] = field(default_factory=dict)
    problems: list[ItemProblem] = field(default_factory=list)

    def add_problems(self, item: str, reasons: Iterable[str]) -> None:
        """Add what is wrong with an item that is indexed; the source may have reported the same."""
        known = {problem.reason for problem in self.problems if problem.item == item}
        self.problems += [ItemProblem(item, reason, lost=False) for reason in reasons if reason not in known]


@dataclass(slots=True)
class Builder:
    """A build in progress.

    Args:
        recipe: How to index an artifact.
        store: The store to write to; the caller has locked it for writing.
        embedder: The embedder of the surfaces.
        config: The new settings of the corpus; written before the first artifact.
        outdated: The ids of artifacts whose vectors another embedder made. They are removed before the first new
            vector is written, because vectors of two embedders cannot be compared.
        meter: The counts so far, which it reports to the caller.
        seen_ids: The ids that the source has yielded so far.
        kept_ids: The artifacts of the source that must not be pruned: written, unchanged, or kept in an old version.
        problems: The problems so far.
        site: Collects what the links of all notes together tell; `None` if no extractor needs it.
        earlier_problems: The problems of all artifacts before the build, by id.
        cut: How many texts the embedder reads only in part.
    """

    recipe: BuildRecipe
    store: Store
    embedder: Embedder
    config: Mapping[str, Any]
    outdated: frozenset[str]
    meter: ProgressMeter = field(default_factory=ProgressMeter)
    seen_ids: set[str] = field(default_factory=set)
    kept_ids: set[str] = field(default_factory=set)
    problems: list[ItemProblem] = field(default_factory=list)
    site: SiteSurvey | None = None
    earlier_problems: Mapping[str, Sequence[str]] = field(init=False)
    cut: int = 0
    _settings_written: bool = False
    _slice: int = _FIRST_SLICE

    def __post_init__(self) -> None:
        """Read the problems from the settings."""
        self.earlier_problems = read_problems(self.config)

    async def run(self, pages: SourcePages, batch: BatchSize) -> None:
        """Run every page through the four stages.

        A page that the source yields may be larger than a batch: unchanged artifacts are passed over many at once.

        The first error cancels the other stages and is raised as it is, not in a group.
        """
        # Write the settings before the first page, so that a killed build leaves a corpus that can be opened. If there
        # are vectors of another embedder, write the settings just before the first new vectors instead.
        if not self.outdated:
            await self.write_settings()
        with first_error(), ExitStack() as streams:
            await self._run_stages(pages, batch, streams)

    async def _run_stages(self, pages: SourcePages, batch: BatchSize, streams: ExitStack) -> None:
        # While the embedder works on one page, the next one is planned and the previous one is written. Each stream
        # holds one waiting page. So memory grows little with the records (`bench_build_memory`).
        items_sender, items_receiver = anyio.create_memory_object_stream[list[Item]](1)
        pages_sender, pages_receiver = anyio.create_memory_object_stream[Page](1)
        changes_sender, changes_receiver = anyio.create_memory_object_stream[tuple[Page, list[ArtifactChange]]](1)
        for end in (items_sender, items_receiver, pages_sender, pages_receiver, changes_sender, changes_receiver):
            streams.enter_context(end)
        async with anyio.create_task_group() as group:
            group.start_soon(self.meter.find_total, self.recipe.source)
            group.start_soon(self._read_pages, pages, items_sender)
            group.start_soon(self._plan_pages, items_receiver, pages_sender, batch)
            group.start_soon(_run_stage, self._embed_page, pages_receiver, changes_sender)
            # Only this task writes: the store sees one transaction at a time, in the source's order.
            await self._write_pages(batch, changes_receiver)

    async def _read_pages(self, pages: SourcePages, target: "MemoryObjectSendStream[list[Item]]") -> None:
        while page := await pages.next():
            self.meter.add_read(page)
            await target.send(page)
        target.close()

    async def _plan_pages(
        self,
        source: "MemoryObjectReceiveStream[list[Item]]",
        target: "MemoryObjectSendStream[Page]",
        batch: BatchSize,
    ) -> None:
        async for items in source:
            page, rest = await self._compare_items(items)
            while len(rest) > batch.now:
                part, rest = rest[: batch.now], rest[batch.now :]
                await target.send(await self._plan_page(part, Page()))
            # Problems come last: only now it is known which of their artifacts are indexed all the same.
            await target.send(await self._plan_page(rest, page))
        target.close()

    async def prepare(self, items: list[Item]) -> tuple[Page, list[ArtifactChange]]:
        """Plan and embed one page for callers that write it themselves and then call `record`."""
        page, versions = await self._compare_items(items)
        return await self._embed_page(await self._plan_page(versions, page))

    async def write_settings(self) -> None:
        """Write the settings once, after removing the artifacts of another embedder.

        In this order the settings match the stored vectors at every moment, even if the process is killed in between.
        """
        if self._settings_written:
            return
        self._settings_written = True
        if self.outdated:
            await self.store.apply(Change(removals=sorted(self.outdated)))
        if await ask(self.store, Config()) != self.config:
            await self.store.apply(Change(config=self.config))

    async def _compare_items(self, items: list[Item]) -> tuple[Page, list[VersionedArtifact]]:
        """Return a page that counts the unchanged items, and the artifacts that may have changed."""
        page = Page()
        artifacts = self._check_items(items, page)
        if self.site is not None:
            await in_thread(self.site.add, artifacts)
        # In a worker thread, because change signals may hash whole texts.
        versions = await in_thread(self._add_versions, artifacts, page)
        # Drop unchanged artifacts before their ledger entries are read: most rebuilds change little.
        return page, await self._skip_unchanged(versions, page)

    async def _plan_page(self, versions: Sequence[VersionedArtifact], page: Page) -> Page:
        """Return the page with the drafts of those artifacts that have changed."""
        # Read the entries of the others in one call, and of items with problems too: their
        # stored version may be kept. A name with a faulty text cannot be looked up.
        problem_ids = [problem.item for problem in page.problems if not find_text_fault(problem.item, allow_nul=False)]
        ids = [artifact.id for artifact, _ in versions] + problem_ids
        entries = await ask(self.store, Ledger(ids)) if ids else []
        stored = {entry.artifact_id: entry for entry in entries if entry is not None}
        if changed := self._refuse_other_sources(self._find_changed(versions, stored, page), stored, page):
            plans = await self._await_plans(changed) if self.recipe.is_async else {}
            # In a worker thread, because decomposing and link extraction are pure Python and take long.
            await in_thread(self._draft, changed, plans, page)
            # Only vectors of the same embedder can be reused.
            reusable_ids = {name for name, entry in stored.items() if entry.embedder_id == self.recipe.embedder_id}
            page.reusable = [draft for draft in page.drafts if draft.artifact_id in reusable_ids]
        # Artifacts of an old embedder may be removed by now; writing one of them still counts as an update.
        page.existing_ids = stored.keys() | (self.outdated & set(ids))
        owned = {name for name, entry in stored.items() if self.recipe.owns(entry)}
        page.problems = [self._keep_lost_item(problem, owned) for problem in page.problems]
        for name in page.unchanged:
            page.add_problems(name, self.earlier_problems.get(name, ()))
        return page

    def _check_items(self, items: list[Item], page: Page) -> list[Artifact]:
        """Return the artifacts of a page with a valid id that the source has not yielded before."""
        # Nearly always, all are artifacts with sound and new ids: then one check of all ids together is enough.
        if (ids := _list_sound_ids(items)) is not None and self.seen_ids.isdisjoint(ids):
            self.seen_ids.update(ids)
            return cast("list[Artifact]", items)
        artifacts = []
        for item in items:
            if isinstance(item, ItemProblem):
                page.problems.append(self.recipe.accept_problem(item))
                continue
            artifact_id = self.recipe.attempt(check_id, item)
            if isinstance(artifact_id, ItemProblem):
                page.problems.append(artifact_id)
            elif artifact_id in self.seen_ids:
                problem = ItemProblem(artifact_id, "the source yields this id twice; ids must differ")
                page.problems.append(self.recipe.accept_problem(problem))
            else:
                self.seen_ids.add(artifact_id)
                artifacts.append(item)
        return artifacts

    def _add_versions(self, artifacts: Sequence[Artifact], page: Page) -> list[VersionedArtifact]:
        """Return the artifacts with their change signals."""
        signal_changes: ChangeSignals | None = getattr(self.recipe.source, "signal_changes", None)
        if signal_changes is not None:
            # If one fails, the loop below finds out which.
            with suppress(Exception):
                return list(zip(artifacts, signal_changes(artifacts), strict=True))
        versions = []
        for artifact in artifacts:
            version = self.recipe.attempt(self.recipe.source.change_signal, artifact)
            if isinstance(version, ItemProblem):
                page.problems.append(version)
            else:
                versions.append((artifact, version))
        return versions

    async def _skip_unchanged(self, versions: list[VersionedArtifact], page: Page) -> list[VersionedArtifact]:
        """Drop artifacts that the store reports as unchanged, and count them."""
        if not versions:
            return versions
        # A change signal that is not a string cannot be compared; drafting reports it as a problem.
        version_of = {artifact.id: version for artifact, version in versions if isinstance(version, str)}
        stale = {*await ask(self.store, Stale(version_of, self.recipe.stamp()))}
        page.unchanged = {name: version for name, version in version_of.items() if name not in stale}
        self.kept_ids.update(page.unchanged)
        return [(artifact, version) for artifact, version in versions if artifact.id not in page.unchanged]

    def _find_changed(
        self, versions: Sequence[VersionedArtifact], stored: Mapping[str, LedgerEntry], page: Page
    ) -> list[VersionedArtifact]:
        """Return the artifacts that must be indexed again, and count the others as unchanged."""
        if not stored:
            return list(versions)
        changed = []
        for artifact, version in versions:
            entry = stored.get(artifact.id)
            if entry is not None and self.recipe.is_current(entry, version):
                self.kept_ids.add(artifact.id)
                page.unchanged[artifact.id] = version
            else:
                changed.append((artifact, version))
        return changed

    def _refuse_other_sources(
        self, changed: Sequence[VersionedArtifact], stored: Mapping[str, LedgerEntry], page: Page
    ) -> list[VersionedArtifact]:
        """Return the artifacts that this source may store; report those of other sources.

        `find_changed` of a store compares the names of sources exactly, and this compares them without case. An
        artifact without a source, from an upsert, may be replaced and then belongs to this source.
        """
        if not stored:
            return list(changed)
        owned = []
        for artifact, version in changed:
            entry = stored.get(artifact.id)
            if entry is not None and entry.source and not self.recipe.owns(entry):
                reason = f"the corpus contains this id from source {entry.source!r}; ids must differ"
                page.problems.append(self.recipe.accept_problem(ItemProblem(artifact.id, reason)))
            else:
                owned.append((artifact, version))
        return owned

    async def _await_plans(self, changed: Sequence[VersionedArtifact]) -> dict[str, PlanResult]:
        """Return the plans of an async strategy by artifact id, made several at a time."""
        artifacts = [artifact for artifact, _ in changed]
        plans = await map_bounded(self.recipe.await_plan, artifacts, limit=_PLANS_AT_ONCE)
        return {artifact.id: plan for artifact, plan in zip(artifacts, plans, strict=True)}

    def _draft(self, changed: Sequence[VersionedArtifact], plans: Mapping[str, PlanResult], page: Page) -> None:
        """Decompose the changed artifacts and extract their links."""
        drafts: list[PlannedDraft] = []
        try:
            for artifact, version in changed:
                drafts.append(self.recipe.attempt(self.recipe.draft, artifact, version, plans.get(artifact.id)))
        except SourceError:
            self.recipe.check_drafts(drafts)  # raises the problem of an earlier item
            raise
        for draft in self.recipe.check_drafts(drafts):
            if isinstance(draft, ItemProblem):
                page.problems.append(draft)
                continue
            page.drafts.append(draft)
            page.add_problems(draft.artifact_id, draft.problems)
        self.kept_ids.update([draft.entry.artifact_id for draft in page.drafts])

    def _keep_lost_item(self, problem: ItemProblem, stored: Collection[str]) -> ItemProblem:
        """Return the problem of an item, with a note if its indexed version is kept or removed."""
        if not problem.lost or problem.item in self.kept_ids:
            return problem
        if problem.item in self.outdated:
            note = "its indexed version is removed, because another embedder made its vectors"
        elif problem.item in stored:
            note = "its indexed version is kept"
            self.kept_ids.add(problem.item)
        else:
            return problem
        return replace(problem, reason=f"{problem.reason}; {note}")

    def find_unseen(self, stored: Collection[str]) -> list[str]:
        """Return the stored ids that this build has not kept; they may be of any source.

        Artifacts below a folder that the source could not read are not among them: they may still exist. The problem of
        the folder gets a note that they are kept.
        """
        # A problem of a whole folder has the folder as its item.
        lost = {problem.item for problem in self.problems if problem.lost}
        if self.kept_ids.issuperset(stored):
            return []
        unseen = [item for item in stored if item not in self.kept_ids]
        lost_parents = {item: lost.intersection(map(str, PurePosixPath(item).parents)) for item in unseen}
        kept_folders = set[str]().union(*lost_parents.values())
        self.problems = [
            replace(problem, reason=f"{problem.reason}; the artifacts indexed below it are kept")
            if problem.lost and problem.item in kept_folders
            else problem
            for problem in self.problems
        ]
        return [item for item, parents in lost_parents.items() if not parents]

    async def _embed_page(self, page: Page) -> tuple[Page, list[ArtifactChange]]:
        if not page.drafts:
            return page, []
        # Reuse the vectors of artifacts whose links or metadata changed, but not their texts: embedding is slow.
        reused = await self._reuse_vectors(page.reusable)
        new_drafts = [draft for draft in page.drafts if draft.artifact_id not in reused] if reused else page.drafts
        self.meter.advance(embedded=self.meter.counts.embedded + len(reused))
        lost: dict[str, ItemProblem] = {}
        new = _split_rows(new_drafts, await self._embed_drafts(new_drafts, lost))
        vectors = reused | dict(zip([draft.artifact_id for draft in new_drafts], new, strict=True))
        if lost:
            self.kept_ids.difference_update(lost)
            problems = [lost[draft.artifact_id] for draft in page.drafts if draft.artifact_id in lost]
            page.problems += [self._keep_lost_item(problem, page.existing_ids) for problem in problems]
            page.drafts = [draft for draft in page.drafts if draft.artifact_id not in lost]
        await self._report_cut_texts(page, reused.keys())
        return page, [draft.to_change(vectors[draft.artifact_id]) for draft in page.drafts]

    async def _report_cut_texts(self, page: Page, reused: Collection[str]) -> None:
        """Count the texts that the embedder reads only in part, and report the first ones.

        The problem of an artifact whose vectors are reused stays: that needs no model.
        """
        find_ends: Callable[[Sequence[str]], Awaitable[list[int]]] | None = getattr(self.embedder, "find_ends", None)
        if find_ends is None:
            return
        texts = [text for draft in page.drafts if draft.artifact_id not in reused for text in draft.texts]
        found = await find_ends(texts) if texts else []
        if len(found) != len(texts):
            raise EmbedderError(f"{self._embedder_label} found {len(found)} ends of {len(texts)} texts in find_ends")
        ends = iter(found)
        for draft in page.drafts:
            if draft.artifact_id in reused:
                earlier = self.earlier_problems.get(draft.artifact_id, ())
                draft.problems.extend(reason for reason in earlier if reason.startswith(_CUT))
                page.add_problems(draft.artifact_id, draft.problems)
                continue
            cuts = []
            for record, following, text in zip_longest(draft.records, draft.records[1:], draft.texts):
                end = max(next(ends) - (len(text) - len(record.text)), 0)  # what is before it is its context
                rest = record.text[end:].strip()
                # Chunks overlap: what the next one repeats is not lost.
                if rest and (following is None or rest not in following.text):
                    cuts.append((record, end))
            if cuts and self.cut < _MOST_CUT_NAMED:
                record, end = cuts[0]
                reason = (
                    f"{_CUT} {end:,} of the {len(record.text):,} characters of its text "
                    f"{record.surface_index} of the kind {record.surface_kind!r}; index it in smaller chunks"
                )
                draft.problems.append(reason)
                page.add_problems(draft.artifact_id, [reason])
            self.cut += len(cuts)

    async def _embed_drafts(self, drafts: Sequence[Draft], lost: dict[str, ItemProblem]) -> Floats:
        """Return the vectors of all records of the drafts.

        A draft counts as embedded once all its records are. Drafts with a text that the embedder refuses are added to
        `lost`, by artifact id; their vectors are zeros.
        """
        texts = [(record, text) for draft in drafts for record, text in zip(draft.records, draft.texts, strict=True)]
        ends = list(accumulate([len(draft.records) for draft in drafts]))
        rows: list[Floats] = []
        earlier, start = self.meter.counts.embedded, 0
        while start < len(texts) or not rows:
            part = texts[start : start + self._slice]
            rows.append(await self._embed_records(part, lost))
            start += len(part)
            self._slice = min(2 * self._slice, _LARGEST_SLICE)
            self.meter.advance(embedded=earlier + bisect_right(ends, start))
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    async def _embed_records(self, texts: Sequence[tuple[Record, str]], lost: dict[str, ItemProblem]) -> Floats:
        """Return the vectors of records, from the texts to embed for them."""
        while True:
            places = [place for place, (record, _) in enumerate(texts) if record.artifact_id not in lost]
            try:
                vectors = await self._embed_texts([texts[place][1] for place in places])
            except EmbedderError as error:
                refused = [(texts[places[at]][0], why) for at, why in error.refused.items() if 0 <= at < len(places)]
                if not refused:
                    raise
                for record, why in refused:
                    text = f"its text {record.surface_index} of the kind {record.surface_kind!r}"
                    reason = one_line(f"{text} cannot be embedded by {self._embedder_label}: {why}", longest=1_000)
                    problem = ItemProblem(record.artifact_id, reason)
                    if self.recipe.on_error == "raise":
                        raise EmbedderError(str(self.recipe.to_error(problem))) from error
                    lost[record.artifact_id] = problem
                continue
            if len(places) == len(texts):
                return vectors
            rows = np.zeros((len(texts), vectors.shape[1]), np.float32)
            rows[places] = vectors
            return rows

    async def _reuse_vectors(self, drafts: Sequence[Draft]) -> dict[str, Floats]:
        """Return, by artifact id, the stored vectors of drafts that are embedded as before."""
        ids = [record.id for draft in drafts for record in draft.records]
        if not ids:
            return {}
        stored = {record.id: record for record in await ask(self.store, Records(ids)) if record is not None}
        same = [draft for draft in drafts if draft.is_embedded_as(stored)]
        same_ids = [record.id for draft in same for record in draft.records]
        # Skip an empty request: even for that, a store may have to load its vector index.
        if not same_ids:
            return {}
        blocks = _split_rows(same, await ask(self.store, Vectors(same_ids)))
        return dict(zip([draft.artifact_id for draft in same], blocks, strict=True))

    async def _embed_texts(self, texts: list[str]) -> Floats:
        vectors: Any = await self.embedder.embed_documents(texts) if texts else []
        dim, of = self.config["dim"], self._embedder_label
        return await in_thread(partial(unit_rows, vectors, count=len(texts), dim=dim, of=of))

    @property
    def _embedder_label(self) -> str:
        return f"the embedder {self.recipe.embedder_id!r}"

    async def _write_pages(
        self, batch: BatchSize, source: "MemoryObjectReceiveStream[tuple[Page, list[ArtifactChange]]]"
    ) -> None:
        """Write pages in order; of the largest ones, those that come quickly are written together.

        Each write has costs of its own.
        """
        done = anyio.current_time()
        async for page in source:
            pages = [page]
            if batch.is_largest:
                with anyio.move_on_after(_QUICK), suppress(anyio.EndOfStream):
                    while len(pages) < _PAGES_TOGETHER:
                        pages.append(await source.receive())
            await self._write(pages)
            earlier, done = done, anyio.current_time()
            batch.adapt((done - earlier) / len(pages))

    async def _write(self, pages: Sequence[tuple[Page, list[ArtifactChange]]]) -> None:
        """Write pages in one transaction."""
        if together := [change for _, changes in pages for change in changes]:
            # These may be the first vectors of a new embedder, see `run`; later calls do nothing.
            await self.write_settings()
            await keep_problems(self.store, self.compare_problems([page for page, _ in pages]))
            await self.store.apply(Change(together))
        for page, changes in pages:
            self.record(page, changes)

    def compare_problems(self, pages: Sequence[Page]) -> dict[str, Sequence[str]]:
        """Return the problems of the artifacts to store that differ from those before, by id."""
        problems = {draft.artifact_id: draft.problems for page in pages for draft in page.drafts}
        return {name: own for name, own in problems.items() if own != self.earlier_problems.get(name, [])}

    def record(self, page: Page, changes: Sequence[ArtifactChange]) -> None:
        """Add the counts and the problems of a page that the caller has written."""
        updated = sum(change.entry.artifact_id in page.existing_ids for change in changes)
        self.problems.extend(page.problems)
        counts = self.meter.counts
        self.meter.advance(
            added=counts.added + len(changes) - updated,
            updated=counts.updated + updated,
            unchanged=counts.unchanged + len(page.unchanged),
            problems=len(self.problems),
        )


def sum_reports(
    builders: Collection[Builder],
    *,
    removed: int = 0,
    seconds: float,
    floors: Mapping[str, BuiltFloor] | None = None,
    left_out: Mapping[str, int] | None = None,
) -> BuildReport:
    """Return one report with the summed counts of several builders."""
    return BuildReport(
        added=sum(builder.meter.counts.added for builder in builders),
        updated=sum(builder.meter.counts.updated for builder in builders),
        unchanged=sum(builder.meter.counts.unchanged for builder in builders),
        removed=removed,
        problems=tuple(problem for builder in builders for problem in builder.problems),
        seconds=seconds,
        floors=floors or {},
        left_out=left_out or {},
        cut=sum(builder.cut for builder in builders),
    )


def _list_sound_ids(items: Sequence[Item]) -> set[str] | None:
    """Return the ids of items if all are artifacts with different, sound ids; else `None`."""
    if not {*map(type, items)} <= {Artifact}:
        return None
    ids = [artifact.id for artifact in cast("list[Artifact]", items)]
    if not {*map(type, ids)} <= {str} or find_text_fault("".join(ids), allow_nul=False):
        return None
    found = set(ids)
    return found if len(found) == len(ids) and "" not in found else None


def _split_rows(drafts: Sequence[Draft], rows: Floats) -> list[Floats]:
    """Split the rows of all drafts and return those of each."""
    ends = list(accumulate([len(draft.records) for draft in drafts]))
    return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]


async def _run_stage(
    work: Callable[[In], Awaitable[Out]], source: "MemoryObjectReceiveStream[In]", target: "MemoryObjectSendStream[Out]"
) -> None:
    async for page in source:
        await target.send(await work(page))
    target.close()


async def with_survey(
    recipe: BuildRecipe, source: Source, page_size: int, meter: ProgressMeter | None = None
) -> BuildRecipe:
    """Return the recipe, with its extractor prepared if that must see all artifacts first.

    An async strategy may call a model for each artifact, so the root of a site is found before, not after it.

    Preparing reads the whole source, and the meter counts the items. Items with problems are passed over: the build
    that follows reports them.

    Raises:
        SourceError: If the source itself cannot be read.
    """
    extractor = recipe.extractor
    survey = await in_thread(extractor.survey) if isinstance(extractor, CorpusWideExtractor) else None
    reads_first = survey is not None or recipe.is_async
    site = SiteSurvey() if reads_first and extractor is not None and site_of(extractor) else None
    surveys = [found for found in (survey, site) if found is not None]
    if extractor is None or not surveys:
        return recipe
    meter = meter or ProgressMeter()
    meter.advance(stage="survey")
    await meter.find_total(source)
    async with aclosing(SourcePages(source, page_size)) as pages:
        while page := await pages.next():
            artifacts = [item for item in page if isinstance(item, Artifact) and _has_valid_id(item)]
            for found in surveys:
                await in_thread(found.add, artifacts)
            meter.add_read(page)
    if survey is not None:
        extractor = await in_thread(survey.extractor)
    if site is not None:
        extractor = await in_thread(site.prepare, extractor)
    meter.advance(stage="index", read=0)
    return recipe.with_extractor(extractor)


def _has_valid_id(artifact: Artifact) -> bool:
    try:
        check_id(artifact)
    except SourceError:
        return False
    return True

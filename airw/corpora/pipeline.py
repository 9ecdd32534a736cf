"""Read, plan, embed, write: four stages that overlap, connected by short queues, one page at a time.

```text
source ──page──> plan ──drafts──> embed ──changes──> write
                  │ versions, decomposing and links in a worker thread; one ledger call a page
```
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio

from airw._base.arrays import Floats
from airw._base.checks import find_text_fault
from airw._base.concurrency import first_error, in_thread, map_bounded
from airw._base.vectors import unit_rows
from airw.corpora.recipes import BuildRecipe, Draft, Planned, check_id
from airw.errors import AirwError, SourceError
from airw.protocols import ChangeFinder, CorpusWideExtractor, Embedder, Source, Store
from airw.values import Artifact, ArtifactChange, ItemProblem, LedgerEntry

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream


Item: TypeAlias = Artifact | ItemProblem
Version: TypeAlias = tuple[Artifact, str]
In = TypeVar("In")
Out = TypeVar("Out")

PLANS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build has come; how much lies ahead is unknown, as the source streams.

    Args:
        added: Artifacts stored for the first time.
        updated: Artifacts stored again.
        unchanged: Artifacts that needed nothing.
        problems: Items that could not be indexed, or not whole.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    problems: int = 0

    @property
    def done(self) -> int:
        """Count the artifacts that are up to date."""
        return self.added + self.updated + self.unchanged


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build, or an upsert, did.

    Args:
        added: Artifacts that were not in the corpus before.
        updated: Artifacts written again, because they or the way to index them changed.
        unchanged: Artifacts that needed nothing.
        removed: Artifacts taken out, because their source no longer has them; 0 for an upsert.
        problems: What could not be indexed, or not whole, in the order of the pages read.
        seconds: How long it took, waiting for another builder included.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    problems: tuple[ItemProblem, ...] = ()
    seconds: float = 0.0


class SourcePages:
    """The items of a source in pages of `size`; what a source raises arrives as a `SourceError`."""

    def __init__(self, source: Source, size: int) -> None:
        self._name = source.name
        self._items: AsyncIterator[Item] = source.items()
        self._size = size
        self._ahead: list[Item] | None = None

    async def peek(self) -> None:
        """Read the first page ahead, so that a source that is missing fails before anything is made for it."""
        self._ahead = await self.next()

    async def next(self) -> list[Item]:
        """Give the next page; an empty one at the end."""
        page, self._ahead = self._ahead or [], None
        if page:
            return page
        try:
            async for item in self._items:  # which goes on where it was left
                page.append(item)
                if len(page) == self._size:
                    break
        except AirwError:
            raise
        except Exception as error:
            raise SourceError(f"source {self._name!r} failed: {type(error).__name__}: {error}") from error
        return page

    async def aclose(self) -> None:
        """Close the source's iterator, where it can be closed."""
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()


@dataclass(slots=True)
class Page:
    """What became of one page of items: what is to be stored, and what is only counted."""

    drafts: list[Draft] = field(default_factory=list)
    reusable: list[Draft] = field(
        default_factory=list
    )  # those of the drafts whose texts the embedder may have had before
    known: set[str] = field(default_factory=set)
    unchanged: dict[str, str] = field(default_factory=dict)  # with their versions
    problems: list[ItemProblem] = field(default_factory=list)


@dataclass(slots=True)
class Builder:
    """One build in progress.

    Args:
        recipe: What to make of an artifact.
        store: Where to; held for writing by the caller.
        embedder: What embeds the surfaces.
        config: The settings of the corpus from now on; written before the first artifact.
        outdated: Artifacts whose vectors another embedder made; they go before the first new vector comes, as vectors
            of two embedders cannot be compared.
        progress: Called after each page.
    """

    recipe: BuildRecipe
    store: Store
    embedder: Embedder
    config: Mapping[str, Any]
    outdated: frozenset[str]
    progress: Callable[[BuildProgress], None] | None
    given: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    problems: list[ItemProblem] = field(default_factory=list)
    counts: BuildProgress = field(default_factory=BuildProgress)
    _settings_written: bool = False

    async def run(self, pages: SourcePages) -> None:
        """Take every page through the four stages; the first failure cancels the rest and arrives as itself."""
        if not self.outdated:
            await self.write_settings()
        with first_error(), ExitStack() as streams:
            await self._overlap(pages, streams)

    async def _overlap(self, pages: SourcePages, streams: ExitStack) -> None:
        read_in, read_out = anyio.create_memory_object_stream[list[Item]](1)
        plan_in, plan_out = anyio.create_memory_object_stream[Page](1)
        embed_in, embed_out = anyio.create_memory_object_stream[tuple[Page, list[ArtifactChange]]](1)
        for end in (read_in, read_out, plan_in, plan_out, embed_in, embed_out):
            streams.enter_context(end)
        async with anyio.create_task_group() as group:
            group.start_soon(_read, pages, read_in)
            group.start_soon(_stage, self._plan, read_out, plan_in)
            group.start_soon(_stage, self._embed, plan_out, embed_in)
            async for page, changes in embed_out:
                await self._write(page, changes)

    async def prepare(self, items: list[Item]) -> tuple[Page, list[ArtifactChange]]:
        """Take one page through all but the last stage, for those who write it themselves and `record` it then."""
        return await self._embed(await self._plan(items))

    async def write_settings(self) -> None:
        """Remove what another embedder made, then write the settings, once: at every moment they fit the vectors."""
        if self._settings_written:
            return
        self._settings_written = True
        if self.outdated:
            await self.store.apply([], removals=sorted(self.outdated))
        if await self.store.config() != self.config:
            await self.store.set_config(self.config)

    async def _plan(self, items: list[Item]) -> Page:
        page = Page()
        fresh = self._check_items(items, page)
        versions = await self._skip_unchanged(await in_thread(self._find_versions, fresh, page), page)
        lost = [problem.item for problem in page.problems if not find_text_fault(problem.item, allow_nul=False)]
        asked = [artifact.id for artifact, _ in versions] + lost
        entries = await self.store.ledger(asked) if asked else []
        stored = {entry.artifact_id: entry for entry in entries if entry is not None}
        if changed := self._refuse_foreign(self._find_changed(versions, stored, page), stored, page):
            plans = await self._await_plans(changed) if self.recipe.is_async else {}
            await in_thread(self._draft, changed, plans, page)
            mine = {name for name, entry in stored.items() if entry.embedder_id == self.recipe.embedder_id}
            page.reusable = [draft for draft in page.drafts if draft.name in mine]
        page.known = stored.keys() | (self.outdated & set(asked))
        self._keep_lost(page, stored)
        return page

    def _check_items(self, items: Sequence[Item], page: Page) -> list[Artifact]:
        """Return the artifacts of a page that have an id of their own."""
        artifacts = []
        for item in items:
            if isinstance(item, ItemProblem):
                page.problems.append(self.recipe.complain(item))
                continue
            known = self.recipe.attempt(check_id, item)
            if isinstance(known, ItemProblem):
                page.problems.append(known)
            elif known in self.given:
                problem = ItemProblem(known, "the source gives this id twice; ids must differ")
                page.problems.append(self.recipe.complain(problem))
            else:
                self.given.add(known)
                artifacts.append(item)
        return artifacts

    def _find_versions(self, artifacts: Sequence[Artifact], page: Page) -> list[Version]:
        signalled = []
        for artifact in artifacts:
            version = self.recipe.attempt(self.recipe.source.change_signal, artifact)
            if isinstance(version, ItemProblem):
                page.problems.append(version)
            else:
                signalled.append((artifact, version))
        return signalled

    async def _skip_unchanged(self, versions: list[Version], page: Page) -> list[Version]:
        """Drop artifacts that the store reports as unchanged, and count them."""
        if not isinstance(self.store, ChangeFinder):
            return versions
        asked = {artifact.id: version for artifact, version in versions if isinstance(version, str)}
        changed = set(await self.store.find_changed(asked, self.recipe.stamp()))
        self.held.update(asked.keys() - changed)
        page.unchanged.update((name, version) for name, version in asked.items() if name not in changed)
        return [each for each in versions if each[0].id in changed or each[0].id not in asked]

    def _find_changed(
        self, versions: Sequence[Version], stored: Mapping[str, LedgerEntry], page: Page
    ) -> list[Version]:
        """Return what has to be stored again, and count the rest."""
        changed = []
        for artifact, version in versions:
            entry = stored.get(artifact.id)
            if entry is not None and self.recipe.is_current(entry, version):
                self.held.add(artifact.id)
                page.unchanged[artifact.id] = version
            else:
                changed.append((artifact, version))
        return changed

    def _refuse_foreign(
        self, changed: Sequence[Version], stored: Mapping[str, LedgerEntry], page: Page
    ) -> list[Version]:
        """Return those that are this source's to store; an artifact of another source stays with that one."""
        owned = []
        for artifact, version in changed:
            entry = stored.get(artifact.id)
            if entry is not None and entry.source and not self.recipe.owns(entry):
                reason = f"the corpus holds this id from source {entry.source!r}; ids must differ"
                page.problems.append(self.recipe.complain(ItemProblem(artifact.id, reason)))
            else:
                owned.append((artifact, version))
        return owned

    async def _await_plans(self, changed: Sequence[Version]) -> dict[str, Planned]:
        """Await the plans of a strategy that is async, several at once."""
        artifacts = [artifact for artifact, _ in changed]
        plans = await map_bounded(self.recipe.planned, artifacts, limit=PLANS_AT_ONCE)
        return {artifact.id: plan for artifact, plan in zip(artifacts, plans, strict=True)}

    def _draft(self, changed: Sequence[Version], plans: Mapping[str, Planned], page: Page) -> None:
        """Draft what changed."""
        for artifact, version in changed:
            draft = self.recipe.attempt(self.recipe.draft, artifact, version, plans.get(artifact.id))
            if isinstance(draft, ItemProblem):
                page.problems.append(draft)
                continue
            page.drafts.append(draft)
            self.held.add(artifact.id)
            page.problems.extend(ItemProblem(artifact.id, reason, lost=False) for reason in draft.problems)

    def _keep_lost(self, page: Page, stored: Mapping[str, LedgerEntry]) -> None:
        """Hold what was indexed before of each lost item, and say so; or say that it cannot be held."""
        for at, problem in enumerate(page.problems):
            if not problem.lost or problem.item in self.held:
                continue
            if problem.item in self.outdated:
                note = "what was indexed of it before goes, as another embedder made its vectors"
            elif problem.item in stored and self.recipe.owns(stored[problem.item]):
                note = "what was indexed of it before is kept"
                self.held.add(problem.item)
            else:
                continue
            page.problems[at] = replace(problem, reason=f"{problem.reason}; {note}")

    def find_unseen(self, stored: Iterable[str]) -> list[str]:
        """Return the stored ids that the source no longer has; what is below a folder that it could not read stays."""
        lost = {problem.item for problem in self.problems if problem.lost}
        unseen = [item for item in stored if item not in self.held]
        above = {item: lost.intersection(map(str, PurePosixPath(item).parents)) for item in unseen}
        kept = set[str]().union(*above.values())
        self.problems = [
            replace(problem, reason=f"{problem.reason}; what was indexed below it before is kept")
            if problem.lost and problem.item in kept
            else problem
            for problem in self.problems
        ]
        return [item for item, folders in above.items() if not folders]

    async def _embed(self, page: Page) -> tuple[Page, list[ArtifactChange]]:
        if not page.drafts:
            return page, []
        vectors = await self._reuse_vectors(page.reusable)
        new = [draft for draft in page.drafts if draft.name not in vectors]
        rows = await self._embed_texts([record.text for draft in new for record in draft.records])
        vectors |= _rows_of(new, rows)
        return page, [each.change(vectors[each.name]) for each in page.drafts]

    async def _reuse_vectors(self, drafts: Sequence[Draft]) -> dict[str, Floats]:
        """Return the stored vectors of drafts whose texts did not change."""
        ids = [record.id for draft in drafts for record in draft.records]
        if not ids:
            return {}
        texts = {record.id: record.text for record in await self.store.get_records(ids) if record is not None}
        same = [each for each in drafts if all(texts.get(record.id) == record.text for record in each.records)]
        # Only where there are any: a store may have to read more than what is asked for.
        kept = [record.id for draft in same for record in draft.records]
        return _rows_of(same, await self.store.vectors(kept)) if kept else {}

    async def _embed_texts(self, texts: list[str]) -> Floats:
        answer: Any = await self.embedder.embed_documents(texts) if texts else []
        of = f"the embedder {self.recipe.embedder_id!r}"
        return await in_thread(partial(unit_rows, answer, count=len(texts), dim=self.config["dim"], of=of))

    async def _write(self, page: Page, changes: list[ArtifactChange]) -> None:
        if changes:
            await self.write_settings()
            await self.store.apply(changes)
        self.record(page, changes)
        if self.progress is not None:
            self.progress(self.counts)

    def record(self, page: Page, changes: Sequence[ArtifactChange]) -> None:
        """Count a page that is written."""
        updated = sum(change.entry.artifact_id in page.known for change in changes)
        self.problems.extend(page.problems)
        self.counts = BuildProgress(
            added=self.counts.added + len(changes) - updated,
            updated=self.counts.updated + updated,
            unchanged=self.counts.unchanged + len(page.unchanged),
            problems=len(self.problems),
        )


def report_of(builders: Collection[Builder], *, removed: int = 0, seconds: float) -> BuildReport:
    """Return what builders did together."""
    counts = [builder.counts for builder in builders]
    return BuildReport(
        added=sum(each.added for each in counts),
        updated=sum(each.updated for each in counts),
        unchanged=sum(each.unchanged for each in counts),
        removed=removed,
        problems=tuple(problem for builder in builders for problem in builder.problems),
        seconds=seconds,
    )


def _rows_of(drafts: Sequence[Draft], rows: Floats) -> dict[str, Floats]:
    """Return the rows of each draft, by the name of its artifact."""
    ends = accumulate(len(draft.records) for draft in drafts)
    return {draft.name: rows[end - len(draft.records) : end] for draft, end in zip(drafts, ends, strict=True)}


async def _read(pages: SourcePages, target: "MemoryObjectSendStream[list[Item]]") -> None:
    while page := await pages.next():
        await target.send(page)
    target.close()


async def _stage(
    work: Callable[[In], Awaitable[Out]], source: "MemoryObjectReceiveStream[In]", target: "MemoryObjectSendStream[Out]"
) -> None:
    async for page in source:
        await target.send(await work(page))
    target.close()


async def with_survey(recipe: BuildRecipe, source: Source, page_size: int) -> BuildRecipe:
    """Give the recipe with an extractor that has seen all artifacts of the source, where it holds one that must.

    Problems of items are left to the build.

    Raises:
        SourceError: The source itself cannot be read.
    """
    if not isinstance(recipe.extractor, CorpusWideExtractor):
        return recipe
    survey = await in_thread(recipe.extractor.survey)
    async with aclosing(SourcePages(source, page_size)) as pages:
        while page := await pages.next():
            await in_thread(survey.add, [item for item in page if isinstance(item, Artifact) and _is_sound(item)])
    return recipe.with_extractor(await in_thread(survey.extractor))


def _is_sound(artifact: Artifact) -> bool:
    try:
        return check_id(artifact) != ""
    except SourceError:
        return False

"""The progress of a build: its counts, and the meter that keeps and reports them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from airw._base.concurrency import in_thread
from airw.values import Artifact, ItemProblem

Stage: TypeAlias = Literal["survey", "index", "finish"]


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """The counts of a build so far.

    Args:
        added: The number of artifacts stored for the first time.
        updated: The number of artifacts stored again.
        unchanged: The number of artifacts that were up to date.
        problems: The number of problems; an item may have several.
        read: The number of items read from the source; in the stage `survey`, those of the first of two readings.
        embedded: The number of artifacts whose vectors are made, written or not.
        total: The number of items in the source; `None` if the source cannot tell. It may be a little too high,
            for example because of blank lines.
        stage: `"survey"`: all items are read once, because links need it. `"index"`: the items are read, embedded and
            written. `"finish"`: what the source no longer has is removed, and the floor is measured.

    Example:
        >>> progress = BuildProgress(added=200, unchanged=100, embedded=240, read=500, total=1000)
        >>> progress.written, progress.done, progress.fraction
        (200, 300, 0.34)
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    problems: int = 0
    read: int = 0
    embedded: int = 0
    total: int | None = None
    stage: Stage = "index"

    @property
    def written(self) -> int:
        """Return the number of artifacts that this build has written."""
        return self.added + self.updated

    @property
    def done(self) -> int:
        """Return the number of artifacts that are up to date now."""
        return self.written + self.unchanged

    @property
    def fraction(self) -> float | None:
        """Return the part of the work that is done, from 0 to 1, or `None` without a total.

        An artifact counts when it is unchanged or embedded, because embedding takes most of the time.
        """
        if self.stage == "finish":
            return 1.0
        if not self.total or self.stage == "survey":
            return None if self.total is None else 0.0
        return min(1.0, (self.unchanged + max(self.embedded, self.written)) / self.total)


Progress: TypeAlias = Callable[[BuildProgress], None]


@dataclass(slots=True)
class ProgressMeter:
    """Keeps the counts of a build and reports each change.

    Args:
        report: The caller's function; `None` if nobody listens.
        counts: The counts so far.
    """

    report: Progress | None = None
    counts: BuildProgress = field(default_factory=BuildProgress)

    def advance(self, **counts: Any) -> None:
        """Replace some counts, and report all of them if any has changed."""
        earlier, self.counts = self.counts, replace(self.counts, **counts)
        if self.report is not None and self.counts != earlier:
            self.report(self.counts)

    def add_read(self, items: Sequence[Artifact | ItemProblem]) -> None:
        """Count items that the source has yielded.

        A problem of an item that is indexed all the same is none.
        """
        minor = sum(not item.lost for item in items if type(item) is ItemProblem)
        self.advance(read=self.counts.read + len(items) - minor)

    async def find_total(self, source: object) -> None:
        """Ask the source for its number of items.

        Only if somebody listens, and the source has the method `count_items`. A source that fails here fails again
        when it is read, and the build reports it then.
        """
        count_items: Callable[[], int | None] | None = getattr(source, "count_items", None)
        if self.report is None or count_items is None:
            return
        total = await in_thread(_count_safely, count_items)
        if total is not None:
            self.advance(total=total)


def _count_safely(count_items: Callable[[], int | None]) -> int | None:
    try:
        return count_items()
    except Exception:  # noqa: BLE001 - a number that is only shown must not end a build
        return None

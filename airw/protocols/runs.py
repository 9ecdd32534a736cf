"""The protocol of stores that write an ingest in parts, each part exactly once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from airw.values import ArtifactChange


class RunRows(NamedTuple):
    """The stored rows of an ingest run.

    Args:
        row: The row of the run itself.
        parts: The rows of its parts by part number, ascending.
    """

    row: dict[str, Any]
    parts: dict[int, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class IngestRun:
    """The identity of one ingest run, which writes a corpus in parts.

    Args:
        name: The source of the run, by its name in lower case. A store keeps one run per name: the one that began last.
        mark: A unique text that distinguishes this run from earlier ones of the same name.
        settings: The settings that the corpus must have while parts are written.
    """

    name: str
    mark: str
    settings: Mapping[str, Any]

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Return whether the settings of a corpus contain all those that the run requires."""
        return all(name in config and config[name] == value for name, value in self.settings.items())


@runtime_checkable
class RunKeeper(Protocol):
    """Writes each part of an ingest run exactly once.

    Ingests in partitions need this, because their workers may be killed and their parts repeated. Each part has a row
    of JSON that describes its result. The row is written in the same transaction as the artifacts of the part.
    """

    async def begin_run(self, run: IngestRun, row: Mapping[str, Any], *, removals: Sequence[str] = ()) -> None:
        """Store the row of a new run, and remove artifacts.

        The run replaces an earlier run of the same name with all its parts, so that late workers of that run can no
        longer write.
        """
        ...

    async def read_run(self, run: IngestRun, parts: Sequence[int] | None = None) -> RunRows | None:
        """Return the row of a run and the stored rows of these parts, or of all parts.

        Workers call this to skip a part that is written, and the end of an ingest to find missing parts. Parts that
        have no row yet are absent from the result. The result is `None` if the run was replaced or forgotten.
        """
        ...

    async def apply_part(
        self, run: IngestRun, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        """Write the artifacts of a part as `apply` does, and the row of the part.

        A worker may repeat this call. If the part already has a row, nothing is written.

        Returns:
            The stored row of the part: this one, or the one that it had already. `None` if the run was replaced or
            forgotten, or if the corpus no longer has the settings that the run requires; nothing is written then.

        Raises:
            StoreError: If `apply` would raise it, or if the row is not JSON. Nothing of the call is stored then.
        """
        ...

    async def forget_run(
        self, run: IngestRun, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()
    ) -> None:
        """Delete the rows of these parts, or the whole run, and remove artifacts.

        The end of an ingest forgets the run, and parts that must be written again. The call does nothing if the run
        was replaced or forgotten.
        """
        ...

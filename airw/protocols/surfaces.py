"""The protocol of stores that return first surfaces as columns."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from airw._base.json import deep_copy
from airw.values import Record


class FirstSurfaces(NamedTuple):
    """The first surface of each requested artifact, as columns with one entry per artifact.

    The lists and the mappings are the caller's own.

    Args:
        kinds: The kinds; `None` for an artifact without surfaces and for an unknown one.
        indexes: The positions of the surfaces in their artifacts; `None` for no surface.
        texts: The texts; `""` for no surface.
        metadata: The metadata; empty for no surface.
    """

    kinds: list[str | None]
    indexes: list[int | None]
    texts: list[str]
    metadata: list[dict[str, Any]]

    @classmethod
    def from_records(cls, found: Sequence[Sequence[Record] | None]) -> "FirstSurfaces":
        """Return the surfaces that `records_of` has found.

        Example:
            >>> FirstSurfaces.from_records([[Record("1", "a.md", "chunk", 0, "keys")], None]).texts
            ['keys', '']
        """
        records = [of_artifact[0] if of_artifact else None for of_artifact in found]
        return cls(
            [None if record is None else record.surface_kind for record in records],
            [None if record is None else record.surface_index for record in records],
            ["" if record is None else record.text for record in records],
            [{} if record is None else deep_copy(record.metadata) for record in records],
        )


@runtime_checkable
class FirstSurfaceReader(Protocol):
    """Reads the first surfaces of artifacts as columns.

    If a store has this capability, a walk along links makes its hits from it, without a record for each.
    """

    async def first_surfaces(self, artifact_ids: Sequence[str]) -> FirstSurfaces:
        """Return the first surface of each artifact, as `records_of` does with a limit of 1."""
        ...

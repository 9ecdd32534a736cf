"""The protocol of stores whose whole content can be read, such as for a copy."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from airw.values import ArtifactChange, Language


@dataclass(frozen=True, slots=True, eq=False)
class StoreContent:
    """The whole content of a store at one moment.

    Args:
        config: The settings.
        calibrations: The calibrations by key.
        language: The language of the texts.
        artifact_ids: The ids of all artifacts, sorted.
        read: An async function of some of these ids that returns their artifacts in the same order, as they were
            written: ledger entry, records, vectors, links and names.
    """

    config: Mapping[str, Any]
    calibrations: Mapping[str, Mapping[str, Any]]
    language: Language | None
    artifact_ids: Sequence[str]
    read: Callable[[Sequence[str]], Awaitable[list[ArtifactChange]]]


class ContentReader(Protocol):
    """Reads the whole content of a store at one moment, while others write."""

    def hold_content(self) -> AbstractAsyncContextManager[StoreContent]:
        """Return an async context manager that yields the content.

        It is held until the end of the block. Copies from one kind of store to another read it page by page. Writes
        meanwhile do not change it.

        Raises:
            StoreError: On entering, if the store cannot be read.
        """
        ...

"""A look at whether a file has changed, quick enough for the event loop."""

from pathlib import Path
from typing import TypeAlias

from airw.stores.sqlite._schema import read_immutable_state, translate_errors


class FileWatch:
    """A look at the version of an open file, in microseconds and without waiting.

    It has a connection of its own, which no thread uses. Close it before the other connections to the file.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, which another connection has open.

        Raises:
            StoreError: If that fails, such as without free file descriptors.
        """
        import sqlite3

        mode = "ro&immutable=1" if read_immutable_state(path) else "ro"
        with translate_errors(path):
            self._raw: sqlite3.Connection = sqlite3.connect(
                f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=0
            )

    def read_version(self) -> "FileVersion | None":
        """Return the present version of the file; `None` if that is unknown."""
        import sqlite3

        try:
            (number,) = self._raw.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:  # another process recovers the file, or this connection is closed
            return None
        return self, number

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        self._raw.close()


FileVersion: TypeAlias = tuple[FileWatch, int]
"""A state of a file, as one watch has seen it. Two states are equal if nobody has written in between."""

"""Folders of which only some files may be disclosed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """A folder whose files may be read, except some; it may be one of `roots`.

    Args:
        path: The folder.
        hidden: Whether files may be read whose name, or that of a folder between, begins with a dot.
        is_open: Returns whether a file or a folder below it may be read, from its path, after links are resolved.
    """

    path: Path
    hidden: bool = True
    is_open: Callable[[Path], bool] = lambda _: True

    def __fspath__(self) -> str:
        return str(self.path)

    def resolve(self) -> "OpenFolder":
        """Return the folder without links."""
        return replace(self, path=self.path.resolve())

    def contains(self, path: Path) -> bool:
        """Return whether a path without links may be read."""
        if not path.is_relative_to(self.path):
            return False
        names = path.relative_to(self.path).parts
        return (self.hidden or not any(name.startswith(".") for name in names)) and self.is_open(path)

"""Read the file that a pointer names, and list the files beside it, below allowed folders.

All functions block.
"""

import os
import stat
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from airw._base.checks import find_text_fault
from airw.discovery.open_folders import OpenFolder

MAX_CHARS = 20_000
MAX_FILES = 1_000

OUTSIDE = "pointer_outside_roots"
UNREADABLE = "pointer_unreadable"
NOT_TEXT = "pointer_not_text"
TRUNCATED = "truncated"
BUNDLE_TRUNCATED = "bundle_truncated"

_READMES = ("README.md", "README.rst", "README.txt")
_SKILL = "SKILL.md"
# Enough bytes to find out that a text is too long: a character takes up to 4 bytes, a byte order mark 3.
_MAX_BYTES = 4 * (MAX_CHARS + 1) + 3
# A pipe without a writer must not block, and a link that replaces the file after the check must not be followed.
_OPEN_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True)
class Contents:
    """The text of an artifact, and the files beside it.

    `note` is the reason if something is missing or cut.
    """

    text: str | None = None
    note: str | None = None
    truncated: bool = False
    files: tuple[str, ...] = ()


def read_body(pointer: str, roots: Sequence[OpenFolder]) -> Contents:
    """Read the file that a pointer names, or the README of the folder.

    It must be below one of the roots, which are resolved already.
    """
    try:
        path = Path(pointer).resolve()
        if _is_below(path, roots) and path.is_dir():
            # The README may be a link that leads out of the roots, so it is resolved and checked too.
            path = _readme(path).resolve()
        return _read_text(path) if _is_below(path, roots) else Contents(note=OUTSIDE)
    except (OSError, ValueError, RuntimeError):  # a NUL in the pointer is a ValueError, a loop of links a RuntimeError
        return Contents(note=UNREADABLE)


def read_bundle(pointer: str, roots: Sequence[OpenFolder]) -> Contents:
    """List the files beside a SKILL.md, or beside the README of a folder.

    The folder must be below one of the roots, which are resolved already.
    """
    try:
        path = Path(pointer).resolve()
        if not _is_below(path, roots):
            return Contents(note=OUTSIDE)
        if path.is_dir():
            folder, body_name = path, _readme(path).name
        elif path.name == _SKILL and _is_below(path.parent, roots):
            folder, body_name = path.parent, path.name
        else:
            return Contents()
        others = (name for name in _walk_files(folder, roots) if name != body_name)
        # One more than is returned, to find out whether there are more.
        files = tuple(islice(others, MAX_FILES + 1))
    except (OSError, ValueError, RuntimeError):
        return Contents(note=UNREADABLE)
    return Contents(note=BUNDLE_TRUNCATED if len(files) > MAX_FILES else None, files=files[:MAX_FILES])


def _is_below(path: Path, roots: Sequence[OpenFolder]) -> bool:
    return any(root.contains(path) for root in roots)


def _readme(folder: Path) -> Path:
    """Return the README of a folder; a missing path if it has none."""
    candidates = [folder / name for name in _READMES]
    return next((path for path in candidates if path.is_file()), candidates[0])


def _read_text(path: Path) -> Contents:
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _OPEN_FLAGS)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return Contents(note=UNREADABLE)
        data = file.read(_MAX_BYTES)
    try:
        # The last character may be cut in the middle; only a file that ends here must end well.
        text = getincrementaldecoder("utf-8-sig")().decode(data, final=len(data) < _MAX_BYTES)
    except UnicodeDecodeError:
        return Contents(note=NOT_TEXT)
    if "\0" in text:  # binary, or text in UTF-16
        return Contents(note=NOT_TEXT)
    is_too_long = len(text) > MAX_CHARS
    return Contents(text[:MAX_CHARS], TRUNCATED if is_too_long else None, is_too_long)


def _walk_files(folder: Path, roots: Sequence[OpenFolder]) -> Iterator[str]:
    """Yield the sorted relative POSIX paths of files, without links and hidden files.

    What may not be read is left out.

    A folder is listed only when the caller gets there, so folders behind the last used path cost nothing.
    """
    stack = _list_folder(folder, "")
    while stack:
        name = stack.pop()
        if not _is_below(folder / name, roots):
            continue
        if not name.endswith("/"):
            yield name
            continue
        try:
            stack += _list_folder(folder, name)
        except OSError:  # a folder that may not be listed; its siblings are still listed
            continue


def _list_folder(folder: Path, subfolder: str) -> list[str]:
    """Return the entries of a subfolder in descending order.

    The caller pops from the end, so it gets the first one first. Names of folders end in `/`, so that they sort like
    the paths of their files.
    """
    names = []
    with os.scandir(folder / subfolder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or find_text_fault(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                names.append(f"{subfolder}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                names.append(f"{subfolder}{entry.name}")
    return sorted(names, reverse=True)

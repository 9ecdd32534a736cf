"""The text that a pointer names, and the files beside it, as far as they lie below given folders; all of it blocks."""

import os
import stat
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from airw._base.checks import find_text_fault

MAX_CHARS = 20_000
MAX_FILES = 1_000

OUTSIDE = "pointer_outside_roots"
UNREADABLE = "pointer_unreadable"
NOT_TEXT = "pointer_not_text"
TRUNCATED = "truncated"
BUNDLE_TRUNCATED = "bundle_truncated"

_READMES = ("README.md", "README.rst", "README.txt")
_SKILL = "SKILL.md"
_BYTES = 4 * (MAX_CHARS + 1) + 3  # one character too many, at their longest, behind a byte order mark
# A pipe without a writer must not hang, nor a link that has just been put in the place of a file be followed.
_CAREFUL = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True)
class Body:
    """A text, or the note that says why there is none, or not all of it."""

    text: str | None = None
    note: str | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Bundle:
    """The files beside a body, and the note that says why they are not all."""

    files: tuple[str, ...] = ()
    note: str | None = None


def read_body(pointer: str, roots: Sequence[Path]) -> Body:
    """Read the file that a pointer names, or the README of a folder, where it lies below one of the resolved roots."""
    try:
        path = Path(pointer).resolve()
        if _below(path, roots) and path.is_dir():
            path = _readme(path).resolve()
        return _text(path) if _below(path, roots) else Body(note=OUTSIDE)
    except (OSError, ValueError, RuntimeError):  # a NUL in the pointer is a ValueError, a loop of links a RuntimeError
        return Body(note=UNREADABLE)


def read_bundle(pointer: str, roots: Sequence[Path]) -> Bundle:
    """List the files beside a SKILL.md, or beside the README of a folder, below the resolved roots."""
    try:
        path = Path(pointer).resolve()
        if not _below(path, roots):
            return Bundle(note=OUTSIDE)
        if path.is_dir():
            folder, own = path, _readme(path).name
        elif path.name == _SKILL and _below(path.parent, roots):
            folder, own = path.parent, path.name
        else:
            return Bundle()
        others = (name for name in _files(folder) if name != own)
        files = tuple(islice(others, MAX_FILES + 1))
    except (OSError, ValueError, RuntimeError):
        return Bundle(note=UNREADABLE)
    return Bundle(files[:MAX_FILES], BUNDLE_TRUNCATED if len(files) > MAX_FILES else None)


def _below(path: Path, roots: Sequence[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _readme(folder: Path) -> Path:
    """Give the file that stands for a folder; one that is not there where it has none."""
    named = [folder / name for name in _READMES]
    return next((path for path in named if path.is_file()), named[0])


def _text(path: Path) -> Body:
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _CAREFUL)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return Body(note=UNREADABLE)
        data = file.read(_BYTES)
    try:
        text = getincrementaldecoder("utf-8-sig")().decode(data, final=len(data) < _BYTES)
    except UnicodeDecodeError:
        return Body(note=NOT_TEXT)
    if "\0" in text:  # binary, or text in UTF-16
        return Body(note=NOT_TEXT)
    cut = len(text) > MAX_CHARS
    return Body(text[:MAX_CHARS], TRUNCATED if cut else None, cut)


def _files(folder: Path) -> Iterator[str]:
    """Yield relative POSIX paths in their order, reading no further than is asked; links and hidden ones left out."""
    waiting = _listed(folder, "")
    while waiting:
        name = waiting.pop()
        if not name.endswith("/"):
            yield name
            continue
        try:
            waiting += _listed(folder, name)
        except OSError:  # a folder that may not be listed hides its files, no others
            continue


def _listed(folder: Path, below: str) -> list[str]:
    """Give what one folder holds, last first; folders end in `/`, so that they sort as the paths of their files do."""
    names = []
    with os.scandir(folder / below) as entries:
        for entry in entries:
            if entry.name.startswith(".") or find_text_fault(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                names.append(f"{below}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                names.append(f"{below}{entry.name}")
    return sorted(names, reverse=True)

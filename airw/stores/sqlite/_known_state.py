"""Remembers that only airw has changed a file since it was found whole.

Then a build need not read all of it again. The inode, time and size of the file are kept in its lock file. A store
that opened a file in a known state notes the state when it closes. If the file was changed by other means, or SQLite
was interrupted while it copied the log into it, the state is unknown.
"""

from contextlib import suppress
from pathlib import Path


def is_new(path: Path) -> bool:
    """Return whether there is no file yet."""
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def is_state_known(path: Path) -> bool:
    """Return whether the file is as a check or an orderly close left it."""
    try:
        return _lock_path(path).read_text(encoding="ascii") == _describe_state(path)
    except (OSError, ValueError):
        return False


def note_state(path: Path) -> None:
    """Note the present state of a file as known; do nothing if it was never locked."""
    with suppress(OSError):
        if _lock_path(path).exists() and not is_state_known(path):
            _lock_path(path).write_text(_describe_state(path), encoding="ascii")


def _describe_state(path: Path) -> str:
    status = path.stat()
    return f"{status.st_ino} {status.st_mtime_ns} {status.st_size}\n"


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + "-lock")

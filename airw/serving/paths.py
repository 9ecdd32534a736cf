"""Paths of the server's disk, which must not leave it: in metadata, and in messages."""

import re
from collections.abc import Sequence, Set as AbstractSet
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

PATH_KEYS = frozenset(
    {
        "airw_path",
        "base_path",
        "cwd",
        "directory",
        "file",
        "filename",
        "folder",
        "location",
        "manifest",
        "parent",
        "path",
        "pointer",
        "projects_root",
        "root",
        "roots",
        "skill_path",
        "source_path",
    }
)
"""The fields of metadata that contain paths."""
_TEXT_KEYS = frozenset({"body", "passage", "query", "summary", "text"})
"""The fields that contain the words of documents, which stay as they are."""
MESSAGE_KEYS = frozenset({"detail", "disclosure", "error", "expansion", "floor_note", "reason"})
"""The fields that contain messages of errors."""

_ID_KEYS = frozenset({"artifact_id", "id", "ids", "record_id", "ref", "source", "target", "walk_parent", "walk_path"})
"""The fields that contain ids, by which clients ask again."""
_IDS_IN_METADATA = frozenset({"walk_parent", "walk_path"})
"""The same of metadata, whose other fields are the author's own: a loader may write a path to `source`."""

_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\|file:")
_LONGEST = 4_096  # characters of a path
_LONGEST_NAME = 256  # bytes of the name of a folder
_URL = re.compile(r"\b([a-z][a-z0-9+.-]{1,20})://[^\s'\"<>]+", re.IGNORECASE)
# In quotes, a path may contain spaces.
_QUOTED = re.compile(r"(?<=['\"])(?:[A-Za-z]:)?[\\/](?:[^'\"\\/\n]+[\\/]+)+(?=[^'\"\\/\n]*['\"])")
_BARE = re.compile(r"(?<![\w.:/\\…'\"])(?:[A-Za-z]:)?[\\/](?:[^\s'\"\\/:,;()]+[\\/]+)+")


def hide_paths(value: Any, folders: Sequence[PurePath] = ()) -> Any:
    """Return a JSON value without absolute paths of this machine.

    A path below one of the folders becomes relative to it. Of any other, only the last part stays. The texts of
    documents stay as they are.

    Args:
        value: A JSON value, such as `SearchHit.to_dict()`.
        folders: Absolute folders whose structure a client may see.

    Example:
        >>> hit = {"artifact_id": "a.md", "text": "see /etc/hosts", "metadata": {"path": "/srv/notes/team/a.md"}}
        >>> hide_paths(hit)["metadata"], hide_paths(hit, [PurePosixPath("/srv/notes")])["metadata"]
        ({'path': 'a.md'}, {'path': 'team/a.md'})
    """
    return _hide(value, "", folders, _ID_KEYS)


def _hide(value: Any, key: str, folders: Sequence[PurePath], id_keys: AbstractSet[str]) -> Any:
    if isinstance(value, str):
        return _hide_string(value, key, folders, id_keys)
    if isinstance(value, dict):
        if key == "metadata":
            id_keys = _IDS_IN_METADATA
        return {_hide_name(name, folders, id_keys): _hide(item, name, folders, id_keys) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(item, key, folders, id_keys) for item in value]
    return value


def _hide_name(name: str, folders: Sequence[PurePath], id_keys: AbstractSet[str]) -> str:
    """Return the name of a field; outside of metadata, it may be an id."""
    return _hide_string(name, "", folders, id_keys) if id_keys is _IDS_IN_METADATA else name


def _hide_string(value: str, key: str, folders: Sequence[PurePath], id_keys: AbstractSet[str]) -> str:
    if key in MESSAGE_KEYS:
        return hide_in_message(value)
    if key in _TEXT_KEYS or _ABSOLUTE.match(value) is None:
        return value
    if key in PATH_KEYS or (len(value) <= _LONGEST and _below(value, folders) is not None):
        return _shorten(value, folders)
    return _shorten(value, folders) if key not in id_keys and _is_of_this_machine(value) else value


def _is_of_this_machine(value: str) -> bool:
    """Return whether an absolute path in a field of the author's own is one of this machine.

    It may be the address of a page, such as /2026/05/keys: only folders that are at the top of the disk count.
    """
    if len(value) > _LONGEST or "\n" in value:
        return False
    if not value.startswith("/"):
        return not value.startswith("file:") or value.startswith("file:/")
    top, deeper, _ = value[1:].partition("/")
    return bool(deeper) and _is_top_folder(top)


@lru_cache(maxsize=1024)
def _is_top_folder(name: str) -> bool:
    return 0 < len(name.encode(errors="replace")) < _LONGEST_NAME and "\0" not in name and Path("/", name).is_dir()


def _shorten(path: str, folders: Sequence[PurePath]) -> str:
    below = _below(path, folders)
    if below is not None:
        return below
    is_windows = not path.startswith("/")
    return PureWindowsPath(path).name if is_windows else PurePosixPath(path).name


def _below(path: str, folders: Sequence[PurePath]) -> str | None:
    """Return a path relative to the deepest folder that contains it; `None` if none does."""
    if not folders or "\n" in path:
        return None
    pure = type(folders[0])(path)
    if ".." in pure.parts:
        return None
    relative = [pure.relative_to(folder) for folder in folders if pure.is_relative_to(folder)]
    return min((each.as_posix() for each in relative), key=len, default=None)


def hide_in_message(text: str) -> str:
    """Return a message without absolute paths, except their last part, and addresses.

    Example:
        >>> hide_in_message("'/srv/kb/notes.airw' is damaged; see /var/log/kb.log")
        "'…/notes.airw' is damaged; see …/kb.log"
        >>> hide_in_message("the server at 'http://10.0.0.7:8080/v1' refuses")
        "the server at 'http://…' refuses"
    """
    text = _URL.sub(r"\1://…", text)
    return _BARE.sub("…/", _QUOTED.sub("…/", text))

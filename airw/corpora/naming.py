"""Names and paths of corpora: where their files are.

A corpus is one file, `corpora/<name>.airw` in the home folder: `$AIRW_HOME`, else `$XDG_DATA_HOME/airw`, else
`~/.local/share/airw`. Or it is on a server, if it is registered with a `store`. A string is a name unless it contains
a path separator or ends in `.airw`. An `os.PathLike` is always a path.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from airw._base.checks import NAME_RULE, is_valid_name
from airw.errors import ArgumentError, CorpusNotFound
from airw.stores import hide_password, is_server_address, refuse_mistaken_address

PRESETS = ("packages", "reports", "skills")
"""The kinds that can be built by their own name, without being registered first."""

_SUFFIX = ".airw"
_MOST_LISTED = 30  # names of corpora in a message


def home() -> Path:
    """Return the home folder of airw, which need not exist.

    It contains the registry, the corpora, and the embedders that the user named in builds.
    """
    if folder := os.environ.get("AIRW_HOME"):
        return Path(folder).expanduser()
    data_home = os.environ.get("XDG_DATA_HOME")
    return (Path(data_home) if data_home else Path.home() / ".local" / "share") / "airw"


def is_corpus_name(name_or_path: str | os.PathLike[str]) -> bool:
    """Return whether a string or path is read as the name of a corpus, not as a path.

    Example:
        >>> [is_corpus_name(value) for value in ("notes", "./notes", "notes.airw", Path("notes"))]
        [True, False, False, False]
    """
    if not isinstance(name_or_path, str):
        return False
    return not name_or_path.endswith(_SUFFIX) and not {"/", os.sep, os.altsep}.intersection(name_or_path)


def corpus_path(name_or_path: str | os.PathLike[str]) -> Path:
    """Return the path of a corpus file, whether the file exists or not.

    Names are compared without case: "Notes" finds the file of a corpus named "notes".

    Raises:
        ArgumentError: If it is neither a path nor a valid name of a corpus.

    Example:
        >>> corpus_path("notes").name
        'notes.airw'
    """
    if not isinstance(name_or_path, str | os.PathLike):
        raise ArgumentError(f"name_or_path must be a string or a path, not {name_or_path!r}")
    if is_server_address(name_or_path):
        raise ArgumentError(f"{hide_password(str(name_or_path))!r} is on a server and has no file; name a file")
    refuse_mistaken_address("the name of a corpus", os.fspath(name_or_path))
    if not is_corpus_name(name_or_path):
        return Path(name_or_path)
    name = os.fspath(name_or_path)
    if not is_valid_name(name):
        raise ArgumentError(f"{name[:120]!r} cannot name a corpus: use {NAME_RULE}")
    # An existing file decides the spelling, so that "Notes" and "notes" never become two corpora.
    existing = {file_name.casefold(): file_name for file_name in _file_names()}
    return _folder() / f"{existing.get(name.casefold(), name)}{_SUFFIX}"


def corpus_names() -> list[str]:
    """Return the names of all corpora in the home folder, sorted.

    Those that are registered with a `store` are among them, built or not: no server is asked.

    Example:
        >>> corpus_names()
        []
    """
    on_servers = list_registered_stores()
    folded = {name.casefold() for name in on_servers}
    return sorted([*on_servers, *(name for name in _file_names() if name.casefold() not in folded)])


def list_registered_stores() -> dict[str, str]:
    """Return the addresses of the corpora that are registered on servers, by name.

    Opening a corpus must not load what definitions need, so this reads the registry without checking the rest. A
    registry that is damaged or cannot be read has none: opening a file needs no registry.
    """
    try:
        content = json.loads((home() / "registry.json").read_bytes())
        entries = [(name, entry.get("store")) for name, entry in content["corpora"].items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {name: store for name, store in entries if is_server_address(store) and is_valid_name(name)}


def find_corpus_path(name_or_path: str | os.PathLike[str]) -> Path:
    """Return the path of an existing corpus file.

    Raises:
        ArgumentError: If it is neither a path nor a valid name of a corpus.
        CorpusNotFound: If there is no such file. For a name, the message lists similar names.
    """
    path = corpus_path(name_or_path)
    try:
        if path.is_file():
            return path
    except OSError:  # the file may exist: opening it raises the exact error
        return path
    if not is_corpus_name(name_or_path):
        raise CorpusNotFound(f"there is no corpus at {str(path)!r}; build(source, store=Path(...)) creates one")
    names = corpus_names()
    hint = f"; known: {list_similar_first(path.stem, names)}" if names else ", and no other corpus"
    raise CorpusNotFound(f"there is no corpus {path.stem!r} in {str(path.parent)!r}{hint}; build(source) creates one")


def list_similar_first(name: str, names: Iterable[str]) -> str:
    """Return names separated by commas: those similar to `name`, then the others.

    At most 30 are listed, and the rest is counted.

    Example:
        >>> list_similar_first("notez", ["drafts", "notes", "vault"])
        'notes, drafts, vault'
    """
    import difflib

    known = sorted(names)
    ordered = list(dict.fromkeys([*difflib.get_close_matches(name, known), *known]))
    more = f" and {len(ordered) - _MOST_LISTED} more" if len(ordered) > _MOST_LISTED else ""
    return f"{', '.join(ordered[:_MOST_LISTED])}{more}"


def _file_names() -> list[str]:
    return sorted(file.stem for file in _folder().glob(f"*{_SUFFIX}") if is_valid_name(file.stem))


def _folder() -> Path:
    return home() / "corpora"

"""Names and paths of corpora: where their files are.

A corpus is one file, `corpora/<name>.airw` under `$AIRW_HOME`, else `$XDG_DATA_HOME/airw`, else `~/.local/share/airw`.
A string is a name unless it holds a separator or ends in `.airw`; an `os.PathLike` is always a path.
"""

import os
from pathlib import Path

from airw._base.checks import NAME_RULE, is_valid_name
from airw.errors import ArgumentError, CorpusNotFound

_SUFFIX = ".airw"


def home() -> Path:
    """Give the folder that holds what airw keeps; it need not exist."""
    if own := os.environ.get("AIRW_HOME"):
        return Path(own).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "airw"


def is_corpus_name(name_or_path: str | os.PathLike[str]) -> bool:
    """Say whether something means a corpus by its name rather than by its path.

    Example:
        >>> [is_corpus_name(each) for each in ("notes", "./notes", "notes.airw", Path("notes"))]
        [True, False, False, False]
    """
    if not isinstance(name_or_path, str):
        return False
    return not name_or_path.endswith(_SUFFIX) and not {"/", os.sep, os.altsep}.intersection(name_or_path)


def corpus_path(name_or_path: str | os.PathLike[str]) -> Path:
    """Give the file of a corpus, whether it exists or not; a name finds its file whatever the case of its letters.

    Raises:
        ArgumentError: It is neither a path nor a name that a corpus can have.

    Example:
        >>> corpus_path("notes").name
        'notes.airw'
    """
    if not isinstance(name_or_path, str | os.PathLike):
        raise ArgumentError(f"a corpus is named by a string or a path, not {name_or_path!r}")
    if not is_corpus_name(name_or_path):
        return Path(name_or_path)
    name = os.fspath(name_or_path)
    if not is_valid_name(name):
        raise ArgumentError(f"{name[:120]!r} cannot name a corpus: use {NAME_RULE}")
    spelled = {known.casefold(): known for known in corpus_names()}
    return _folder() / f"{spelled.get(name.casefold(), name)}{_SUFFIX}"


def corpus_names() -> list[str]:
    """Give the names of all corpora in the home folder, sorted.

    Example:
        >>> corpus_names()
        []
    """
    return sorted(file.stem for file in _folder().glob(f"*{_SUFFIX}") if is_valid_name(file.stem))


def find_corpus_path(name_or_path: str | os.PathLike[str]) -> Path:
    """Give the file of a corpus that exists.

    Raises:
        CorpusNotFound: There is none; where a name was given, the message lists those like it.
    """
    path = corpus_path(name_or_path)
    try:
        if path.is_file():
            return path
    except OSError:  # it may be there: opening it says what is wrong
        return path
    if not is_corpus_name(name_or_path):
        raise CorpusNotFound(f"there is no corpus at {str(path)!r}; build(source, store=Path(...)) makes one")
    import difflib

    near = difflib.get_close_matches(path.stem, corpus_names()) or corpus_names()[:3]
    known = f"; known: {', '.join(near)}" if near else ", nor any other"
    raise CorpusNotFound(f"there is no corpus {path.stem!r} in {str(path.parent)!r}{known}; build(source) makes one")


def _folder() -> Path:
    return home() / "corpora"

"""Which artifacts the words of a command mean."""

import difflib
import os
import unicodedata
from collections.abc import Sequence
from typing import NoReturn

from airw._base.concurrency import in_thread
from airw.errors import ArgumentError, NoLedgerEntry
from airw.protocols import OpenCorpus

__all__ = ["artifact_ids"]

_PATHS = ("path", "skill_path")
_MOST_COMPARED = 20_000  # ids, in about half a second
_MOST_NAMED = 5


async def artifact_ids(corpus: OpenCorpus, words: Sequence[str]) -> list[str]:
    """Give the artifact that each word means: by its id, else the path of its file, else a name that links give it.

    Six store calls at most, however many words there are.

    Raises:
        ArgumentError: One means several; the message names them.
        NoLedgerEntry: One means none; the message names ids like it.
    """
    entries = await corpus.store.ledger(words) if words else []
    found = {word: [word] for word, entry in zip(words, entries, strict=True) if entry is not None}
    found |= await _by_path(corpus, [word for word in words if word not in found])
    found |= await _by_name(corpus, [word for word in words if word not in found])
    for word in words:
        if word not in found:
            await _refuse(corpus, word)
        if len(found[word]) > 1:
            named = ", ".join(map(repr, found[word][:_MOST_NAMED]))
            more = f" and {len(found[word]) - _MOST_NAMED} more" if len(found[word]) > _MOST_NAMED else ""
            raise ArgumentError(
                f"{word!r} means several documents of {corpus.name!r}: {named}{more}; give the id of one"
            )
    return [found[word][0] for word in words]


async def _by_path(corpus: OpenCorpus, words: Sequence[str]) -> dict[str, list[str]]:
    """Find those that are paths of files here, as the metadata of artifacts tell theirs."""
    paths = [(word, path) for word in words for path in _paths(word)]
    wanted = [(field, path) for field in _PATHS for _, path in paths]
    matches = await corpus.store.matching(wanted) if wanted else []
    found: dict[str, list[str]] = {}
    for (word, _), ids in zip(paths * len(_PATHS), matches, strict=True):
        if ids:
            found.setdefault(word, ids)
    return found


def _paths(word: str) -> list[str]:
    if not os.path.exists(word):  # noqa: PTH110 - a Path's may raise
        return []
    return list(dict.fromkeys([os.path.abspath(word), os.path.realpath(word)]))  # noqa: PTH100 - links as they are, too


async def _by_name(corpus: OpenCorpus, words: Sequence[str]) -> dict[str, list[str]]:
    """Find those that are names, as they are, else whatever their case."""
    found: dict[str, list[str]] = {}
    for spelled in (str, _folded):
        left = [word for word in words if word not in found]
        meant = await corpus.store.resolve([spelled(word) for word in left]) if left else []
        found |= {word: ids for word, ids in zip(left, meant, strict=True) if ids}
    return found


def _folded(word: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).casefold())


async def _refuse(corpus: OpenCorpus, word: str) -> NoReturn:
    known = (await corpus.store.artifact_ids())[:_MOST_COMPARED]
    near = await in_thread(_near, word, known)
    hint = f"; similar: {', '.join(map(repr, near))}" if near else ""
    here = ", though there is such a file" if _paths(word) else ""
    raise NoLedgerEntry(f"corpus {corpus.name!r} holds no {word!r}, as an id, a path or a name{here}{hint}")


def _near(word: str, ids: Sequence[str]) -> list[str]:
    by_fold: dict[str, str] = {}
    for id in ids:
        name = id.rpartition("/")[2]
        for form in (id, name, name.rpartition(".")[0] or name):
            by_fold.setdefault(_folded(form), id)
    matches = difflib.get_close_matches(_folded(word), by_fold, n=_MOST_NAMED)
    return list(dict.fromkeys(by_fold[form] for form in matches))

"""The corpora of a server: by name, opened at their first use."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import anyio

from airw._base.checks import NAME_RULE, is_valid_name
from airw._base.messages import short_repr
from airw.corpora import open_corpus
from airw.corpora.naming import list_similar_first
from airw.corpora.places import locate
from airw.errors import ArgumentError, CorpusNotFound
from airw.protocols import OpenCorpus
from airw.retrieval import check_corpus

Servable: TypeAlias = "OpenCorpus[Any] | str | os.PathLike[str]"
"""An open corpus, or the name, path or address of one."""

ServableCorpora: TypeAlias = "Sequence[Servable] | Mapping[str, Servable]"


class ServedCorpora:
    """The corpora of a server, by the names that clients use.

    Those that were named are opened at their first use, and closed by `aclose`. What they write waits for the disk, so
    that an acknowledged write survives a power failure. Open corpora stay open: their opener closes them.

    Args:
        corpora: Open corpora, or names, paths or addresses of corpora. A mapping gives them other names.

    Raises:
        ArgumentError: If there is none, two have the same name, or one is no corpus.
    """

    def __init__(self, corpora: ServableCorpora) -> None:
        self._places = _name_corpora(corpora)
        self._opened: dict[str, OpenCorpus[Any]] = {}
        self._turns = {name: anyio.Lock() for name in self._places}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all corpora, in the order of the operator."""
        return tuple(self._places)

    async def get(self, name: str, *, visible: Iterable[str]) -> OpenCorpus[Any]:
        """Return the corpus of a name, open.

        Args:
            name: The name.
            visible: The names that the caller may see, for the message.

        Raises:
            CorpusNotFound: If the caller may not see such a corpus, or it was removed.
            StoreError: If it cannot be opened.
        """
        allowed = [each for each in visible if each in self._places]
        if name not in allowed:
            known = f"; known: {list_similar_first(name, allowed)}" if allowed else ""
            raise CorpusNotFound(f"there is no corpus {short_repr(name)} here{known}")
        place = self._places[name]
        if not isinstance(place, str | os.PathLike):
            return place
        async with self._turns[name]:
            if name not in self._opened:
                # A file can wait for the disk at each write; a server has its own settings.
                is_file = isinstance(locate(place).place, os.PathLike)
                self._opened[name] = await open_corpus(place, durability="full" if is_file else "normal")
        return self._opened[name]

    async def aclose(self) -> None:
        """Close the corpora that this object opened."""
        with anyio.CancelScope(shield=True):
            for name in list(self._opened):
                await self._opened.pop(name).aclose()  # type: ignore[attr-defined]


def _name_corpora(corpora: ServableCorpora) -> dict[str, Servable]:
    if isinstance(corpora, Mapping):
        pairs = list(corpora.items())
    elif isinstance(corpora, list | tuple):
        pairs = [(_name_of(corpus), corpus) for corpus in corpora]
    else:
        raise ArgumentError(
            f"corpora must be a list of corpora, or a mapping of them by name, not {short_repr(corpora)}"
        )
    if not pairs:
        raise ArgumentError("corpora must contain at least one corpus")
    named: dict[str, Servable] = {}
    for name, corpus in pairs:
        if not is_valid_name(name):
            raise ArgumentError(f"{short_repr(name)} cannot name a corpus: use {NAME_RULE}")
        if name.casefold() in map(str.casefold, named):
            raise ArgumentError(f"two corpora are named {name!r}; pass a mapping with different names")
        named[name] = corpus
    return named


def _name_of(corpus: Servable) -> str:
    if isinstance(corpus, str | os.PathLike):
        location = locate(corpus)
        return location.name or location.default_name
    return check_corpus(corpus).name

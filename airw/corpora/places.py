"""Where a corpus is: in a file, or on a server."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from airw._base.checks import NAME_RULE, is_valid_name
from airw._base.messages import short_repr
from airw.corpora.naming import corpus_path, find_corpus_path, is_corpus_name, list_registered_stores
from airw.errors import ArgumentError
from airw.stores import (
    Durability,
    SqliteStore,
    check_corpus_address,
    hide_password,
    is_server_address,
    split_corpus,
)
from airw.values import Language

if TYPE_CHECKING:
    from airw.stores import PostgresStore


@dataclass(frozen=True, slots=True, repr=False)
class CorpusAddress:
    """The address of a corpus on a PostgreSQL server.

    It is written `postgresql://host/database#name`. `str` and `repr` show no password.

    Args:
        server: The address of the database. In the place of the password, it may contain `$NAME`, the name of an
            environment variable.
        name: The name of the corpus.

    Example:
        >>> print(CorpusAddress("postgresql://ada:secret@db.example/kb", "notes"))
        postgresql://ada@db.example/kb#notes
    """

    server: str
    name: str

    @classmethod
    def parse(cls, text: str, default_name: str | None = None) -> "CorpusAddress":
        """Return the address that a text contains; a text without a name has the default.

        Raises:
            ArgumentError: If no corpus can have the name, there is neither a name nor a default, or one cannot connect
                with the address.
        """
        server, name = split_corpus(text)
        name = default_name if name is None else name
        if name is None:
            raise ArgumentError(
                f"{short_repr(hide_password(text))} is the address of a database, not of a corpus in it; add the name "
                "of one after '#', such as #notes"
            )
        if not is_valid_name(name):
            raise ArgumentError(
                f"{name[:120]!r} in {short_repr(hide_password(text))} cannot name a corpus: use {NAME_RULE}"
            )
        check_corpus_address(server, name)
        return cls(server, name)

    def __str__(self) -> str:
        """Return the address without its password."""
        return f"{hide_password(self.server)}#{self.name}"

    def __repr__(self) -> str:
        return f"CorpusAddress({str(self)!r})"

    async def open(self) -> "PostgresStore":
        """Open the store of the corpus; close it with `aclose`.

        Raises:
            CorpusNotFound: If there is no such corpus.
            StoreError: If the server cannot be reached, or the extra `postgres` is missing.
        """
        from airw.stores import PostgresStore

        return await PostgresStore.open(self.server, self.name)

    def new_store(self, language: Language | None = "en") -> "PostgresStore":
        """Return the store of the corpus, which is not open yet; a new corpus has this language."""
        from airw.stores import PostgresStore

        return PostgresStore(self.server, self.name, language=language)


Place: TypeAlias = Path | CorpusAddress


class Location(NamedTuple):
    """Where a corpus is, and by which name the caller called it.

    Args:
        place: The path of its file, or its address.
        name: The name, as it is spelled where it is known; `None` for a path or an address.
    """

    place: Place
    name: str | None = None

    def name_in(self, config: dict[str, Any]) -> str:
        """Return the name of the corpus with these settings."""
        if self.name is not None:
            return self.name
        stored = str(config.get("name", self.default_name))
        # An address names the corpus itself, but names are compared without case.
        is_other = isinstance(self.place, CorpusAddress) and stored.casefold() != self.place.name.casefold()
        return self.default_name if is_other else stored

    @property
    def default_name(self) -> str:
        """Return the name of a corpus without settings."""
        return self.place.stem if isinstance(self.place, Path) else self.place.name


def locate(name_or_path: str | os.PathLike[str], default_name: str | None = None) -> Location:
    """Return where the corpus of a name, path or address is, whether it exists or not.

    A registered name with a `store` is on that server, whether there is a file of that name or not. No server is
    asked.

    Args:
        name_or_path: The name, path or address.
        default_name: The name of the corpus in an address without one.

    Raises:
        ArgumentError: If it is none of these.

    Example:
        >>> locate("postgresql://db.example/kb#notes").place
        CorpusAddress('postgresql://db.example/kb#notes')
        >>> locate("notes").name
        'notes'
    """
    if isinstance(name_or_path, str) and is_server_address(name_or_path):
        return Location(CorpusAddress.parse(name_or_path, default_name))
    if registered := _find_registered(name_or_path):
        return registered
    path = corpus_path(name_or_path)
    return Location(path, path.stem if is_corpus_name(name_or_path) else None)


def find_location(name_or_path: str | os.PathLike[str]) -> Location:
    """Return where a corpus is that exists; no server is asked.

    Raises:
        ArgumentError: If it is neither a name, nor a path, nor an address.
        CorpusNotFound: If there is no such file. For a name, the message lists similar names.
    """
    location = locate(name_or_path)
    if isinstance(location.place, Path):
        find_corpus_path(name_or_path)
    return location


async def open_store(place: Place, durability: Durability = "normal") -> "SqliteStore | PostgresStore":
    """Open the store of a corpus that exists; close it with `aclose`.

    Raises:
        ArgumentError: If a durability is asked of a server, which has its own.
        CorpusNotFound: If there is no such corpus.
        StoreError: If it cannot be opened.
    """
    if isinstance(place, Path):
        return await SqliteStore.open(place, durability=durability)
    if durability != "normal":
        raise ArgumentError(f"durability is for a corpus file; {str(place)!r} is on a server, which has its own")
    return await place.open()


async def remove_corpus(name_or_path: str | os.PathLike[str]) -> Place:
    """Remove a corpus, once nothing builds it, and return where it was.

    Its registration stays.

    Raises:
        CorpusNotFound: If there is no such corpus.
        StoreBusy: If a builder still holds its lock after 30 seconds.
        StoreError: If it cannot be removed, or the path is not that of a corpus.
    """
    place, _ = find_location(name_or_path)
    if isinstance(place, Path):
        await SqliteStore.remove(place)
    else:
        from airw.stores import PostgresStore

        await PostgresStore.remove(place.server, place.name)
    return place


def _find_registered(name: str | os.PathLike[str]) -> Location | None:
    if not isinstance(name, str) or not is_corpus_name(name):
        return None
    for known, store in list_registered_stores().items():
        if known.casefold() == name.casefold():
            return Location(CorpusAddress.parse(store, known), known)
    return None

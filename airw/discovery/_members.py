"""What a discovery asks: corpora by name, and one embedding of a query for all that share an embedder."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

import anyio

from airw._base.arrays import Floats
from airw._base.messages import short_repr
from airw.corpora import CorpusLike, existing_path, is_name
from airw.discovery.federated import FederatedCorpus
from airw.errors import ArgumentError
from airw.protocols import Embedder, OpenCorpus, Store
from airw.retrieval import check_corpus

Corpora: TypeAlias = CorpusLike | Sequence[CorpusLike] | Mapping[str, CorpusLike] | FederatedCorpus
"""One corpus, or several as a list or by name: each open, or a name or path; or several as one graph."""


@dataclass(frozen=True, slots=True)
class Member:
    """One corpus of a discovery: what its hits are attributed to, and the corpus or how to open it."""

    name: str
    corpus: CorpusLike

    @property
    def parts(self) -> dict[str, CorpusLike]:
        """Give the corpora that hits may come from, by the source they name."""
        return dict(self.corpus.members) if isinstance(self.corpus, FederatedCorpus) else {self.name: self.corpus}


def members_of(corpus: Corpora) -> tuple[tuple[Member, ...], bool]:
    """Give the corpora that are meant, and whether they are several, even if only one is given.

    Raises:
        ArgumentError: There is none, or one without a name, or two of one name, or something else than corpora.
        CorpusNotFound: A name or path leads nowhere; nothing was opened then.
    """
    if isinstance(corpus, Mapping):
        members, many = [_member(name, each) for name, each in corpus.items()], True
    elif isinstance(corpus, list | tuple):
        members, many = [_member(None, each) for each in corpus], True
    else:
        members, many = [_member(None, cast("CorpusLike", corpus))], False
    if not members:
        raise ArgumentError("discover needs at least one corpus: a corpus, a name, or a list of them")
    _check_names(member.name for member in members)
    for member in members:
        if many and isinstance(member.corpus, FederatedCorpus):
            raise ArgumentError(f"{member.name!r} is several corpora itself: give those it is made of")
        if isinstance(member.corpus, str | os.PathLike):
            existing_path(member.corpus)
    return tuple(members), many


def _member(name: object, corpus: CorpusLike) -> Member:
    if not isinstance(corpus, str | os.PathLike):
        check_corpus(corpus)
    known = _name_of(corpus) if name is None else name
    if not isinstance(known, str) or not known.strip():
        raise ArgumentError(f"a corpus of a discovery needs a name, not {short_repr(known)}; pass {{name: corpus}}")
    return Member(known, corpus)


def _name_of(corpus: CorpusLike) -> str:
    if isinstance(corpus, str | os.PathLike):
        return os.fspath(corpus) if is_name(corpus) else Path(corpus).stem
    return corpus.name


def _check_names(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.casefold() in seen:
            raise ArgumentError(
                f"two corpora of a discovery are called {seen[name.casefold()]!r} and {name!r}; "
                "pass {name: corpus} to tell them apart"
            )
        seen[name.casefold()] = name


@dataclass(slots=True)
class _Flight:
    """A query on its way: whoever holds the lock embeds, the others take what came of it."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    row: Floats | None = None
    error: Exception | None = None


class SharedQueries:
    """Embeds each query once for all corpora of one discovery whose embedders have one id."""

    def __init__(self) -> None:
        self._flights: dict[tuple[str, str], _Flight] = {}

    def view(self, corpus: OpenCorpus) -> OpenCorpus:
        """Give the corpus with an embedder that shares its queries; one graph of several embeds them once anyway."""
        if isinstance(corpus, FederatedCorpus):
            return corpus
        return _View(corpus.name, corpus.store, _Shared(corpus.embedder, self))

    async def embed(self, embedder: Embedder, text: str) -> Floats:
        """Give `(dim,) float32`; one that was cancelled while it embedded is taken over by the next."""
        flight = self._flights.setdefault((embedder.id, text), _Flight())
        async with flight.lock:
            if flight.error is not None:
                raise flight.error
            if flight.row is None:
                try:
                    flight.row = await embedder.embed_query(text)
                except Exception as error:
                    flight.error = error
                    raise
        return flight.row


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """An embedder whose queries are embedded once."""

    embedder: Embedder
    queries: SharedQueries

    @property
    def id(self) -> str:
        return self.embedder.id

    @property
    def dim(self) -> int:
        return self.embedder.dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        return await self.embedder.embed_documents(texts)

    async def embed_query(self, text: str) -> Floats:
        return await self.queries.embed(self.embedder, text)


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """What ranking needs of a corpus."""

    name: str
    store: Store
    embedder: Embedder

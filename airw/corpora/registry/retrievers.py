"""Retrievers of corpora by name."""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Self, Unpack

from airw._base.messages import short_repr
from airw.corpora.naming import corpus_names
from airw.corpora.registry.definitions import check_name
from airw.corpora.registry.file import list_corpora, registered, spelled
from airw.corpora.retriever import CorpusRetriever, as_retriever
from airw.errors import CorpusNotFound, StoreError
from airw.retrieval import SearchOptions, ask

__all__ = ["Retrievers", "retriever_for", "retrievers"]


def retriever_for(name: str, **defaults: Unpack[SearchOptions]) -> CorpusRetriever:
    """Bind a corpus, by its name, and options to a function of a query; the first call opens it.

    Args:
        name: The name of a corpus that is registered or built.
        defaults: Options for every call, those of `airw.retrieval.retrieve`; those that a call gives replace them.

    Raises:
        ArgumentError: A parameter's value cannot be used.
        CorpusNotFound: It is neither registered nor built; nothing is made for it.

    Example:
        >>> import anyio, tempfile
        >>> from pathlib import Path
        >>> from airw.corpora.registry.building import build_corpus
        >>> from airw.corpora.registry.file import register
        >>> async def main(folder):
        ...     Path(folder, "a.md").write_text("rotate the signing keys")
        ...     await register("vault", "notes", root=folder, embedder="light")
        ...     async with build_corpus("vault"), retriever_for("vault", mode="lexical", k=1) as retriever:
        ...         return [hit.artifact_id for hit in await retriever("keys")]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, folder)
        ['a.md']
    """
    if spelled(corpus_names(), check_name(name)) is None:
        registered(name)
    return as_retriever(name, **defaults)


class Retrievers(Mapping[str, CorpusRetriever]):
    """The retrievers of all registered corpora by name; `retrievers` makes it."""

    def __init__(self, defaults: SearchOptions) -> None:
        ask("", **defaults)
        self._defaults = defaults
        self._made: dict[str, CorpusRetriever] = {}
        self._closed = False

    def __getitem__(self, name: str) -> CorpusRetriever:
        """Give the retriever of a corpus, the same one each time.

        Raises:
            CorpusNotFound: It is not registered.
            StoreError: All are closed.
        """
        if not isinstance(name, str):
            raise CorpusNotFound(f"a corpus is named by a string, not {short_repr(name)}")
        known = registered(name).name
        if self._closed:
            raise StoreError("the retrievers are closed; make others with retrievers()")
        if known.casefold() not in self._made:
            self._made[known.casefold()] = as_retriever(known, **self._defaults)
        return self._made[known.casefold()]

    def __iter__(self) -> Iterator[str]:
        return iter(list_corpora())

    def __len__(self) -> int:
        return len(list_corpora())

    def __repr__(self) -> str:
        return f"retrievers({', '.join(f'{key}={value!r}' for key, value in self._defaults.items())})"

    async def aclose(self) -> None:
        """Close all that were opened; closing twice is harmless."""
        self._closed = True
        async with AsyncExitStack() as closing:  # which goes on where one fails
            for retriever in self._made.values():
                closing.push_async_callback(retriever.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def retrievers(**defaults: Unpack[SearchOptions]) -> Retrievers:
    """Give a view of the registry as a mapping of name to retriever, always current; each opens at its first call.

    Args:
        defaults: Options for every call, those of `airw.retrieval.retrieve`; those that a call gives replace them.

    Returns:
        A read-only mapping; `async with` it, or `await` its `aclose()`, to close the corpora that were opened. An
        unknown name is a `CorpusNotFound`, which is a `KeyError`.

    Raises:
        ArgumentError: An option's value cannot be used.
        FilterError: The filter is malformed.

    Example:
        >>> import anyio, tempfile
        >>> from pathlib import Path
        >>> from airw.corpora.registry.building import build_corpus
        >>> from airw.corpora.registry.file import register
        >>> async def main(folder):
        ...     Path(folder, "a.md").write_text("rotate the signing keys")
        ...     await register("vault", "notes", root=folder, embedder="light")
        ...     async with build_corpus("vault"), retrievers(mode="lexical") as known:
        ...         return [(name, len(await retriever("keys"))) for name, retriever in known.items()]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     anyio.run(main, folder)
        [('vault', 1)]
    """
    return Retrievers(defaults)

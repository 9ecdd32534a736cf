"""The methods of a store about the texts in its file."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

import anyio.lowlevel

from airw._base.overriding import override
from airw.protocols import LanguageKeeper, TermStatistics
from airw.stores._indexes.inverted_index import InvertedIndex
from airw.stores._indexes.texts import read_language
from airw.stores._waiting import WaitingSearches
from airw.stores.sqlite._field_indexes import FilterIndex
from airw.stores.sqlite._readers import Readers
from airw.stores.sqlite._watch import FileVersion
from airw.stores.sqlite._writing import index_texts
from airw.values import Language, Ranking, TermCounts, check_language
from airw.values.filters import Filter

if TYPE_CHECKING:
    import sqlite3

P = ParamSpec("P")
R = TypeVar("R")


class TextCalls(TermStatistics, LanguageKeeper, Protocol):
    """Answers the calls about texts; `SqliteStore` reads the file for it."""

    _inverted_index: InvertedIndex
    _texts_version: FileVersion | None
    _filters: FilterIndex
    _filters_lock: Lock
    _waiting: WaitingSearches

    @abstractmethod
    async def _read(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @abstractmethod
    async def _read_index(
        self, prepare: "Callable[[sqlite3.Connection], Callable[[], R]]", locks: Sequence[Lock]
    ) -> R: ...

    @abstractmethod
    async def _write(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @abstractmethod
    async def _get_reader(self) -> Readers: ...

    @override
    async def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
        statistics: TermCounts | None = None,
    ) -> list[Ranking]:
        async def search(queries: Sequence[str]) -> list[Ranking]:
            version = None
            if filter is None and surfaces is None and statistics is None and self._inverted_index.is_used:
                await anyio.lowlevel.checkpoint()
                version = await (await self._get_reader()).read_version()
                if version is not None and version == self._texts_version:
                    found = self._inverted_index.rank_if_quick(queries, k, per_artifact=per_artifact)
                    if found is not None:
                        return found

            def prepare(connection: "sqlite3.Connection") -> Callable[[], list[Ranking]]:
                return partial(
                    self._inverted_index.rank,
                    connection,
                    queries,
                    k,
                    allowed=None if filter is None else self._filters.match(connection, filter),
                    surfaces=surfaces,
                    per_artifact=per_artifact,
                    statistics=statistics,
                )

            rankings = await self._read_index(prepare, [] if filter is None else [self._filters_lock])
            # Nobody has written since this version, if it still is the present one when it is compared.
            self._texts_version = version or self._texts_version
            return rankings

        if statistics is not None:
            return await search(queries)
        return await self._waiting.search_text(queries, (k, filter, surfaces, per_artifact), search)

    @override
    async def term_statistics(self, queries: Sequence[str]) -> TermCounts:
        return await self._read(self._inverted_index.count_terms, queries)

    @override
    async def language(self) -> Language | None:
        return await self._read(read_language)

    @override
    async def set_language(self, language: Language | None) -> None:
        # An unchanged file is not written.
        if await self.language() != check_language(language):
            await self._write(index_texts, language)

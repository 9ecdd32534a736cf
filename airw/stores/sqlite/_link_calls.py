"""The methods of a store about the links in its file."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

import anyio.lowlevel

from airw._base.checks import check_limit
from airw._base.concurrency import offload_if
from airw._base.lru import LruCache
from airw._base.overriding import override
from airw.protocols import AdjacencyReader, LinkReader, NeighborColumns
from airw.stores._indexes.adjacency import Numbers
from airw.stores.sqlite import _links
from airw.stores.sqlite._adjacency import EdgeRequest, LinkIndex
from airw.stores.sqlite._readers import Readers
from airw.values import Direction, Edge, LinkCount, LinkFilter, NodeId, UnresolvedLink

if TYPE_CHECKING:
    import sqlite3

_MAX_INLINE = 1_000  # edges that are made without a thread, in less than a millisecond
P = ParamSpec("P")
R = TypeVar("R")


class LinkCalls(AdjacencyReader, LinkReader, Protocol):
    """Answers the calls about links; `SqliteStore` reads the file for it."""

    _edges: LinkIndex
    _links_lock: Lock
    _max_fan_in: LruCache[_links.FanInKey, int]

    @abstractmethod
    async def _read(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @abstractmethod
    async def _read_index(
        self, prepare: "Callable[[sqlite3.Connection], Callable[[], R]]", locks: Sequence[Lock]
    ) -> R: ...

    @abstractmethod
    async def _get_reader(self) -> Readers: ...

    @override
    async def neighbors(
        self,
        ids: Sequence[str],
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[list[Edge]]:
        links = LinkFilter(types=types, exclude=exclude, origins=origins)
        request = EdgeRequest(ids, direction, links, limit)
        return await self._read_edges(request, lambda columns: columns.to_edges(ids))

    @override
    async def artifact_numbers(self, ids: Sequence[str]) -> Numbers:
        await self._get_reader()
        numbers = self._edges.find_numbers(ids)
        if numbers is not None:
            return numbers

        def prepare(connection: "sqlite3.Connection") -> Callable[[], Numbers]:
            found = self._edges.number(connection, ids)
            return lambda: found

        return await self._read_index(prepare, [self._links_lock])

    @override
    async def neighbor_columns(
        self,
        numbers: Sequence[int] | Numbers,
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> NeighborColumns:
        links = LinkFilter(types=types, exclude=exclude, origins=origins)
        return await self._read_edges(
            EdgeRequest(self._edges.to_numbers(numbers), direction, links, limit), lambda columns: columns
        )

    async def _read_edges(self, request: EdgeRequest, finish: Callable[[NeighborColumns], R]) -> R:
        """Return `finish(columns)` of the edges, without a thread if they are in memory and few."""
        await anyio.lowlevel.checkpoint()
        reader = await self._get_reader()
        # The first call of a process has nothing in memory to be compared with the file.
        version = await reader.read_version() if self._edges.is_used else None
        found = self._edges.gather_at_once(request, version)
        if found is not None:
            return await offload_if(len(found.ends) > _MAX_INLINE, finish, found)

        def prepare(connection: "sqlite3.Connection") -> Callable[[], R]:
            return partial(finish, self._edges.read(connection, request, version))

        return await self._read_index(prepare, [self._links_lock])

    @override
    async def resolve(self, refs: Sequence[str]) -> list[list[str]]:
        return await self._read(_links.resolve, refs)

    @override
    async def referrers(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[list[str]]:
        return await self._read(_links.referrers, nodes, LinkFilter(types=types))

    @override
    async def fan_in(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        return await self._read(_links.fan_in, nodes, LinkFilter(types=types))

    @override
    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        links = LinkFilter(types=types)

        def prepare(connection: "sqlite3.Connection") -> Callable[[], int]:
            largest = _links.max_fan_in(connection, self._max_fan_in, links)
            return lambda: largest

        return await self._read_index(prepare, [self._links_lock])

    @override
    async def unresolved_links(
        self, artifact_ids: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        check_limit(limit)
        return await self._read(_links.list_unresolved, artifact_ids, limit)

    @override
    async def link_counts(self) -> list[LinkCount]:
        return await self._read(_links.link_counts)

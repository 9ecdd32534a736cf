"""`RemoteStore`: the reading methods of a store on another machine."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from airw._base.arrays import Floats
from airw._base.checks import check_limit
from airw._base.concurrency import map_bounded, offload_if
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.protocols import ArtifactVectors, BestRecords, FirstSurfaces, StepAnswer, Store, methods_of
from airw.protocols.wire import ID_ARGUMENTS, STORE_CALLS, join_answers, pack_call, scatter_answer, unpack_answer
from airw.remote.calls import CorpusServer, TooMuchAtOnce, encode_json
from airw.stores.steps import compose_step
from airw.values import (
    Direction,
    Edge,
    Language,
    LedgerEntry,
    LinkCount,
    NodeId,
    Ranking,
    Record,
    TermCounts,
    UnresolvedLink,
)
from airw.values.filters import Filter, parse_filter

T = TypeVar("T")

_OPTIONAL_METHODS = STORE_CALLS.keys() - methods_of(Store)
_MAX_CONCURRENCY = 4  # requests of one call that was split
_MANY = 1_000  # items of a call; packing more takes about a millisecond


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What a server accepts in one call of a store.

    Args:
        max_ids: The largest number of ids.
        max_rows: The largest number of rows of all rankings together.
        max_body: The largest number of bytes of a request.
    """

    max_ids: int
    max_rows: int
    max_body: int


class RemoteStore:
    """The store of a corpus on another machine: each call is one request.

    It has every method of `airw.protocols` that reads, and `RemoteCorpus.store` is one. The answers are those of the
    store itself, to the last bit. A call about more than the server accepts or answers at once is split. If the server
    cannot be reached, refuses or answers nonsense, a call raises `RemoteError`; what goes wrong in the store itself is
    raised as the error that the store raised.

    Args:
        server: The server.
        corpus: The name of the corpus there.
        limits: What the server accepts in one call.
        dim: The width of the vectors.
        durability: What a change of the corpus survives once the server has answered.
    """

    def __init__(self, server: CorpusServer, corpus: str, limits: CallLimits, *, dim: int, durability: str) -> None:
        self._server, self._corpus, self._limits, self._dim = server, corpus, limits, dim
        self.durability = durability

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._corpus!r} at {self._server.url})"

    async def aclose(self) -> None:
        """Close the connections; closing twice is harmless."""
        await self._server.aclose()

    # Records.

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        """Return the record of each id, or `None`."""
        return await self._call("get_records", ids=ids)

    async def records_of(
        self, artifact_ids: Sequence[str], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        """Return the records of each artifact, or `None` for an unknown artifact."""
        check_limit(limit)
        return await self._call("records_of", artifact_ids=artifact_ids, kinds=kinds, limit=limit)

    async def first_surfaces(self, artifact_ids: Sequence[str]) -> FirstSurfaces:
        """Return the first surface of each artifact, as `records_of` does with a limit of 1."""
        return await self._call("first_surfaces", artifact_ids=artifact_ids)

    async def ledger(self, ids: Sequence[str] | None = None) -> list[LedgerEntry | None]:
        """Return the ledger entry of each artifact; without ids, all entries, ordered by id."""
        return await self._call("ledger", ids=await self.artifact_ids() if ids is None else ids)

    async def artifact_ids(self) -> list[str]:
        """Return the ids of all artifacts, sorted."""
        return await self._call("artifact_ids")

    async def config(self) -> dict[str, Any]:
        """Return the settings with which the corpus was built."""
        return await self._call("config")

    async def calibration(self, key: str | None = None) -> dict[str, Any]:
        """Return the calibration stored under a key; without a key, all calibrations by key."""
        return await self._call("calibration", key=key)

    async def counts(self) -> dict[str, int]:
        """Return the number of `artifacts`, of `records`, and of links in each state."""
        return await self._call("counts")

    async def find_changed(self, versions: Mapping[str, str], stamp: LedgerEntry) -> list[str]:
        """Return the artifacts to index again, in any order; see `ChangeFinder`."""
        return await self._call("find_changed", versions=versions, stamp=stamp)

    async def surface_kinds(self) -> list[str]:
        """Return the surface kinds of all records, sorted."""
        return await self._call("surface_kinds")

    async def has_fields(self, paths: Sequence[str]) -> list[bool]:
        """Return, for each path, whether the metadata of any record have this field."""
        return await self._call("has_fields", paths=paths)

    async def field_names(self, *, limit: int = 10_000) -> list[str]:
        """Return the names of the fields in the metadata of the first `limit` records, sorted."""
        return await self._call("field_names", limit=limit)

    # Vectors.

    async def search_vectors(
        self,
        queries: Floats,
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Return the `k` nearest records of each query, best first; see `VectorRanker`."""
        options = {"filter": parse_filter(filter), "surfaces": surfaces, "per_artifact": per_artifact}
        return await self._call("search_vectors", queries=queries, k=k, **options)

    async def similarities(self, query: Floats, record_ids: Sequence[str]) -> Floats:
        """Return the cosine between the query and each record: `(n,) float32`, NaN if unknown."""
        return await self._call("similarities", query=query, record_ids=record_ids)

    async def best_of(
        self, query: Floats, artifact_ids: Sequence[str], *, surfaces: Sequence[str] | None = None
    ) -> BestRecords:
        """Return the record of each artifact that is nearest to the query, with its cosine."""
        return await self._call("best_of", query=query, artifact_ids=artifact_ids, surfaces=surfaces)

    async def vectors(self, ids: Sequence[str]) -> Floats:
        """Return the vector of each record: `(n, dim) float32`, a row of NaN if unknown."""
        return await self._call("vectors", ids=ids)

    async def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Return the record ids of each artifact, with all their vectors."""
        return await self._call("vectors_of", artifact_ids=artifact_ids)

    # Texts.

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
        """Return, per query, the `k` best records by BM25; see `TermStatistics`."""
        if statistics is not None and not isinstance(statistics, TermCounts):
            raise ArgumentError(f"statistics must be a TermCounts object, not {short_repr(statistics)}")
        options = {"filter": parse_filter(filter), "surfaces": surfaces, "per_artifact": per_artifact}
        return await self._call("search_text", queries=queries, k=k, **options, statistics=statistics)

    async def term_statistics(self, queries: Sequence[str]) -> TermCounts:
        """Return the counts behind the BM25 scores of these queries, for the whole corpus."""
        return await self._call("term_statistics", queries=queries)

    async def language(self) -> Language | None:
        """Return the language of the texts; `None` for words as they are."""
        return await self._call("language")

    # Links.

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
        """Return the edges of each artifact in a fixed order; see `EdgeReader`."""
        links = {"direction": direction, "types": types, "exclude": exclude, "origins": origins, "limit": limit}
        return await self._call("neighbors", ids=ids, **links)

    async def resolve(self, refs: Sequence[str]) -> list[list[str]]:
        """Return the artifacts that each reference means, as sorted ids."""
        return await self._call("resolve", refs=refs)

    async def referrers(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[list[str]]:
        """Return the artifacts that link to each node, as sorted ids without duplicates."""
        return await self._call("referrers", nodes=nodes, types=types)

    async def fan_in(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        """Return the number of referrers of each node."""
        return await self._call("fan_in", nodes=nodes, types=types)

    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        """Return the largest fan-in of all nodes, or 0 without links."""
        return await self._call("max_fan_in", types=types)

    async def matching(self, wanted: Sequence[tuple[str, Any]], *, limit: int | None = None) -> list[list[str]]:
        """Return, for each pair of field and value, the artifacts that have it, as sorted ids."""
        check_limit(limit)
        return await self._call("matching", wanted=wanted, limit=limit)

    async def unresolved_links(
        self, artifact_ids: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        """Return the dangling and ambiguous links of these artifacts, or of all artifacts."""
        if artifact_ids is not None:
            artifact_ids, _ = _without_duplicates("artifact_ids", artifact_ids)
        return await self._call("unresolved_links", artifact_ids=artifact_ids, limit=limit)

    async def link_counts(self) -> list[LinkCount]:
        """Return the number of stored links per type, origin and state, sorted by these three."""
        return await self._call("link_counts")

    # Steps of walks.

    async def read_step(
        self,
        ids: Sequence[str],
        query: Floats | None,
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
        hit_ids: Sequence[str] = (),
        known_ids: Sequence[str] = (),
        max_ends: int = 0,
        max_records: int = 0,
        with_vectors: bool = False,
    ) -> StepAnswer:
        """Return the edges of artifacts, and the best records of these and of the other ends.

        It is one request, whatever the store of the server can do; see `StepReader`. Only a step that the server does
        not accept at once takes several.
        """
        links: dict[str, Any] = {"direction": direction, "types": types, "exclude": exclude}
        links |= {"origins": origins, "limit": limit}
        reads: dict[str, Any] = {"hit_ids": hit_ids, "known_ids": known_ids, "max_ends": max_ends}
        reads |= {"max_records": max_records, "with_vectors": with_vectors}
        different, places = _without_duplicates("ids", ids)
        sent = {name: _without_duplicates(name, reads[name])[0] for name in ("hit_ids", "known_ids")}
        body = await self._encode("read_step", {"ids": different, "query": query, **links, **reads, **sent})
        is_long = max(len(different), *map(len, sent.values())) > self._limits.max_ids
        if not is_long and len(body) <= self._limits.max_body:
            with suppress(TooMuchAtOnce):
                answer: StepAnswer = await self._send("read_step", body, len(different))
                return answer if places is None else answer._replace(edges=scatter_answer(answer.edges, places))
        return await compose_step(self, ids, query, **links, **reads)

    # Requests.

    async def _call(self, method: str, **arguments: Any) -> T:
        """Call a method of the store, in several requests if one would be too large.

        The form of the method has checked the type of the answer, which its caller names.
        """
        answer: T
        each = STORE_CALLS[method].each
        if not each:
            answer = await self._send(method, await self._encode(method, arguments), None)
            return answer
        items, size = arguments[each], self._batch_size(arguments)
        if isinstance(items, str):
            raise ArgumentError(f"{each} must be a list, not the string {short_repr(items)}")
        places = None
        if each in ID_ARGUMENTS:
            items, places = _without_duplicates(each, items)
        parts = [items[start : start + size] for start in range(0, len(items), size)] or [items]
        ask = partial(self._ask, method, arguments)
        answer = await self._join(method, await map_bounded(ask, parts, limit=_MAX_CONCURRENCY))
        return answer if places is None else scatter_answer(answer, places)

    def _batch_size(self, arguments: Mapping[str, Any]) -> int:
        k = arguments.get("k", 0)
        if isinstance(k, int) and k > 0:
            return max(1, min(self._limits.max_ids, self._limits.max_rows // k))
        return self._limits.max_ids

    async def _ask(self, method: str, arguments: Mapping[str, Any], items: Any) -> Any:
        """Ask about some items; halve them while the request or its answer is too long."""
        each = STORE_CALLS[method].each
        body = await self._encode(method, {**arguments, each: items})
        if len(body) <= self._limits.max_body or len(items) < 2:
            try:
                return await self._send(method, body, len(items))
            except TooMuchAtOnce:
                if len(items) < 2:
                    raise
        middle = len(items) // 2
        halves = [await self._ask(method, arguments, half) for half in (items[:middle], items[middle:])]
        return await self._join(method, halves)

    async def _encode(self, method: str, arguments: Mapping[str, Any]) -> bytes:
        is_long = any(len(each) > _MANY for each in arguments.values() if hasattr(each, "__len__"))
        packed = await offload_if(is_long, pack_call, method, arguments)
        return await encode_json({"corpus": self._corpus, **packed})

    async def _send(self, method: str, body: bytes, count: int | None) -> Any:
        def read(value: Any) -> Any:
            answer = value.get("answer") if isinstance(value, dict) else None
            return unpack_answer(method, answer, count, dim=self._dim)

        return await self._server.call("POST", f"/store/{method}", of=self._corpus, body=body, read=read)

    async def _join(self, method: str, parts: list[Any]) -> Any:
        return await offload_if(len(parts) > 1, join_answers, method, parts)


def _without_duplicates(name: str, ids: Sequence[T]) -> tuple[Sequence[T], list[int] | None]:
    """Return the different ids, and for each id its place among them.

    Without duplicates there are no places: `None`.

    Raises:
        ArgumentError: If one is a list or an object.
    """
    try:
        places = {id: place for place, id in enumerate(dict.fromkeys(ids))}
    except TypeError as error:
        raise ArgumentError(f"{name} must be ids, not {short_repr(ids)}") from error
    return (ids, None) if len(places) == len(ids) else ([*places], [places[id] for id in ids])


def make_store(
    server: CorpusServer, corpus: str, limits: CallLimits, methods: Collection[str], *, dim: int, durability: str
) -> RemoteStore:
    """Return a store that has no optional method which the served store lacks.

    So `isinstance(store, TermStatistics)` is as true as for the served store. Protocols take a method that is `None`
    for one that is not there.
    """
    missing = [name for name in _OPTIONAL_METHODS if name not in methods]
    kind: type[RemoteStore] = type("RemoteStore", (RemoteStore,), dict.fromkeys(missing)) if missing else RemoteStore
    return kind(server, corpus, limits, dim=dim, durability=durability)

"""A read-only store whose content is what functions of the user return."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, TypeAlias, cast

import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import call_user_function, map_bounded, offload_if
from airw._base.lru import LruCache
from airw._base.messages import error_text
from airw._base.overriding import override
from airw._base.vectors import exact_scores, unit_rows
from airw.errors import AirwError, ArgumentError, StoreError
from airw.protocols import (
    ArtifactVectors,
    Capability,
    Edges,
    Embedder,
    Rank,
    Records,
    RecordsOf,
    Vectors,
    VectorsOf,
)
from airw.stores._function_answers import KIND, read_found, read_items, read_neighbors
from airw.stores._indexes.dense_index import check_queries
from airw.stores.own_store import OwnStore
from airw.values import Edge, Ranking, Record
from airw.values.filters import matches

UserFunction: TypeAlias = Callable[..., Any] | Callable[..., Awaitable[Any]]

_MAX_CALLS = 16  # calls of `search` at once
_MAX_FOUND = 30_000  # entries of records if there is no `get`, three for each record
_MARK = "\0"  # between the id of an artifact and the number of its record
_CALLS = {"search": "search(query, k)", "get": "get(ids), with a list", "neighbors": "neighbors(ids), with a list"}
_FEW = 200  # items; reading more takes longer than about a millisecond


class FunctionStore(OwnStore):
    """A store that asks functions: `airw.adapt` returns a corpus over one.

    It ranks texts with `search`, and has edges with `neighbors`. It is read-only and keeps nothing, but without `get`
    the records that `search` has found last: at least 10,000.

    Args:
        search: The ranking of a query.
        get: The content of ids.
        neighbors: The ids that ids lead to.
        embedder: Compares the texts of artifacts with a query.
    """

    advice: Mapping[Capability, str] = {
        "edges": "pass neighbors=... to airw.adapt",
        "lexical": "pass search=... to airw.adapt",
        "dense": "pass search=... to airw.adapt, and search without a mode",
    }

    def __init__(
        self, search: UserFunction | None, get: UserFunction | None, neighbors: UserFunction | None, embedder: Embedder
    ) -> None:
        self._search, self._get, self._find_neighbors = search, get, neighbors
        self._embedder = embedder
        self._found, self._numbers = LruCache[str | tuple[bytes, str], Record](_MAX_FOUND), count()
        offered: dict[Capability, bool] = {"lexical": search is not None, "edges": neighbors is not None}
        self.capabilities: Collection[Capability] = {
            "records",
            "scores",
            "vectors",
            *(name for name, is_on in offered.items() if is_on),
        }

    async def rank(self, request: Rank) -> list[Ranking]:
        """Return the ids that `search` finds; or the named artifacts, by cosine of their texts."""
        if not isinstance(request.queries, np.ndarray):
            return await self._rank_texts(request)
        await self._check_width(request.queries)
        ids = request.among if request.records is None else request.records
        return [await self._compare(query, ids or (), request) for query in request.queries]

    async def _rank_texts(self, request: Rank) -> list[Ranking]:
        if request.filter is not None:
            raise ArgumentError("filter cannot be used: search of airw.adapt takes none; filter the hits instead")
        for name, ids in (("among", request.among), ("records", request.records)):
            if ids is not None:
                raise ArgumentError(f"{name} cannot be used with texts: search of airw.adapt takes none; pass vectors")
        k = _MAX_FOUND if request.k is None else request.k
        if request.surfaces is not None and KIND not in request.surfaces:
            return [Ranking([], [], np.zeros(0)) for _ in request.queries]

        async def rank(query: str) -> Ranking:
            if not k:
                return Ranking([], [], np.zeros(0))
            answer = await self._call("search", self._search, query, k)
            found = await offload_if(k > _FEW, read_found, answer, k)
            ids = [record.id for record, _ in found]
            record_ids = ids
            if self._get is None:
                key = self._key_of(await self._embedder.embed_query(query)) if found else b""
                record_ids = [self._remember(record, key) for record, _ in found]
            return Ranking(record_ids, ids, np.array([score for _, score in found], np.float64))

        return await map_bounded(rank, cast("Sequence[str]", request.queries), limit=_MAX_CALLS)

    @staticmethod
    def _key_of(query: Floats) -> bytes:
        """Return what tells a query from others: walks name it by its vector alone."""
        return np.asarray(query, np.float32).tobytes()

    def _remember(self, record: Record, query: bytes) -> str:
        """Remember a record that `search` has found for a query, and return its record id.

        Each text of an artifact is a record of its own: a search may cut texts to its query, and another one may run at
        the same time. Under the id of the artifact lies its last text, and the last of each query beside it.
        """
        last = self._found.get(record.artifact_id)
        if last is not None and not record.text:
            record = replace(record, text=last.text, metadata=record.metadata or last.metadata)
        if last is None or (last.text, last.metadata) != (record.text, record.metadata):
            last = replace(record, id=f"{record.artifact_id}{_MARK}{next(self._numbers)}")
        for key in (last.artifact_id, last.id, (query, last.artifact_id)):
            self._found.discard(key)
            self._found.get_or_create(key, lambda _, record=last: record)  # type: ignore[misc]
        return last.id

    async def edges(self, request: Edges) -> list[list[Edge]]:
        """Return the edges that `neighbors` finds."""
        if request.direction == "in":
            raise ArgumentError("direction must be 'out' or 'both': neighbors of airw.adapt only leads out, not 'in'")
        ids = cast("Sequence[str]", request.ids)
        if not ids:
            return []
        answer = await self._call("neighbors", self._find_neighbors, list(ids))
        rows = await offload_if(len(ids) > _FEW, read_neighbors, ids, answer)
        return [self.arrange(id, row, request) for id, row in zip(ids, rows, strict=True)]

    @override
    async def records(self, request: Records) -> list[Record | None]:
        ids = request.ids
        if self._get is None:
            return [self._found.get(id) or Record(id, id.partition(_MARK)[0], KIND, 0, "") for id in ids]
        distinct = list(dict.fromkeys(ids))
        if not distinct:
            return []
        answer = await self._call("get", self._get, list(distinct))
        records = dict(zip(distinct, await offload_if(len(ids) > _FEW, read_items, distinct, answer), strict=True))
        return [records[id] for id in ids]

    async def _compare(self, query: Floats, ids: Sequence[Any], request: Rank) -> Ranking:
        """Rank named artifacts by the cosines of their texts to a query."""
        distinct = list(dict.fromkeys(ids))
        found = await self.records_of(RecordsOf(distinct, kinds=request.surfaces))
        if self._get is None:
            key = self._key_of(query)
            found = [rows and [self._found.get((key, rows[0].artifact_id), rows[0])] for rows in found]
        records = [rows[0] for rows in found if rows and matches(request.filter, rows[0].metadata)]
        scores = exact_scores(await self._embed([record.text for record in records]), query)
        order = sorted(range(len(records)), key=lambda at: (-scores[at], records[at].artifact_id))[: request.k]
        ranked = [records[at] for at in order]
        ids = [record.artifact_id for record in ranked]
        return Ranking([record.id for record in ranked], ids, scores[order].astype(np.float64))

    async def vectors(self, request: Vectors) -> Floats:
        """Return the vector of the text of each record; a row of NaN for an unknown one."""
        records = await self.records(Records(request.ids))
        rows = await self._embed([record.text if record else "" for record in records])
        rows[[place for place, record in enumerate(records) if record is None]] = np.nan
        return rows

    async def vectors_of(self, request: VectorsOf) -> ArtifactVectors:
        """Return the vector of each artifact's text."""
        records = await self.records(Records(cast("Sequence[str]", request.artifact_ids)))
        rows = await self._embed([record.text for record in records if record is not None])
        return ArtifactVectors([[] if record is None else [record.id] for record in records], rows)

    async def _find_width(self) -> int:
        """Return the width of the vectors, which an embedder may know only after its first text."""
        if not self._embedder.dim:
            await self._embedder.embed_query("width")
        return self._embedder.dim

    async def _check_width(self, queries: Any) -> None:
        """Check that query vectors are as wide as those of the texts.

        Raises:
            EmbedderMismatch: If they are not.
        """
        check_queries(queries, await self._find_width())

    async def _embed(self, texts: Sequence[str]) -> Floats:
        """Return the vector of each text, `(texts, dim) float32`; that of an empty text is zero."""
        distinct = list(dict.fromkeys(text for text in texts if text))
        vectors = await self._embedder.embed_documents(distinct) if distinct else None
        # An embedder may know its width only after the first text.
        dim = self._embedder.dim
        rows = np.zeros((len(distinct) + 1, dim), np.float32)
        if vectors is not None:
            check = partial(unit_rows, vectors, count=len(distinct), dim=dim, of=f"embedder {self._embedder.id!r}")
            rows[:-1] = await offload_if(len(distinct) > _FEW, check)
        place_of = {text: place for place, text in enumerate(distinct)}
        chosen: Floats = rows[[place_of.get(text, len(distinct)) for text in texts]]
        return chosen

    async def _call(self, name: str, function: UserFunction | None, *arguments: object) -> object:
        """Call a function, and turn its exceptions into `StoreError`."""
        try:
            return await call_user_function(function, *arguments)  # type: ignore[arg-type]
        except AirwError:
            raise
        except Exception as error:
            # Most often a function of one id, such as the `get` of a dict.
            advice = f"; it is called as {_CALLS[name]}" if isinstance(error, TypeError) else ""
            raise StoreError(f"{name} failed: {error_text(error)}{advice}") from error

"""A read-only store whose content is what functions of the user return."""

import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Literal, NoReturn, TypeAlias, cast

import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import call_user_function, map_bounded, offload_if
from airw._base.json import json_clean
from airw._base.lru import LruCache
from airw._base.messages import error_text, short_repr
from airw._base.overriding import override
from airw._base.vectors import best_first, exact_scores, unit_rows
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
from airw.stores._indexes.dense_index import check_queries
from airw.stores.own_store import OwnStore
from airw.values import Artifact, Edge, Ranking, Record, SearchHit
from airw.values.filters import matches

UserFunction: TypeAlias = Callable[..., Any] | Callable[..., Awaitable[Any]]

_MAX_CALLS = 16  # calls of `search` at once
_MAX_FOUND = 30_000  # entries of records if there is no `get`, three for each record
_MARK = "\0"  # between the id of an artifact and the number of its record
_KIND = "document"
_RELATED = "related"
_Name: TypeAlias = Literal["search", "get", "neighbors"]
_CALLS = {
    "search": "search(query, k)",
    "get": "get(ids), with a list",
    "neighbors": "neighbors(ids), with a list",
}
_SHAPES: Mapping[_Name, str] = {
    "search": "return a list of (id, score) pairs, best first",
    "get": "return a list with a text, a dict or None for each id, or a dict of them by id",
    "neighbors": "return a list with a list of ids for each id, or a dict of them by id",
}
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
        self.capabilities: Collection[Capability] = {
            "records",
            "scores",
            "vectors",
            *(("lexical",) if search else ()),
            *(("edges",) if neighbors else ()),
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
        if request.surfaces is not None and _KIND not in request.surfaces:
            return [Ranking([], [], np.zeros(0)) for _ in request.queries]

        async def rank(query: str) -> Ranking:
            if not k:
                return Ranking([], [], np.zeros(0))
            answer = await self._call("search", self._search, query, k)
            found = await offload_if(k > _FEW, read_found, answer, k)
            ids = record_ids = [record.id for record, _ in found]
            if self._get is None and found:
                # What tells a query from others: walks name it by its vector alone.
                key = np.asarray(await self._embedder.embed_query(query), np.float32).tobytes()
                record_ids = [self._remember(record, key) for record, _ in found]
            return Ranking(record_ids, ids, np.array([score for _, score in found], np.float64))

        return await map_bounded(rank, cast("Sequence[str]", request.queries), limit=_MAX_CALLS)

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
            return [self._found.get(id) or Record(id, id.partition(_MARK)[0], _KIND, 0, "") for id in ids]
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
            key = np.asarray(query, np.float32).tobytes()
            found = [rows and [self._found.get((key, rows[0].artifact_id), rows[0])] for rows in found]
        records = [rows[0] for rows in found if rows and matches(request.filter, rows[0].metadata)]
        scores = exact_scores(await self._embed([record.text for record in records]), query)
        k = len(records) if request.k is None else request.k
        order = best_first(scores, k, lambda places: [records[place].artifact_id for place in places.tolist()])
        ranked = [records[place] for place in order.tolist()]
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
        vectors: Any = await self._embedder.embed_documents(distinct) if distinct else []
        dim = self._embedder.dim  # an embedder may know its width only after the first text
        check = partial(unit_rows, vectors, count=len(distinct), dim=dim, of=f"embedder {self._embedder.id!r}")
        rows = np.concatenate([await offload_if(len(distinct) > _FEW, check), np.zeros((1, dim), np.float32)])
        place_of = {text: place for place, text in enumerate(distinct)}
        chosen: Floats = rows[[place_of.get(text, -1) for text in texts]]
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


# What functions return, checked and converted to records, scores and edges


def _refuse(function: _Name, fault: str, advice: str | None = None, *, cause: Exception | None = None) -> NoReturn:
    why = "" if cause is None else f" ({error_text(cause)})"
    raise StoreError(f"{function} {fault}{why}; {advice or _SHAPES[function]}") from cause


def read_found(answer: object, k: int) -> list[tuple[Record, float]]:
    """Return the first `k` records that `search` has found, with their scores.

    Without scores, the records score by their ranks: 1, 1/2, 1/3 and so on.

    Raises:
        StoreError: If the answer is not a ranking.

    Example:
        >>> [(record.id, score) for record, score in read_found(["b", {"id": "a", "text": "keys"}], 5)]
        [('b', 1.0), ('a', 0.5)]
    """
    if not isinstance(answer, list | tuple):
        _refuse("search", f"returned {short_repr(answer)}")
    found, seen, last = list[tuple[Record, float]](), set[str](), None
    for rank, (row, (record, score)) in enumerate(zip(answer[:k], map(_read_row, answer[:k]), strict=True), 1):
        id = short_repr(record.id)
        if record.id in seen:
            _refuse("search", f"returned {id} twice", "return each id once, at its best score")
        if found and (score is None) != (last is None):
            _refuse("search", f"returned {short_repr(row)}", "return all with scores, or all without")
        if score is not None and not math.isfinite(score):
            _refuse("search", f"returned the score {score} for {id}", "return finite scores")
        if score is not None and last is not None and score > last:
            fault = f"returned the score {score:.6g} of {id} after {last:.6g}"
            _refuse("search", fault, "return the best first, by similarity and not by distance")
        seen.add(record.id)
        last = score
        found.append((record, 1 / rank if score is None else score))
    return found


def _read_row(row: object) -> tuple[Record, float | None]:
    """Return the record in a row of `search`, and its score if it has one."""
    score: Any = None
    if isinstance(row, tuple | list) and len(row) == 2:
        row, score = row
    elif isinstance(row, SearchHit):
        score = row.score
    elif isinstance(row, Mapping):
        score = row.get("score")
        row = {name: value for name, value in row.items() if name != "score"}
    id: Any = row
    if isinstance(row, Mapping):
        id = row.get("id")
    elif isinstance(row, Record | SearchHit):
        id = row.artifact_id
    elif isinstance(row, Artifact):
        id = row.id
    if not isinstance(id, str) or not id:
        advice = "return ids that are texts, (id, score) pairs, or dicts with 'id'"
        _refuse("search", f"returned {short_repr(row)}", advice)
    record = Record(id, id, _KIND, 0, "") if isinstance(row, str) else _read_item("search", id, row)
    return record, None if score is None else _read_score(id, score)


def _read_score(id: str, score: Any) -> float:
    fault, advice = f"returned the score {short_repr(score)} for {short_repr(id)}", "return numbers as scores"
    if isinstance(score, bool | str | bytes):
        _refuse("search", fault, advice)
    try:
        return float(score)
    except Exception as error:  # noqa: BLE001 - `__float__` of another library may raise anything
        _refuse("search", fault, advice, cause=error)


def read_items(ids: Sequence[str], answer: object) -> list[Record | None]:
    """Return the record of each id that `get` was called with, or `None`.

    Raises:
        StoreError: If the answer has not one item for each id, or an item is of another kind.

    Example:
        >>> read_items(["a", "b"], {"a": "keys"})[0].text, read_items(["a"], [None])
        ('keys', [None])
    """
    pairs = zip(ids, _align("get", ids, answer), strict=True)
    return [None if value is None else _read_item("get", id, value) for id, value in pairs]


def _align(function: _Name, ids: Sequence[str], answer: object) -> Sequence[object]:
    """Return the answer for each id."""
    if isinstance(answer, Mapping):
        known = set(ids)
        unknown = [key for key in answer if key not in known]
        if unknown:
            _refuse(function, f"returned {short_repr(unknown[0])}, which it was not called with")
        return [answer.get(id) for id in ids]
    if not isinstance(answer, list | tuple):
        _refuse(function, f"returned {short_repr(answer)} for {len(ids)} ids")
    if len(answer) != len(ids):
        _refuse(function, f"returned {len(answer)} items for {len(ids)} ids")
    return answer


def _read_item(function: _Name, id: str, value: object) -> Record:
    """Return what a function has returned about an artifact, as its record."""
    kind, text, name = _KIND, value, id
    metadata: list[Any] = []  # later fields count
    if isinstance(value, Artifact):
        record = _read_item(function, id, value.raw)
        text, metadata = record.text, [record.metadata, value.metadata]
    elif isinstance(value, Record | SearchHit):
        kind, text, name, metadata = value.surface_kind, value.text, value.artifact_id, [value.metadata]
    elif isinstance(value, Mapping):
        text, name, nested = value.get("text", ""), value.get("id", id), value.get("metadata")
        fields = {key: field for key, field in value.items() if key not in ("id", "text", "metadata")}
        metadata = [fields, nested if isinstance(nested, Mapping) else {}]
    if name != id:
        _refuse(function, f"returned {short_repr(name)} in the place of {short_repr(id)}")
    if not isinstance(text, str):
        shape = "a text, or a dict with 'text'" if function == "get" else "dicts with 'id' and 'text'"
        _refuse(function, f"returned {short_repr(value)} for {short_repr(id)}", f"return {shape}")
    try:
        fields = {key: field for part in metadata for key, field in dict(part).items()}
        return Record(id, id, kind, 0, text, json_clean(fields))
    except Exception as error:  # noqa: BLE001 - values of other libraries may raise anything
        fault = f"returned metadata of {short_repr(id)} that are not JSON"
        advice = "return texts, numbers, lists and dicts that do not contain themselves"
        _refuse(function, fault, advice, cause=error)


def read_neighbors(ids: Sequence[str], answer: object) -> list[list[Edge]]:
    """Return the edges of each id that `neighbors` was called with.

    Raises:
        StoreError: If the answer has not one list for each id, or an item is not a neighbour.

    Example:
        >>> [[(edge.type, edge.target) for edge in edges] for edges in read_neighbors(["a"], [["c", ("b", "cites")]])]
        [[('related', 'c'), ('cites', 'b')]]
    """
    return [[*_read_edges(id, row)] for id, row in zip(ids, _align("neighbors", ids, answer), strict=True)]


def _read_edges(id: str, row: object) -> Iterator[Edge]:
    if not isinstance(row, list | tuple | set | frozenset | None):
        _refuse("neighbors", f"returned {short_repr(row)} for {short_repr(id)}")
    for item in row or ():
        target, type = item if isinstance(item, tuple | list) and len(item) == 2 else (item, _RELATED)
        if isinstance(item, Edge) and item.source == id:
            yield item
        elif isinstance(target, str) and target and isinstance(type, str):
            yield Edge(id, target, type)
        else:
            advice = "return ids, (id, type) pairs, or an Edge that begins there"
            _refuse("neighbors", f"returned {short_repr(item)} for {short_repr(id)}", advice)

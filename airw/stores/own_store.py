"""The bases of stores that people write: `OwnStore` answers, `Wrapper` passes on."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Self, cast

import numpy as np

from airw._base.messages import short_repr
from airw.errors import StoreError
from airw.protocols import (
    Capability,
    Change,
    EdgeRow,
    Request,
    Store,
    check_able,
    check_capabilities,
    fill,
    requests as forms,
)
from airw.values import Edge, LedgerEntry, NodeIdLike, Ranking, Record

METHODS: Final[Mapping[type, str]] = {
    forms.Records: "records",
    forms.RecordsOf: "records_of",
    forms.Vectors: "vectors",
    forms.VectorsOf: "vectors_of",
    forms.Rank: "rank",
    forms.Words: "words",
    forms.TextLanguage: "language",
    forms.Edges: "edges",
    forms.Referrers: "referrers",
    forms.MaxFanIn: "max_fan_in",
    forms.LinkCounts: "link_counts",
    forms.UnresolvedLinks: "unresolved_links",
    forms.Names: "names",
    forms.Matching: "matching",
    forms.ArtifactIds: "artifact_ids",
    forms.Ledger: "ledger",
    forms.Artifacts: "artifacts",
    forms.Stale: "stale",
    forms.Config: "config",
    forms.Calibrations: "calibrations",
    forms.Counts: "counts",
    forms.Schema: "schema",
}
"""The method that answers each kind of request."""


def find_changed(versions: Mapping[str, str], stamp: LedgerEntry, entries: Sequence[LedgerEntry | None]) -> list[str]:
    """Return the artifacts to index again, as `Stale` asks for them.

    Args:
        versions: The change signals, by artifact id.
        stamp: A ledger entry of the present build.
        entries: The ledger entries of these artifacts, in the same order.
    """

    def is_current(entry: LedgerEntry | None, version: str) -> bool:
        return entry is not None and (
            (entry.version, entry.embedder_id, entry.strategy_id, entry.extractor_id, entry.source)
            == (version, stamp.embedder_id, stamp.strategy_id, stamp.extractor_id, stamp.source)
        )

    pairs = zip(versions.items(), entries, strict=True)
    return [id for (id, version), entry in pairs if not is_current(entry, version)]


def _is_record(value: object) -> bool:
    return value is None or (isinstance(value, Record) and isinstance(value.text, str))


def _is_list(value: object, kind: Any) -> bool:
    return isinstance(value, EdgeRow) or (isinstance(value, list | tuple) and all(isinstance(i, kind) for i in value))


def _is_ranking(value: object) -> bool:
    """Return whether a value is a ranking with finite scores that do not rise.

    Its columns have one length.
    """
    if not isinstance(value, Ranking) or not isinstance(value.scores, np.ndarray):
        return False
    columns, scores = (value.record_ids, value.artifact_ids, value.scores), value.scores
    return (
        scores.ndim == 1
        and all(isinstance(column, Sequence | np.ndarray) and len(column) == len(scores) for column in columns)
        and np.issubdtype(scores.dtype, np.floating)
        and bool(np.isfinite(scores).all() and (scores[1:] <= scores[:-1]).all())
        and all(isinstance(id, str | tuple) for ids in columns[:2] for id in ids)
    )


# By request: its items, whether a value may answer one of them, and what it must be.
_ANSWERS: Final[Mapping[type, tuple[str, Callable[[Any], bool], str]]] = {
    forms.Records: ("ids", _is_record, "a Record or None"),
    forms.RecordsOf: ("artifact_ids", lambda row: row is None or _is_list(row, Record), "a list of records, or None"),
    forms.Rank: ("queries", _is_ranking, "a Ranking with finite scores in an array, best first"),
    forms.Edges: ("ids", lambda row: _is_list(row, Edge), "a list of edges"),
    forms.Referrers: ("nodes", lambda row: _is_list(row, str | tuple), "a list of ids"),
    forms.Names: ("refs", lambda row: _is_list(row, str | tuple), "a list of ids"),
    forms.Matching: ("wanted", lambda row: _is_list(row, str | tuple), "a list of ids"),
    forms.Vectors: ("ids", lambda row: isinstance(row, np.ndarray) and row.ndim == 1, "a row of an array"),
}


def _find_fault(request: Request[Any], answer: Any) -> str | None:
    """Return what is wrong with an answer, and what would do; `None` if nothing.

    Only requests are checked whose answers have one entry for each item.
    """
    if type(request) not in _ANSWERS:
        return None
    name, is_answer, wanted = _ANSWERS[type(request)]
    items = getattr(request, name)
    advice = f"return {wanted} for each of its {name}"
    is_scalar = isinstance(answer, np.ndarray) and answer.ndim == 0
    if not isinstance(answer, Sequence | np.ndarray) or isinstance(answer, str) or is_scalar:
        return f"{short_repr(answer)}; {advice}"
    if len(answer) != len(items):
        return f"{len(answer):,} items for {len(items):,} {name}; {advice}"
    return next((f"{short_repr(entry)}; {advice}" for entry in answer if not is_answer(entry)), None)


class OwnStore:
    """The base of a store that you write.

    Name what it can do, and write a method for each kind of request. A method has the name of its request in lower
    case, takes the request and returns the answer: `async def records(self, request)` answers `Records`, `records_of`
    answers `RecordsOf`, and only `TextLanguage` is answered by a shorter name, `language`. `read` calls
    them one after the other, and resolves chains. A request that the store does not offer is refused by name. What a
    store that is not written to does by itself: it refuses changes, has no settings, and takes an artifact for its only
    record, whose id it shares.

    Attributes:
        capabilities: What the store can do.
        advice: What adds a capability that is missing, for the error that says so.

    Example:
        >>> import anyio
        >>> import numpy as np
        >>> from airw.protocols import Rank, Records, ask
        >>> from airw.values import Ranking
        >>> class Desk(OwnStore):
        ...     capabilities = frozenset({"lexical", "records"})
        ...     pages = {"keys": "Rotate the signing keys.", "tea": "Brew the tea."}
        ...
        ...     async def records(self, request):
        ...         pages = map(self.pages.get, request.ids)
        ...         return [text and Record(id, id, "page", 0, text) for id, text in zip(request.ids, pages)]
        ...
        ...     async def rank(self, request):
        ...         return [self.find(query, request.k) for query in request.queries]
        ...
        ...     def find(self, query, k):
        ...         ids = [id for id, text in self.pages.items() if query in text][:k]
        ...         return Ranking(ids, ids, np.ones(len(ids)))
        >>> [record.text for record in anyio.run(ask, Desk(), Records(["tea"]))]
        ['Brew the tea.']
    """

    capabilities: Collection[Capability] = ()
    advice: Mapping[Capability, str] = {}

    async def __aenter__(self) -> Self:
        """Return the store."""
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Close the store."""
        await self.aclose()

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request, in turn; see `airw.protocols.Store.read`.

        Raises:
            StoreError: If a method returned what does not answer its request.
        """
        check_able(self, *requests, advice=self.advice)
        answers: dict[int, Any] = {}
        for request in requests:
            plain = fill(request, answers)
            method = METHODS[type(plain)]
            answers[id(request)] = answer = await getattr(self, method)(plain)
            if fault := _find_fault(plain, answer):
                raise StoreError(f"{type(self).__name__}.{method} returned {fault}")
        return [answers[id(request)] for request in requests]

    async def apply(self, change: Change) -> None:
        """Refuse to write."""
        check_capabilities("apply", self, "writing")
        raise NotImplementedError

    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Refuse to write."""
        check_capabilities("writing", self, "writing")
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close nothing."""

    @staticmethod
    def arrange(id: NodeIdLike, edges: Iterable[Edge], request: forms.Edges) -> list[Edge]:
        """Return the edges of an artifact that a request asks for, without duplicates, in order.

        Args:
            id: The artifact.
            edges: All edges from and to it; others are left out, as are those from it to itself. Of equal edges, the
                heaviest counts.
            request: What is asked.

        Example:
            >>> edges = [Edge("b", "a", "see"), Edge("a", "b", "see"), Edge("a", "a", "see"), Edge("a", "c", "cites")]
            >>> [edge.target for edge in OwnStore.arrange("a", edges, forms.Edges(["a"]))]
            ['c', 'b']
        """
        found: dict[tuple[Any, ...], Edge] = {}
        for edge in edges:
            is_incoming = edge.source != id
            is_wanted = request.direction in ("both", "in" if is_incoming else "out") and request.links.accepts(edge)
            if is_wanted and id in (edge.source, edge.target) and edge.source != edge.target:
                end = edge.source if is_incoming else edge.target
                key = (edge.type, isinstance(end, tuple), end, is_incoming, edge.origin)
                found[key] = max(found.get(key, edge), edge, key=lambda each: each.weight)
        return [found[key] for key in sorted(found)[: request.limit]]

    async def records(self, request: forms.Records) -> list[Record | None]:
        """Return the record of each id, or `None`."""
        raise NotImplementedError

    async def records_of(self, request: forms.RecordsOf) -> list[list[Record] | None]:
        """Return the one record of each artifact, with its id, in a list; `None` if unknown."""
        records = await self.records(forms.Records(cast("Sequence[str]", request.artifact_ids)))
        kinds = request.kinds

        def select(record: Record) -> list[Record]:
            return [record][: request.limit] if kinds is None or record.surface_kind in kinds else []

        return [None if record is None else select(record) for record in records]

    async def ledger(self, request: forms.Ledger) -> list[LedgerEntry | None]:
        """Return the ledger entry of each artifact, or `None`; without ids, all, sorted."""
        raise NotImplementedError

    async def artifact_ids(self, request: forms.ArtifactIds) -> list[str]:
        """Return the ids of all artifacts, sorted."""
        return [entry.artifact_id for entry in await self.ledger(forms.Ledger()) if entry is not None]

    async def stale(self, request: forms.Stale) -> list[str]:
        """Return the artifacts to index again."""
        entries = await self.ledger(forms.Ledger([*request.versions]))
        return find_changed(request.versions, request.stamp, entries)

    async def config(self, request: forms.Config) -> dict[str, Any]:
        """Return no settings."""
        return {}

    async def calibrations(self, request: forms.Calibrations) -> dict[str, dict[str, Any]]:
        """Return no calibrations."""
        return {}


class Wrapper:
    """The base of stores that pass on what they are asked: override `read`, `apply`, or both.

    A store that changes edges or rankings must also resolve chains, with `airw.protocols.fill`: the store that it wraps
    knows only its own answers. It passes requests on one by one then.

    Args:
        store: The store that answers.

    Example:
        >>> import anyio
        >>> from airw.protocols import Counts, ask
        >>> from airw.stores import MemoryStore
        >>> class Noisy(Wrapper):
        ...     async def read(self, *requests):
        ...         print(len(requests), "asked")
        ...         return await super().read(*requests)
        >>> anyio.run(ask, Noisy(MemoryStore()), Counts())["records"]
        1 asked
        0
    """

    def __init__(self, store: Store) -> None:
        self.store: Store = store

    @property
    def capabilities(self) -> Collection[Capability]:
        """Return what the store can do."""
        return self.store.capabilities

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request."""
        return await self.store.read(*requests)

    async def apply(self, change: Change) -> None:
        """Write a change."""
        await self.store.apply(change)

    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Return a context manager that locks the store for one builder."""
        return self.store.writing(timeout=timeout)

    async def aclose(self) -> None:
        """Close the store."""
        await self.store.aclose()

"""Many small stores of one process, ranked as one.

To rank 400 stores one by one takes a hundred times as long as to rank one store with all of their records. A `Stack`
copies the records once, and afterwards those of the stores that have changed.
"""

import weakref
from collections.abc import Hashable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, TypeGuard

import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import in_thread, map_bounded
from airw._base.sharing import SharedLock
from airw.protocols import (
    ArtifactIds,
    ArtifactVectors,
    Counts,
    Rank,
    RecordsOf,
    Request,
    Store,
    TextLanguage,
    VectorsOf,
    ask_all,
)
from airw.stores._engine import EngineStore
from airw.stores.memory.store import MemoryContent, MemoryStore
from airw.stores.sqlite.store import SqliteStore
from airw.values import ArtifactChange, ArtifactRef, Language, LedgerEntry, Ranking, Record

_LEAST_STORES = 8  # fewer are asked one by one as fast
_MOST_RECORDS = 2_000  # of one store: ranking more of them takes longer than a call
_AT_ONCE = 4  # stores that are read at the same time, and copied together
_MOST_IN_ALL = 100_000  # records that are copied
_BETWEEN = "\x01"  # sorts before all letters: copies are in the order of the ids, then of the stores


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """What was read of a store.

    Args:
        language: The language of its texts.
        dim: The width of its vectors.
        artifacts: The records of each artifact, and their vectors.
    """

    language: Language | None
    dim: int
    artifacts: Mapping[str, tuple[Sequence[Record], Floats]]

    @property
    def kind(self) -> tuple[Language | None, int]:
        """Return what the stores of one index have in common."""
        return self.language, self.dim

    @property
    def size(self) -> int:
        """Return the number of records."""
        return sum(len(records) for records, _ in self.artifacts.values())


class Stack:
    """The records of many small stores, copied into one index.

    Those in it have texts of one language, and vectors of one width, as most of the stores have.

    Args:
        stores: The stores by name. Those of other kinds, and large ones, are left out.
    """

    def __init__(self, stores: Mapping[str, Store]) -> None:
        here = {name: store for name, store in stores.items() if _is_here(store) and _BETWEEN not in name}
        self._stores: Mapping[str, EngineStore] = here if len(here) >= _LEAST_STORES else {}
        self._lock = SharedLock("the copies of small stores")
        self._clear(None, 0)

    def _clear(self, language: Language | None, dim: int) -> None:
        self._kind = language, dim
        self._content = MemoryContent(language)
        self._versions: dict[str, Hashable] = {}
        self._refs: dict[str, list[ArtifactRef]] = {}  # what is copied of each store
        self._ref_of: dict[str, ArtifactRef] = {}
        weakref.finalize(self, self._content.texts.close)

    async def update(self) -> frozenset[str]:
        """Copy the stores that have changed, and return the names of those in the stack.

        If the call is cancelled, what it has copied stays.
        """
        if not self._stores:
            return frozenset()
        async with self._lock.hold():
            await self._update()
            return frozenset(self._refs)

    async def read(self, names: AbstractSet[str], requests: Sequence[Request[Any]]) -> list[Any] | None:
        """Return the answer of all stores together to each request.

        The result is `None` if the stack has other stores by now.

        The answer to `Words` is that of one store with all records. The answer to `Rank` is the rankings of each store
        that has a row among the `k` best of all, by its name.

        Args:
            names: The names of the stores, as `update` has returned them.
            requests: Rankings and counts of words, without `among` and `records`.
        """
        async with self._lock.hold():
            if names != self._refs.keys():
                return None
            finishes = [self._content.prepare_if_quick(request) for request in requests]
            if None in finishes:
                return await in_thread(lambda: [self._answer(request) for request in requests])
            return [
                self._share(request, finish()) for request, finish in zip(requests, finishes, strict=True) if finish
            ]

    def _answer(self, request: Request[Any]) -> Any:
        return self._share(request, self._content.prepare(request)())

    def _share(self, request: Request[Any], answer: Any) -> Any:
        return self._split(answer) if isinstance(request, Rank) else answer

    def _split(self, rankings: Sequence[Ranking]) -> dict[str, list[Ranking]]:
        """Return the rows of each store that has some, with its own ids.

        The first store is always there: it tells how high scores can be.
        """
        nothing = [Ranking([], [], np.empty(0, np.float64), ranking.max_score) for ranking in rankings]
        parts = {name: [*nothing] for name in islice(self._refs, 1)}
        for number, ranking in enumerate(rankings):
            refs = [self._ref_of[id] for id in ranking.artifact_ids]
            places: dict[str, list[int]] = {}
            for place, ref in enumerate(refs):
                places.setdefault(ref.source, []).append(place)
            for name, own in places.items():
                parts.setdefault(name, [*nothing])[number] = _take(ranking, refs, own)
        return parts

    async def _update(self) -> None:
        versions = {name: await _version_of(store) for name, store in self._stores.items()}
        # A version that is not known may be any.
        new = [name for name, version in versions.items() if version is None or self._versions.get(name) != version]
        for start in range(0, len(new), _AT_ONCE):
            part = new[start : start + _AT_ONCE]
            copies = await _read_copies({name: self._stores[name] for name in part if versions[name] is not None})
            # The first store says what the others must have in common with it.
            if copies and not self._refs:
                self._content.texts.close()
                self._clear(*next(iter(copies.values())).kind)
            await in_thread(self._replace, part, copies)
            self._versions |= {name: versions[name] for name in part}

    def _replace(self, names: Sequence[str], copies: Mapping[str, _Copy]) -> None:
        """Replace the copies of stores; those that cannot be copied are left out."""
        removed = [ref for name in names for ref in self._refs.pop(name, ())]
        puts, size = list[ArtifactChange](), len(self._content.by_id)
        for name, copy in copies.items():
            size += copy.size
            if copy.kind == self._kind and size <= _MOST_IN_ALL:
                refs = self._refs[name] = [ArtifactRef(name, id) for id in copy.artifacts]
                puts += map(_to_change, refs, copy.artifacts.values())
        self._content.replace(
            puts,
            [record for change in puts for record in change.records],
            np.concatenate([change.vectors for change in puts]) if puts else None,
            [*map(_join, removed)],
        )
        for ref in removed:
            del self._ref_of[_join(ref)]
        self._ref_of |= {_join(ref): ref for name in copies for ref in self._refs.get(name, ())}


def _is_here(store: Store) -> TypeGuard[EngineStore]:
    """Return whether a store is one of airw's in this process.

    A class derived from one may do anything.
    """
    return type(store) in (MemoryStore, SqliteStore)


def _join(ref: ArtifactRef) -> str:
    return f"{ref.id}{_BETWEEN}{ref.source}"


def _to_change(ref: ArtifactRef, rows: tuple[Sequence[Record], Floats]) -> ArtifactChange:
    records, vectors = rows
    id, prefix = _join(ref), f"{ref.source}/"
    copies = [replace(record, id=prefix + record.id, artifact_id=id) for record in records]
    return ArtifactChange(LedgerEntry(id, "", "", "", record_ids=[copy.id for copy in copies]), copies, vectors)


def _take(ranking: Ranking, refs: Sequence[ArtifactRef], places: Sequence[int]) -> Ranking:
    """Return some rows of a ranking, which are of one store."""
    prefix = f"{refs[places[0]].source}/"
    return Ranking(
        [ranking.record_ids[place].removeprefix(prefix) for place in places],
        [refs[place].id for place in places],
        ranking.scores[[*places]],
        ranking.max_score,
    )


async def _version_of(store: EngineStore) -> Hashable:
    """Return the version of a store, or `None`: whoever asks it gets its error."""
    try:
        return await store.version()
    except Exception:  # noqa: BLE001 - a store may fail in any way
        return None


async def _read_copies(stores: Mapping[str, EngineStore]) -> dict[str, _Copy]:
    """Return copies of the stores that are small, and have not failed."""
    copies = await map_bounded(_read_copy, [*stores.values()], limit=_AT_ONCE)
    return {name: copy for name, copy in zip(stores, copies, strict=True) if copy is not None}


async def _read_copy(store: EngineStore) -> _Copy | None:
    try:
        counts, language, ids = await ask_all(store, Counts(), TextLanguage(), ArtifactIds())
        if not 0 < counts["records"] <= _MOST_RECORDS:
            return None
        records, vectors = await ask_all(store, RecordsOf(ids), VectorsOf(ids))
        await store.put_aside()
    except Exception:  # noqa: BLE001 - a store may fail in any way; whoever asks it gets its error
        return None
    if any(_BETWEEN in id for id in ids):
        return None
    return _to_copy(language, ids, records, vectors)


def _to_copy(
    language: Language | None, ids: Sequence[str], records: Sequence[Sequence[Record] | None], vectors: ArtifactVectors
) -> _Copy:
    row_of = {id: row for row, id in enumerate(chain.from_iterable(vectors.record_ids))}
    artifacts = dict[str, tuple[Sequence[Record], Floats]]()
    for id, found in zip(ids, records, strict=True):
        own = [record for record in found or () if record.id in row_of]  # others were written in between
        if own:
            artifacts[id] = own, vectors.vectors[[row_of[record.id] for record in own]]
    return _Copy(language, vectors.vectors.shape[1], artifacts)

"""Many small stores of one process, ranked as one.

To rank 400 stores one by one takes a hundred times as long as to rank one store with all of their records. A `Stack`
copies the records once, and afterwards those of the stores that have changed.
"""

import math
from collections.abc import Hashable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from airw._base.concurrency import map_bounded
from airw._base.sharing import SharedLock
from airw.protocols import (
    ArtifactIds,
    Calibrations,
    Change,
    Config,
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
from airw.stores.memory.store import GroupRanking, MemoryStore
from airw.stores.sqlite.store import SqliteStore
from airw.values import ArtifactChange, Language, LedgerEntry, Ranking, Record

_LEAST_STORES = 8  # fewer are asked one by one as fast
_MOST_RECORDS = 2_000  # of one store: ranking more of them takes longer than a call
_AT_ONCE = 4  # stores that are read at the same time, and copied together
_MOST_IN_ALL = 100_000  # records that are copied
_BETWEEN = "\x01"  # sorts before all letters: copies are in the order of the ids, then of the stores


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """What was read of a store.

    Args:
        version: The version of the store; `None` if it is unknown, and may be any.
        kind: The language of its texts and the width of its vectors: what the stores of one index have in common.
        size: The number of its records.
        settings: Its calibrations and its settings.
        puts: Its artifacts, under ids that tell its name.
    """

    version: Hashable
    kind: tuple[Language | None, int] | None = None
    size: int = 0
    settings: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
    puts: Sequence[ArtifactChange] = ()


class _Together(MemoryStore):
    """The store of the copies."""

    async def rank_apart(self, request: Rank) -> dict[str, GroupRanking]:
        """Return what each store would rank alone."""

        def split(record: Record) -> tuple[str, Record]:
            """Return the name of the store of a copy, and the record as that store knows it."""
            id, _, name = record.artifact_id.rpartition(_BETWEEN)
            return name, replace(record, id=record.id.removeprefix(f"{name}/"), artifact_id=id)

        return await self._write(lambda: self._content.rank_apart(request, split))


class Stack:
    """The records of many small stores, copied into one index.

    Those in it have texts of one language, and vectors of one width, as most of the stores have.

    Args:
        most_records: The records of the largest store that is copied.
        most_in_all: The largest number of records that are copied.
    """

    def __init__(self, *, most_records: int = _MOST_RECORDS, most_in_all: int = _MOST_IN_ALL) -> None:
        self._most_records, self._most_in_all = most_records, most_in_all
        self._lock = SharedLock("the copies of small stores")
        self._together = _Together()
        self._kind: tuple[Language | None, int] | None = None
        self._copies: dict[str, _Copy] = {}  # without their artifacts
        self._ids: dict[str, list[str]] = {}  # of the artifacts that are copied of each store, or may be

    async def update(self, stores: Mapping[str, Store], *, most: float = math.inf) -> frozenset[str]:
        """Copy the stores that have changed, and return the names of those in the stack.

        If the call is cancelled, what it has copied stays.

        Args:
            stores: All stores by name, always the same ones. Those of other kinds, and large ones, are left out.
            most: After so many copied records, the stores that are left wait for the next call.
        """
        here = choose_small(stores)
        if not here:
            return frozenset()
        async with self._lock.hold():
            if gone := self._copies.keys() - here.keys():
                await self._replace({name: _Copy(None) for name in gone})
                self._copies = {name: copy for name, copy in self._copies.items() if name in here}
            new = list[str]()
            for name, store in here.items():
                known = self._copies.get(name)
                if known is None or known.version is None or known.version != await _version_of(store):
                    new.append(name)
            read = partial(_read, most=self._most_records)
            for start in range(0, len(new), _AT_ONCE):
                names = new[start : start + _AT_ONCE]
                if most <= 0:
                    # What was copied of them is old.
                    await self._replace({name: _Copy(None) for name in new[start:]})
                    break
                copies = await map_bounded(lambda name: read(name, here[name]), names, limit=_AT_ONCE)
                await self._replace(dict(zip(names, copies, strict=True)))
                most -= sum(copy.size for copy in copies)
            return frozenset(self._list_names())

    def _list_names(self) -> list[str]:
        return [name for name, copy in self._copies.items() if copy.size]

    async def _replace(self, copies: Mapping[str, _Copy]) -> None:
        """Replace the copies of stores; those that cannot be copied are left out."""
        removed = {id for name in copies for id in self._ids.get(name, ())}
        for name in copies:
            self._copies.pop(name, None)
        # The first store says what the others must have in common with it.
        size = sum(copy.size for copy in self._copies.values())
        if not size and (first := next(filter(None, (copy.kind for copy in copies.values())), None)):
            await self._together.aclose()
            self._kind, self._together, self._ids, removed = first, _Together(language=first[0]), {}, set()
        accepted = dict[str, _Copy]()
        for name, copy in copies.items():
            is_in = copy.kind == self._kind and size + copy.size <= self._most_in_all
            accepted[name] = copy if is_in else _Copy(copy.version)
            size += accepted[name].size
        puts = [put for copy in accepted.values() for put in copy.puts]
        ids = {name: [put.entry.artifact_id for put in copy.puts] for name, copy in accepted.items()}
        # If the call is cancelled, all of these may be there, and are replaced by the next one.
        self._ids |= {name: [*self._ids.get(name, ()), *ids[name]] for name in ids}
        await self._together.apply(Change(puts, removals=[*removed.difference(*ids.values())]))
        self._ids |= ids
        self._copies |= {name: replace(copy, puts=()) for name, copy in accepted.items()}

    async def read(
        self, names: AbstractSet[str], requests: Sequence[Request[Any]], *, without: AbstractSet[str] = frozenset()
    ) -> list[Any] | None:
        """Return the answer of all stores together to each request.

        The result is `None` if the stack has other stores by now.

        The answer to `Words` is that of one store with all records. The answer to `Rank` is the rankings of each store
        that has a row among the `k` best of all, by its name.

        Args:
            names: The names of the stores, as `update` has returned them.
            requests: Rankings and counts of words, without `among` and `records`.
            without: Stores that are left out of the rankings.
        """
        async with self._lock.hold():
            present = self._list_names()
            if names != {*present}:
                return None
            if without:
                present = [name for name in present if name not in without]
                among = [id for name in present for id in self._ids[name]]
                requests = [replace(each, among=among) if isinstance(each, Rank) else each for each in requests]
            answers = await self._together.read(*requests)
        pairs = zip(requests, answers, strict=True)
        return [_split(answer, present) if isinstance(request, Rank) else answer for request, answer in pairs]

    async def rank_apart(self, names: AbstractSet[str], request: Rank) -> dict[str, GroupRanking] | None:
        """Return the ranking of each store alone.

        The result is `None` if the stack has other stores by now.

        Args:
            names: The names of the stores, as `update` has returned them.
            request: Ranks the artifacts for one query, without conditions.
        """
        async with self._lock.hold():
            if names != {*self._list_names()}:
                return None
            return await self._together.rank_apart(request)

    def settings_of(self, name: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the calibrations and the settings of a store, as they were when it was copied."""
        return self._copies[name].settings if name in self._copies else ({}, {})


def choose_small(stores: Mapping[str, Store]) -> dict[str, EngineStore]:
    """Return the stores that may be in a stack.

    There are none if they are so few that they are asked one by one as fast.
    """
    # A class derived from a store of airw may do anything.
    here = {
        name: store
        for name, store in stores.items()
        if isinstance(store, EngineStore) and type(store) in (MemoryStore, SqliteStore) and _BETWEEN not in name
    }
    return here if len(here) >= _LEAST_STORES else {}


def _split(rankings: Sequence[Ranking], names: Sequence[str]) -> dict[str, list[Ranking]]:
    """Return the rows of each store that has some, with its own ids.

    The first store is always there: it tells how high scores can be.
    """
    nothing = [Ranking([], [], np.empty(0, np.float64), ranking.max_score) for ranking in rankings]
    parts = {name: [*nothing] for name in names[:1]}
    for number, ranking in enumerate(rankings):
        ids, sources = list[str](), dict[str, list[int]]()
        for place, (id, _, source) in enumerate(each.rpartition(_BETWEEN) for each in ranking.artifact_ids):
            ids.append(id)
            sources.setdefault(source, []).append(place)
        for name, places in sources.items():
            parts.setdefault(name, [*nothing])[number] = Ranking(
                [ranking.record_ids[place].removeprefix(f"{name}/") for place in places],
                [ids[place] for place in places],
                ranking.scores[places],
                ranking.max_score,
            )
    return parts


async def _version_of(store: EngineStore) -> Hashable:
    """Return the version of a store, or `None`: whoever asks it gets its error."""
    try:
        return await store.version()
    except Exception:  # noqa: BLE001 - a store may fail in any way
        return None


async def _read(name: str, store: EngineStore, *, most: int) -> _Copy:
    """Return a copy of a store.

    It has no artifacts if the store has more than the most records, or has failed.
    """
    version = await _version_of(store)
    nothing = _Copy(version)
    try:
        about = await store.read(Counts(), TextLanguage(), ArtifactIds(), Calibrations(), Config())
        counts, language, ids, *settings = about
        if version is None or not 0 < counts["records"] <= most or any(_BETWEEN in id for id in ids):
            return nothing
        records, vectors = await ask_all(store, RecordsOf(ids), VectorsOf(ids))
        await store.put_aside()
    except Exception:  # noqa: BLE001 - a store may fail in any way; whoever asks it gets its error
        return nothing
    puts, start = list[ArtifactChange](), 0
    for id, found, record_ids in zip(ids, records, vectors.record_ids, strict=True):
        stop, new_id = start + len(record_ids), f"{id}{_BETWEEN}{name}"
        copies = [replace(record, id=f"{name}/{record.id}", artifact_id=new_id) for record in found or ()]
        if copies:
            puts.append(ArtifactChange(LedgerEntry(new_id, "", "", ""), copies, vectors.vectors[start:stop]))
        start = stop
    size = sum(len(put.records) for put in puts)
    return _Copy(version, (language, vectors.vectors.shape[1]), size, (settings[0], settings[1]), puts)

"""The store of several corpora of which some read a whole step of a walk in one call."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_count
from airw._base.concurrency import map_bounded, offload_if
from airw.discovery._federated_answers import (
    FederatedEdge,
    collect_own_edges,
    common_width,
    group_by_corpus,
    join_id,
    refs_to,
    to_federated_record,
)
from airw.discovery._federated_calls import MemberCalls
from airw.discovery._federated_store import FederatedStore
from airw.protocols import ArtifactVectors, BestRecords, Store
from airw.protocols.steps import StepAnswer
from airw.stores.steps import complete_step, compose_step, reads_steps
from airw.values import Direction, NodeIdLike, Record

_OFFLOAD_ABOVE = 300  # artifacts of answers; noting more of them takes about a millisecond
_NOTHING: tuple[None, float] = (None, float("nan"))


def make_federated_store(calls: MemberCalls) -> FederatedStore:
    """Return a store that reads whole steps if the store of any corpus does.

    Example:
        >>> from airw.stores import MemoryStore
        >>> calls = MemberCalls({"a": MemoryStore()}, on_error="raise", timeout=None)
        >>> reads_steps(make_federated_store(calls))
        False
    """
    reads_any = any(reads_steps(store) for store in calls.stores.values())
    return FederatedStepStore(calls) if reads_any else FederatedStore(calls)


class FederatedStepStore(FederatedStore):
    """The store of several corpora that reads a whole step of a walk.

    A step is one call of each store whose artifacts it concerns. Links between corpora take further calls: for the
    links from other corpora, and for the artifacts at their ends. For a store that cannot read a step, it is put
    together from other calls.
    """

    async def read_step(
        self,
        ids: Sequence[NodeIdLike],
        query: Floats | None,
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
        hit_ids: Sequence[NodeIdLike] = (),
        known_ids: Sequence[NodeIdLike] = (),
        max_ends: int = 0,
        max_records: int = 0,
        with_vectors: bool = False,
    ) -> StepAnswer:
        """Return the edges of artifacts, and the best records of these and of the ends.

        It is that of `StepReader`. Unlike `neighbors`, it takes for granted that the artifacts of `ids` and `known_ids`
        exist, as long as their corpus answers.
        """
        check_count("max_ends", max_ends)
        check_count("max_records", max_records)
        reading = _StepReading(self.calls, query, max_records=max_records, with_vectors=with_vectors)
        filter: dict[str, Any] = {"types": types, "exclude": exclude, "origins": origins}
        # 1. Read what each store has, and the links from other corpora at the same time.
        readers = [partial(reading.read, ids, hit_ids, known_ids, direction=direction, max_ends=max_ends, **filter)]
        if direction != "out":
            readers.append(partial(self._read_edges_by_pair, ids, filter))
        edges = [edge for own in await map_bounded(lambda read: read(), readers, limit=2) for edge in own]
        # 2. Read what lies behind links between corpora. An artifact of which a record was found exists.
        known = {id for id in (*ids, *known_ids) if not isinstance(id, str) and self.calls.asks(id[0])}
        if max_ends:
            ends = _find_foreign_ends(ids, edges)
            await reading.find_best([end for end in ends if end not in known][:max_ends])
        arranged = await self._arrange_edges(ids, edges, limit, known | reading.list_found())
        # 3. Nearly all is known now; what is not is asked for.
        return await complete_step(
            ids,
            arranged,
            reading.find_best,
            partial(reading.get_records, self),
            reading.vectors_of if with_vectors else None,
            hit_ids=hit_ids,
            known_ids=known_ids,
            max_ends=max_ends,
            max_records=max_records,
            is_ranked=query is not None,
        )


class _MemberStep(NamedTuple):
    """The artifacts of one corpus that a step concerns."""

    ids: list[str]
    hit_ids: list[str]
    known_ids: list[str]


class _StepReading:
    """What the stores have read for one step.

    Args:
        calls: The calls of the stores.
        query: The vector of the query; `None` for first records.
        max_records: The largest number of records of ends per artifact.
        with_vectors: Whether to read vectors, too.
    """

    def __init__(self, calls: MemberCalls, query: Floats | None, *, max_records: int, with_vectors: bool) -> None:
        self._calls, self._query = calls, query
        self._options = {"max_records": max_records, "with_vectors": with_vectors}
        self._best: dict[Any, tuple[str | None, float]] = {}
        self._records: dict[str, Record] = {}
        self._vectors: dict[Any, tuple[list[str], Floats]] = {}

    async def read(
        self,
        ids: Sequence[NodeIdLike],
        hit_ids: Collection[NodeIdLike],
        known_ids: Sequence[NodeIdLike] = (),
        **options: Any,
    ) -> list[FederatedEdge]:
        """Read a step of each store about its own artifacts, and return their edges."""
        stores = self._calls.stores
        positions, own_ids = group_by_corpus(ids, stores)
        _, hits = group_by_corpus([*dict.fromkeys(hit_ids)], stores)
        _, known = group_by_corpus(known_ids, stores)
        requests = {
            name: _MemberStep(own_ids.get(name, []), hits.get(name, []), known.get(name, []))
            for name in stores
            if name in own_ids or name in hits
        }
        answers = await self._calls.call(requests, partial(self._read_member, options))
        is_long = sum(len(answer.artifact_ids) for answer in answers.values()) > _OFFLOAD_ABOVE
        await offload_if(is_long, self._note, answers)
        for id in hit_ids:
            self._best.setdefault(id, _NOTHING)
        edges = {name: answer.edges for name, answer in answers.items() if name in positions}
        is_long = sum(len(own) for lists in edges.values() for own in lists) > _OFFLOAD_ABOVE
        return await offload_if(is_long, collect_own_edges, positions, edges)

    async def _read_member(self, options: Mapping[str, Any], store: Store, request: _MemberStep) -> StepAnswer:
        read: Any = store.read_step if reads_steps(store) else partial(compose_step, store)
        others = {**self._options, **options, "hit_ids": request.hit_ids, "known_ids": request.known_ids}
        answer: StepAnswer = await read(request.ids, self._query, **others)
        return answer

    def _note(self, answers: Mapping[str, StepAnswer]) -> None:
        for source, answer in answers.items():
            refs = refs_to(source, answer.artifact_ids)
            record_ids = [None if id is None else join_id(source, id) for id in answer.best.record_ids]
            self._best.update(zip(refs, zip(record_ids, answer.best.scores.tolist(), strict=True), strict=True))
            found = [to_federated_record(source, record) for record in answer.records if record is not None]
            self._records.update((record.id, record) for record in found)
            if answer.vectors is not None:
                own_ids, rows = answer.vectors
                ends = np.cumsum([0, *map(len, own_ids)])
                for ref, ids, start in zip(refs, own_ids, ends.tolist(), strict=False):
                    self._vectors[ref] = [join_id(source, id) for id in ids], rows[start : start + len(ids)]

    def list_found(self) -> set[Any]:
        """Return the artifacts of which a record was found."""
        return {id for id, (record_id, _) in self._best.items() if record_id is not None}

    async def find_best(self, ids: Sequence[Any]) -> BestRecords:
        """Return the best record of each artifact; those that are not known are read at once."""
        new_ids = [id for id in ids if id not in self._best]
        if new_ids:
            await self.read([], new_ids)
        best = [self._best[id] for id in ids]
        return BestRecords([id for id, _ in best], np.array([score for _, score in best], np.float32))

    async def get_records(self, store: FederatedStore, record_ids: Sequence[str]) -> list[Record | None]:
        """Return records by id; those that are not known are read at once."""
        new_ids = [id for id in record_ids if id not in self._records]
        found = await store.get_records(new_ids) if new_ids else []
        self._records.update((record.id, record) for record in found if record is not None)
        return [self._records.get(id) for id in record_ids]

    async def vectors_of(self, ids: Sequence[Any]) -> ArtifactVectors:
        """Return the vectors of artifacts that were read.

        Raises:
            EmbedderMismatch: If they have several widths.
        """
        width = common_width(rows for _, rows in self._vectors.values())
        empty = np.empty((0, width), np.float32)
        own_ids, parts = zip(*(self._vectors.get(id, ([], empty)) for id in ids), strict=True) if ids else ((), ())
        # A store without vectors answers with width 0, and would not fit the others.
        return ArtifactVectors([*own_ids], np.concatenate([empty, *(rows for rows in parts if rows.size)]))


def _find_foreign_ends(ids: Sequence[NodeIdLike], edges: Sequence[FederatedEdge]) -> list[Any]:
    """Return the other ends of edges by links that name a corpus, without duplicates."""
    named = (edge for edge in edges if edge.names_corpus)
    ends = (edge.source if edge.target == ids[position] else edge.target for position, edge, _ in named)
    return [*dict.fromkeys(ends)]

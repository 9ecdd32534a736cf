"""The store of several corpora: asks those that are concerned, all at once, and puts their answers together."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import map_bounded, offload_if
from airw.discovery._member_answers import (
    Found,
    Places,
    as_asked,
    as_said,
    best_in_order,
    edges_in_order,
    edges_to,
    entry_of_member,
    in_order,
    link_of_member,
    of_member,
    own_edges,
    ranked_by_rank,
    ranked_by_score,
    refs_to,
    rows_in_order,
    shared_out,
    split_ids,
    summed,
    width_of,
)
from airw.protocols import ArtifactVectors, BestRecords, Store
from airw.values import (
    ArtifactRef,
    Direction,
    Edge,
    LedgerEntry,
    LinkCount,
    NodeIdLike,
    Ranking,
    Record,
    UnresolvedLink,
)
from airw.values.filters import Filter

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
Args = TypeVarTuple("Args")

_AT_ONCE = 16  # corpora asked
_MANY = 1_000  # ids, told apart and put together in about a millisecond; or edges


class MemberStore:
    """What a store is asked when it is read, asked of several: artifacts are `(source, id)`, records `source/id`.

    Each call is one call of each store that it concerns, but for `neighbors` and `max_fan_in`, which say what they
    cost. What no store holds is answered as by a store that does not hold it. Where answers are ranked together, ties
    are in the order of the stores, then as each of them orders its own. An error carries a note that names the corpus.

    Args:
        stores: The stores by the name of their corpus; no name holds a `/`.
    """

    def __init__(self, stores: Mapping[str, Store]) -> None:
        self._stores = dict(stores)
        self._places = {name: place for place, name in enumerate(self._stores)}

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        """Give the record of each id."""

        def made(source: str, record: Record | None) -> Record | None:
            return None if record is None else of_member(source, record)

        pairs = await offload_if(len(ids) > _MANY, split_ids, ids)
        return await self._aligned(pairs, lambda store, own: store.get_records(own), made, missing=None)

    async def records_of(
        self, artifact_ids: Sequence[NodeIdLike], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        """Give the records of each artifact, at most `limit`, in plan order; `None` for unknown artifacts."""

        def made(source: str, records: list[Record] | None) -> list[Record] | None:
            return None if records is None else [of_member(source, record) for record in records]

        return await self._aligned(
            artifact_ids, lambda store, own: store.records_of(own, kinds=kinds, limit=limit), made, missing=None
        )

    async def ledger(self, ids: Sequence[NodeIdLike] | None = None) -> list[LedgerEntry | None]:
        """Give the ledger entry of each artifact; of all, store by store and ordered by id, when no ids are given."""
        if ids is not None:
            return await self._aligned(ids, lambda store, own: store.ledger(own), entry_of_member, missing=None)
        answers = await self._ask_all(lambda store: store.ledger())
        return [entry_of_member(source, entry) for source, entries in answers.items() for entry in entries]

    async def artifact_ids(self) -> list[ArtifactRef]:
        """Give the ids of all artifacts, store by store and sorted in each."""
        answers = await self._ask_all(lambda store: store.artifact_ids())
        return [ref for source, ids in answers.items() for ref in refs_to(source, ids)]

    async def search_vectors(
        self,
        queries: Floats,
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Rank for each row of `queries` `(m, dim)` the best `k` records, or artifacts, of all stores together.

        Order: score descending, then the order of the stores, then `(artifact_id, surface_index)`.
        """
        answers = await self._ask_all(
            lambda store: store.search_vectors(queries, k, filter=filter, surfaces=surfaces, per_artifact=per_artifact)
        )
        return [ranked_by_score({name: each[at] for name, each in answers.items()}, k) for at in range(len(queries))]

    async def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Rank for each query the best `k` records, or artifacts, that hold at least one of its words.

        BM25 goes by the statistics of one corpus, so scores of several are not on one scale: the rankings are fused by
        reciprocal rank, and its mass is the score, even where only one store found something. So the first of each
        store come first, in the order of the stores, then the second of each, and so on.
        """
        answers = await self._ask_all(
            lambda store: store.search_text(queries, k, filter=filter, surfaces=surfaces, per_artifact=per_artifact)
        )
        return [ranked_by_rank({name: each[at] for name, each in answers.items()}, k) for at in range(len(queries))]

    async def similarities(self, query: Floats, record_ids: Sequence[str]) -> Floats:
        """Give the cosine of `query` `(dim,)` to each record: `(n,) float32`, NaN where there is no such record."""
        pairs = await offload_if(len(record_ids) > _MANY, split_ids, record_ids)
        places, answers = await self._ask_own(pairs, lambda store, own: store.similarities(query, own))
        scores = np.full(len(record_ids), np.nan, np.float32)
        for source, found in answers.items():
            scores[places[source]] = found
        return scores

    async def best_of(
        self, query: Floats, artifact_ids: Sequence[NodeIdLike], *, surfaces: Sequence[str] | None = None
    ) -> BestRecords:
        """Give for each artifact the id and the cosine of its best record; `None` and NaN where it has none."""
        count = len(artifact_ids)
        places, answers = await self._ask_own(
            artifact_ids, lambda store, own: store.best_of(query, own, surfaces=surfaces)
        )
        return await offload_if(count > _MANY, best_in_order, count, places, answers)

    async def vectors(self, ids: Sequence[str]) -> Floats:
        """Give the vector of each record: `(n, dim) float32`, a row of NaN where there is no such record.

        Raises:
            EmbedderMismatch: They are of several widths.
        """
        pairs = await offload_if(len(ids) > _MANY, split_ids, ids)
        places, answers = await self._ask_own(pairs, lambda store, own: store.vectors(own), at_least=self._nothing)
        rows = np.full((len(ids), width_of(answers.values())), np.nan, np.float32)
        for source, found in answers.items():
            if found.size:
                rows[places[source]] = found
        return rows

    async def vectors_of(self, artifact_ids: Sequence[NodeIdLike]) -> ArtifactVectors:
        """Give the record ids of each artifact in plan order, and all their vectors in that order: `(n, dim) float32`.

        Raises:
            EmbedderMismatch: They are of several widths.
        """
        count = len(artifact_ids)
        places, answers = await self._ask_own(
            artifact_ids, lambda store, own: store.vectors_of(own), at_least=self._nothing
        )
        return await offload_if(count > _MANY, rows_in_order, count, places, answers)

    async def resolve(self, refs: Sequence[NodeIdLike]) -> list[list[ArtifactRef]]:
        """Give for each reference the artifacts that carry it by the word of each store; a pair asks one store alone.

        They are store by store, sorted in each. What is strong in one corpus stands beside what is weak in another.
        """
        shares = {
            name: [at for at, ref in enumerate(refs) if isinstance(ref, str) or ref[0] == name] for name in self._stores
        }
        asked = {name: [_text(refs[at]) for at in places] for name, places in shares.items() if places}
        answers = await self._ask(asked, lambda store, own: store.resolve(own))
        found: list[list[ArtifactRef]] = [[] for _ in refs]
        for source, answer in answers.items():
            for at, ids in zip(shares[source], answer, strict=True):
                found[at] += refs_to(source, ids)
        return found

    async def referrers(
        self, nodes: Sequence[NodeIdLike], *, types: Sequence[str] | None = None
    ) -> list[list[ArtifactRef]]:
        """Give for each node the artifacts that link to it, store by store and sorted, each once and never itself.

        A node is an artifact, to which links of its own corpus lead by any of its names and those of others by its
        pair; or `(source, id)` of a corpus that is not here; or any other text, in each store as it reads it.
        """
        asked = {name: [each for node in nodes for each in as_asked(node, name)] for name in self._stores}
        answers = await self._ask(asked, lambda store, own: store.referrers(own, types=types))
        rest = {source: iter(answer) for source, answer in answers.items()}
        found: list[list[ArtifactRef]] = []
        for node in nodes:
            linking = [
                ref for source in rest for ref in refs_to(source, _together(rest[source], as_asked(node, source)))
            ]
            found.append([each for each in linking if each != node])
        return found

    async def fan_in(self, nodes: Sequence[NodeIdLike], *, types: Sequence[str] | None = None) -> list[int]:
        """Count the referrers of each node."""
        return [len(ids) for ids in await self.referrers(nodes, types=types)]

    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        """Count the referrers of the node that has most; 0 without links.

        What is no artifact of any store counts in each for itself, and so does an artifact that links to itself as to
        one of another corpus. Two calls of each store, and two more that look at
        all artifacts where links lead to other corpora.
        """
        most = await self._ask_all(lambda store: store.max_fan_in(types=types))
        counts = await self._ask_all(lambda store: store.counts())
        across = await self.artifact_ids() if any(count["foreign"] for count in counts.values()) else []
        fan_ins = await self.fan_in(across, types=types) if across else []
        return max([*most.values(), *fan_ins])

    async def matching(self, wanted: Sequence[tuple[str, Any]], *, limit: int | None = None) -> list[list[ArtifactRef]]:
        """Give for each `(field, value)` the artifacts, store by store and sorted, whose field equals it or lists it.

        A tuple is no value but an artifact, which fields may hold as `[source, id]`, those of its own corpus as its id.
        """
        asked = {
            name: [(field, each) for field, value in wanted for each in as_said(value, name)] for name in self._stores
        }
        answers = await self._ask(asked, lambda store, own: store.matching(own, limit=limit))
        rest = {source: iter(answer) for source, answer in answers.items()}
        return [
            [ref for source in rest for ref in refs_to(source, _together(rest[source], as_said(value, source)))][:limit]
            for _, value in wanted
        ]

    async def neighbors(
        self,
        ids: Sequence[NodeIdLike],
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[list[Edge]]:
        """Give the edges of each artifact, ordered by type, then by the store and the id of the other end.

        A link to another corpus is an edge where that corpus is here and holds the artifact. One call of each store,
        one more where such links lead into it, and against their direction two more to find them.
        """
        kept: dict[str, Any] = {"types": types, "exclude": exclude, "origins": origins}
        ways: list[Callable[[], Awaitable[list[Found]]]] = [partial(self._known_to_own, ids, direction, kept)]
        if direction != "out":
            ways.append(partial(self._known_to_others, ids, kept))
        found = [each for way in await map_bounded(lambda way: way(), ways, limit=2) for each in way]
        named = list(dict.fromkeys(each.edge.target for each in found if each.is_named))
        entries = await self.ledger(named) if named else []
        unknown = {end for end, entry in zip(named, entries, strict=True) if entry is None}
        return await offload_if(len(found) > _MANY, edges_in_order, ids, found, unknown, self._places, limit)

    async def unresolved_links(
        self, artifact_ids: Sequence[NodeIdLike] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        """Give the links of these artifacts, or of all, that dangle or are ambiguous, store by store as each has them.

        Sources and candidates are pairs. What is unresolved in its own corpus is so here, whatever others hold.
        """
        shares = None if artifact_ids is None else shared_out(artifact_ids, self._stores)[1]
        if shares is None:
            answers = await self._ask_all(lambda store: store.unresolved_links(limit=limit))
        else:
            answers = await self._ask(shares, lambda store, own: store.unresolved_links(own, limit=limit))
        return [link_of_member(source, each) for source, found in answers.items() for each in found][:limit]

    async def link_counts(self) -> list[LinkCount]:
        """Count the links of all stores by type, origin and state, in that order.

        Each store counts as it does alone: a link to another corpus is `foreign` where that corpus is here too.
        """
        return summed(await self._ask_all(lambda store: store.link_counts()))

    async def _known_to_own(
        self, ids: Sequence[NodeIdLike], direction: Direction, kept: Mapping[str, Any]
    ) -> list[Found]:
        """Give the edges that the store of each artifact knows."""
        places, answers = await self._ask_own(ids, lambda store, own: store.neighbors(own, direction=direction, **kept))
        return await offload_if(_count(answers) > _MANY, own_edges, places, answers)

    async def _known_to_others(self, ids: Sequence[NodeIdLike], kept: Mapping[str, Any]) -> list[Found]:
        """Give the edges to each artifact by links that name its corpus, in whichever store they are."""
        nodes = [ArtifactRef(*id) for id in dict.fromkeys(ids) if not isinstance(id, str)]
        if not nodes:
            return []
        linking = await self._ask_all(lambda store: store.referrers(nodes, types=kept["types"]))
        sources = {source: sorted({id for each in found for id in each}) for source, found in linking.items()}
        asked = {source: own for source, own in sources.items() if own}
        answers = await self._ask(asked, lambda store, own: store.neighbors(own, direction="out", **kept))
        return await offload_if(_count(answers) > _MANY, edges_to, ids, answers)

    def _nothing(self) -> dict[str, list[str]]:
        return {name: [] for name in self._stores}

    async def _aligned(
        self,
        ids: Sequence[NodeIdLike],
        call: Callable[[Store, list[str]], Awaitable[Sequence[R]]],
        made: Callable[[str, R], S],
        *,
        missing: S,
    ) -> list[S]:
        """Ask each store about its own, and put what is made of the answers where it belongs."""
        places, answers = await self._ask_own(ids, call)
        return await offload_if(len(ids) > _MANY, in_order, [missing] * len(ids), places, answers, made)

    async def _ask_own(
        self,
        ids: Sequence[NodeIdLike],
        call: Callable[[Store, list[str]], Awaitable[R]],
        *,
        at_least: Callable[[], Mapping[str, list[str]]] = dict,
    ) -> tuple[Places, dict[str, R]]:
        """Ask each store about its own artifacts, or records; or what it is asked at least where none has any."""
        places, asked = await offload_if(len(ids) > _MANY, shared_out, ids, self._stores)
        return places, await self._ask(asked or at_least(), call)

    async def _ask_all(self, call: Callable[[Store], Awaitable[R]]) -> dict[str, R]:
        return await self._ask(self._nothing(), lambda store, _: call(store))

    async def _ask(self, asked: Mapping[str, T], call: Callable[[Store, T], Awaitable[R]]) -> dict[str, R]:
        """Call each store that is asked something, at once; answers by name, in the order of the stores."""

        async def answer(name: str) -> R:
            try:
                return await call(self._stores[name], asked[name])
            except Exception as error:
                error.add_note(f"from corpus {name!r}")
                raise

        names = [name for name in self._stores if name in asked]
        return dict(zip(names, await map_bounded(answer, names, limit=_AT_ONCE), strict=True))


def _count(answers: Mapping[str, Iterable[Sequence[object]]]) -> int:
    return sum(len(each) for answer in answers.values() for each in answer)


def _text(ref: NodeIdLike) -> str:
    return ref if isinstance(ref, str) else ref[1]


def _together(answers: Iterator[Iterable[str]], asked: Sequence[object]) -> list[str]:
    """Take the next answer for each that was asked, and give all ids in them, sorted."""
    return sorted({id for _, ids in zip(asked, answers, strict=False) for id in ids})

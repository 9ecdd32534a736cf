"""`compose_step`: what `read_step` returns, put together from other calls of a store."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_count
from airw.protocols import BestRecords, StepAnswer
from airw.values import Edge


async def compose_step(
    store: Any,
    ids: Sequence[str],
    query: Floats | None,
    *,
    hit_ids: Sequence[str] = (),
    known_ids: Sequence[str] = (),
    max_ends: int = 0,
    max_records: int = 0,
    with_vectors: bool = False,
    **links: Any,
) -> StepAnswer:
    """Return the answer of `read_step` for a store that does not have this method.

    A server does so near its store, and a walk from another machine then costs one request a step. The calls need not
    see one state of the store if others write meanwhile.

    Args:
        store: A store that can be walked.
        ids: As in `StepReader.read_step`, like the rest.
        query: The vector of the query; `None` for the first record of each artifact.
        hit_ids: The artifacts whose records are wanted in any case.
        known_ids: The artifacts that are not compared if they are ends.
        max_ends: The largest number of ends to compare.
        max_records: The largest number of records of ends per artifact.
        with_vectors: Whether to read vectors, too.
        links: The options of `neighbors`.

    Raises:
        ArgumentError: If a number is negative, or the store refuses an option.

    Example:
        >>> import anyio
        >>> from airw.stores import MemoryStore
        >>> from airw.testing.changes import put
        >>> from airw.values import Link
        >>> async def main():
        ...     async with MemoryStore() as store:
        ...         await store.apply([put("a", "x", links=[Link("b")]), put("b", "y")])
        ...         return await compose_step(store, ["a"], None, max_ends=5)
        >>> anyio.run(main).artifact_ids
        ['b']
    """
    check_count("max_ends", max_ends)
    check_count("max_records", max_records)
    edges = await store.neighbors(ids, **links)
    # 1. Compare what was asked for, then the ends of the edges, without duplicates.
    hits, known = dict.fromkeys(hit_ids), frozenset(known_ids)
    ends_of = [_list_ends(id, own) for id, own in zip(ids, edges, strict=True)]
    ends = [end for end in dict.fromkeys(chain(*ends_of)) if end not in hits and end not in known]
    compared = [*hits, *ends[:max_ends]]
    best = await _find_best(store, query, compared)
    # 2. Read the records of what was asked for, and of the nearest ends of each artifact.
    wanted = {
        *range(len(hits)),
        *_choose_near(ends_of, compared, len(hits), best, max_records, ranks=query is not None),
    }
    record_ids = {place: best.record_ids[place] for place in sorted(wanted)}
    found = iter(await store.get_records([id for id in record_ids.values() if id is not None]))
    records = [next(found) if record_ids.get(place) is not None else None for place in range(len(compared))]
    return StepAnswer(edges, compared, best, records, await store.vectors_of(compared) if with_vectors else None)


def _list_ends(id: str, edges: Sequence[Edge]) -> list[str]:
    """Return the artifacts of this corpus at the other ends of edges, without duplicates."""
    ends = ((edge.source if edge.target == id else edge.target) for edge in edges if not edge.leads_out)
    return [*dict.fromkeys(str(end) for end in ends)]


def _choose_near(
    ends_of: Sequence[Sequence[str]],
    compared: Sequence[str],
    hit_count: int,
    best: BestRecords,
    max_records: int,
    *,
    ranks: bool,
) -> set[int]:
    """Return the places of the nearest ends of each artifact among those that were compared."""
    place_of = {id: place for place, id in enumerate(compared)}
    chosen: set[int] = set()
    for own in ends_of if max_records else ():
        places = [place_of[end] for end in own if place_of.get(end, -1) >= hit_count]
        near = [place for place in places if best.record_ids[place] is not None]
        if ranks:
            near.sort(key=lambda place: -best.scores[place])
        chosen.update(near[:max_records])
    return chosen


async def _find_best(store: Any, query: Floats | None, ids: Sequence[str]) -> BestRecords:
    if query is not None:
        answer: BestRecords = await store.best_of(query, ids)
        return answer
    surfaces = await store.records_of(ids, limit=1)
    return BestRecords([own[0].id if own else None for own in surfaces], np.full(len(ids), np.nan, np.float32))

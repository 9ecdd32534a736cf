"""Steps of walks: which stores read one in one call; how others put one together."""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, TypeGuard

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_count
from airw._base.overriding import is_newer
from airw.protocols import ArtifactVectors, BestRecords, StepAnswer, StepReader
from airw.values import Edge, Record

_OTHER_METHODS = ("neighbors", "best_of", "get_records", "records_of", "vectors_of")


def reads_steps(store: object) -> TypeGuard[StepReader]:
    """Return whether a store reads a whole step in one call.

    A class that has its own version of another method, but not of `read_step`, may hide something: it is not asked.
    """
    kind: Any = type(store)
    return _has_steps(kind)


@lru_cache(maxsize=64)
def _has_steps(kind: type) -> bool:
    # The type is looked at, because a store that passes its calls on may hide this one.
    return hasattr(kind, "read_step") and not any(is_newer(kind, name, "read_step") for name in _OTHER_METHODS)


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
    return await complete_step(
        ids,
        await store.neighbors(ids, **links),
        partial(_find_best, store, query),
        store.get_records,
        store.vectors_of if with_vectors else None,
        hit_ids=hit_ids,
        known_ids=known_ids,
        max_ends=max_ends,
        max_records=max_records,
        is_ranked=query is not None,
    )


async def complete_step(
    ids: Sequence[Any],
    edges: list[list[Edge]],
    find_best: Callable[[list[Any]], Awaitable[BestRecords]],
    get_records: Callable[[list[str]], Awaitable[list[Record | None]]],
    vectors_of: Callable[[list[Any]], Awaitable[ArtifactVectors]] | None,
    *,
    hit_ids: Sequence[Any],
    known_ids: Sequence[Any],
    max_ends: int,
    max_records: int,
    is_ranked: bool,
) -> StepAnswer:
    """Return the answer of `read_step` once the edges are read.

    Args:
        ids: As in `StepReader.read_step`, like `hit_ids` and the next three.
        edges: The edges of each of these artifacts.
        find_best: Returns the best, or the first, record of each artifact.
        get_records: Returns records by id.
        vectors_of: Returns the vectors of artifacts; `None` if they are not asked for.
        hit_ids: The artifacts whose records are wanted in any case.
        known_ids: The artifacts that are not compared if they are ends.
        max_ends: The largest number of ends to compare.
        max_records: The largest number of records of ends per artifact.
        is_ranked: Whether the nearest ends count, and not the first ones.
    """
    # 1. Compare what was asked for, then the ends of the edges, without duplicates.
    hits, known = dict.fromkeys(hit_ids), frozenset(known_ids)
    ends_of = [_list_ends(id, own) for id, own in zip(ids, edges, strict=True)]
    ends = [end for end in dict.fromkeys(chain(*ends_of)) if end not in hits and end not in known]
    compared = [*hits, *ends[:max_ends]]
    best = await find_best(compared)
    # 2. Read the records of what was asked for, and of the nearest ends of each artifact.
    wanted = {
        *range(len(hits)),
        *_choose_near(ends_of, compared, len(hits), best, max_records, is_ranked=is_ranked),
    }
    record_ids = {place: best.record_ids[place] for place in sorted(wanted)}
    found = iter(await get_records([id for id in record_ids.values() if id is not None]))
    records = [next(found) if record_ids.get(place) is not None else None for place in range(len(compared))]
    return StepAnswer(edges, compared, best, records, None if vectors_of is None else await vectors_of(compared))


def _list_ends(id: Any, edges: Sequence[Edge]) -> list[Any]:
    """Return the artifacts of this corpus at the other ends of edges, without duplicates."""
    ends = ((edge.source if edge.target == id else edge.target) for edge in edges if not edge.leads_out)
    return [*dict.fromkeys(ends)]


def _choose_near(
    ends_of: Sequence[Sequence[Any]],
    compared: Sequence[Any],
    hit_count: int,
    best: BestRecords,
    max_records: int,
    *,
    is_ranked: bool,
) -> set[int]:
    """Return the places of the nearest ends of each artifact among those that were compared."""
    place_of = {id: place for place, id in enumerate(compared)}
    chosen: set[int] = set()
    for own in ends_of if max_records else ():
        places = [place_of[end] for end in own if place_of.get(end, -1) >= hit_count]
        near = [place for place in places if best.record_ids[place] is not None]
        if is_ranked:
            near.sort(key=lambda place: -best.scores[place])
        chosen.update(near[:max_records])
    return chosen


async def _find_best(store: Any, query: Floats | None, ids: list[str]) -> BestRecords:
    if query is not None:
        answer: BestRecords = await store.best_of(query, ids)
        return answer
    surfaces = await store.records_of(ids, limit=1)
    return BestRecords([own[0].id if own else None for own in surfaces], np.full(len(ids), np.nan, np.float32))

"""The answers of a policy, checked and read lazily within the limits of the walk.

A slip is a method that cannot be called as the walk calls it, or an answer that the walk cannot use. It becomes a
`PolicyError` that names the method and what would do.
"""

import inspect
import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from math import isnan
from operator import index
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import anyio
import numpy as np

from airw._base.concurrency import Pacer, map_bounded
from airw._base.messages import one_line, short_repr
from airw._base.notes import add_note, has_note
from airw.errors import PolicyError
from airw.values import Edge, Limits
from airw.walking.policy import CommittedNode, LazyNeighbors, Neighbors, NeighborValues, is_iterable
from airw.walking.summary import WalkCounts

T = TypeVar("T")
_CALLERS = ("airw.walking.", "airw.policies._per_node")  # the modules that call a policy and read its answers
_CLOSE_SECONDS = 1.0  # how long the clean-up of an async iterator may take after a cancellation
_SLICES = frozenset(
    {list, tuple, LazyNeighbors, NeighborValues}
)  # what knows its length, and is cut without being read


def label_error(error: Exception, method: str, policy: object, *nodes: Any) -> None:
    """Add a note to an error that names the policy's method, and the node if one is passed.

    Raises:
        PolicyError: If it is a stray `StopIteration` or `StopAsyncIteration`, which a loop would take for its normal
            end. Also if the method could not be called, or its answer could not be read.
    """
    where = f"{type(policy).__name__}.{method}"
    # Python turns a `StopIteration` that leaves a coroutine into a `RuntimeError`.
    stray = error.__cause__ if isinstance(error, RuntimeError) else error
    if isinstance(stray, StopIteration | StopAsyncIteration):
        raise PolicyError(f"{where} raised {type(stray).__name__}; return instead") from error
    if isinstance(error, TypeError | AttributeError) and _is_raised_by_callers(error):
        raise PolicyError(
            f"{where} cannot be called, or its answer cannot be used: {one_line(str(error))}; "
            "airw.walking.WalkPolicy shows what each method takes and returns"
        ) from error
    # Labels nest, because `edge_of` is called while hits are made: the innermost one is the exact one.
    if not has_note(error, "raised in"):
        where += " during a walk" + "".join(f", for node {short_repr(node)}" for node in nodes)
        add_note(error, f"raised in {where}")


def _is_raised_by_callers(error: BaseException) -> bool:
    """Return whether an error was raised by the calling code itself, not inside the policy."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    return module.startswith(_CALLERS)


# One answer.


def require_awaitable(method: str, policy: object, answer: object) -> None:
    """Check the answer of an async method of a policy, before it is awaited.

    Raises:
        PolicyError: If the answer cannot be awaited: the method is not an `async def`, or an async generator.
    """
    if not inspect.isawaitable(answer):
        where = f"{type(policy).__name__}.{method}"
        raise PolicyError(
            f"{where} returned {short_repr(answer)}, which cannot be awaited; write `async def` and `return`"
        )


def require_plain(method: str, policy: object, answer: T) -> T:
    """Return the answer of a plain method of a policy.

    Raises:
        PolicyError: If the answer has to be awaited, or is an async generator.
    """
    if isinstance(answer, Awaitable | AsyncGenerator):
        if inspect.iscoroutine(answer):
            answer.close()  # or Python would warn that it was never awaited
        raise PolicyError(
            f"{type(policy).__name__}.{method} must be a plain function, not an `async def`; write `def` and `return`"
        )
    return answer


def find_edge(policy: Any, node: Any) -> Edge | None:
    """Return the edge that led to a node, as `edge_of` of the policy names it.

    Raises:
        PolicyError: If the answer is no edge; its own errors pass through.
    """
    try:
        return _require_edge(policy, policy.edge_of(node))
    except Exception as error:
        label_error(error, "edge_of", policy, node)
        raise


def _require_edge(policy: object, edge: Any) -> Edge | None:
    if edge is None or isinstance(edge, Edge):
        return edge
    answer = require_plain("edge_of", policy, edge)
    raise PolicyError(f"{type(policy).__name__}.edge_of returned {short_repr(answer)}; return an Edge or None")


def read_exactly(answer: Iterable[T], count: int, method: str, policy: object) -> list[T]:
    """Return the items of an answer that must contain exactly `count` items.

    An endless answer is read no further than that.

    Raises:
        PolicyError: If it contains fewer or more items, or is no iterable.
    """
    if type(answer) is list and len(answer) == count:
        return answer[:]
    where = f"{type(policy).__name__}.{method}"
    required = f"return a list with one item per committed node ({count})"
    if not is_iterable(answer):
        raise PolicyError(f"{where} returned {short_repr(answer)}; {required}")
    items = list(islice(answer, count + 1))
    if len(items) != count:
        actual = len(items) if len(items) < count else f"more than {count}"
        raise PolicyError(f"{where} returned {actual} items; {required}")
    return items


def read_scores(answer: Any, nodes: Sequence[Any], policy: object) -> list[float]:
    """Return one number per node.

    Raises:
        PolicyError: If the answer has another length, or contains something else, such as NaN.
    """
    where, required = f"{type(policy).__name__}.score", f"return {len(nodes)} numbers, one per node"
    if not isinstance(answer, Sized) or isinstance(answer, set | frozenset | Mapping):
        raise PolicyError(f"{where} returned {short_repr(answer)}; {required}")
    if len(answer) != len(nodes):
        raise PolicyError(f"{where} returned {len(answer)} scores; {required}")
    if isinstance(answer, np.ndarray) and answer.dtype.kind in "biuf" and answer.ndim == 1:
        scores: list[float] = answer.astype(np.float64).tolist()
    elif type(answer) is list and set(map(type, answer)) <= {float}:
        scores = answer[:]
    else:
        scores = []
        for node, each in zip(nodes, cast("Iterable[Any]", answer), strict=False):
            # Times and complex numbers of numpy, and arrays of one number, would become floats.
            is_array = isinstance(each, np.ndarray | np.generic)
            is_number = each.dtype.kind in "biufO" and each.ndim == 0 if is_array else hasattr(type(each), "__float__")
            number = None
            with suppress(TypeError, ValueError, OverflowError):
                number = float(each) if is_number else None
            if number is None:
                problem = f"scores that are not numbers, such as {short_repr(each)} for node {short_repr(node)}"
                raise PolicyError(f"{where} returned {problem}; {required}")
            scores.append(number)
    # The sum of numbers is NaN if one of them is, or if they are infinite.
    if isnan(sum(scores)) and any(map(isnan, scores)):
        node = nodes[next(row for row, score in enumerate(scores) if isnan(score))]
        raise PolicyError(f"{where} returned NaN for node {short_repr(node)}; return a number")
    return scores


def read_positions(answer: Any, room: int, policy: object) -> list[int]:
    """Return at most `room` positions that `select` returned, as its answer may be endless.

    Raises:
        PolicyError: If they are no whole numbers.
    """
    if isinstance(answer, np.ndarray) and answer.ndim == 1:
        answer = answer[:room].tolist()
    if not is_iterable(answer):
        raise PolicyError(f"{type(policy).__name__}.select returned {short_repr(answer)}; return a list of positions")
    return to_positions(list(islice(answer, room)), policy)


def to_positions(items: list[Any], policy: object) -> list[int]:
    """Return positions as Python's integers.

    Raises:
        PolicyError: If one is not a whole number.
    """
    if set(map(type, items)) <= {int}:
        return items
    positions = []
    for item in items:
        # Bools are whole numbers to Python, but a mask is not a list of positions.
        try:
            positions.append(index(None if isinstance(item, bool) else item))  # type: ignore[arg-type]
        except TypeError:
            name = type(policy).__name__
            raise PolicyError(
                f"{name}.select used {short_repr(item)} as a position; positions are whole numbers"
            ) from None
    return positions


# Nodes, of which there may be endlessly many.


Found: TypeAlias = list[Any] | LazyNeighbors
"""The neighbours of one node, as far as the limits allow."""


class _Part(NamedTuple):
    """The items read from one iterable; `size` is its length, `None` if it has none.

    `more` is then True if at least one item was left unread.
    """

    items: Found
    size: int | None
    more: bool = False


async def read_seeds(source: Neighbors, policy: object, limits: Limits, counts: WalkCounts) -> Found:
    """Return the seeds, at most `max_frontier` of them.

    Raises:
        PolicyError: If the answer is no iterable of nodes.
    """
    items, size, more = await _read_items(source, limits.max_frontier, "seed", policy)
    counts.refuse("max_frontier", int(more) if size is None else size - len(items), at_least=more)
    return items


async def read_neighbors(
    sources: Sequence[Neighbors], entries: Sequence[CommittedNode], policy: object, limits: Limits, counts: WalkCounts
) -> list[Found]:
    """Return the neighbours of committed nodes, as many as `max_fanout` and `max_edges` allow.

    Async iterables are read concurrently, and charged to the limits in the order of the nodes. So what is left out does
    not depend on which arrives first. `counts` change at the end: a call that is cancelled leaves no trace.

    Raises:
        PolicyError: If an answer is no iterable of nodes.
    """
    room = limits.max_edges - counts.edges
    if _SLICES.issuperset(map(type, sources)):
        sizes = list(map(len, sources))  # type: ignore[arg-type]
        if sum(sizes) <= room and max(sizes, default=0) <= limits.max_fanout:
            counts.edges += sum(sizes)
            return [cut(source, 0, None) for source in sources]

    async def read(row: int) -> _Part:
        try:
            return await _read_items(sources[row], min(limits.max_fanout, room), "expand", policy)
        except Exception as error:
            add_note(error, f"for node {short_repr(entries[row].node)}")
            raise

    neighbors, refused, pacer = list[Found](), list[tuple[str, int, bool]](), Pacer()
    for start in range(0, len(sources), limits.max_concurrency):
        group = range(start, min(start + limits.max_concurrency, len(sources)))
        waiting = [row for row in group if isinstance(sources[row], AsyncIterable)]
        arrived = dict(zip(waiting, await map_bounded(read, waiting, limit=limits.max_concurrency), strict=True))
        for row in group:
            items, size, more = arrived.get(row) or await read(row)
            kept = cut(items, 0, room)
            if size is not None:
                within = min(size, limits.max_fanout)
                refused += [("max_fanout", size - within, False), ("max_edges", within - len(kept), False)]
            elif more or len(kept) < len(items):
                refused.append(("max_fanout" if len(kept) == limits.max_fanout else "max_edges", 1, True))
            room -= len(kept)
            neighbors.append(kept)
        await pacer.pace()
    counts.edges = limits.max_edges - room
    for limit, count, at_least in refused:
        counts.refuse(limit, count, at_least=at_least)
    return neighbors


def cut(source: Any, start: int, stop: int | None) -> Found:
    """Return a copy of some items of a source: its owner may change it later."""
    if not isinstance(source, LazyNeighbors):
        return list(source[start:stop])
    if start:
        return source.pick(range(len(source))[start:stop])
    ids = tuple(source.ids[:stop])
    return source if ids is source.ids else replace(source, ids=ids)


async def _read_items(source: Neighbors, cap: int, method: str, policy: object) -> _Part:
    """Read at most `cap` items of one iterable or async iterable, and close it."""
    if type(source) in _SLICES:
        return _Part(cut(source, 0, cap), len(source))  # type: ignore[arg-type]
    cap = min(cap, sys.maxsize - 1)
    if isinstance(source, AsyncIterable):
        return await _read_async(source, cap)
    if not is_iterable(source):
        where = f"{type(policy).__name__}.{method}"
        each = " for each committed node" if method == "expand" else ""
        raise PolicyError(f"{where} returned {short_repr(source)}; return an iterable or async iterable of nodes{each}")
    if isinstance(source, Sized):
        return _Part(list(islice(source, cap)), len(source))
    # An iterator has no length: one item more shows whether the cap left something out.
    iterator = iter(source)
    try:
        items = list(islice(iterator, cap + 1))
    finally:
        close = getattr(iterator, "close", None)
        if callable(close):
            close()
    return _Part(items[:cap], None, more=len(items) > cap)


async def _read_async(source: AsyncIterable[Any], cap: int) -> _Part:
    iterator, pacer = aiter(source), Pacer()
    items: list[Any] = []
    try:
        while len(items) <= cap:
            items.append(await anext(iterator))
            await pacer.pace()
    except StopAsyncIteration:
        pass
    finally:
        # The iterator may hold a connection: its clean-up runs even if the step was cancelled, but not for ever.
        aclose = getattr(iterator, "aclose", None)
        if aclose is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await aclose()
    return _Part(items[:cap], None, more=len(items) > cap)

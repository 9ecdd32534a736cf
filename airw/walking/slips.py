"""The errors of a policy: each is labelled with its method, slips become a `PolicyError`.

A slip is a method that cannot be called as the walk calls it, or an answer that the walk cannot use.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Iterable
from types import CoroutineType, TracebackType
from typing import Any, TypeVar

from airw._base.messages import one_line, short_repr
from airw._base.notes import add_note, has_note
from airw.errors import PolicyError
from airw.values import Edge

T = TypeVar("T")
_CALLERS = ("airw.walking.", "airw.policies._per_node")
"""The modules that call the methods of a policy and read their answers."""


class label_errors:  # noqa: N801 (a context manager, used like a verb)
    """A context manager that adds to each error the name of the policy's method it comes from.

    It also turns slips, and a stray `StopIteration`, into a `PolicyError`; see `label_error`.
    """

    __slots__ = ("_method", "_policy")

    def __init__(self, method: str, policy: object) -> None:
        """Set the method of the policy that is about to be called."""
        self._method, self._policy = method, policy

    def __enter__(self) -> None:
        """Enter the block; nothing has to be prepared."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Label the error, if there is one."""
        if isinstance(error, Exception):
            label_error(error, self._method, self._policy)


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
        add_note(
            error, f"raised in {where} during a walk" + "".join(f", for node {short_repr(node)}" for node in nodes)
        )


def _is_raised_by_callers(error: BaseException) -> bool:
    """Return whether an error was raised by the calling code itself, not inside the policy."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    return module.startswith(_CALLERS)


async def await_answer(method: str, policy: object, answer: Awaitable[T]) -> T:
    """Await the answer of an async method of a policy.

    Raises:
        PolicyError: If the answer cannot be awaited: the method is not an `async def`, or an async generator.
    """
    if type(answer) is not CoroutineType and not inspect.isawaitable(answer):
        where = f"{type(policy).__name__}.{method}"
        raise PolicyError(
            f"{where} returned {short_repr(answer)}, which cannot be awaited; write `async def` and `return`"
        )
    return await answer


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


def is_iterable(answer: object) -> bool:
    """Return whether an answer can be iterated over; an array without dimensions cannot."""
    return isinstance(answer, Iterable) and getattr(answer, "ndim", 1) != 0


def find_edge(policy: Any, node: Any) -> Edge | None:
    """Return the edge that led to a node, as `edge_of` of the policy names it.

    Raises:
        PolicyError: If the answer is no edge; its own errors pass through.
    """
    try:
        return require_edge(policy, "edge_of", policy.edge_of(node))
    except Exception as error:
        label_error(error, "edge_of", policy, node)
        raise


def require_edge(policy: object, method: str, edge: Any) -> Edge | None:
    """Return an edge that a method of a policy returned.

    Raises:
        PolicyError: If it is no edge.
    """
    if edge is None or isinstance(edge, Edge):
        return edge
    answer = require_plain(method, policy, edge)
    raise PolicyError(f"{type(policy).__name__}.{method} returned {short_repr(answer)}; return an Edge or None")

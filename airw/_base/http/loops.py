"""What an object holds on each event loop."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from anyio.lowlevel import RunVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One value for each event loop, made when it is first asked for.

    Both ways weak: a value ends with its event loop, and with the object that holds this.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Make values by `make`, which must not lead back to this object, nor may they."""
        self._make = make

    def get(self) -> T:
        """Give the value for the event loop that runs."""
        held = HELD.get(None)
        if held is None:
            held = WeakKeyDictionary()
            HELD.set(held)
        if self not in held:
            held[self] = self._make()
        value: T = held[self]
        return value


HELD: RunVar["WeakKeyDictionary[PerLoop[Any], Any]"] = RunVar("held per loop")

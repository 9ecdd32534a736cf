"""`Ending`: how a server that is going to stop tells its streams."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Ending:
    """The end of a server, of which its streams learn before it comes.

    A stream does each of its steps `with ending.scope():`. Once `is_near` is true, it sends its last event and ends.

    Example:
        >>> ending = Ending()
        >>> ending.begin()
        >>> ending.is_near
        True
    """

    def __init__(self) -> None:
        self.is_near: bool = False
        self._scopes: set[anyio.CancelScope] = set()

    def begin(self) -> None:
        """Begin to stop: what runs in a scope is cancelled, now and from now on."""
        self.is_near = True
        for scope in list(self._scopes):
            scope.cancel()

    @contextmanager
    def scope(self) -> Iterator[anyio.CancelScope]:
        """Cancel what runs inside once the server stops; the code below the block then goes on.

        Never yield an event inside: nothing may be open between two events.
        """
        with anyio.CancelScope() as scope:
            if self.is_near:
                scope.cancel()
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)

"""Stores that tell what they are asked, or answer otherwise."""

from airw.protocols import Fed
from airw.stores import Wrapper


class Watched(Wrapper):
    """A store that notes the requests and the changes that it is given.

    `requests` has them one by one, without what feeds them, and `reads` the number of calls of `read`.
    """

    def __init__(self, store):
        super().__init__(store)
        self.requests, self.changes, self.reads = [], [], 0

    def clear(self):
        """Forget what was noted."""
        self.requests, self.changes, self.reads = [], [], 0

    def of(self, *kinds):
        """Return the requests of some kinds."""
        return [request for request in self.requests if isinstance(request, kinds)]

    async def read(self, *requests):
        self.reads += 1
        self.requests += [request.request if isinstance(request, Fed) else request for request in requests]
        return await super().read(*requests)

    async def apply(self, change):
        self.changes.append(change)
        await super().apply(change)


class Limited(Wrapper):
    """A store that lacks capabilities."""

    def __init__(self, store, *, without):
        super().__init__(store)
        self._without = frozenset(without)

    @property
    def capabilities(self):
        return frozenset(self.store.capabilities) - self._without

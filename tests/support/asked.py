"""Stores that note what they are asked, and stores that cannot do everything."""

import anyio

from airw.protocols import Fed, Rank, check_able
from airw.stores import Wrapper


class Asked(Wrapper):
    """Notes the kinds of what a store is asked, and counts its round trips.

    Calls that overlap are one round trip. The kind of a `Rank` is the capability that it needs: `"dense"`, `"lexical"`
    or `"scores"`.
    """

    def __init__(self, store):
        super().__init__(store)
        self.reads, self.trips, self._running = [], 0, 0

    @property
    def calls(self):
        """All kinds, in their order."""
        return [kind for kinds in self.reads for kind in kinds]

    async def read(self, *requests):
        self.reads.append([kind_of(request) for request in requests])
        self.trips += not self._running
        self._running += 1
        try:
            await anyio.sleep(0.001)
            return await super().read(*requests)
        finally:
            self._running -= 1


def kind_of(request):
    plain = request.request if isinstance(request, Fed) else request
    return plain.needs if isinstance(plain, Rank) else type(plain).__name__


class Without(Wrapper):
    """A store that lacks capabilities."""

    def __init__(self, store, *lacking):
        super().__init__(store)
        self._lacking = lacking

    @property
    def capabilities(self):
        return frozenset(self.store.capabilities) - {*self._lacking}

    async def read(self, *requests):
        check_able(self, *requests)
        return await super().read(*requests)

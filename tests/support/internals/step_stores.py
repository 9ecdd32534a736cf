"""Stores in memory that read a whole step in one call, and counters of calls."""

from collections import Counter

import anyio

from airw._base.checks import check_choice, check_count, check_limit
from airw.protocols import StepReader
from airw.stores import MemoryStore
from airw.testing._store_steps import compose_step
from airw.values import DIRECTIONS, LinkFilter

METHODS = (
    *("get_records", "records_of", "ledger", "artifact_ids", "first_surfaces"),
    *("search_vectors", "similarities", "best_of", "vectors", "vectors_of"),
    *("search_text", "term_statistics", "neighbors", "resolve", "referrers", "fan_in", "max_fan_in", "matching"),
    *("artifact_numbers", "neighbor_columns", "read_step"),
)


class StepStore(MemoryStore, StepReader):
    """A store that reads steps; the answer is put together from its other calls."""

    async def read_step(
        self, ids, query, *, direction="out", types=None, exclude=(), origins=None, limit=None, **reads
    ):
        check_choice("direction", direction, DIRECTIONS)
        check_limit(limit)
        for name in ("max_ends", "max_records"):
            check_count(name, reads.get(name, 0))
        links = {**LinkFilter(types=types, exclude=exclude, origins=origins).options(), "direction": direction}
        return await compose_step(super(), ids, query, **links, limit=limit, **reads)


class Plain:
    """A store that passes calls on, and so neither reads steps nor has numbers."""

    def __init__(self, store):
        self.store = store

    def __getattr__(self, name):
        return getattr(self.store, name)


class Trips:
    """Counts the calls of a store, and its round trips: calls that overlap are one."""

    def __init__(self, store):
        self.calls, self.count, self._store, self._running = Counter(), 0, store, 0
        for name in METHODS:
            if hasattr(type(store), name):
                setattr(store, name, self._wrap(name, getattr(store, name)))

    def stop(self):
        """Count no more."""
        for name in METHODS:
            vars(self._store).pop(name, None)

    def _wrap(self, name, method):
        async def call(*arguments, **options):
            self.calls[name] += 1
            self.count += not self._running
            self._running += 1
            try:
                await anyio.sleep(0.001)
                return await method(*arguments, **options)
            finally:
                self._running -= 1

        return call

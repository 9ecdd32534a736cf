"""One connection to a server; this module imports asyncpg."""

import asyncio
import socket
from contextlib import suppress
from typing import Any

from asyncpg import Connection

from airw.stores.postgres._catalog import CorpusState, read_state
from airw.stores.postgres._vector_codec import register_codec

_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}


class Session(Connection):  # type: ignore[misc, unused-ignore]
    """A connection to the schema of a corpus, which takes and returns vectors as bytes.

    Attributes:
        state: What the database has of the corpus.
    """

    __slots__ = ("is_entering", "state")
    state: CorpusState

    async def enter(self, schema: str, place: str, known: CorpusState | None = None) -> None:
        """Make statements name the tables of a schema plainly.

        It learns what the schema is, unless that is known.
        """
        self.state = known or await read_state(self, schema, place)
        self.is_entering = True
        if self.state.home is not None:
            await register_codec(self, self.state.home)
        self.is_entering = False

    def _drop_local_statement_cache(self) -> None:
        # What was prepared before returns no vectors, and closing it would cost a round trip.
        if not getattr(self, "is_entering", False):
            super()._drop_local_statement_cache()

    async def _introspect_type(self, typename: str, schema: str) -> Any:
        # asyncpg would ask the server for the number of the type, in two round trips.
        return {"oid": self.state.types[typename], "elemtype": None, "kind": b"b"}

    async def cancel_again(self) -> None:
        """Ask the server once more to cancel the running statement; asyncpg asks only once."""
        await self._cancel(asyncio.get_running_loop().create_future())

    def notice_lost_server(self) -> None:
        """Have the system find out within 30 seconds that the other machine is gone.

        Otherwise a call would wait for its answer for hours.
        """
        raw = self._transport.get_extra_info("socket")
        if raw is None or raw.family not in (socket.AF_INET, socket.AF_INET6):
            return
        with suppress(OSError):  # a system that lacks one of these options
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE.items():
                if hasattr(socket, name):
                    raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

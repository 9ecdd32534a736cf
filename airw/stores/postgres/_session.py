"""One connection to a server; this module imports asyncpg."""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from asyncpg import Connection

from airw.stores.postgres._vector_codec import register_codec

_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}


class Session(Connection):  # type: ignore[misc, unused-ignore]
    """A connection that takes and returns vectors as bytes.

    asyncpg asks the server for the number of a type, which costs two round trips for each connection. Here it is
    already known.
    """

    __slots__ = ("_keeps_statements", "_known_types")

    async def register_vectors(self, schema: str, types: Mapping[str, int]) -> None:
        """Take and return values of the type `vector` as bytes.

        Args:
            schema: The schema of the extension.
            types: The number of each of its types.
        """
        self._known_types, self._keeps_statements = types, True
        await register_codec(self, schema)
        self._keeps_statements = False

    def _drop_local_statement_cache(self) -> None:
        # What was prepared before returns no vectors, and closing it would cost a round trip.
        if not getattr(self, "_keeps_statements", False):
            super()._drop_local_statement_cache()

    async def cancel_again(self) -> None:
        """Ask the server once more to cancel the running statement; asyncpg asks only once."""
        if hasattr(super(), "_cancel"):
            await super()._cancel(asyncio.get_running_loop().create_future())

    async def _introspect_type(self, typename: str, schema: str) -> Any:
        known: Mapping[str, int] = getattr(self, "_known_types", {})
        if typename in known:
            return {"oid": known[typename], "elemtype": None, "kind": b"b"}
        return await super()._introspect_type(typename, schema)

    def notice_lost_server(self) -> None:
        """Have the system find out within 30 seconds that the other machine is gone.

        Otherwise a call would wait for its answer for hours.
        """
        transport = getattr(self, "_transport", None)
        raw = transport.get_extra_info("socket") if transport is not None else None
        if raw is None or raw.family not in (socket.AF_INET, socket.AF_INET6):
            return
        with suppress(OSError):  # a system that lacks one of these options
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE.items():
                if hasattr(socket, name):
                    raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

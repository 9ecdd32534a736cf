"""A relay between a client and a PostgreSQL server: it counts, delays, encrypts and cuts."""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress

_SSL_REQUEST = bytes.fromhex("0000000804d2162f")


class PostgresRelay:
    """A listener on the loopback that passes everything on to the socket of a server.

    Attributes:
        port: The port it listens on.
        questions: How often the client has sent something after the server had answered.
        connections: How many connections were made.
        cut_at: End the connection when the client sends this, before the server receives it, or with `cut_after`
            when the server has received it.
        refuses: End each new connection at once.
    """

    def __init__(self, server, *, delay=0.0, tls=None):
        self._path = f"{server.folder}/.s.PGSQL.{server.port}"
        self._delay, self._tls = delay, tls
        self.questions = self.connections = 0
        self.cut_at, self.cut_after, self.refuses = None, False, False
        self._writers = set()

    @asynccontextmanager
    async def run(self):
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listener.close()
            self.cut()
            await asyncio.sleep(0.05)

    def cut(self):
        """End all connections as a broken network would."""
        for writer in self._writers:
            # A transport of TLS that is closed already has no protocol any more.
            if not writer.transport.is_closing():
                writer.transport.abort()

    def dsn(self, *, host="127.0.0.1", login="postgres", parameters=""):
        return f"postgresql://{login}@{host}:{self.port}/postgres{parameters}"

    async def _serve(self, reader, writer):
        self.connections += 1
        if self.refuses:
            writer.transport.abort()
            return
        with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            first = await reader.readexactly(8)
            if first == _SSL_REQUEST:
                writer.write(b"S" if self._tls else b"N")
                await writer.drain()
                if self._tls:
                    await writer.start_tls(self._tls)
                first = b""
            to_reader, to_writer = await asyncio.open_unix_connection(self._path)
            self._writers |= {writer, to_writer}
            to_writer.write(first)
            state = {"answered": True, "is_mute": False}
            await asyncio.gather(
                self._pass_on(reader, to_writer, state, is_question=True),
                self._pass_on(to_reader, writer, state, is_question=False),
            )

    async def _pass_on(self, reader, writer, state, *, is_question):
        try:
            while data := await reader.read(65_536):
                if is_question and state["answered"]:
                    self.questions += 1
                state["answered"] = not is_question
                if self._delay:
                    await asyncio.sleep(self._delay / 2)
                is_last = is_question and self.cut_at is not None and self.cut_at in data
                if is_last and not self.cut_after:
                    self.cut()
                    return
                state["is_mute"] = state["is_mute"] or is_last
                if is_question or not state["is_mute"]:
                    writer.write(data)
                    await writer.drain()
                if is_last:
                    await asyncio.sleep(0.05)  # the server does its work
                    self.cut()
                    return
        except (OSError, ssl.SSLError):
            pass
        finally:
            writer.close()

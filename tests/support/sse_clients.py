"""Clients of streams of events: one that reads a stream to its end, and many at once."""

import asyncio
import time
from dataclasses import dataclass, field
from itertools import chain

from tests.support.event_streams import parse_events
from tests.support.serving import request_bytes


@dataclass
class Reading:
    """What one client got, and the seconds to the first and the last event."""

    status: int = 0
    first: float = 0.0
    last: float = 0.0
    error: str = ""
    data: bytes = field(default=b"", repr=False)

    @property
    def events(self):
        return parse_events(self.data)

    @property
    def is_complete(self):
        return self.status == 200 and b"\nid: end\n" in b"\n" + self.data


async def read_stream(port, fields, *, path="/traverse"):
    """Read a stream to its end, by HTTP/1.0: no chunks are between the bytes of a body."""
    reading, start = Reading(), time.perf_counter()
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        writer.write(request_bytes("POST", path, fields).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        head = await reader.readuntil(b"\r\n\r\n")
        reading.status = int(head.split(b" ", 2)[1])
        pieces = []
        while piece := await reader.read(1 << 16):
            if not pieces:
                reading.first = time.perf_counter() - start
            pieces.append(piece)
        reading.last = time.perf_counter() - start
        reading.data = b"".join(pieces)
    except (OSError, EOFError) as error:
        reading.error = repr(error)
    finally:
        if writer is not None:
            writer.close()
    return reading


def read_streams(port, fields, count, *, at_once, path="/traverse"):
    """Read `count` streams, `at_once` at a time; return the seconds in all, and the readings."""

    async def main():
        left = iter(range(count))

        async def work():
            return [await read_stream(port, fields, path=path) for _ in left]

        start = time.perf_counter()
        parts = await asyncio.gather(*(work() for _ in range(at_once)))
        return time.perf_counter() - start, list(chain.from_iterable(parts))

    return asyncio.run(main())

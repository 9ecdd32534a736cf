"""The body of a request, as a stream that needs no closing."""

from collections.abc import AsyncIterator, Iterator

import httpx


class Body(httpx.AsyncByteStream):
    """Bytes to send in one piece; they can be sent several times.

    The stream of httpx itself is an async generator, which must be closed. A cancelled request would leave it
    unfinished.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Pieces(iter([self._content]))


class _Pieces(AsyncIterator[bytes]):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration

"""`RemoteStore`: the store of a corpus on another machine."""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from operator import le
from time import monotonic
from typing import Any

import httpx

from airw._base.concurrency import in_thread, map_bounded, offload_if
from airw.protocols import (
    ArtifactIds,
    Capability,
    Change,
    Ledger,
    Rank,
    Request,
    ask,
    check_able,
    check_capabilities,
    fill,
)
from airw.protocols.wire import (
    items_of,
    join_answers,
    measure_requests,
    pack_requests,
    split_request,
    unpack_answers,
)
from airw.remote.calls import CorpusServer, TooMuchAtOnce, dump_body
from airw.remote.messages import MessageLimits, StoreMessage, send_together

_MAX_CONCURRENCY = 4  # messages of one request that was split
_MANY = 1_000  # items of a message; packing more takes about a millisecond
_ALONE = 10  # messages that travel alone after one that was not answered with the others
_LONG = 0.5  # seconds; whoever leaves later has waited for the answer


class RemoteStore:
    """The store of a corpus on another machine, `RemoteCorpus.store`: a `read` is a message.

    The answers are those of the store itself, to the last bit. Only what the server does not accept or answer at once
    is split. Messages to stores of one server that are ready at the same moment travel together. If the server cannot
    be reached, refuses or answers nonsense, `read` raises `RemoteError`; what goes wrong in the store itself is raised
    as the error that the store raised.

    Args:
        server: The server.
        corpus: The name of the corpus there.
        capabilities: What the store can do there.
        limits: What the server accepts in one message.
        dim: The width of the vectors.
        durability: What a change of the corpus survives once the server has answered.
    """

    capabilities: Collection[Capability] = ()

    def __init__(
        self,
        server: CorpusServer,
        corpus: str,
        capabilities: Collection[Capability],
        limits: MessageLimits,
        *,
        dim: int,
        durability: str,
    ) -> None:
        self._server, self._corpus, self._limits, self._dim = server, corpus, limits, dim
        self.capabilities = capabilities
        self.durability = durability
        self._alone = 0  # messages that must still travel alone

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._corpus!r} at {self._server.url})"

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request; see `airw.protocols.Store.read`.

        They are answers of one state of the store, but for requests that were split.

        Raises:
            ArgumentError: If the store or the server cannot answer one of them.
            RemoteError: If the server cannot be reached, or its answer cannot be used.
        """
        check_able(self, *requests)
        requests = tuple([await self._with_ids(request) for request in requests])
        if len(requests) > 1 and self._accepts(requests):
            with suppress(TooMuchAtOnce):
                return await self._send(requests)
        answers: dict[int, Any] = {}
        for request in requests:
            answers[id(request)] = await self._answer(fill(request, answers))
        return [answers[id(request)] for request in requests]

    async def apply(self, change: Change) -> None:
        """Refuse to write; `RemoteCorpus.upsert` and `delete` change the corpus on its server."""
        check_capabilities("apply", self, "writing")

    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Refuse to write, as `apply` does."""
        check_capabilities("writing", self, "writing")
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the connections; closing twice is harmless."""
        await self._server.aclose()

    async def _with_ids(self, request: Request[Any]) -> Request[Any]:
        """Return a request for the whole ledger with the ids of all artifacts, to split it."""
        if isinstance(request, Ledger) and request.ids is None:
            return replace(request, ids=await ask(self, ArtifactIds()))
        return request

    def _accepts(self, requests: Sequence[Request[Any]]) -> bool:
        """Return whether the server takes these requests in one message."""
        most = self._limits.size
        return all(map(le, measure_requests(requests, all_rows=most.rows), most))

    async def _answer(self, request: Request[Any]) -> Any:
        """Return the answer of a request, which is split as often as it is too much at once."""
        name, items = items_of(request)
        if self._accepts([request]) or len(items) < 2:
            try:
                return (await self._send([request]))[0]
            except TooMuchAtOnce:
                if len(items) < 2:
                    raise
        most = self._limits.size.items
        if isinstance(request, Rank) and name == "queries":
            most = max(1, min(most, self._limits.size.rows // max(1, request.k or self._limits.size.rows)))
        is_over = len(items) > most
        parts = split_request(request, most if is_over else (len(items) + 1) // 2)
        answers = await map_bounded(self._answer, parts, limit=_MAX_CONCURRENCY if is_over else 1)
        return await in_thread(join_answers, request, answers)

    async def _send(self, requests: Sequence[Request[Any]]) -> list[Any]:
        def pack() -> bytes:
            return dump_body({"corpus": self._corpus, "requests": pack_requests(requests)})

        def read(value: Any) -> list[Any]:
            answers = value.get("answers") if isinstance(value, dict) else None
            return unpack_answers(requests, answers, dim=self._dim)

        size = measure_requests(requests, all_rows=self._limits.size.rows)
        body = await offload_if(size.items > _MANY, pack)
        label = self._server.label(self._corpus)
        if len(body) > self._limits.max_body:
            raise TooMuchAtOnce(
                f"{label}: the body must have at most {self._limits.max_body:,} bytes; ask for less at once"
            )
        with self._server.deadline(label):
            if self._alone or self._server.is_closed:
                self._alone = max(0, self._alone - 1)
            else:
                message = StoreMessage(self._corpus, body, size, read)
                began = monotonic()
                try:
                    await send_together(self._server, message, self._limits)
                except BaseException:
                    # Perhaps another store has held it up; the next message must not wait for that one again.
                    if monotonic() - began >= _LONG:
                        self._alone = _ALONE
                    raise
                match message.outcome:
                    case list() as answers:
                        return answers
                    case Exception(__cause__=httpx.HTTPError() as cause):  # alone, it would meet the same
                        raise self._server.describe_loss(label, cause) from cause
                    case Exception():
                        self._alone = _ALONE
            # Alone, a message waits for no other store, and learns what is wrong with it.
            return await self._server.call("POST", "/store/read", of=self._corpus, body=body, read=read)

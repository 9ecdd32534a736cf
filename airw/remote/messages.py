"""Messages to the stores of one server, which travel together."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import le
from typing import Any

import anyio
import anyio.lowlevel
from anyio.lowlevel import RunVar

from airw.errors import AirwError
from airw.protocols.wire import MessageSize, WireFault
from airw.remote.calls import CorpusServer

_BATCHES: RunVar[dict[Hashable, "list[StoreMessage]"]] = RunVar("_BATCHES")  # of each server, that others may join


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """What a server accepts in one message to a store.

    Args:
        size: What the message may ask for; messages that travel together, all in all.
        max_body: The largest number of bytes.
        max_messages: The messages that may travel together.
    """

    size: MessageSize
    max_body: int
    max_messages: int


@dataclass(slots=True, eq=False)
class StoreMessage:
    """A message to the store of one corpus.

    Args:
        corpus: The name of the corpus.
        body: The message, as JSON.
        size: What it asks for.
        read: Returns the answers to it from JSON. It raises `WireFault` if they are not there.
        outcome: The answers, or why there are none. It is `None` if the message must be sent alone.
        woken: Set when the message has its outcome, or when its caller is to send all that wait.
    """

    corpus: str
    body: bytes
    size: MessageSize
    read: Callable[[Any], list[Any]]
    outcome: list[Any] | Exception | None = None
    woken: anyio.Event = field(default_factory=anyio.Event)


async def send_together(server: CorpusServer, message: StoreMessage, limits: MessageLimits) -> None:
    """Send a message to a store together with others to its server; note the outcome.

    It waits for others as long as each turn of the event loop brings some: one alone waits for one turn. The caller of
    the first message sends all, and the others wait for it. If it is cancelled, the next one sends those that still
    wait. So no work runs without a caller that waits for it.
    """
    if (batches := _BATCHES.get(None)) is None:
        _BATCHES.set(batches := {})
    waiting = batches.get(server.identity)
    if waiting is None or not _have_room([*waiting, message], limits):
        waiting = batches[server.identity] = []
    waiting.append(message)
    try:
        if message is not waiting[0]:
            await message.woken.wait()
        if message in waiting:
            try:
                await _gather(waiting)
            finally:
                if batches.get(server.identity) is waiting:
                    del batches[server.identity]
            await _send_all(server, waiting)
    except BaseException:  # it was cancelled, or dropped
        if message in waiting:
            waiting.remove(message)
            for following in waiting[:1]:
                following.woken.set()
        raise


def _have_room(messages: Sequence[StoreMessage], limits: MessageLimits) -> bool:
    """Return whether the server takes these messages together."""
    total = MessageSize(*map(sum, zip(*(each.size for each in messages), strict=True)))
    # Requests are counted for each message, as its answers are of one state of its store.
    is_small = all(map(le, total._replace(requests=0), limits.size))
    n_bytes = sum(len(each.body) + 1 for each in messages) + len(_join([]))
    return is_small and n_bytes <= limits.max_body and len(messages) <= limits.max_messages


async def _gather(waiting: Sequence[StoreMessage]) -> None:
    """Wait while each turn of the event loop brings another message."""
    count = 0
    while count < len(waiting):
        count = len(waiting)
        await anyio.lowlevel.checkpoint()


async def _send_all(server: CorpusServer, waiting: list[StoreMessage]) -> None:
    """Send messages, and wake their callers; those of one corpus alone are left to them."""
    messages = [*waiting]
    outcomes: Sequence[list[Any] | Exception | None] = [None] * len(messages)
    if len({each.corpus for each in messages}) > 1:
        path, of, body = "/stores/read", messages[0].corpus, _join(messages)
        try:
            outcomes = await server.call("POST", path, of=of, body=body, read=partial(_read_outcomes, messages))
        except AirwError as error:
            outcomes = [error] * len(messages)
    waiting.clear()
    for each, outcome in zip(messages, outcomes, strict=True):
        each.outcome = outcome
        each.woken.set()


def _join(messages: Iterable[StoreMessage]) -> bytes:
    return b'{"messages":[%b]}' % b",".join(each.body for each in messages)


def _read_outcomes(messages: Sequence[StoreMessage], value: Any) -> list[list[Any] | Exception]:
    """Return the answers to each message, or what is wrong with those to this one."""
    parts = value.get("answers") if isinstance(value, dict) else None
    if not isinstance(parts, list) or len(parts) != len(messages):
        raise WireFault(f"it does not answer {len(messages)} messages")
    outcomes: list[list[Any] | Exception] = []
    for message, part in zip(messages, parts, strict=True):
        try:
            outcomes.append(message.read(part))
        except (WireFault, AirwError) as fault:
            outcomes.append(fault)
    return outcomes

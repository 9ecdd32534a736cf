"""A server of tools that talks over its standard streams, as agents start one."""

from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIG_DFL, SIGINT, signal
from threading import current_thread, main_thread
from typing import Any

from mcp.server.stdio import stdio_server

from airw._base.concurrency import first_error
from airw.mcp.calls import DEFAULT_LIMITS
from airw.mcp.server import make_server
from airw.mcp.standard_input import MessageLines, take_standard_input
from airw.serving.application import make_service
from airw.serving.corpora import ServableCorpora
from airw.serving.limits import ServingLimits


async def run_stdio(corpora: ServableCorpora, *, limits: ServingLimits | None = None) -> None:
    """Offer corpora as tools over the standard streams, until the client closes them.

    While it runs, standard output has nothing but messages of the protocol: what else is printed goes to standard
    error. A line that is no message is answered with an error of JSON-RPC. Ctrl-C ends the process at once, as nothing
    needs to be saved.

    Args:
        corpora: Open corpora, or names, paths or addresses of corpora, as for `airw.serving.app`.
        limits: What one call may ask for; by default as for `airw.mcp.app`.

    Raises:
        ArgumentError: If there is no corpus, or two have the same name.
    """
    service = make_service(corpora, limits=limits or DEFAULT_LIMITS)
    server = make_server(service)
    try:
        with first_error(), take_standard_input() as file:
            lines: Any = MessageLines(file)
            async with service.running(), stdio_server(lines) as (messages, answers):
                lines.answers = answers
                with _ending_at_once():
                    await server.run(messages, answers, server.create_initialization_options())
    except BrokenPipeError:  # the client was killed, and an answer was on its way
        return


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """Make Ctrl-C end the process while the block runs.

    A thread waits for the next message, and nothing but a message or the end of the stream wakes it.
    """
    if current_thread() is not main_thread():  # only that one receives signals
        yield
        return
    before = signal(SIGINT, SIG_DFL)
    try:
        yield
    finally:
        signal(SIGINT, before)

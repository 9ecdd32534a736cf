"""Messages at standard input; those that nobody can read are answered here."""

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TextIO

import anyio
from anyio.abc import ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from airw._base.checks import find_text_fault
from airw._base.messages import one_line


class MessageLines:
    """The lines of a file that are messages; any other line is answered with an error.

    The SDK drops such a line, and a client that waits for an answer waits for its whole timeout.

    Args:
        file: The file.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = anyio.wrap_file(file)
        self.answers: ObjectSendStream[SessionMessage] | None = None

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._file:
            error = None if line.isspace() else find_error(line)
            if error is None:
                yield line
            elif self.answers is not None:
                await self.answers.send(SessionMessage(error))


def find_error(line: str) -> JSONRPCError | None:
    """Return the error that answers a line; `None` if it is a message of the protocol.

    Example:
        >>> find_error('{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        >>> error = find_error('{"jsonrpc": "2.0", "id": 1, "method": 5}')
        >>> error.id, error.error.code
        (1, -32600)
    """
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if fault["type"] == "json_invalid":
            return _describe(PARSE_ERROR, one_line(fault["msg"]), _load(line))
        return _describe(INVALID_REQUEST, "the message must be one object of JSON-RPC 2.0", _load(line))
    if isinstance(message, JSONRPCNotification) and not message.method.startswith("notifications/"):
        sent = _load(line)
        if isinstance(sent, dict) and "id" in sent:  # such an id is left out, and nobody answers a notification
            return _describe(INVALID_REQUEST, "id must be a text or a whole number", sent)
    return None


def _describe(code: int, message: str, sent: object) -> JSONRPCError:
    """Return an error for a request, with its id if that can be read."""
    id = sent.get("id") if isinstance(sent, dict) and "method" in sent else None
    is_id = (isinstance(id, int) and not isinstance(id, bool)) or (isinstance(id, str) and not find_text_fault(id))
    return JSONRPCError(jsonrpc="2.0", id=id if is_id else None, error=ErrorData(code=code, message=message))


def _load(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


@contextmanager
def take_standard_input() -> Iterator[TextIO]:
    """Yield standard input; whatever else reads it inside the block meets its end."""
    # Never closed: a thread may still wait for the next line after the block.
    private = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield os.fdopen(private, encoding="utf-8", errors="replace", closefd=False)
    finally:
        os.dup2(private, 0)

"""The UI message stream of the AI SDK: the parts that its `useChat` reads."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from airw._base.json import iter_json
from airw.serving.stream_messages import Message

HEADER = "x-vercel-ai-ui-message-stream"
_MEDIA_TYPES = {"md": "text/markdown", "markdown": "text/markdown", "html": "text/html", "htm": "text/html"}
UI_HEADERS: Mapping[str, str] = {HEADER: "v1"}


def wants_ui_messages(headers: Mapping[str, str]) -> bool:
    """Return whether a request asks for this form, by a header or in `Accept`.

    Example:
        >>> wants_ui_messages({"accept": "text/event-stream; format=ui-messages"}), wants_ui_messages({})
        (True, False)
    """
    if headers.get(HEADER) == "v1":
        return True
    parameters = headers.get("accept", "").replace(",", ";").split(";")
    return "format=ui-messages" in ("".join(each.split()).lower() for each in parameters)


def encode_ui_message(number: int, message: Message, data: Mapping[str, Any]) -> str:
    """Return a message of a stream as the lines that the AI SDK reads.

    A hit becomes a `data-hit` with an id that stays the same, and a `source-document`. The end of the walk becomes a
    `data-summary`. Parts that only draw the walk are transient: a chat does not keep them.

    Args:
        number: The number of the message; the first is 1.
        message: The message.
        data: Its JSON.

    Example:
        >>> print(encode_ui_message(2, Message("progress", dict), {"step": 1}), end="")
        data: {"type": "data-progress", "data": {"step": 1}, "transient": true}
        <BLANKLINE>
    """
    kind = message.kind
    parts: list[dict[str, Any]] = [{"type": "start", "messageId": uuid4().hex}] if number == 1 else []
    if kind == "error":
        parts.append({"type": "error", "errorText": data["detail"]})
    elif kind == "hit":
        parts += [{"type": "data-hit", "id": _id_of(data), "data": data}, _source_of(data)]
    elif kind in ("best", "summary", "result"):
        parts.append({"type": f"data-{kind}", "id": kind, "data": data})
    else:
        parts.append({"type": f"data-{kind}", "data": data, "transient": True})
    if message.is_last and kind != "error":
        parts.append({"type": "finish"})
    lines = ["".join(iter_json(part)) for part in parts] + ["[DONE]"] * (message.is_last or kind == "error")
    return "".join(f"data: {line}\n\n" for line in lines)


def _id_of(hit: Mapping[str, Any]) -> str:
    """Return the same id for the same surface in each stream."""
    place = "" if hit["surface_index"] is None else f"-{hit['surface_index']}"
    return f"{hit['source'] or ''}/{hit['artifact_id']}#{hit['surface_kind']}{place}"


def _source_of(hit: Mapping[str, Any]) -> dict[str, Any]:
    title = hit["metadata"].get("title")
    suffix = hit["artifact_id"].rpartition(".")[2].lower()
    return {
        "type": "source-document",
        "sourceId": _id_of(hit),
        "mediaType": _MEDIA_TYPES.get(suffix, "text/plain"),
        "title": title if isinstance(title, str) and title else hit["artifact_id"],
    }

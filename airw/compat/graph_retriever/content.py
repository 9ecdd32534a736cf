"""What is walked, before it is a node."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Content:
    """A text with its vector and its fields.

    Example:
        >>> Content.new("a", "text", lambda text: [float(len(text))]).embedding
        [4.0]
    """

    id: str
    content: str
    embedding: Sequence[float]
    metadata: dict[str, Any] = field(default_factory=dict)
    mime_type: str = "text/plain"

    @staticmethod
    def new(
        id: str,
        content: str,
        embedding: Sequence[float] | Callable[[str], Sequence[float]],
        *,
        metadata: dict[str, Any] | None = None,
        mime_type: str = "text/plain",
    ) -> "Content":
        """Make one, with a vector or what embeds the text."""
        vector = embedding(content) if callable(embedding) else embedding
        return Content(id, content, vector, metadata or {}, mime_type)

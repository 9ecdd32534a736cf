"""Contents: the input of an in-memory store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Content:
    """A text with its vector and metadata.

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
        """Make a content from its vector, or from a function that embeds the text."""
        vector = embedding(content) if callable(embedding) else embedding
        return Content(id, content, vector, metadata or {}, mime_type)

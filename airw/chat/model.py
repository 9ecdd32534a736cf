"""What can be asked."""

from typing import Protocol, runtime_checkable

__all__ = ["ChatModel"]


@runtime_checkable
class ChatModel(Protocol):
    """Answers a prompt with text: a `ChatClient`, or anything else that has these two."""

    @property
    def id(self) -> str:
        """Name the model and what changes its answers, never a server; equal ids mean interchangeable answers."""
        ...

    async def complete(self, prompt: str) -> str:
        """Give the model's answer."""
        ...

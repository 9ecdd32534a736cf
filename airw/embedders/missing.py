"""The embedder of a corpus whose own embedder cannot be used on this machine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airw._base.arrays import Floats
from airw.errors import EmbedderError
from airw.protocols import Embedder


@dataclass(frozen=True, slots=True)
class MissingEmbedder:
    """An embedder that knows its id and width, and raises the reason why it cannot embed.

    `open_corpus` returns a corpus with one if the embedder in its settings cannot be made here, or is not allowed. All
    that needs no new vector works: lexical searches, links, lists, passages. A search by vectors raises the reason.

    Args:
        id: The id of the vectors in the corpus.
        dim: Their width.
        reason: The error to raise, which states what would do.

    Example:
        >>> import anyio
        >>> embedder = MissingEmbedder("mine-v1", 4, EmbedderError("mine-v1 is not here"))
        >>> anyio.run(embedder.embed_query, "text")
        Traceback (most recent call last):
            ...
        airw.errors.EmbedderError: mine-v1 is not here
    """

    id: str
    dim: int
    reason: EmbedderError

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Raise the reason.

        Raises:
            EmbedderError: Always; of the type of the reason.
        """
        raise self.make_error()

    async def embed_query(self, text: str) -> Floats:
        """Raise the reason.

        Raises:
            EmbedderError: Always; of the type of the reason.
        """
        raise self.make_error()

    def make_error(self) -> EmbedderError:
        """Return the reason as a new exception, as one must not be raised in several tasks."""
        error = type(self.reason)(*self.reason.args)
        error.__cause__ = self.reason.__cause__
        return error


def first_usable(embedders: Iterable[Embedder]) -> Embedder:
    """Return the first of some embedders of the same id that can embed, else the first.

    Example:
        >>> from airw.embedders import HashingEmbedder
        >>> missing = MissingEmbedder("hashing-v2-512", 512, EmbedderError("not here"))
        >>> first_usable([missing, HashingEmbedder()])
        HashingEmbedder(dim=512, version='v2')
    """
    first, *others = embedders
    if not isinstance(first, MissingEmbedder):
        return first
    return next((embedder for embedder in others if not isinstance(embedder, MissingEmbedder)), first)

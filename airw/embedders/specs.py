"""From a short specification to an embedder, and from a stored id to the certainty that it is the right one."""

import os
from contextlib import suppress

from airw.embedders.hashing import HashingEmbedder
from airw.embedders.sentence import SentenceTransformerEmbedder
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch
from airw.protocols import Embedder

__all__ = ["check_embedder", "resolve_embedder"]

LIGHT = {"light", "hashing", "hash"}
DEFAULT = {"default", "local", "minilm", "st", "sentence-transformers"}


def resolve_embedder(spec: str | os.PathLike[str] | Embedder) -> Embedder:
    """Make the embedder that a specification names; nothing is loaded, and nothing is put in another's place.

    ```text
    "light" "hashing" "hash"     HashingEmbedder()
    "default" "local" "minilm"   SentenceTransformerEmbedder(), which is all-MiniLM-L6-v2; also "st" and
                                 "sentence-transformers"
    any other name               SentenceTransformerEmbedder(name), a model on the hub
    a folder                     SentenceTransformerEmbedder(folder): a path object, or a string with a separator
    an Embedder                  itself
    ```

    Raises:
        ArgumentError: It is something else, such as a URL or a bare function.

    Example:
        >>> resolve_embedder("light")
        HashingEmbedder(dim=512)
    """
    if isinstance(spec, os.PathLike):
        return SentenceTransformerEmbedder(spec)
    if isinstance(spec, str) and spec.strip() and "://" not in spec:
        key = spec.strip().lower()
        if key in LIGHT:
            return HashingEmbedder()
        return SentenceTransformerEmbedder() if key in DEFAULT else SentenceTransformerEmbedder(spec.strip())
    # Not isinstance(spec, Embedder): that would read `id` and `dim`, which may read files.
    if not isinstance(spec, str | type) and hasattr(spec, "embed_documents") and hasattr(spec, "embed_query"):
        return spec
    raise ArgumentError(
        f"an embedder is 'light', 'default', a model's name on the hub, a model folder, an Embedder, or a function by "
        f"way of embedder_from(fn, id=..., dim=...); not {spec!r}"
    )


def check_embedder(embedder: Embedder, stored_id: str, stored_dim: int, corpus_name: str) -> None:
    """Make sure that an embedder gives vectors of the kind that a corpus was built with: same id, same width.

    A width that is known only once the model is loaded is left to the store, which checks every query. `id` may read a
    model's weights: call it in a worker thread.

    Raises:
        EmbedderMismatch: It does not.
        EmbedderUnavailable: The embedder's model folder is not there.

    Example:
        >>> check_embedder(HashingEmbedder(), "hashing-v1-512", 512, "notes")
    """
    fix = "pass the embedder it was built with, or rebuild it with this one"
    if embedder.id != stored_id:
        raise EmbedderMismatch(
            f"corpus {corpus_name!r} was built with embedder {stored_id!r}, not {embedder.id!r}: {fix}"
        )
    width = stored_dim
    with suppress(EmbedderError):
        width = embedder.dim
    if width != stored_dim:
        raise EmbedderMismatch(
            f"corpus {corpus_name!r} holds vectors of width {stored_dim}, but {stored_id!r} gives {width}: {fix}"
        )

"""From a short specification to an embedder, and from a stored id to the certainty that it is the right one."""

import os
from contextlib import suppress

from airw.embedders.hashing import HashingEmbedder
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch
from airw.protocols import Embedder

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
    "http://host:8080/v1#model"  HttpEmbedder(url, model): a server's API, and a model there
    an Embedder                  itself
    ```

    A folder, also the one that `AIRW_MODEL_DIR` names for the default, that holds an export (`airw model export`) makes
    an OnnxEmbedder(folder) instead, with the same id and vectors: where onnxruntime and tokenizers are installed, and
    where the folder holds no weights for torch. If they are missing in the latter, embedding is an error that names the
    command that installs them.

    Raises:
        ArgumentError: It is something else, such as a URL without a model or a bare function.

    Example:
        >>> resolve_embedder("light")
        HashingEmbedder(dim=512)
    """
    if isinstance(spec, os.PathLike):
        return _model(spec)
    if isinstance(spec, str) and "://" in spec:
        return _served(spec)
    if isinstance(spec, str) and spec.strip():
        key = spec.strip().lower()
        if key in LIGHT:
            return HashingEmbedder()
        return _model(None if key in DEFAULT else spec.strip())
    # Not isinstance(spec, Embedder): that would read `id` and `dim`, which may read files.
    if not isinstance(spec, str | type) and hasattr(spec, "embed_documents") and hasattr(spec, "embed_query"):
        return spec
    raise ArgumentError(
        f"an embedder is 'light', 'default', a model's name on the hub, a model folder, 'http://host:8080/v1#model', "
        f"an Embedder, or a function by way of embedder_from(fn, id=..., dim=...); not {spec!r}"
    )


def _model(model: str | os.PathLike[str] | None) -> Embedder:
    """Return the embedder of a model; `None` is the default one."""
    from airw._base.local_models import DEFAULT_MODEL, locate_model, weight_files
    from airw.embedders.onnx import OnnxEmbedder, can_run, has_export
    from airw.embedders.sentence import SentenceTransformerEmbedder

    model = DEFAULT_MODEL if model is None else model
    """Let onnxruntime run an exported folder where it can or nothing else could; torch runs all others."""
    _, folder = locate_model(model)
    if folder is not None and has_export(folder) and (can_run() or not weight_files(folder)):
        return OnnxEmbedder(folder)
    return SentenceTransformerEmbedder(model)


def _served(spec: str) -> Embedder:
    from airw._base.http import base_url
    from airw.embedders.http import PATH, HttpEmbedder

    url, _, model = spec.partition("#")
    if not model.strip():
        base = base_url(url, path=PATH)
        raise ArgumentError(f"a URL names a server; add the model to embed with: {base + '#model'!r}")
    return HttpEmbedder(url, model)


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

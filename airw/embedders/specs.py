"""Creates embedders from short specifications, and checks that they fit a corpus."""

import os
from contextlib import suppress

from airw._base.local_models import FIT_HINT, HUB_PREFIX, is_hub_name
from airw._base.messages import short_repr
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, EmbedderUnavailable
from airw.protocols import Embedder

LIGHT, DEFAULT = "light", "default"


def is_builtin(spec: str) -> bool:
    """Return whether a specification is a name of airw: `"light"` or `"default"`.

    Example:
        >>> is_builtin("light"), is_builtin("BAAI/bge-small-en-v1.5")
        (True, False)
    """
    return spec.strip().lower() in (LIGHT, DEFAULT)


def resolve_embedder(spec: str | os.PathLike[str] | Embedder, stored_id: str | None = None) -> Embedder:
    """Create the embedder that a specification names, without loading a model.

    If `stored_id` is the id of the vectors of a corpus, `"light"` is the version of it that made them.

    ```text
    "light"                      HashingEmbedder()
    "default"                    SentenceTransformerEmbedder(), which is all-MiniLM-L6-v2
    any other name               SentenceTransformerEmbedder(name), a model on the hub
    a folder                     SentenceTransformerEmbedder(folder): a path object, or a string with a separator
    "http://host:8080/v1#model"  HttpEmbedder(url, model): a server's API, and a model there
    an Embedder                  the same object
    ```

    A folder may contain an export for onnxruntime; this includes the folder that `AIRW_MODEL_DIR` names for the
    default. Such a folder becomes an OnnxEmbedder(folder), with the same id and vectors. This needs onnxruntime and
    tokenizers, or a folder without weights for torch. In the latter case, embedding without these packages
    fails with a message that names the command to install them.

    Raises:
        ArgumentError: If it is anything else, such as `""`, a URL without a model, or a function; or if it is nearly
            `"light"` or `"default"`.

    Example:
        >>> resolve_embedder("light").id, resolve_embedder("light", "hashing-v1-512").id
        ('hashing-v2-512', 'hashing-v1-512')
    """
    if isinstance(spec, os.PathLike):
        return _local_model(spec)
    if isinstance(spec, str) and "://" in spec:
        return _server_model(spec)
    if isinstance(spec, str) and spec.strip():
        key = spec.strip().lower()
        if key == LIGHT:
            from airw.embedders.hashing import HashingEmbedder

            first = HashingEmbedder(version="v1")
            return first if stored_id == first.id else HashingEmbedder()
        _check_spelling(key)
        return _local_model(None if key == DEFAULT else spec.strip())
    # isinstance(spec, Embedder) would read `id` and `dim`, which may read files.
    if not isinstance(spec, str | type) and hasattr(spec, "embed_documents") and hasattr(spec, "embed_query"):
        return spec
    raise ArgumentError(
        f"embedder must be 'light', 'default', a model's name on the hub, a model folder, 'http://host:8080/v1#model', "
        f"an Embedder, or embedder_from(fn, id=..., dim=...), not {short_repr(spec)}"
    )


def _check_spelling(key: str) -> None:
    """Refuse a name that is nearly one of airw's own, instead of asking the hub for it.

    A model of that name on the hub can still be named, with its owner.
    """
    import difflib

    if key == DEFAULT or "/" in key:
        return
    similar = difflib.get_close_matches(key, (LIGHT, DEFAULT), n=1, cutoff=0.75)
    if similar:
        raise ArgumentError(
            f"there is no embedder {short_repr(key)}; did you mean {similar[0]!r}? "
            f"A model of that name on the hub is named with its owner, as in {'owner/' + key!r}"
        )


def _local_model(model: str | os.PathLike[str] | None) -> Embedder:
    """Return the embedder of a model by name or folder; `None` is the default model."""
    from airw._base.local_models import DEFAULT_MODEL, locate_model, weight_files
    from airw.embedders.onnx import OnnxEmbedder, can_run, has_export
    from airw.embedders.sentence import SentenceTransformerEmbedder

    model = DEFAULT_MODEL if model is None else model
    # onnxruntime runs an export if it can, as it is faster, or if there is nothing that torch could run.
    _, folder = locate_model(model)
    if folder is not None and has_export(folder) and (can_run() or not weight_files(folder)):
        return OnnxEmbedder(folder)
    return SentenceTransformerEmbedder(model)


def _server_model(spec: str) -> Embedder:
    from airw._base.http import base_url
    from airw.embedders.http import PATH, HttpEmbedder

    url, _, model = spec.partition("#")
    if not model.strip():
        base = base_url(url, path=PATH)
        raise ArgumentError(f"embedder {spec!r} names a server but no model; add the model, as in {base + '#model'!r}")
    return HttpEmbedder(url, model)


def is_same_model(embedder: Embedder, stored_id: str) -> bool:
    """Return whether an embedder makes the vectors that are stored under an id.

    An older index may know a model by its name on the hub, `st:<name>`. Then the ids of the weights are compared: those
    of the embedder, and those that the name means here. It may read the weights, so call it in a worker thread.

    Example:
        >>> from airw.embedders import HashingEmbedder
        >>> is_same_model(HashingEmbedder(), "hashing-v2-512"), is_same_model(HashingEmbedder(), "hashing-v2-64")
        (True, False)
    """
    if embedder.id == stored_id:
        return True
    name = stored_id.removeprefix(HUB_PREFIX)
    if name == stored_id or not is_hub_name(name):
        return False
    with suppress(EmbedderUnavailable):
        return _local_model(name).id == embedder.id
    return False


def check_embedder(embedder: Embedder, stored_id: str, stored_dim: int, corpus_name: str) -> None:
    """Check that an embedder has the id and the width of the vectors in a corpus.

    If only the loaded model knows its width, the store checks it with every query instead. `id` may read the weights of
    a model, so call this in a worker thread.

    Raises:
        EmbedderMismatch: If the id or the width differs.
        EmbedderUnavailable: If the model folder of the embedder does not exist.

    Example:
        >>> from airw.embedders import HashingEmbedder
        >>> check_embedder(HashingEmbedder(), "hashing-v2-512", 512, "notes")
    """
    if not is_same_model(embedder, stored_id):
        raise EmbedderMismatch(
            f"corpus {corpus_name!r} was built with embedder {stored_id!r}, not {embedder.id!r}; {FIT_HINT}"
        )
    width = stored_dim
    with suppress(EmbedderError):
        width = embedder.dim
    if width != stored_dim:
        raise EmbedderMismatch(
            f"corpus {corpus_name!r} has vectors of width {stored_dim}, not {width}, the width of {stored_id!r}; "
            f"{FIT_HINT}"
        )

"""Embedders as functions from a list of texts to rows."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from airw._base.arrays import Floats
from airw.compat._missing_names import explain_missing
from airw.compat._sync import run
from airw.embedders import embedder_from, resolve_embedder
from airw.errors import EmbedderError as EmbedderError
from airw.errors import EmbedderMismatch as EmbedderMismatch
from airw.errors import EmbedderUnavailable as EmbedderUnavailable
from airw.protocols import Embedder

DEFAULT_MODEL = "all-MiniLM-L6-v2"
DFLT_HASHING_DIM = 512


class EmbedderFunction:
    """An embedder of airw as a function: `embed(texts, input_type="document")`.

    It returns one row per text.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def __call__(self, texts: Iterable[str], *, input_type: str = "document") -> Floats:
        """Embed texts, as documents or as queries."""
        listed = list(texts)
        if input_type == "query" and listed:
            return np.stack([run(self.embedder.embed_query, text) for text in listed])
        return run(self.embedder.embed_documents, listed)


@dataclass(frozen=True, slots=True)
class _FromFunction:
    """An embedder of airw made of a function of `ir`, with or without `input_type`."""

    id: str
    dim: int
    documents: Embedder
    queries: Embedder

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        return await self.documents.embed_documents(texts)

    async def embed_query(self, text: str) -> Floats:
        rows: Floats = await self.queries.embed_documents([text])
        return np.asarray(rows[0])


def make_embedder(spec: Any = "default") -> tuple[Callable[..., Floats], str]:
    """Return the embedder of a specification as a function, and its id.

    Example:
        >>> embed, name = make_embedder("light")
        >>> embed(["signing keys"]).shape
        (1, 512)
    """
    embedder = embedder_of(spec)
    return EmbedderFunction(embedder), embedder.id


def embedder_of(spec: Any) -> Any:
    """Return an embedder of airw for a specification or a function of a list of texts.

    The id of a function is its `_ir_id`, otherwise `"custom"`. The function is called once to find the width of rows.
    """
    if isinstance(spec, EmbedderFunction):
        return spec.embedder
    if not callable(spec) or hasattr(spec, "embed_documents"):
        return resolve_embedder("default" if spec is None else spec)
    name = str(getattr(spec, "_ir_id", "custom"))
    dim = np.asarray(_call(spec, ["text"], "document")).shape[-1]
    documents, queries = (
        embedder_from(lambda texts, kind=kind: _call(spec, texts, kind), id=name, dim=int(dim))
        for kind in ("document", "query")
    )
    return _FromFunction(name, int(dim), documents, queries)


def _call(function: Callable[..., Any], texts: list[str], input_type: str) -> Any:
    try:
        parameters = inspect.signature(function).parameters
        accepts_type = "input_type" in parameters or any(
            parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
        )
    except ValueError:  # built-in functions may have no signature
        accepts_type = False
    return function(texts, input_type=input_type) if accepts_type else function(texts)


__getattr__: Final = explain_missing(
    __name__,
    {"make_embedder_for_id": "call open_corpus(name), which finds the embedder that a corpus was built with"},
)

"""Embedders as functions of a list of texts."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from airw._base.arrays import Floats
from airw.compat._missing import missing
from airw.compat._sync import run
from airw.embedders import embedder_from, resolve_embedder
from airw.errors import EmbedderError as EmbedderError
from airw.errors import EmbedderMismatch as EmbedderMismatch
from airw.errors import EmbedderUnavailable as EmbedderUnavailable
from airw.protocols import Embedder

DEFAULT_MODEL = "all-MiniLM-L6-v2"
DFLT_HASHING_DIM = 512


class EmbedderFunction:
    """An embedder of airw as `ir` calls one: `embed(texts, input_type="document")` gives one row for each text."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def __call__(self, texts: Iterable[str], *, input_type: str = "document") -> Floats:
        """Embed texts, as documents or as queries."""
        given = list(texts)
        if input_type == "query" and given:
            return np.stack([run(self.embedder.embed_query, text) for text in given])
        return run(self.embedder.embed_documents, given)


@dataclass(frozen=True, slots=True)
class _FromFunction:
    """A function of `ir`, with or without `input_type`, as an embedder of airw."""

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
    """Return the function that a specification means, and its id.

    Example:
        >>> embed, name = make_embedder("light")
        >>> embed(["signing keys"]).shape
        (1, 512)
    """
    embedder = embedder_of(spec)
    return EmbedderFunction(embedder), embedder.id


def embedder_of(spec: Any) -> Any:
    """Return what airw makes of an embedder as `ir` takes it: a specification, or a function of a list of texts.

    The id of a function is its `_ir_id`, else `"custom"`; it is called once to see how wide its rows are.
    """
    if isinstance(spec, EmbedderFunction):
        return spec.embedder
    if not callable(spec) or hasattr(spec, "embed_documents"):
        return resolve_embedder("default" if spec is None else spec)
    name = str(getattr(spec, "_ir_id", "custom"))
    dim = np.asarray(_called(spec, ["text"], "document")).shape[-1]
    documents, queries = (
        embedder_from(lambda texts, kind=kind: _called(spec, texts, kind), id=name, dim=int(dim))
        for kind in ("document", "query")
    )
    return _FromFunction(name, int(dim), documents, queries)


def _called(function: Callable[..., Any], texts: list[str], input_type: str) -> Any:
    try:
        takes = "input_type" in (known := inspect.signature(function).parameters) or any(
            each.kind is each.VAR_KEYWORD for each in known.values()
        )
    except ValueError:  # built in
        takes = False
    return function(texts, input_type=input_type) if takes else function(texts)


__getattr__ = missing(
    __name__,
    {"make_embedder_for_id": "open_corpus(name) finds the embedder that a corpus was built with"},
)

"""What a setting of a policy asks of a store beyond the four methods of `WalkStore`."""

from typing import Any, Literal, TypeAlias, overload

from airw._base.arrays import Floats
from airw.errors import ArgumentError
from airw.protocols import LinkReader, OpenCorpus, RecordsByArtifact, TextSearch, VectorSearch, WalkStore
from airw.retrieval import check_corpus, embed_text

Walkable: TypeAlias = OpenCorpus[WalkStore]
"""A corpus whose store has the four methods that every walk asks for."""


async def embed(corpus: OpenCorpus[object], query: str) -> Floats:
    """Embed a query: `(dim,) float32`."""
    vector: Floats = (await embed_text(check_corpus(corpus), query))[0]
    return vector


@overload
def require(
    corpus: OpenCorpus[object],
    method: Literal["matching", "resolve", "fan_in", "max_fan_in", "referrers"],
    who: str,
    setting: str = "",
) -> LinkReader: ...
@overload
def require(
    corpus: OpenCorpus[object],
    method: Literal["search_vectors", "similarities", "vectors_of"],
    who: str,
    setting: str = "",
) -> VectorSearch: ...
@overload
def require(corpus: OpenCorpus[object], method: Literal["search_text"], who: str, setting: str = "") -> TextSearch: ...
@overload
def require(
    corpus: OpenCorpus[object], method: Literal["records_of"], who: str, setting: str = ""
) -> RecordsByArtifact: ...
def require(corpus: OpenCorpus[object], method: str, who: str, setting: str = "") -> Any:
    """Return the store of a corpus when it has a method that a policy, by its name, or a setting of it needs.

    Raises:
        ArgumentError: The store has no such method.
    """
    store = check_corpus(corpus).store
    # Looked up where the store is not asked: one that notes what it is asked for must not take this for a call.
    if not (
        hasattr(type(store), method) or hasattr(type(store), "__getattr__") or method in getattr(store, "__dict__", ())
    ):
        needs = f"{who}({setting})" if setting else who
        raise ArgumentError(f"{needs} needs a store with a method {method}, which {type(store).__name__} does not have")
    return store

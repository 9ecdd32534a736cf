"""What a setting of a policy asks of a store beyond the four methods of `WalkStore`."""

from typing import Any, Literal, TypeAlias, TypeVar, cast, overload

from airw._base.arrays import Floats
from airw.errors import ArgumentError
from airw.protocols import LinkReader, OpenCorpus, RecordsByArtifact, Store, TextSearch, VectorSearch, WalkStore
from airw.retrieval import check_corpus, embedded

S = TypeVar("S")

Walkable: TypeAlias = OpenCorpus[WalkStore]
"""A corpus whose store has the four methods that every walk asks for."""


def check_open(corpus: OpenCorpus[S]) -> OpenCorpus[S]:
    """Return an open corpus when it is one.

    Raises:
        ArgumentError: It has no name, store or embedder.
    """
    check_corpus(cast("OpenCorpus", corpus))
    return corpus


async def embed(corpus: OpenCorpus[object], query: str) -> Floats:
    """Embed a query: `(dim,) float32`."""
    vectors = await embedded(cast("OpenCorpus", check_open(corpus)), query)
    return cast("Floats", vectors[0])


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
    store = check_open(corpus).store
    # Looked up where the store is not asked: one that notes what it is asked for must not take this for a call.
    if not (
        hasattr(type(store), method) or hasattr(type(store), "__getattr__") or method in getattr(store, "__dict__", ())
    ):
        needs = f"{who}({setting})" if setting else who
        raise ArgumentError(f"{needs} needs a store with a method {method}, which {type(store).__name__} does not have")
    return cast("Store", store)

"""Checks that a store has the methods that a setting of a policy needs."""

from typing import Any, Literal, TypeAlias, overload

from airw._base.arrays import Floats
from airw._base.checks import describe_lack, offers
from airw.errors import ArgumentError
from airw.protocols import (
    BestRecordFinder,
    LinkReader,
    OpenCorpus,
    RecordsByArtifact,
    TextSearch,
    VectorSearch,
    WalkStore,
)
from airw.retrieval import check_corpus, embed_text

Walkable: TypeAlias = OpenCorpus[WalkStore]
"""A corpus whose store has the four methods that every walk over artifacts calls."""


async def embed(corpus: OpenCorpus[object], query: str) -> Floats:
    """Return the vector of a query, `(dim,) float32`."""
    vector: Floats = (await embed_text(check_corpus(corpus), query))[0]
    return vector


@overload
def require(
    corpus: OpenCorpus[object],
    method: Literal["neighbors", "matching", "resolve", "fan_in", "max_fan_in", "referrers"],
    policy: str,
    setting: str = "",
) -> LinkReader: ...
@overload
def require(
    corpus: OpenCorpus[object],
    method: Literal["search_vectors", "similarities", "vectors_of"],
    policy: str,
    setting: str = "",
) -> VectorSearch: ...
@overload
def require(
    corpus: OpenCorpus[object], method: Literal["search_text"], policy: str, setting: str = ""
) -> TextSearch: ...
@overload
def require(
    corpus: OpenCorpus[object], method: Literal["records_of"], policy: str, setting: str = ""
) -> RecordsByArtifact: ...
@overload
def require(
    corpus: OpenCorpus[object], method: Literal["best_of"], policy: str, setting: str = ""
) -> BestRecordFinder: ...
def require(corpus: OpenCorpus[object], method: str, policy: str, setting: str = "") -> Any:
    """Return the store of a corpus if it has a method that a policy needs.

    Args:
        corpus: The open corpus.
        method: The method.
        policy: The name of the policy, for errors.
        setting: The parameter of the policy that needs the method, if it is not always needed.

    Raises:
        ArgumentError: If the store has no such method.
    """
    store = check_corpus(corpus).store
    if not has_method(corpus, method):
        needs = f"{policy}({setting})" if setting else policy
        raise ArgumentError(f"{needs} needs a store with a method {method}, {describe_lack(store, method)}")
    return store


def has_method(corpus: OpenCorpus[object], method: str) -> bool:
    """Return whether the store of a corpus has a method."""
    return offers(check_corpus(corpus).store, method)

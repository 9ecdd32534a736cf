"""The policy of a walk whose caller names none."""

from typing import cast

from airw._base.checks import find_advice
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.policies._capabilities import has_method
from airw.policies.path_coverage import PathCoverage
from airw.protocols import OpenCorpus
from airw.retrieval import describe_mistaken_corpus
from airw.walking import WalkPolicy

DEFAULT_POLICY: WalkPolicy = PathCoverage()
"""The policy of `airw.traverse` and of `discover(walk=True)`, if their caller passes none."""
_METHODS = ("best_of", "get_records")


def default_policy(corpus: object) -> WalkPolicy:
    """Return the policy that `airw.traverse` takes if its caller names none, `PathCoverage()`.

    It starts from a hybrid search, or by the one channel that the store has, and follows links. If there are none, or
    the store cannot read them, `walk.ranking` has the hits of that search in their order.

    Args:
        corpus: What is to be walked: an open corpus, a `FederatedCorpus`, or a `CorpusGraph` of one.

    Raises:
        ArgumentError: If that policy cannot walk it; the message names one that can.

    Example:
        >>> default_policy(None)
        Traceback (most recent call last):
            ...
        airw.errors.ArgumentError: policy must be given to walk None: the default, PathCoverage, ...
    """
    name = type(DEFAULT_POLICY).__name__
    if mistake := describe_mistaken_corpus(corpus):
        raise ArgumentError(f"store must be an open corpus, not {mistake}")
    if not all(hasattr(corpus, part) for part in ("name", "store", "embedder")):
        raise ArgumentError(
            f"policy must be given to walk {short_repr(corpus)}: the default, {name}, walks an open corpus; pass a "
            "policy of your own, a subclass of airw.Policy"
        )
    opened = cast("OpenCorpus[object]", corpus)
    channel = "search_text" if has_method(opened, "search_text") else "search_vectors"  # it seeds by either
    missing = [method for method in (channel, *_METHODS) if not has_method(opened, method)]
    if missing:
        advice = find_advice(opened.store, missing[0])
        raise ArgumentError(
            f"policy must be given to walk this corpus: its store has no method {missing[0]}, which the default, "
            f"{name}, needs; {f'{advice}, or ' if advice else ''}pass airw.policies.LinkWalk(roots=[...]), which "
            "follows links alone, or one of your own"
        )
    return DEFAULT_POLICY

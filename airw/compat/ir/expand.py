"""A hit with what stands around it; the module is also the function `expand`."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from airw import discovery
from airw.compat._missing import missing
from airw.compat._sync import run
from airw.compat.ir._both import CallableModule
from airw.compat.ir.base import Record
from airw.compat.ir.index import opened, store_of
from airw.compat.ir.store import CorpusStore
from airw.discovery import SentenceWindow, WholeArtifact
from airw.errors import SeedNotFound as SeedNotFound
from airw.links import CorpusGraph
from airw.values import Passage as Passage
from airw.values import SearchHit

NeighborhoodPolicy = Callable[[SearchHit, Sequence[Record]], Iterable[Record]]
DFLT_WINDOW = 1


def sentence_window_policy(k: int = DFLT_WINDOW) -> SentenceWindow:
    """Return the policy that reads on up to `k` records of its kind before and after a hit.

    Raises:
        ArgumentError: `k` is no whole number, or negative.

    Example:
        >>> sentence_window_policy(2)
        SentenceWindow(k=2)
    """
    return SentenceWindow(k)


def parent_policy() -> WholeArtifact:
    """Return the policy that gives the whole artifact.

    Example:
        >>> parent_policy()
        WholeArtifact()
    """
    return WholeArtifact()


def expand(hit: SearchHit, corpus: Any, *, policy: NeighborhoodPolicy | None = None) -> Passage:
    """Return a hit with its neighbourhood as one text; see `airw.expand`.

    Raises:
        CorpusNotFound: There is no corpus of that name.
        NoLedgerEntry: The corpus does not hold the artifact.
        SeedNotFound: It does not hold the hit's surface, and the policy needs it.
        ArgumentError: The policy chose what is no record of the artifact.
    """
    return run(discovery.expand, hit, readable(corpus), policy=neighborhood(policy, corpus))


def readable(corpus: Any) -> Any:
    """Return what airw reads records from: an open corpus or a name as they are, of a store its records alone."""
    if isinstance(corpus, str) or not isinstance(corpus, CorpusStore):
        return opened(corpus)
    return CorpusGraph(corpus.opened)


def neighborhood(policy: Any, corpus: Any) -> Any:
    """Return a policy as airw calls it: one of your own is given records with their vectors.

    Args:
        policy: The policy; `None` and those above are given back.
        corpus: Where the records are: a corpus, its name, or a mapping of these by the source of a hit.
    """
    if policy is None or isinstance(policy, SentenceWindow | WholeArtifact):
        return policy

    def choose(hit: SearchHit, siblings: Sequence[Any]) -> list[Any]:
        stored = {record.id: record for record in siblings}
        home = corpus.get(hit.source) if isinstance(corpus, dict) else corpus
        records = store_of(home)[0].records_of(hit.artifact_id) or []
        return [stored.get(record.id, record) for record in policy(hit, records)]

    return choose


__getattr__ = missing(
    __name__, {"DFLT_MIN_STITCH_OVERLAP": "what chunks share is known by the offsets that they are stored with"}
)

sys.modules[__name__].__class__ = CallableModule

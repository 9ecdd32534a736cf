"""Hits with the records around them; the module is also the function `expand`."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from airw import discovery
from airw.compat._missing_names import explain_missing
from airw.compat._sync import run
from airw.compat.ir._callable_module import CallableModule
from airw.compat.ir.base import Record
from airw.compat.ir.index import store_of, to_airw
from airw.compat.ir.store import CorpusStore
from airw.discovery import SentenceWindow, WholeArtifact
from airw.errors import SeedNotFound as SeedNotFound
from airw.links import CorpusGraph
from airw.values import Passage as Passage
from airw.values import SearchHit

NeighborhoodPolicy = Callable[[SearchHit, Sequence[Record]], Iterable[Record]]
DFLT_WINDOW = 1


def sentence_window_policy(k: int = DFLT_WINDOW) -> SentenceWindow:
    """Return the policy that adds up to `k` records of the same kind on both sides of a hit.

    Raises:
        ArgumentError: If `k` is negative or not a whole number.

    Example:
        >>> sentence_window_policy(2)
        SentenceWindow(k=2)
    """
    return SentenceWindow(k)


def parent_policy() -> WholeArtifact:
    """Return the policy that returns the whole artifact.

    Example:
        >>> parent_policy()
        WholeArtifact()
    """
    return WholeArtifact()


def expand(hit: SearchHit, corpus: Any, *, policy: NeighborhoodPolicy | None = None) -> Passage:
    """Return a hit and its neighbourhood as one text; see `airw.expand`.

    Raises:
        CorpusNotFound: If there is no corpus with that name.
        NoLedgerEntry: If the corpus does not contain the artifact.
        SeedNotFound: If the corpus does not contain the surface of the hit, and the policy needs it.
        ArgumentError: If the policy returns a value that is not a record of the artifact.
    """
    return run(discovery.expand, hit, record_reader(corpus), policy=to_airw_policy(policy, corpus))


def record_reader(corpus: Any) -> Any:
    """Return an object from which airw can read the records of a corpus, a name or a store."""
    if isinstance(corpus, str) or not isinstance(corpus, CorpusStore):
        return to_airw(corpus)
    return CorpusGraph(corpus.opened)


def to_airw_policy(policy: Any, corpus: Any) -> Any:
    """Return a policy for airw; a policy of your own is called with records that have vectors.

    Args:
        policy: The policy. `None` and the two policies above are returned unchanged.
        corpus: The corpus of the records, its name, or a mapping of these by the source of a hit.
    """
    if policy is None or isinstance(policy, SentenceWindow | WholeArtifact):
        return policy

    def choose(hit: SearchHit, siblings: Sequence[Any]) -> list[Any]:
        stored = {record.id: record for record in siblings}
        home = corpus.get(hit.source) if isinstance(corpus, dict) else corpus
        records = store_of(home)[0].records_of(hit.artifact_id) or []
        return [stored.get(record.id, record) for record in policy(hit, records)]

    return choose


__getattr__: Final = explain_missing(
    __name__, {"DFLT_MIN_STITCH_OVERLAP": "airw knows the overlap of chunks from their stored offsets"}
)

sys.modules[__name__].__class__ = CallableModule

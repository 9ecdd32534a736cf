"""Checks of where a walk starts: the artifacts that the caller names, and the query."""

import difflib
from collections.abc import Sequence
from typing import Any

from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.errors import ArgumentError, NoLedgerEntry
from airw.policies._capabilities import has_method
from airw.policies._several_corpora import Id, is_lost, root_ids
from airw.policies.artifact_memory import ArtifactMemory
from airw.protocols import OpenCorpus
from airw.values import ArtifactRef, NodeIdLike

_MOST_COMPARED = 20_000  # ids; comparing more of them with a wrong one would take seconds


def find_roots(memory: ArtifactMemory, roots: Sequence[NodeIdLike], corpus: OpenCorpus[Any]) -> list[Id]:
    """Return roots as ids of the store, without duplicates, and remember to check them.

    Raises:
        NoLedgerEntry: If a root is in another corpus or, in several corpora, does not name its corpus.
    """
    memory.unchecked_roots = root_ids(roots, corpus)
    return memory.unchecked_roots


async def check_roots(memory: ArtifactMemory, corpus: OpenCorpus[Any]) -> None:
    """Check that the roots exist, once they are scored.

    A root with a surface exists, so a store call is needed only for one without.

    Raises:
        NoLedgerEntry: If a root is not an artifact of this corpus.
    """
    scored = [id for id in memory.unchecked_roots if id in memory.best_surfaces]
    doubtful = [id for id in scored if not memory.has_surface(id) and not is_lost(id, corpus)]
    memory.unchecked_roots = [id for id in memory.unchecked_roots if id not in memory.best_surfaces]
    # A store that has only the methods of every walk knows artifacts by their surfaces.
    entries = (
        await corpus.store.ledger(doubtful) if doubtful and has_method(corpus, "ledger") else [None] * len(doubtful)
    )
    for id, entry in zip(doubtful, entries, strict=True):
        # The corpus may have been lost by this very call.
        if entry is None and not is_lost(id, corpus):
            raise await unknown_root(id, corpus)


async def unknown_root(id: Id, corpus: OpenCorpus[Any]) -> NoLedgerEntry:
    """Return the error about a root that a corpus does not contain; it names similar ids."""
    source, text = id if isinstance(id, ArtifactRef) else (None, id)
    known = await corpus.store.artifact_ids() if has_method(corpus, "artifact_ids") else []
    own = [each for each in known if not isinstance(each, ArtifactRef) or each.source == source][:_MOST_COMPARED]
    names = {str(each.id if isinstance(each, ArtifactRef) else each): each for each in own}
    similar = [names[name] for name in await in_thread(difflib.get_close_matches, str(text), list(names))]
    such_as = f" such as {', '.join(short_repr(_as_pair(each)) for each in similar)}" if similar else ""
    wrong = short_repr(_as_pair(id))
    return NoLedgerEntry(
        f"corpus {corpus.name!r} contains no artifact {wrong}; pass roots as ids of artifacts{such_as}"
    )


def _as_pair(id: Id) -> Any:
    return tuple(id) if isinstance(id, ArtifactRef) else id


def require_query(query: str, policy: str) -> None:
    """Check that a walk that starts from a search for its query has one.

    Raises:
        ArgumentError: If the query is blank.
    """
    if not query.strip():
        raise ArgumentError(f"query must not be blank, not {short_repr(query)}: {policy} searches for it to start")

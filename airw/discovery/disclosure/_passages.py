"""The passage of each hit, from the corpus that it came from."""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from airw._base.concurrency import map_bounded
from airw.corpora import CorpusLike, reading
from airw.discovery.expansion import passages_of
from airw.errors import NoLedgerEntry
from airw.protocols import NeighborhoodPolicy
from airw.values import Passage, SearchHit

Corpora: TypeAlias = CorpusLike | Sequence[CorpusLike] | Mapping[str, CorpusLike]

_MAX_CONCURRENCY = 16


async def passages_from(
    corpora: Corpora, hits: Sequence[SearchHit], policy: NeighborhoodPolicy
) -> list[tuple[str | None, str | None]]:
    """Give for each hit the text of its passage and `None`, or `None` and the note that says why there is none.

    Each corpus that has hits is asked once; hits without a source belong to a corpus that is given alone.
    """
    keyed = _keyed(corpora)
    alone = len(keyed) == 1 and not isinstance(corpora, Mapping)

    async def found(entry: tuple[str | None, CorpusLike]) -> dict[int, Any]:
        key, corpus = entry
        if isinstance(corpora, Mapping) and all(hit.source != key for hit in hits):
            return {}
        async with reading(corpus) as (name, store):
            source = key if isinstance(corpora, Mapping) else name
            places = [at for at, hit in enumerate(hits) if hit.source == source or (alone and hit.source is None)]
            passages = await passages_of([hits[at] for at in places], name, store, policy) if places else []
        return dict(zip(places, passages, strict=True))

    told: dict[int, Any] = {}
    for each in reversed(await map_bounded(found, keyed, limit=_MAX_CONCURRENCY)):
        told |= each  # of two corpora of one name, the first
    return [_told(told.get(at)) for at in range(len(hits))]


def _keyed(corpora: Any) -> list[tuple[str | None, CorpusLike]]:
    if isinstance(corpora, Mapping):
        return list(corpora.items())
    return list(zip(repeat(None), corpora if isinstance(corpora, list | tuple) else [corpora]))


def _told(passage: Any) -> tuple[str | None, str | None]:
    if isinstance(passage, Passage):
        return passage.text, None
    if passage is None:
        return None, "no_corpus_for_source"
    return None, "no_ledger_entry" if isinstance(passage, NoLedgerEntry) else "seed_not_found"

"""Expansion: a hit with what stands around it in its artifact, put together from the records of the corpus."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeAlias

from airw._base.checks import check_count, name_missing_method
from airw._base.concurrency import in_thread, map_bounded
from airw._base.messages import short_repr
from airw.corpora import CorpusLike, use_store
from airw.errors import ArgumentError, ArgumentKindError, NoLedgerEntry, SeedNotFound
from airw.protocols import NeighborhoodPolicy, RecordsByArtifact
from airw.retrieval.stitching import stitch
from airw.values import Passage, Record, SearchHit


@dataclass(frozen=True, slots=True)
class SentenceWindow:
    """The neighbourhood that reads on: the hit's record, and up to `k` of its kind before and after it.

    Raises:
        ArgumentError: `k` is no whole number, or negative.

    Example:
        >>> SentenceWindow(2)
        SentenceWindow(k=2)
    """

    k: int = 1

    def __post_init__(self) -> None:
        """Check the width at birth."""
        check_count("k", self.k)

    def __call__(self, hit: SearchHit, siblings: Sequence[Record]) -> Sequence[Record]:
        """Give the records in the window."""
        if hit.surface_index is None:
            name = f"the hit of {hit.artifact_id!r}"
            raise ArgumentError(f"{name} has no surface_index to lay a window around; WholeArtifact() needs none")
        kin = [record for record in siblings if record.surface_kind == hit.surface_kind]
        at = next((at for at, record in enumerate(kin) if record.surface_index == hit.surface_index), None)
        if at is None:
            raise SeedNotFound(
                f"{hit.artifact_id!r} has no {hit.surface_kind!r} surface at {hit.surface_index}: "
                "the hit is of another corpus or an older build; search again"
            )
        return kin[max(0, at - self.k) : at + self.k + 1]


@dataclass(frozen=True, slots=True)
class WholeArtifact:
    """The neighbourhood that is the whole artifact: all its records, in plan order.

    Example:
        >>> WholeArtifact()
        WholeArtifact()
    """

    def __call__(self, _: SearchHit, siblings: Sequence[Record]) -> Sequence[Record]:
        """Give all of them."""
        return siblings


async def expand(
    hit: SearchHit, corpus: CorpusLike[RecordsByArtifact], *, policy: NeighborhoodPolicy | None = None
) -> Passage:
    """Give a hit with its neighbourhood as one text; its identity and its score stay.

    What two chunks share is said once, where they were stored with their offsets; what is not adjacent, or not of one
    kind, is parted by a blank line.

    Args:
        hit: The hit, from this corpus.
        corpus: An open corpus, or a name or path, which is opened without its embedder and closed again.
        policy: Chooses among the artifact's records; `SentenceWindow()` unless given. In what order it gives
            them, and how often, does not matter. Where it chooses none, the text is the hit's own.

    Raises:
        CorpusNotFound: There is no corpus of that name or at that path.
        NoLedgerEntry: The corpus does not hold the artifact.
        SeedNotFound: It does not hold the hit's surface, and the policy needs it.
        ArgumentError: The policy chose what is no record of the artifact, or needs the `surface_index` that the hit
            does not have.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping
        >>> from airw.indexing import Chunked
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     strategy = Chunked(chunk_size=13, overlap=6)
        ...     source = from_mapping({"a": "one two three four"}, name="notes", strategy=strategy)
        ...     async with build(source, store=MemoryStore(), embedder="light") as corpus:
        ...         [hit] = await corpus.search("four", k=1)
        ...         return hit.text, (await expand(hit, corpus)).text
        >>> anyio.run(main)
        ('three four', 'one two three four')
    """
    if not isinstance(hit, SearchHit):
        raise ArgumentKindError(f"hit must be a SearchHit, not {short_repr(hit)}")
    chosen = SentenceWindow() if policy is None else check_policy(policy)
    async with use_store(corpus) as (name, store):
        [passage] = await passages_of([hit], name, store, chosen)
    if isinstance(passage, Passage):
        return passage
    raise passage


def check_policy(policy: NeighborhoodPolicy) -> NeighborhoodPolicy:
    """Give a policy back when it can be one.

    Raises:
        ArgumentError: It is no function.
    """
    if not callable(policy):
        raise ArgumentKindError(
            f"a neighbourhood policy must be a function of a hit and records, not {short_repr(policy)}"
        )
    return policy


async def passages_of(
    hits: Sequence[SearchHit], name: str, store: RecordsByArtifact, policy: NeighborhoodPolicy
) -> list[Passage | NoLedgerEntry | SeedNotFound]:
    """Give the passage of each hit, or the error that says why there is none, in one store call.

    Raises:
        ArgumentError: As `expand` does.
    """
    artifact_ids = list(dict.fromkeys(hit.artifact_id for hit in hits))
    with name_missing_method("expand", store):
        siblings = dict(zip(artifact_ids, await store.records_of(artifact_ids), strict=True))

    def passage(hit: SearchHit) -> Passage | NoLedgerEntry | SeedNotFound:
        records = siblings[hit.artifact_id]
        if records is None:
            return NoLedgerEntry(f"corpus {name!r} holds no artifact {hit.artifact_id!r}")
        try:
            chosen = _chosen(hit, records, policy)
        except SeedNotFound as error:
            return error
        return _passage(hit, chosen)

    return await in_thread(lambda: [passage(hit) for hit in hits])


def _chosen(hit: SearchHit, records: Sequence[Record], policy: NeighborhoodPolicy) -> list[Record]:
    """Give the records that a policy chose, each once, in plan order."""
    answer = policy(hit, tuple(records))
    if inspect.iscoroutine(answer):
        answer.close()  # or it would warn that nobody awaited it
    if not isinstance(answer, Iterable):
        raise ArgumentKindError(f"a neighbourhood policy must give the records it chooses, not {short_repr(answer)}")
    own = {record.id for record in records}
    wanted = set()
    for record in answer:
        if not isinstance(record, Record) or record.id not in own:
            rule = f"may only choose from the records of {hit.artifact_id!r} that it was given"
            raise ArgumentError(f"a neighbourhood policy {rule}, not {short_repr(record)}")
        wanted.add(record.id)
    return [record for record in records if record.id in wanted]


def _passage(hit: SearchHit, records: Sequence[Record]) -> Passage:
    return Passage(
        artifact_id=hit.artifact_id,
        surface_kind=hit.surface_kind,
        score=float(hit.score),
        text=stitch(records) if records else hit.text,
        record_ids=tuple(record.id for record in records),
        source=hit.source,
        surface_index=hit.surface_index,
    )


_Source: TypeAlias = CorpusLike[RecordsByArtifact]
Corpora: TypeAlias = _Source | Sequence[_Source] | Mapping[str, _Source]

_MAX_CONCURRENCY = 16


async def passages_from(
    corpora: Corpora, hits: Sequence[SearchHit], policy: NeighborhoodPolicy
) -> list[tuple[str | None, str | None]]:
    """Give for each hit the text of its passage and `None`, or `None` and the note that says why there is none.

    Each corpus that has hits is asked once; hits without a source belong to a corpus that is given alone.
    """
    keyed = _keyed(corpora)
    alone = len(keyed) == 1 and not isinstance(corpora, Mapping)

    async def found(entry: tuple[str | None, _Source]) -> dict[int, Any]:
        key, corpus = entry
        if isinstance(corpora, Mapping) and all(hit.source != key for hit in hits):
            return {}
        async with use_store(corpus) as (name, store):
            source = key if isinstance(corpora, Mapping) else name
            places = [at for at, hit in enumerate(hits) if hit.source == source or (alone and hit.source is None)]
            passages = await passages_of([hits[at] for at in places], name, store, policy) if places else []
        return dict(zip(places, passages, strict=True))

    told: dict[int, Any] = {}
    for each in reversed(await map_bounded(found, keyed, limit=_MAX_CONCURRENCY)):
        told |= each  # of two corpora of one name, the first
    return [_told(told.get(at)) for at in range(len(hits))]


def _keyed(corpora: Any) -> list[tuple[str | None, _Source]]:
    if isinstance(corpora, Mapping):
        return list(corpora.items())
    return list(zip(repeat(None), corpora if isinstance(corpora, list | tuple) else [corpora]))


def _told(passage: Any) -> tuple[str | None, str | None]:
    if isinstance(passage, Passage):
        return passage.text, None
    if passage is None:
        return None, "no_corpus_for_source"
    return None, "no_ledger_entry" if isinstance(passage, NoLedgerEntry) else "seed_not_found"

"""Expansion of hits to passages: the records around a hit, joined to one text."""

import inspect
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from airw._base.checks import check_count, check_kind
from airw._base.concurrency import in_thread, map_bounded
from airw._base.messages import short_repr
from airw.corpora import CorpusLike, use_store
from airw.errors import ArgumentError, NoLedgerEntry, SeedNotFound
from airw.protocols import NeighborhoodPolicy, RecordsOf, Store, ask
from airw.retrieval.searching import stitch
from airw.values import Passage, Record, SearchHit, check_hit

FUNCTION_OF_RECORDS = "be a function of a hit and its records"
"""What a neighborhood policy must be, for messages."""


@dataclass(frozen=True, slots=True)
class SentenceWindow:
    """A policy that chooses the hit's record and up to `k` records of its kind on each side.

    Raises:
        ArgumentError: If `k` is not a whole number of at least 0.

    Example:
        >>> SentenceWindow(2)
        SentenceWindow(k=2)
    """

    k: int = 1

    def __post_init__(self) -> None:
        """Check `k`."""
        check_count("k", self.k)

    def __call__(self, hit: SearchHit, siblings: Sequence[Record]) -> Sequence[Record]:
        """Return the records of the window."""
        if hit.surface_index is None:
            raise ArgumentError(
                f"SentenceWindow needs a surface_index, which the hit of {short_repr(hit.artifact_id)} lacks: "
                "use WholeArtifact()"
            )
        # A chunk and the summary of an artifact are no neighbours: the window counts records of one kind.
        records = [record for record in siblings if record.surface_kind == hit.surface_kind]
        for position, record in enumerate(records):
            if record.surface_index == hit.surface_index:
                return records[max(0, position - self.k) : position + self.k + 1]
        kind, index = short_repr(hit.surface_kind), short_repr(hit.surface_index)
        raise SeedNotFound(
            f"{short_repr(hit.artifact_id)} has no {kind} surface at {index}: "
            "the hit is from another corpus or an older build: search again"
        )


@dataclass(frozen=True, slots=True)
class WholeArtifact:
    """A policy that chooses all records of the artifact, in plan order.

    Example:
        >>> WholeArtifact()
        WholeArtifact()
    """

    def __call__(self, _: SearchHit, siblings: Sequence[Record]) -> Sequence[Record]:
        """Return all records."""
        return siblings


async def expand(hit: SearchHit, corpus: CorpusLike, *, policy: NeighborhoodPolicy | None = None) -> Passage:
    """Return a hit together with its neighbourhood, as one text.

    The passage has the identity and the score of the hit. The overlap of two chunks appears once, if they were stored
    with their offsets. A blank line separates records that are not adjacent or not of one kind.

    Args:
        hit: A hit of this corpus.
        corpus: An open corpus, or a name or path, which is opened without its embedder and closed again.
        policy: A function that chooses among the records of the artifact; `SentenceWindow()` by default. The order of
            the chosen records and duplicates do not matter. If it chooses none, the text is that of the hit.

    Raises:
        CorpusNotFound: If there is no corpus of that name or at that path.
        NoLedgerEntry: If the corpus does not contain the artifact.
        SeedNotFound: If the artifact no longer has the hit's surface, and the policy needs it.
        ArgumentError: If the policy chooses something else than records of the artifact, or needs a `surface_index`
            that the hit does not have.

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
    check_kind("hit", hit, SearchHit, "be a SearchHit")
    check_hit(hit)
    policy = check_kind("policy", SentenceWindow() if policy is None else policy, Callable, FUNCTION_OF_RECORDS)
    async with use_store(corpus) as (name, store):
        [passage] = await _read_passages([hit], name, store, "policy", policy)
    if isinstance(passage, Passage):
        return passage
    raise passage


async def _read_passages(
    hits: Sequence[SearchHit], name: str, store: Store, parameter: str, policy: NeighborhoodPolicy
) -> list[Passage | NoLedgerEntry | SeedNotFound]:
    """Return the passage of each hit, or the error why there is none.

    One store call reads the records of all hits. `parameter` is the name of the policy in error messages.

    Raises:
        ArgumentError: As `expand`.
    """
    if not hits:
        return []
    artifact_ids = list(dict.fromkeys(hit.artifact_id for hit in hits))
    siblings = dict(zip(artifact_ids, await ask(store, RecordsOf(artifact_ids)), strict=True))

    def make_passage(hit: SearchHit) -> Passage | NoLedgerEntry | SeedNotFound:
        records = siblings[hit.artifact_id]
        if records is None:
            return NoLedgerEntry(f"corpus {name!r} contains no artifact {short_repr(hit.artifact_id)}")
        try:
            chosen = _choose_records(hit, records, parameter, policy)
        except SeedNotFound as error:
            return error
        return Passage(
            artifact_id=hit.artifact_id,
            surface_kind=hit.surface_kind,
            score=float(hit.score),
            text=stitch(chosen) if chosen else hit.text,
            record_ids=tuple(record.id for record in chosen),
            source=hit.source,
            surface_index=hit.surface_index,
        )

    # In a thread: the policy is a function of the caller, and an artifact may have many records.
    return await in_thread(lambda: [make_passage(hit) for hit in hits])


def _choose_records(
    hit: SearchHit, records: Sequence[Record], parameter: str, policy: NeighborhoodPolicy
) -> list[Record]:
    """Return the records that a policy chooses, in plan order and without duplicates."""
    answer = policy(hit, tuple(records))
    if inspect.iscoroutine(answer):
        answer.close()  # else Python warns that it was never awaited
    check_kind(parameter, answer, Iterable, "return a list of the records it chooses")
    record_ids = {record.id for record in records}
    chosen_ids = set()
    for record in answer:
        if not isinstance(record, Record) or record.id not in record_ids:
            raise ArgumentError(
                f"{parameter} may only choose from the records of {hit.artifact_id!r} that it received, "
                f"not {short_repr(record)}"
            )
        chosen_ids.add(record.id)
    return [record for record in records if record.id in chosen_ids]


Corpora: TypeAlias = CorpusLike | Sequence[CorpusLike] | Mapping[str, CorpusLike]

_MAX_CONCURRENCY = 16  # corpora read at once


async def passages_from(
    corpora: Corpora, hits: Sequence[SearchHit], policy: NeighborhoodPolicy
) -> list[tuple[str | None, str | None]]:
    """Return the text of each hit's passage and `None`, or `None` and a note.

    The note is the reason why there is no passage. Each corpus that has hits is read once. Hits without a source belong
    to the corpus if there is only one.
    """
    # Only the names that the caller passed are known before a corpus is opened.
    named: Sequence[tuple[str | None, CorpusLike]]
    if isinstance(corpora, Mapping):
        sources = {hit.source for hit in hits}
        named, is_single = [each for each in corpora.items() if each[0] in sources], False
    else:
        several = corpora if isinstance(corpora, list | tuple) else [cast("CorpusLike", corpora)]
        named, is_single = [(None, corpus) for corpus in several], len(several) == 1

    async def read(named_corpus: tuple[str | None, CorpusLike]) -> dict[int, tuple[str | None, str | None]]:
        key, corpus = named_corpus
        async with use_store(corpus) as (name, store):
            source = name if key is None else key
            own = [hit for hit in hits if hit.source == source or (is_single and hit.source is None)]
            passages = await _read_passages(own, name, store, "expand", policy)
        return {id(hit): _text_or_note(passage) for hit, passage in zip(own, passages, strict=True)}

    # Of two corpora with the same name the first one wins.
    found = ChainMap(*await map_bounded(read, named, limit=_MAX_CONCURRENCY))
    return [found.get(id(hit), (None, "no_corpus_for_source")) for hit in hits]


def _text_or_note(passage: Passage | NoLedgerEntry | SeedNotFound) -> tuple[str | None, str | None]:
    if isinstance(passage, Passage):
        return passage.text, None
    return None, "no_ledger_entry" if isinstance(passage, NoLedgerEntry) else "seed_not_found"

"""Bundles whole notes from ids, a walk and a search, within a budget."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from airw._base.checks import check_choice, check_count, check_query
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, NoLedgerEntry
from airw.links import FollowedLinks
from airw.policies.collapsed_tree import LEAF_KINDS
from airw.protocols import OpenCorpus
from airw.retrieval import Mode, check_corpus, retrieve
from airw.retrieval.stitching import stitch
from airw.values import ArtifactRef, Edge, NodeId, Record, SearchHit
from airw.views.bundled import BUNDLE_FORMS, FORMS, Bundle, BundledNote, Form, FormName, NoteLink
from airw.views.model import id_text, node_view
from airw.views.reading import limits_of
from airw.walking import Walk

ESTIMATE = "tokens are estimated, one for 4 bytes of UTF-8"
"""The note in a bundle whose tokens were not counted by a tokenizer."""

_DIGITS = 10  # reserved for a count that is not known yet
_WALK_LIMITS = ("max_edges", "max_fanout", "max_frontier", "max_hops", "max_nodes", "timeout")
_MAX_BATCH = 64
_PATIENCE = 16  # notes in a row that do not fit; then smaller ones are rare, and the rest is not read


def bundle(
    corpus: OpenCorpus,
    *,
    walk: Walk | None = None,
    notes: Sequence[NodeId] = (),
    query: str | None = None,
    k: int = 10,
    mode: Mode = "dense",
    form: FormName = "text",
    max_chars: int | None = None,
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
    edges: FollowedLinks | None = None,
) -> BundleStream:
    """Bundle whole notes until a budget is full, and yield each as soon as it is in.

    The named notes come first, then the notes of the walk in its order, then those of the query by rank, without
    duplicates. A note is in the bundle whole or not at all. A note that does not fit is left out and counted, and
    smaller notes after it may still fit. When 16 notes in a row did not fit, the walk is stopped. Notes that it would
    have reached are not counted, so `at_least` then contains the limit.

    The budget is for the whole printed document: headings, links, and the line that says what was left out.

    Args:
        corpus: An open corpus.
        walk: A walk of this corpus that was not read yet, from `walk_links` or `traverse`. It is closed with the
            bundle.
        notes: Ids of artifacts.
        query: The query to search for.
        k: The maximum number of artifacts from the search.
        mode: The mode of the search: `"dense"`, `"lexical"` or `"hybrid"`.
        form: The format for which the budget is computed: `"text"`, `"json"` or `"records"`.
        max_chars: The maximum number of characters of the document.
        max_tokens: The maximum number of tokens of the document.
        count_tokens: Returns the number of tokens of a text; by default `estimate_tokens`. Called in a worker thread.
        edges: The choice of stored edges between the notes to include; by default all.

    Returns:
        An async iterator of notes, which is also an async context manager. Nothing is open between two notes. Its
        attribute `bundle` contains all notes and what was left out.

    Raises:
        ArgumentError: If an argument cannot be used, or the budget is too small for the line that says what was left
            out; raised by this call.
        NoLedgerEntry: If one of `notes` is not in the corpus; raised while iterating.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping
        >>> from airw.stores import MemoryStore
        >>> from airw.views.bundled import bundle_document
        >>> async def main():
        ...     texts = {"a": "signing keys", "b": "a long story " * 50, "c": "bread"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         async with bundle(corpus, notes=["a", "b", "c"], max_chars=140) as bundling:
        ...             async for note in bundling:
        ...                 print(note.node.id, note.content)
        ...         print(bundling.bundle.left_out, len(bundle_document(bundling.bundle)))
        >>> anyio.run(main)
        a signing keys
        c bread
        {'max_chars': 1} 87
    """
    check_corpus(corpus)
    named = _check_ids(notes)
    check_count("k", k)
    if walk is not None and not isinstance(walk, Walk):
        raise ArgumentKindError(f"walk must be a walk, such as walk_links returns, not {short_repr(walk)}")
    if query is not None:
        check_query(query)
    check_choice("form", form, FORMS)
    limits = _Limits(max_chars, max_tokens, count_tokens)
    empty = Bundle(corpus.name, tokens=ESTIMATE if max_tokens is not None and count_tokens is None else None)
    budgets = limits.budgets(BUNDLE_FORMS[form], empty, walks=walk is not None)
    search = None if query is None else _Query(query, k, mode)
    return BundleStream(corpus, empty, named, walk, search, budgets, edges or FollowedLinks())


class _Query(NamedTuple):
    text: str
    k: int
    mode: Mode


class _Candidate(NamedTuple):
    """An artifact that may enter the bundle, why, and its distance from the root of the walk."""

    id: NodeId
    via: str
    hop: int | None = None


def _check_ids(ids: object) -> list[_Candidate]:
    if not isinstance(ids, list | tuple) or not all(
        isinstance(id, str) or (isinstance(id, tuple) and len(id) == 2) for id in ids
    ):
        raise ArgumentKindError(f"notes must be a list of artifact ids, not {short_repr(ids)}")
    return [_Candidate(id, "note") for id in dict.fromkeys(ids)]


class BundleStream(AsyncIterator[BundledNote]):
    """An async iterator of the notes of a bundle, returned by `bundle`.

    Nothing is open between two notes. Only one task may iterate at a time. Leaving `async with`, `aclose()` and a
    cancelled request close the walk.
    """

    def __init__(  # noqa: PLR0917 - only `bundle` calls it
        self,
        corpus: OpenCorpus,
        empty: Bundle,
        named: Sequence[_Candidate],
        walk: Walk | None,
        search: _Query | None,
        budgets: Sequence[_Budget],
        edges: FollowedLinks,
    ) -> None:
        """Prepare; nothing is read before the first request."""
        self._corpus, self._origins = corpus, edges.filter.origins
        self._walk, self._search, self._budgets = walk, search, budgets
        # Candidates: names that are not checked yet, candidates to try next, ids that were tried already.
        self._unchecked, self._waiting, self._seen = list(named), deque(named), set[NodeId]()
        # Results: the notes that are in, those of them that were not yielded yet, and the edges between them.
        self._notes, self._ready, self._links = list[BundledNote](), deque[BundledNote](), _NoteLinks(edges)
        self._header = empty
        self._left_out: dict[str, int] = {}
        # State: the size of the next batch, notes in a row that did not fit, and the limit that ended the bundle.
        self._batch_size, self._misses = 1, 0
        self._full: str | None = None
        self._is_busy = self._ended = False

    @property
    def bundle(self) -> Bundle:
        """Return the notes yielded so far and the counts of the rest; final after the last note."""
        count = len(self._notes) - len(self._ready)
        left_out = dict(sorted({**self._header.left_out, **self._left_out}.items()))
        return replace(self._header, notes=tuple(self._notes[:count]), left_out=left_out)

    async def __aenter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Close the walk."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the walk; no more notes follow."""
        self._ended = True
        if self._walk is not None:
            await self._walk.aclose()

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def __anext__(self) -> BundledNote:
        """Return the next note.

        Raises:
            StopAsyncIteration: If there are no more notes.
            RuntimeError: If another task waits for a note.
        """
        if self._is_busy:
            raise RuntimeError("another task waits for a note of this bundle; iterate in one task")
        self._is_busy = True
        try:
            while not self._ready and not self._ended:
                await self._read_batch()
        except BaseException:
            self._ended = True
            raise
        finally:
            self._is_busy = False
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.popleft()

    async def _read_batch(self) -> None:
        """Read a batch of candidates and add those that fit, with at most three store calls."""
        await self._check_names()
        # Batches double: the first note comes at once, and later ones share their store calls. A full bundle needs
        # only one more candidate, to know whether anything is left out.
        batch = await self._next_candidates(1 if self._full else self._batch_size)
        self._batch_size = min(2 * self._batch_size, _MAX_BATCH)
        if not batch:
            self._ended = True
        elif self._full:
            await self._stop(self._full, len(batch))
        else:
            ids: list[Any] = [candidate.id for candidate in batch]
            records = await self._corpus.store.records_of(ids)
            edges = await self._corpus.store.neighbors(ids, direction="out", origins=self._origins)
            self._ready.extend(await in_thread(self._add_fitting, batch, records, edges))

    async def _check_names(self) -> None:
        ids: list[Any] = [candidate.id for candidate in self._unchecked]
        self._unchecked = []
        entries = await self._corpus.store.ledger(ids) if ids else []
        missing = [id for id, entry in zip(ids, entries, strict=True) if entry is None]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            names = ", ".join(map(short_repr, missing[:3]))
            raise NoLedgerEntry(f"corpus {self._corpus.name!r} contains no artifact {names}{more}")

    async def _next_candidates(self, count: int) -> list[_Candidate]:
        """Return at most `count` new candidates."""
        batch: list[_Candidate] = []
        while len(batch) < count and (candidate := await self._next_candidate()) is not None:
            if candidate.id not in self._seen:
                self._seen.add(candidate.id)
                batch.append(candidate)
        return batch

    async def _next_candidate(self) -> _Candidate | None:
        # The order of the sources is the order of the notes: names first, then the walk, then the query.
        if self._waiting:
            return self._waiting.popleft()
        if self._walk is not None:
            try:
                return _candidate_of_walk(self._walk, await anext(self._walk))
            except StopAsyncIteration:
                self._end_walk(self._walk)
        if self._search is not None:
            query, self._search = self._search, None
            hits = await retrieve(self._corpus, query.text, k=query.k, mode=query.mode)
            self._waiting.extend(_Candidate(hit.artifact_id, f"query:{hit.score:.4f}") for hit in hits)
        return self._waiting.popleft() if self._waiting else None

    def _end_walk(self, walk: Walk) -> None:
        """Copy the limits from the summary of the walk, and drop the walk."""
        self._walk = None
        left_out, at_least, unknown = limits_of(walk.summary)
        self._header = replace(self._header, left_out=left_out, at_least=at_least, unknown=unknown)

    async def _stop(self, limit: str, seen: int) -> None:
        """End because the budget is full, and count the candidates that are left out."""
        rest = {candidate.id for candidate in self._waiting} - self._seen
        self._left_out[limit] = self._left_out.get(limit, 0) + seen + len(rest)
        is_read = self._walk is None and self._search is None
        await self.aclose()
        if self._walk is not None:
            self._end_walk(self._walk)
        # An unread walk or query may contain more notes, so the count is only a lower bound.
        if not is_read:
            self._header = replace(self._header, at_least=tuple(sorted({*self._header.at_least, limit})))

    def _add_fitting(
        self,
        batch: Sequence[_Candidate],
        records: Sequence[Sequence[Record] | None],
        edges: Sequence[Sequence[Edge]],
    ) -> list[BundledNote]:
        """Add the candidates that fit, in order; return their notes."""
        first = len(self._notes)
        for candidate, note_records, out in zip(batch, records, edges, strict=True):
            note = _make_note(candidate, note_records or (), self._links.links_of(candidate.id, out))
            if self._add_if_fits(note):
                self._links.add(candidate.id, out)
        return self._notes[first:]

    def _add_if_fits(self, note: BundledNote) -> bool:
        """Add a note if it fits into every budget, else count it; return True if it was added."""
        # Ask all budgets before any is charged, so that a note that exceeds one does not use up another.
        used = []
        for budget in self._budgets:
            size = None if self._full else budget.size_with(self._notes, note)
            if size is None:
                self._count_miss(self._full or budget.limit)
                return False
            used.append(size)
        for budget, size in zip(self._budgets, used, strict=True):
            budget.used = size
        self._notes.append(note)
        self._misses = 0
        return True

    def _count_miss(self, limit: str) -> None:
        self._left_out[limit] = self._left_out.get(limit, 0) + 1
        self._misses += 1
        if self._misses == _PATIENCE:
            self._full = limit


def _candidate_of_walk(walk: Walk, hit: SearchHit) -> _Candidate:
    *before, id = (node if isinstance(node, str | ArtifactRef) else str(node) for node in walk.path(hit))
    via = ":".join(["walk", *map(id_text, before[-1:])])
    # The nodes of other policies may be surfaces; the hit names their artifact.
    return _Candidate(id if isinstance(id, ArtifactRef) else hit.artifact_id, via, len(before))


def _make_note(candidate: _Candidate, records: Sequence[Record], links: tuple[NoteLink, ...]) -> BundledNote:
    parts = [record for record in records if record.surface_kind in LEAF_KINDS] or records
    node = node_view(candidate.id, records[0] if records else None)
    return BundledNote(node, stitch(parts), candidate.via, candidate.hop, links)


class _NoteLinks:
    """The stored edges between the notes of a bundle.

    An edge is listed with the later of its two notes, because only then both are in.
    """

    def __init__(self, links: FollowedLinks) -> None:
        """Begin without notes."""
        self._links = links
        self._in: set[NodeId] = set()
        self._waiting: dict[NodeId, list[Edge]] = {}

    def links_of(self, id: NodeId, out: Sequence[Edge]) -> tuple[NoteLink, ...]:
        """Return the links between a new note, with its outgoing edges, and the notes that are in."""
        edges = [*(edge for edge in out if edge.target in self._in), *self._waiting.get(id, ())]
        return tuple(NoteLink(edge, self._links.name_of(edge, id)) for edge in edges if self._links.follows(edge))

    def add(self, id: NodeId, out: Sequence[Edge]) -> None:
        """Add a note that is now in, with its outgoing edges."""
        self._in.add(id)
        for edge in out:
            self._waiting.setdefault(edge.target, []).append(edge)


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text: one for every four bytes of UTF-8, rounded up.

    Example:
        >>> estimate_tokens("signing keys"), estimate_tokens("鍵")
        (3, 1)
    """
    return -(-len(text.encode()) // 4)


@dataclass(slots=True)
class _Budget:
    """A limit on the size of the printed document.

    `used` is the size so far. It includes the frame: the document without notes, in which every limit has left out the
    largest possible count. So there is always space for the line that says what was left out.
    """

    limit: str
    most: int
    measure: Callable[[str], int]
    form: Form
    frame: Bundle
    used: int = 0

    def __post_init__(self) -> None:
        """Measure the frame.

        Raises:
            ArgumentError: If the frame alone does not fit.
        """
        self.used = self._measure_document(())
        if self.used > self.most:
            raise ArgumentError(f"{self.limit} must be at least {self.used}, the size without notes, not {self.most}")

    def _measure_document(self, notes: Sequence[BundledNote]) -> int:
        document = self.form.whole(replace(self.frame, notes=tuple(notes)))
        return self.measure(document + "9" * _DIGITS)

    def size_with(self, notes: Sequence[BundledNote], note: BundledNote) -> int | None:
        """Return the size with one more note beside `notes`, or `None` if it does not fit."""
        used = self.used + self.measure(self.form.note(note))
        # Characters add up, but the tokens of parts need not add up to those of the whole: measure it if it may fit.
        if used <= self.most and self.measure is not len:
            used = self._measure_document([*notes, note])
        return used if used <= self.most else None


class _Limits(NamedTuple):
    """The limits that were passed to `bundle`."""

    max_chars: int | None
    max_tokens: int | None
    count_tokens: Callable[[str], int] | None

    def budgets(self, form: Form, empty: Bundle, *, walks: bool) -> list[_Budget]:
        """Check the limits and return a budget for each that is set."""
        if self.count_tokens is not None and (self.max_tokens is None or not callable(self.count_tokens)):
            if self.max_tokens is None:
                raise ArgumentError("count_tokens needs max_tokens; pass both")
            raise ArgumentError(f"count_tokens must be a function of a text, not {short_repr(self.count_tokens)}")
        options = [("max_chars", self.max_chars, len), ("max_tokens", self.max_tokens, self._tokens)]
        bounds = [
            (limit, check_count(limit, most, least=1), measure) for limit, most, measure in options if most is not None
        ]
        limits = [limit for limit, _, _ in bounds] + (list(_WALK_LIMITS) if walks else [])
        frame = replace(
            empty,
            left_out=dict.fromkeys(limits, 10**_DIGITS - 1),
            at_least=tuple(limits),
            unknown=tuple(limits) if walks else (),
        )
        return [_Budget(limit, most, measure, form, frame) for limit, most, measure in bounds]

    def _tokens(self, text: str) -> int:
        count = (self.count_tokens or estimate_tokens)(text)
        return check_count("the result of count_tokens", count)

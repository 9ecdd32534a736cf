"""Bundles notes from ids, a walk and a search, within a budget."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

from airw._base.checks import check_choice, check_count, check_kind, check_query
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, NoLedgerEntry
from airw.links import FollowedLinks
from airw.policies.collapsed_tree import LEAF_KINDS
from airw.protocols import Edges, Ledger, OpenCorpus, RecordsOf, ask
from airw.retrieval import Mode, check_corpus, retrieve
from airw.retrieval.searching import stitch
from airw.values import ArtifactRef, Edge, LinkFilter, NodeId, Record, SearchHit
from airw.views._budget import Budget, WaitingNote, choose_last_notes, complete_bundle
from airw.views.bundled import BUNDLE_FORMS, FORMS, Bundle, BundledNote, Form, FormName, NoteLinks
from airw.views.model import id_text, node_view
from airw.views.reading import limits_of
from airw.walking import Walk

ESTIMATE = "tokens are estimated, one for 4 bytes of UTF-8"
"""The note in a bundle whose tokens were not counted by a tokenizer."""

_BYTES_PER_TOKEN = 4  # in an estimate
_MOST = 10**10 - 1  # space is reserved for counts up to this one
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
    mode: Mode = "hybrid",
    form: FormName = "text",
    max_chars: int | None = None,
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
    edges: FollowedLinks | None = None,
) -> BundleStream:
    """Bundle notes until a budget is full, and yield each as soon as it is in.

    The named notes come first, then the notes of the walk in its order, then those of the query by rank, without
    duplicates. The first note that does not fit whole is cut: the bundle contains the passage around the text that
    matched, else its beginning. The passage gets at least half of the space that is left, and more if the smaller notes
    after it need less. Other notes that do not fit are left out and counted; the first of them are named.

    When 16 notes in a row did not fit, the walk is stopped. Notes that it would have reached are not counted, so
    `at_least` then contains the limit.

    The budget is for the whole printed document: headings, links, and the lines that say what was left out. The
    document never exceeds it. If something is left out, it uses at least 98 % of it, unless a heading and forty
    characters do not fit into the rest.

    Args:
        corpus: An open corpus.
        walk: A walk of this corpus that was not read yet, from `walk_links` or `traverse`. It is closed with the
            bundle.
        notes: Ids of artifacts.
        query: The query to search for.
        k: The maximum number of artifacts from the search.
        mode: The mode of the search: `"dense"`, `"lexical"` or `"hybrid"` (the default).
        form: The format for which the budget is computed: `"text"`, `"json"` or `"records"`.
        max_chars: The maximum number of characters of the document.
        max_tokens: The maximum number of tokens of the document. With `count_tokens`, the whole document is counted
            again for each note.
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
        ...         async with bundle(corpus, notes=["a", "b", "c"], max_chars=250) as bundling:
        ...             async for note in bundling:
        ...                 print(note.node.id, len(note.content) > 100, note.is_passage)
        ...         print(bundling.bundle.truncated, len(bundle_document(bundling.bundle)))
        >>> anyio.run(main)
        a False False
        b True True
        c False False
        True 249
    """
    check_corpus(corpus)
    named = _check_ids(notes)
    check_count("k", k)
    check_kind("walk", walk, Walk | None, "be a walk, such as walk_links returns")
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
    """An artifact that may enter the bundle.

    `via` says why, `hop` is its distance from the root of the walk, and `match` is the text in it that was found.
    """

    id: NodeId
    via: str
    hop: int | None = None
    match: str = ""


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
        budgets: Sequence[Budget],
        edges: FollowedLinks,
    ) -> None:
        """Prepare; nothing is read before the first request."""
        self._corpus, self._origins = corpus, edges.filter.origins
        self._walk, self._search, self._budgets = walk, search, budgets
        # Candidates: names that are not checked yet, candidates to try next, ids that were tried already.
        self._unchecked, self._waiting, self._seen = list(named), deque(named), set[NodeId]()
        # Results: the notes that are in, those of them that were not yielded yet, and the edges between them. From the
        # first note on for which there may be no space, notes wait until all are known.
        self._notes, self._ready, self._links = list[BundledNote](), deque[BundledNote](), NoteLinks(edges)
        self._waiting_notes: list[WaitingNote] = []
        self._header = empty
        # State: the size of the next batch, notes in a row that did not fit, and the limit that ended the bundle.
        self._batch_size, self._misses = 1, 0
        self._space: list[int] = []  # what the waiting notes leave of each budget, if those that fit are chosen
        self._has_too_large = False  # among the waiting notes
        self._full: str | None = None
        self._is_busy = self._ended = False

    @property
    def bundle(self) -> Bundle:
        """Return the notes yielded so far and the counts of the rest; final after the last note."""
        count = len(self._notes) - len(self._ready)
        return replace(self._header, notes=tuple(self._notes[:count]))

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
        if not batch or self._full:
            await self._finish(batch)
        else:
            ids: list[Any] = [candidate.id for candidate in batch]
            records = await ask(self._corpus.store, RecordsOf(ids))
            edges = await ask(self._corpus.store, Edges(ids, "out", links=LinkFilter(origins=self._origins)))
            self._ready.extend(await in_thread(self._add_roomy, batch, records, edges))

    async def _check_names(self) -> None:
        ids: list[Any] = [candidate.id for candidate in self._unchecked]
        self._unchecked = []
        entries = await ask(self._corpus.store, Ledger(ids)) if ids else []
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
            self._waiting.extend(_Candidate(hit.artifact_id, f"query:{hit.score:.4f}", match=hit.text) for hit in hits)
        return self._waiting.popleft() if self._waiting else None

    def _end_walk(self, walk: Walk) -> None:
        """Copy the limits from the summary of the walk, and drop the walk."""
        self._walk = None
        left_out, at_least, unknown = limits_of(walk.summary)
        self._header = replace(self._header, left_out=left_out, at_least=at_least, unknown=unknown)

    async def _finish(self, unread: Sequence[_Candidate]) -> None:
        """Choose among the waiting notes, and end; `unread` came after the budget was full."""
        is_read = self._walk is None and self._search is None
        await self.aclose()
        if self._walk is not None:
            self._end_walk(self._walk)
        if self._full is not None:
            rest = [candidate.id for candidate in (*unread, *self._waiting)]
            seen = self._seen - {candidate.id for candidate in unread}
            self._waiting_notes += [WaitingNote(id, self._full) for id in dict.fromkeys(rest) if id not in seen]
            # An unread walk or query may contain more notes, so the count is only a lower bound.
            if not is_read:
                self._header = replace(self._header, at_least=tuple(sorted({*self._header.at_least, self._full})))
        if self._waiting_notes:
            self._ready.extend(await in_thread(self._choose))

    def _choose(self) -> Sequence[BundledNote]:
        bundle = replace(self._header, notes=tuple(self._notes))
        chosen, left_out = choose_last_notes(bundle, self._waiting_notes, self._budgets, self._links)
        self._header = complete_bundle(self._header, left_out, self._budgets)
        self._notes += chosen
        return chosen

    def _add_roomy(
        self,
        batch: Sequence[_Candidate],
        records: Sequence[Sequence[Record] | None],
        edges: Sequence[Sequence[Edge]],
    ) -> list[BundledNote]:
        """Add the candidates that certainly fit, in order; return their notes. The others wait."""
        first = len(self._notes)
        for candidate, note_records, out in zip(batch, records, edges, strict=True):
            note = _make_note(candidate, note_records or ())
            if self._waiting_notes or not self._add_if_roomy(self._links.link(note, out)):
                self._defer(candidate, note, out)
            else:
                self._links.add(candidate.id, out)
        return self._notes[first:]

    def _add_if_roomy(self, note: BundledNote) -> bool:
        """Add a note if it fits with all lines that may follow; return True if it was added."""
        # Ask all budgets before any is charged, so that a note that exceeds one does not use up another.
        sizes = [budget.size_with(self._notes, note, budget.used) for budget in self._budgets]
        if any(size > budget.most for size, budget in zip(sizes, self._budgets, strict=True)):
            return False
        for budget, size in zip(self._budgets, sizes, strict=True):
            budget.used = size
        self._notes.append(note)
        return True

    def _defer(self, candidate: _Candidate, note: BundledNote, out: Sequence[Edge]) -> None:
        """Keep a note waiting until all are known.

        After many in a row that are too large for the space that is left, the budget is full.
        """
        if not self._waiting_notes:
            self._space = [budget.most - budget.used + budget.frame_size for budget in self._budgets]
        sizes = [budget.measure(budget.form.note(note)) for budget in self._budgets]
        left = [space - size for space, size in zip(self._space, sizes, strict=True)]
        tightest = min(range(len(left)), key=lambda number: left[number] / self._budgets[number].most)
        limit, is_too_large = self._budgets[tightest].limit, left[tightest] < 0
        # The first one that is too large will be cut. Others cannot be in, so forget their texts.
        kept = None if is_too_large and self._has_too_large else note
        self._waiting_notes.append(WaitingNote(candidate.id, limit, kept, out, candidate.match))
        if is_too_large:
            self._has_too_large = True
            self._misses += 1
        else:
            self._space, self._misses = left, 0
        if self._misses == _PATIENCE:
            self._full = limit


def _candidate_of_walk(walk: Walk, hit: SearchHit) -> _Candidate:
    *before, id = (node if isinstance(node, str | ArtifactRef) else str(node) for node in walk.path(hit))
    via = ":".join(["walk", *map(id_text, before[-1:])])
    # The nodes of other policies may be surfaces; the hit names their artifact.
    return _Candidate(id if isinstance(id, ArtifactRef) else hit.artifact_id, via, len(before), hit.text)


def _make_note(candidate: _Candidate, records: Sequence[Record]) -> BundledNote:
    parts = [record for record in records if record.surface_kind in LEAF_KINDS] or records
    node = node_view(candidate.id, records[0] if records else None)
    return BundledNote(node, stitch(parts), candidate.via, candidate.hop)


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text: one for every four bytes of UTF-8, rounded up.

    Example:
        >>> estimate_tokens("signing keys"), estimate_tokens("鍵")
        (3, 1)
    """
    return -(-_count_bytes(text) // _BYTES_PER_TOKEN)


def cut_to_tokens(text: str, most: int) -> str:
    """Return the beginning of a text, of so many tokens as `estimate_tokens` estimates.

    Example:
        >>> cut_to_tokens("signing keys", 2)
        'signing '
    """
    return text.encode()[: most * _BYTES_PER_TOKEN].decode(errors="ignore")


def _count_bytes(text: str) -> int:
    return len(text.encode())


class _Limits(NamedTuple):
    """The limits that were passed to `bundle`."""

    max_chars: int | None
    max_tokens: int | None
    count_tokens: Callable[[str], int] | None

    def budgets(self, form: Form, empty: Bundle, *, walks: bool) -> list[Budget]:
        """Check the limits and return a budget for each that is set."""
        if self.count_tokens is not None and (self.max_tokens is None or not callable(self.count_tokens)):
            if self.max_tokens is None:
                raise ArgumentError("count_tokens needs max_tokens; pass both")
            raise ArgumentError(f"count_tokens must be a function of a text, not {short_repr(self.count_tokens)}")
        passed = {"max_chars": self.max_chars, "max_tokens": self.max_tokens}
        limits = [name for name, most in passed.items() if most is not None and check_count(name, most, least=1)]
        limits += _WALK_LIMITS if walks else []
        frame = replace(
            empty,
            left_out=dict.fromkeys(limits, _MOST),
            at_least=tuple(limits),
            unknown=tuple(limits) if walks else (),
        )
        budgets = []
        if self.max_chars is not None:
            budgets.append(Budget("max_chars", self.max_chars, len, form, frame, adds_up=True))
        if self.max_tokens is not None and self.count_tokens is None:
            # In bytes, because the rounded counts of parts do not add up.
            most, unit = self.max_tokens * _BYTES_PER_TOKEN, _BYTES_PER_TOKEN
            budgets.append(Budget("max_tokens", most, _count_bytes, form, frame, adds_up=True, unit=unit))
        elif self.max_tokens is not None:
            budgets.append(Budget("max_tokens", self.max_tokens, self._count, form, frame, adds_up=False))
        return budgets

    def _count(self, text: str) -> int:
        return check_count("the result of count_tokens", (self.count_tokens or estimate_tokens)(text))

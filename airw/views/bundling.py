"""Whole notes put together within a budget, from a walk, from ids, from a search: a consumer of their streams."""

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
"""What a bundle says of tokens that no tokenizer has counted."""

_DIGITS = 10  # of a count that is not known yet
_OF_WALKS = ("max_edges", "max_fanout", "max_frontier", "max_hops", "max_nodes", "timeout")
_MOST_AT_ONCE = 64
_PATIENCE = 16  # notes in a row that do not fit: what is left of the budget is for smaller ones, and they are rare


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
    """Put whole notes together, each the moment it is known to be in, until a budget is full.

    The notes are those named, then what the walk finds in its order, then what the query finds by rank; what comes in
    twice counts where it comes first. A note is in whole or not at all: one that does not fit is left out and counted,
    and smaller ones after it may still be in, until 16 in a row did not fit. Then the walk is stopped, so that what it
    would have found is not counted: `at_least` names the limit.

    The budget is of the document in the given form, all of it: heads, links, the line that says what was left out.

    Args:
        corpus: An open corpus.
        walk: A walk of it that was not read yet, as `walk_links` and `traverse` make; it is closed with the bundle.
        notes: Ids of artifacts.
        query: What to search for.
        k: How many artifacts the search gives.
        mode: How it ranks: `"dense"`, `"lexical"` or `"hybrid"`.
        form: What the document will be that the budget is for: `"text"`, `"json"` or `"records"`.
        max_chars: Characters of the document, at most.
        max_tokens: Tokens of the document, at most.
        count_tokens: _Counts them; `estimated_tokens` unless given. Called in a worker thread.
        edges: Which of the stored edges between the notes are told; all, unless given.

    Returns:
        An async iterator of notes, and an async context manager that closes itself. Nothing is open between two notes.
        Its `bundle` holds them all, and what was left out.

    Raises:
        ArgumentError: An argument cannot be used, or the budget is too small to say what was left out; raised by this
            call.
        NoLedgerEntry: While iterating: the corpus does not hold one of `notes`.

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
    given = _check_ids(notes)
    check_count("k", k)
    if walk is not None and not isinstance(walk, Walk):
        raise ArgumentKindError(f"walk must be a walk, such as walk_links makes, not {short_repr(walk)}")
    if query is not None:
        check_query(query)
    check_choice("form", form, FORMS)
    counts = _Counts(max_chars, max_tokens, count_tokens)
    empty = Bundle(corpus.name, tokens=ESTIMATE if max_tokens is not None and count_tokens is None else None)
    budgets = counts.budgets(BUNDLE_FORMS[form], empty, walks=walk is not None)
    search = None if query is None else _Search(query, k, mode)
    return BundleStream(corpus, empty, given, walk, search, budgets, edges or FollowedLinks())


class _Search(NamedTuple):
    query: str
    k: int
    mode: Mode


class _Candidate(NamedTuple):
    """What may come in: an artifact, how it was found, and how far from the root of the walk."""

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
    """A bundle on its way: an async iterator of its notes that holds nothing open between them.

    One task takes notes at a time. Leaving `async with`, `aclose()` and a cancelled request close the walk that it
    reads. Made by `bundle`.
    """

    def __init__(  # noqa: PLR0917 - the parts, made by `bundle` alone
        self,
        corpus: OpenCorpus,
        empty: Bundle,
        given: Sequence[_Candidate],
        walk: Walk | None,
        search: _Search | None,
        budgets: Sequence[_Budget],
        edges: FollowedLinks,
    ) -> None:
        """Prepare; nothing is read before the first request."""
        self._corpus, self._origins = corpus, edges.filter.origins
        self._told, self._notes, self._between = empty, list[BundledNote](), _Between(edges)
        self._unchecked, self._waiting, self._seen = list(given), deque(given), set[NodeId]()
        self._walk, self._search, self._budgets = walk, search, budgets
        self._ready, self._count, self._missed = deque[BundledNote](), 1, 0
        self._left_out: dict[str, int] = {}
        self._full: str | None = None
        self._is_busy = self._ended = False

    @property
    def bundle(self) -> Bundle:
        """Give what is in by now, and what was left out; the last word once all notes were taken."""
        given = len(self._notes) - len(self._ready)
        left_out = dict(sorted({**self._told.left_out, **self._left_out}.items()))
        return replace(self._told, notes=tuple(self._notes[:given]), left_out=left_out)

    async def __aenter__(self) -> Self:
        """Give the bundling itself."""
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Close it."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the walk that it reads; there are no further notes."""
        self._ended = True
        if self._walk is not None:
            await self._walk.aclose()

    def __aiter__(self) -> Self:
        """Give the bundling itself."""
        return self

    async def __anext__(self) -> BundledNote:
        """Give the next note.

        Raises:
            StopAsyncIteration: There is none.
            RuntimeError: Another task waits for one.
        """
        if self._is_busy:
            raise RuntimeError("another task waits for a note of this bundle; one task takes at a time")
        self._is_busy = True
        try:
            while not self._ready and not self._ended:
                await self._read_on()
        except BaseException:
            self._ended = True
            raise
        finally:
            self._is_busy = False
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.popleft()

    async def _read_on(self) -> None:
        """Read some candidates, twice as many each time, and take in what fits; three store calls at most."""
        await self._check_given()
        batch = await self._candidates(1 if self._full else self._count)
        self._count = min(2 * self._count, _MOST_AT_ONCE)
        if not batch:
            self._ended = True
        elif self._full:
            await self._stop(self._full, len(batch))
        else:
            ids: list[Any] = [candidate.id for candidate in batch]
            records = await self._corpus.store.records_of(ids)
            edges = await self._corpus.store.neighbors(ids, direction="out", origins=self._origins)
            self._ready.extend(await in_thread(self._taken, batch, records, edges))

    async def _check_given(self) -> None:
        ids: list[Any] = [candidate.id for candidate in self._unchecked]
        self._unchecked = []
        entries = await self._corpus.store.ledger(ids) if ids else []
        missing = [id for id, entry in zip(ids, entries, strict=True) if entry is None]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            named = ", ".join(map(short_repr, missing[:3]))
            raise NoLedgerEntry(f"corpus {self._corpus.name!r} holds no artifact {named}{more}")

    async def _candidates(self, count: int) -> list[_Candidate]:
        """Give the next ones, at most as many, none of them twice."""
        batch: list[_Candidate] = []
        while len(batch) < count and (candidate := await self._candidate()) is not None:
            if candidate.id not in self._seen:
                self._seen.add(candidate.id)
                batch.append(candidate)
        return batch

    async def _candidate(self) -> _Candidate | None:
        if self._waiting:
            return self._waiting.popleft()
        if self._walk is not None:
            try:
                return _of_walk(self._walk, await anext(self._walk))
            except StopAsyncIteration:
                self._note_end(self._walk)
        if self._search is not None:
            asked, self._search = self._search, None
            hits = await retrieve(self._corpus, asked.query, k=asked.k, mode=asked.mode)
            self._waiting.extend(_Candidate(hit.artifact_id, f"query:{hit.score:.4f}") for hit in hits)
        return self._waiting.popleft() if self._waiting else None

    def _note_end(self, walk: Walk) -> None:
        """Keep what a walk says that it left out."""
        self._walk = None
        left_out, at_least, unknown = limits_of(walk.summary)
        self._told = replace(self._told, left_out=left_out, at_least=at_least, unknown=unknown)

    async def _stop(self, limit: str, seen: int) -> None:
        """End as the budget is full; count what was seen of the rest, and say where there may be more."""
        rest = {candidate.id for candidate in self._waiting} - self._seen
        self._left_out[limit] = self._left_out.get(limit, 0) + seen + len(rest)
        unread = self._walk, self._search
        await self.aclose()
        if self._walk is not None:
            self._note_end(self._walk)
        if unread != (None, None):
            self._told = replace(self._told, at_least=tuple(sorted({*self._told.at_least, limit})))

    def _taken(
        self,
        batch: Sequence[_Candidate],
        records: Sequence[Sequence[Record] | None],
        edges: Sequence[Sequence[Edge]],
    ) -> list[BundledNote]:
        """Take in, in order, what fits."""
        first = len(self._notes)
        for candidate, found, out in zip(batch, records, edges, strict=True):
            note = _note(candidate, found or (), self._between.told_with(candidate.id, out))
            if self._takes(note):
                self._between.admit(candidate.id, out)
        return self._notes[first:]

    def _takes(self, note: BundledNote) -> bool:
        """Take a note in if it fits; when it does not, count it."""
        used = []
        for budget in self._budgets:
            new = None if self._full else budget.with_note(self._notes, note)
            if new is None:
                self._miss(self._full or budget.limit)
                return False
            used.append(new)
        for budget, new in zip(self._budgets, used, strict=True):
            budget.used = new
        self._notes.append(note)
        self._missed = 0
        return True

    def _miss(self, limit: str) -> None:
        self._left_out[limit] = self._left_out.get(limit, 0) + 1
        self._missed += 1
        if self._missed == _PATIENCE:
            self._full = limit


def _of_walk(walk: Walk, hit: SearchHit) -> _Candidate:
    *before, id = (each if isinstance(each, str | ArtifactRef) else str(each) for each in walk.path(hit))
    via = ":".join(["walk", *map(id_text, before[-1:])])
    return _Candidate(id if isinstance(id, ArtifactRef) else hit.artifact_id, via, len(before))  # nodes may be surfaces


def _note(candidate: _Candidate, records: Sequence[Record], links: tuple[NoteLink, ...]) -> BundledNote:
    parts = [record for record in records if record.surface_kind in LEAF_KINDS] or records
    about = node_view(candidate.id, records[0] if records else None)
    return BundledNote(about, stitch(parts), candidate.via, candidate.hop, links)


class _Between:
    """The stored edges between the notes that are in."""

    def __init__(self, links: FollowedLinks) -> None:
        """Begin without any."""
        self._links = links
        self._in: set[NodeId] = set()
        self._waiting: dict[NodeId, list[Edge]] = {}

    def told_with(self, id: NodeId, out: Sequence[Edge]) -> tuple[NoteLink, ...]:
        """Return those between a note, whose own edges lead out to others, and the notes that are in."""
        edges = [*(edge for edge in out if edge.target in self._in), *self._waiting.get(id, ())]
        return tuple(NoteLink(edge, self._links.named(edge, id)) for edge in edges if self._links.follows(edge))

    def admit(self, id: NodeId, out: Sequence[Edge]) -> None:
        """Note that a note is in."""
        self._in.add(id)
        for edge in out:
            self._waiting.setdefault(edge.target, []).append(edge)


def estimated_tokens(text: str) -> int:
    """Estimate how many tokens a text has: one for every four bytes of UTF-8, rounded up.

    Example:
        >>> estimated_tokens("signing keys"), estimated_tokens("鍵")
        (3, 1)
    """
    return -(-len(text.encode()) // 4)


@dataclass(slots=True)
class _Budget:
    """So much of a document, measured; `used` counts its frame, as it is when every limit was spent."""

    limit: str
    most: int
    measure: Callable[[str], int]
    form: Form
    frame: Bundle
    used: int = 0

    def __post_init__(self) -> None:
        """Measure the frame.

        Raises:
            ArgumentError: There is no room for it.
        """
        self.used = self._of_document(())
        if self.used > self.most:
            raise ArgumentError(f"{self.limit} must be at least {self.used}, to say what was left out, not {self.most}")

    def _of_document(self, notes: Sequence[BundledNote]) -> int:
        document = self.form.whole(replace(self.frame, notes=tuple(notes)))
        return self.measure(document + "9" * _DIGITS)

    def with_note(self, notes: Sequence[BundledNote], note: BundledNote) -> int | None:
        """Return what is used once a note is in beside these; `None` where it does not fit."""
        used = self.used + self.measure(self.form.note(note))
        if used <= self.most and self.measure is not len:  # the tokens of parts need not add up to those of the whole
            used = self._of_document([*notes, note])
        return used if used <= self.most else None


class _Counts(NamedTuple):
    """What may be printed."""

    max_chars: int | None
    max_tokens: int | None
    count_tokens: Callable[[str], int] | None

    def budgets(self, form: Form, empty: Bundle, *, walks: bool) -> list[_Budget]:
        """Return the budgets there are."""
        if self.count_tokens is not None and (self.max_tokens is None or not callable(self.count_tokens)):
            raise ArgumentError(
                "count_tokens= needs max_tokens="
                if self.max_tokens is None
                else f"count_tokens must be a function of a text, not {short_repr(self.count_tokens)}"
            )
        asked = [("max_chars", self.max_chars, len), ("max_tokens", self.max_tokens, self._tokens)]
        given = [
            (limit, check_count(limit, most, least=1), measure) for limit, most, measure in asked if most is not None
        ]
        limits = [limit for limit, _, _ in given] + (list(_OF_WALKS) if walks else [])
        frame = replace(
            empty,
            left_out=dict.fromkeys(limits, 10**_DIGITS - 1),
            at_least=tuple(limits),
            unknown=tuple(limits) if walks else (),
        )
        return [_Budget(limit, most, measure, form, frame) for limit, most, measure in given]

    def _tokens(self, text: str) -> int:
        count = (self.count_tokens or estimated_tokens)(text)
        return check_count("what count_tokens gives", count)

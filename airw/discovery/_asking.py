"""One source of a discovery: it answers, or fails, or runs out of time, and the others go on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from airw._base.arrays import Floats
from airw._base.checks import check_number, name_missing_method
from airw._base.concurrency import in_thread
from airw._base.messages import error_text
from airw.corpora import use_corpus
from airw.discovery._planning import AUTO, SKILLS, DiscoveryPlan, Member
from airw.discovery.federated import FederatedCorpus
from airw.discovery.results import Answer
from airw.errors import ArgumentError, DiscoveryError, FilterError
from airw.protocols import Embedder, OpenCorpus
from airw.reranking import is_anonymous
from airw.retrieval import SearchQuery, formulate_queries, run_search
from airw.values import SearchHit
from airw.walking import WalkPolicy, traverse


@dataclass(slots=True)
class _Flight:
    """A query on its way: whoever holds the lock embeds, the others take what came of it."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    row: Floats | None = None
    error: Exception | None = None


class SharedQueries:
    """Embeds each query once for all corpora of one discovery whose embedders have one id."""

    def __init__(self) -> None:
        self._flights: dict[tuple[str, str], _Flight] = {}

    def view(self, corpus: OpenCorpus[Any]) -> OpenCorpus[Any]:
        """Give the corpus with an embedder that shares its queries; one graph of several embeds them once anyway."""
        if isinstance(corpus, FederatedCorpus):
            return corpus
        return _View(corpus.name, corpus.store, _Shared(corpus.embedder, self))

    async def embed(self, embedder: Embedder, text: str) -> Floats:
        """Give `(dim,) float32`; one that was cancelled while it embedded is taken over by the next."""
        flight = self._flights.setdefault((embedder.id, text), _Flight())
        async with flight.lock:
            if flight.error is not None:
                raise flight.error
            if flight.row is None:
                try:
                    flight.row = await embedder.embed_query(text)
                except Exception as error:
                    flight.error = error
                    raise
        return flight.row


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """An embedder whose queries are embedded once."""

    embedder: Embedder
    queries: SharedQueries

    @property
    def id(self) -> str:
        return self.embedder.id

    @property
    def dim(self) -> int:
        return self.embedder.dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        return await self.embedder.embed_documents(texts)

    async def embed_query(self, text: str) -> Floats:
        return await self.queries.embed(self.embedder, text)


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """What ranking needs of a corpus."""

    name: str
    store: Any
    embedder: Embedder


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """What all sources of one discovery are asked, and until when."""

    plan: DiscoveryPlan
    queries: tuple[str, ...]
    shared: SharedQueries
    start: float
    deadline: float


async def begin(plan: DiscoveryPlan) -> Asking:
    """Formulate the queries, once for all sources.

    Raises:
        DiscoveryError: That alone took the time of them all.
    """
    start = anyio.current_time()
    whole = math.inf if plan.timeout is None else start + plan.timeout
    queries: tuple[str, ...] = (plan.search.text,)
    if plan.walk is None and plan.search.formulate is not None:
        with anyio.move_on_after(plan.timeout) as scope:
            queries = await formulate_queries(plan.search)
        if scope.cancelled_caught:
            raise DiscoveryError(f"no source was asked: formulating the query took all of timeout={plan.timeout:g} s")
    now = anyio.current_time()
    own = math.inf if plan.source_timeout is None else now + plan.source_timeout
    return Asking(plan, queries, SharedQueries(), now, min(whole, own))


class _Late(Exception):
    """The time of a source is up, and it has nothing."""


async def ask_source(member: Member, asking: Asking) -> Answer:
    """Ask one source; what goes wrong with it is reported, and raised only where the question itself is at fault."""
    return await _SourceSearch(member, asking).run()


@dataclass(slots=True)
class _SourceSearch:
    """One source at work, and what it has given so far."""

    member: Member
    asking: Asking
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    hits: Sequence[SearchHit] | None = None
    error: Exception | None = None
    floor: float | None = None
    floor_note: str | None = None
    embedder_id: str = ""
    walked: Mapping[str, Any] | None = None

    async def run(self) -> Answer:
        self.scope.deadline = self.asking.deadline
        with self.scope:
            try:
                async with use_corpus(self.member.corpus) as corpus:
                    await self._find(corpus)
            except (ArgumentError, FilterError):
                raise
            except _Late:
                pass
            except Exception as failure:  # noqa: BLE001 - whatever it is, the other sources go on
                self.error = failure
        return self._answer()

    async def _find(self, corpus: OpenCorpus[Any]) -> None:
        plan, name = self.asking.plan, self.member.name
        view = self.asking.shared.view(corpus)
        self.embedder_id = corpus.embedder.id
        floor = plan.floors[name]
        if floor == AUTO:
            self.floor, self.floor_note = await calibrated_floor(corpus, plan.search)
        else:
            self.floor = floor
        if plan.walk is None:
            hits = await run_search(view, plan.search, self.asking.queries)
        else:
            hits = await self._walk(view, plan.walk)
        self.hits = [
            replace(hit, source=name) if hit.source in (None, corpus.name) and hit.source != name else hit
            for hit in _deduplicated(hits, plan.dedup_by, name)
        ]

    async def _walk(self, corpus: OpenCorpus[Any], policy: WalkPolicy) -> list[SearchHit]:
        """Walk a corpus, and rank artifacts by their best hit; a walk that runs out of time gives what it has."""
        plan, left = self.asking.plan, self.asking.deadline - anyio.current_time()
        timeout = None if math.isinf(left) else max(left, 0.0)
        self.scope.deadline = math.inf  # from here on the walk has the deadline, as it keeps what it has found
        query, budget = plan.search.text, plan.node_budget
        async with traverse(query, corpus, policy=policy, node_budget=budget, timeout=timeout) as walk:
            async for _ in walk:
                pass
        if walk.summary is not None:
            if walk.summary.stop == "timeout" and not walk.ranking:
                raise _Late
            self.walked = walk.summary.to_dict()
        best: dict[Any, SearchHit] = {}
        for hit in walk.ranking or ():
            best.setdefault(hit.key, hit)
        return list(best.values())[: plan.search.k]

    def _answer(self) -> Answer:
        asking, hits, error = self.asking, tuple(self.hits or ()), self.error
        is_late = error is None and self.hits is None
        if is_late:
            error = TimeoutError(f"no answer within {max(0.0, asking.deadline - asking.start):.3g} s")
        top = hits[0].score if hits else None
        reason = None if self.error else _why_abstained(hits, top, self.floor, asking.plan)
        report: dict[str, Any] = {
            "status": "timeout" if is_late else "failed" if error else "ok",
            "error": None if error is None else error_text(error),
            "seconds": anyio.current_time() - asking.start,
            "n_retrieved": len(hits),
            "top_score": top,
            "floor": self.floor,
            "abstained": error is not None or reason is not None,
            "reason": reason,
        }
        if self.floor_note is not None:
            report["floor_note"] = self.floor_note
        if self.walked is not None:
            report["walk"] = self.walked
        return Answer(self.member.name, hits, report, error, self.embedder_id, self.floor_note)


def _deduplicated(hits: Sequence[SearchHit], key: str | None, name: str) -> list[SearchHit]:
    """Keep the first hit of each value in a field; hits without the field are never copies of each other."""
    if key == "auto":
        key = "name" if name.casefold() == SKILLS else None
    if key is None:
        return list(hits)
    kept: dict[Any, SearchHit] = {}
    for at, hit in enumerate(hits):
        value = hit.metadata.get(key)
        kept.setdefault((at,) if value is None else repr(value), hit)
    return list(kept.values())


def _why_abstained(
    hits: Sequence[SearchHit], top: float | None, floor: float | None, plan: DiscoveryPlan
) -> str | None:
    """Return why a source takes no part: nothing found, nothing above its floor, or nothing that speaks for any hit."""
    if floor is not None and plan.strategy != "abs_threshold" and (top is None or not top >= floor):
        return "below_floor"
    if top is None:
        return "no_hits"
    if plan.walk is None and not plan.search.has_evidence(hits):
        return "no_evidence"
    return None


async def calibrated_floor(corpus: OpenCorpus[Any], query: SearchQuery) -> tuple[float | None, str | None]:
    """Return the floor that was calibrated for this way of searching a corpus; or none, and why there is none."""
    if query.rescaling_options:
        return None, f"{' and '.join(query.rescaling_options)} move scores off the scale that floors are calibrated on"
    key, tag = await in_thread(query.scale)
    if is_anonymous(tag):
        return None, "the reranker has no name of its own to know its floor by: give it an attribute `id`"
    with name_missing_method(query.verb, corpus.store):
        record = await corpus.store.calibration(key)
    return _usable(record, key, query.mode, tag, corpus.embedder.id)


def _usable(
    record: Mapping[str, Any], key: str, mode: str, tag: str | None, embedder_id: str
) -> tuple[float | None, str | None]:
    if not record:
        return None, f"nothing is calibrated for {key!r}: calibrate_min_score(…, persist=True) does it"
    if record.get("mode") != mode or record.get("rerank") != tag:
        return None, f"what is stored under {key!r} was calibrated for another way of searching"
    if record.get("embedder_id") != embedder_id:
        return None, f"it was calibrated with the embedder {record.get('embedder_id')!r}, not {embedder_id!r}"
    floor = record.get("min_score")
    if floor is None:
        return None, f"calibrating found no floor: {record.get('reason', 'no reason stored')}"
    try:
        return check_number("it", floor), None
    except ArgumentError:
        return None, f"the floor stored under {key!r} is no finite number"

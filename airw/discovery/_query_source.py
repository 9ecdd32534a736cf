"""Query one source of a discovery.

If it fails or runs out of time, the other sources go on.
"""

import math
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from airw._base.arrays import Floats
from airw._base.concurrency import first_error
from airw._base.messages import error_text
from airw._base.telemetry import OpenSpan, record_span
from airw.corpora import CorpusLike, locate, open_corpus
from airw.discovery._federated_calls import is_callers_fault
from airw.discovery._floors import (
    SourceFloor,
    describe_misfit,
    find_formula,
    load_calibrated,
    load_measured,
)
from airw.discovery._planning import AUTO, SKILLS, DiscoveryPlan, Member
from airw.discovery._union import (
    CorpusView,
    RememberingStore,
    SmallSources,
    UnionMember,
    UnionSearch,
    count_terms,
    pool_counts,
)
from airw.discovery.federated import FederatedCorpus
from airw.discovery.results import Answer
from airw.embedders import MissingEmbedder
from airw.errors import DiscoveryError
from airw.protocols import Embedder, OpenCorpus, Reranker
from airw.reranking import score_texts
from airw.retrieval import SearchQuery, formulate_queries, run_search
from airw.retrieval.evidence import Evidence, find_evidence
from airw.stores import SqliteStore
from airw.traversal import traverse
from airw.values import SearchHit, TermCounts


@dataclass(slots=True)
class _SharedEmbedding:
    """The embedding of one query.

    The task with the lock computes it; the others wait for the outcome.
    """

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    vector: Floats | None = None
    error: Exception | None = None


class QueryEmbeddings:
    """The query embeddings of one discovery.

    Each query is embedded once for all corpora whose embedders have the same id.
    """

    def __init__(self) -> None:
        self._embeddings: dict[tuple[str, bool, str], _SharedEmbedding] = {}

    def wrap(self, corpus: OpenCorpus, depth: int) -> OpenCorpus:
        """Return the corpus with an embedder that shares queries and a store that remembers.

        A `FederatedCorpus` is returned as it is: it embeds a query once anyway.

        Args:
            corpus: The corpus.
            depth: The length of the longest ranking that will be needed.
        """
        if isinstance(corpus, FederatedCorpus):
            return corpus
        return CorpusView(corpus.name, RememberingStore(corpus.store, depth), _SharingEmbedder(corpus.embedder, self))

    async def embed(self, embedder: Embedder, text: str) -> Floats:
        """Return the embedding of a query: `(dim,) float32`."""
        # An embedder that is not here fails alone: another corpus of the same id may have brought it.
        key = embedder.id, isinstance(embedder, MissingEmbedder), text
        embedding = self._embeddings.setdefault(key, _SharedEmbedding())
        # If the task with the lock is cancelled, for example by its deadline, the next one computes the embedding.
        async with embedding.lock:
            if embedding.error is not None:
                raise embedding.error
            if embedding.vector is None:
                try:
                    embedding.vector = await embedder.embed_query(text)
                except Exception as error:
                    embedding.error = error
                    raise
        return embedding.vector


@dataclass(frozen=True, slots=True, eq=False)
class _SharingEmbedder:
    """An embedder that takes query embeddings from `QueryEmbeddings`."""

    embedder: Embedder
    embeddings: QueryEmbeddings

    @property
    def id(self) -> str:
        return self.embedder.id

    @property
    def dim(self) -> int:
        return self.embedder.dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        return await self.embedder.embed_documents(texts)

    async def embed_query(self, text: str) -> Floats:
        return await self.embeddings.embed(self.embedder, text)


class RememberingReranker:
    """A reranker that remembers its scores during one discovery.

    The candidates of a union are candidates of its sources too, and a reranker is slow.
    """

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self._scores: dict[tuple[str, str], float] = {}

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the score of each text."""
        new_texts = [text for text in texts if (query, text) not in self._scores]
        if new_texts:
            scores = await score_texts(self._reranker, query, new_texts)
            self._scores.update(((query, text), score) for text, score in zip(new_texts, scores, strict=True))
        return [self._scores[query, text] for text in texts]


_MANY = 64  # sources
_FILES_AT_ONCE = 3  # if there are more sources


@dataclass(frozen=True, slots=True, eq=False)
class SourceRequest:
    """The request that all sources of a discovery get, and its deadline.

    Corpora that are opened for it stay open until `opened` is closed: the union of the sources reads them once more.

    `members` are the sources that are open and have counted their words, `counts` are these counts, and `pools`
    contains their sums. `small` are the sources that rank together, if there are such.
    `corpora` are all that are open. `waiting` are the sources that have not counted yet, and have not failed. Sources
    must answer before `deadline`, and the union of them before `last_deadline`. The union has `reserve` seconds even if
    a source that cannot be interrupted took more than its time.
    """

    plan: DiscoveryPlan
    queries: tuple[str, ...]
    embeddings: QueryEmbeddings
    start: float
    deadline: float
    last_deadline: float
    reserve: float
    opened: AsyncExitStack
    reranker: Reranker | None
    waiting: set[str]
    corpora: list[OpenCorpus] = field(default_factory=list)
    all_counted: anyio.Event = field(default_factory=anyio.Event)
    file_turns: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_FILES_AT_ONCE))
    members: dict[str, UnionMember] = field(default_factory=dict)
    counts: list[TermCounts | None] = field(default_factory=list)
    small: list[SmallSources] = field(default_factory=list)
    pools: list[Mapping[str, TermCounts]] = field(default_factory=list)

    @property
    def search(self) -> SearchQuery:
        """Return the search that each source runs."""
        return replace(self.plan.search, rerank=self.reranker)

    @property
    def union_depth(self) -> int:
        """Return the length of the rankings that the union asks each source for."""
        search, plan = self.plan.union_search, self.plan
        if not plan.searches_union:
            return 0
        return search.ranking_depth(len(search.channels) * len(self.queries), has_later_stage=bool(plan.merge_weights))

    def union_search(self, *, has_later_stages: bool) -> UnionSearch:
        """Return the search in the union of the sources.

        Args:
            has_later_stages: Whether to rerank and boost.
        """
        # Until all sources have counted, each is ranked with its own counts: that ranking it has made already.
        pooled = self._pool_counts() if self.all_counted.is_set() else {}
        search = replace(self.plan.union_search, rerank=self.reranker)
        if not has_later_stages:
            search = replace(search, rerank=None, boost=None)
        # Weights are for a fusion by rank.
        given = self.plan.merge_weights or {} if self.plan.merge == "rrf" else {}
        weights = {name: weight for name, weight in given.items() if weight != 1}
        return UnionSearch(
            search=search,
            queries=self.queries,
            pooled=pooled,
            weights=weights,
            deadline=max(self.last_deadline, anyio.current_time() + self.reserve),
            stack=self.small[0] if self.small else None,
        )

    def _pool_counts(self) -> Mapping[str, TermCounts]:
        # The same object in each call: the stores remember rankings by it.
        if not self.pools:
            self.pools.append(pool_counts(self.counts))
        return self.pools[0]

    def stop_waiting_for(self, source: str) -> None:
        """Note that a source has counted its words, or will not count them any more."""
        self.waiting.discard(source)
        if not self.waiting:
            self.all_counted.set()

    @asynccontextmanager
    async def hold_turn(self, corpus: CorpusLike) -> AsyncIterator[None]:
        """Hold a turn of a source: of many files, few are read at the same time.

        Each file that is open needs threads. A source waits for its turn at most half of its time, so that files that
        hang do not cost the answers of the others.
        """
        if isinstance(corpus, str | os.PathLike):
            is_file = isinstance(locate(corpus).place, Path)
        else:
            is_file = isinstance(corpus.store, SqliteStore)
        if not is_file or len(self.plan.members) <= _MANY:
            yield
            return
        with anyio.move_on_after((self.deadline - anyio.current_time()) / 2) as scope:
            await self.file_turns.acquire()
        try:
            yield
        finally:
            if not scope.cancelled_caught:
                self.file_turns.release()

    async def open(self, corpus: CorpusLike) -> OpenCorpus:
        """Return the corpus, opened if it is a name or a path."""
        if not isinstance(corpus, str | os.PathLike):
            return corpus
        own = await open_corpus(corpus)
        self.opened.push_async_callback(own.aclose)
        return own


@asynccontextmanager
async def prepare_request(plan: DiscoveryPlan) -> AsyncIterator[SourceRequest]:
    """Formulate the queries once for all sources, and set the deadline.

    Corpora that the sources open are closed at the end of the block.

    Raises:
        DiscoveryError: If formulating takes all the time of the discovery.
    """
    start = anyio.current_time()
    overall_deadline = math.inf if plan.timeout is None else start + plan.timeout
    queries: tuple[str, ...] = (plan.search.text,)
    if plan.walk is None and plan.search.formulate is not None:
        with anyio.move_on_after(plan.timeout) as scope:
            queries = await formulate_queries(plan.search)
        if scope.cancelled_caught:
            raise DiscoveryError(
                f"no source was searched: formulating the query took all of timeout={plan.timeout:g} s"
            )
    # The time of a source starts after formulating, because that is not the work of a source.
    now = anyio.current_time()
    source_timeout = math.inf if plan.source_timeout is None else plan.source_timeout
    # A source that hangs must not use up the time in which the others are searched as one.
    kept = plan.timeout * _RESERVE if plan.searches_union and plan.timeout is not None else 0.0
    deadline = min(overall_deadline - kept, now + source_timeout)
    last_deadline = min(overall_deadline, deadline + source_timeout)
    async with AsyncExitStack() as opened:
        rerank = plan.search.rerank
        reranker = None if rerank is None else RememberingReranker(rerank)
        waiting = {member.name for member in plan.members}
        yield SourceRequest(
            plan=plan,
            queries=queries,
            embeddings=QueryEmbeddings(),
            start=now,
            deadline=deadline,
            last_deadline=last_deadline,
            reserve=min(plan.timeout or math.inf, source_timeout) * _RESERVE,
            opened=opened,
            reranker=reranker,
            waiting=waiting,
        )


_CUT = "the walk was cut by the deadline; its hits so far take part"
_RESERVE = 0.1  # of `timeout`, for the union of the sources


class _OutOfTime(Exception):
    """The walk of a source reached its deadline without a hit."""


async def query_source(member: Member, request: SourceRequest) -> Answer:
    """Query one source and return its answer.

    An error of the source becomes part of the answer, so that the other sources go on.

    Raises:
        ArgumentError: If the request itself is at fault; it would fail at every source.
        FilterError: If the filter is malformed.
    """
    text = request.plan.search.text
    with record_span("source", member.name, text, dict[str, Any]) as span:
        answer = await SourceQuery(member, request).run()
        describe_answer(span, answer)
        return answer


def describe_answer(span: OpenSpan | None, answer: Answer) -> None:
    """Describe the answer of a source in its span."""
    if span is not None:
        names = ("status", "abstained", "reason", "n_retrieved", "seconds")
        span.set({f"airw.source.{name}": answer.report[name] for name in names})
        span.fail(answer.error)


@dataclass(slots=True)
class SourceQuery:
    """The query of one source, and its outcome so far."""

    member: Member
    request: SourceRequest
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    hits: Sequence[SearchHit] | None = None
    error: Exception | None = None
    floor: SourceFloor | None = None
    floor_note: str | None = None
    evidence: Evidence | None = None
    known_evidence: Evidence | None = None  # if somebody has found it already
    embedder_id: str = ""
    is_cut: bool = False
    walk_summary: Mapping[str, Any] | None = None

    async def run(self) -> Answer:
        """Ask the source, and return its answer or why it has none."""
        self.scope.deadline = self.request.deadline
        with self.scope:
            try:
                async with self.request.hold_turn(self.member.corpus):
                    await self._find_hits(await self.request.open(self.member.corpus))
            except _OutOfTime:
                pass
            except Exception as failure:
                if is_callers_fault(failure):
                    raise
                self.error = failure  # a source may fail in any way; the other sources go on
        self.request.stop_waiting_for(self.member.name)
        return self.to_answer()

    async def _find_hits(self, corpus: OpenCorpus) -> None:
        plan, name = self.request.plan, self.member.name
        view = self.request.embeddings.wrap(corpus, self.request.union_depth)
        self.request.corpora.append(view)
        self.embedder_id = corpus.embedder.id
        hits = await (self._search(view) if plan.walk is None else self._walk(view))
        # The scope of a walk has no deadline any more.
        with anyio.move_on_after(max(self.request.last_deadline - anyio.current_time(), 0.0)):
            await self.check_floor(view)
        if isinstance(corpus.store, SqliteStore):
            await corpus.store.put_aside()
        # Hits get the name that the caller uses for the corpus. Those of a FederatedCorpus keep the name of their own.
        self.hits = [
            replace(hit, source=name) if hit.source in (None, corpus.name) and hit.source != name else hit
            for hit in drop_copies(hits, plan.dedup_by, name)
        ]

    async def check_floor(self, corpus: OpenCorpus) -> None:
        """Find the floor of the source, and the evidence that it is compared with."""
        await self._load_floor(corpus)
        await self._find_evidence(corpus)

    async def _load_floor(self, corpus: OpenCorpus) -> None:
        """Set the floor: the given one, or the calibrated one, or the one that the build measured."""
        plan = self.request.plan
        floor = plan.floors[self.member.name]
        if not isinstance(floor, str):
            self.floor = None if floor is None else SourceFloor(floor, "given")
            return
        # A store that keeps no calibrations has no floors; that is an error only if they are requested.
        if not plan.is_floor_requested and "settings" not in corpus.store.capabilities:
            return
        is_walk = plan.walk is not None
        stored = await load_calibrated(corpus, plan.search, compares_scores=self._compares_scores, is_walk=is_walk)
        self.floor = stored.floor
        if self.floor is None:
            await self._load_measured(corpus)
        # That the default finds no floor is nothing to report; that it cannot use one which somebody calibrated is.
        if stored.is_lost or (plan.is_floor_requested and self.floor is None):
            self.floor_note = stored.note

    async def _load_measured(self, corpus: OpenCorpus) -> None:
        if not self._compares_scores:
            self.floor = await load_measured(corpus, self.request.plan.search)

    @property
    def _compares_scores(self) -> bool:
        # This strategy applies the floor to each score.
        return self.request.plan.strategy == "abs_threshold"

    async def _find_evidence(self, corpus: OpenCorpus) -> None:
        """Find the evidence if the floor needs it; drop a floor of another formula of BM25."""
        search, floor = self.request.plan.search, self.floor
        if floor is None:
            return
        formula = None
        if floor.weighs_evidence:
            options: dict[str, Any] = {"filter": search.filter, "surfaces": search.surfaces}
            known = self.known_evidence
            self.evidence = known or await find_evidence(corpus, search.text, search.mode, **options)
            formula = self.evidence.formula
        elif floor.formula is not None:
            formula = await find_formula(corpus, search)
        if floor.formula in (None, formula):
            return
        self.floor, self.evidence = None, None
        # Somebody has measured a calibrated floor: that it does not count any more is worth a warning.
        if self.request.plan.is_floor_requested or floor.kind == "calibrated":
            self.floor_note = describe_misfit(floor)
        if floor.kind == "calibrated":
            await self._load_measured(corpus)
            await self._find_evidence(corpus)

    async def _search(self, corpus: OpenCorpus) -> list[SearchHit]:
        """Return the source's own ranking.

        Meanwhile read what the floor needs, and prepare the source's part of the union.
        """
        request, hits = self.request, list[SearchHit]()
        with first_error():
            async with anyio.create_task_group() as group:
                counted = anyio.Event()
                group.start_soon(self._prepare_union, corpus, counted)
                hits = await run_search(corpus, request.search, request.queries)
                await counted.wait()
                # Do not hold up the answer because another source is slow to count its words.
                if not request.all_counted.is_set():
                    group.cancel_scope.cancel()
        return hits

    async def _prepare_union(self, corpus: OpenCorpus, counted: anyio.Event) -> None:
        """Count the words of the queries, then rank the texts with the counts of all sources."""
        request, name = self.request, self.member.name
        search, has_union = request.plan.search, request.plan.searches_union
        counts = await count_terms(
            corpus, search if has_union else None, request.queries, with_settings=request.plan.floors[name] == AUTO
        )
        counted.set()
        if has_union:
            request.members[name] = UnionMember(corpus, counts)
            request.counts.append(counts)
            request.stop_waiting_for(name)
            await request.all_counted.wait()
            await request.union_search(has_later_stages=True).rank_texts(request.members[name])

    async def _walk(self, corpus: OpenCorpus) -> list[SearchHit]:
        """Walk a corpus and return the best hit of each artifact; after a timeout, those so far."""
        plan, time_left = self.request.plan, self.request.deadline - anyio.current_time()
        timeout = None if math.isinf(time_left) else max(time_left, 0.0)
        # From here on the walk itself observes the deadline: it keeps its hits, a cancelled scope would lose them.
        self.scope.deadline = math.inf
        query, budget = plan.search.text, plan.node_budget
        policy = None if plan.walk is True else plan.walk
        async with traverse(query, corpus, policy=policy, node_budget=budget, timeout=timeout) as walk:
            async for _ in walk:
                pass
        if walk.summary is not None:
            if walk.summary.stop == "timeout" and not walk.ranking:
                raise _OutOfTime
            self.walk_summary = walk.summary.to_dict()
            self.is_cut = walk.summary.stop == "timeout"
        best: dict[Any, SearchHit] = {}
        for hit in walk.ranking or ():
            best.setdefault(hit.key, hit)
        return list(best.values())[: plan.search.k]

    def to_answer(self) -> Answer:
        """Return the answer, once there are hits or an error."""
        request, hits, error = self.request, self.hits or (), self.error
        is_late = error is None and self.hits is None
        if is_late:
            error = TimeoutError(f"no answer within {max(0.0, request.deadline - request.start):.3g} s")
        top = hits[0].score if hits else None
        reason = None if self.error else self._abstention_reason(hits)
        report: dict[str, Any] = {
            "status": "timeout" if is_late or self.is_cut else "failed" if error else "ok",
            "error": _CUT if self.is_cut else None if error is None else error_text(error),
            "seconds": anyio.current_time() - request.start,
            "n_retrieved": len(hits),
            "top_score": top,
            "floor": None if self.floor is None else self.floor.value,
            "floor_kind": None if self.floor is None else self.floor.kind,
            "abstained": error is not None or reason is not None,
            "reason": reason,
        }
        if self.floor_note is not None:
            report["floor_note"] = self.floor_note
        if self.floor is not None and error is None:
            report["explanation"] = self.floor.explain(top, self.evidence)
            if self.evidence is not None:
                report["evidence"] = self.floor.weigh(self.evidence)
        if self.walk_summary is not None:
            report["walk"] = self.walk_summary
        return Answer(self.member.name, hits, report, error, self.embedder_id, self.floor_note)

    def _abstention_reason(self, hits: Sequence[SearchHit]) -> str | None:
        """Return why the source abstains, or `None` if it takes part in the fusion."""
        plan, top = self.request.plan, hits[0].score if hits else None
        is_below = self.floor is not None and self.floor.is_missed(top, self.evidence)
        # `abs_threshold` applies its number to every hit later.
        if is_below and not self._compares_scores:
            return "below_floor"
        if top is None:
            return "no_hits"
        if plan.walk is None and not any(map(plan.search.has_evidence, hits)):
            return "no_evidence"
        return None


def drop_copies(hits: Sequence[SearchHit], field_name: str | None, corpus_name: str) -> list[SearchHit]:
    """Return the first hit of each value of a metadata field; hits without the field all stay."""
    if field_name == "auto":
        field_name = "name" if corpus_name.casefold() == SKILLS else None
    if field_name is None:
        return list(hits)
    first_hits: dict[Any, SearchHit] = {}
    for position, hit in enumerate(hits):
        value = hit.metadata.get(field_name)
        # `repr` makes values of any kind hashable; a position is a key that no other hit has.
        first_hits.setdefault((position,) if value is None else repr(value), hit)
    return list(first_hits.values())

"""The sources of a discovery: each answers once, with its own ranking.

If one fails or runs out of time, the others go on.
"""

import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar, cast

import anyio

from airw._base.arrays import Floats
from airw._base.concurrency import first_error, map_bounded
from airw._base.messages import error_text
from airw._base.telemetry import OpenSpan, record_span
from airw.corpora import CorpusLike, locate, open_corpus
from airw.discovery._floors import SETTINGS, FoundFloor, Settings, SourceFloor, find_floor
from airw.discovery._planning import AUTO, SKILLS, DiscoveryPlan, Member
from airw.discovery.federated import FederatedCorpus, is_callers_fault
from airw.embedders import MissingEmbedder
from airw.errors import DiscoveryError
from airw.protocols import (
    Embedder,
    OpenCorpus,
    Rank,
    Records,
    Request,
    Reranker,
    Store,
    Words,
    ask,
    check_capabilities,
)
from airw.reranking import score_texts
from airw.retrieval import Mode, SearchQuery, formulate_queries, run_search
from airw.retrieval.evidence import CANDIDATES, Evidence, evidence_of, find_evidence
from airw.retrieval.merging import ChannelRankings, cut_ranking
from airw.retrieval.searching import join_rankings, rank_channels, rank_requests
from airw.stores import SqliteStore, Wrapper
from airw.stores.memory.stack import Stack
from airw.traversal import traverse
from airw.values import Ranking, Record, SearchHit, TermCounts
from airw.walking import WalkSummary

Value = TypeVar("Value")

_MANY = 64  # sources
_FILES_AT_ONCE = 3  # if there are more sources
_RESERVE = 0.1  # of `timeout`, for the union of the sources
_CUT = "the walk was cut by the deadline; its hits so far take part"


Embeddings: TypeAlias = dict[tuple[str, bool, str], tuple[anyio.Lock, list[Floats | Exception]]]
"""The outcome of each query that is embedded or will be, by embedder id, and the lock of the task that embeds it."""


@dataclass(slots=True, eq=False)
class Discovery:
    """A discovery that runs, and what its sources share.

    Corpora that are opened for it stay open until `opened` is closed: the union of the sources reads them once more.

    Args:
        plan: The checked options.
        queries: The formulated queries.
        end: When the discovery must end.
        opened: Closes the corpora that were opened.

    Attributes:
        start: When the sources begin.
        deadline: When they must have answered.
        last_deadline: When the union of them must have answered.
        search: The search that each source runs.
        union: The search in the union of the sources.
        factors: The factor of each source in the union; 1.0 if it is not named.
        sources: All sources by name.
        waiting: Those that have not counted their words yet, and have not failed.
        all_counted: Is set as soon as there are none.
        pooled: The word counts of all sources by formula. A source that has counted but not answered is included: the
            scores must not depend on who answers first. Until all have counted there are none, and each source is
            ranked with its own.
        stack: The copies of small sources, which rank together.
        stacked: The names of these sources.
    """

    plan: DiscoveryPlan
    queries: tuple[str, ...]
    end: float
    opened: AsyncExitStack
    start: float = field(default_factory=anyio.current_time)
    deadline: float = field(init=False)
    last_deadline: float = field(init=False)
    search: SearchQuery = field(init=False)
    union: SearchQuery = field(init=False)
    factors: Mapping[str, float] = field(init=False)
    sources: dict[str, "AskedSource"] = field(init=False)
    waiting: set[str] = field(init=False)
    all_counted: anyio.Event = field(default_factory=anyio.Event)
    pooled: Mapping[str, TermCounts] = field(default_factory=dict)
    stack: Stack | None = None
    stacked: frozenset[str] = frozenset()
    _embeddings: Embeddings = field(default_factory=dict)
    _file_turns: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_FILES_AT_ONCE))

    def __post_init__(self) -> None:
        """Derive the times and the searches, and begin with sources that are not open."""
        plan, rerank = self.plan, self.plan.search.rerank
        # A source that hangs must not use up the time in which the others are searched as one.
        kept = (plan.timeout or 0.0) * _RESERVE if plan.searches_union else 0.0
        patience = math.inf if plan.source_timeout is None else plan.source_timeout
        self.deadline = min(self.end - kept, self.start + patience)
        self.last_deadline = min(self.end, self.deadline + patience)
        reranker = None if rerank is None else RememberingReranker(rerank)
        self.search, self.union = replace(plan.search, rerank=reranker), replace(plan.union_search, rerank=reranker)
        # Weights are for a fusion by rank.
        given = plan.merge_weights or {} if plan.merge == "rrf" else {}
        self.factors = {name: weight for name, weight in given.items() if weight != 1}
        self.sources = {member.name: AskedSource(member, self) for member in plan.members}
        self.waiting = {*self.sources}

    @property
    def union_depth(self) -> int:
        """The length of the rankings of each source from which the union takes the best rows.

        A lone ranking is not fused, and is `k` long even if `fetch_k` is less.
        """
        return max(self.union.k, self.union.list_depth)

    @property
    def union_deadline(self) -> float:
        """When the union must have answered that begins now.

        It has some time even if a source that cannot be interrupted took more than its own.
        """
        limits = self.plan.timeout or math.inf, self.plan.source_timeout
        reserve = min(limit for limit in limits if limit is not None) * _RESERVE
        return max(self.last_deadline, anyio.current_time() + reserve)

    def stop_waiting_for(self, source: str) -> None:
        """Note that a source has counted its words, or will not count them any more."""
        self.waiting.discard(source)
        if not self.waiting and not self.all_counted.is_set():
            groups: dict[str, list[TermCounts]] = {}
            for counts in filter(None, (each.counts for each in self.sources.values())):
                groups.setdefault(counts.formula, []).append(counts)
            self.pooled = {formula: TermCounts.sum(group) for formula, group in groups.items()}
            self.all_counted.set()

    def view(self, corpus: OpenCorpus) -> OpenCorpus:
        """Return a corpus with an embedder that shares queries and a store that remembers records.

        A `FederatedCorpus` is returned as it is: it embeds a query once anyway.
        """
        if isinstance(corpus, FederatedCorpus):
            return corpus
        embedder = SharingEmbedder(corpus.embedder, self._embeddings)
        return CorpusView(corpus.name, RememberingStore(corpus.store), embedder)

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
        if not is_file or len(self.sources) <= _MANY:
            yield
            return
        with anyio.move_on_after((self.deadline - anyio.current_time()) / 2) as scope:
            await self._file_turns.acquire()
        try:
            yield
        finally:
            if not scope.cancelled_caught:
                self._file_turns.release()


@asynccontextmanager
async def begin(plan: DiscoveryPlan) -> AsyncIterator[Discovery]:
    """Formulate the queries once for all sources, and set the deadlines.

    Corpora that the sources open are closed at the end of the block.

    Raises:
        DiscoveryError: If formulating takes all the time of the discovery.
    """
    end = anyio.current_time() + (math.inf if plan.timeout is None else plan.timeout)
    queries: tuple[str, ...] = (plan.search.text,)
    if plan.walk is None and plan.search.formulate is not None:
        with anyio.move_on_at(end) as scope:
            queries = await formulate_queries(plan.search)
        if scope.cancelled_caught:
            raise DiscoveryError(
                f"no source was searched: formulating the query took all of timeout={plan.timeout:g} s"
            )
    # The time of a source starts after formulating, because that is not the work of a source.
    async with AsyncExitStack() as opened:
        yield Discovery(plan, queries, end, opened)


@dataclass(slots=True, eq=False)
class AskedSource:
    """One source of a discovery, and what is known of it so far.

    Args:
        member: Its corpus, as the caller passed it.
        run: The discovery.
        corpus: Its open corpus, as the discovery sees it.
        has_counted: Whether its words are counted, or there is nothing to count.
        counts: Their counts; `None` if its store cannot count, or nobody needs them.
        settings: Its calibrations and its settings, if its floor may be there.
        rankings: What it ranks alone in each channel: a ranking a query.
        pooled: How it ranks texts with the counts of all sources, if they were known.
        hits: Its own hits, with their raw scores.
        top_score: The score of the first of them.
        has_evidence: Whether one of them has evidence.
        error: Why it failed; `None` if it answered.
        found: What its evidence or its best score is compared with.
        walk: The summary of its walk.
        report: Its entry in `DiscoveryResult.signals["per_source"]`; empty until it has answered or failed.
    """

    member: Member
    run: Discovery
    corpus: OpenCorpus | None = None
    has_counted: bool = False
    counts: TermCounts | None = None
    settings: Settings | None = None
    rankings: Mapping[Mode, Sequence[Ranking]] = field(default_factory=dict)
    pooled: Sequence[Ranking] | None = None
    hits: Sequence[SearchHit] = ()
    top_score: float | None = None
    has_evidence: bool = False
    error: Exception | None = None
    found: FoundFloor = field(default_factory=FoundFloor)
    walk: WalkSummary | None = None
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def survivors(self) -> Sequence[SearchHit]:
        """The hits that take part in the fusion; a source that abstains has none."""
        return () if self.report["abstained"] else self.hits

    @property
    def embedder_id(self) -> str:
        """The id of its embedder; `""` if it failed before that was known."""
        return "" if self.corpus is None else self.corpus.embedder.id

    @property
    def scales(self) -> Mapping[Mode, Hashable]:
        """The name of the scale of each channel: scores of the same scale can be compared."""
        return {"dense": self.embedder_id, "lexical": (self.counts.formula,) if self.counts else self.member.name}

    async def ask(self) -> Self:
        """Ask the corpus, and return the source with its answer.

        An error of the source becomes part of the answer, so that the other sources go on.

        Raises:
            ArgumentError: If the request itself is at fault; it would fail at every source.
            FilterError: If the filter is malformed.
        """
        run, has_answered = self.run, False
        with record_span("source", self.member.name, run.plan.search.text, dict[str, Any]) as span:
            with anyio.CancelScope(deadline=run.deadline) as scope:
                try:
                    async with run.hold_turn(self.member.corpus):
                        has_answered = await self._find_hits(scope)
                except Exception as failure:
                    if is_callers_fault(failure):
                        raise
                    self.error = failure  # a source may fail in any way; the other sources go on
            run.stop_waiting_for(self.member.name)
            is_late = not has_answered and self.error is None
            if is_late:
                self.error = TimeoutError(f"no answer within {max(0.0, run.deadline - run.start):.3g} s")
            self.make_report(span, is_late=is_late)
        return self

    async def _find_hits(self, scope: anyio.CancelScope) -> bool:
        """Find the hits and the floor; return whether there was time for the hits."""
        run, plan, given, name = self.run, self.run.plan, self.member.corpus, self.member.name
        if isinstance(given, str | os.PathLike):
            given = await open_corpus(given)
            run.opened.push_async_callback(given.aclose)
        corpus: OpenCorpus = given
        self.corpus = run.view(corpus)
        hits = await (self._search(self.corpus) if plan.walk is None else self._walk(self.corpus, scope))
        if hits is None:
            return False
        # The scope of a walk has no deadline any more.
        with anyio.move_on_after(max(run.last_deadline - anyio.current_time(), 0.0)):
            await self.find_floor()
        if isinstance(corpus.store, SqliteStore):
            await corpus.store.put_aside()
        # Hits get the name that the caller uses for the corpus. Those of a FederatedCorpus keep the name of their own.
        self.hits = [
            replace(hit, source=name) if hit.source in (None, corpus.name) and hit.source != name else hit
            for hit in drop_copies(hits, plan.dedup_by, name)
        ]
        self.top_score = self.hits[0].score if self.hits else None
        self.has_evidence = plan.walk is not None or any(map(plan.search.has_evidence, self.hits))
        return True

    async def _search(self, corpus: OpenCorpus) -> list[SearchHit]:
        """Return the source's own hits.

        As soon as all sources have counted, rank the texts with the words of all, too.
        """
        run, hits = self.run, list[SearchHit]()
        with first_error():
            async with anyio.create_task_group() as group:
                group.start_soon(self._rank_pooled, corpus.store)
                search = partial(run_search, corpus, run.search, run.queries, rank=self._rank)
                calls: list[Callable[[], Awaitable[Any]]] = [search, partial(self._count, corpus.store)]
                hits, _ = await map_bounded(lambda call: call(), calls, limit=2)
                # Do not hold up the answer because another source is slow to count its words.
                if not run.all_counted.is_set():
                    group.cancel_scope.cancel()
        return hits

    async def _rank(self, search: SearchQuery) -> Sequence[ChannelRankings]:
        """Rank in each channel, as deep as anybody needs, and return what the source alone needs."""
        run, corpus = self.run, cast("OpenCorpus", self.corpus)
        depth = search.ranking_depth(len(search.channels) * len(run.queries))
        longest = max(depth, run.union_depth * run.plan.searches_union, CANDIDATES * self._may_have_floor)
        ranked = await rank_channels(corpus, search, queries=run.queries, depth=longest, vectors=[])
        self.rankings = {channel.kind: channel.rankings for channel in ranked}
        return [replace(each, rankings=[cut_ranking(one, depth, search) for one in each.rankings]) for each in ranked]

    @property
    def _may_have_floor(self) -> bool:
        """Return whether a floor may be stored that is to be used."""
        store = cast("OpenCorpus", self.corpus).store
        return self.run.plan.floors[self.member.name] == AUTO and "settings" in store.capabilities

    async def _count(self, store: Store) -> None:
        """Read the settings, which the floor needs soon, and count the words of the queries."""
        run, has_floor = self.run, self._may_have_floor
        is_pooled = run.plan.searches_union and "lexical" in run.search.channels
        has_words = is_pooled and "words" in store.capabilities
        requests: list[Request[Any]] = [*(SETTINGS if has_floor else ()), *([Words(run.queries)] if has_words else ())]
        answers = await store.read(*requests) if requests else []
        self.settings = Settings(*answers[:2]) if has_floor else None
        self.has_counted, self.counts = True, answers[-1] if has_words else None
        run.stop_waiting_for(self.member.name)

    async def _rank_pooled(self, store: Store) -> None:
        await self.run.all_counted.wait()
        if ranks := self.list_pooled_ranks():
            self.pooled = join_rankings(await store.read(*ranks))

    def list_pooled_ranks(self) -> Sequence[Rank]:
        """Return what asks to rank the texts with the counts of all sources.

        That is nothing if it is done already, or cannot be done.
        """
        run = self.run
        # The words of all are those of a source if it is the only one.
        is_pooled = len(run.sources) > 1 and bool(run.pooled)
        if not is_pooled or self.counts is None or self.pooled is not None:
            return []
        # A store may count words and rank no texts: it has no part in that channel.
        if "lexical" not in cast("OpenCorpus", self.corpus).store.capabilities:
            return []
        return rank_requests(run.union, run.queries, run.union_depth, run.pooled[self.counts.formula])

    async def find_floor(self) -> None:
        """Find what the evidence of the source, or its best score, is compared with."""
        plan, corpus = self.run.plan, cast("OpenCorpus", self.corpus)
        given = plan.floors[self.member.name]
        if not isinstance(given, str):
            self.found = FoundFloor(None if given is None else SourceFloor(given, "given"))
            return
        # A store that keeps no calibrations has no floors; that is an error only if they are requested.
        if self.settings is None and (plan.is_floor_requested or self._may_have_floor):
            store = corpus.store.store if isinstance(corpus.store, RememberingStore) else corpus.store
            check_capabilities(plan.search.verb, store, "settings")  # the error names the caller's store
            self.settings = Settings(*await store.read(*SETTINGS))
        if self.settings is not None:
            self.found = await find_floor(corpus, plan, self.settings, self._find_evidence)

    async def _find_evidence(self, count: int) -> Evidence:
        """Return the evidence of the query, from what is ranked already if that is possible.

        Then it is that of so many rows of each ranking.
        """
        corpus = cast("OpenCorpus", self.corpus)
        search = self.run.plan.search.for_store(corpus.store)
        if not self.rankings or self.run.queries != (search.text,) or not search.ranks_artifacts:
            return await find_evidence(corpus, search.text, search.mode, **search.conditions)
        counts = self.counts
        if counts is None and "lexical" in self.rankings and "words" in corpus.store.capabilities:
            counts = await ask(corpus.store, Words([search.text]))
        return evidence_of(**{kind: each.first(count) for kind, [each] in self.rankings.items()}, counts=counts)

    async def _walk(self, corpus: OpenCorpus, scope: anyio.CancelScope) -> list[SearchHit] | None:
        """Walk a corpus and return the best hit of each artifact.

        After a timeout, they are those so far, or `None` without any.
        """
        plan, time_left = self.run.plan, self.run.deadline - anyio.current_time()
        timeout = None if math.isinf(time_left) else max(time_left, 0.0)
        # From here on the walk itself observes the deadline: it keeps its hits, a cancelled scope would lose them.
        scope.deadline = math.inf
        query, budget = plan.search.text, plan.node_budget
        policy = None if plan.walk is True else plan.walk
        async with traverse(query, corpus, policy=policy, node_budget=budget, timeout=timeout) as walk:
            async for _ in walk:
                pass
        if walk.summary is not None and walk.summary.stop == "timeout" and not walk.ranking:
            return None
        self.walk = walk.summary
        best: dict[Any, SearchHit] = {}
        for hit in walk.ranking or ():
            best.setdefault(hit.key, hit)
        return list(best.values())[: plan.search.k]

    def make_report(self, span: OpenSpan | None, *, is_late: bool = False) -> None:
        """Report what the source has answered, and why it abstains."""
        floor, error, is_cut = self.found.floor, self.error, self.walk is not None and self.walk.stop == "timeout"
        reason = self._abstention_reason() if error is None or is_late else None
        report: dict[str, Any] = {
            "status": "timeout" if is_late or is_cut else "failed" if error else "ok",
            "error": _CUT if is_cut else None if error is None else error_text(error),
            "seconds": anyio.current_time() - self.run.start,
            "n_retrieved": len(self.hits),
            "top_score": self.top_score,
            "floor": None if floor is None else floor.value,
            "floor_kind": None if floor is None else floor.kind,
            "abstained": error is not None or reason is not None,
            "reason": reason,
        }
        if self.found.note is not None:
            report["floor_note"] = self.found.note
        if floor is not None and error is None:
            report["explanation"] = self.found.explain(self.top_score)
            if self.found.evidence is not None:
                report["evidence"] = self.found.weighed
        if self.walk is not None:
            report["walk"] = self.walk.to_dict()
        self.report = report
        if span is not None:
            told = ("status", "abstained", "reason", "n_retrieved", "seconds")
            span.set({f"airw.source.{name}": report[name] for name in told})
            span.fail(error)

    def _abstention_reason(self) -> str | None:
        """Return why the source abstains, or `None` if it takes part in the fusion."""
        # `abs_threshold` applies its number to every hit later.
        if self.run.plan.strategy != "abs_threshold" and self.found.is_missed(self.top_score):
            return "below_floor"
        if self.top_score is None:
            return "no_hits"
        return None if self.has_evidence else "no_evidence"

    def fail(self, error: Exception) -> None:
        """Note that the source failed after its answer."""
        status = "timeout" if isinstance(error, TimeoutError) else "failed"
        changes = {"status": status, "error": error_text(error), "abstained": True, "reason": None}
        self.error, self.report = error, {**self.report, **changes}


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


# What the sources of a discovery remember


@dataclass(frozen=True, slots=True, eq=False)
class SharingEmbedder:
    """An embedder that shares its queries with the others of the same id.

    Each query is embedded once for all of their corpora.

    Args:
        embedder: The embedder of a corpus.
        embeddings: Those of the discovery.
    """

    embedder: Embedder
    embeddings: Embeddings

    @property
    def id(self) -> str:
        """The id of the embedder."""
        return self.embedder.id

    @property
    def dim(self) -> int:
        """The width of its vectors."""
        return self.embedder.dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Embed texts; nobody shares them."""
        return await self.embedder.embed_documents(texts)

    async def embed_query(self, text: str) -> Floats:
        """Return the embedding of a query: `(dim,) float32`."""
        # An embedder that is not here fails alone: another corpus of the same id may have brought it.
        key = self.id, isinstance(self.embedder, MissingEmbedder), text
        lock, outcome = self.embeddings.setdefault(key, (anyio.Lock(), []))
        # If the task with the lock is cancelled, for example by its deadline, the next one computes the embedding.
        async with lock:
            if not outcome:
                try:
                    outcome.append(await self.embedder.embed_query(text))
                except Exception as error:  # noqa: BLE001 - it is raised below, for all who ask
                    outcome.append(error)
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]


@dataclass(frozen=True, slots=True, eq=False)
class CorpusView:
    """A corpus with another store or another embedder."""

    name: str
    store: Store
    embedder: Embedder


class RememberingStore(Wrapper):
    """A store that remembers records.

    Many of those that a source finds alone are found in the union, too.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._records: dict[str, Record | None] = {}

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request; known records are not read again."""
        match requests:
            case [Records(ids)]:
                return [await _look_up(self._records, ids, lambda new: ask(self.store, Records(new)))]
        return await self.store.read(*requests)


class RememberingReranker:
    """A reranker that remembers its scores for the query of one discovery.

    The candidates of a union are candidates of its sources too, and a reranker is slow.
    """

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self._scores: dict[str, float] = {}

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the score of each text."""
        return await _look_up(self._scores, texts, partial(score_texts, self._reranker, query))


async def _look_up(
    known: dict[str, Value], keys: Sequence[str], find: Callable[[list[str]], Awaitable[Sequence[Value]]]
) -> list[Value]:
    """Return the value of each key; those that are not known yet are found in one call."""
    if new := [key for key in keys if key not in known]:
        known.update(zip(new, await find(new), strict=True))
    return [known[key] for key in keys]

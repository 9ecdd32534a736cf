"""Discovery in one or several corpora: search, apply floors, fuse, select, disclose."""

import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from types import TracebackType
from typing import Any, Self, Unpack, cast

import anyio

from airw._base.concurrency import first_error
from airw._base.signatures import shows_options
from airw._base.telemetry import OpenSpan, record_span, start_span
from airw.discovery._combine_answers import combine_answers, rank_so_far
from airw.discovery._planning import DISCOVER_DEFAULTS, Corpora, DiscoverOptions, DiscoveryPlan, Member
from airw.discovery._sources import AskedSource, Discovery, begin
from airw.discovery._union import ask_together, choose_small_sources
from airw.discovery.disclosure import DiscoveryResult, SourceAnswered
from airw.errors import ArgumentError
from airw.walking import merge
from airw.walking.streams import ReadAhead


@shows_options(DiscoverOptions, DISCOVER_DEFAULTS)
async def discover(corpus: Corpora, query: str, **options: Unpack[DiscoverOptions]) -> DiscoveryResult:
    """Find the few artifacts that answer a query, or abstain.

    Each corpus is searched, and its evidence is compared with its floor. The corpora that pass are searched as one, a
    strategy selects a few hits or none, and these are disclosed at the requested level.

    Several corpora with one embedder answer as one corpus that contains all their artifacts would: the same ids, in the
    same order, with the same scores. Neither the order of the list nor the order of the answers matters. Cosines are
    compared as they are, and BM25 uses the word counts of all corpora. The cosines of a corpus with another embedder
    are a ranking of their own, and so are the BM25 scores of a store without the capability `"words"`. All
    rankings are fused by rank; by default, the query decides how much the ranks of each count (`fusion="ranks"`). Equal
    scores are ordered by the better scores in the rankings, then by artifact id.

    All corpora work at once, and a query is embedded once for each embedder id. `signals["per_source"]` reports a
    corpus that fails or is late; the result is then that of the others. A hit without evidence is never selected: it
    has no word in common with the query, and its cosine is 0.

    Args:
        corpus: An open corpus, or a name or path, which is opened and closed again. Or several of them: as a list or as
            `{name: corpus}`. The name becomes the `source` of the hits.
        query: The text to search for.
        k: The number of candidates, of each corpus and of all together.
        mode: `"dense"`, `"lexical"` or `"hybrid"` (the default), as in `airw.search`.
        strategy: The selection strategy; see `airw.select`. A function may be async, such as `make_llm_selector`
            returns it.
        disclose_level: `"metadata"`, `"body"` or `"bundled"`; `airw.disclose` explains the levels, and `loader`,
            `store`, `expand` and `roots`.
        filter: Search only records whose metadata satisfy this filter.
        surfaces: Search only surfaces of these kinds.
        operators: Read `"a phrase"`, `-without` and `prefix*` in the query, as in `airw.search`.
        max_k: Select at most this many hits; see `airw.select` for this, `rel` and `gap_ratio`.
        rel: The ratio to the first hit that a hit must reach. Sums of ranks have no ratio, so hits of a fusion by rank
            are compared by their evidence: the shares of the best cosine and of the best BM25 score, added up.
        gap_ratio: The ratio to the previous hit below which there is a gap.
        min_score: The floor of each corpus: below it, the corpus abstains. `"auto"` (the default) is the floor that
            `calibrate_min_score` stored, or else the one that the build measured. Usually it is for the evidence of the
            query; `signals["explanation"]` says how it compares. `None` is no floor. A number is compared with the best
            score of the corpus; for several corpora pass `{name: number}`, because their scores are on different
            scales. Small corpora have no measured floor. If you pass `"auto"` and no floor fits, there is none, with a
            warning and a `floor_note` in the signals.
        merge: How several corpora become one ranking. `"rrf"` (the default) ranks each channel over all of them and
            fuses the channels as `fusion` says. `"blend"` adds up their scores instead, as `fusion="blend"` does;
            `"score"` is for dense searches. Both need one embedder. `"rrf-by-source"` ranks each corpus on its own and
            fuses these rankings by rank, as `ir` does: every corpus then takes its turn, and ties are in the order of
            the list. A function gets `{name: hits}` and returns the merged hits.
        merge_weights: The factor of the scores of each corpus in a fusion by rank; 1.0 if it is not named.
        merge_rrf_k: The rank constant for several corpora; `rrf_k` by default. Without `fusion`, the default
            is then `"rrf"`.
        loader: A function that reads a body from the metadata of a hit.
        store: A mapping of bodies by pointer.
        expand: The policy that chooses the neighbouring surfaces of a passage.
        roots: The folders whose files may be read.
        dedup_by: A metadata field with equal values for copies of the same thing; only the best hit remains. `"auto"`
            is `"name"` in a corpus called skills, and no field elsewhere.
        identity: Decides whether hits of different corpora are the same thing, as in `airw.fuse_hits`. The best of them
            remains, and its `fused_sources` names the corpora.
        walk: A policy to walk each corpus with, instead of searching it, or True for the default policy of
            `airw.traverse`. The hits are those of `walk.ranking`. The rankings of several corpora are fused by rank,
            source by source; of equal ranks, the source with the better first score comes first.
        node_budget: The node budget of each walk.
        source_timeout: The time for the answer of each corpus, in seconds. Searching several as one may take as long
            once more, after the last answer; usually it takes some milliseconds. If it takes longer, the rankings that
            are here are fused as `merge="rrf-by-source"` does.
        timeout: The time for all of them and for formulating, in seconds. A tenth of it is kept for searching several
            corpora as one, so a corpus fails after nine tenths. A call that cannot be interrupted is waited for.
        options: Further options of `airw.search`: `fusion` (here `"ranks"` by default), `rrf_k`, `rerank`, `formulate`,
            `surface_weights`, ….

    Raises:
        ArgumentError: If a value cannot be used, or two options contradict each other.
        FilterError: If the filter is malformed.
        CorpusNotFound: If there is no corpus of a name or path; no corpus is searched then.
        DiscoveryError: If no corpus answered. A single corpus that is not in a list raises its own error instead.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"keys": "rotate the signing keys", "bread": "bake a loaf of bread"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         keys = await discover(corpus, "signing keys")
        ...         zebra = await discover(corpus, "zebra")
        ...     return keys.ids, zebra.ids, zebra.reason
        >>> anyio.run(main)
        (['keys'], [], 'abstain:no_evidence')
    """
    plan = DiscoveryPlan.prepare("discover", corpus, query, options)
    with record_span("discover", plan.only_source, query, _describe_plan, plan) as span:
        result = await _discover(plan)
        if span is not None:
            span.set(_describe_result(result))
        return result


def _describe_plan(plan: DiscoveryPlan) -> Mapping[str, Any]:
    return {
        "gen_ai.retrieval.top_k": plan.search.k,
        "airw.discover.sources": [member.name for member in plan.members],
        "airw.discover.mode": plan.mode,
        "airw.discover.strategy": "custom" if callable(plan.strategy) else plan.strategy,
    }


def _describe_result(result: DiscoveryResult) -> Mapping[str, Any]:
    return {
        "airw.discover.n_retrieved": result.n_retrieved,
        "airw.discover.selected": len(result.results),
        "airw.discover.abstained": result.abstained,
        "airw.discover.reason": result.reason,
    }


async def _discover(plan: DiscoveryPlan) -> DiscoveryResult:
    async with begin(plan) as run:
        await _ask_sources(run)
        for name, source in run.sources.items():
            if (note := source.report.get("floor_note")) is not None:
                which = "floor" if source.report["floor"] is None else "calibrated floor"
                warnings.warn(f"min_score='auto': no {which} for {name!r}: {note}", stacklevel=3)
        return await combine_answers(run)


async def _ask_sources(run: Discovery) -> None:
    """Ask all sources; small ones are asked together, if they can be."""
    small = choose_small_sources(run.plan)
    with first_error():
        async with anyio.create_task_group() as group:
            for name, source in run.sources.items():
                if name not in small:
                    group.start_soon(source.ask)
            known = await ask_together(run, small)
            for source in map(run.sources.__getitem__, small):
                if source not in known:
                    group.start_soon(source.ask)


@shows_options(DiscoverOptions, DISCOVER_DEFAULTS)
def discover_stream(corpus: Corpora, query: str, **options: Unpack[DiscoverOptions]) -> "DiscoveryStream":
    """Discover, and report each source as soon as it answers.

    The sources work only inside the `async with` block; leaving it stops the pending ones. The block owns their tasks:
    an async generator could not let them work between two of its values.

    Each `SourceAnswered` contains the fused ranking so far. A hit of it whose `rank_final` is true keeps its place,
    whatever the pending sources answer, so a user interface can show it at once. A place is final if it can be proven:
    every source first counts the words of the query in its corpus, which bounds what it can still find. While one has
    not counted, nothing is final. A reranker, a boost or weights leave nothing to prove before the last answer.

    Args:
        corpus: One or several corpora, as for `discover`.
        query: The text to search for.
        options: The options of `discover`.

    Returns:
        An async context manager and async iterator. It yields one `SourceAnswered` a source, in the order in which they
        answer. The last value is the `DiscoveryResult`, which does not depend on that order.

    Raises:
        ArgumentError: As `discover`; this call raises it. Iterating raises `DiscoveryError` instead of the result.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     keys = from_mapping({"k": "rotate the signing keys"}, name="keys", embedder="light")
        ...     food = from_mapping({"f": "bake bread"}, name="food", embedder="light")
        ...     async with build(keys, store=MemoryStore()) as one, build(food, store=MemoryStore()) as other:
        ...         async with discover_stream([one, other], "signing keys") as updates:
        ...             async for update in updates:
        ...                 print(type(update).__name__)
        ...         print(update.ids)
        >>> anyio.run(main)
        SourceAnswered
        SourceAnswered
        DiscoveryResult
        ['k']
    """
    return DiscoveryStream(DiscoveryPlan.prepare("discover_stream", corpus, query, options))


@contextmanager
def _work_within(span: OpenSpan | None, errors: type[BaseException]) -> Iterator[None]:
    """Make a span current in a block; if that fails with one of the errors, the span ends."""
    if span is None:
        yield
        return
    try:
        with span.work():
            yield
    except errors as error:
        span.fail(error)
        span.end()
        raise


class DiscoveryStream:
    """The stream of a discovery, as `discover_stream` returns it."""

    def __init__(self, plan: DiscoveryPlan) -> None:
        self._plan = plan
        self._heard: list[AskedSource] = []
        self._stack = AsyncExitStack()
        self._run: Discovery | None = None
        self._incoming: ReadAhead[tuple[AsyncGenerator[AskedSource, None], AskedSource]] | None = None
        self._result: DiscoveryResult | None = None
        self._span: OpenSpan | None = None
        self._is_over = False

    @property
    def result(self) -> DiscoveryResult | None:
        """Return the result, or `None` if it is not there yet."""
        return self._result

    async def __aenter__(self) -> Self:
        if self._incoming is not None:
            raise ArgumentError("a DiscoveryStream can only be entered once: call discover_stream again")
        plan = self._plan
        self._incoming = merge(*map(self._stream_answer, plan.members), buffer=1)
        self._span = start_span("discover", plan.only_source, plan.search.text, _describe_plan, plan)
        # The tasks of the sources start here, and the spans of the sources are inside the one that is current now. A
        # block that was not entered has no end, so its span ends also if this is cancelled.
        with _work_within(self._span, BaseException):
            async with AsyncExitStack() as stack:
                self._run = await stack.enter_async_context(begin(plan))
                # The sources stop before the corpora are closed.
                await stack.enter_async_context(self._incoming)
                if self._span is not None:
                    self._stack.callback(self._span.end)
                await self._stack.enter_async_context(stack.pop_all())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SourceAnswered | DiscoveryResult:
        if self._incoming is None or self._run is None:
            raise ArgumentError(
                "a DiscoveryStream yields only inside its block: async with discover_stream(…) as updates"
            )
        if self._is_over:
            raise StopAsyncIteration
        try:
            # A request that is cancelled ends nothing: the next one goes on.
            with _work_within(self._span, Exception):
                return await self._next_update(self._incoming, self._run)
        except Exception:
            self._is_over = True
            raise

    async def _next_update(
        self, incoming: "ReadAhead[tuple[AsyncGenerator[AskedSource, None], AskedSource]]", run: Discovery
    ) -> SourceAnswered | DiscoveryResult:
        async for _, source in incoming:
            self._heard.append(source)
            pending = tuple(name for name, other in run.sources.items() if other not in self._heard)
            ranking = tuple(await rank_so_far(run, self._heard))
            return SourceAnswered(source.member.name, source.report, tuple(source.hits), ranking, pending)
        self._result, self._is_over = await combine_answers(run), True
        if self._span is not None:
            self._span.set(_describe_result(self._result))
            self._span.end()
        return self._result

    async def _stream_answer(self, member: Member) -> AsyncGenerator[AskedSource, None]:
        yield await cast("Discovery", self._run).sources[member.name].ask()

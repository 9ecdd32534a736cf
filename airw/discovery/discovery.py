"""Discovery in one or several corpora: search, apply floors, fuse, select, disclose."""

import warnings
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Self, Unpack, cast

from airw._base.concurrency import map_bounded
from airw._base.signatures import shows_options
from airw.discovery._combine_answers import combine_answers, rank_so_far
from airw.discovery._planning import DISCOVER_DEFAULTS, Corpora, DiscoverOptions, DiscoveryPlan, Member
from airw.discovery._query_source import SourceRequest, prepare_request, query_source
from airw.discovery.results import Answer, DiscoveryResult, SourceAnswered
from airw.errors import ArgumentError
from airw.walking import merge
from airw.walking.streams import ReadAhead


@shows_options(DiscoverOptions, DISCOVER_DEFAULTS)
async def discover(corpus: Corpora, query: str, **options: Unpack[DiscoverOptions]) -> DiscoveryResult:
    """Find the few artifacts that answer a query, or abstain.

    Each corpus is searched, and its ranking is compared with its floor. The rankings are fused, a strategy selects a
    few hits or none, and these are disclosed at the requested level.

    Several corpora are searched at once. `signals["per_source"]` reports a corpus that fails or is late, and the other
    corpora are fused. The result does not depend on the order of the answers. A query is embedded once for all corpora
    whose embedders have the same id. A corpus without evidence abstains: it has no word in common with the query, and
    all its cosines are 0.

    Args:
        corpus: An open corpus, or a name or path, which is opened and closed again. Or several of them: as a list,
            whose order decides ties, or as `{name: corpus}`. The name becomes the `source` of the hits.
        query: The text to search for.
        k: The number of candidates of each corpus, and of all corpora after the fusion.
        mode: `"dense"`, `"lexical"` or `"hybrid"`, as in `airw.search`.
        strategy: The selection strategy; see `airw.select`. A function may be async, such as `make_llm_selector`
            returns it.
        disclose_level: `"metadata"`, `"body"` or `"bundled"`; `airw.disclose` explains the levels, and `loader`,
            `store`, `expand` and `roots`.
        filter: Search only records whose metadata satisfy this filter.
        surfaces: Search only surfaces of these kinds.
        max_k: Select at most this many hits; see `airw.select` for this, `rel` and `gap_ratio`.
        rel: The ratio to the best score that a hit must reach.
        gap_ratio: The ratio to the previous score below which there is a gap.
        min_score: The floor: if the best score of a corpus is lower, the corpus abstains. A number, `"auto"` for the
            floor that `calibrate_min_score` stored, or `None`. For several corpora, `"auto"` or floors by name, because
            their scores are on different scales. Floors apply to each corpus before the fusion. If `"auto"` finds no
            floor that fits, there is none, with a warning and a `floor_note` in the signals.
        merge: `"rrf"` fuses by rank; `"score"` merges by raw scores, which needs a dense search and one embedder; a
            function gets `{name: hits}` and returns the merged hits.
        merge_weights: The weight of each corpus in the fusion by rank; 1.0 if it is not named.
        merge_rrf_k: The rank constant of the fusion of corpora; 60 by default.
        loader: A function that reads a body from the metadata of a hit.
        store: A mapping of bodies by pointer.
        expand: The policy that chooses the neighbouring surfaces of a passage.
        roots: The folders whose files may be read.
        dedup_by: A metadata field with equal values for copies of the same thing; only the best hit remains. `"auto"`
            is `"name"` in a corpus called skills, and no field elsewhere.
        identity: Decides whether hits of different corpora are the same thing, as in `airw.fuse_hits`.
        walk: A policy to walk each corpus with, instead of searching it; the hits are those of `walk.ranking`.
        node_budget: The node budget of each walk.
        source_timeout: The time for each corpus, in seconds.
        timeout: The time for all of them and for formulating, in seconds.
        options: Further options of `airw.search`: `fusion`, `rrf_k`, `rerank`, `formulate`, `surface_weights`, ….

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
    async with prepare_request(plan) as request:
        answers = await map_bounded(partial(query_source, request=request), plan.members, limit=len(plan.members))
        for answer in answers:
            if plan.is_floor_requested and answer.floor_note is not None:
                warnings.warn(f"min_score='auto': no floor for {answer.source!r}: {answer.floor_note}", stacklevel=2)
        return await combine_answers(request, {answer.source: answer for answer in answers})


@shows_options(DiscoverOptions, DISCOVER_DEFAULTS)
def discover_stream(corpus: Corpora, query: str, **options: Unpack[DiscoverOptions]) -> "DiscoveryStream":
    """Discover, and report each source as soon as it answers.

    The sources work only inside the `async with` block; leaving it stops the pending ones. The block owns their tasks:
    an async generator could not let them work between two of its values.

    Each `SourceAnswered` contains the fused ranking so far. A hit of it whose `rank_final` is true keeps its place,
    whatever the pending sources answer, so a user interface can show it at once.

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


class DiscoveryStream:
    """The stream of a discovery, as `discover_stream` returns it."""

    def __init__(self, plan: DiscoveryPlan) -> None:
        self._plan = plan
        self._answers: dict[str, Answer] = {}
        self._stack = AsyncExitStack()
        self._request: SourceRequest | None = None
        self._incoming: ReadAhead[tuple[AsyncGenerator[Answer, None], Answer]] | None = None
        self._result: DiscoveryResult | None = None

    @property
    def result(self) -> DiscoveryResult | None:
        """Return the result, or `None` if it is not there yet."""
        return self._result

    async def __aenter__(self) -> Self:
        if self._incoming is not None:
            raise ArgumentError("a DiscoveryStream can only be entered once: call discover_stream again")
        self._incoming = merge(*map(self._stream_answer, self._plan.members), buffer=1)
        async with AsyncExitStack() as stack:
            self._request = await stack.enter_async_context(prepare_request(self._plan))
            # The sources stop before the corpora are closed.
            await stack.enter_async_context(self._incoming)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SourceAnswered | DiscoveryResult:
        if self._incoming is None or self._request is None:
            raise ArgumentError(
                "a DiscoveryStream yields only inside its block: async with discover_stream(…) as updates"
            )
        if self._result is not None:
            raise StopAsyncIteration
        try:
            _, answer = await anext(self._incoming)
        except StopAsyncIteration:
            self._result = await combine_answers(self._request, self._answers)
            return self._result
        self._answers[answer.source] = answer
        pending = tuple(member.name for member in self._plan.members if member.name not in self._answers)
        ranking = tuple(await rank_so_far(self._request, self._answers))
        return SourceAnswered(answer.source, answer.report, answer.hits, ranking, pending)

    async def _stream_answer(self, member: Member) -> AsyncGenerator[Answer, None]:
        yield await query_source(member, cast("SourceRequest", self._request))

"""One question to one corpus or many: find, keep what is good enough, fuse, commit to few, disclose."""

import warnings
from collections.abc import AsyncGenerator
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from airw._base.concurrency import map_bounded
from airw._base.signatures import shows_options
from airw.discovery._asking import Asking, ask_source, begin
from airw.discovery._combining import finish, ranked_so_far
from airw.discovery._planning import DISCOVER_DEFAULTS, Corpora, DiscoverOptions, DiscoveryPlan, Member
from airw.discovery.results import Answer, DiscoveryResult, SourceAnswered
from airw.errors import ArgumentError
from airw.walking import merge
from airw.walking.streams import ReadAhead


@shows_options(DiscoverOptions, DISCOVER_DEFAULTS)
async def discover(corpus: Corpora, query: str, **options: Unpack[DiscoverOptions]) -> DiscoveryResult:
    """Find what answers a query, commit to few hits or to none, and reveal as much of them as asked for.

    Several corpora are asked at once. One that fails or is late is told of in `signals["per_source"]`, and the others
    are fused by rank; the result does not depend on who answers first. A query is embedded once for all corpora whose
    embedders have one id. A corpus where nothing speaks for any hit, no word in common and every cosine 0, abstains.

    Args:
        corpus: An open corpus, or a name or path, which is opened and closed again; or several, as a list, which also
            says who goes first where ranks tie, or as `{name: corpus}`. Hits are attributed to the names.
        query: What to look for.
        k: Candidates of each corpus, and of all of them after the fusion.
        mode: `"dense"`, `"lexical"` or `"hybrid"`, as in `airw.search`.
        strategy: How to commit; see `airw.select`. A function may be async, such as that of `make_llm_selector`.
        disclose_level: `"metadata"`, `"body"` or `"bundled"`; see `airw.disclose` for this and `loader`, `store`,
            `expand` and `roots`.
        filter: Only records whose metadata satisfy it.
        surfaces: Only surfaces of these kinds.
        max_k: Commit to at most this many; this, `rel` and `gap_ratio` as in `airw.select`.
        rel: How near to the best score the others must be.
        gap_ratio: What drop of the score is a gap.
        min_score: The floor below which a corpus's best score means that it has no answer: a number, `"auto"` for what
            `calibrate_min_score` stored, or nothing. For several corpora `"auto"`, or by name, as their scores have
            scales of their own. It is applied to each corpus before the fusion. Where `"auto"` finds nothing that fits,
            there is no floor, with a warning and a `floor_note` among the signals.
        merge: `"rrf"`, by rank; `"score"`, by the raw scores of a dense search with one embedder; or a function of
            `{name: hits}`.
        merge_weights: How much each corpus counts in a fusion by rank, 1.0 where not named.
        merge_rrf_k: The rank constant between corpora; 60 when left out.
        loader: Reads a body from a hit's metadata.
        store: Bodies by pointer.
        expand: Which neighbouring surfaces make up a passage.
        roots: The folders whose files may be read.
        dedup_by: A metadata field that tells copies of one thing; the best stands for all. `"auto"` is `"name"` in a
            corpus called skills, and nothing elsewhere.
        identity: What makes hits of different corpora the same thing, as in `airw.fuse_hits`.
        walk: A policy to walk each corpus with instead of searching it; its hits are those of `walk.ranking`.
        node_budget: How many nodes each walk may visit.
        source_timeout: Seconds each corpus has to answer.
        timeout: Seconds they have all together, formulating included.
        options: Further options of `airw.search`: `fusion`, `rrf_k`, `rerank`, `formulate`, `surface_weights`, ….

    Raises:
        ArgumentError: A parameter's value cannot be used, or two do not go together.
        FilterError: The filter is malformed.
        CorpusNotFound: A name or path leads nowhere; nothing was asked then.
        DiscoveryError: No corpus answered. A lone one, given as itself and not in a list, raises its own error instead.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"keys": "rotate the signing keys", "bread": "bake a loaf of bread"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         found = await discover(corpus, "signing keys")
        ...         nothing = await discover(corpus, "zebra")
        ...     return found.ids, nothing.ids, nothing.reason
        >>> anyio.run(main)
        (['keys'], [], 'abstain:no_evidence')
    """
    plan = DiscoveryPlan.prepare("discover", corpus, query, options)
    asking = await begin(plan)
    given = await map_bounded(partial(ask_source, asking=asking), plan.members, limit=len(plan.members))
    for answer in given:
        if answer.floor_note is not None:
            warnings.warn(f"no floor for {answer.source!r}: {answer.floor_note}", stacklevel=2)
    return await finish(plan, {answer.source: answer for answer in given})


@shows_options(DiscoverOptions, DISCOVER_DEFAULTS)
def discover_stream(corpus: Corpora, query: str, **options: Unpack[DiscoverOptions]) -> "DiscoveryStream":
    """Discover, and tell of each source as it answers.

    The sources are at work while the block is open, and only then; leaving it stops those that have not answered. (An
    async generator could not let them work on between two of its values without tasks that nobody owns.)

    Args:
        corpus: One corpus or several, and a query and options as for `discover`.
        query: What to look for.
        options: Those of `discover`.

    Returns:
        An async context manager that gives itself: an async iterator of one `SourceAnswered` a source, in the order in
        which they answer, and at last the `DiscoveryResult`, which does not depend on that order.

    Raises:
        ArgumentError: As `discover`, by this call; `DiscoveryError` where the result would come.

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
    """A discovery at work while its block is open; made by `discover_stream`."""

    def __init__(self, plan: DiscoveryPlan) -> None:
        self._plan = plan
        self._answers: dict[str, Answer] = {}
        self._coming: ReadAhead[tuple[AsyncGenerator[Answer, None], Answer]] | None = None
        self._result: DiscoveryResult | None = None

    @property
    def result(self) -> DiscoveryResult | None:
        """Give the result, once it has come."""
        return self._result

    async def __aenter__(self) -> Self:
        if self._coming is not None:
            raise ArgumentError("a discovery is entered once; discover_stream starts another one")
        asking = await begin(self._plan)
        self._coming = merge(*(_asked(member, asking) for member in self._plan.members), buffer=1)
        await self._coming.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._coming is not None:
            await self._coming.__aexit__(kind, error, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SourceAnswered | DiscoveryResult:
        if self._coming is None:
            raise ArgumentError("a discovery works inside a block: async with discover_stream(…) as updates")
        if self._result is not None:
            raise StopAsyncIteration
        try:
            _, answer = await anext(self._coming)
        except StopAsyncIteration:
            self._result = await finish(self._plan, self._answers)
            return self._result
        self._answers[answer.source] = answer
        return self._told(answer)

    def _told(self, answer: Answer) -> SourceAnswered:
        pending = tuple(member.name for member in self._plan.members if member.name not in self._answers)
        ranking = tuple(ranked_so_far(self._plan, self._answers))
        return SourceAnswered(answer.source, answer.report, answer.hits, ranking, pending)


async def _asked(member: Member, asking: Asking) -> AsyncGenerator[Answer, None]:
    yield await ask_source(member, asking)

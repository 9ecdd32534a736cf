"""One question to one corpus or many: find, keep what is good enough, fuse, commit to few, disclose."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, Unpack

from airw._base.concurrency import map_bounded
from airw.discovery._asking import ask_source, begin
from airw.discovery._finish import finish
from airw.discovery._floors import Floors
from airw.discovery._members import Corpora
from airw.discovery._plan import Merge, Plan
from airw.discovery.disclosure.disclosing import Level, Loader
from airw.discovery.results import DiscoveryResult
from airw.discovery.selection.rules import Strategy
from airw.protocols import NeighborhoodPolicy, Selector
from airw.retrieval import Mode, SearchTuning
from airw.retrieval.fusion import Identity
from airw.values.filters import Filter
from airw.walking import WalkPolicy

__all__ = ["discover"]


async def discover(
    corpus: Corpora,
    query: str,
    *,
    k: int = 10,
    mode: Mode = "hybrid",
    strategy: Strategy | Selector = "conservative",
    disclose_level: Level = "metadata",
    filter: Mapping[str, Any] | Filter | None = None,
    surfaces: Iterable[str] | None = None,
    max_k: int = 3,
    rel: float = 0.9,
    gap_ratio: float = 0.5,
    min_score: Floors = None,
    merge: Merge = "rrf",
    merge_weights: Mapping[str, float] | None = None,
    merge_rrf_k: int | None = None,
    loader: Loader | None = None,
    store: Mapping[str, Any] | None = None,
    expand: NeighborhoodPolicy | None = None,
    roots: Sequence[str | PathLike[str]] = (),
    dedup_by: str | None = "auto",
    identity: Identity = None,
    walk: WalkPolicy | None = None,
    node_budget: int = 64,
    source_timeout: float | None = 30.0,
    timeout: float | None = None,  # noqa: ASYNC109 - what runs out is told source by source, and the rest is kept
    **tuning: Unpack[SearchTuning],
) -> DiscoveryResult:
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
        **tuning: Further options of `airw.search`: `fusion`, `rrf_k`, `rerank`, `formulate`, `surface_weights`, ….

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
    plan = Plan.of(
        corpus,
        query,
        k=k,
        strategy=strategy,
        disclose_level=disclose_level,
        max_k=max_k,
        rel=rel,
        gap_ratio=gap_ratio,
        min_score=min_score,
        merge=merge,
        merge_weights=merge_weights,
        merge_rrf_k=merge_rrf_k,
        loader=loader,
        store=store,
        expand=expand,
        roots=roots,
        dedup_by=dedup_by,
        identity=identity,
        walk=walk,
        node_budget=node_budget,
        source_timeout=source_timeout,
        timeout=timeout,
        mode=mode,
        filter=filter,
        surfaces=surfaces,
        **tuning,
    )
    asking = await begin(plan)
    given = await map_bounded(partial(ask_source, asking=asking), plan.members, limit=len(plan.members))
    for answer in given:
        if answer.floor_note is not None:
            warnings.warn(f"no floor for {answer.source!r}: {answer.floor_note}", stacklevel=2)
    return await finish(plan, {answer.source: answer for answer in given})

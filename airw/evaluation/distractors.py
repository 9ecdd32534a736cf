"""Distractor curves: how often the answer is found in ever larger catalogues."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from airw._base.checks import check_count
from airw._base.concurrency import in_thread, map_bounded
from airw.corpora import CorpusLike, use_corpus
from airw.errors import ArgumentError
from airw.evaluation.cases import DiscoveryCase, check_cases
from airw.protocols import ArtifactIds, OpenCorpus, ask
from airw.retrieval import Mode, SearchOptions, SearchQuery, run_search

DISTRACTOR_SIZES = (1, 4, 8, 16, 32, 64, 128)
"""The sizes of the catalogues of a distractor curve."""

_MAX_SEARCHES = 8  # at once


async def measure_distractors(
    corpus: CorpusLike,
    cases: Iterable[DiscoveryCase],
    *,
    sizes: Sequence[int] = DISTRACTOR_SIZES,
    k: int = 1,
    mode: Mode = "dense",
    **search_options: Any,
) -> dict[int, float]:
    """Return how often an answer is found in a catalogue, by the size of the catalogue.

    It is found if it is among the first `k` hits.

    A catalogue of size `n` has the answer and `n - 1` other artifacts of the corpus, drawn at random. The result is the
    exact mean over all such catalogues. One search per case is enough: scores are those of the whole corpus, so the
    order of two artifacts does not depend on the others.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        cases: The cases. Only those with exactly one answer that is in the corpus count.
        sizes: The sizes. Sizes above that of the corpus become that of the corpus.
        k: The number of hits.
        mode: The mode of the searches.
        **search_options: Further options of `airw.search`.

    Returns:
        The share by size, ascending; empty if no case counts.

    Raises:
        ArgumentError: If a value cannot be used.
        CorpusNotFound: If there is no corpus of that name or at that path.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "bread", "b": "bread and salt", "c": "roses"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return await measure_distractors(corpus, [DiscoveryCase("bread", "b")], sizes=[1, 2, 3])
        >>> anyio.run(main)
        {1: 1.0, 2: 0.5, 3: 0.0}
    """
    check_count("k", k, least=1)
    wanted = sorted({check_count("a size", size, least=1) for size in sizes})
    single = [case for case in check_cases(cases) if len(set(case.gold)) == 1]
    async with use_corpus(corpus) as opened:
        ids = set(await ask(opened.store, ArtifactIds()))
        query = _whole_ranking(len(ids), mode, search_options)

        async def count_better(case: DiscoveryCase) -> int | None:
            return await _count_better(opened, query, case)

        better = await map_bounded(count_better, [case for case in single if case.gold[0] in ids], limit=_MAX_SEARCHES)
    chosen = sorted({min(size, len(ids)) for size in wanted}) if better else []
    return await in_thread(_find_shares, better, len(ids), chosen, k)


def _whole_ranking(count: int, mode: Mode, options: Mapping[str, Any]) -> SearchQuery:
    if "k" in options:
        raise ArgumentError("k is the number of hits that count; the searches rank all artifacts")
    settings = {"mode": mode, **options, "k": max(count, 1)}
    return SearchQuery.preset("measure_distractors", cast("SearchOptions", settings))


async def _count_better(corpus: OpenCorpus, query: SearchQuery, case: DiscoveryCase) -> int | None:
    """Return how many artifacts rank before the answer; `None` if it is not in the ranking."""
    hits = await run_search(corpus, query.with_text(case.query))
    return next((place for place, hit in enumerate(hits) if hit.artifact_id == case.gold[0]), None)


def _find_shares(better: Sequence[int | None], count: int, sizes: Sequence[int], k: int) -> dict[int, float]:
    """Return the mean chance over the cases, by the size of the catalogue."""
    return {size: math.fsum(_chance(each, count, size, k) for each in better) / len(better) for size in sizes}


def _chance(better: int | None, count: int, size: int, k: int) -> float:
    """Return the chance that a catalogue has fewer than `k` of the better artifacts."""
    if better is None:
        return 0.0
    others, drawn = count - 1, size - 1
    ways = sum(math.comb(better, hits) * math.comb(others - better, drawn - hits) for hits in range(min(k, drawn + 1)))
    return ways / math.comb(others, drawn)

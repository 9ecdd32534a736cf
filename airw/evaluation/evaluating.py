"""Evaluation: ask a system every case, and record what it returns and costs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airw._base.checks import check_count
from airw._base.concurrency import map_bounded
from airw._base.messages import short_repr
from airw.corpora import CorpusLike, use_corpus, use_store
from airw.errors import ArgumentKindError
from airw.evaluation.cases import DiscoveryCase, check_cases
from airw.evaluation.measures import parse_measures
from airw.evaluation.metering import Meter
from airw.evaluation.rows import Evaluation, QueryRow
from airw.evaluation.systems import FlatSearch, System
from airw.protocols import Ledger, OpenCorpus, ask

DEFAULT_MEASURES = ("ndcg@10", "recall@1", "recall@5", "recall@10", "mrr@10", "map@10", "success@5", "all_gold@5")
"""The measures of `evaluate`, unless others are given."""


async def evaluate(
    corpus: CorpusLike,
    cases: Iterable[DiscoveryCase],
    system: System | None = None,
    *,
    measures: Iterable[str] = DEFAULT_MEASURES,
    k: int | None = None,
    max_concurrency: int = 1,
) -> Evaluation:
    """Ask a system for the answers of all cases, and measure its rankings and its costs.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        cases: The cases. Those without an answer are asked, too: their scores show when to abstain.
        system: What is evaluated; by default `FlatSearch()`.
        measures: The measures, each with or without the number of artifacts it looks at: `"recall@5"`, `"mrr"`.
        k: How many hits the system is asked for; by default the largest number of the measures, and at least 10.
        max_concurrency: The number of queries that run at the same time. Times are those of an idle machine only if it
            is 1.

    Returns:
        The results: a row per case, means and costs.

    Raises:
        ArgumentError: If a value cannot be used.
        CorpusNotFound: If there is no corpus of that name or at that path.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread"}
        ...     cases = [DiscoveryCase("signing keys", "a"), DiscoveryCase("who bakes bread?", "b")]
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return await evaluate(corpus, cases, measures=["recall@1", "mrr"])
        >>> anyio.run(main).means()
        {'recall@1': 1.0, 'mrr': 1.0}
    """
    chosen = parse_measures(measures)
    asked = check_cases(cases)
    finder = FlatSearch() if system is None else _check_system(system)
    check_count("max_concurrency", max_concurrency, least=1)
    depth = max([10, *(each.k or 0 for each in chosen)]) if k is None else check_count("k", k, least=1)
    async with use_corpus(corpus) as opened:

        async def ask(case: DiscoveryCase) -> QueryRow:
            return await _ask(opened, finder, case, depth)

        rows = await map_bounded(ask, asked, limit=max_concurrency)
        return Evaluation(finder.label, tuple(rows), chosen, opened.name)


async def _ask(corpus: OpenCorpus, system: System, case: DiscoveryCase, k: int) -> QueryRow:
    meter = Meter()
    hits = await system.find(meter.watch(corpus), case.query, k, meter)
    best: dict[str, float] = {}
    for hit in hits:  # an artifact may have several hits; the first is the best
        best.setdefault(hit.artifact_id, float(hit.score))
    first = list(best.items())[:k]  # a walk may return more than it was asked for, but all are measured alike
    ids, scores = tuple(id for id, _ in first), tuple(score for _, score in first)
    return QueryRow(case, ids, scores, meter.to_cost(), tuple(meter.arrivals))


def _check_system(system: object) -> Any:
    if isinstance(system, type) or not callable(getattr(system, "find", None)) or not hasattr(system, "label"):
        raise ArgumentKindError(
            f"system must have a label and a method find, as FlatSearch() and PolicyWalk(policy) do, "
            f"not be {short_repr(system)}"
        )
    return system


async def find_missing_gold(corpus: CorpusLike, cases: Sequence[DiscoveryCase]) -> Mapping[int, list[str]]:
    """Return the gold ids that the corpus lacks, by the position of their case.

    A corpus changes after its cases were written. A case whose answer is gone can only fail.

    Args:
        corpus: An open corpus, or the name or path of one.
        cases: The cases.

    Raises:
        CorpusNotFound: If there is no corpus of that name or at that path.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "signing keys"}, name="notes")
        ...     async with build(source, store=MemoryStore(), embedder="light") as corpus:
        ...         return await find_missing_gold(corpus, [DiscoveryCase("keys", ["a", "gone"])])
        >>> anyio.run(main)
        {0: ['gone']}
    """
    checked = check_cases(cases)
    ids = list(dict.fromkeys(id for case in checked for id in case.gold))
    async with use_store(corpus) as (_, store):
        entries = await ask(store, Ledger(ids))
    missing = {id for id, entry in zip(ids, entries, strict=True) if entry is None}
    absent = {index: [id for id in case.gold if id in missing] for index, case in enumerate(checked)}
    return {index: gone for index, gone in absent.items() if gone}

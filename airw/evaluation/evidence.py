"""The evidence of cases, as a signal for abstention."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airw._base.concurrency import map_bounded
from airw.corpora import CorpusLike, use_corpus
from airw.evaluation.cases import DiscoveryCase, check_cases
from airw.evaluation.rows import QueryRow
from airw.retrieval import Mode
from airw.retrieval.evidence import evidence_weights, find_evidence

_MAX_SEARCHES = 8  # at once


@dataclass(frozen=True, slots=True)
class EvidenceSignal:
    """The evidence of queries: a signal for `measure_abstention`.

    Args:
        by_query: The evidence of each query.

    Example:
        >>> signal = EvidenceSignal({"signing keys": 0.9})
        >>> signal(QueryRow(DiscoveryCase("signing keys"), ("a",), (0.7,)))
        0.9
    """

    by_query: Mapping[str, float]

    def __call__(self, row: QueryRow) -> float:
        """Return the evidence of the query of a row; minus infinity if it was not measured."""
        return self.by_query.get(row.case.query, -math.inf)


async def measure_evidence(
    corpus: CorpusLike,
    cases: Sequence[DiscoveryCase],
    *,
    mode: Mode = "hybrid",
    surfaces: Iterable[str] | None = None,
) -> EvidenceSignal:
    """Measure how well the best artifacts of a corpus fit each query.

    It is what a floor of `calibrate_min_score` applies to: the strength of the best artifact, plus its lead. Here,
    strength is a cosine and a match of words together.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        cases: The cases.
        mode: The mode, which decides on the channels.
        surfaces: Search only surfaces of these kinds.

    Returns:
        The signal for `measure_abstention`. It is minus infinity if the store cannot measure a channel of the mode.

    Raises:
        ArgumentError: If a case is not a `DiscoveryCase`.
        CorpusNotFound: If there is no corpus of that name or at that path.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return await measure_evidence(corpus, [DiscoveryCase("signing keys"), DiscoveryCase("zebra")])
        >>> evidence = anyio.run(main).by_query
        >>> evidence["signing keys"] > evidence["zebra"] == 0
        True
    """
    checked = check_cases(cases)
    kinds = None if surfaces is None else list(surfaces)
    async with use_corpus(corpus) as opened:
        weights = evidence_weights(mode, opened.embedder.id)

        async def weigh(case: DiscoveryCase) -> float:
            evidence = await find_evidence(opened, case.query, mode, surfaces=kinds)
            return evidence.weigh(weights) if evidence.channels.keys() >= weights.keys() else -math.inf

        values = await map_bounded(weigh, checked, limit=_MAX_SEARCHES)
    return EvidenceSignal({case.query: value for case, value in zip(checked, values, strict=True)})

"""Promotion: does a walk beat a search, and a search with a reranker?"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from airw.evaluation import FlatSearch, promote
from tests.benchmarks.quality.corpora import MULTI_HOP, Library
from tests.benchmarks.quality.multi_hop import name_row
from tests.benchmarks.quality.systems import CANDIDATES, SEARCH
from tests.benchmarks.quality.tables import Table

HEAD = ("set", "questions", "system", "R@5 - search", "R@5 - search, reranked", "promoted")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class BestSentence:
    """A reranker that needs no further model: the mean of two cosines of MiniLM.

    One is that of the whole text, the other that of its best sentence.

    Args:
        embedder: The embedder.
    """

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder

    async def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the score of each text."""
        parts = [[text, *filter(None, SENTENCE_END.split(text))] for text in texts]
        vectors = await self._embedder.embed_documents([part for each in parts for part in each])
        cosines = vectors @ await self._embedder.embed_query(query)
        ends = np.cumsum([len(each) for each in parts])
        groups = np.split(cosines, ends[:-1])
        return [float(group[0] + group[1:].max(initial=-1)) / 2 for group in groups]


async def measure(library: Library, names: Sequence[str] = MULTI_HOP) -> list[Table]:
    """Return a table with a verdict for each set and walk."""
    reranked = FlatSearch({"rerank": library.rerank or BestSentence(library.embedder)}, "search, reranked")
    rows = []
    for name in names:
        flat, better = await library.evaluate(name, SEARCH), await library.evaluate(name, reranked)
        for system, links in CANDIDATES:
            # Each candidate has its share of the risk of 5 %: with many, one looks better by chance.
            share = 1 - 0.05 / len(CANDIDATES)
            verdict = promote(await library.evaluate(name, system, links), flat=flat, reranked=better, confidence=share)
            differences = map(str, verdict.differences.values())
            rows.append(
                [name, str(flat.n_gold), name_row(system, links), *differences, "yes" if verdict.promoted else "no"]
            )
    return [Table("Promotion", HEAD, rows)]

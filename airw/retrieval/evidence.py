"""Evidence: how well the best records of a corpus fit a question.

Ranks cannot tell whether the best hit is any good, and a BM25 score grows with the number and the rarity of the
question's words. So the evidence of the words is the product of two numbers:

- the BM25 score of the best record, divided by the length of the vector of the weights of the question's words;
- the share of these weights that belong to words which the corpus contains at all.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airw.protocols import OpenCorpus, SearchStore, TermStatistics
from airw.retrieval.query import Mode, channels_of
from airw.retrieval.searching import QueryVectors, embed_text, query_rankings
from airw.values import Ranking, TermCounts

_LEAST_WEIGHT = 1e-6  # as in BM25, of a word in half of all records or more


@dataclass(frozen=True, slots=True)
class Evidence:
    """How well the best records of a corpus fit a question.

    Args:
        dense: The best cosine; `None` if the dense channel was not asked.
        lexical: The strength of the best match of words, from 0; `None` if the lexical channel was not asked, or the
            store cannot count words.

    Example:
        >>> Evidence(dense=0.31).channels
        {'dense': 0.31}
    """

    dense: float | None = None
    lexical: float | None = None

    @property
    def channels(self) -> dict[str, float]:
        """Return the evidence of each channel that has some."""
        values = {"dense": self.dense, "lexical": self.lexical}
        return {name: value for name, value in values.items() if value is not None}


def match_strength(score: float, counts: TermCounts, *, own: Mapping[str, int] | None = None) -> float:
    """Return how well the words of the best record match those of a question.

    Args:
        score: The BM25 score of the best record; 0 without one.
        counts: The word counts of the question, with which the score was computed.
        own: Records to leave out of the counts, by word. They contain the question itself.

    Example:
        >>> counts = TermCounts("bm25", records=100, words=900, frequencies={"signing": 2, "keys": 5, "zebra": 0})
        >>> round(match_strength(6.5, counts), 2), match_strength(0.0, counts)
        (0.51, 0.0)
    """
    weights = {word: _word_weight(counts.records, number) for word, number in counts.frequencies.items()}
    length = math.sqrt(sum(weight**2 for weight in weights.values()))
    if not length:
        return 0.0
    left_out = own or {}
    known = sum(weight for word, weight in weights.items() if counts.frequencies[word] > left_out.get(word, 0))
    return score / length * known / sum(weights.values())


def _word_weight(records: int, frequency: int) -> float:
    """Return the weight of a word in BM25, as the stores compute it."""
    return max(math.log((records - frequency + 0.5) / (frequency + 0.5)), _LEAST_WEIGHT)


def evidence_of(
    dense: Ranking | None = None, lexical: Ranking | None = None, counts: TermCounts | None = None
) -> Evidence:
    """Return the evidence of the rankings of a question, one a channel.

    Args:
        dense: The ranking by cosine; `None` if there is none.
        lexical: The ranking by BM25; `None` if there is none.
        counts: The word counts with which BM25 was computed: those of the corpus, or pooled ones.

    Example:
        >>> import numpy as np
        >>> evidence_of(Ranking(["r1", "r2"], ["a", "b"], np.array([0.5, 0.25])))
        Evidence(dense=0.5, lexical=None)
    """
    match = None if lexical is None or counts is None else match_strength(_best_score(lexical), counts)
    return Evidence(None if dense is None else _best_score(dense), match)


def _best_score(ranking: Ranking) -> float:
    return float(ranking.scores[0]) if len(ranking) else 0.0


async def find_evidence(
    corpus: OpenCorpus[SearchStore],
    text: str,
    mode: Mode = "hybrid",
    *,
    vector: QueryVectors | None = None,
    **store_options: Any,
) -> Evidence:
    """Ask a corpus for the best record of each channel, and return the evidence.

    For callers that have no rankings of the channels, such as a walk.

    Args:
        corpus: An open corpus.
        text: The question.
        mode: The mode, which decides on the channels.
        vector: An async function that returns the vector of the question; by default the corpus's embedder makes it.
        store_options: `filter` and `surfaces`, as for `search_vectors` of a store.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread", "c": "sort a list"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         keys, zebra = [await find_evidence(corpus, text, "lexical") for text in ("signing keys", "zebra")]
        ...     return keys.lexical > 0.5, zebra.lexical
        >>> anyio.run(main)
        (True, 0.0)
    """

    async def embed() -> Any:
        return await embed_text(corpus, text)

    channels: Sequence[Mode] = channels_of(mode)
    options = {"per_artifact": True, **store_options}
    found = await query_rankings(corpus, channels, [text], vector or embed, 1, **options)
    rankings = dict(zip(channels, (ranking for (ranking,) in found), strict=True))
    counts = None
    if "lexical" in rankings and isinstance(corpus.store, TermStatistics):
        counts = await corpus.store.term_statistics([text])
    return evidence_of(rankings.get("dense"), rankings.get("lexical"), counts)

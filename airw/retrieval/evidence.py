"""Evidence: how well the best artifacts of a corpus fit a question.

Ranks cannot tell whether the best hit is any good, and a BM25 score grows with the number and the rarity of the
question's words. So the match of the words is the product of two numbers:

- the BM25 score of the artifact, divided by the length of the vector of the weights of the question's words;
- the share of these weights that belong to words which the corpus contains at all.

Evidence as one number has two parts:

- the *strength* of the best artifact: its cosine and its match together. Both must be those of one artifact;
- its *lead*: how much stronger it is than the next nine on average. A vague question is near to many artifacts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

from airw.protocols import OpenCorpus, Words, ask
from airw.retrieval.query import Mode, channels_of, default_alpha
from airw.retrieval.searching import channel_rankings, embed_text
from airw.values import Ranking, TermCounts

CANDIDATES = 10  # artifacts of each channel; a search of the default k has ranked as many already

FIRST_FORMULA = "bm25 of fts5/unicode61, unspaced letters in pairs"
"""The formula of floors in files that name none."""

_LEXICAL_WEIGHT = 0.25  # matches have a few times the spread of the cosines of a sentence model


def evidence_weights(mode: Mode, embedder_id: str) -> dict[str, float]:
    """Return the weight of each channel in the strength of an artifact.

    A match counts a quarter of a cosine. With an embedder whose vectors know words but no meaning it counts more, as in
    a hybrid search.

    Args:
        mode: The mode, which decides on the channels.
        embedder_id: The id of the corpus's embedder.

    Example:
        >>> evidence_weights("hybrid", "bert-384"), evidence_weights("lexical", "bert-384")
        ({'dense': 1.0, 'lexical': 0.25}, {'lexical': 0.25})
    """
    alpha = default_alpha(embedder_id)
    weights = {"dense": 1.0, "lexical": _LEXICAL_WEIGHT * (1 - alpha) / alpha}
    return {channel: weights[channel] for channel in channels_of(mode)}


@dataclass(frozen=True, slots=True)
class Evidence:
    """How well the best artifacts of a corpus fit a question.

    Args:
        dense: The best cosine; `None` if the dense channel was not asked.
        lexical: The strength of the best match of words, from 0; `None` if the lexical channel was not asked, or the
            store cannot count words.
        candidates: The cosine and the match of each of the best artifacts, in any order; by default one with the best
            of both. Up to ten, artifacts follow that have the least of these cosines, and no match.
        formula: The id of the formula of the matches; `None` without them.

    Example:
        >>> Evidence(dense=0.31).channels
        {'dense': 0.31}
    """

    dense: float | None = None
    lexical: float | None = None
    candidates: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    formula: str | None = field(default=None, repr=False)

    @property
    def channels(self) -> dict[str, float]:
        """Return the evidence of each channel that has some."""
        return {name: value for name in ("dense", "lexical") if (value := getattr(self, name)) is not None}

    def weigh(self, weights: Mapping[str, float]) -> float:
        """Return the evidence as one number: the strength of the best artifact, plus its lead.

        The lead corrects for questions that are near to everything, as the similarity of neighbourhoods does (Conneau
        et al., "Word translation without parallel data", ICLR 2018).

        Args:
            weights: The weight of each channel.

        Example:
            >>> Evidence(0.5, 0.5, ((0.5, 0.0), (0.25, 0.5), (0.0, 0.0))).weigh({"dense": 1.0, "lexical": 1.0})
            1.4444444444444444
        """
        strength, lead = self._split(weights)
        return strength + lead

    def describe(self, weights: Mapping[str, float], *, with_lead: bool = True) -> str:
        """Return the parts of the number in words.

        Args:
            weights: The weight of each channel.
            with_lead: Whether the lead is a part.

        Example:
            >>> Evidence(0.5, 0.5, ((0.5, 0.0), (0.25, 0.5), (0.0, 0.0))).describe({"dense": 1.0, "lexical": 1.0})
            'best cosine 0.500, best match of words 0.500, lead of the best artifact 0.694'
        """
        names = {"dense": "best cosine", "lexical": "best match of words"}
        parts = ", ".join(f"{names[channel]} {value:.3f}" for channel, value in self.channels.items())
        return f"{parts}, lead of the best artifact {self._split(weights)[1]:.3f}" if with_lead else parts

    def _split(self, weights: Mapping[str, float]) -> tuple[float, float]:
        """Return the strength of the best artifact, and its lead."""
        dense, lexical = weights.get("dense", 0.0), weights.get("lexical", 0.0)
        known = self.candidates or [(self.dense or 0.0, self.lexical or 0.0)]
        strengths = sorted((dense * cosine + lexical * match for cosine, match in known), reverse=True)
        # Up to ten, artifacts follow that have no match: a lone match must lead by all its strength, not by none.
        strengths += [dense * min(cosine for cosine, _ in known)] * CANDIDATES
        return strengths[0], strengths[0] - fmean(strengths[1:CANDIDATES])


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
    weights = {word: counts.weigh(word) * counts.repeats.get(word, 1) for word in counts.frequencies}
    length = math.sqrt(sum(weight**2 for weight in weights.values()))
    if not length:
        return 0.0
    left_out = own or {}
    known = sum(weight for word, weight in weights.items() if counts.frequencies[word] > left_out.get(word, 0))
    return score / length * known / sum(weights.values())


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
    cosines, matches, formula = _best_scores(dense), dict[str, float](), None
    if lexical is not None and counts is not None:
        per_score, formula = match_strength(1.0, counts), counts.formula
        # A match is in proportion to its score.
        matches = {artifact_id: score * per_score for artifact_id, score in _best_scores(lexical).items()}
    # An artifact that a channel does not list has at most the cosine of the last one that is listed, and no match.
    least = min(cosines.values(), default=0.0)
    return Evidence(
        None if dense is None else max(cosines.values(), default=0.0),
        None if formula is None else max(matches.values(), default=0.0),
        tuple((cosines.get(id, least), matches.get(id, 0.0)) for id in {**cosines, **matches}),
        formula,
    )


def _best_scores(ranking: Ranking | None) -> dict[str, float]:
    """Return the scores of the best artifacts of a ranking."""
    if ranking is None:
        return {}
    best: dict[str, float] = {}
    for artifact_id, score in zip(ranking.artifact_ids[:CANDIDATES], ranking.scores[:CANDIDATES].tolist(), strict=True):
        best.setdefault(artifact_id, score)  # of an artifact with several records, the best one counts
    return best


async def find_evidence(
    corpus: OpenCorpus,
    text: str,
    mode: Mode = "hybrid",
    **conditions: Any,
) -> Evidence:
    """Ask a corpus for the best artifacts of each channel, and return the evidence.

    For callers that have no rankings of the channels, such as a walk.

    Args:
        corpus: An open corpus.
        text: The question.
        mode: The mode, which decides on the channels.
        conditions: `filter`, `surfaces` and `contains`, as in `Rank`.

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
    channels = channels_of(mode)
    vector = partial(embed_text, corpus, text)
    found = await channel_rankings(corpus, channels, text, vector, CANDIDATES, per_artifact=True, **conditions)
    has_counts = "lexical" in channels and "words" in corpus.store.capabilities
    counts = await ask(corpus.store, Words([text])) if has_counts else None
    return evidence_of(**dict(zip(channels, found, strict=True)), counts=counts)

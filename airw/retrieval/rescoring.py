"""The second stage: what a reranker says of the candidates, and what a boost adds to the hits."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from airw._base.checks import check_number
from airw._base.concurrency import called, in_thread, map_bounded
from airw._base.messages import short_repr
from airw.errors import ArgumentKindError
from airw.protocols import OpenCorpus, Reranker
from airw.reranking import score_texts
from airw.retrieval.merging import Found
from airw.retrieval.question import Boost, PassageReader, Question
from airw.retrieval.stitching import stitched
from airw.values import Record, SearchHit

__all__ = ["boosted", "reranked"]

_READERS = 16  # at once


async def reranked(corpus: OpenCorpus, question: Question, found: Sequence[Found], reranker: Reranker) -> list[Found]:
    """Give candidates the reranker's scores, best first: ties stay in order, what is not a number comes last.

    Candidates of equal texts share one score.
    """
    texts = await _passages(corpus, question, [record for record, _ in found])
    distinct = list(dict.fromkeys(texts))
    scores = dict(zip(distinct, await score_texts(reranker, question.text, distinct), strict=True))
    moved = [_rescored(each, scores[text]) for each, text in zip(found, texts, strict=True)]
    return sorted(moved, key=lambda each: _place(each.candidate.score))


def _rescored(found: Found, score: float) -> Found:
    before = {**found.candidate.before, "retrieval_score": found.candidate.score}
    return found._replace(candidate=found.candidate._replace(score=score, before=before))


def _place(score: float) -> tuple[bool, float]:
    """Give what to sort by, for best first."""
    return (True, 0.0) if math.isnan(score) else (False, -score)


async def _passages(corpus: OpenCorpus, question: Question, records: Sequence[Record]) -> list[str]:
    """Give what a reranker reads of each record."""
    if callable(question.rerank_text):
        return await _read(corpus, question.rerank_text, records)
    if question.rerank_text == "surface":
        return [record.text for record in records]
    ids = list(dict.fromkeys(record.artifact_id for record in records))
    siblings = await corpus.store.records_of(ids)
    whole = dict(zip(ids, await in_thread(_joined, siblings, question.rerank_max_chars), strict=True))
    return [whole[record.artifact_id] or record.text for record in records]


def _joined(artifacts: Sequence[Sequence[Record] | None], most: int) -> list[str]:
    """Give the text of each artifact, cut; `""` for one without any, or that is gone since."""
    return [stitched([record for record in records or () if record.text])[:most] for records in artifacts]


async def _read(corpus: OpenCorpus, reader: PassageReader, records: Sequence[Record]) -> list[str]:
    async def read(record: Record) -> str:
        text: Any = await called(cast("Callable[[OpenCorpus, Record], Any]", reader), corpus, record)
        if not isinstance(text, str):
            raise ArgumentKindError(
                f"rerank_text must give a string, not {short_repr(text)} (for {short_repr(record.artifact_id)})"
            )
        return text

    return await map_bounded(read, records, limit=_READERS)


async def boosted(hits: Sequence[SearchHit], boost: Boost) -> list[SearchHit]:
    """Add to each hit's score what the boost gives for it, best first; ties stay in order.

    Raises:
        ArgumentError: It gives what is no finite number.
    """
    extras = await in_thread(lambda: [_extra(boost, hit) for hit in hits])
    moved = [replace(hit, score=hit.score + extra) for hit, extra in zip(hits, extras, strict=True)]
    return sorted(moved, key=lambda hit: _place(hit.score))


def _extra(boost: Boost, hit: SearchHit) -> float:
    return check_number(f"what boost gives for {short_repr(hit.artifact_id)}", boost(hit))

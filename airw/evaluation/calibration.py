"""The floor of a corpus's searches, found from cases of both kinds: with an answer, and without one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from airw._base.checks import check_number
from airw._base.concurrency import in_thread, map_bounded
from airw._base.messages import short_repr
from airw.corpora import CorpusLike, borrowed
from airw.errors import ArgumentKindError
from airw.evaluation.cases import DiscoveryCase
from airw.evaluation.floors import NOTHING, MinScoreCalibration, check_floors, check_keepable, separating_floor
from airw.protocols import OpenCorpus
from airw.reranking import is_anonymous
from airw.retrieval import Mode, Question, answer, ask
from airw.values import SearchHit

__all__ = ["calibrate_min_score", "load_calibration"]

_AT_ONCE = 8


async def calibrate_min_score(
    corpus: CorpusLike,
    cases: Sequence[DiscoveryCase],
    *,
    mode: Mode = "hybrid",
    k: int = 10,
    surfaces: Iterable[str] | None = None,
    sensitivity_weight: float = 0.5,
    floor_grid: Iterable[float] | None = None,
    persist: bool = False,
    **search_options: Any,
) -> MinScoreCalibration:
    """Find the score below which a search of a corpus should rather answer nothing.

    Every case is searched for once, several at a time. Those with an answer that the search finds should pass the
    floor, those without one should not; those whose answer is not found say nothing about a floor, and are counted.
    `separating_floor` finds the floor from the best scores. A search without evidence, in which no word and no
    direction is shared or the best score is 0, counts as below every floor: `discover` abstains there in any case.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        cases: Of both kinds: with an answer, and without one.
        mode: `"dense"`, `"lexical"` or `"hybrid"`; a floor holds for one of them.
        k: How many hits each search gives: the depth that an answer must be found in.
        surfaces: Search only surfaces of these kinds.
        sensitivity_weight: How much letting through counts against stopping, from 0 to 1.
        floor_grid: The floors to try; left out, all that make a difference.
        persist: Keep the floor, where there is one, with the corpus: `discover(…, min_score="auto")` finds it there.
        **search_options: Further options of `airw.search`; a floor is kept apart for each reranker and each fusion.

    Raises:
        ArgumentError: A parameter's value cannot be used, or the floor is to be kept and cannot be: the reranker has
            no name of its own, or an option moves scores off the scale of the mode.
        CorpusNotFound: There is no corpus of that name or at that path.
        StoreError: The floor cannot be written.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread"}
        ...     cases = [DiscoveryCase("signing keys", "a"), DiscoveryCase("a winter in Rome")]
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return await calibrate_min_score(corpus, cases, mode="dense")
        >>> found = anyio.run(main)
        >>> found.reason, found.youden_j, 0 < found.min_score < 1
        ('calibrated', 1.0, True)
    """
    question = ask("", k=k, mode=mode, surfaces=surfaces, **search_options)
    setting = await in_thread(_setting, question)
    if persist:
        check_keepable(setting["rerank"], setting["rescaled"])
    checked = _checked(cases)
    grid = None if floor_grid is None else check_floors(floor_grid)
    weight = check_number("sensitivity_weight", sensitivity_weight, least=0, most=1)
    measure = partial(separating_floor, sensitivity_weight=weight, floor_grid=grid)
    async with borrowed(corpus) as opened:
        positives, negatives, missed = await _best_scores(opened, question, checked)
        found = await in_thread(measure, positives, negatives)
        context = {"n_retrieval_miss": missed, "corpus_name": opened.name, "embedder_id": opened.embedder.id, **setting}
        found = replace(found, **context)
        if persist and found.min_score is not None:
            await found.save(opened)
    return found


async def load_calibration(
    corpus: CorpusLike, mode: Mode = "hybrid", **search_options: Any
) -> MinScoreCalibration | None:
    """Give the calibration that a corpus keeps for a way of searching, or `None`.

    It says which embedder it holds for; `discover(…, min_score="auto")` uses no floor of another one.

    Args:
        corpus: An open corpus, or a name or path, which is opened and closed again.
        mode: The mode of the search.
        **search_options: Further options of `airw.search`, of which `rerank`, `rerank_text`, `rerank_max_chars`,
            `fusion`, `rrf_k`, `alpha` and `bm25_sat_k` tell calibrations apart.

    Raises:
        ArgumentError: A parameter's value cannot be used.
        CorpusNotFound: There is no corpus of that name or at that path.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     async with build(from_mapping({}, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         await MinScoreCalibration(0.25, mode="dense").save(corpus)
        ...         return (await load_calibration(corpus, "dense")).min_score, await load_calibration(corpus, "hybrid")
        >>> anyio.run(main)
        (0.25, None)
    """
    setting = await in_thread(_setting, ask("", mode=mode, **search_options))
    if setting["rescaled"] or is_anonymous(setting["rerank"]):
        return None
    async with borrowed(corpus) as opened:
        record = await opened.store.calibration(setting["key"])
    if not record or any(record.get(name) != setting[name] for name in ("mode", "rerank")):
        return None
    return MinScoreCalibration.from_dict(record)


def _setting(question: Question) -> dict[str, Any]:
    """Give what a calibration says of the searches that it holds for."""
    key, tag = question.scale()
    return {"mode": question.mode, "k": question.k, "rerank": tag, "key": key, "rescaled": question.rescaled}


def _checked(cases: Iterable[object]) -> list[DiscoveryCase]:
    checked = list(cases)
    for case in checked:
        if not isinstance(case, DiscoveryCase):
            raise ArgumentKindError(f"cases must be DiscoveryCases, as load_cases gives, not {short_repr(case)}")
    return cast("list[DiscoveryCase]", checked)


async def _best_scores(
    corpus: OpenCorpus, question: Question, cases: Sequence[DiscoveryCase]
) -> tuple[list[float], list[float], int]:
    """Give the best score of each case that was found, and of each without an answer; and count the others."""
    answered = [case for case in cases if not case.gold_is_none]

    async def search(case: DiscoveryCase) -> tuple[float, set[str]]:
        hits = await answer(corpus, replace(question, text=case.query))
        return _best(hits, question), {hit.artifact_id for hit in hits}.intersection(case.gold)

    results = await map_bounded(search, cases, limit=_AT_ONCE)
    pairs = list(zip(cases, results, strict=True))
    positives = [best for _, (best, found) in pairs if found]
    negatives = [best for case, (best, _) in pairs if case.gold_is_none]
    return positives, negatives, len(answered) - len(positives)


def _best(hits: Sequence[SearchHit], question: Question) -> float:
    """Give the best score; of a search that `discover` and `select` take for one without evidence, `NOTHING`."""
    return hits[0].score if question.has_evidence(hits) and hits[0].score != 0 else NOTHING

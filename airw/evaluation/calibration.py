"""The score below which a search should rather answer nothing: found from cases of both kinds, told and kept."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import pairwise
from typing import Any, Self, cast

from airw._base.checks import check_number, name_missing_method
from airw._base.concurrency import in_thread, map_bounded
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.corpora import CorpusLike, use_corpus
from airw.errors import ArgumentError, ArgumentKindError
from airw.evaluation.cases import DiscoveryCase
from airw.protocols import OpenCorpus, RecordReader, RecordWriter, SearchStore
from airw.reranking import is_anonymous
from airw.retrieval import Mode, SearchOptions, SearchQuery, run_search
from airw.values import SearchHit

NOTHING = -math.inf
"""The best score of a search that abstains whatever the floor is."""


@dataclass(frozen=True, slots=True)
class MinScoreCalibration:
    """A floor for the best score of a search: what it was found from, and how well it tells the two kinds apart.

    The floor holds for one corpus, embedder and way to rank, which it names. A search whose best score is at least
    the floor answers; one below it abstains.

    Args:
        min_score: The floor; `None` when there is none, and `reason` says why.
        reason: `"calibrated"`, or what was missing: `"no_cases"`, `"no_positive_cases"`, `"no_abstention_cases"`.
        sensitivity: The share of the queries with an answer that the floor lets through.
        specificity: The share of the queries without one that it stops.
        youden_j: The sum of both, less one: 1 tells them apart without fail, 0 not at all.
        balanced_accuracy: The mean of both.
        separable: Whether some floor tells them apart without fail.
        sensitivity_weight: How much sensitivity counted against specificity, from 0 to 1.
        n_positive: The queries with an answer that the search found; the floor is measured on them.
        n_abstention: The queries without an answer; the floor is measured on them too.
        n_retrieval_miss: The queries with an answer that the search did not find; left out.
        positive_scores: `min`, `median` and `max` of the best scores of the first, where they are finite.
        abstention_scores: The same of the second.
        grid: Each floor that was tried, rising unless given otherwise: `min_score`, `sensitivity`, `specificity` and
            `youden_j`.
        corpus_name: The corpus.
        mode: How it was ranked.
        k: How many hits each search gave.
        embedder_id: The corpus's embedder; with another one the floor means nothing.
        rerank: The identity of the reranker whose scores these are; `None` without one.
        key: What the corpus keeps it under; left out, the mode.
        rescaled: What moved the scores off the scale of the mode; such a floor is not kept.

    Example:
        >>> print(separating_floor([0.8, 0.6], [0.2, 0.4]).min_score)
        0.5
    """

    min_score: float | None
    reason: str = "calibrated"
    sensitivity: float | None = None
    specificity: float | None = None
    youden_j: float | None = None
    balanced_accuracy: float | None = None
    separable: bool = False
    sensitivity_weight: float = 0.5
    n_positive: int = 0
    n_abstention: int = 0
    n_retrieval_miss: int = 0
    positive_scores: Mapping[str, float] = field(default_factory=dict)
    abstention_scores: Mapping[str, float] = field(default_factory=dict)
    grid: Sequence[Mapping[str, float]] = field(default=(), repr=False)
    corpus_name: str = ""
    mode: str = "hybrid"
    k: int = 10
    embedder_id: str | None = None
    rerank: str | None = None
    key: str = ""
    rescaled: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Fill in the key."""
        object.__setattr__(self, "key", self.key or self.mode)

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as JSON can say it."""
        values: dict[str, Any] = json_clean({each.name: getattr(self, each.name) for each in fields(self)})
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make one of what `to_dict` gives; what is missing is as in a new one, what is unknown is left out.

        Raises:
            ArgumentError: There is no `min_score`.
        """
        if "min_score" not in values:
            raise ArgumentError(f"a calibration holds a min_score, perhaps null: {short_repr(values)} does not")
        known: dict[str, Any] = {each.name: values[each.name] for each in fields(cls) if each.name in values}
        lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        return cls(**{**known, **lists})

    async def save(self, corpus: CorpusLike[RecordWriter]) -> Self:
        """Keep it with a corpus, in place of what was kept for the same way of searching, and give it back.

        Raises:
            ArgumentError: Its reranker has no name of its own, or an option moved the scores off their scale.
            StoreError: It cannot be written.
        """
        check_keepable(self.rerank, self.rescaled)
        async with use_corpus(corpus) as opened:
            with name_missing_method("save", opened.store):
                await opened.store.set_calibration(self.key, self.to_dict())
        return self

    def __str__(self) -> str:
        reranked = f", reranked by {self.rerank}" if self.rerank else ""
        apart = ", perfectly separable" if self.separable else ""
        return (
            f"floor: {_number(self.min_score)} ({self.reason.replace('_', ' ')}) for {self.mode} search "
            f"of {self.corpus_name!r}{reranked}, k={self.k}\n"
            f"with an answer: {self.n_positive} cases, best scores {_span(self.positive_scores)}; "
            f"{self.n_retrieval_miss} more were not found\n"
            f"without one: {self.n_abstention} cases, best scores {_span(self.abstention_scores)}\n"
            f"sensitivity {_number(self.sensitivity)}, specificity {_number(self.specificity)}, "
            f"Youden's J {_number(self.youden_j)}{apart}, weight {self.sensitivity_weight:g}"
        )


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def _span(scores: Mapping[str, float]) -> str:
    return f"{scores['min']:.4f} to {scores['max']:.4f}" if scores else "none"


def separating_floor(
    positives: Sequence[float],
    negatives: Sequence[float],
    *,
    sensitivity_weight: float = 0.5,
    floor_grid: Iterable[float] | None = None,
) -> MinScoreCalibration:
    """Find the floor that best tells two sets of scores apart, and measure it; pure.

    The best floor has the greatest `w * sensitivity + (1 - w) * specificity`; of equal ones the highest, as a wrong
    answer costs more than none. Sensitivity is the share of the positives at or above it, specificity that of the
    negatives below it: Youden, Index for rating diagnostic tests, 1950. NaN and minus infinity are below every floor.

    Args:
        positives: The scores to let through.
        negatives: The scores to stop.
        sensitivity_weight: `w`, from 0 to 1.
        floor_grid: The floors to try; left out, the midpoints of neighbouring scores, one below all and one above
            all: between two neighbours every floor does the same, so none is missed.

    Raises:
        ArgumentError: The weight is not from 0 to 1, or the grid holds no floor or one that is no finite number.

    Example:
        >>> found = separating_floor([0.9, 0.7, 0.3], [0.1, 0.4])
        >>> found.min_score, round(found.sensitivity, 2), found.specificity
        (0.55, 0.67, 1.0)
    """
    weight = check_number("sensitivity_weight", sensitivity_weight, least=0, most=1)
    given = None if floor_grid is None else check_floors(floor_grid)
    positive, negative = _rising(positives), _rising(negatives)
    counted = MinScoreCalibration(
        None,
        _reason(positive, negative),
        sensitivity_weight=weight,
        n_positive=len(positive),
        n_abstention=len(negative),
        positive_scores=_summary(positive),
        abstention_scores=_summary(negative),
    )
    if counted.reason != "calibrated":
        return counted
    grid = _measured(_between([*positive, *negative]) if given is None else given, positive, negative)
    best = max(grid, key=lambda at: (_objective(at, weight), at["min_score"]))
    return replace(
        counted,
        min_score=best["min_score"],
        sensitivity=best["sensitivity"],
        specificity=best["specificity"],
        youden_j=best["youden_j"],
        balanced_accuracy=(best["sensitivity"] + best["specificity"]) / 2,
        separable=any(at["youden_j"] >= 1 - 1e-9 for at in grid),
        grid=tuple(grid),
    )


def check_keepable(tag: str | None, rescaled: Sequence[str]) -> None:
    """Let a floor be kept only where a later search can be told to be of the same kind.

    Raises:
        ArgumentError: Its reranker has no name of its own, or an option moved the scores off their scale.
    """
    if is_anonymous(tag):
        raise ArgumentError("a floor is kept by the name of its reranker, and this one has none: give it an `id`")
    if rescaled:
        raise ArgumentError(
            f"{' and '.join(rescaled)} moves scores off the scale that a floor is kept for: "
            "pass the floor on as min_score instead"
        )


def check_floors(grid: Iterable[object]) -> list[float]:
    """Give floors as numbers when each of them is finite, and there is one.

    Raises:
        ArgumentError: One is not, or there is none.
    """
    floors = [check_number("a floor of floor_grid", floor) for floor in grid]
    if not floors:
        raise ArgumentError("floor_grid holds no floor; None tries those between the scores")
    return floors


def _rising(scores: Sequence[float]) -> list[float]:
    return sorted(NOTHING if math.isnan(score) else float(score) for score in scores)


def _reason(positive: Sequence[float], negative: Sequence[float]) -> str:
    if positive and negative:
        return "calibrated"
    return "no_abstention_cases" if positive else "no_positive_cases" if negative else "no_cases"


def _summary(scores: Sequence[float]) -> dict[str, float]:
    finite = [score for score in scores if math.isfinite(score)]
    if not finite:
        return {}
    median = (finite[(len(finite) - 1) // 2] + finite[len(finite) // 2]) / 2
    return {"min": finite[0], "median": median, "max": finite[-1]}


def _between(scores: Iterable[float]) -> list[float]:
    """Give a floor between any two neighbouring scores, one below all of them, and one above."""
    distinct = sorted({score for score in scores if math.isfinite(score)})
    if not distinct:
        return [0.0]
    low, high = distinct[0], distinct[-1]
    margin = (high - low) / len(distinct) if high > low else abs(low) * 0.5 + 1.0
    # Where no number lies between two scores, the upper one parts them: a score at the floor passes.
    middles = [middle if (middle := (lower + upper) / 2) > lower else upper for lower, upper in pairwise(distinct)]
    return [low - margin, *middles, max(high + margin, math.nextafter(high, math.inf))]


def _measured(floors: Sequence[float], positive: Sequence[float], negative: Sequence[float]) -> list[dict[str, float]]:
    """Measure each floor against two rising sets of scores."""
    grid = []
    for floor in floors:
        sensitivity = (len(positive) - bisect_left(positive, floor)) / len(positive)
        specificity = bisect_left(negative, floor) / len(negative)
        grid.append(
            {
                "min_score": floor,
                "sensitivity": sensitivity,
                "specificity": specificity,
                "youden_j": sensitivity + specificity - 1.0,
            }
        )
    return grid


def _objective(at: Mapping[str, float], weight: float) -> float:
    return weight * at["sensitivity"] + (1.0 - weight) * at["specificity"]


_AT_ONCE = 8


async def calibrate_min_score(
    corpus: CorpusLike[SearchStore],
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
    options = {"k": k, "mode": mode, "surfaces": surfaces, **search_options}
    query = SearchQuery.parse("calibrate_min_score", "", cast("SearchOptions", options))
    setting = await in_thread(_setting, query)
    if persist:
        check_keepable(setting["rerank"], setting["rescaled"])
    checked = _checked(cases)
    grid = None if floor_grid is None else check_floors(floor_grid)
    weight = check_number("sensitivity_weight", sensitivity_weight, least=0, most=1)
    measure = partial(separating_floor, sensitivity_weight=weight, floor_grid=grid)
    async with use_corpus(corpus) as opened:
        positives, negatives, missed = await _best_scores(opened, query, checked)
        found = await in_thread(measure, positives, negatives)
        context = {"n_retrieval_miss": missed, "corpus_name": opened.name, "embedder_id": opened.embedder.id, **setting}
        found = replace(found, **context)
        if persist and found.min_score is not None:
            await found.save(cast("OpenCorpus[RecordWriter]", opened))
    return found


async def load_calibration(
    corpus: CorpusLike[RecordReader], mode: Mode = "hybrid", **search_options: Any
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
    options = cast("SearchOptions", {"mode": mode, **search_options})
    setting = await in_thread(_setting, SearchQuery.parse("load_calibration", "", options))
    if setting["rescaled"] or is_anonymous(setting["rerank"]):
        return None
    async with use_corpus(corpus) as opened:
        with name_missing_method("load_calibration", opened.store):
            record = await opened.store.calibration(setting["key"])
    if not record or any(record.get(name) != setting[name] for name in ("mode", "rerank")):
        return None
    return MinScoreCalibration.from_dict(record)


def _setting(query: SearchQuery) -> dict[str, Any]:
    """Give what a calibration says of the searches that it holds for."""
    key, tag = query.scale()
    return {"mode": query.mode, "k": query.k, "rerank": tag, "key": key, "rescaled": query.rescaling_options}


def _checked(cases: Iterable[object]) -> list[DiscoveryCase]:
    checked = list(cases)
    for case in checked:
        if not isinstance(case, DiscoveryCase):
            raise ArgumentKindError(f"cases must be DiscoveryCases, as load_cases gives, not {short_repr(case)}")
    return cast("list[DiscoveryCase]", checked)


async def _best_scores(
    corpus: OpenCorpus[SearchStore], query: SearchQuery, cases: Sequence[DiscoveryCase]
) -> tuple[list[float], list[float], int]:
    """Give the best score of each case that was found, and of each without an answer; and count the others."""
    answered = [case for case in cases if not case.gold_is_none]

    async def search(case: DiscoveryCase) -> tuple[float, set[str]]:
        hits = await run_search(corpus, replace(query, text=case.query))
        return _best(hits, query), {hit.artifact_id for hit in hits}.intersection(case.gold)

    results = await map_bounded(search, cases, limit=_AT_ONCE)
    pairs = list(zip(cases, results, strict=True))
    positives = [best for _, (best, found) in pairs if found]
    negatives = [best for case, (best, _) in pairs if case.gold_is_none]
    return positives, negatives, len(answered) - len(positives)


def _best(hits: Sequence[SearchHit], query: SearchQuery) -> float:
    """Give the best score; of a search that `discover` and `select` take for one without evidence, `NOTHING`."""
    return hits[0].score if query.has_evidence(hits) and hits[0].score != 0 else NOTHING

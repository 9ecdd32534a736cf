"""Calibration of the floor: the evidence or the score below which a search should abstain.

The floor comes from cases of two kinds: queries with an answer in the corpus and queries without one.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, Self, TypeAlias, cast

from airw._base.checks import check_choice, check_number
from airw._base.concurrency import in_thread, map_bounded
from airw._base.json import fields_to_json
from airw._base.messages import short_repr
from airw.corpora import CorpusLike, use_corpus
from airw.errors import ArgumentError
from airw.evaluation.abstention import area_under_roc
from airw.evaluation.cases import DiscoveryCase, check_cases
from airw.protocols import Calibrations, Change, OpenCorpus, Words, ask
from airw.reranking import is_anonymous
from airw.retrieval import Mode, SearchOptions, SearchQuery, run_search
from airw.retrieval.evidence import evidence_weights, find_evidence
from airw.retrieval.query import with_fusion

FloorSignal: TypeAlias = Literal["evidence", "score"]

NO_EVIDENCE = -math.inf
"""The signal of a search without evidence: it is below every floor, so the search abstains."""

_MAX_SEARCHES = 8  # at once
_LEAST_CASES = 10  # of each kind; with fewer, the distribution of the test is not normal
_DEVIATIONS = 1.645  # of a normal distribution, 5 % is higher


@dataclass(frozen=True, slots=True)
class MinScoreCalibration:
    """A calibrated floor for a signal of a search, and how well it separates the cases.

    The floor is valid for one corpus, one embedder, one formula of BM25 and one way of ranking, which the fields name.
    A search whose signal is at least the floor answers; a search below the floor abstains. *Positive* cases are queries
    with an answer that the search finds, *abstention* cases are queries without an answer.

    Args:
        min_score: The floor; `None` if there is none, then `reason` explains why.
        reason: `"calibrated"`, or the missing cases: `"no_cases"`, `"no_positive_cases"`, `"no_abstention_cases"`; or
            `"inseparable"`: the signals of both kinds of cases differ no more than by chance.
        sensitivity: The share of positive cases at or above the floor.
        specificity: The share of abstention cases below the floor.
        youden_j: Sensitivity plus specificity minus 1: 1 is a perfect separation, 0 is none.
        balanced_accuracy: The mean of sensitivity and specificity.
        separable: True if some floor separates all positive from all abstention cases.
        sensitivity_weight: The weight of sensitivity against specificity, from 0 to 1.
        n_positive: The number of positive cases.
        n_abstention: The number of abstention cases.
        n_retrieval_miss: The number of cases with an answer that the search did not find; they are not measured.
        positive_scores: `min`, `median` and `max` of the finite signals of positive cases.
        abstention_scores: The same for abstention cases.
        grid: The floors that were tried, each with `min_score`, `sensitivity`, `specificity` and `youden_j`; ascending,
            or in the order of `floor_grid`.
        corpus_name: The name of the corpus.
        mode: The mode of the searches.
        k: The number of hits of each search.
        embedder_id: The id of the corpus's embedder; the floor is meaningless with another one.
        rerank: The tag of the reranker whose scores these are; `None` without one.
        key: The key that the corpus stores the calibration under; by default the mode.
        rescaled: The options that moved scores off the scale of the mode; such a floor cannot be stored.
        signal: What the floor applies to: `"evidence"`, or `"score"`, the best score.
        weights: The weight of each channel in the evidence.
        formula: The id of the formula of BM25; `None` if the store does not tell.
        auc: The probability that a positive case has a higher signal than an abstention case.

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
    signal: FloorSignal = "score"
    weights: Mapping[str, float] = field(default_factory=dict)
    formula: str | None = None
    auc: float | None = None

    def __post_init__(self) -> None:
        """Fill in the key."""
        object.__setattr__(self, "key", self.key or self.mode)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return fields_to_json(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a calibration from the values of `to_dict`.

        Missing fields get their defaults; unknown fields are ignored.

        Raises:
            ArgumentError: If there is no `min_score`.
        """
        if "min_score" not in values:
            raise ArgumentError(f"a calibration needs a min_score, which may be null: {short_repr(values)} has none")
        arguments: dict[str, Any] = {item.name: values[item.name] for item in fields(cls) if item.name in values}
        tuples = {name: tuple(value) for name, value in arguments.items() if isinstance(value, list)}
        return cls(**{**arguments, **tuples})

    async def save(self, corpus: CorpusLike) -> Self:
        """Store the calibration in a corpus and return it.

        It replaces an earlier calibration with the same key. `discover(..., min_score="auto")` uses it.

        Raises:
            ArgumentError: If the reranker has no name, or an option moved the scores off their scale.
            StoreError: If it cannot be written.
        """
        check_storable(self.rerank, self.rescaled)
        async with use_corpus(corpus) as opened:
            await opened.store.apply(Change(calibrations={self.key: self.to_dict()}))
        return self

    def __str__(self) -> str:
        reranker = f", reranked by {self.rerank}" if self.rerank else ""
        best = "evidence" if self.signal == "evidence" else "best scores"
        separability = ", perfectly separable" if self.separable else ""
        return (
            f"floor: {_number(self.min_score)} ({self.reason.replace('_', ' ')}) for {self.mode} search "
            f"of {self.corpus_name!r}{reranker}, k={self.k}\n"
            f"with an answer: {self.n_positive} cases, {best} {_span(self.positive_scores)}; "
            f"{self.n_retrieval_miss} more were not found\n"
            f"without one: {self.n_abstention} cases, {best} {_span(self.abstention_scores)}\n"
            f"sensitivity {_number(self.sensitivity)}, specificity {_number(self.specificity)}, "
            f"Youden's J {_number(self.youden_j)}{separability}, weight {self.sensitivity_weight:g}"
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
    """Find the floor that best separates two sets of scores, and measure it.

    The best floor has the largest `w * sensitivity + (1 - w) * specificity`. Among equal floors the highest one wins,
    because a wrong answer costs more than no answer. Sensitivity is the share of positives at or above the floor,
    specificity the share of negatives below it. With equal weights the best floor has the largest Youden's J and the
    largest balanced accuracy. J is `sensitivity + specificity - 1` (Youden, "Index for rating diagnostic tests",
    Cancer, 1950); balanced accuracy is their mean. NaN and minus infinity are below every floor.

    Args:
        positives: The scores that should pass the floor.
        negatives: The scores that should not pass it.
        sensitivity_weight: `w`, from 0 to 1.
        floor_grid: The floors to try. By default one floor between any two neighbouring scores, one below all of them
            and one above. No better floor exists: all floors between two neighbours let the same scores pass.

    Raises:
        ArgumentError: If the weight is not from 0 to 1, or the grid is empty or contains something else than finite
            numbers.

    Example:
        >>> calibration = separating_floor([0.9, 0.7, 0.3], [0.1, 0.4])
        >>> calibration.min_score, round(calibration.sensitivity, 2), calibration.specificity
        (0.55, 0.67, 1.0)
    """
    weight = check_number("sensitivity_weight", sensitivity_weight, least=0, most=1)
    chosen_floors = None if floor_grid is None else check_floors(floor_grid)
    positive, negative = _sort_scores(positives), _sort_scores(negatives)
    counts = MinScoreCalibration(
        None,
        _reason(positive, negative),
        sensitivity_weight=weight,
        n_positive=len(positive),
        n_abstention=len(negative),
        positive_scores=_summary(positive),
        abstention_scores=_summary(negative),
    )
    # Without cases of both kinds there is nothing to separate.
    if counts.reason != "calibrated":
        return counts
    floors = _floors_between([*positive, *negative]) if chosen_floors is None else chosen_floors
    grid = _measure_floors(floors, positive, negative)
    # The second part of the key prefers the higher of two floors that separate equally well.
    best = max(grid, key=lambda row: (_objective(row, weight), row["min_score"]))
    return replace(
        counts,
        min_score=best["min_score"],
        sensitivity=best["sensitivity"],
        specificity=best["specificity"],
        youden_j=best["youden_j"],
        balanced_accuracy=(best["sensitivity"] + best["specificity"]) / 2,
        auc=area_under_roc(positive, negative),
        separable=any(row["youden_j"] >= 1 - 1e-9 for row in grid),
        grid=tuple(grid),
    )


def check_storable(tag: str | None, rescaled: Sequence[str]) -> None:
    """Raise unless a later search can find out that the floor fits its scores.

    Raises:
        ArgumentError: If the reranker has no name, or an option moved the scores off their scale.
    """
    if is_anonymous(tag):
        raise ArgumentError(
            "rerank has no name, and a floor is stored under the reranker's name: add an attribute `id` to it"
        )
    if rescaled:
        raise ArgumentError(
            f"{' and '.join(rescaled)} {'moves' if len(rescaled) == 1 else 'move'} scores off the scale that stored "
            "floors are for: pass the floor as min_score instead of storing it"
        )


def check_floors(grid: Iterable[object]) -> list[float]:
    """Return the floors as floats.

    Raises:
        ArgumentError: If there is no floor, or one is not a finite number.
    """
    floors = [check_number("a floor of floor_grid", floor) for floor in grid]
    if not floors:
        raise ArgumentError("floor_grid must contain at least one floor; None tries floors between the scores")
    return floors


def _sort_scores(scores: Sequence[float]) -> list[float]:
    return sorted(NO_EVIDENCE if math.isnan(score) else float(score) for score in scores)


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


def _floors_between(scores: Iterable[float]) -> list[float]:
    """Return a floor between any two neighbouring scores, one below all of them and one above."""
    distinct = sorted({score for score in scores if math.isfinite(score)})
    if not distinct:
        return [0.0]
    low, high = distinct[0], distinct[-1]
    margin = (high - low) / len(distinct) if high > low else abs(low) * 0.5 + 1.0
    # If no float lies between two scores, the upper one separates them: a score at the floor passes.
    middles = [middle if (middle := (lower + upper) / 2) > lower else upper for lower, upper in pairwise(distinct)]
    # The margin may vanish beside a huge score, so step to the next float at least.
    return [low - margin, *middles, max(high + margin, math.nextafter(high, math.inf))]


def _measure_floors(
    floors: Sequence[float], positive: Sequence[float], negative: Sequence[float]
) -> list[dict[str, float]]:
    """Measure each floor against two sorted lists of scores."""
    grid = []
    for floor in floors:
        # Sorted scores: the index of the floor is the number of scores below it.
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


def _objective(row: Mapping[str, float], weight: float) -> float:
    return weight * row["sensitivity"] + (1.0 - weight) * row["specificity"]


async def calibrate_min_score(
    corpus: CorpusLike,
    cases: Sequence[DiscoveryCase],
    *,
    mode: Mode = "hybrid",
    k: int = 10,
    surfaces: Iterable[str] | None = None,
    signal: FloorSignal | None = None,
    sensitivity_weight: float = 0.5,
    floor_grid: Iterable[float] | None = None,
    persist: bool = False,
    **search_options: Any,
) -> MinScoreCalibration:
    """Find the floor below which a search of a corpus should abstain.

    Each case is searched for once, several at a time; `separating_floor` then finds the floor from the signals. A case
    with an answer that the search finds should pass the floor, a case without an answer should not. A case whose answer
    the search does not find is only counted, because no floor can help there. A search without evidence (no word in
    common, all cosines 0, or a best score of 0) counts as below every floor: `discover` always abstains then.

    The signal is the evidence: how strong the best artifact is in both channels together, plus how far it leads. On
    twelve sets it separates better than any score (docs/finding.md). With a reranker the signal is its best score.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        cases: Cases of both kinds: with an answer and without one.
        mode: `"dense"`, `"lexical"` or `"hybrid"`; a floor is valid for one mode.
        k: The number of hits of each search; the answer must be among them.
        surfaces: Search only surfaces of these kinds.
        signal: What the floor applies to. `"score"` is for a floor that you pass as a number: to `discover`, or to
            `select`. By default `"evidence"`; `"score"` with a reranker, or if the store cannot count words for BM25.
        sensitivity_weight: The weight of sensitivity against specificity, from 0 to 1; see `separating_floor`.
        floor_grid: The floors to try; by default all that make a difference.
        persist: Store the floor in the corpus, if one is found; `discover(…, min_score="auto")` then uses it.
        **search_options: Further options of `airw.search`. Each reranker has a stored floor of its own. So has each
            fusion, for scores; the evidence does not depend on the fusion.

    Returns:
        The calibration. Its `min_score` is `None` if there are no cases of one kind, or if the evidence of both kinds
        differs no more than by chance.

    Raises:
        ArgumentError: If a value cannot be used; with `persist`, also if the reranker has no name or an option moves
            scores off the scale of the mode.
        CorpusNotFound: If there is no corpus of that name or at that path.
        StoreError: If the floor cannot be written.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "bake a loaf of bread"}
        ...     cases = [DiscoveryCase("signing keys", "a"), DiscoveryCase("a winter in Rome")]
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return await calibrate_min_score(corpus, cases)
        >>> calibration = anyio.run(main)
        >>> calibration.reason, calibration.signal, calibration.youden_j
        ('calibrated', 'evidence', 1.0)
    """
    options = {"k": k, "mode": mode, "surfaces": surfaces, **with_fusion(search_options, "ranks")}
    query = SearchQuery.preset("calibrate_min_score", cast("SearchOptions", options))
    if signal is not None:
        check_choice("signal", signal, ("evidence", "score"))
    chosen: FloorSignal = signal or ("evidence" if query.rerank is None else "score")
    # Check this before all the searches run.
    if persist:
        setting = await in_thread(_describe_search, query, "", chosen)
        check_storable(setting["rerank"], setting["rescaled"])
    checked = check_cases(cases)
    grid = None if floor_grid is None else check_floors(floor_grid)
    weight = check_number("sensitivity_weight", sensitivity_weight, least=0, most=1)
    measure = partial(separating_floor, sensitivity_weight=weight, floor_grid=grid)
    async with use_corpus(corpus) as opened:
        formula = await _find_formula(opened, query)
        if chosen == "evidence" and formula is None and "lexical" in query.channels:
            if signal is not None:
                raise ArgumentError("signal='evidence' needs a store that counts words: pass 'score'")
            chosen = "score"
        weights = evidence_weights(query.mode, opened.embedder.id) if chosen == "evidence" else {}
        positives, negatives, missed = await _collect_signals(opened, query, weights, checked)
        calibration = await in_thread(measure, positives, negatives)
        if chosen == "evidence" and not _is_separated(calibration):
            calibration = replace(calibration, min_score=None, reason="inseparable")
        setting = await in_thread(_describe_search, query, opened.embedder.id, chosen)
        context = {"n_retrieval_miss": missed, "corpus_name": opened.name, "embedder_id": opened.embedder.id, **setting}
        calibration = replace(calibration, weights=weights, formula=formula, **context)
        if persist and calibration.min_score is not None:
            await calibration.save(opened)
    return calibration


def _is_separated(calibration: MinScoreCalibration) -> bool:
    """Return whether the signals differ by more than chance; true for too few cases.

    The floor of signals that do not differ is a matter of luck, and may turn all questions away. The test is that of
    Mann and Whitney, "On a test of whether one of two random variables is stochastically larger", 1947.
    """
    n, m = calibration.n_positive, calibration.n_abstention
    if calibration.auc is None or min(n, m) < _LEAST_CASES:
        return True
    return calibration.auc - 0.5 > _DEVIATIONS * math.sqrt((n + m + 1) / (12 * n * m))


async def _find_formula(corpus: OpenCorpus, query: SearchQuery) -> str | None:
    """Return the formula of the BM25 scores of a search; `None` if it is not known."""
    if "lexical" not in query.channels or "words" not in corpus.store.capabilities:
        return None
    return (await ask(corpus.store, Words([""]))).formula


async def load_calibration(
    corpus: CorpusLike, mode: Mode = "hybrid", **search_options: Any
) -> MinScoreCalibration | None:
    """Return the stored calibration for a kind of search, or `None` if there is none.

    Compare its `embedder_id` with the corpus's embedder: `discover(…, min_score="auto")` ignores a floor of another
    embedder.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        mode: The mode of the search.
        **search_options: Further options of `airw.search`. `rerank`, `rerank_text`, `rerank_max_chars`, `fusion`,
            `rrf_k`, `alpha` and `bm25_sat_k` select the calibration.

    Raises:
        ArgumentError: If a value cannot be used.
        CorpusNotFound: If there is no corpus of that name or at that path.

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
    options = cast("SearchOptions", {"mode": mode, **with_fusion(search_options, "ranks")})
    query = SearchQuery.preset("load_calibration", options)
    async with use_corpus(corpus) as opened:
        setting = await in_thread(_describe_search, query, opened.embedder.id, "score")
        if is_anonymous(setting["rerank"]):
            return None
        records = await ask(opened.store, Calibrations())
    record = records.get(query.mode, {})
    if setting["rerank"] is not None or record.get("signal") != "evidence":
        record = records.get(setting["key"], {})
    if not record or any(record.get(name) != setting[name] for name in ("mode", "rerank")):
        return None
    if setting["rescaled"] and record.get("signal") != "evidence":
        return None
    return MinScoreCalibration.from_dict(record)


def _describe_search(query: SearchQuery, embedder_id: str, signal: FloorSignal) -> dict[str, Any]:
    """Return the fields of a calibration that describe its searches."""
    key, tag = query.scale(embedder_id)
    rescaled = query.rescaling_options
    # The evidence does not depend on the fusion, and is weighed before anything moves scores.
    if signal == "evidence" and tag is None:
        key, rescaled = query.mode, ()
    return {"mode": query.mode, "k": query.k, "rerank": tag, "key": key, "rescaled": rescaled, "signal": signal}


async def _collect_signals(
    corpus: OpenCorpus,
    query: SearchQuery,
    weights: Mapping[str, float],
    cases: Sequence[DiscoveryCase],
) -> tuple[list[float], list[float], int]:
    """Search for each case and sort the signals by the kind of the case.

    Returns:
        The signals of positive cases, those of abstention cases, and the number of cases whose answer was missed.
    """
    n_with_answer = sum(not case.gold_is_none for case in cases)

    async def search(case: DiscoveryCase) -> tuple[float, set[str]]:
        asked = query.with_text(case.query)
        hits = await run_search(corpus, asked)
        signal = hits[0].score if any(map(query.has_evidence, hits)) and hits[0].score != 0 else NO_EVIDENCE
        if weights and signal != NO_EVIDENCE:
            evidence = await find_evidence(corpus, asked.text, asked.mode, **asked.conditions)
            signal = evidence.weigh(weights) if evidence.channels.keys() >= weights.keys() else NO_EVIDENCE
        return signal, {hit.artifact_id for hit in hits}.intersection(case.gold)

    results = await map_bounded(search, cases, limit=_MAX_SEARCHES)
    pairs = list(zip(cases, results, strict=True))
    positives = [signal for _, (signal, gold_hits) in pairs if gold_hits]
    negatives = [signal for case, (signal, _) in pairs if case.gold_is_none]
    return positives, negatives, n_with_answer - len(positives)

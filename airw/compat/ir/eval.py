"""Evaluation: cases, reports, sweeps, curves, graded cases, and the calibration of floors."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from airw import evaluation
from airw.compat._sync import run, to_async
from airw.compat.ir.index import build, open_corpus, to_airw
from airw.compat.ir.retrieve import DFLT_RERANK_MAX_CHARS as DFLT_RERANK_MAX_CHARS
from airw.compat.ir.retrieve import search, to_airw_options
from airw.compat.ir.select import DFLT_GAP_RATIO as DFLT_GAP_RATIO
from airw.compat.ir.select import DFLT_MAX_K as DFLT_MAX_K
from airw.compat.ir.select import DFLT_REL_THRESHOLD as DFLT_REL_THRESHOLD
from airw.compat.ir.sources import CorpusSource
from airw.compat.ir.store import CorpusStore
from airw.corpora import use_store
from airw.errors import ArgumentError
from airw.evaluation import LEVEL_GAINS as LEVEL_GAINS
from airw.evaluation import RELEVANCE_LEVELS as RELEVANCE_LEVELS
from airw.evaluation import DiscoveryCase as DiscoveryCase
from airw.evaluation import MinScoreCalibration as MinScoreCalibration
from airw.evaluation import NamedSetReport as NamedSetReport
from airw.evaluation import NamedSets as NamedSets
from airw.evaluation import SelectionGridPoint as SelectionGridPoint
from airw.evaluation import SelectionReport as SelectionReport
from airw.evaluation import derive_named_sets as derive_named_sets
from airw.evaluation import load_cases as load_cases
from airw.evaluation import save_cases as save_cases
from airw.evaluation import score_ranking as score_ranking
from airw.evaluation import to_graded_qrels as to_graded_qrels
from airw.evaluation import to_qrels as to_qrels

PackageRelevanceCase = evaluation.GradedCase
ComparisonReport = evaluation.IndexingComparison
level_histogram: Final = evaluation.count_levels
load_package_cases: Final = evaluation.load_graded_cases
read_package_meta: Final = evaluation.read_case_meta
save_package_cases: Final = evaluation.save_graded_cases

DFLT_K_VALUES = (1, 5, 10)
DFLT_METRICS = ("ndcg", "recall", "precision", "mrr", "map")
DFLT_MODE = "hybrid"
DFLT_DISTRACTOR_SIZES = evaluation.DISTRACTOR_SIZES
DFLT_CURVE_MODE = "dense"
DFLT_CURVE_EMBEDDER = "light"
DFLT_SWEEP_MAX_K = (1, 2, 3, 5, 8)
DFLT_SWEEP_REL = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DFLT_SWEEP_MIN_SCORE = (None,)
DFLT_SWEEP_OBJECTIVE = "selection_f1"
SWEEP_METRICS = evaluation.SWEEP_MEASURES
DFLT_CALIB_SENSITIVITY_WEIGHT = 0.5
_FUSION = {"fusion": "rrf", "alpha": 0.5}


@dataclass(frozen=True)
class RetrievalEvalReport:
    """The measures of rankings: their means, and those of each query.

    Example:
        >>> RetrievalEvalReport({"ndcg@10": 0.5}, {}, 2, (10,)).primary
        0.5
    """

    metrics: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]
    n_queries: int
    k_values: tuple[int, ...]
    distractor_hits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def primary(self) -> float | None:
        """Return the mean nDCG of the first 10; `None` if it was not measured."""
        return self.primary_at(10)

    def primary_at(self, k: int) -> float | None:
        """Return the mean nDCG of the first `k`; `None` if it was not measured."""
        return self.metrics.get(f"ndcg@{k}")

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.n_queries} queries", *(f"  {key}: {value:.4f}" for key, value in self.metrics.items())]
        )


@dataclass(frozen=True)
class DiscoveryReport:
    """The measures of rankings, and what became of each case."""

    retrieval: RetrievalEvalReport
    failure_classes: Mapping[str, int]
    n_cases: int
    n_gold: int
    n_abstention: int
    primary_k: int = 10
    abstention_accuracy: float | None = None
    mode: str = DFLT_MODE
    vd_degraded: bool = False

    @property
    def primary(self) -> float | None:
        """Return the mean nDCG of the first `primary_k`; `None` if it was not measured."""
        return self.retrieval.primary_at(self.primary_k)

    def __str__(self) -> str:
        classes = ", ".join(f"{name} {count}" for name, count in self.failure_classes.items())
        return f"{self.n_cases} cases, {self.mode} search, {self.retrieval}\n{classes}"


class SelectionSweep(evaluation.SelectionSweep):
    """A sweep with the counts of its cases."""

    __slots__ = ()

    def _count(self, name: str) -> int:
        return int(getattr(self.points[0].report, name)) if self.points else 0

    @property
    def n_cases(self) -> int:
        """Return the number of cases."""
        return self._count("n_cases")

    @property
    def n_gold(self) -> int:
        """Return the number of cases with an answer."""
        return self._count("n_gold")

    @property
    def n_abstention(self) -> int:
        """Return the number of cases without an answer."""
        return self._count("n_abstention")

    @property
    def n_gold_retrieved(self) -> int:
        """Return the number of cases whose answer is among the candidates."""
        return self._count("n_gold_retrieved")


def as_doc_retriever(
    corpus: Any, *, mode: str = DFLT_MODE, surfaces: Iterable[str] | None = None, **search_kw: Any
) -> Callable[..., list[str]]:
    """Return a function of a query and `limit` that returns the ids of artifacts, best first."""
    opened = open_corpus(corpus) if isinstance(corpus, str) else corpus

    def retriever(query: str, *, limit: int = 10) -> list[str]:
        hits = search(opened, query, k=limit, mode=mode, surfaces=surfaces, per_artifact=True, **search_kw)
        return [hit.artifact_id for hit in hits]

    return retriever


def corpus_artifact_ids(corpus: Any) -> set[str]:
    """Return the ids of all artifacts."""

    async def read() -> set[str]:
        async with use_store(to_airw(corpus)) as (_, store):
            return set(await store.artifact_ids())

    return run(read)


def validate_cases(corpus: Any, cases: Sequence[DiscoveryCase]) -> dict[int, list[str]]:
    """Return the gold ids that the corpus lacks, by the position of their case."""
    return dict(run(evaluation.find_missing_gold, to_airw(corpus), cases))


def retrieval_report(
    corpus: Any,
    cases: Sequence[DiscoveryCase],
    *,
    k_values: Sequence[int] = DFLT_K_VALUES,
    metrics: Sequence[str] = DFLT_METRICS,
    mode: str = DFLT_MODE,
    surfaces: Iterable[str] | None = None,
    limit: int | None = None,
    **search_kw: Any,
) -> RetrievalEvalReport:
    """Measure the rankings of all cases with an answer.

    Raises:
        ArgumentError: If no case has an answer, or a metric is unknown.
    """
    if all(case.gold_is_none for case in cases):
        raise ArgumentError("no case has an answer, so there is nothing to measure")
    options = _search_options(corpus, mode, surfaces, search_kw)
    names = [f"{name}@{k}" for name in metrics for k in k_values]
    found = _evaluate(corpus, cases, names, options, limit or max(k_values))
    return _to_report(found, k_values)


def evaluate_discovery(
    corpus: Any,
    cases: Sequence[DiscoveryCase],
    *,
    k_values: Sequence[int] = DFLT_K_VALUES,
    primary_k: int = 10,
    metrics: Sequence[str] = DFLT_METRICS,
    mode: str = DFLT_MODE,
    surfaces: Iterable[str] | None = None,
    abstain_threshold: float | None = None,
    **search_kw: Any,
) -> DiscoveryReport:
    """Measure all rankings and classify each case; see `airw.evaluation.evaluate`.

    Raises:
        ArgumentError: If a metric is unknown.
    """
    depths = tuple(sorted({*k_values, primary_k}))
    options = _search_options(corpus, mode, surfaces, search_kw)
    names = [f"{name}@{k}" for name in metrics for k in depths]
    found = _evaluate(corpus, cases, names, options, max(depths))
    accuracy = None if abstain_threshold is None else found.abstention_accuracy(abstain_threshold)
    return DiscoveryReport(
        retrieval=_to_report(found, depths),
        failure_classes=found.failure_classes(primary_k, abstain_threshold),
        n_cases=len(found.rows),
        n_gold=found.n_gold,
        n_abstention=found.n_abstention,
        primary_k=primary_k,
        abstention_accuracy=accuracy,
        mode=mode,
    )


def _search_options(
    corpus: Any, mode: str, surfaces: Iterable[str] | None, search_kw: Mapping[str, Any]
) -> dict[str, Any]:
    return {**_FUSION, "mode": mode, "surfaces": surfaces, **to_airw_options(corpus, search_kw)}


def _evaluate(
    corpus: Any, cases: Sequence[DiscoveryCase], measures: Sequence[str], options: dict[str, Any], limit: int
) -> evaluation.Evaluation:
    system = evaluation.FlatSearch(options)
    return run(evaluation.evaluate, to_airw(corpus), cases, system, measures=measures, k=limit)


def _to_report(found: evaluation.Evaluation, k_values: Sequence[int]) -> RetrievalEvalReport:
    rows = {f"q{index:05d}": row for index, row in enumerate(found.rows) if not row.case.gold_is_none}
    per_query = {id: {str(each): row.measure(each) for each in found.measures} for id, row in rows.items()}
    return RetrievalEvalReport(found.means(), per_query, len(rows), tuple(k_values))


def distractor_robustness_curve(
    scope: Mapping[str, Any],
    probes: Sequence[tuple[str, str]],
    *,
    strategy: Any = None,
    embedder: Any = DFLT_CURVE_EMBEDDER,
    mode: str = DFLT_CURVE_MODE,
    sizes: Sequence[int] = DFLT_DISTRACTOR_SIZES,
    trials: int = 20,  # noqa: ARG001 - of `ir`
    seed: int = 0,  # noqa: ARG001 - of `ir`
    k: int = 1,
) -> dict[int, float]:
    """Return how often the answer is found in catalogues of these sizes.

    The values are exact means over all catalogues, so `trials` and `seed` have no effect; see
    `airw.evaluation.measure_distractors`.

    Raises:
        ArgumentError: If a parameter is not valid.
    """
    cases = [DiscoveryCase(query, (gold,)) for query, gold in probes if gold in scope]
    wanted = sorted({min(size, len(scope)) for size in sizes if size >= 1})
    source = CorpusSource.from_mapping(scope, name="distractors", strategy=strategy)
    corpus = build(source, store=CorpusStore.memory(), embedder=embedder)
    settings: Any = {"sizes": wanted, "mode": mode, "k": k, **_FUSION}
    curve = run(evaluation.measure_distractors, to_airw(corpus), cases, **settings)
    return {size: curve.get(size, math.nan) for size in wanted}


def distractor_curve_from_cases(source: Any, cases: Sequence[DiscoveryCase], **kwargs: Any) -> dict[int, float]:
    """Return the curve of a source, with the cases that have exactly one answer."""
    probes = [(case.query, case.gold[0]) for case in cases if len(case.gold) == 1]
    return distractor_robustness_curve(source.scope, probes, **{"strategy": source.indexing_strategy, **kwargs})


def evaluate_selection(
    corpus: Any,
    cases: Sequence[DiscoveryCase],
    *,
    strategy: Any = "conservative",
    mode: str = DFLT_MODE,
    k: int = 10,
    surfaces: Iterable[str] | None = None,
    max_k: int = 3,
    rel: float = 0.9,
    gap_ratio: float = 0.5,
    min_score: float | None = None,
    **search_kw: Any,
) -> SelectionReport:
    """Measure what a rule selects; see `airw.evaluation.evaluate_selection`.

    Raises:
        ArgumentError: If a parameter is not valid.
    """
    selecting: Any = {"max_k": max_k, "rel": rel, "gap_ratio": gap_ratio, "min_score": min_score, "k": k}
    options = _search_options(corpus, mode, surfaces, search_kw)
    return run(
        evaluation.evaluate_selection, to_airw(corpus), cases, strategy=to_async(strategy), **selecting, **options
    )


def sweep_selector(
    corpus: Any,
    cases: Sequence[DiscoveryCase],
    *,
    strategy: Any = "conservative",
    mode: str = DFLT_MODE,
    k: int = 10,
    surfaces: Iterable[str] | None = None,
    max_k_grid: Sequence[int] = DFLT_SWEEP_MAX_K,
    rel_grid: Sequence[float] = DFLT_SWEEP_REL,
    min_score_grid: Sequence[float | None] = DFLT_SWEEP_MIN_SCORE,
    gap_ratio: float = 0.5,
    objective: str = DFLT_SWEEP_OBJECTIVE,
    **search_kw: Any,
) -> SelectionSweep:
    """Measure a grid of settings; see `airw.evaluation.sweep_selection`.

    Raises:
        ArgumentError: If a parameter is not valid.
    """
    grid: Any = {"max_k_grid": max_k_grid, "rel_grid": rel_grid, "min_score_grid": min_score_grid, "k": k}
    rule: Any = {"strategy": to_async(strategy), "gap_ratio": gap_ratio, "objective": objective}
    options = _search_options(corpus, mode, surfaces, search_kw)
    sweep = run(evaluation.sweep_selection, to_airw(corpus), cases, **grid, **rule, **options)
    return SelectionSweep(*(getattr(sweep, item.name) for item in fields(sweep)))


def evaluate_named_sets(
    corpus: Any,
    named_sets: NamedSets,
    theme: str | None = None,
    *,
    probe: str,
    mode: str = DFLT_MODE,
    k: int = 10,
    surfaces: Iterable[str] | None = None,
    **search_kw: Any,
) -> NamedSetReport:
    """Report the named sets of a theme; see `airw.evaluation.evaluate_named_sets`.

    Raises:
        ArgumentError: If a parameter is not valid.
    """
    sets = NamedSets(theme or named_sets.theme, named_sets.distractors, named_sets.hard_positives)
    options = _search_options(corpus, mode, surfaces, search_kw)
    return run(evaluation.evaluate_named_sets, to_airw(corpus), sets, probe=probe, k=k, **options)


def fp_rate_on_distractors(ranking: Sequence[str], distractor_ids: Iterable[str], *, k: int) -> float:
    """Return the share of distractors among the first `k`."""
    return evaluation.share_found(ranking, distractor_ids, k=k)


def recall_on_hard_positives(ranking: Sequence[str], hard_positive_ids: Iterable[str], *, k: int) -> float:
    """Return the share of hard positives among the first `k`."""
    return evaluation.share_found(ranking, hard_positive_ids, k=k)


def compare_indexings(
    corpora: Mapping[str, Any],
    cases: Sequence[PackageRelevanceCase],
    *,
    themes: Sequence[str],
    probes: Mapping[str, str],
    k: int = 20,
    named_sets: Mapping[str, NamedSets] | None = None,
    mode: str = DFLT_MODE,
    rank_depth: int = 1000,
    gains: Mapping[str, float] = LEVEL_GAINS,
    surfaces: Iterable[str] | None = None,
    search_kw_by_label: Mapping[str, Mapping[str, Any]] | None = None,
    **search_kw: Any,
) -> ComparisonReport:
    """Compare indexings for graded cases; see `airw.evaluation.compare_indexings`.

    Raises:
        ArgumentError: If a parameter is not valid.
    """
    by_label = {label: to_airw_options(None, options) for label, options in (search_kw_by_label or {}).items()}
    settings: Any = {"themes": themes, "probes": probes, "k": k, "rank_depth": rank_depth, "gains": gains}
    options = _search_options(None, mode, surfaces, search_kw)
    return run(
        evaluation.compare_indexings,
        {label: to_airw(arm) for label, arm in corpora.items()},
        cases,
        named_sets=named_sets,
        search_options_by_label=by_label,
        **settings,
        **options,
    )


def calibrate_min_score(
    corpus: Any,
    cases: Sequence[DiscoveryCase],
    *,
    mode: str = DFLT_MODE,
    k: int = 10,
    surfaces: Iterable[str] | None = None,
    sensitivity_weight: float = DFLT_CALIB_SENSITIVITY_WEIGHT,
    floor_grid: Sequence[float] | None = None,
    persist: bool = False,
    **search_kw: Any,
) -> MinScoreCalibration:
    """Return the best floor for searches; see `airw.evaluation.calibrate_min_score`.

    Raises:
        ArgumentError: If a parameter is not valid, or the floor cannot be stored.
    """
    settings = {"sensitivity_weight": sensitivity_weight, "floor_grid": floor_grid, "persist": persist}
    # In `ir` a floor is for scores, as one that is passed to `select`.
    options: Any = {
        "mode": mode,
        "k": k,
        "surfaces": surfaces,
        "signal": "score",
        "fusion": "rrf",
        **settings,
        **to_airw_options(corpus, search_kw),
    }
    return run(evaluation.calibrate_min_score, to_airw(corpus), cases, **options)


def load_calibration(corpus: Any, mode: str, **search_kw: Any) -> MinScoreCalibration | None:
    """Return the stored calibration of a mode, or `None` if there is none."""
    options: Any = {"fusion": "rrf", **to_airw_options(corpus, search_kw)}
    calibration = run(evaluation.load_calibration, to_airw(corpus), mode, **options)
    # A floor of airw on the evidence is no number for `select`.
    return None if calibration is not None and calibration.signal == "evidence" else calibration

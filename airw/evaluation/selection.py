"""Evaluation of selections: what a rule commits to, apart from what the search found."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, cast

from airw._base.concurrency import in_thread, map_bounded
from airw.corpora import CorpusLike, use_corpus
from airw.discovery import Strategy, select
from airw.discovery.selection import list_scales, select_by_evidence, sums_ranks, weigh_hits
from airw.evaluation.cases import DiscoveryCase, check_cases
from airw.evaluation.tables import format_number, format_table
from airw.retrieval import Mode, SearchOptions, SearchQuery, run_search
from airw.retrieval.query import with_fusion
from airw.values import SearchHit

_MAX_SEARCHES = 8  # at once
_SHOWN = {
    "conditional_commit_rate": "commit rate",
    "selection_precision": "precision",
    "selection_recall": "recall",
    "selection_f1": "F1",
    "abstention_accuracy": "abstained",
    "mean_selected_size": "size",
}


@dataclass(frozen=True, slots=True)
class Candidates:
    """The hits that a selection chooses from, for one case.

    Args:
        case: The case.
        hits: The hits of the search, best first.
        evidence: What `discover` compares in place of the scores, for each hit; `None` for the scores.

    Example:
        >>> Candidates(DiscoveryCase("keys", "a"), (SearchHit("a", "document", 0.9, ""),)).gold_found
        {'a'}
    """

    case: DiscoveryCase
    hits: tuple[SearchHit, ...]
    evidence: tuple[float, ...] | None = None

    @property
    def gold_found(self) -> set[str]:
        """Return the answers among the hits."""
        return {hit.artifact_id for hit in self.hits}.intersection(self.case.gold)


@dataclass(frozen=True, slots=True)
class SelectionReport:
    """How well a rule selects from what the search found.

    A search that finds no answer leaves nothing to select. So precision, recall, F1, commit rate and size are means
    over the `n_gold_retrieved` cases whose answer is among the candidates. A mean is `None` if it has no case.

    Args:
        selection_precision: The share of answers among the selected, over cases with a selection.
        selection_recall: The share of the answers found that are selected.
        selection_f1: The harmonic mean of both; 0 for a case without a selection.
        conditional_commit_rate: The share of cases in which an answer is selected.
        n_gold_retrieved: The cases whose answer is among the candidates.
        abstention_accuracy: The share of cases without an answer in which nothing is selected.
        mean_selected_size: The number of hits selected.
        n_cases: The number of cases.
        n_gold: The cases with an answer.
        n_abstention: The cases without one.
        strategy: The rule; `"custom"` for a function.
        mode: The mode of the searches.
        k: The number of candidates.

    Example:
        >>> candidates = [Candidates(DiscoveryCase("keys", "a"), (SearchHit("a", "document", 0.9, ""),))]
        >>> score_selection(candidates).selection_f1
        1.0
    """

    selection_precision: float | None
    selection_recall: float | None
    selection_f1: float | None
    conditional_commit_rate: float | None
    n_gold_retrieved: int
    abstention_accuracy: float | None
    mean_selected_size: float | None
    n_cases: int
    n_gold: int
    n_abstention: int
    strategy: str = "conservative"
    mode: str = "hybrid"
    k: int = 10

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __str__(self) -> str:
        return (
            f"{self.strategy} from {self.k} hits of {self.mode} search: {self.n_gold} cases with an answer, "
            f"{self.n_gold_retrieved} of them found, {self.n_abstention} without\n"
            f"{tabulate_selections({self.strategy: self})}"
        )


def tabulate_selections(reports: dict[str, SelectionReport], header: str = "strategy") -> str:
    """Return a table with a row per report.

    Args:
        reports: The reports by the text of their first column.
        header: The header of that column.

    Example:
        >>> print(tabulate_selections({"a": score_selection([])}))
        strategy  commit rate  precision  recall  F1  abstained  size
        a                   -          -       -   -          -     -
    """
    rows = [[name, *(format_number(getattr(report, field)) for field in _SHOWN)] for name, report in reports.items()]
    return format_table([header, *_SHOWN.values()], rows)


def score_selection(
    candidates: Sequence[Candidates],
    *,
    strategy: Strategy | Callable[[Sequence[SearchHit]], Iterable[SearchHit]] = "conservative",
    max_k: int = 3,
    rel: float = 0.9,
    gap_ratio: float = 0.5,
    min_score: float | None = None,
) -> SelectionReport:
    """Select from candidates that were found already, and measure the selection.

    Args:
        candidates: The candidates of each case.
        strategy: The rule; this and the other options are those of `airw.select`.
        max_k: Select at most this many hits.
        rel: The ratio to the first score that a hit must reach.
        gap_ratio: The ratio to the previous score below which there is a gap.
        min_score: The floor.

    Raises:
        ArgumentError: If a value cannot be used.

    Example:
        >>> hits = (SearchHit("a", "document", 0.9, ""), SearchHit("b", "document", 0.85, ""))
        >>> report = score_selection([Candidates(DiscoveryCase("keys", "a"), hits)])
        >>> report.selection_precision, report.selection_recall, report.mean_selected_size
        (0.5, 1.0, 2.0)
    """
    precisions, recalls, scores, sizes, abstained = [], [], [], [], []
    for each in candidates:
        options: Any = {"max_k": max_k, "rel": rel, "gap_ratio": gap_ratio, "min_score": min_score}
        if each.evidence is None or callable(strategy):
            selection = select(each.hits, strategy=strategy, **options)
        else:
            selection = select_by_evidence(each.hits, each.evidence, strategy=strategy, **options)
        selected = set(selection.selected_ids)
        found = each.gold_found
        if each.case.gold_is_none:
            abstained.append(not selected)
        elif found:
            right = len(selected & found)
            recalls.append(right / len(found))
            scores.append(2 * right / (len(selected) + len(found)) if selected else 0.0)
            sizes.append(len(selected))
            if selected:
                precisions.append(right / len(selected))
    return SelectionReport(
        selection_precision=_mean(precisions),
        selection_recall=_mean(recalls),
        selection_f1=_mean(scores),
        conditional_commit_rate=_mean([recall > 0 for recall in recalls]),
        n_gold_retrieved=len(recalls),
        abstention_accuracy=_mean(abstained),
        mean_selected_size=_mean(sizes),
        n_cases=len(candidates),
        n_gold=len(candidates) - len(abstained),
        n_abstention=len(abstained),
        strategy=strategy if isinstance(strategy, str) else "custom",
    )


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


async def find_candidates(
    corpus: CorpusLike,
    cases: Iterable[DiscoveryCase],
    *,
    mode: Mode = "hybrid",
    k: int = 10,
    **search_options: Any,
) -> list[Candidates]:
    """Search for each case once, as `discover` does, and return the hits to select from.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        cases: The cases.
        mode: The mode of the searches.
        k: The number of hits of each.
        **search_options: Further options of `airw.search`. Hybrid searches fuse by rank unless `fusion` is set.

    Raises:
        ArgumentError: If a value cannot be used.
        CorpusNotFound: If there is no corpus of that name or at that path.
    """
    options = {"mode": mode, "k": k, **with_fusion(search_options, "ranks")}
    query = SearchQuery.preset("find_candidates", cast("SearchOptions", options))
    checked = check_cases(cases)
    async with use_corpus(corpus) as opened:

        async def find(case: DiscoveryCase) -> Candidates:
            hits = tuple(await run_search(opened, query.with_text(case.query)))
            if not sums_ranks(query, hits):
                return Candidates(case, hits)
            scales = list_scales(query, opened.embedder.id)
            return Candidates(case, hits, tuple(weigh_hits(hits, lambda _: scales)))

        return await map_bounded(find, checked, limit=_MAX_SEARCHES)


async def evaluate_selection(
    corpus: CorpusLike,
    cases: Iterable[DiscoveryCase],
    *,
    strategy: Strategy | Callable[[Sequence[SearchHit]], Iterable[SearchHit]] = "conservative",
    mode: Mode = "hybrid",
    k: int = 10,
    max_k: int = 3,
    rel: float = 0.9,
    gap_ratio: float = 0.5,
    min_score: float | None = None,
    **search_options: Any,
) -> SelectionReport:
    """Search for each case, select from its hits, and measure the selection alone.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        cases: The cases.
        strategy: The rule; see `airw.select`.
        mode: The mode of the searches.
        k: The number of candidates.
        max_k: Select at most this many hits.
        rel: The ratio to the first score that a hit must reach.
        gap_ratio: The ratio to the previous score below which there is a gap.
        min_score: The floor.
        **search_options: Further options of `airw.search`.

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
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return await evaluate_selection(corpus, [DiscoveryCase("signing keys", "a")], mode="lexical")
        >>> report = anyio.run(main)
        >>> report.conditional_commit_rate, report.mean_selected_size
        (1.0, 1.0)
    """
    candidates = await find_candidates(corpus, cases, mode=mode, k=k, **search_options)
    options: Any = {"max_k": max_k, "rel": rel, "gap_ratio": gap_ratio, "min_score": min_score}
    report = await in_thread(partial(score_selection, candidates, strategy=strategy, **options))
    return replace(report, mode=mode, k=k)

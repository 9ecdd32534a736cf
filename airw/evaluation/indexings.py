"""Comparison of indexings: the same graded cases over differently indexed corpora."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

from airw._base.checks import check_count
from airw._base.concurrency import call_user_function
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.corpora import search
from airw.errors import ArgumentError
from airw.evaluation.graded import LEVEL_GAINS, GradedCase
from airw.evaluation.measures import ndcg
from airw.evaluation.named_sets import NamedSets, report_named_sets
from airw.evaluation.tables import format_number, format_table
from airw.retrieval import Mode
from airw.values import SearchHit

Ranker: TypeAlias = Callable[..., Any]
"""`ranker(probe, k=…)` returns hits, best first; it may be sync or async."""

_ABSENT = 10**9  # the rank of an artifact that is in no ranking: worse than any


def score_ranking(
    ranking: Sequence[str],
    cases: Sequence[GradedCase],
    theme: str,
    *,
    k: int,
    named_sets: NamedSets | None = None,
    scores: Mapping[str, float] | None = None,
    gains: Mapping[str, float] = LEVEL_GAINS,
) -> tuple[dict[str, float], dict[str, dict[str, Any]]]:
    """Return the measures of a ranking for a theme, and where each named artifact is.

    A repeated id counts at its first place.

    Args:
        ranking: Ids of artifacts, best first.
        cases: The graded cases.
        theme: The theme.
        k: The number of artifacts that count.
        named_sets: The artifacts to watch.
        scores: The score of each artifact.
        gains: The gain of each level.

    Returns:
        First `ndcg`, and with named sets `fp_rate` and `hard_positive_recall`. Then, by the id of each named artifact,
        its `role`, `rank` (0 if it is absent) and `score`.

    Raises:
        ArgumentError: If `k` is not a whole number of at least 1.

    Example:
        >>> cases = [GradedCase("numpy", {"arrays": "core"}), GradedCase("jokes")]
        >>> sets = NamedSets("arrays", distractors=("jokes",))
        >>> row, named = score_ranking(["jokes", "numpy"], cases, "arrays", k=5, named_sets=sets)
        >>> round(row["ndcg"], 4), row["fp_rate"], named["jokes"]["rank"]
        (0.6309, 1.0, 1)
    """
    check_count("k", k, least=1)
    unique = list(dict.fromkeys(ranking))
    row = {"ndcg": ndcg(unique, {case.artifact_id: case.gain(theme, gains=gains) for case in cases}, k)}
    if named_sets is None:
        return row, {}
    report = report_named_sets(unique, named_sets, k=k)
    row |= {"fp_rate": report.fp_rate, "hard_positive_recall": report.hard_positive_recall}
    ranks = {id: rank for rank, id in enumerate(unique, 1)}
    roles = dict.fromkeys(named_sets.distractors, "distractor") | dict.fromkeys(
        named_sets.hard_positives, "hard_positive"
    )
    named = {
        id: {"role": role, "rank": ranks.get(id, 0), "score": (scores or {}).get(id)} for id, role in roles.items()
    }
    return row, named


@dataclass(frozen=True, slots=True)
class IndexingComparison:
    """The results of several indexings for the same graded cases.

    Args:
        k: The number of artifacts that count.
        themes: The themes.
        labels: The labels of the indexings.
        baseline: The label that the others are compared with.
        metrics: The measures of `score_ranking`, by label and theme.
        deltas: Where each named artifact is, by theme and id: its `role`, and `rank` and `score` `by_label`.

    Example:
        >>> IndexingComparison(20, ("arrays",), ("a",), "a", {"a": {"arrays": {"ndcg": 1.0}}}, {}).regressions()
        []
    """

    k: int
    themes: tuple[str, ...]
    labels: tuple[str, ...]
    baseline: str
    metrics: Mapping[str, Mapping[str, Mapping[str, float]]]
    deltas: Mapping[str, Mapping[str, Mapping[str, Any]]]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        values: dict[str, Any] = json_clean(
            {name: getattr(self, name) for name in ("k", "themes", "labels", "baseline", "metrics", "deltas")}
        )
        return values

    def regressions(self, *, threshold: int = 0, baseline: str | None = None) -> list[dict[str, Any]]:
        """Return the named artifacts that are in a worse place than with the baseline.

        A hard positive is worse if its rank grew, a distractor if its rank shrank. An artifact that is in no ranking is
        behind all others.

        Args:
            threshold: The number of places that do not matter.
            baseline: The label to compare with; by default that of the comparison.
        """
        base = self.baseline if baseline is None else baseline
        found = []
        for theme, artifacts in self.deltas.items():
            for id, entry in artifacts.items():
                ranks = {label: cell["rank"] or _ABSENT for label, cell in entry["by_label"].items()}
                sign = 1 if entry["role"] == "hard_positive" else -1
                for label, rank in ranks.items():
                    if base in ranks and label != base and sign * (rank - ranks[base]) > threshold:
                        before, after = (None if each == _ABSENT else each for each in (ranks[base], rank))
                        row = {"theme": theme, "artifact_id": id, "role": entry["role"], "label": label}
                        found.append({**row, "baseline_rank": before, "candidate_rank": after})
        return found

    def __str__(self) -> str:
        names = ("ndcg", "fp_rate", "hard_positive_recall")
        rows = [
            [label, theme, *(format_number(self.metrics[label][theme].get(name)) for name in names)]
            for label in self.labels
            for theme in self.themes
        ]
        return format_table(["indexing", "theme", *(f"{name}@{self.k}" for name in names)], rows)


async def compare_indexings(
    corpora: Mapping[str, Any],
    cases: Sequence[GradedCase],
    *,
    themes: Sequence[str],
    probes: Mapping[str, str],
    k: int = 20,
    named_sets: Mapping[str, NamedSets] | None = None,
    mode: Mode = "hybrid",
    rank_depth: int = 1000,
    gains: Mapping[str, float] = LEVEL_GAINS,
    search_options_by_label: Mapping[str, Mapping[str, Any]] | None = None,
    **search_options: Any,
) -> IndexingComparison:
    """Search several corpora for the probes of themes, and compare their rankings.

    Args:
        corpora: By label, an open corpus, the name or path of one, or a `Ranker`. One corpus may have several labels.
            The first label is the baseline.
        cases: The graded cases.
        themes: The themes.
        probes: The query of each theme.
        k: The number of artifacts that count.
        named_sets: The artifacts to watch, by theme.
        mode: The mode of the searches.
        rank_depth: The number of hits of each ranking; ranks of named artifacts are known up to here.
        gains: The gain of each level.
        search_options_by_label: Further options of the searches of one label.
        **search_options: Further options of all searches; see `airw.search`.

    Raises:
        ArgumentError: If a value cannot be used, or a theme has no probe.
        CorpusNotFound: If there is no corpus of that name or at that path.

    Example:
        >>> import anyio
        >>> cases = [GradedCase("numpy", {"arrays": "core"})]
        >>> def rank(probe, k):
        ...     return [SearchHit("jokes", "document", 0.9, ""), SearchHit("numpy", "document", 0.8, "")]
        >>> async def main():
        ...     return await compare_indexings({"mine": rank}, cases, themes=["arrays"], probes={"arrays": "arrays"})
        >>> round(anyio.run(main).metrics["mine"]["arrays"]["ndcg"], 4)
        0.6309
    """
    by_label = dict(search_options_by_label or {})
    _check_arms(corpora, themes, probes, by_label, k=k, rank_depth=rank_depth)
    metrics: dict[str, dict[str, dict[str, float]]] = {label: {} for label in corpora}
    deltas: dict[str, dict[str, dict[str, Any]]] = {theme: {} for theme in themes}
    for label, arm in corpora.items():
        options = {"mode": mode, **search_options, **by_label.get(label, {})}
        for theme in themes:
            scores = await _rank(arm, probes[theme], rank_depth, options)
            sets = (named_sets or {}).get(theme)
            row, named = score_ranking(list(scores), cases, theme, k=k, named_sets=sets, scores=scores, gains=gains)
            metrics[label][theme] = row
            for id, cell in named.items():
                entry = deltas[theme].setdefault(id, {"role": cell["role"], "by_label": {}})
                entry["by_label"][label] = {"rank": cell["rank"], "score": cell["score"]}
    return IndexingComparison(k, tuple(themes), tuple(corpora), next(iter(corpora)), metrics, deltas)


async def _rank(arm: Any, probe: str, depth: int, options: Mapping[str, Any]) -> dict[str, float]:
    """Return the best score of each artifact, best first."""
    if callable(arm):
        hits = await call_user_function(partial(arm, probe, k=depth))
    else:
        hits = await search(arm, probe, **cast("Any", {**options, "k": depth}))
    best: dict[str, float] = {}
    for hit in cast("Sequence[SearchHit]", hits):
        best.setdefault(hit.artifact_id, float(hit.score))
    return dict(list(best.items())[:depth])


def _check_arms(
    corpora: Mapping[str, Any],
    themes: Sequence[str],
    probes: Mapping[str, str],
    by_label: Mapping[str, Mapping[str, Any]],
    *,
    k: int,
    rank_depth: int,
) -> None:
    if not corpora:
        raise ArgumentError("corpora must have at least one entry")
    check_count("k", k, least=1)
    check_count("rank_depth", rank_depth, least=k)
    if missing := [theme for theme in themes if theme not in probes]:
        raise ArgumentError(f"probes must have a query for each theme, and has none for {short_repr(missing[0])}")
    for label, options in by_label.items():
        if label not in corpora or callable(corpora[label]):
            raise ArgumentError(f"search_options_by_label names {short_repr(label)}, which is no corpus of corpora")
        if reserved := {"k", "per_artifact"} & set(options):
            raise ArgumentError(
                f"search_options_by_label cannot set {min(reserved)}; rankings have rank_depth artifacts"
            )

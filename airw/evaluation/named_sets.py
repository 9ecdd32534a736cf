"""Named sets: artifacts to watch for a theme, those that intrude and those that hide."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Self

from airw._base.checks import check_count
from airw._base.json import json_clean
from airw.corpora import CorpusLike, search
from airw.evaluation.graded import LEVEL_GAINS, GradedCase
from airw.protocols import SearchStore
from airw.retrieval import Mode


@dataclass(frozen=True, slots=True)
class NamedSets:
    """The artifacts to watch for one theme.

    Args:
        theme: The theme.
        distractors: Artifacts that are not relevant and rank high.
        hard_positives: Artifacts that are relevant and hard to find, such as those with a thin description.

    Example:
        >>> NamedSets("arrays", distractors=("array-jokes",)).to_dict()["distractors"]
        ['array-jokes']
    """

    theme: str
    distractors: tuple[str, ...] = ()
    hard_positives: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        values: dict[str, Any] = json_clean(asdict(self))
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make the sets from the values of `to_dict`."""
        sets = {name: tuple(values.get(name) or ()) for name in ("distractors", "hard_positives")}
        return cls(values["theme"], **sets)


def derive_named_sets(
    cases: Sequence[GradedCase],
    theme: str,
    *,
    observed_floor: float,
    gains: Mapping[str, float] = LEVEL_GAINS,
) -> NamedSets:
    """Return the named sets that follow from graded cases, sorted.

    A distractor has no gain, and an observed score of at least the floor; `is_distractor` overrides this. A hard
    positive is of level `strong` or `core`, and has a thin description.

    Args:
        cases: The graded cases.
        theme: The theme.
        observed_floor: The lowest observed score of a distractor.
        gains: The gain of each level.

    Example:
        >>> cases = [GradedCase("jokes", {}, observed={"arrays": 0.8}), GradedCase("numpy", {"arrays": "core"})]
        >>> derive_named_sets(cases, "arrays", observed_floor=0.5)
        NamedSets(theme='arrays', distractors=('jokes',), hard_positives=())
    """

    def is_distractor(case: GradedCase) -> bool:
        if theme in case.is_distractor:
            return bool(case.is_distractor[theme])
        observed = case.observed.get(theme)
        return case.gain(theme, gains=gains) <= 0 and observed is not None and observed >= observed_floor

    hard = {case.artifact_id for case in cases if case.thin_description and case.level(theme) in ("strong", "core")}
    distractors = {case.artifact_id for case in cases if is_distractor(case)}
    return NamedSets(theme, tuple(sorted(distractors)), tuple(sorted(hard)))


def share_found(ranking: Sequence[str], ids: Iterable[str], *, k: int) -> float:
    """Return the share of artifacts that are among the first `k` of a ranking.

    For distractors it is the rate of false positives, for hard positives it is recall. Without artifacts it is 0.

    Example:
        >>> share_found(["jokes", "numpy"], ["jokes", "puns"], k=1)
        0.5
    """
    wanted = set(ids)
    return len(wanted.intersection(islice(ranking, k))) / len(wanted) if wanted else 0.0


@dataclass(frozen=True, slots=True)
class NamedSetReport:
    """What a ranking does with the named sets of a theme.

    Args:
        theme: The theme.
        k: The number of artifacts that count.
        fp_rate: The share of distractors among the first `k`; less is better.
        hard_positive_recall: The share of hard positives among the first `k`.
        distractors_seen: Those distractors.
        hard_positives_missed: The hard positives that are not among the first `k`.

    Example:
        >>> sets = NamedSets("arrays", ("jokes",), ("tensors",))
        >>> print(report_named_sets(["jokes", "numpy"], sets, k=2))
        arrays: 1.000 of the distractors in the first 2 (jokes), 0.000 of the hard positives (missed: tensors)
    """

    theme: str
    k: int
    fp_rate: float
    hard_positive_recall: float
    distractors_seen: tuple[str, ...] = ()
    hard_positives_missed: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        values: dict[str, Any] = json_clean(asdict(self))
        return values

    def __str__(self) -> str:
        seen, missed = ", ".join(self.distractors_seen) or "none", ", ".join(self.hard_positives_missed) or "none"
        return (
            f"{self.theme}: {self.fp_rate:.3f} of the distractors in the first {self.k} ({seen}), "
            f"{self.hard_positive_recall:.3f} of the hard positives (missed: {missed})"
        )


def report_named_sets(ranking: Sequence[str], named_sets: NamedSets, *, k: int) -> NamedSetReport:
    """Return what a ranking does with the named sets of a theme.

    A repeated id counts at its first place.

    Args:
        ranking: Ids of artifacts, best first.
        named_sets: The sets.
        k: The number of artifacts that count.

    Raises:
        ArgumentError: If `k` is not a whole number of at least 1.
    """
    check_count("k", k, least=1)
    first = list(dict.fromkeys(ranking))[:k]
    return NamedSetReport(
        theme=named_sets.theme,
        k=k,
        fp_rate=share_found(first, named_sets.distractors, k=k),
        hard_positive_recall=share_found(first, named_sets.hard_positives, k=k),
        distractors_seen=tuple(id for id in named_sets.distractors if id in first),
        hard_positives_missed=tuple(id for id in named_sets.hard_positives if id not in first),
    )


async def evaluate_named_sets(
    corpus: CorpusLike[SearchStore],
    named_sets: NamedSets,
    *,
    probe: str,
    k: int = 10,
    mode: Mode = "hybrid",
    **search_options: Any,
) -> NamedSetReport:
    """Search for the probe of a theme, and report what the ranking does with its named sets.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        named_sets: The sets.
        probe: The query of the theme.
        k: The number of artifacts that count.
        mode: The mode of the search.
        **search_options: Further options of `airw.search`.

    Raises:
        ArgumentError: If a value cannot be used.
        CorpusNotFound: If there is no corpus of that name or at that path.
    """
    check_count("k", k, least=1)
    options: Any = {"mode": mode, **search_options, "k": k}
    hits = await search(corpus, probe, **options)
    return report_named_sets([hit.artifact_id for hit in hits], named_sets, k=k)

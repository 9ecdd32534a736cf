"""The floor of one source of a discovery: which one applies, and what it says."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from airw._base.checks import check_number
from airw._base.concurrency import in_thread, offload_if
from airw.corpora.floors import BuiltFloor, read_built_floor
from airw.discovery._planning import DiscoveryPlan
from airw.embedders import is_same_model
from airw.errors import ArgumentError
from airw.protocols import Calibrations, Config, OpenCorpus, Words, ask
from airw.reranking import is_anonymous
from airw.retrieval import SearchQuery
from airw.retrieval.evidence import CANDIDATES, FIRST_FORMULA, Evidence

FloorKind = Literal["given", "calibrated", "built"]


SETTINGS = (Calibrations(), Config())
"""What a floor depends on in a store."""


class Settings(NamedTuple):
    """The answers of a store to `SETTINGS`."""

    calibrations: Mapping[str, Any]
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SourceFloor:
    """The floor of a source.

    Args:
        value: The floor.
        kind: Where it is from.
        weights: The weights of the channels, if it applies to the evidence; `None` if it applies to the best score.
        formula: The formula of BM25 that it was measured with; `None` if it does not matter.
        built: The floor of the build, if it is one.
    """

    value: float
    kind: FloorKind
    weights: Mapping[str, float] | None = None
    formula: str | None = None
    built: BuiltFloor | None = None

    def weigh(self, evidence: Evidence) -> float | None:
        """Return the evidence as one number; `None` if a channel is missing."""
        if self.built is not None:
            return self.built.weigh(evidence)
        weights = self.weights or {}
        return evidence.weigh(weights) if evidence.channels.keys() >= weights.keys() else None


@dataclass(frozen=True, slots=True)
class FoundFloor:
    """What a source is compared with.

    Args:
        floor: The floor, or `None`.
        note: The reason why there is none, or not the one that somebody calibrated.
        evidence: The evidence of the source, if the floor weighs it.
        weighed: The evidence as one number; `None` if a channel is missing.
    """

    floor: SourceFloor | None = None
    note: str | None = None
    evidence: Evidence | None = None
    weighed: float | None = None

    def is_missed(self, best_score: float | None) -> bool:
        """Return whether a source is below its floor."""
        if self.floor is None or (self.evidence is not None and self.weighed is None):
            return False
        compared = self._find_compared(best_score)
        return compared is None or not compared >= self.floor.value  # NaN counts as below the floor

    def explain(self, best_score: float | None) -> str | None:
        """Return in words what was compared with the floor; `None` without one."""
        if self.floor is None:
            return None
        end, compared = f"the {self.floor.kind} floor {self.floor.value:.3f}", self._find_compared(best_score)
        if compared is None:
            return f"{'no hit,' if self.evidence is None else 'no evidence that could be compared'} with {end}"
        relation = "reaches" if compared >= self.floor.value else "is below"
        if self.evidence is None:
            return f"best score {compared:.3f} {relation} {end}"
        parts = self.evidence.describe(self.floor.weights or {}, with_lead=self.floor.built is None)
        return f"evidence {compared:.3f} {relation} {end}: {parts}"

    def _find_compared(self, best_score: float | None) -> float | None:
        return best_score if self.evidence is None else self.weighed


async def find_floor(
    corpus: OpenCorpus,
    plan: DiscoveryPlan,
    settings: Settings,
    find_evidence: Callable[[int], Awaitable[Evidence]],
) -> FoundFloor:
    """Return the stored floor of a source: the calibrated one or the measured one.

    Args:
        corpus: The corpus.
        plan: The discovery.
        settings: What its store keeps.
        find_evidence: Returns its evidence, with so many of the best artifacts; called if a floor applies to that.

    Raises:
        ArgumentError: If the selection compares each score with the floor, and the stored one is not for scores.
    """
    search, is_requested = plan.search, plan.is_floor_requested
    if not settings.calibrations and not is_requested:
        return FoundFloor()
    calibrated, measured = await _find_calibrated(corpus, plan, settings.calibrations), None
    if plan.strategy != "abs_threshold":
        measured = _find_measured(settings, corpus.embedder.id, search)
    # That the default finds no floor is nothing to report; that it cannot use one which somebody calibrated is.
    has_none = calibrated.floor is None and measured is None
    note = calibrated.note if calibrated.is_lost or (is_requested and has_none) else None
    for floor in filter(None, (calibrated.floor, measured)):
        # A measured floor does not depend on the lead of the best artifact.
        count = CANDIDATES if floor.built is None else 1
        evidence = None if floor.weights is None else await find_evidence(count)
        formula = None if evidence is None else evidence.formula
        if evidence is None and floor.formula is not None and "words" in corpus.store.capabilities:
            formula = (await ask(corpus.store, Words([search.text]))).formula
        if floor.formula in (None, formula):
            return FoundFloor(floor, note, evidence, None if evidence is None else floor.weigh(evidence))
        # Somebody has measured a calibrated floor: that it does not count any more is worth a warning.
        if is_requested or floor.kind == "calibrated":
            advice = "build again" if floor.kind == "built" else "call calibrate_min_score(…, persist=True) again"
            note = f"the {floor.kind} floor is for texts that were split or weighed in another way: {advice}"
    return FoundFloor(note=note)


def _find_measured(settings: Settings, embedder_id: str, search: SearchQuery) -> SourceFloor | None:
    """Return the floor of the last build, or `None` if it found none."""
    built = read_built_floor(*settings, embedder_id, search.mode)
    if built is None or built.min_evidence is None:
        return None
    formula = (built.formula or FIRST_FORMULA) if "lexical" in built.weights else None
    return SourceFloor(built.min_evidence, "built", built.weights, formula, built)


class _Calibrated(NamedTuple):
    """The calibrated floor, or the reason why there is none.

    `is_lost` is true if there is a floor that only another fusion could use.
    """

    floor: SourceFloor | None = None
    note: str | None = None
    is_lost: bool = False


async def _find_calibrated(corpus: OpenCorpus, plan: DiscoveryPlan, calibrations: Mapping[str, Any]) -> _Calibrated:
    """Return the calibrated floor for a discovery, or the reason why there is none.

    A walk takes the place of the search; then only a floor of the evidence fits.
    """
    query, compares_scores = plan.search, plan.strategy == "abs_threshold"
    # The tag of a reranker may be a hash of its weights.
    key, tag = await offload_if(query.rerank is not None, query.scale, corpus.embedder.id)
    if is_anonymous(tag):
        note = "the reranker has no name that a floor could be stored under: add an attribute `id` to it"
        return _Calibrated(note=note)
    of_mode, own = calibrations.get(query.mode, {}), calibrations.get(key, {})
    # The evidence does not depend on the fusion, and is weighed before anything moves scores.
    is_of_scores = compares_scores and own and own.get("signal") != "evidence"
    is_of_evidence = tag is None and of_mode.get("signal") == "evidence" and not is_of_scores
    if plan.walk is not None and not is_of_evidence:
        return _Calibrated()
    if query.rescaling_options and not is_of_evidence:
        moved = " and ".join(query.rescaling_options)
        return _Calibrated(note=f"{moved} move scores off the scale that floors are calibrated on")
    record = of_mode if is_of_evidence else own
    if compares_scores and record.get("signal") == "evidence":
        raise ArgumentError(
            f"strategy='abs_threshold' cannot use the floor stored under {record.get('key', key)!r}: it is for the "
            "evidence of a query, not for each score: call calibrate_min_score(…, signal='score', persist=True)"
        )
    if not record:
        is_lost = bool(of_mode) and tag is None
        only = f", only for {query.mode!r}" if is_lost else ""
        note = f"nothing is calibrated for {key!r}{only}: call calibrate_min_score(…, persist=True)"
        return _Calibrated(note=note, is_lost=is_lost)
    embedder_id, stored_id = corpus.embedder.id, record.get("embedder_id")
    # An older index may know the same weights by another id.
    if isinstance(stored_id, str) and await in_thread(is_same_model, corpus.embedder, stored_id):
        embedder_id = stored_id
    floor = _read_floor(record, query.mode if is_of_evidence else key, query, tag, embedder_id)
    return _Calibrated(note=floor) if isinstance(floor, str) else _Calibrated(floor)


def _read_floor(
    record: Mapping[str, Any], key: str, query: SearchQuery, tag: str | None, embedder_id: str
) -> SourceFloor | str:
    """Return the floor of a stored calibration, or why it does not fit."""
    if record.get("mode") != query.mode or record.get("rerank") != tag:
        return f"the calibration stored under {key!r} is for another kind of search"
    if record.get("embedder_id") != embedder_id:
        return f"it was calibrated with the embedder {record.get('embedder_id')!r}, not {embedder_id!r}"
    if record.get("min_score") is None:
        return f"the calibration has no floor: {record.get('reason', 'no reason stored')}"
    try:
        value = check_number("min_score", record["min_score"])
    except ArgumentError:
        return f"the floor stored under {key!r} is not a finite number"
    weights, formula = None, None
    if record.get("signal") == "evidence":
        weights = _read_weights(record.get("weights"), query)
        if weights is None:
            return f"the weights stored under {key!r} are not numbers of the channels of this mode"
    if "lexical" in query.channels and query.rerank is None:
        # BM25 scores of an older file mean something else by another formula; fused ranks do not.
        has_ranks = query.mode == "hybrid" and not query.adds_scores
        # A store that cannot count words has stored `None`, because it has no formula to compare.
        formula = record.get("formula", None if has_ranks else FIRST_FORMULA)
    return SourceFloor(value, "calibrated", weights, formula if isinstance(formula, str) else None)


def _read_weights(stored: object, query: SearchQuery) -> dict[str, float] | None:
    """Return the stored weights, or `None` if a file contains something else."""
    if not isinstance(stored, Mapping) or not stored or not set(stored) <= set(query.channels):
        return None
    try:
        return {name: check_number("weights", weight) for name, weight in stored.items()}
    except ArgumentError:
        return None

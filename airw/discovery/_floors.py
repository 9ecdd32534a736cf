"""The floor of one source of a discovery: which one applies, and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from airw._base.checks import check_number
from airw._base.concurrency import in_thread, offload_if
from airw.corpora.floors import BuiltFloor, load_built_floor
from airw.discovery._planning import DiscoveryPlan
from airw.embedders import is_same_model
from airw.errors import ArgumentError
from airw.protocols import Calibrations, OpenCorpus, Words, ask, check_capabilities
from airw.reranking import is_anonymous
from airw.retrieval import SearchQuery
from airw.retrieval.evidence import FIRST_FORMULA, Evidence, find_evidence

FloorKind = Literal["given", "calibrated", "built"]


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

    @classmethod
    def of_build(cls, floor: BuiltFloor) -> Self | None:
        """Return the floor of a build, or `None` if the build found none."""
        if floor.min_evidence is None:
            return None
        formula = (floor.formula or FIRST_FORMULA) if "lexical" in floor.weights else None
        return cls(floor.min_evidence, "built", floor.weights, formula, floor)

    @property
    def weighs_evidence(self) -> bool:
        """Return whether the floor applies to the evidence, not to the best score."""
        return self.weights is not None

    def weigh(self, evidence: Evidence) -> float | None:
        """Return the evidence as one number; `None` if a channel is missing."""
        if self.built is not None:
            return self.built.weigh(evidence)
        weights = self.weights or {}
        return evidence.weigh(weights) if evidence.channels.keys() >= weights.keys() else None

    def compare(self, best_score: float | None, evidence: Evidence | None) -> float | None:
        """Return what is compared with the floor, or `None` if nothing can be."""
        if not self.weighs_evidence:
            return best_score
        return None if evidence is None else self.weigh(evidence)

    def is_missed(self, best_score: float | None, evidence: Evidence | None) -> bool:
        """Return whether a source is below the floor."""
        compared = self.compare(best_score, evidence)
        if compared is None:
            return not self.weighs_evidence
        return not compared >= self.value  # NaN counts as below the floor

    def explain(self, best_score: float | None, evidence: Evidence | None) -> str:
        """Return in words what was compared with the floor."""
        end, compared = f"the {self.kind} floor {self.value:.3f}", self.compare(best_score, evidence)
        if compared is None:
            return f"{'no evidence that could be compared' if self.weighs_evidence else 'no hit,'} with {end}"
        relation = "reaches" if compared >= self.value else "is below"
        if evidence is None or not self.weighs_evidence:
            return f"best score {compared:.3f} {relation} {end}"
        parts = evidence.describe(self.weights or {}, with_lead=self.built is None)
        return f"evidence {compared:.3f} {relation} {end}: {parts}"


@dataclass(frozen=True, slots=True)
class FoundFloor:
    """What a source is compared with.

    Args:
        floor: The floor, or `None`.
        note: The reason why there is none, or not the one that somebody calibrated.
        evidence: The evidence of the source, if the floor weighs it.
    """

    floor: SourceFloor | None = None
    note: str | None = None
    evidence: Evidence | None = None


async def find_floor(
    corpus: OpenCorpus, plan: DiscoveryPlan, source: str, evidence: Evidence | None = None
) -> FoundFloor:
    """Return the floor of a source: the given one, the calibrated one or the measured one.

    Args:
        corpus: The corpus.
        plan: The discovery.
        source: The name of the source.
        evidence: Its evidence, if somebody has found it already.

    Raises:
        ArgumentError: If the selection compares each score with the floor, and the stored one is not for scores.
    """
    search, given, is_requested = plan.search, plan.floors[source], plan.is_floor_requested
    if not isinstance(given, str):
        return FoundFloor(None if given is None else SourceFloor(given, "given"))
    # A store that keeps no calibrations has no floors; that is an error only if they are requested.
    if not is_requested and "settings" not in corpus.store.capabilities:
        return FoundFloor()
    compares_scores = plan.strategy == "abs_threshold"

    async def load_measured() -> SourceFloor | None:
        built = None if compares_scores else await load_built_floor(corpus, search.mode)
        return None if built is None else SourceFloor.of_build(built)

    stored = await _load_calibrated(corpus, search, compares_scores=compares_scores, is_walk=plan.walk is not None)
    floor = stored.floor or await load_measured()
    # That the default finds no floor is nothing to report; that it cannot use one which somebody calibrated is.
    note = stored.note if stored.is_lost or (is_requested and floor is None) else None
    while floor is not None:
        known, formula = None, None
        if floor.weighs_evidence:
            known = evidence or await find_evidence(corpus, search.text, search.mode, **search.conditions)
            formula = known.formula
        elif floor.formula is not None and "words" in corpus.store.capabilities:
            formula = (await ask(corpus.store, Words([search.text]))).formula
        if floor.formula in (None, formula):
            return FoundFloor(floor, note, known)
        # Somebody has measured a calibrated floor: that it does not count any more is worth a warning.
        if is_requested or floor.kind == "calibrated":
            advice = "build again" if floor.kind == "built" else "call calibrate_min_score(…, persist=True) again"
            note = f"the {floor.kind} floor is for texts that were split or weighed in another way: {advice}"
        floor = await load_measured() if floor.kind == "calibrated" else None
    return FoundFloor(note=note)


class _Stored(NamedTuple):
    """The calibrated floor, or the reason why there is none.

    `is_lost` is true if there is a floor that only another fusion could use.
    """

    floor: SourceFloor | None = None
    note: str | None = None
    is_lost: bool = False


async def _load_calibrated(corpus: OpenCorpus, query: SearchQuery, *, compares_scores: bool, is_walk: bool) -> _Stored:
    """Return the calibrated floor for a kind of search, or the reason why there is none.

    Args:
        corpus: The corpus.
        query: The search.
        compares_scores: Whether the selection compares each score with the floor.
        is_walk: Whether a walk takes the place of the search; then only a floor of the evidence fits.
    """
    # The tag of a reranker may be a hash of its weights.
    key, tag = await offload_if(query.rerank is not None, query.scale, corpus.embedder.id)
    if is_anonymous(tag):
        return _Stored(note="the reranker has no name that a floor could be stored under: add an attribute `id` to it")
    check_capabilities(query.verb, corpus.store, "settings")
    records = await ask(corpus.store, Calibrations())
    of_mode, own = records.get(query.mode, {}), records.get(key, {})
    # The evidence does not depend on the fusion, and is weighed before anything moves scores.
    is_of_evidence = tag is None and of_mode.get("signal") == "evidence"
    if compares_scores and own and own.get("signal") != "evidence":
        is_of_evidence = False
    if is_walk and not is_of_evidence:
        return _Stored()
    if query.rescaling_options and not is_of_evidence:
        moved = " and ".join(query.rescaling_options)
        return _Stored(note=f"{moved} move scores off the scale that floors are calibrated on")
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
        return _Stored(note=note, is_lost=is_lost)
    embedder_id, stored_id = corpus.embedder.id, record.get("embedder_id")
    # An older index may know the same weights by another id.
    if isinstance(stored_id, str) and await in_thread(is_same_model, corpus.embedder, stored_id):
        embedder_id = stored_id
    return _Stored(*_read_floor(record, query.mode if is_of_evidence else key, query, tag, embedder_id))


def _read_floor(
    record: Mapping[str, Any], key: str, query: SearchQuery, tag: str | None, embedder_id: str
) -> tuple[SourceFloor | None, str | None]:
    """Return the floor of a stored calibration, or `None` and why it does not fit."""
    if record.get("mode") != query.mode or record.get("rerank") != tag:
        return None, f"the calibration stored under {key!r} is for another kind of search"
    if record.get("embedder_id") != embedder_id:
        return None, f"it was calibrated with the embedder {record.get('embedder_id')!r}, not {embedder_id!r}"
    floor = record.get("min_score")
    if floor is None:
        return None, f"the calibration has no floor: {record.get('reason', 'no reason stored')}"
    try:
        value = check_number("min_score", floor)
    except ArgumentError:
        return None, f"the floor stored under {key!r} is not a finite number"
    formula = _read_formula(record, query)
    if record.get("signal") != "evidence":
        return SourceFloor(value, "calibrated", formula=formula), None
    weights = _read_weights(record.get("weights"), query)
    if weights is None:
        return None, f"the weights stored under {key!r} are not numbers of the channels of this mode"
    return SourceFloor(value, "calibrated", weights, formula), None


def _read_formula(record: Mapping[str, Any], query: SearchQuery) -> str | None:
    """Return the formula of BM25 that a stored floor depends on, or `None`."""
    if "lexical" not in query.channels or query.rerank is not None:
        return None
    # BM25 scores of an older file mean something else by another formula; fused ranks do not.
    has_ranks = query.mode == "hybrid" and not query.adds_scores
    # A store that cannot count words has stored `None`, because it has no formula to compare.
    formula = record.get("formula", None if has_ranks else FIRST_FORMULA)
    return formula if isinstance(formula, str) else None


def _read_weights(stored: object, query: SearchQuery) -> dict[str, float] | None:
    """Return the stored weights, or `None` if a file contains something else."""
    if not isinstance(stored, Mapping) or not stored or not set(stored) <= set(query.channels):
        return None
    try:
        return {name: check_number("weights", weight) for name, weight in stored.items()}
    except ArgumentError:
        return None

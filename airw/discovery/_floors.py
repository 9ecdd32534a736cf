"""The floor of one source of a discovery: which one applies, and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from airw._base.checks import check_number
from airw._base.concurrency import in_thread, offload_if
from airw.corpora.floors import BuiltFloor, load_built_floor
from airw.embedders import is_same_model
from airw.errors import ArgumentError
from airw.protocols import Calibrations, OpenCorpus, Words, ask, check_capabilities
from airw.reranking import is_anonymous
from airw.retrieval import SearchQuery
from airw.retrieval.evidence import FIRST_FORMULA, Evidence

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

    def is_missed(self, best_score: float | None, evidence: Evidence | None) -> bool:
        """Return whether a source is below the floor."""
        if not self.weighs_evidence:
            # A NaN score counts as below the floor.
            return best_score is None or not best_score >= self.value
        weighed = None if evidence is None else self.weigh(evidence)
        return weighed is not None and weighed < self.value

    def explain(self, best_score: float | None, evidence: Evidence | None) -> str:
        """Return in words what was compared with the floor."""
        end = f"the {self.kind} floor {self.value:.3f}"
        if not self.weighs_evidence:
            if best_score is None:
                return f"no hit, with {end}"
            return f"best score {best_score:.3f} {self._relation(best_score)} {end}"
        weighed = None if evidence is None else self.weigh(evidence)
        if weighed is None or evidence is None:
            return f"no evidence that could be compared with {end}"
        parts = evidence.describe(self.weights or {}, with_lead=self.built is None)
        return f"evidence {weighed:.3f} {self._relation(weighed)} {end}: {parts}"

    def _relation(self, value: float) -> str:
        return "reaches" if value >= self.value else "is below"


async def find_formula(corpus: OpenCorpus, search: SearchQuery) -> str | None:
    """Return the formula of BM25 of a corpus; `None` if its store cannot count words."""
    if "words" not in corpus.store.capabilities:
        return None
    return (await ask(corpus.store, Words([search.text]))).formula


def describe_misfit(floor: SourceFloor) -> str:
    """Return why a floor of another formula of BM25 does not apply, and what would do."""
    advice = "build again" if floor.kind == "built" else "call calibrate_min_score(…, persist=True) again"
    return f"the {floor.kind} floor is for texts that were split or weighed in another way: {advice}"


async def load_measured(corpus: OpenCorpus, search: SearchQuery) -> SourceFloor | None:
    """Return the floor that the last build measured for this mode, or `None`."""
    built = await load_built_floor(corpus, search.mode)
    return None if built is None else SourceFloor.of_build(built)


@dataclass(frozen=True, slots=True)
class StoredFloor:
    """What a corpus has stored for a kind of search.

    Args:
        floor: The floor, or `None`.
        note: The reason why there is none.
        is_lost: Whether there is a floor that only another fusion could use.
    """

    floor: SourceFloor | None = None
    note: str | None = None
    is_lost: bool = False


async def load_calibrated(
    corpus: OpenCorpus, query: SearchQuery, *, compares_scores: bool, is_walk: bool
) -> StoredFloor:
    """Return the calibrated floor for a kind of search, or the reason why there is none.

    Args:
        corpus: The corpus.
        query: The search.
        compares_scores: Whether the selection compares each score with the floor.
        is_walk: Whether a walk takes the place of the search; then only a floor of the evidence fits.

    Raises:
        ArgumentError: If it does, and the floor is not for scores.
    """
    # The tag of a reranker may be a hash of its weights.
    key, tag = await offload_if(query.rerank is not None, query.scale, corpus.embedder.id)
    if is_anonymous(tag):
        return StoredFloor(
            note="the reranker has no name that a floor could be stored under: add an attribute `id` to it"
        )
    check_capabilities(query.verb, corpus.store, "settings")
    records = await ask(corpus.store, Calibrations())
    of_mode, own = records.get(query.mode, {}), records.get(key, {})
    # The evidence does not depend on the fusion, and is weighed before anything moves scores.
    is_of_evidence = tag is None and of_mode.get("signal") == "evidence"
    if compares_scores and own and own.get("signal") != "evidence":
        is_of_evidence = False
    if is_walk and not is_of_evidence:
        return StoredFloor()
    if query.rescaling_options and not is_of_evidence:
        moved = " and ".join(query.rescaling_options)
        return StoredFloor(note=f"{moved} move scores off the scale that floors are calibrated on")
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
        return StoredFloor(note=note, is_lost=is_lost)
    embedder_id, stored_id = corpus.embedder.id, record.get("embedder_id")
    # An older index may know the same weights by another id.
    if isinstance(stored_id, str) and await in_thread(is_same_model, corpus.embedder, stored_id):
        embedder_id = stored_id
    return StoredFloor(*_read_floor(record, query.mode if is_of_evidence else key, query, tag, embedder_id))


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

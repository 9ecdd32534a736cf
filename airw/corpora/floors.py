"""Floors that a build measures by itself.

Below a floor, the evidence says that a question is probably not for this corpus.

A build asks the new corpus two kinds of questions. *Foreign* questions are everyday ones of many fields. *Own*
questions are sentences of its artifacts, each without the artifact that it is from: they are about the right subject,
even if the corpus has no exact answer. The floor is so low that almost all own questions pass it. A corpus whose own
questions score as foreign ones gets no floor.

`calibrate_min_score` measures better, with real questions; its floors replace these.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from airw._base.concurrency import in_thread
from airw._base.json import fields_to_json
from airw.corpora._floor_questions import FOREIGN, OwnQuestion, choose_ids, make_own_questions
from airw.errors import EmbedderError
from airw.protocols import (
    ArtifactIds,
    Calibrations,
    Change,
    Config,
    Counts,
    Embedder,
    OpenCorpus,
    Rank,
    RecordsOf,
    Store,
    Words,
    ask,
    ask_all,
)
from airw.retrieval import MODES, Mode, channels_of
from airw.retrieval.evidence import Evidence, match_strength
from airw.retrieval.query import default_alpha
from airw.retrieval.searching import embed_texts
from airw.values import Analyser, Ranking, TermCounts

_METHOD = "sentences 2"  # changes with any rule that a floor depends on
_METHODS = frozenset({"sentences 1", _METHOD})  # whose floors still apply
_OWN_QUESTIONS = 48
_LEAST_ARTIFACTS = 16  # below, the own questions are too few to tell anything
_MOST_RECORDS = 50_000  # above, the dense channel is not asked: the build would load all vectors into memory
_RECORDS_READ = 8  # per artifact, to make questions from
_LOST_SHARE = 0.05  # of the own questions
_DEVIATIONS = 1.645  # of a normal distribution, so much is lower
_FOREIGN_SHARE = 0.95  # of the foreign questions; a floor need not be higher than they score
_LEAST_REJECTED = 0.5  # share of the foreign questions that a useful floor turns away
_CHANGED_SHARE = 0.2  # of the artifacts; with so many changes the floors are measured again
_MARGIN = 0.1  # of the distance between foreign and own questions, if they do not overlap
_ALPHA_OF_MEANING = 0.5  # the share of the vectors of a sentence model in a hybrid search
_LEAST_MATCH = 0.02  # a weaker match of words is none
_NEEDED = {"settings", "records", "ledger", "counts", "dense", "lexical", "writing"}


@dataclass(frozen=True, slots=True)
class BuiltFloor:
    """A floor that a build measured, for one corpus, one embedder and one mode.

    It applies to the evidence of the best hits, not to their scores, so one floor fits any fusion and any reranker. The
    evidence of both channels is weighed by how well each separates own from foreign questions. Then 0 is the median of
    foreign questions, and 1 the median of own ones.

    Args:
        min_evidence: The floor; `None` if there is none, then `reason` explains why.
        mode: The mode of the searches.
        embedder_id: The id of the corpus's embedder.
        reason: `"built"`; or `"too_small"`: the corpus has fewer than 16 artifacts; `"inseparable"`: own questions
            score as foreign ones; `"too_large"`: with so many vectors, measuring would take too much memory; or
            `"embedder_failed"`.
        weights: The weight of each channel.
        offset: The number that is added to the weighted sum.
        enough: The evidence of each channel that suffices without the other channel, if there are two. A question in
            another language has no word in common with the texts, and an error code no meaning.
        own_kept: The share of own questions that pass the floor.
        foreign_rejected: The share of foreign questions that do not.
        n_own: The number of own questions.
        n_foreign: The number of foreign questions.
        artifacts: The number of artifacts when the floor was measured.
        changed: The number of artifacts that builds have changed since.
        method: How the floor was measured; another version of airw may do it another way.
        formula: The id of the formula of BM25 that the matches were computed with; `None` without them.

    Example:
        >>> floor = BuiltFloor(0.25, "hybrid", "e1", weights={"dense": 2.0, "lexical": 0.5}, offset=-0.4)
        >>> floor.weigh(Evidence(dense=0.3, lexical=1.0)), floor.allows(Evidence(dense=0.1, lexical=0.5))
        (0.2, False)
    """

    min_evidence: float | None
    mode: Mode
    embedder_id: str
    reason: str = "built"
    weights: Mapping[str, float] = field(default_factory=dict)
    offset: float = 0.0
    enough: Mapping[str, float] = field(default_factory=dict)
    own_kept: float | None = None
    foreign_rejected: float | None = None
    n_own: int = 0
    n_foreign: int = 0
    artifacts: int = 0
    changed: int = 0
    method: str = _METHOD
    formula: str | None = None

    @property
    def key(self) -> str:
        """Return the key under which a store keeps it, among the calibrations."""
        return floor_key(self.mode)

    def weigh(self, evidence: Evidence) -> float | None:
        """Return the evidence as one number, or `None` if a channel that counts was not asked."""
        channels = evidence.channels
        if not channels.keys() >= self.weights.keys():
            return None
        total = sum(weight * _scale(name, channels[name]) for name, weight in self.weights.items()) + self.offset
        if any(channels[name] >= enough for name, enough in self.enough.items()):
            total = max(total, self.min_evidence or 0.0)
        return round(total, 6)

    def allows(self, evidence: Evidence) -> bool:
        """Return whether the evidence reaches the floor; true if nothing can be said."""
        weighed = self.weigh(evidence)
        return self.min_evidence is None or weighed is None or weighed >= self.min_evidence

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return fields_to_json(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a floor from the values of `to_dict`; unknown fields are ignored."""
        return cls(**{name: value for name, value in values.items() if name in cls.__dataclass_fields__})


def floor_key(mode: str) -> str:
    """Return the key under which a store keeps the built floor of a mode.

    Example:
        >>> floor_key("hybrid")
        'built:hybrid'
    """
    return f"built:{mode}"


def is_built_key(key: str) -> bool:
    """Return whether the key of a calibration is that of a built floor.

    Example:
        >>> is_built_key("built:hybrid"), is_built_key("hybrid")
        (True, False)
    """
    return key.startswith(floor_key(""))


async def load_built_floor(corpus: OpenCorpus, mode: Mode) -> BuiltFloor | None:
    """Return the floor that the last build measured for a mode, or `None`.

    A floor of another embedder or of another version of the method counts as none. A floor may be there without a
    `min_evidence`; then its `reason` explains why.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "rotate the signing keys"}, name="notes", embedder="light")
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         return await load_built_floor(corpus, "hybrid")
        >>> anyio.run(main)
    """
    calibrations, config = await ask_all(corpus.store, Calibrations(), Config())
    return read_built_floor(calibrations, config, corpus.embedder.id, mode)


def read_built_floor(
    calibrations: Mapping[str, Any], config: Mapping[str, Any], embedder_id: str, mode: Mode
) -> BuiltFloor | None:
    """Return the floor of a mode among the calibrations of a store.

    A floor counts as none if it does for `load_built_floor`.

    Args:
        calibrations: The calibrations.
        config: The settings of the store.
        embedder_id: The id of the corpus's embedder.
        mode: The mode.
    """
    record = calibrations.get(floor_key(mode), {})
    if record.get("method") not in _METHODS or not {"min_evidence", "mode"} <= record.keys():
        return None
    # The corpus may know its embedder by another id than the embedder itself: both name the same weights.
    if record.get("embedder_id") not in (embedder_id, config.get("embedder_id")):
        return None
    floor = BuiltFloor.from_dict(record)
    return floor if _is_readable(floor) else None


def _is_readable(floor: BuiltFloor) -> bool:
    """Return whether the numbers of a stored floor are numbers, of channels that its mode has."""
    if floor.mode not in MODES:
        return False
    numbers: list[Any] = [floor.offset, floor.changed, floor.artifacts]
    numbers += [] if floor.min_evidence is None else [floor.min_evidence]
    for values in (floor.weights, floor.enough):
        if not isinstance(values, Mapping) or not set(values) <= set(channels_of(floor.mode)):
            return False
        numbers += values.values()
    return all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)


@dataclass(frozen=True, slots=True)
class _CorpusInBuild:
    """A corpus that is still being built."""

    name: str
    store: Store
    embedder: Embedder


async def refresh_floors(name: str, store: Store, embedder: Embedder, changed: int) -> dict[str, BuiltFloor]:
    """Measure the floors of a corpus again if it has changed much.

    The caller has locked the store for writing.

    Args:
        name: The name of the corpus.
        store: Its store, after a build.
        embedder: The embedder that made its vectors.
        changed: The number of artifacts that the build added, updated and removed.

    Returns:
        The floors that the corpus has now, by mode.
    """
    corpus = _CorpusInBuild(name, store, embedder)
    if not _NEEDED.issubset(store.capabilities):
        return {}
    stored = [floor for mode in MODES if (floor := await load_built_floor(corpus, mode)) is not None]
    # Texts that are split or weighed in another way have other matches.
    formula = await _find_formula(store)
    is_complete = len(stored) == len(MODES) and all(floor.formula == formula for floor in stored)
    if is_complete and not changed:
        return {floor.mode: floor for floor in stored}
    artifacts = (await ask(store, Counts()))["artifacts"]
    # A corpus that never had a floor and is too small for one stays as it is: nothing is written.
    if not stored and artifacts < _LEAST_ARTIFACTS:
        return {}
    if is_complete and not _is_outdated(stored[0], artifacts, changed):
        floors = [replace(floor, changed=floor.changed + changed) for floor in stored]
    else:
        floors = await measure_floors(corpus)
    for floor in floors:
        # A failed embedder says nothing about the corpus: the next build tries again.
        if floor.reason != "embedder_failed":
            await store.apply(Change(calibrations={floor.key: floor.to_dict()}))
    return {floor.mode: floor for floor in floors}


def _is_outdated(floor: BuiltFloor, artifacts: int, changed: int) -> bool:
    moved = max(floor.changed + changed, abs(artifacts - floor.artifacts))
    return moved > _CHANGED_SHARE * floor.artifacts


async def measure_floors(corpus: OpenCorpus) -> list[BuiltFloor]:
    """Ask a corpus own and foreign questions, and return its floor for each mode.

    It asks about a hundred questions, or fewer in a large corpus, with one call a channel. The floors depend only on
    the content of the corpus.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "rotate the signing keys"}, name="notes", embedder="light")
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         return [(floor.mode, floor.reason) for floor in await measure_floors(corpus)]
        >>> anyio.run(main)
        [('dense', 'too_small'), ('lexical', 'too_small'), ('hybrid', 'too_small')]
    """
    store = corpus.store
    ids = await ask(store, ArtifactIds())
    embedder_id = (await ask(store, Config())).get("embedder_id", corpus.embedder.id)
    formula = await _find_formula(store)
    measured: dict[str, Any] = {"embedder_id": embedder_id, "artifacts": len(ids), "formula": formula}
    if len(ids) < _LEAST_ARTIFACTS:
        return [BuiltFloor(None, mode, reason="too_small", **measured) for mode in MODES]
    # In a large corpus each question takes long, so fewer are asked, and only for words.
    is_large = (await ask(store, Counts()))["records"] > _MOST_RECORDS
    count, foreign = (_OWN_QUESTIONS // 3, FOREIGN[::3]) if is_large else (_OWN_QUESTIONS, FOREIGN)
    groups = await ask(store, RecordsOf(await in_thread(choose_ids, ids, count), limit=_RECORDS_READ))
    own = await in_thread(make_own_questions, [group or [] for group in groups], count, await _find_analyser(store))
    try:
        asked = await _ask(corpus, own, foreign, has_dense=not is_large)
    except EmbedderError:
        return [BuiltFloor(None, mode, reason="embedder_failed", **measured) for mode in MODES]
    counts: dict[str, Any] = {"n_own": len(own), "n_foreign": len(foreign), **measured}
    # Vectors that know words but no meaning tell nothing beside the words themselves.
    modes = {mode: channels_of(mode) for mode in MODES}
    if default_alpha(embedder_id) < _ALPHA_OF_MEANING:
        modes["hybrid"] = channels_of("lexical")
    groups_of = asked[: len(own)], asked[len(own) :]
    return [BuiltFloor(mode=mode, **_separate(names, *groups_of), **counts) for mode, names in modes.items()]


async def _find_formula(store: Store) -> str | None:
    """Return the formula of BM25 of a store; `None` if it cannot count words."""
    return (await ask(store, Words([""]))).formula if "words" in store.capabilities else None


async def _find_analyser(store: Store) -> Analyser:
    """Return the analyser of a store; one that keeps words as they are if it is not known."""
    counts = await ask(store, Words([""])) if "words" in store.capabilities else None
    return (counts and counts.analyser) or Analyser(None)


async def _ask(
    corpus: OpenCorpus, own: Sequence[OwnQuestion], foreign: Sequence[str], *, has_dense: bool
) -> list[Evidence]:
    """Return the evidence of the own questions, then of the foreign ones."""
    store = corpus.store
    texts = [*(question.text for question in own), *foreign]
    # The second-best artifact is the best one of an own question whose own artifact is left out.
    dense: Sequence[Ranking | None] = [None] * len(texts)
    if has_dense:
        queries = await embed_texts(corpus, texts)
        dense = await ask(store, Rank(queries, 2, per_artifact=True))
    lexical = await ask(store, Rank(texts, 2, per_artifact=True))
    counts: list[TermCounts | None] = [None] * len(texts)
    if "words" in store.capabilities:
        counts = [await ask(store, Words([text])) for text in texts]
    questions: list[OwnQuestion | None] = [*own, *[None] * len(foreign)]
    return await in_thread(lambda: list(map(_weigh_rankings, questions, dense, lexical, counts)))


def _weigh_rankings(
    question: OwnQuestion | None, dense: Ranking | None, lexical: Ranking, counts: TermCounts | None
) -> Evidence:
    own_id = None if question is None else question.artifact_id
    match = None
    if counts is not None:
        own_words = None if question is None else question.own_words
        match = match_strength(_best_score(lexical, own_id), counts, own=own_words)
    return Evidence(None if dense is None else _best_score(dense, own_id), match)


def _best_score(ranking: Ranking, own_id: str | None) -> float:
    """Return the best score of another artifact than the own one; 0 without one."""
    pairs = zip(ranking.artifact_ids, ranking.scores.tolist(), strict=True)
    return next((score for artifact_id, score in pairs if artifact_id != own_id), 0.0)


def _scale(channel: str, value: float) -> float:
    """Return evidence on a scale on which it can be added: a match counts by its logarithm."""
    return math.log(max(value, _LEAST_MATCH)) if channel == "lexical" else value


def _separate(names: Sequence[Mode], own: Sequence[Evidence], foreign: Sequence[Evidence]) -> dict[str, Any]:
    """Return the fields of the floor that separates own from foreign questions."""
    channels: list[Mode] = [name for name in names if own and name in own[0].channels]
    if not channels:
        return {"min_evidence": None, "reason": "too_large"}
    inseparable = {"min_evidence": None, "reason": "inseparable"}
    own_values, foreign_values = (
        np.array([[_scale(name, evidence.channels[name]) for name in channels] for evidence in group])
        for group in (own, foreign)
    )
    own_middle, foreign_middle = np.median(own_values, 0), np.median(foreign_values, 0)
    # Each channel counts by how far apart the two kinds are, in its own spread: only the sides that face each other
    # matter. A few near copies among the artifacts, with scores near 1, must not widen the spread.
    spread = _deviation(own_values, own_middle, -1) ** 2 + _deviation(foreign_values, foreign_middle, 1) ** 2
    weights = np.maximum(own_middle - foreign_middle, 0.0) / (spread + 1e-6)
    distance = float((own_middle - foreign_middle) @ weights)
    if distance <= 0:
        return inseparable
    # A channel that tells nothing is not asked for.
    channels = [name for name, weight in zip(channels, weights, strict=True) if weight]
    own_values, foreign_values, foreign_middle = (
        each[..., weights > 0] for each in (own_values, foreign_values, foreign_middle)
    )
    weights = weights[weights > 0] / distance
    offset = -float(foreign_middle @ weights)
    own_scores, foreign_scores = own_values @ weights + offset, foreign_values @ weights + offset
    floor = _place_floor(own_scores, foreign_scores)
    rejected = float(np.mean(foreign_scores < floor))
    if rejected < _LEAST_REJECTED:
        return inseparable
    return {
        "min_evidence": round(floor, 6),
        "weights": dict(zip(channels, map(float, weights), strict=True)),
        "offset": offset,
        "enough": _find_enough(channels, own, foreign) if len(channels) > 1 else {},
        "own_kept": float(np.mean(own_scores >= floor)),
        "foreign_rejected": rejected,
    }


def _find_enough(channels: Sequence[str], own: Sequence[Evidence], foreign: Sequence[Evidence]) -> dict[str, float]:
    """Return the evidence that suffices in each channel without the others.

    Half of the own questions have as much, and few foreign ones.
    """
    return {
        name: float(
            max(
                np.median([evidence.channels[name] for evidence in own]),
                np.quantile([evidence.channels[name] for evidence in foreign], _FOREIGN_SHARE),
            )
        )
        for name in channels
    }


def _place_floor(own: Any, foreign: Any) -> float:
    """Return the floor for the weighed evidence of own and foreign questions."""
    highest_foreign = float(np.quantile(foreign, _FOREIGN_SHARE))
    # All own questions score above nearly all foreign ones. The floor is just above these: people word questions less
    # like the texts than the texts word each other.
    if own.min() > highest_foreign:
        return highest_foreign + (float(own.min()) - highest_foreign) * _MARGIN
    middle = np.median(own)
    lowest_own = float(middle - _DEVIATIONS * _deviation(own, middle, -1))
    # Not all scores are spread as a normal distribution is.
    lowest_own = min(lowest_own, float(np.quantile(own, _LOST_SHARE)))
    # A floor above nearly all foreign questions would only lose own ones.
    return min(lowest_own, highest_foreign)


def _deviation(values: Any, middle: Any, side: int) -> Any:
    """Return the standard deviation from the median of the values on one side of it.

    The side is 1 for the values above the median, and -1 for those below.
    """
    differences = (values - middle) * side
    count = np.maximum((differences >= 0).sum(0), 1)
    return np.sqrt((np.maximum(differences, 0.0) ** 2).sum(0) / count)

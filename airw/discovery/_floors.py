"""The least score a source must reach to take part: given, or calibrated for exactly its way of searching."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from airw._base.checks import check_number
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.protocols import OpenCorpus
from airw.reranking import is_anonymous
from airw.retrieval import Question

__all__ = ["AUTO", "Floor", "Floors", "calibrated_floor", "floors_of"]

AUTO: Literal["auto"] = "auto"
Floor: TypeAlias = float | Literal["auto"] | None
Floors: TypeAlias = Floor | Mapping[str, Floor]


def floors_of(min_score: Floors, names: tuple[str, ...], *, many: bool) -> dict[str, Floor]:
    """Give the floor of each source, as it was asked for.

    Raises:
        ArgumentError: A floor cannot be used, or one number is to hold for several corpora, or a name is unknown.
    """
    if not many:
        if isinstance(min_score, Mapping):
            raise ArgumentError("min_score by name is for several corpora; for one give a number, 'auto' or None")
        return {names[0]: _check_floor(min_score, "min_score")}
    if isinstance(min_score, Mapping):
        unknown = [name for name in min_score if name not in names]
        if unknown:
            raise ArgumentError(f"min_score names {short_repr(unknown[0])}, which is not among {', '.join(names)}")
        return {name: _check_floor(min_score.get(name), f"min_score of {name!r}") for name in names}
    if min_score is not None and min_score != AUTO:
        raise ArgumentError(
            "one min_score cannot hold for several corpora, whose scores have scales of their own: "
            f"give {{name: number}} or 'auto', not {short_repr(min_score)}"
        )
    return dict.fromkeys(names, min_score)


def _check_floor(floor: Any, name: str) -> Floor:
    if floor is None or (isinstance(floor, str) and floor == AUTO):
        return floor
    return check_number(f"{name}, unless 'auto' or None,", floor)


async def calibrated_floor(corpus: OpenCorpus, question: Question) -> tuple[float | None, str | None]:
    """Give the floor that was calibrated for this way of searching a corpus; or none, and why there is none."""
    if question.rescaled:
        return None, f"{' and '.join(question.rescaled)} move scores off the scale that floors are calibrated on"
    key, tag = await in_thread(question.scale)
    if is_anonymous(tag):
        return None, "the reranker has no name of its own to know its floor by: give it an attribute `id`"
    return _usable(await corpus.store.calibration(key), key, question.mode, tag, corpus.embedder.id)


def _usable(
    record: Mapping[str, Any], key: str, mode: str, tag: str | None, embedder_id: str
) -> tuple[float | None, str | None]:
    if not record:
        return None, f"nothing is calibrated for {key!r}: calibrate_min_score(…, persist=True) does it"
    if record.get("mode") != mode or record.get("rerank") != tag:
        return None, f"what is stored under {key!r} was calibrated for another way of searching"
    if record.get("embedder_id") != embedder_id:
        return None, f"it was calibrated with the embedder {record.get('embedder_id')!r}, not {embedder_id!r}"
    floor = record.get("min_score")
    if floor is None:
        return None, f"calibrating found no floor: {record.get('reason', 'no reason stored')}"
    try:
        return check_number("it", floor), None
    except ArgumentError:
        return None, f"the floor stored under {key!r} is no finite number"

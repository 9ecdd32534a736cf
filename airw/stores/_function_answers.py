"""The answers of a user's functions, checked and converted to records, scores and edges."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn, TypeAlias

from airw._base.json import json_clean
from airw._base.messages import error_text, short_repr
from airw.errors import StoreError
from airw.values import Artifact, Edge, Record, SearchHit

Name: TypeAlias = Literal["search", "get", "neighbors"]

KIND = "document"
_RELATED = "related"
_SHAPES: Mapping[Name, str] = {
    "search": "return a list of (id, score) pairs, best first",
    "get": "return a list with a text, a dict or None for each id, or a dict of them by id",
    "neighbors": "return a list with a list of ids for each id, or a dict of them by id",
}


def _refuse(function: Name, fault: str, advice: str | None = None, *, cause: Exception | None = None) -> NoReturn:
    why = "" if cause is None else f" ({error_text(cause)})"
    raise StoreError(f"{function} {fault}{why}; {advice or _SHAPES[function]}") from cause


def read_found(answer: object, k: int) -> list[tuple[Record, float]]:
    """Return the first `k` records that `search` has found, with their scores.

    Without scores, the records score by their ranks: 1, 1/2, 1/3 and so on.

    Raises:
        StoreError: If the answer is not a ranking.

    Example:
        >>> [(record.id, score) for record, score in read_found(["b", {"id": "a", "text": "keys"}], 5)]
        [('b', 1.0), ('a', 0.5)]
    """
    if not isinstance(answer, list | tuple):
        _refuse("search", f"returned {short_repr(answer)}")
    rows = [_read_row(row) for row in answer[:k]]
    seen, last = set[str](), math.inf
    for (record, score), row in zip(rows, answer, strict=False):
        if record.id in seen:
            _refuse("search", f"returned {short_repr(record.id)} twice", "return each id once, at its best score")
        if (score is None) != (rows[0][1] is None):
            _refuse("search", f"returned {short_repr(row)}", "return all with scores, or all without")
        if score is not None and not math.isfinite(score):
            _refuse("search", f"returned the score {score} for {short_repr(record.id)}", "return finite scores")
        if score is not None and score > last:
            fault = f"returned the score {score:.6g} of {short_repr(record.id)} after {last:.6g}"
            _refuse("search", fault, "return the best first, by similarity and not by distance")
        seen.add(record.id)
        last = last if score is None else score
    return [(record, 1 / rank if score is None else score) for rank, (record, score) in enumerate(rows, 1)]


def _read_row(row: object) -> tuple[Record, float | None]:
    score: object = None
    if isinstance(row, tuple | list) and len(row) == 2:
        row, score = row
    elif isinstance(row, SearchHit):
        score = row.score
    elif isinstance(row, Mapping):
        score = row.get("score")
        row = {name: value for name, value in row.items() if name != "score"}
    id = _id_of(row)
    record = Record(id, id, KIND, 0, "") if isinstance(row, str) else _read_item("search", id, row)
    return record, None if score is None else _read_score(id, score)


def _read_score(id: str, score: Any) -> float:
    fault = f"returned the score {short_repr(score)} for {short_repr(id)}"
    if isinstance(score, bool | str | bytes):
        _refuse("search", fault, "return numbers as scores")
    try:
        return float(score)
    except Exception as error:  # noqa: BLE001 - `__float__` of another library may raise anything
        _refuse("search", fault, "return numbers as scores", cause=error)


def _id_of(row: object) -> str:
    if isinstance(row, Mapping):
        id = row.get("id")
    elif isinstance(row, Record | SearchHit):
        id = row.artifact_id
    else:
        id = row.id if isinstance(row, Artifact) else row
    if not isinstance(id, str) or not id:
        _refuse(
            "search", f"returned {short_repr(row)}", "return ids that are texts, (id, score) pairs, or dicts with 'id'"
        )
    return id


def read_items(ids: Sequence[str], answer: object) -> list[Record | None]:
    """Return the record of each id that `get` was called with, or `None`.

    Raises:
        StoreError: If the answer has not one item for each id, or an item is of another kind.

    Example:
        >>> read_items(["a", "b"], {"a": "keys"})[0].text, read_items(["a"], [None])
        ('keys', [None])
    """
    pairs = zip(ids, _align("get", ids, answer), strict=True)
    return [None if value is None else _read_item("get", id, value) for id, value in pairs]


def _align(function: Name, ids: Sequence[str], answer: object) -> Sequence[object]:
    """Return the answer for each id."""
    if isinstance(answer, Mapping):
        known = set(ids)
        unknown = [key for key in answer if key not in known]
        if unknown:
            _refuse(function, f"returned {short_repr(unknown[0])}, which it was not called with")
        return [answer.get(id) for id in ids]
    if not isinstance(answer, list | tuple):
        _refuse(function, f"returned {short_repr(answer)} for {len(ids)} ids")
    if len(answer) != len(ids):
        _refuse(function, f"returned {len(answer)} items for {len(ids)} ids")
    return answer


def _read_item(function: Name, id: str, value: object) -> Record:
    """Return what a function has returned about an artifact, as its record."""
    kind, text, metadata = KIND, value, dict[str, Any]()
    if isinstance(value, Artifact):
        record = _read_item(function, id, value.raw)
        metadata = {**record.metadata, **_read_metadata(function, id, value.metadata)}
        return Record(id, id, kind, 0, record.text, metadata)
    if isinstance(value, Record | SearchHit):
        kind, text, metadata = value.surface_kind, value.text, _read_metadata(function, id, value.metadata)
        _check_id(function, id, value.artifact_id)
    elif isinstance(value, Mapping):
        _check_id(function, id, value.get("id", id))
        fields = {name: field for name, field in value.items() if name not in ("id", "text", "metadata")}
        nested = value.get("metadata")
        text = value.get("text", "")
        metadata = _read_metadata(function, id, {**fields, **(nested if isinstance(nested, Mapping) else {})})
    if not isinstance(text, str):
        shape = "a text, or a dict with 'text'" if function == "get" else "dicts with 'id' and 'text'"
        _refuse(function, f"returned {short_repr(value)} for {short_repr(id)}", f"return {shape}")
    return Record(id, id, kind, 0, text, metadata)


def _read_metadata(function: Name, id: str, metadata: Any) -> dict[str, Any]:
    try:
        clean: dict[str, Any] = json_clean(dict(metadata))
    except Exception as error:  # noqa: BLE001 - values of other libraries may raise anything
        fault = f"returned metadata of {short_repr(id)} that are not JSON"
        advice = "return texts, numbers, lists and dicts that do not contain themselves"
        _refuse(function, fault, advice, cause=error)
    return clean


def _check_id(function: Name, id: str, own: object) -> None:
    if own != id:
        _refuse(function, f"returned {short_repr(own)} in the place of {short_repr(id)}")


def read_neighbors(ids: Sequence[str], answer: object) -> list[list[Edge]]:
    """Return the edges of each id that `neighbors` was called with.

    Raises:
        StoreError: If the answer has not one list for each id, or an item is not a neighbour.

    Example:
        >>> [[(edge.type, edge.target) for edge in edges] for edges in read_neighbors(["a"], [["c", ("b", "cites")]])]
        [[('related', 'c'), ('cites', 'b')]]
    """
    return [_read_edges(id, own) for id, own in zip(ids, _align("neighbors", ids, answer), strict=True)]


def _read_edges(id: str, own: object) -> list[Edge]:
    if own is None:
        return []
    if not isinstance(own, list | tuple | set | frozenset):
        _refuse("neighbors", f"returned {short_repr(own)} for {short_repr(id)}")
    return [_read_edge(id, item) for item in own]


def _read_edge(id: str, item: object) -> Edge:
    if isinstance(item, Edge) and item.source == id:
        return item
    target, type = item if isinstance(item, tuple | list) and len(item) == 2 else (item, _RELATED)
    if not (isinstance(target, str) and target and isinstance(type, str)):
        advice = "return ids, (id, type) pairs, or an Edge that begins there"
        _refuse("neighbors", f"returned {short_repr(item)} for {short_repr(id)}", advice)
    return Edge(id, target, type)

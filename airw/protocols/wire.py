"""The form in which calls of a store travel: their arguments and their answers, as JSON.

Arrays are `{"shape": [2, 3], "dtype": "<f4", "base64": "…"}`, so that each number arrives to the last bit. Objects of
the library are lists of their fields. All else is plain JSON. Whoever receives a value checks its types: neither side
trusts the other.
"""

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import Any, Final

import numpy as np

from airw._base.arrays import NDArray
from airw._base.json import is_deeper, json_clean
from airw._base.messages import short_repr
from airw.protocols import ArtifactVectors, BestRecords, FirstSurfaces, StepAnswer
from airw.values import (
    ArtifactRef,
    Edge,
    LedgerEntry,
    Link,
    LinkCount,
    Ranking,
    Record,
    SearchHit,
    TermCounts,
    UnresolvedLink,
)
from airw.values.filters import parse_filter, to_mapping

API_VERSIONS: Final = (1,)
"""The versions of the API that this version of the library speaks."""

JSON_TYPE: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
"""The media types of answers."""
VERSION_HEADER: Final = "Airw-Api"
"""The header of each answer in which a server names the versions that it speaks."""

_DTYPES: Mapping[str, "np.dtype[Any]"] = {"<f4": np.dtype("<f4"), "<f8": np.dtype("<f8")}
_LARGEST_COUNT = 10**18
_LARGEST_NUMBER = 1e6  # of a query vector, whose numbers are at most 1; much larger ones overflow


class WireFault(Exception):
    """A value that was received is not of the form that was agreed."""


@dataclass(frozen=True, slots=True)
class WireForm:
    """How values of one kind travel.

    Args:
        pack: Returns a value as JSON.
        unpack: Returns the value of some JSON. It raises `WireFault` for JSON of another form.
    """

    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


def _keep(value: Any) -> Any:
    return value


def _plain(noun: str, *kinds: type) -> WireForm:
    def unpack(value: Any) -> Any:
        if type(value) not in kinds:
            raise WireFault(f"{short_repr(value)} is not {noun}")
        return value

    return WireForm(_keep, unpack)


def _unpack_count(value: Any) -> int:
    if type(value) is not int or abs(value) > _LARGEST_COUNT:
        raise WireFault(f"{short_repr(value)} is not a whole number of at most 18 digits")
    return value


def optional(form: WireForm) -> WireForm:
    """Return the form of values that may be `None`."""
    return WireForm(
        lambda value: None if value is None else form.pack(value),
        lambda value: None if value is None else form.unpack(value),
    )


def list_of(form: WireForm) -> WireForm:
    """Return the form of lists whose items have a form.

    Example:
        >>> list_of(TEXT).unpack(["a", 1])
        Traceback (most recent call last):
            ...
        airw.protocols.wire.WireFault: 1 is not a string
    """
    is_plain = form.pack is _keep

    def pack(values: Any) -> list[Any]:
        return [*values] if is_plain else [form.pack(value) for value in values]

    def unpack(value: Any) -> list[Any]:
        return [form.unpack(item) for item in _require_list(value)]

    return WireForm(pack, unpack)


def map_of(form: WireForm) -> WireForm:
    """Return the form of mappings from strings to values of a form."""

    def unpack(value: Any) -> dict[str, Any]:
        return {key: form.unpack(item) for key, item in _unpack_object(value).items()}

    return WireForm(lambda values: {key: form.pack(item) for key, item in values.items()}, unpack)


def row_of(make: Callable[..., Any], **forms: WireForm) -> WireForm:
    """Return the form of objects, as lists of their fields in this order.

    Args:
        make: The class; it is called with the values of the fields.
        forms: The forms of the fields, by name.
    """
    names, columns = [*forms], [*forms.values()]

    def pack(value: Any) -> list[Any]:
        return [form.pack(getattr(value, name)) for name, form in zip(names, columns, strict=True)]

    def unpack(value: Any) -> Any:
        items = _require_list(value)
        if len(items) != len(columns):
            raise WireFault(f"a list of {len(items)} items is not {', '.join(names)}")
        fields = [form.unpack(item) for form, item in zip(columns, items, strict=True)]
        try:
            return make(*fields)
        except ValueError as error:  # what a class refuses
            raise WireFault(str(error)) from error

    return WireForm(pack, unpack)


def _require_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise WireFault(f"{short_repr(value)} is not a list")
    return value


def _unpack_object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise WireFault(f"{short_repr(value)} is not an object")
    if is_deeper(value):
        raise WireFault("an object nests deeper than 100 levels")
    return value


def _pack_node(node: Any) -> Any:
    return node if isinstance(node, str) else [*node]


def _unpack_node(value: Any) -> Any:
    if type(value) is str:
        return value
    if type(value) is list and len(value) == 2 and {*map(type, value)} == {str}:
        return ArtifactRef(*value)
    raise WireFault(f"{short_repr(value)} is neither an id nor a pair of a source and an id")


def pack_array(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array of floats as JSON.

    Example:
        >>> pack_array(np.ones((1, 2), np.float32))
        {'shape': [1, 2], 'dtype': '<f4', 'base64': 'AACAPwAAgD8='}
    """
    dtype = "<f8" if np.asarray(array).dtype == np.float64 else "<f4"
    rows = np.ascontiguousarray(array, _DTYPES[dtype])
    return {"shape": [*np.shape(array)], "dtype": dtype, "base64": base64.b64encode(rows.tobytes()).decode("ascii")}


def unpack_array(value: Any, *, dimensions: int) -> NDArray[Any]:
    """Return the array in some JSON, as a copy that the receiver may change.

    Raises:
        WireFault: If it is none, or has another number of dimensions.

    Example:
        >>> unpack_array(pack_array(np.ones(2, np.float32)), dimensions=1)
        array([1., 1.], dtype=float32)
    """
    fields = _unpack_object(value)
    shape, dtype, text = fields.get("shape"), fields.get("dtype"), fields.get("base64")
    if type(shape) is not list or type(dtype) is not str or dtype not in _DTYPES or type(text) is not str:
        raise WireFault(f"{short_repr(value)} is not an array with shape, dtype and base64")
    if len(shape) != dimensions or not all(type(size) is int and 0 <= size <= 1 << 40 for size in shape):
        raise WireFault(f"the shape {short_repr(shape)} does not have {dimensions} dimensions")
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise WireFault("the numbers of an array are not in base64") from error
    if len(content) != math.prod(shape) * _DTYPES[dtype].itemsize:
        raise WireFault(f"an array of {len(content):,} bytes does not have the shape {short_repr(shape)}")
    array = np.frombuffer(content, _DTYPES[dtype])
    # In the byte order of this machine, which every library of numbers expects.
    native: NDArray[Any] = array.astype(array.dtype.newbyteorder("=")).reshape(shape)
    return native


def _array(dimensions: int) -> WireForm:
    return WireForm(pack_array, partial(unpack_array, dimensions=dimensions))


def _query_array(dimensions: int) -> WireForm:
    def unpack(value: Any) -> NDArray[Any]:
        array = unpack_array(value, dimensions=dimensions).astype(np.float32)
        if not (np.abs(array) < _LARGEST_NUMBER).all():  # false for NaN, too
            raise WireFault("a query vector must contain finite numbers, and be of length one")
        return array

    return WireForm(lambda value: pack_array(np.asarray(value, np.float32)), unpack)


TEXT = _plain("a string", str)
FLAG = _plain("true or false", bool)
NUMBER = _plain("a number", int, float)
COUNT = WireForm(_keep, _unpack_count)
OBJECT = WireForm(json_clean, _unpack_object)
VALUE = WireForm(json_clean, _keep)
NODE = WireForm(_pack_node, _unpack_node)
TEXTS = list_of(TEXT)
FILTER = WireForm(to_mapping, lambda value: parse_filter(_unpack_object(value)))
_ROWS, _COLUMN = _array(2), _array(1)
_RECORD = row_of(Record, id=TEXT, artifact_id=TEXT, surface_kind=TEXT, surface_index=COUNT, text=TEXT, metadata=OBJECT)
_LEDGER_ENTRY = row_of(
    lambda *fields: replace(LedgerEntry(*fields), record_ids=tuple(fields[-1])),
    artifact_id=TEXT,
    version=TEXT,
    embedder_id=TEXT,
    strategy_id=TEXT,
    extractor_id=TEXT,
    source=TEXT,
    record_ids=TEXTS,
)
_RANKING = row_of(
    lambda record_ids, artifact_ids, scores, max_score: Ranking(
        record_ids, artifact_ids, scores, None if max_score is None else float(max_score)
    ),
    record_ids=TEXTS,
    artifact_ids=TEXTS,
    scores=_COLUMN,
    max_score=optional(_array(0)),
)
_EDGE = row_of(Edge, source=NODE, target=NODE, type=TEXT, origin=TEXT, weight=NUMBER)
_LINK = row_of(
    Link,
    target_ref=TEXT,
    type=TEXT,
    origin=TEXT,
    target_source=optional(TEXT),
    file=optional(TEXT),
    line=optional(COUNT),
    or_ref=optional(TEXT),
    weight=NUMBER,
)
_UNRESOLVED_LINK = row_of(
    lambda source, link, candidates: UnresolvedLink(source, link, tuple(candidates)),
    source=NODE,
    link=_LINK,
    candidates=list_of(NODE),
)
_LINK_COUNT = row_of(LinkCount, type=TEXT, origin=TEXT, state=TEXT, count=COUNT)
_TERM_COUNTS = row_of(
    TermCounts, formula=TEXT, records=COUNT, words=COUNT, frequencies=map_of(COUNT), repeats=map_of(COUNT)
)
_BEST_RECORDS = row_of(BestRecords, record_ids=list_of(optional(TEXT)), scores=_COLUMN)
_ARTIFACT_VECTORS = row_of(ArtifactVectors, record_ids=list_of(TEXTS), vectors=_ROWS)
_FIRST_SURFACES = row_of(
    FirstSurfaces,
    kinds=list_of(optional(TEXT)),
    indexes=list_of(optional(COUNT)),
    texts=TEXTS,
    metadata=list_of(OBJECT),
)
_EDGES = list_of(list_of(_EDGE))
_STEP_ANSWER = row_of(
    StepAnswer,
    edges=_EDGES,
    artifact_ids=TEXTS,
    best=_BEST_RECORDS,
    records=list_of(optional(_RECORD)),
    vectors=optional(_ARTIFACT_VECTORS),
)
_PAIR = WireForm(
    lambda pair: [pair[0], json_clean(pair[1])],
    lambda value: tuple(row_of(lambda *pair: pair, field=TEXT, value=VALUE).unpack(value)),
)


@dataclass(frozen=True, slots=True)
class StoreCallForm:
    """How the calls of one method of a store travel.

    Args:
        answer: The form of its result.
        arguments: The forms of its positional arguments, by name.
        options: The forms of its keyword arguments, by name. One that is `None` or left out is not passed on.
        each: The argument with one item per item of the answer; `""` if a call cannot be split.
    """

    answer: WireForm
    arguments: Mapping[str, WireForm] = field(default_factory=dict)
    options: Mapping[str, WireForm] = field(default_factory=dict)
    each: str = ""


_LINK_OPTIONS = {"direction": TEXT, "types": TEXTS, "exclude": TEXTS, "origins": TEXTS, "limit": COUNT}
_SEARCH_OPTIONS = {"filter": FILTER, "surfaces": TEXTS, "per_artifact": FLAG}

STORE_CALLS: Mapping[str, StoreCallForm] = {
    "get_records": StoreCallForm(list_of(optional(_RECORD)), {"ids": TEXTS}, each="ids"),
    "records_of": StoreCallForm(
        list_of(optional(list_of(_RECORD))),
        {"artifact_ids": TEXTS},
        {"kinds": TEXTS, "limit": COUNT},
        each="artifact_ids",
    ),
    "ledger": StoreCallForm(list_of(optional(_LEDGER_ENTRY)), {"ids": TEXTS}, each="ids"),
    "artifact_ids": StoreCallForm(TEXTS),
    "config": StoreCallForm(OBJECT),
    "calibration": StoreCallForm(OBJECT, {}, {"key": TEXT}),
    "counts": StoreCallForm(map_of(COUNT)),
    "search_vectors": StoreCallForm(
        list_of(_RANKING), {"queries": _query_array(2), "k": COUNT}, _SEARCH_OPTIONS, each="queries"
    ),
    "similarities": StoreCallForm(_COLUMN, {"query": _query_array(1), "record_ids": TEXTS}, each="record_ids"),
    "best_of": StoreCallForm(
        _BEST_RECORDS, {"query": _query_array(1), "artifact_ids": TEXTS}, {"surfaces": TEXTS}, each="artifact_ids"
    ),
    "vectors": StoreCallForm(_ROWS, {"ids": TEXTS}, each="ids"),
    "vectors_of": StoreCallForm(_ARTIFACT_VECTORS, {"artifact_ids": TEXTS}, each="artifact_ids"),
    "search_text": StoreCallForm(
        list_of(_RANKING),
        {"queries": TEXTS, "k": COUNT},
        {**_SEARCH_OPTIONS, "statistics": _TERM_COUNTS},
        each="queries",
    ),
    "term_statistics": StoreCallForm(_TERM_COUNTS, {"queries": TEXTS}),
    "language": StoreCallForm(optional(TEXT)),
    "neighbors": StoreCallForm(_EDGES, {"ids": TEXTS}, _LINK_OPTIONS, each="ids"),
    "resolve": StoreCallForm(list_of(TEXTS), {"refs": TEXTS}, each="refs"),
    "referrers": StoreCallForm(list_of(TEXTS), {"nodes": list_of(NODE)}, {"types": TEXTS}, each="nodes"),
    "fan_in": StoreCallForm(list_of(COUNT), {"nodes": list_of(NODE)}, {"types": TEXTS}, each="nodes"),
    "max_fan_in": StoreCallForm(COUNT, {}, {"types": TEXTS}),
    "matching": StoreCallForm(list_of(TEXTS), {"wanted": list_of(_PAIR)}, {"limit": COUNT}, each="wanted"),
    "unresolved_links": StoreCallForm(list_of(_UNRESOLVED_LINK), {}, {"artifact_ids": TEXTS, "limit": COUNT}),
    "link_counts": StoreCallForm(list_of(_LINK_COUNT)),
    "surface_kinds": StoreCallForm(TEXTS),
    "has_fields": StoreCallForm(list_of(FLAG), {"paths": TEXTS}, each="paths"),
    "field_names": StoreCallForm(TEXTS, {}, {"limit": COUNT}),
    "first_surfaces": StoreCallForm(_FIRST_SURFACES, {"artifact_ids": TEXTS}, each="artifact_ids"),
    "find_changed": StoreCallForm(TEXTS, {"versions": map_of(TEXT), "stamp": _LEDGER_ENTRY}),
    "read_step": StoreCallForm(
        _STEP_ANSWER,
        {"ids": TEXTS, "query": optional(_query_array(1))},
        {
            **_LINK_OPTIONS,
            "hit_ids": TEXTS,
            "known_ids": TEXTS,
            "max_ends": COUNT,
            "max_records": COUNT,
            "with_vectors": FLAG,
        },
    ),
}
"""The methods of a store that can be called from another machine; all of them read."""
ID_ARGUMENTS: Final = frozenset({"ids", "artifact_ids", "record_ids", "refs", "nodes", "hit_ids", "known_ids"})
"""The arguments whose items are sent once each: an item that is there many times would multiply the answer."""


def pack_call(method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as JSON; options that are `None` are left out."""
    form = STORE_CALLS[method]
    packed = {name: each.pack(arguments[name]) for name, each in form.arguments.items()}
    options = {name: arguments[name] for name in form.options if arguments.get(name) is not None}
    return packed | {name: form.options[name].pack(value) for name, value in options.items()}


def unpack_call(method: str, body: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the keyword arguments of a call.

    Raises:
        WireFault: If one is missing, unknown, or of another form; the message names it.

    Example:
        >>> unpack_call("records_of", {"artifact_ids": ["a"], "limit": 1})
        ([['a']], {'limit': 1})
    """
    form = STORE_CALLS[method]
    known = {**form.arguments, **form.options}
    values: dict[str, Any] = {}
    for name, value in body.items():
        if name not in known:
            raise WireFault(f"{method} takes {', '.join(known) or 'no arguments'}, not {short_repr(name)}")
        if value is None and name in form.options:
            continue
        try:
            values[name] = known[name].unpack(value)
        except WireFault as fault:
            raise WireFault(f"{name} of {method} cannot be used: {fault}") from None
    if missing := [name for name in form.arguments if name not in values]:
        raise WireFault(f"{method} needs {missing[0]}")
    return [values.pop(name) for name in form.arguments], values


def unpack_answer(method: str, value: Any, count: int | None, *, dim: int) -> Any:
    """Return the answer to a call.

    Args:
        method: The method.
        value: The JSON that was received.
        count: The number of items that the call asked about; `None` if the answer may have any length.
        dim: The width of the vectors of the corpus.

    Raises:
        WireFault: If it is of another form, its parts do not have the lengths that they must have, or a number is not
            finite.

    Example:
        >>> unpack_answer("resolve", [["a"]], 2, dim=8)
        Traceback (most recent call last):
            ...
        airw.protocols.wire.WireFault: resolve answered about 1 of 2
    """
    answer = STORE_CALLS[method].answer.unpack(value)
    if method == "read_step":
        _check_step(answer, count, dim)
    elif isinstance(answer, ArtifactVectors):
        _check_vectors(answer, count, dim)
    elif isinstance(answer, BestRecords | FirstSurfaces):
        _check_lengths(method, count, *answer)
    elif count is not None:
        _check_lengths(method, count, answer)
    _check_numbers(method, answer, dim)
    return answer


def _check_numbers(method: str, answer: Any, dim: int) -> None:
    # NaN stands for a record that does not exist, but never in a ranking.
    if method == "vectors":
        _check_rows(method, answer[~np.isnan(answer).all(axis=1)], dim)
    elif method == "similarities":
        _check_scores(method, answer[~np.isnan(answer)])
    elif method == "best_of":
        _check_scores(method, answer.scores[~np.isnan(answer.scores)])
    elif method.startswith("search"):
        for ranking in answer:
            _check_lengths(method, len(ranking), ranking.artifact_ids, ranking.scores)
            _check_scores(method, ranking.scores)


def _check_step(answer: StepAnswer, count: int | None, dim: int) -> None:
    _check_lengths("read_step", count, answer.edges)
    _check_lengths("read_step", len(answer.artifact_ids), *answer.best, answer.records)
    _check_numbers("best_of", answer.best, dim)
    if answer.vectors is not None:
        _check_vectors(answer.vectors, len(answer.artifact_ids), dim)


def _check_vectors(answer: ArtifactVectors, count: int | None, dim: int) -> None:
    _check_lengths("vectors_of", count, answer.record_ids)
    _check_lengths("vectors_of", sum(map(len, answer.record_ids)), answer.vectors)
    _check_rows("vectors_of", answer.vectors, dim)


def _check_rows(method: str, rows: NDArray[Any], dim: int) -> None:
    if len(rows) and rows.shape[1] != dim:
        raise WireFault(f"{method} answered with vectors of {rows.shape[1]:,} numbers, and those here have {dim:,}")
    _check_scores(method, rows)


def _check_scores(method: str, scores: NDArray[Any]) -> None:
    if not np.isfinite(scores).all():
        raise WireFault(f"{method} answered with a number that is not finite")


def _check_lengths(method: str, count: int | None, *columns: Any) -> None:
    for column in columns:
        if len(column) != count:
            raise WireFault(f"{method} answered about {len(column):,} of {count:,}")


def unpack_hit(value: Any, *, source: str) -> SearchHit:
    """Return the hit that `SearchHit.to_dict` turned into JSON, with another source.

    Raises:
        WireFault: If it is of another form.
    """
    fields = _unpack_object(value)
    score = optional(NUMBER).unpack(fields.get("score"))
    return SearchHit(
        artifact_id=TEXT.unpack(fields.get("artifact_id")),
        surface_kind=TEXT.unpack(fields.get("surface_kind")),
        score=math.nan if score is None else score,
        text=TEXT.unpack(fields.get("text")),
        metadata=_unpack_object(fields.get("metadata")),
        source=None if fields.get("source") is None else source,
        surface_index=optional(COUNT).unpack(fields.get("surface_index")),
    )


def join_answers(method: str, parts: list[Any]) -> Any:
    """Return the answers to the parts of a call that was split as one answer."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    if isinstance(first, tuple):  # column by column
        columns = [[*column] for column in zip(*parts, strict=True)]
        return type(first)(*[*map(join_answers, repeat(method), columns)])
    return [item for part in parts for item in part]


def scatter_answer(answer: Any, places: Sequence[int]) -> Any:
    """Return the answer to a call with duplicates, from that to a call without them.

    Args:
        answer: An answer with one item for each different item of the call.
        places: For each item of the call, its place among the different ones.

    Example:
        >>> scatter_answer([["x"], []], [1, 0, 1])
        [[], ['x'], []]
    """
    if isinstance(answer, ArtifactVectors):
        starts = np.cumsum([0, *map(len, answer.record_ids)])
        rows = [row for place in places for row in range(starts[place], starts[place + 1])]
        return ArtifactVectors([answer.record_ids[place] for place in places], answer.vectors[rows])
    if isinstance(answer, np.ndarray):
        return answer[[*places]]
    if isinstance(answer, tuple):
        return type(answer)(*[scatter_answer(column, places) for column in answer])
    return [answer[place] for place in places]


def measure_answer(answer: Any) -> int:
    """Return about how many bytes an answer takes, without making its JSON.

    Example:
        >>> measure_answer([["a" * 100], None]) > 100
        True
    """
    if isinstance(answer, str):
        return len(answer) + 3
    if isinstance(answer, np.ndarray):
        return answer.nbytes * 4 // 3
    if isinstance(answer, dict):
        return sum(len(str(key)) + measure_answer(value) for key, value in answer.items())
    if isinstance(answer, list | tuple):
        return sum(map(measure_answer, answer))
    if isinstance(answer, Record):
        return len(answer.text) + measure_answer([answer.id, answer.artifact_id, answer.metadata])
    if isinstance(answer, Edge):
        return measure_answer([answer.source, answer.target, answer.type])
    return 3

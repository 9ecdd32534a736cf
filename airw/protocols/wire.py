"""The form in which requests to a store travel, and their answers: as JSON.

A request is an object with the name of its class under `ask`, and those values that are not the defaults. A chain names
an earlier request of the same message by its place. Arrays are `{"shape": [2, 3], "dtype": "<f4", "base64": "…"}`, so
that each number arrives to the last bit. Other objects of the library are lists of their fields. Whoever receives a
value checks its types: neither side trusts the other.
"""

import base64
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.json import is_deeper, json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.protocols import requests as forms
from airw.protocols.requests import ArtifactVectors, Best, Ends, Fed, Rank, Request
from airw.protocols.stores import fill
from airw.values import ArtifactRef, LedgerEntry, LinkFilter, NodeId, NodeIdLike, Ranking, SearchHit
from airw.values.filters import Filter, parse_filter, to_mapping

API_VERSIONS: Final = (1,)
"""The versions of the API that this version of the library speaks."""

JSON_TYPE: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
"""The media types of answers."""
VERSION_HEADER: Final = "Airw-Api"
"""The header of each answer in which a server names the versions that it speaks."""
MOST_REQUESTS: Final = 16
"""The largest number of requests in one message."""

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


def _one_of(tag: str, forms: Mapping[str, WireForm]) -> WireForm:
    """Return the form of objects of several classes, each with the name of its class.

    Args:
        tag: The field that has the name.
        forms: The forms of the classes, by name; see `_object_of`.
    """

    def pack(value: Any) -> dict[str, Any]:
        kind = type(value).__name__
        return {tag: kind, **forms[kind].pack(value)}

    def unpack(value: Any) -> Any:
        kind = _require_object(value).get(tag)
        if type(kind) is not str or kind not in forms:
            raise WireFault(f"{tag} must be one of {', '.join(forms)}, not {short_repr(kind)}")
        return forms[kind].unpack({name: item for name, item in value.items() if name != tag})

    return WireForm(pack, unpack)


def _different(form: WireForm) -> WireForm:
    """Return the form of lists whose items are sent once each.

    An item that is there many times would multiply the answer.
    """
    every = list_of(form)

    def unpack(value: Any) -> list[Any]:
        items: list[Any] = every.unpack(value)
        if len(set(items)) < len(items):
            [(double, _)] = Counter(items).most_common(1)
            raise WireFault(f"{short_repr(double)} is there twice; send it once")
        return items

    return WireForm(lambda values: every.pack(dict.fromkeys(values)), unpack)


def _require_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise WireFault(f"{short_repr(value)} is not a list")
    return value


def _require_object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise WireFault(f"{short_repr(value)} is not an object")
    return value


def _unpack_object(value: Any) -> dict[str, Any]:
    if is_deeper(fields := _require_object(value)):
        raise WireFault("an object nests deeper than 100 levels")
    return fields


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


def _pack_queries(queries: Floats | Sequence[str]) -> Any:
    if isinstance(queries, np.ndarray):
        return pack_array(np.asarray(queries, np.float32))
    return TEXTS.pack(queries)


def _unpack_queries(value: Any) -> Floats | list[str]:
    if type(value) is list:
        return TEXTS.unpack(value)  # type: ignore[no-any-return]
    array = unpack_array(value, dimensions=2).astype(np.float32)
    if not (np.abs(array) < _LARGEST_NUMBER).all():  # false for NaN, too
        raise WireFault("a query vector must contain finite numbers, and be of length one")
    return array


TEXT = _plain("a string", str)
FLAG = _plain("true or false", bool)
NUMBER = WireForm(float, _plain("a number", int, float).unpack)
COUNT = WireForm(_keep, _unpack_count)
OBJECT = WireForm(json_clean, _unpack_object)
VALUE = WireForm(json_clean, _keep)
NODE = WireForm(_pack_node, _unpack_node)
TEXTS = list_of(TEXT)
_FORMS: dict[Any, WireForm] = {
    str: TEXT,
    bool: FLAG,
    float: NUMBER,
    int: COUNT,
    Any: VALUE,
    Mapping[str, Any]: OBJECT,
    dict[str, Any]: OBJECT,
    NodeId: NODE,
    NodeIdLike: TEXT,  # an id of this corpus: a server has no others
    Filter: WireForm(to_mapping, lambda value: parse_filter(_unpack_object(value))),
    Floats: WireForm(pack_array, partial(unpack_array, dimensions=2)),
    NDArray[np.float64]: WireForm(pack_array, partial(unpack_array, dimensions=1)),  # the scores of a ranking
    Floats | Sequence[str]: WireForm(_pack_queries, _unpack_queries),
}
_IDS = ("among", "artifact_ids", "ids", "nodes", "records", "refs")  # fields of requests, whose items are different
_NODES = ("nodes", "without")  # fields that may name artifacts of other corpora


def form_of(kind: Any) -> WireForm:
    """Return the form of values of a type: objects of the library are lists of their fields.

    Example:
        >>> from airw.values import Edge
        >>> form_of(list[Edge]).pack([Edge("a", "b", "see")])
        [['a', 'b', 'see', 'inline', 1.0]]
    """
    if kind in _FORMS:
        return _FORMS[kind]
    origin, args = get_origin(kind), get_args(kind)
    if NoneType in args:
        return optional(form_of(Union[tuple(arg for arg in args if arg is not NoneType)]))  # noqa: UP007 - built here
    if origin is Literal:
        return TEXT
    if origin is Mapping or origin is dict:
        return map_of(form_of(args[1]))
    if origin is tuple and args[1:] == (...,):
        every = form_of(list[args[0]])  # type: ignore[valid-type]
        return WireForm(every.pack, lambda value: tuple(every.unpack(value)))
    if origin is tuple:
        return _row_of(lambda *items: items, [(itemgetter(at), form_of(arg)) for at, arg in enumerate(args)])
    if origin is not None:
        return list_of(form_of(args[0]))
    return _row_of(kind, [(attrgetter(name), form_of(hint)) for name, hint in get_type_hints(kind).items()])


def _row_of(make: Callable[..., Any], columns: Sequence[tuple[Callable[[Any], Any], WireForm]]) -> WireForm:
    """Return the form of objects as lists.

    A column is a function that reads a field, and the form of the field.
    """

    def pack(value: Any) -> list[Any]:
        return [form.pack(read(value)) for read, form in columns]

    def unpack(value: Any) -> Any:
        if len(_require_list(value)) != len(columns):
            raise WireFault(f"{short_repr(value)} does not have {len(columns)} items")
        items = [form.unpack(item) for (_, form), item in zip(columns, value, strict=True)]
        try:
            return make(*items)
        except ValueError as error:  # what a class refuses
            raise WireFault(str(error)) from error

    return WireForm(pack, unpack)


def _object_of(make: Any, **own: WireForm) -> WireForm:
    """Return the form of requests and their parts: JSON objects without defaults.

    Args:
        make: The class, a dataclass.
        own: The forms of fields that are not those of their types.
    """
    kind = make.__name__
    defaults = {item.name: item.default for item in fields(make)}
    hints = get_type_hints(make)
    forms = {name: own.get(name) or _field_form(name, hints[name]) for name in defaults}

    def pack(value: Any) -> dict[str, Any]:
        changed = {name: item for name in forms if (item := getattr(value, name)) is not defaults[name]}
        try:
            return {name: forms[name].pack(item) for name, item in changed.items()}
        except TypeError as error:
            raise ArgumentError(f"{short_repr(value)} cannot be sent: {error}") from error

    def unpack(value: Any) -> Any:
        given = {}
        for name, item in _require_object(value).items():
            if name not in forms:
                raise WireFault(f"{kind} takes {', '.join(forms) or 'nothing'}, not {short_repr(name)}")
            try:
                given[name] = forms[name].unpack(item)
            except WireFault as fault:
                raise WireFault(f"{name} of {kind} cannot be used: {fault}") from None
        for name in forms:
            if name not in given and defaults[name] is MISSING:
                raise WireFault(f"{kind} needs {name}")
        return make(**given)

    return WireForm(pack, unpack)


def _field_form(name: str, hint: Any) -> WireForm:
    """Return the form of a field of a request."""
    item = NODE if name in _NODES else TEXT
    if name in _IDS:
        every = _different(item)
        return optional(every) if NoneType in get_args(hint) else every
    return list_of(item) if name in _NODES else form_of(hint)


_FORMS[LinkFilter] = _object_of(LinkFilter)
_ENTRY = form_of(LedgerEntry)
_FORMS[LedgerEntry] = WireForm(  # in a tuple, as everywhere: entries are compared
    _ENTRY.pack, lambda value: replace(entry := _ENTRY.unpack(value), record_ids=tuple(entry.record_ids))
)

_KINDS: Final[Mapping[str, type]] = {
    name: kind
    for name, kind in vars(forms).items()
    if isinstance(kind, type) and issubclass(kind, Request) and kind not in (Request, Fed)
}
_ANSWERS = {name: form_of(kind.__orig_bases__[0].__args__[0]) for name, kind in _KINDS.items()}  # type: ignore[attr-defined]
_REQUESTS = {name: _object_of(kind) for name, kind in _KINDS.items()}
_OF = WireForm(_keep, _keep)  # a request: `pack_requests` and `unpack_requests` put its place there
_FEEDER = _one_of("take", {kind.__name__: _object_of(kind, of=_OF) for kind in (Ends, Best)})
_FED = _object_of(Fed, request=_one_of("ask", _REQUESTS), by=_FEEDER)
_ANY_REQUEST = _one_of("ask", _REQUESTS | {"Fed": _FED})
REQUEST_NAMES: Final = (*_KINDS, "Fed")
"""The names of all kinds of requests."""
_EACH: Final = {
    "Edges": "ids",
    "Ledger": "ids",
    "Matching": "wanted",
    "Names": "refs",
    "Rank": "queries",
    "Records": "ids",
    "RecordsOf": "artifact_ids",
    "Referrers": "nodes",
    "Vectors": "ids",
    "VectorsOf": "artifact_ids",
}
"""The fields with one item per entry of the answer."""


def pack_answer(request: Request[Any], answer: Any) -> Any:
    """Return the answer of a request as JSON."""
    return _ANSWERS[type(request).__name__].pack(answer)


def pack_requests(requests: Sequence[Request[Any]]) -> list[dict[str, Any]]:
    """Return the requests of a message as JSON.

    Raises:
        ArgumentError: If a value cannot be sent, or a request is fed by one that does not stand before it.

    Example:
        >>> edges = forms.Edges(["a"], limit=9)
        >>> pack_requests([edges, Fed(forms.RecordsOf(()), Ends(edges))])[1]
        {'ask': 'Fed', 'request': {'ask': 'RecordsOf', 'artifact_ids': []}, 'by': {'take': 'Ends', 'of': 0}}
    """
    packed = []
    for place, request in enumerate(requests):
        item = _ANY_REQUEST.pack(request)
        if isinstance(request, Fed):
            places = [at for at in range(place) if requests[at] is request.by.of]
            if not places:
                raise ArgumentError("a request is fed by one that does not stand before it in the same call")
            item["by"]["of"] = places[0]
        packed.append(item)
    return packed


def unpack_requests(value: Any, guard: Callable[[Request[Any]], Request[Any]]) -> list[Request[Any]]:
    """Return the requests of a message.

    Args:
        value: The JSON that was received.
        guard: Checks a request, and returns the one to answer in its place.

    Raises:
        WireFault: If it is of another form.
        AirwError: If a request cannot be made of these values, or `guard` refuses it.
    """
    requests: list[Request[Any]] = []
    for item in _require_list(value):
        given = _require_object(item)
        by = given.get("by")
        if isinstance(by, dict):
            place = by.get("of")
            if type(place) is not int or not 0 <= place < len(requests):
                raise WireFault(f"{short_repr(place)} is not the place of an earlier request")
            given = {**given, "by": {**by, "of": requests[place]}}
        requests.append(guard(_ANY_REQUEST.unpack(given)))
    return requests


class MessageSize(NamedTuple):
    """How much a message asks for, or may ask for.

    Args:
        requests: The requests in it.
        items: The ids, queries and other items in their lists.
        rows: The rows of their rankings.
        fields: The different fields of records; each may cost a scan of all records.
    """

    requests: int
    items: int
    rows: int
    fields: int


def measure_requests(requests: Sequence[Request[Any]], *, all_rows: int) -> MessageSize:
    """Return how much a message asks for.

    Args:
        requests: The requests of the message.
        all_rows: The rows of a ranking of all records.

    Example:
        >>> measure_requests([Rank(["keys", "doors"], 5), forms.Records(["a"])], all_rows=100)
        MessageSize(requests=2, items=3, rows=10, fields=0)
    """
    plain = [request.request if isinstance(request, Fed) else request for request in requests]
    feeders = [request.by for request in requests if isinstance(request, Fed)]
    rows, paths = 0, set[str]()
    for request in plain:
        if isinstance(request, Rank):
            is_bounded = request.k is not None or request.among is not None or request.records is not None
            rows += len(request.queries) * ((request.k or 0) if is_bounded else all_rows)
        elif isinstance(request, forms.Matching):
            paths.update(field for field, _ in request.wanted)
        elif isinstance(request, forms.Schema):
            paths.update(request.paths)
    return MessageSize(len(plain), sum(map(_count_items, [*plain, *feeders])), rows, len(paths))


def _count_items(value: Any) -> int:
    """Return the number of items in the lists of a request, of what feeds it, or of its links."""
    if is_dataclass(value):
        return sum(_count_items(getattr(value, item.name)) for item in fields(value) if item.name not in _UNCOUNTED)
    return len(value) if hasattr(value, "__len__") and not isinstance(value, str) else 0


_UNCOUNTED = ("filter", "of", "statistics")


def items_of(request: Request[Any]) -> tuple[str, Sequence[Any]]:
    """Return the name and the items of the list that can be split; none if there is none.

    A ranking of one query is split by the artifacts or records that it ranks.

    Example:
        >>> items_of(Rank(["keys"], among=["a", "b"]))
        ('among', ['a', 'b'])
    """
    name = _EACH.get(type(request).__name__, "")
    if isinstance(request, Rank) and len(request.queries) == 1:
        for listed, ids in (("among", request.among), ("records", request.records)):
            if ids is not None:
                return listed, [*dict.fromkeys(ids)]  # each is ranked once
    return name, getattr(request, name) if name else ()


def split_request(request: Request[Any], size: int) -> list[Request[Any]]:
    """Return requests about at most `size` items each, which together ask the same."""
    name, items = items_of(request)
    if len(items) <= size:
        return [request]
    part: Any = request
    return [replace(part, **{name: items[start : start + size]}) for start in range(0, len(items), size)]


def join_answers(request: Request[Any], parts: Sequence[Any]) -> Any:
    """Return the answers to the parts of a request that was split as one answer."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(request, Rank) and items_of(request)[0] != "queries":
        return [_merge_rankings([ranking for [ranking] in parts], request.k)]
    if isinstance(request, forms.VectorsOf):
        return ArtifactVectors(
            [ids for part in parts for ids in part.record_ids], _stack([each.vectors for each in parts])
        )
    return _stack(parts) if isinstance(request, forms.Vectors) else [item for part in parts for item in part]


def _stack(parts: Sequence[Floats]) -> Floats:
    """Return rows of vectors as one array; a part without rows may have no width."""
    return np.concatenate([part for part in parts if len(part)] or parts[:1])


def _merge_rankings(rankings: Sequence[Ranking], k: int | None) -> Ranking:
    """Return the best of several rankings of one query."""
    scores = np.concatenate([ranking.scores for ranking in rankings])
    record_ids, artifact_ids = [
        [id for ranking in rankings for id in getattr(ranking, name)] for name in ("record_ids", "artifact_ids")
    ]
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], artifact_ids[at]))[:k]
    return Ranking(
        [record_ids[at] for at in order], [artifact_ids[at] for at in order], scores[order], rankings[0].max_score
    )


def unpack_answers(requests: Sequence[Request[Any]], value: Any, *, dim: int) -> list[Any]:
    """Return the answers to the requests of a message.

    Args:
        requests: The requests.
        value: The JSON that was received.
        dim: The width of the vectors of the corpus.

    Raises:
        WireFault: If it is of another form, its parts do not have the lengths that they must have, or a number is not
            finite.

    Example:
        >>> unpack_answers([forms.Names(["keys", "doors"])], [[["a"]]], dim=8)
        Traceback (most recent call last):
            ...
        airw.protocols.wire.WireFault: Names was answered about 1 of 2
    """
    _check_lengths("the message", len(requests), _require_list(value))
    answers: dict[int, Any] = {}
    for request, item in zip(requests, value, strict=True):
        answers[id(request)] = _unpack_answer(fill(request, answers), item, dim)
    return [answers[id(request)] for request in requests]


def _unpack_answer(request: Request[Any], value: Any, dim: int) -> Any:
    kind = type(request).__name__
    answer = _ANSWERS[kind].unpack(value)
    if kind not in _EACH:
        if isinstance(request, forms.Schema):
            _check_lengths(kind, len(request.paths), answer.has_fields)
        return answer
    items = getattr(request, _EACH[kind])
    # Ids were sent once each.
    places = None if isinstance(request, Rank | forms.Matching) else places_of(items)
    count = len(items) if places is None else max(places) + 1
    if isinstance(request, forms.VectorsOf):
        _check_lengths(kind, count, answer.record_ids)
        _check_lengths(kind, sum(map(len, answer.record_ids)), answer.vectors)
        _check_vectors(kind, answer.vectors, dim)
    else:
        _check_lengths(kind, count, answer)
    if isinstance(request, forms.Vectors):  # NaN stands for a record that does not exist
        _check_vectors(kind, answer[~np.isnan(answer).all(axis=1)], dim)
    if isinstance(request, Rank):
        for ranking in answer:
            _check_lengths(kind, len(ranking), ranking.artifact_ids, ranking.scores)
            _check_finite(kind, ranking.scores)
    return answer if places is None else _scatter(answer, places)


def _check_vectors(kind: str, rows: NDArray[Any], dim: int) -> None:
    if len(rows) and rows.shape[1] != dim:
        raise WireFault(f"{kind} was answered with vectors of {rows.shape[1]:,} numbers, and those here have {dim:,}")
    _check_finite(kind, rows)


def _check_finite(kind: str, numbers: NDArray[Any]) -> None:
    if not np.isfinite(numbers).all():
        raise WireFault(f"{kind} was answered with a number that is not finite")


def _check_lengths(kind: str, count: int, *columns: Any) -> None:
    for column in columns:
        if len(column) != count:
            raise WireFault(f"{kind} was answered about {len(column):,} of {count:,}")


def places_of(ids: Sequence[Hashable]) -> list[int] | None:
    """Return for each id its place among the different ones; `None` if all are different.

    Example:
        >>> places_of(["b", "a", "b"])
        [0, 1, 0]
    """
    places = {id: place for place, id in enumerate(dict.fromkeys(ids))}
    return None if len(places) == len(ids) else [places[id] for id in ids]


def _scatter(answer: Any, places: Sequence[int]) -> Any:
    """Return the answer about ids of which some are equal, from that about the different ones."""
    if isinstance(answer, ArtifactVectors):
        starts = np.cumsum([0, *map(len, answer.record_ids)])
        rows = [row for place in places for row in range(starts[place], starts[place + 1])]
        return ArtifactVectors([answer.record_ids[place] for place in places], answer.vectors[rows])
    return answer[[*places]] if isinstance(answer, np.ndarray) else [answer[place] for place in places]


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

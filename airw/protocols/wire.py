"""The form in which requests to a store travel, and their answers: as JSON.

A request is an object with the name of its class under `ask`, and those values that are not the defaults. A chain names
an earlier request of the same message by its place. Arrays are `{"shape": [2, 3], "dtype": "<f4", "base64": "…"}`, so
that each number arrives to the last bit. Other objects of the library are lists of their fields. Whoever receives a
value checks its types: neither side trusts the other.
"""

import base64
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache, partial
from itertools import accumulate, chain
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.json import is_deeper, json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.protocols import requests as forms
from airw.protocols.requests import CAPABILITIES, ArtifactVectors, Best, Ends, Fed, Rank, Request
from airw.protocols.stores import fill
from airw.values import ArtifactRef, LedgerEntry, LinkFilter, NodeId, NodeIdLike, Ranking, SearchHit
from airw.values.filters import And, Compare, Filter, Not, Or, parse_filter, to_mapping

API_VERSIONS: Final = (1,)
"""The versions of the API that this version of the library speaks."""

JSON_TYPE: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
"""The media types of answers."""
VERSION_HEADER: Final = "Airw-Api"
"""The header of each answer in which a server names the versions that it speaks."""
MOST_REQUESTS: Final = 16
"""The largest number of requests in one message."""
MOST_MESSAGES: Final = 64
"""The largest number of messages to stores that travel together."""

_DTYPES: Mapping[str, "np.dtype[Any]"] = {"<f4": np.dtype("<f4"), "<f8": np.dtype("<f8")}
_LARGEST_COUNT = 10**18
_LARGEST_NUMBER = 1e6  # of a query vector, whose numbers are at most 1; much larger ones overflow


Reader: TypeAlias = Callable[[Any], Any]
"""Returns the value of some JSON that was received. It raises `WireFault` for JSON of another form."""


class WireFault(Exception):
    """A value that was received is not of the form that was agreed."""


def pack(value: Any) -> Any:
    """Return a value as JSON: a request, an answer, or a part of one.

    Example:
        >>> from airw.values import Edge
        >>> pack([Edge("a", "b", "see")]), pack(forms.Edges(["a"], limit=9))
        ([['a', 'b', 'see', 'inline', 1.0]], {'ask': 'Edges', 'ids': ['a'], 'limit': 9})
    """
    return _packer_of(type(value))(value)  # type: ignore[arg-type]


@cache
def _packer_of(kind: type) -> Callable[[Any], Any]:
    """Return the function that packs values of a class, which many values share."""
    if issubclass(kind, str | int | NoneType):
        return _keep
    if issubclass(kind, np.ndarray):
        return pack_array
    if issubclass(kind, Compare | And | Or | Not):
        return to_mapping
    if issubclass(kind, Request | Ends | Best | LinkFilter):
        return _pack_object
    # A class derived from one of the library may have more fields; the first one is what travels.
    rows = [own for own in kind.__mro__ if is_dataclass(own) or hasattr(own, "_fields")]
    if rows:
        read = attrgetter(*get_type_hints(rows[-1]))
        return lambda value: [pack(item) for item in read(value)]
    is_list = issubclass(kind, Iterable) and not issubclass(kind, Mapping)
    return _pack_all if is_list else json_clean


def _keep(value: Any) -> Any:
    return value


def _pack_all(values: Iterable[Any]) -> list[Any]:
    items = [*values]
    packers = {kind: _packer_of(kind) for kind in {*map(type, items)}}
    return items if {*packers.values()} <= {_keep} else [packers[type(item)](item) for item in items]


def _pack_object(value: Any) -> dict[str, Any]:
    """Return a request or a part of one: its fields that are not the defaults.

    `pack_requests` adds the place of the request that feeds it.
    """
    kind = type(value)
    packed = {} if kind is LinkFilter else {"ask" if issubclass(kind, Request) else "take": kind.__name__}
    for item in fields(value):
        own = getattr(value, item.name)
        if own is not item.default and item.name != "of":
            packed[item.name] = pack([*dict.fromkeys(own)] if item.name in {*_IDS, *_NODES} else own)
    return packed


def pack_array(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array of floats as JSON.

    Example:
        >>> pack_array(np.ones((1, 2), np.float32))
        {'shape': [1, 2], 'dtype': '<f4', 'base64': 'AACAPwAAgD8='}
    """
    dtype = "<f8" if np.asarray(array).dtype == np.float64 else "<f4"
    rows = np.ascontiguousarray(array, _DTYPES[dtype])
    return {"shape": [*np.shape(array)], "dtype": dtype, "base64": base64.b64encode(rows.tobytes()).decode("ascii")}


def _plain(noun: str, *kinds: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) not in kinds:
            raise WireFault(f"{short_repr(value)} is not {noun}")
        return value

    return read


TEXT = _plain("a string", str)
FLAG = _plain("true or false", bool)
NUMBER = _plain("a number", int, float)
_LIST = _plain("a list", list)
_FIELDS = _plain("an object", dict)


def COUNT(value: Any) -> int:  # noqa: N802 - read as the other kinds of values
    """Return a whole number that was received."""
    if type(value) is not int or abs(value) > _LARGEST_COUNT:
        raise WireFault(f"{short_repr(value)} is not a whole number of at most 18 digits")
    return value


def OBJECT(value: Any) -> dict[str, Any]:  # noqa: N802
    """Return an object that was received, with any values."""
    if is_deeper(fields := _FIELDS(value)):
        raise WireFault("an object nests deeper than 100 levels")
    return fields  # type: ignore[no-any-return]


def NODE(value: Any) -> NodeId:  # noqa: N802
    """Return the id of an artifact that was received: a text, or a pair of a source and an id."""
    if type(value) is str:
        return value
    if type(value) is list and len(value) == 2 and {*map(type, value)} == {str}:
        return ArtifactRef(*value)
    raise WireFault(f"{short_repr(value)} is neither an id nor a pair of a source and an id")


def optional(read: Reader) -> Reader:
    """Return the reader of values that may be `None`."""
    return lambda value: None if value is None else read(value)


def list_of(read: Reader) -> Reader:
    """Return the reader of lists.

    Example:
        >>> list_of(TEXT)(["a", 1])
        Traceback (most recent call last):
            ...
        airw.protocols.wire.WireFault: 1 is not a string
    """
    return lambda value: [*map(read, _LIST(value))]


def map_of(read: Reader) -> Reader:
    """Return the reader of objects from strings to values."""
    return lambda value: {key: read(item) for key, item in OBJECT(value).items()}


def unpack_array(value: Any, *, dimensions: int) -> NDArray[Any]:
    """Return the array in some JSON, as a copy that the receiver may change.

    Raises:
        WireFault: If it is none, or has another number of dimensions.

    Example:
        >>> unpack_array(pack_array(np.ones(2, np.float32)), dimensions=1)
        array([1., 1.], dtype=float32)
    """
    fields = OBJECT(value)
    try:
        content, shape = base64.b64decode(fields["base64"], validate=True), fields["shape"]
        array = np.frombuffer(content, _DTYPES[fields["dtype"]]).reshape(shape)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        told = short_repr(value)
        raise WireFault(
            f"{told} is not an array: it does not have the shape and dtype named, or is not in base64"
        ) from error
    if [*array.shape] != shape or array.ndim != dimensions:
        raise WireFault(f"the shape {short_repr(shape)} does not have {dimensions} dimensions")
    # In the byte order of this machine, which every library of numbers expects.
    native: NDArray[Any] = array.astype(array.dtype.newbyteorder("="))
    return native


def _read_queries(value: Any) -> Floats | list[str]:
    if type(value) is list:
        return TEXTS(value)  # type: ignore[no-any-return]
    array = unpack_array(value, dimensions=2).astype(np.float32)
    if not (np.abs(array) < _LARGEST_NUMBER).all():  # false for NaN, too
        raise WireFault("a query vector must contain finite numbers, and be of length one")
    return array


TEXTS = list_of(TEXT)
_READERS: dict[Any, Reader] = {
    str: TEXT,
    bool: FLAG,
    float: NUMBER,
    int: COUNT,
    Any: _keep,
    Mapping[str, Any]: OBJECT,
    dict[str, Any]: OBJECT,
    NodeId: NODE,
    NodeIdLike: TEXT,  # an id of this corpus: a server has no others
    Filter: lambda value: parse_filter(OBJECT(value)),
    Floats: partial(unpack_array, dimensions=2),
    NDArray[np.float64]: partial(unpack_array, dimensions=1),  # the scores of a ranking
    Floats | Sequence[str]: _read_queries,
}
_IDS = ("among", "artifact_ids", "ids", "nodes", "records", "refs")  # fields of requests, whose items are different
_NODES = ("nodes", "without")  # fields that may name artifacts of other corpora


def reader_of(kind: Any) -> Reader:
    """Return the reader of values of a type; objects of the library are lists of their fields."""
    if kind in _READERS:
        return _READERS[kind]
    origin, args = get_origin(kind), get_args(kind)
    if NoneType in args:
        return optional(reader_of(Union[tuple(arg for arg in args if arg is not NoneType)]))  # noqa: UP007 - built here
    if origin is Literal:
        return TEXT
    if origin in (Mapping, dict):
        return map_of(reader_of(args[1]))
    if origin is None:
        return _row_of(kind, [*get_type_hints(kind).values()])
    if origin is tuple and args[1:] != (...,):
        return _row_of(lambda *items: items, args)
    every = list_of(reader_of(args[0]))
    return (lambda value: tuple(every(value))) if origin is tuple else every


def _row_of(make: Callable[..., Any], kinds: Sequence[Any]) -> Reader:
    """Return the reader of objects that are lists of their fields.

    Args:
        make: Makes an object of its fields.
        kinds: The types of the fields.
    """
    readers = [*map(reader_of, kinds)]

    def read(value: Any) -> Any:
        if len(_LIST(value)) != len(readers):
            raise WireFault(f"{short_repr(value)} does not have {len(readers)} items")
        items = [read(item) for read, item in zip(readers, value, strict=True)]
        try:
            return make(*items)
        except ValueError as error:  # what a class refuses
            raise WireFault(str(error)) from error

    return read


def _object_of(make: Any) -> Reader:
    """Return the reader of requests and their parts: JSON objects without defaults."""
    kind, hints = make.__name__, get_type_hints(make)
    readers = {item.name: _reader_of_field(item.name, hints[item.name]) for item in fields(make)}
    needed = [item.name for item in fields(make) if item.default is MISSING]

    def read(value: Any) -> Any:
        given = {}
        for name, item in _FIELDS(value).items():
            if name not in readers:
                raise WireFault(f"{kind} takes {', '.join(readers) or 'nothing'}, not {short_repr(name)}")
            try:
                given[name] = readers[name](item)
            except WireFault as fault:
                raise WireFault(f"{name} of {kind} cannot be used: {fault}") from None
        for name in needed:
            if name not in given:
                raise WireFault(f"{kind} needs {name}")
        return make(**given)

    return read


def _reader_of_field(name: str, hint: Any) -> Reader:
    """Return the reader of a field of a request.

    Ids are sent once each: an id that is there many times would multiply the answer.
    """
    if name == "of":  # `unpack_requests` puts the request that feeds another one in the place of its number
        return _keep
    read_items = list_of(NODE) if name in _NODES else reader_of(hint)

    def read(value: Any) -> Any:
        items: list[Any] | None = read_items(value)
        if items and len({*items}) < len(items):
            [(double, _)] = Counter(items).most_common(1)
            raise WireFault(f"{short_repr(double)} is there twice; send it once")
        return items

    return read if name in _IDS else read_items


def _one_of(tag: str, readers: Mapping[str, Reader]) -> Reader:
    """Return the reader of objects of several classes; a tag has the name of the class."""

    def read(value: Any) -> Any:
        kind = _FIELDS(value).get(tag)
        if type(kind) is not str or kind not in readers:
            raise WireFault(f"{tag} must be one of {', '.join(readers)}, not {short_repr(kind)}")
        return readers[kind]({name: item for name, item in value.items() if name != tag})

    return read


_READERS[LinkFilter] = _object_of(LinkFilter)
_read_entry = reader_of(LedgerEntry)
# In a tuple, as everywhere: entries are compared.
_READERS[LedgerEntry] = lambda value: replace(entry := _read_entry(value), record_ids=tuple(entry.record_ids))

# What a whole store answers: nothing else can be asked from another machine.
_KINDS: Final[Mapping[str, type]] = {
    name: kind
    for name, kind in vars(forms).items()
    if isinstance(kind, type) and issubclass(kind, Request) and kind not in (Request, Fed)
    if kind is Rank or kind._needs in CAPABILITIES  # noqa: SLF001 - of this package
}
_ANSWERS = {name: reader_of(kind.__orig_bases__[0].__args__[0]) for name, kind in _KINDS.items()}  # type: ignore[attr-defined]
_REQUESTS = {name: _object_of(kind) for name, kind in _KINDS.items()}
_fed = get_type_hints(Fed)
_READERS[_fed["request"]] = _one_of("ask", _REQUESTS)
_READERS[_fed["by"]] = _one_of("take", {kind.__name__: _object_of(kind) for kind in (Ends, Best)})
_read_request = _one_of("ask", _REQUESTS | {"Fed": _object_of(Fed)})
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
        try:
            item = pack(request)
        except TypeError as error:
            raise ArgumentError(f"{short_repr(request)} cannot be sent: {error}") from error
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
    for item in _LIST(value):
        given = _FIELDS(item)
        by = given.get("by")
        if isinstance(by, dict):
            place = by.get("of")
            if type(place) is not int or not 0 <= place < len(requests):
                raise WireFault(f"{short_repr(place)} is not the place of an earlier request")
            given = {**given, "by": {**by, "of": requests[place]}}
        requests.append(guard(_read_request(given)))
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
        match request:
            case Rank(k=None, among=None, records=None):
                rows += len(request.queries) * all_rows
            case Rank():
                rows += len(request.queries) * (request.k or 0)
            case forms.Matching():
                paths.update(field for field, _ in request.wanted)
            case forms.Schema():
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
    return _from_rows([row for part in parts for row in _to_rows(part)], parts[0])


def _to_rows(answer: Any) -> Sequence[Any]:
    """Return what an answer says about each item."""
    if not isinstance(answer, ArtifactVectors):
        return answer  # type: ignore[no-any-return]
    ends = [*accumulate(map(len, answer.record_ids))]
    return [*zip(answer.record_ids, np.split(answer.vectors, ends)[: len(ends)], strict=True)]


def _from_rows(rows: Sequence[Any], like: Any) -> Any:
    """Return the answer of the form of another one that says these rows about its items."""
    if isinstance(like, ArtifactVectors):
        vectors = [own for _, own in rows if len(own)]  # one without rows may have no width
        return ArtifactVectors([ids for ids, _ in rows], np.concatenate(vectors or [like.vectors[:0]]))
    return np.array(rows if len(rows) else like[:0]) if isinstance(like, np.ndarray) else [*rows]


def _merge_rankings(rankings: Sequence[Ranking], k: int | None) -> Ranking:
    """Return the best of several rankings of one query."""
    every = [zip(-own.scores, own.artifact_ids, own.record_ids, strict=True) for own in rankings]
    rows = sorted(chain.from_iterable(every), key=itemgetter(0, 1))[:k]
    scores = np.array([-score for score, _, _ in rows], np.float64)
    return Ranking([id for _, _, id in rows], [id for _, id, _ in rows], scores, rankings[0].max_score)


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
    _check_lengths("the message", len(requests), _LIST(value))
    answers: dict[int, Any] = {}
    for request, item in zip(requests, value, strict=True):
        answers[id(request)] = _unpack_answer(fill(request, answers), item, dim)
    return [answers[id(request)] for request in requests]


def _unpack_answer(request: Request[Any], value: Any, dim: int) -> Any:
    kind = type(request).__name__
    answer = _ANSWERS[kind](value)
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
    rows = _to_rows(answer)
    return answer if places is None else _from_rows([rows[place] for place in places], answer)


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


@cache
def _fields_of(kind: Any) -> Mapping[str, Reader]:
    return {name: reader_of(hint) for name, hint in get_type_hints(kind).items()}


def read_fields(kind: Any, value: Any, **own: Any) -> Any:
    """Return an object whose fields were received by name; what it does not have is ignored.

    Args:
        kind: Its class, a dataclass.
        value: The JSON that was received.
        own: Fields that were not received in this form.

    Raises:
        WireFault: If it is of another form.
    """
    data = _FIELDS(value)
    return kind(**own, **{name: read(data.get(name)) for name, read in _fields_of(kind).items() if name not in own})


def unpack_hit(value: Any, *, source: str) -> SearchHit:
    """Return the hit that `SearchHit.to_dict` turned into JSON, with another source.

    Raises:
        WireFault: If it is of another form.
    """
    score, own = map(_FIELDS(value).get, ("score", "source"))
    hit: SearchHit = read_fields(
        SearchHit,
        value,
        score=math.nan if score is None else NUMBER(score),
        source=None if own is None else source,
    )
    return hit

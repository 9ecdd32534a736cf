"""The endpoints of `RemoteCorpus`: the calls of a store, one request each, and embeddings."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from starlette.responses import Response

from airw._base.checks import check_count, check_query
from airw._base.concurrency import in_thread, offload_if
from airw._base.messages import short_repr
from airw.corpora.problems import PROBLEMS_SETTING
from airw.errors import AirwError, ArgumentError, EmbedderMismatch
from airw.policies.specs import list_policies, parameters_of
from airw.protocols import FirstSurfaces, OpenCorpus
from airw.protocols.wire import (
    ID_ARGUMENTS,
    STORE_CALLS,
    WireFault,
    join_answers,
    measure_answer,
    pack_array,
    unpack_call,
)
from airw.serving.artifacts import durability_of
from airw.serving.bodies import FieldKinds
from airw.serving.filters import guard_filter, is_shown
from airw.serving.limits import ServingLimits
from airw.serving.problems import AnswerTooLarge
from airw.serving.queries import check_filter_size, check_length, check_query_length, take_text
from airw.serving.service import ApiCall
from airw.stores.steps import compose_step
from airw.values import Record, UnresolvedLink
from airw.walking import WalkPolicy

DESCRIBE_FIELDS: FieldKinds = {"corpus": str}

EMBED_FIELDS: FieldKinds = {"corpus": str, "query": str, "texts": list}

_ROWS_PER_ID = 10  # of rankings, for each id that one call may have
_MOST_TEXTS = 256  # embedded in one call
_SLICE = 1_000  # items that a store is asked about at once
_FEW = 50  # items; packing the answer about more takes about a millisecond
_SHORT = frozenset({"calibration", "config", "counts", "language", "max_fan_in"})  # methods with short answers
_MOST_FIELDS = 32  # different fields of records in one call: each may cost a scan of all records
_COMPOSED = ("first_surfaces", "read_step")


async def describe_corpus(call: ApiCall) -> Response:
    """Answer `POST /store/describe`: what a client must know of a corpus before it uses it."""
    name = take_text(call.fields(DESCRIBE_FIELDS, of="/store/describe"), "corpus")
    corpus, limits = await call.open(name), call.service.limits
    methods = [method for method in STORE_CALLS if method in _COMPOSED or _offers(corpus, method)]
    return await call.answer(
        {
            "embedder": {"id": corpus.embedder.id, "dim": corpus.embedder.dim},
            "methods": methods,
            "policies": {name: _list_parameters(kind) for name, kind in list_policies().items()},
            "durability": durability_of(corpus),
            "holds_walks": True,
            "limits": {
                "max_ids": limits.max_ids,
                "max_rows": _ROWS_PER_ID * limits.max_ids,
                "max_body": limits.max_body,
                "max_texts": _MOST_TEXTS,
            },
        }
    )


def _list_parameters(policy: type[WalkPolicy]) -> list[str]:
    return [field.name for field in parameters_of(policy)]


async def call_store(call: ApiCall) -> Response:
    """Answer `POST /store/{method}`: one call of a reading method of the store of a corpus."""
    method: str = call.request.path_params["method"]
    if method not in STORE_CALLS:
        raise ArgumentError(f"there is no method {short_repr(method)} here; use one of {', '.join(STORE_CALLS)}")
    body = dict(call.body)
    name = take_text(body, "corpus")
    call.caller.require_read([name])
    check_filter_size(body.get("filter"), most=call.service.limits.max_conditions)
    arguments, options = await _read_arguments(method, body, call.service.limits)
    if "filter" in options:
        options["filter"] = guard_filter(options["filter"], call.service.roots)
    corpus = await call.open(name)
    answer = await _call_in_slices(corpus, method, arguments, options, most=call.service.limits.max_answer)
    if method == "matching":  # a value that no answer shows matches nothing
        shown = [is_shown(field, value, call.service.roots) for field, value in arguments[0]]
        answer = [ids if is_one else () for ids, is_one in zip(answer, shown, strict=True)]
    # A short question may have a long answer.
    return call.answer_pieces(await offload_if(method not in _SHORT, _pack_answer, call, method, answer))


async def embed(call: ApiCall) -> Response:
    """Answer `POST /embed`: the vectors of a query or texts, by the embedder of a corpus."""
    fields = call.fields(EMBED_FIELDS, of="/embed")
    name, query, texts = take_text(fields, "corpus"), fields.get("query"), fields.get("texts")
    if (query is None) == (texts is None):
        raise ArgumentError("send either a query or texts to embed")
    if query is not None:
        check_query_length(call, check_query(query))
    check_length("texts", texts, most=_MOST_TEXTS)
    for text in texts or ():
        check_query_length(call, check_query(text))
    embedder = (await call.open(name)).embedder
    vectors = await (embedder.embed_query(query) if query is not None else embedder.embed_documents(texts or []))
    value = {"embedder_id": embedder.id, "vectors": pack_array(np.asarray(vectors, np.float32))}
    return call.answer_pieces(await offload_if(len(texts or ()) > _FEW, call.encode, value, _dump))


def _offers(corpus: OpenCorpus[Any], method: str) -> bool:
    return callable(getattr(corpus.store, method, None))


async def _read_arguments(
    method: str, body: Mapping[str, Any], limits: ServingLimits
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call.

    Raises:
        ArgumentError: If one cannot be used, or exceeds a limit of the server.
    """
    try:
        arguments, options = await offload_if("filter" in body or _is_long(body.values()), unpack_call, method, body)
    except WireFault as fault:
        raise ArgumentError(str(fault)) from None
    _check_sizes([*arguments, *options.values()], limits)
    for name, ids in (*zip(STORE_CALLS[method].arguments, arguments, strict=True), *options.items()):
        if name in ID_ARGUMENTS and len(set(ids)) < len(ids):
            double = next(id for id, count in Counter(ids).items() if count > 1)
            raise ArgumentError(f"{name} must be different, but {short_repr(double)} is there twice; send it once")
    _check_counts(method, arguments, options, limits)
    return arguments, options


def _check_sizes(values: list[Any], limits: ServingLimits) -> None:
    for value in values:
        if isinstance(value, list | dict) and len(value) > limits.max_ids:
            raise ArgumentError(f"one call takes at most {limits.max_ids:,} ids here, not {len(value):,}; split it")


def _check_counts(method: str, arguments: list[Any], options: Mapping[str, Any], limits: ServingLimits) -> None:
    if method in ("search_vectors", "search_text"):
        queries, k = arguments
        check_count("k", k)
        most = _ROWS_PER_ID * limits.max_ids
        if len(queries) > limits.max_ids:
            raise ArgumentError(
                f"one call takes at most {limits.max_ids:,} queries here, not {len(queries):,}; split it"
            )
        if k * len(queries) > most:
            raise ArgumentError(
                f"k times the number of queries must be at most {most:,} here, not {k * len(queries):,}"
            )
    if method in ("search_text", "term_statistics"):
        longest = max(map(len, arguments[0]), default=0)
        if longest > limits.max_query_chars:
            raise ArgumentError(f"a query must have at most {limits.max_query_chars:,} characters, not {longest:,}")
    if method == "matching" and len({field for field, _ in arguments[0]}) > _MOST_FIELDS:
        raise ArgumentError(f"matching takes at most {_MOST_FIELDS} different fields in one call here; split it")
    if method == "has_fields":
        check_length("paths", arguments[0], most=_MOST_FIELDS)
    for name in ("limit", "max_ends", "max_records"):
        if name in options:
            check_count(name, options[name])


async def _call_in_slices(
    corpus: OpenCorpus[Any], method: str, arguments: list[Any], options: dict[str, Any], *, most: int
) -> Any:
    """Call a method about some items at a time.

    So an answer that is too long is seen before it is whole.

    Raises:
        AnswerTooLarge: If the answer is known to have more than `most` bytes.
    """
    form = STORE_CALLS[method]
    place = [*form.arguments].index(form.each) if form.each else 0
    if not form.each or len(arguments[place]) <= _SLICE:
        return await _call_method(corpus, method, arguments, options)
    items, answers, size = arguments[place], [], 0
    for start in range(0, len(items), _SLICE):
        part = [*arguments[:place], items[start : start + _SLICE], *arguments[place + 1 :]]
        answers.append(await _call_method(corpus, method, part, options))
        size += await in_thread(measure_answer, answers[-1])
        if size > most:
            raise AnswerTooLarge(f"the answer has more than {most:,} bytes; ask about fewer {form.each} at once")
    return await in_thread(join_answers, method, answers)


async def _call_method(corpus: OpenCorpus[Any], method: str, arguments: list[Any], options: dict[str, Any]) -> Any:
    store = corpus.store
    if _offers(corpus, method):
        with _explain_widths(arguments, corpus):
            return await getattr(store, method)(*arguments, **options)
    if method == "read_step":
        with _explain_widths(arguments, corpus):
            return await compose_step(store, *arguments, **options)
    if method == "first_surfaces":
        return FirstSurfaces.from_records(await store.records_of(*arguments, limit=1))
    raise ArgumentError(f"the store of this corpus has no method {method}")


@contextmanager
def _explain_widths(arguments: list[Any], corpus: OpenCorpus[Any]) -> Iterator[None]:
    """Blame a query vector of another width, also if the store does not check it."""
    try:
        yield
    except AirwError:
        raise
    except Exception as error:
        width = next((value.shape[-1] for value in arguments if isinstance(value, np.ndarray)), corpus.embedder.dim)
        if width == corpus.embedder.dim:
            raise
        dim = corpus.embedder.dim
        raise EmbedderMismatch(f"a query vector has {width} numbers, and those of the corpus have {dim}") from error


def _is_long(values: Any) -> bool:
    return any(len(value) > _FEW for value in values if isinstance(value, list | dict | np.ndarray))


def _pack_answer(call: ApiCall, method: str, answer: Any) -> list[bytes]:
    packed = STORE_CALLS[method].answer.pack(_hide_paths(method, answer, call.hide_paths))
    return call.encode({"answer": packed}, _dump)


def _dump(value: Any) -> str:
    # Escapes alone carry every id: some have characters that UTF-8 has no form for.
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _hide_paths(method: str, answer: Any, hide: Callable[[Any], Any]) -> Any:
    """Return an answer without absolute paths: in metadata, settings and links."""
    match method:
        case "get_records":
            return [_hide_in_record(record, hide) for record in answer]
        case "records_of":
            return [own and [_hide_in_record(record, hide) for record in own] for own in answer]
        case "read_step":
            return answer._replace(records=[_hide_in_record(record, hide) for record in answer.records])
        case "first_surfaces":
            return answer._replace(metadata=[hide(metadata) for metadata in answer.metadata])
        case "config":
            return hide({name: value for name, value in answer.items() if name != PROBLEMS_SETTING})
        case "calibration":
            return hide(answer)
        case "unresolved_links":
            return [_hide_in_link(link, hide) for link in answer]
    return answer


def _hide_in_record(record: Record | None, hide: Callable[[Any], Any]) -> Record | None:
    return None if record is None else replace(record, metadata=hide(record.metadata))


def _hide_in_link(unresolved: UnresolvedLink, hide: Callable[[Any], Any]) -> UnresolvedLink:
    return replace(unresolved, link=replace(unresolved.link, **hide({"file": unresolved.link.file})))

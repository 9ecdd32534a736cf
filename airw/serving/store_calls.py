"""The endpoints of `RemoteCorpus`: messages of requests to a store, and embeddings."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import numpy as np
from starlette.responses import Response

from airw._base.checks import check_query
from airw._base.concurrency import in_thread, map_bounded, offload_if
from airw._base.json import iter_json
from airw.corpora.problems import PROBLEMS_SETTING
from airw.errors import AirwError, ArgumentError, EmbedderMismatch
from airw.policies.specs import list_policies, parameters_of
from airw.protocols import (
    Calibrations,
    Config,
    Counts,
    Fed,
    Ledger,
    Matching,
    MaxFanIn,
    OpenCorpus,
    Rank,
    Records,
    RecordsOf,
    Request,
    TextLanguage,
    UnresolvedLinks,
    Words,
    check_able,
    fill,
)
from airw.protocols.wire import (
    MOST_MESSAGES,
    MOST_REQUESTS,
    MessageSize,
    WireFault,
    join_answers,
    measure_requests,
    pack,
    pack_array,
    split_request,
    unpack_requests,
)
from airw.serving.artifacts import durability_of
from airw.serving.bodies import FieldKinds, check_fields
from airw.serving.catalogue import list_capabilities
from airw.serving.filters import guard_filter, is_shown
from airw.serving.problems import AnswerTooLarge
from airw.serving.queries import check_filter_size, check_length, check_query_length, take_text
from airw.serving.service import ApiCall
from airw.values.filters import to_mapping

DESCRIBE_FIELDS: FieldKinds = {"corpus": str}

READ_FIELDS: FieldKinds = {"corpus": str, "requests": list}

STORES_FIELDS: FieldKinds = {"messages": list}

EMBED_FIELDS: FieldKinds = {"corpus": str, "query": str, "texts": list}

_ROWS_PER_ID = 10  # of rankings, for each id that one message may have
_MOST_FIELDS = 32  # different fields of records in one message: each may cost a scan of all records
_MOST_TEXTS = 256  # embedded in one call
_SLICE = 1_000  # items that a store is asked about at once
_PATIENCE = 0.1  # seconds that answers wait at least for those of other stores
_FEW = 50  # items; packing the answer about more takes about a millisecond
_SHORT = {Calibrations, Config, Counts, TextLanguage, MaxFanIn}  # requests with short answers
_WORDS = ("requests", "ids and other items", "rows of rankings", "different fields of records")


async def describe_corpus(call: ApiCall) -> Response:
    """Answer `POST /store/describe`: what a client must know of a corpus before it uses it."""
    name = take_text(call.fields(DESCRIBE_FIELDS, of="/store/describe"), "corpus")
    corpus, most = await call.open(name), _most_of(call)
    return await call.answer(
        {
            "embedder": {"id": corpus.embedder.id, "dim": corpus.embedder.dim},
            "capabilities": list_capabilities(corpus),
            "policies": {name: [field.name for field in parameters_of(kind)] for name, kind in list_policies().items()},
            "durability": durability_of(corpus),
            "holds_walks": True,
            "limits": {
                "max_together": most.requests,
                "max_messages": MOST_MESSAGES,
                "max_ids": most.items,
                "max_rows": most.rows,
                "max_fields": most.fields,
                "max_body": call.service.limits.max_body,
                "max_texts": _MOST_TEXTS,
            },
        }
    )


def _most_of(call: ApiCall) -> MessageSize:
    most = call.service.limits.max_ids
    return MessageSize(MOST_REQUESTS, most, _ROWS_PER_ID * most, _MOST_FIELDS)


async def read_store(call: ApiCall) -> Response:
    """Answer `POST /store/read`: what the store of a corpus answers to requests."""
    name, requests = await in_thread(_read_message, call, call.body)
    return call.answer_pieces(await _answer_message(call, name, requests))


async def read_stores(call: ApiCall) -> Response:
    """Answer `POST /stores/read`: what `/store/read` answers to each of several messages.

    No store holds up the others: `null` stands for an answer that takes a quarter longer than the one before, and a
    tenth of a second longer. It also stands for an error. Whoever sends these messages alone learns what is wrong.
    """
    began = anyio.current_time()
    check_fields(call.body, STORES_FIELDS, of="a batch of messages")
    messages = call.body.get("messages")
    if not messages or not all(isinstance(message, dict) for message in messages):
        raise ArgumentError("messages must be a list of messages to stores, at least one")
    check_length("messages", messages, most=MOST_MESSAGES)
    asked = await in_thread(_read_messages, call, messages)
    answers, room = [[b"null"]] * len(messages), call.service.limits.max_answer

    async def answer(place: int) -> None:
        nonlocal room
        with suppress(Exception):
            pieces = await _answer_message(call, *asked[place])
            if (size := sum(map(len, pieces))) <= room:
                answers[place], room = pieces, room - size
        now = anyio.current_time()
        scope.deadline = now + max(_PATIENCE, (now - began) / 4)

    with anyio.CancelScope() as scope:
        # All at once: many that hang must not keep the others from their turn.
        await map_bounded(answer, [*asked], limit=MOST_MESSAGES)
    parts = [piece for pieces in answers for piece in (b",", *pieces)]
    return call.answer_pieces([b'{"answers":[', *parts[1:], b"]}"])


async def embed(call: ApiCall) -> Response:
    """Answer `POST /embed`: the vectors of a query or texts, by the embedder of a corpus."""
    fields = call.fields(EMBED_FIELDS, of="/embed")
    name, query, texts = take_text(fields, "corpus"), fields.get("query"), fields.get("texts")
    if (query is None) == (texts is None):
        raise ArgumentError("send either a query or texts to embed")
    check_length("texts", texts, most=_MOST_TEXTS)
    given: list[Any] = [query] if texts is None else texts
    for text in given:
        check_query_length(call, check_query(text))
    embedder = (await call.open(name)).embedder
    vectors = await (embedder.embed_query(given[0]) if texts is None else embedder.embed_documents(texts))
    value = {"embedder_id": embedder.id, "vectors": pack_array(np.asarray(vectors, np.float32))}
    return call.answer_pieces(await offload_if(len(given) > _FEW, call.encode, value, _dump))


def _read_message(call: ApiCall, body: Mapping[str, Any]) -> tuple[str, list[Request[Any]]]:
    """Return the name of a corpus that the caller may read, and the requests to its store."""
    fields = dict(body)
    name = take_text(fields, "corpus")
    call.caller.require_read([name])
    check_fields(fields, READ_FIELDS, of="a message to a store")
    if "requests" not in fields:
        raise ArgumentError("requests is missing; send a list of them")
    return name, _read_requests(call, fields["requests"])


def _read_messages(call: ApiCall, messages: Sequence[Mapping[str, Any]]) -> dict[int, tuple[str, list[Request[Any]]]]:
    """Return the messages of a batch by their places, without those that are an error.

    Raises:
        ArgumentError: If they exceed a limit of the server together.
    """
    asked: dict[int, tuple[str, list[Request[Any]]]] = {}
    for place, body in enumerate(messages):
        with suppress(AirwError):
            asked[place] = _read_message(call, body)
    every = [request for _, requests in asked.values() for request in requests]
    # Requests are counted for each message, as its answers are of one state of its store.
    _check_size(call, measure_requests(every, all_rows=_most_of(call).rows)._replace(requests=0))
    return asked


async def _answer_message(call: ApiCall, name: str, requests: Sequence[Request[Any]]) -> list[bytes]:
    """Return the JSON of the answers of a store, in pieces."""
    corpus = await call.open(name)
    check_able(corpus.store, *requests)
    with _explain_widths(requests, corpus):
        answers = await _ask_in_slices(corpus, requests, most=call.service.limits.max_answer)
    # A short question may have a long answer.
    is_short = _SHORT.issuperset(map(type, requests))
    return await offload_if(not is_short, _pack_answers, call, requests, answers)


def _read_requests(call: ApiCall, items: list[Any]) -> list[Request[Any]]:
    """Return the requests of a message.

    Raises:
        ArgumentError: If one cannot be used, or the message exceeds a limit of the server.
        FilterError: If a filter is malformed, or could find out a path of this machine.
    """
    check_length("requests", items, most=MOST_REQUESTS)
    try:
        requests = unpack_requests(items, partial(_guard, call))
    except WireFault as fault:
        raise ArgumentError(str(fault)) from None
    _check_size(call, measure_requests(requests, all_rows=_most_of(call).rows))
    return requests


def _check_size(call: ApiCall, size: MessageSize) -> None:
    for count, largest, words in zip(size, _most_of(call), _WORDS, strict=True):
        if count > largest:
            raise ArgumentError(f"one message may have at most {largest:,} {words} here, not {count:,}; split it")


def _guard(call: ApiCall, request: Request[Any]) -> Request[Any]:
    """Check a request; return it with a filter that cannot find out a path of this machine."""
    match request:
        case Fed():
            # One more than may be: `_pack_answers` refuses that.
            most = call.service.limits.max_ids + 1
            limit = most if request.by.limit is None else min(request.by.limit, most)
            return replace(request, request=_guard(call, request.request), by=replace(request.by, limit=limit))
        case Ledger(ids=None):
            raise ArgumentError("Ledger needs ids")
        case Words() | Rank():
            for query in request.queries if isinstance(request.queries, list) else ():
                check_query_length(call, query)
            if isinstance(request, Rank) and request.filter is not None:
                check_filter_size(to_mapping(request.filter), most=call.service.limits.max_conditions)
                return replace(request, filter=guard_filter(request.filter, call.service.roots))
    return request


async def _ask_in_slices(corpus: OpenCorpus, requests: Sequence[Request[Any]], *, most: int) -> list[Any]:
    """Return the answers of a store, which is asked about some items at a time.

    So an answer that is too long is seen before it is whole. A message about few items is answered at once.

    Raises:
        AnswerTooLarge: If the answer is known to have more than `most` bytes.
    """
    if measure_requests(requests, all_rows=0).items <= _SLICE:
        return await corpus.store.read(*requests)
    answers, size = dict[int, Any](), 0
    for request in requests:
        plain, parts = fill(request, answers), []
        for part in [plain] if isinstance(plain, Rank) else split_request(plain, _SLICE):
            parts += await corpus.store.read(part)
            size += await in_thread(_measure, parts[-1])
            if size > most:
                raise AnswerTooLarge(f"the answer has more than {most:,} bytes; ask for less at once")
        answers[id(request)] = await in_thread(join_answers, plain, parts)
    return [answers[id(request)] for request in requests]


@contextmanager
def _explain_widths(requests: Sequence[Request[Any]], corpus: OpenCorpus) -> Iterator[None]:
    """Blame a query vector of another width, also if the store does not check it."""
    try:
        yield
    except AirwError:
        raise
    except Exception as error:
        dim = corpus.embedder.dim
        for request in requests:
            queries = getattr(request.request if isinstance(request, Fed) else request, "queries", None)
            if isinstance(queries, np.ndarray) and queries.shape[1] != dim:
                told = f"a query vector has {queries.shape[1]} numbers, and those of the corpus have {dim}"
                raise EmbedderMismatch(told) from error
        raise


def _pack_answers(call: ApiCall, requests: Sequence[Request[Any]], answers: Sequence[Any]) -> list[bytes]:
    known, most = dict(zip(map(id, requests), answers, strict=True)), call.service.limits.max_ids
    packed = []
    for request, answer in zip(requests, answers, strict=True):
        plain = request
        if isinstance(request, Fed):
            plain = request.request
            if len(request.by.take(known[id(request.by.of)])) > most:
                raise AnswerTooLarge(f"a request of a chain takes at most {most:,} ids here; ask for less at once")
        packed.append(pack(_hide_paths(call, plain, answer)))
    return call.encode({"answers": packed}, _dump)


def _dump(value: Any) -> str:
    # Escapes alone carry every id: some have characters that UTF-8 has no form for.
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _hide_paths(call: ApiCall, request: Request[Any], answer: Any) -> Any:
    """Return an answer without absolute paths: in metadata, settings and links."""
    hide = call.hide_paths
    match request:
        case Records():
            return [record and replace(record, metadata=hide(record.metadata)) for record in answer]
        case RecordsOf():
            return [own and [replace(record, metadata=hide(record.metadata)) for record in own] for own in answer]
        case Config():
            return hide({name: value for name, value in answer.items() if name != PROBLEMS_SETTING})
        case Calibrations():
            return hide(answer)
        case UnresolvedLinks():
            links = [(each, replace(each.link, **hide({"file": each.link.file}))) for each in answer]
            return [replace(each, link=link) for each, link in links]
        case Matching():  # a value that no answer shows matches nothing
            shown = [is_shown(field, value, call.service.roots) for field, value in request.wanted]
            return [ids if is_one else () for ids, is_one in zip(answer, shown, strict=True)]
    return answer


def _measure(answer: Any) -> int:
    """Return the number of characters of an answer in JSON."""
    return sum(map(len, iter_json(pack(answer), _dump)))

"""The endpoints that find: `POST /search` and `POST /discover`."""

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any

from starlette.responses import Response

from airw._base.concurrency import offload_if
from airw.corpora import search as search_corpus
from airw.discovery import discover as discover_corpora, discover_stream
from airw.protocols.wire import EVENT_STREAM
from airw.serving.bodies import FieldKinds
from airw.serving.queries import check_disclosure, check_finding, read_policy, take_corpora, take_text
from airw.serving.readable_files import open_roots
from airw.serving.service import ApiCall
from airw.serving.walks import stream_discovery

_TUNING_FIELDS: FieldKinds = {
    "query": str,
    "k": int,
    "mode": str,
    "filter": (dict, NoneType),
    "surfaces": (list, NoneType),
    "operators": bool,
    "fusion": str,
    "rrf_k": (int, NoneType),
    "alpha": (float, NoneType),
    "bm25_sat_k": float,
    "fetch_k": (int, NoneType),
    "rerank": (str, NoneType),
    "rerank_text": str,
    "rerank_max_chars": int,
    "surface_weights": (dict, NoneType),
    "boost": (str, NoneType),
    "timeout": (float, NoneType),
}

SEARCH_FIELDS: FieldKinds = {"corpus": str, **_TUNING_FIELDS, "per_artifact": bool}

DISCOVER_FIELDS: FieldKinds = {
    "corpus": str,
    "corpora": list,
    **_TUNING_FIELDS,
    "strategy": str,
    "disclose_level": str,
    "max_k": int,
    "rel": float,
    "gap_ratio": float,
    "min_score": (float, str, dict, NoneType),
    "merge": str,
    "merge_weights": (dict, NoneType),
    "merge_rrf_k": (int, NoneType),
    "dedup_by": (str, NoneType),
    "walk": (bool, str, dict, NoneType),
    "node_budget": int,
    "source_timeout": (float, NoneType),
}

_MANY = 20  # hits; encoding more takes about a millisecond


async def search(call: ApiCall) -> Response:
    """Answer `POST /search`: the hits of one corpus, best first."""
    options = call.fields(SEARCH_FIELDS, of="/search")
    name, query = take_text(options, "corpus"), take_text(options, "query")
    options.pop("timeout", None)
    check_finding(call, query, options)
    corpus = await call.open(name)
    with call.deadline():
        hits = await search_corpus(corpus, query, **options)
    is_long = len(hits) > _MANY
    value = {"hits": await offload_if(is_long, _to_dicts, call, hits)}
    return await call.answer(value, is_long=is_long)


async def discover(call: ApiCall) -> Response:
    """Answer `POST /discover`: the few artifacts that answer a query, or why there are none.

    A client that accepts `text/event-stream` gets each source as soon as it answers, then the result.
    """
    options = call.fields(DISCOVER_FIELDS, of="/discover")
    names, query = take_corpora(options), take_text(options, "query")
    options = await _discover_options(call, query, options)
    corpora = await call.open(names) if isinstance(names, str) else await call.open_all(names)
    if EVENT_STREAM in call.request.headers.get("accept", ""):
        return stream_discovery(call, discover_stream(corpora, query, **{**options, "timeout": call.timeout()}))
    with call.deadline():
        result = await discover_corpora(corpora, query, **options)
    is_long = len(result.results) > _MANY
    value = await offload_if(is_long, lambda: call.hide_paths(result.to_dict()))
    return await call.answer(value, is_long=is_long)


async def _discover_options(call: ApiCall, query: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `discover`, within the limits of the server.

    Raises:
        ArgumentError: If an option is beyond a limit.
    """
    options = dict(fields)
    check_finding(call, query, options)
    if isinstance(options.get("walk"), str | dict):
        options["walk"] = read_policy(call, options["walk"])
    if options.get("disclose_level", "metadata") != "metadata":
        check_disclosure(call, "disclose_level")
        with call.deadline():
            options["roots"] = await open_roots(call)
    # Longer deadlines are cut, so that the sources that answer in time still count.
    if options.get("timeout") is not None:
        options["timeout"] = call.timeout()
    return options


def _to_dicts(call: ApiCall, hits: Iterable[Any]) -> list[Any]:
    return [call.hide_paths(hit.to_dict()) for hit in hits]

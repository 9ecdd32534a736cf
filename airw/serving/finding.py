"""The endpoints that find: `POST /search` and `POST /discover`."""

from collections.abc import Mapping
from types import NoneType
from typing import Any

from starlette.responses import JSONResponse, Response

from airw.corpora import search as search_corpus
from airw.errors import ArgumentError
from airw.serving.bodies import check_fields
from airw.serving.service import ApiCall

SEARCH_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "corpus": str,
    "query": str,
    "k": int,
    "mode": str,
    "filter": (dict, NoneType),
    "surfaces": (list, NoneType),
    "per_artifact": bool,
    "fusion": str,
    "rrf_k": float,
    "alpha": float,
    "bm25_sat_k": float,
    "fetch_k": int,
    "rerank": (str, NoneType),
    "surface_weights": (dict, NoneType),
    "timeout": (float, NoneType),
}


async def search(call: ApiCall) -> Response:
    """Answer `POST /search`: the hits of one corpus, best first."""
    check_fields(call.body, SEARCH_FIELDS, of="/search")
    options = dict(call.body)
    name, query = _require(options, "corpus"), _require(options, "query")
    options.pop("timeout", None)
    _check_within(call, query, options)
    corpus = await call.open(name)
    hits = await search_corpus(corpus, query, **options)
    return JSONResponse({"hits": [hit.to_dict() for hit in hits]})


def _require(options: dict[str, Any], name: str) -> str:
    if name not in options:
        raise ArgumentError(f"{name} is missing; send it in the body")
    value: str = options.pop(name)
    return value


def _check_within(call: ApiCall, query: str, options: Mapping[str, Any]) -> None:
    limits = call.service.limits
    if len(query) > limits.max_query_chars:
        raise ArgumentError(f"query must have at most {limits.max_query_chars:,} characters, not {len(query):,}")
    if options.get("k", 0) > limits.max_k:
        raise ArgumentError(f"k must be at most {limits.max_k:,} here, not {options['k']:,}")

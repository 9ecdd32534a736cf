"""The endpoint `GET /corpora`: what is served, and what can be asked of it."""

from importlib.metadata import version
from typing import Any

import anyio
from starlette.responses import Response

from airw._base.concurrency import map_bounded
from airw.policies.path_coverage import DEFAULT_POLICY
from airw.policies.specs import list_policies, name_of
from airw.protocols import Counts, OpenCorpus, ask
from airw.protocols.wire import API_VERSIONS
from airw.serving.bodies import FieldKinds
from airw.serving.problems import describe_problem
from airw.serving.service import ApiCall, log_failure

CORPORA_FIELDS: FieldKinds = {"timeout": float}

_TOLD = ("max_node_budget", "max_hops", "max_timeout", "max_corpora", "max_query_chars", "max_k", "heartbeat")
_LONGEST = 3.0  # seconds for one corpus; others are listed all the same
_AT_ONCE = 8  # corpora that are opened at the same time


async def list_corpora(call: ApiCall) -> Response:
    """Answer `GET /corpora`: what the caller may read, the policies by name, and the limits.

    A corpus that cannot be opened has its `error` in the place of its numbers.
    """
    call.fields(CORPORA_FIELDS, of="/corpora")
    names = call.caller.readable
    with call.deadline():
        corpora = await map_bounded(lambda name: _describe(call, name), names, limit=_AT_ONCE) if names else []
    limits = call.service.limits
    return await call.answer(
        {
            "api": list(API_VERSIONS),
            "airw": version("airw"),
            "corpora": corpora,
            "policies": list(list_policies()),
            "default_policy": name_of(DEFAULT_POLICY),
            "limits": {name: getattr(limits, name) for name in _TOLD},
        }
    )


async def _describe(call: ApiCall, name: str) -> dict[str, Any]:
    """Return what a client may know of a corpus."""
    try:
        with anyio.move_on_after(_LONGEST) as scope:
            corpus = await call.open(name)
            counts = await ask(corpus.store, Counts()) if "counts" in corpus.store.capabilities else None
    except Exception as error:  # noqa: BLE001 - a store of anyone may raise anything, and this is one corpus of many
        log_failure(error)
        return {"name": name, "error": describe_problem(error)["error"], "detail": describe_problem(error)["detail"]}
    if scope.cancelled_caught:
        return {"name": name, "error": "StoreError", "detail": f"no answer within {_LONGEST:g} seconds"}
    return {
        "name": name,
        "embedder_id": corpus.embedder.id,
        "dim": corpus.embedder.dim,
        "writable": name in call.caller.writable,
        "capabilities": list_capabilities(corpus),
        "counts": counts,
    }


def list_capabilities(corpus: OpenCorpus) -> list[str]:
    """Return what the store of a corpus can do for a client, which does not write to it."""
    return sorted({*corpus.store.capabilities} - {"writing"})

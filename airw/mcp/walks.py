"""The tool `traverse`."""

from collections.abc import Hashable
from types import EllipsisType
from typing import Any

from airw._base.checks import check_count, check_text_query
from airw.discovery import FederatedCorpus
from airw.errors import ArgumentError
from airw.mcp.calls import NOTE, ToolCall, quote_hit, quote_id
from airw.mcp.finding import MOST_RESULTS
from airw.mcp.held_walks import MOST_FOUND, PagedWalk
from airw.serving.bodies import FieldKinds
from airw.serving.queries import check_query_length, take_text
from airw.traversal import traverse
from airw.values import ArtifactRef, Limits, SearchHit

MOST_DEPTH = 20
DEFAULT_BUDGET = 64

_FIELDS: FieldKinds = {
    "query": str,
    "corpus": str,
    "k": int,
    "node_budget": int,
    "max_depth": int,
    "continue": str,
}
_LIMITS = Limits(max_frontier=10_000)  # a walk may be held, and then keeps its frontier
_STOPS = {"timeout": "deadline"}


async def walk_documents(call: ToolCall) -> dict[str, Any]:
    """Answer `traverse`: the best documents of a walk, and a token if it can go on."""
    options = call.arguments(_FIELDS)
    k = check_count("k", options.pop("k", 10), least=1, most=MOST_RESULTS)
    most = min(MOST_FOUND, call.service.limits.max_node_budget)
    budget = check_count("node_budget", options.pop("node_budget", min(DEFAULT_BUDGET, most)), least=1, most=most)
    token = options.pop("continue", None)
    if token is None:
        walk = await _start(call, options, budget, most)
    else:
        if others := call.body.keys() - {"k", "node_budget", "continue"}:
            raise ArgumentError(f"traverse takes {min(others)} or continue, not both: a walk goes on as it began")
        with call.service.held.take(token, PagedWalk, call.caller.key) as walk:
            walk.raise_limits(budget)
    await walk.read(call.report)
    summary = walk.summary
    return {
        "hits": [_quote(walk, hit) for hit in walk.take_best(k)],
        "stopped": _STOPS.get(summary.stop, summary.stop),
        "found": summary.emitted,
        "missing": [corpus.name for corpus in summary.lost],
        "continue": call.service.held.hold(walk, call.caller.key) if walk.has_more else None,
        "note": NOTE,
    }


async def _start(call: ToolCall, options: dict[str, Any], budget: int, most: int) -> PagedWalk:
    """Return a walk that has not begun, in the corpora that the call names."""
    query = check_text_query(take_text(options, "query"))
    check_query_length(call, query)
    depth: int | EllipsisType = ...
    if "max_depth" in options:
        deepest = min(MOST_DEPTH, call.service.limits.max_hops)
        depth = check_count("max_depth", options.pop("max_depth"), most=deepest)
    names = call.pick_corpora(options)
    opened = await call.open_in_time(names)
    corpus = FederatedCorpus(opened) if len(names) > 1 else opened[names[0]]
    walk = traverse(query, corpus, node_budget=budget, timeout=call.seconds_left(), limits=_LIMITS, max_depth=depth)
    return PagedWalk(walk, node_budget=budget, most=most, timeout=call.timeout())


def _quote(walk: PagedWalk, hit: SearchHit) -> dict[str, Any]:
    """Return a hit as JSON, with the documents on the way to it."""
    fields = quote_hit(
        corpus=hit.source or "",
        id=hit.artifact_id,
        title=hit.metadata.get("title"),
        text=hit.text,
        score=hit.score,
    )
    return {**fields, "path": [_quote_node(node, fields["corpus"]) for node in walk.path(hit)[:-1]]}


def _quote_node(node: Hashable, corpus: str) -> dict[str, str]:
    source, id = node if isinstance(node, ArtifactRef) else (corpus, node)
    return {"corpus": str(source), "id": quote_id(id)}

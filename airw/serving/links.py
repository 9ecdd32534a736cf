"""The endpoints that follow links: `GET /tree` and `GET /path`."""

from types import NoneType
from typing import Any

from starlette.responses import Response

from airw._base.concurrency import offload_if
from airw.links import INVERSES, CorpusGraph
from airw.serving.bodies import FieldKinds
from airw.serving.queries import check_ids, check_length, check_most, take_text
from airw.serving.service import ApiCall
from airw.views import describe, path_dict, read_tree, walk_links

_LINK_FIELDS: FieldKinds = {
    "corpus": str,
    "direction": str,
    "max_hops": int,
    "max_nodes": int,
    "max_edges": int,
    "max_fanout": int,
    "types": list,
    "exclude": list,
    "origins": list,
    "weighted": bool,
    "timeout": (float, NoneType),
}

TREE_FIELDS: FieldKinds = {"corpus": str, "roots": list, **_LINK_FIELDS}

PATH_FIELDS: FieldKinds = {"corpus": str, "start": str, "end": str, **_LINK_FIELDS}

_TREE_HOPS = 3
_PATH_HOPS = 10
_MANY = 50  # artifacts; encoding more takes about a millisecond
_EDGES_PER_NODE = 10
_MOST_TYPES = 100


async def tree(call: ApiCall) -> Response:
    """Answer `GET /tree`: a walk along links, as `airw link tree --format json` prints it.

    A list is a parameter that is repeated: `roots=a.md&roots=b.md`.
    """
    options = call.fields(TREE_FIELDS, of="/tree")
    name = take_text(options, "corpus")
    roots = check_ids("roots", options.pop("roots", ()), most=call.service.limits.max_ids)
    options = {"max_nodes": call.service.limits.max_node_budget, **_limit_links(call, options, _TREE_HOPS)}
    corpus = await call.open(name)
    # A walk that runs out of time still has a tree.
    walk = walk_links(corpus, roots, **options, timeout=call.timeout())
    result = await read_tree(walk)
    is_long = len(result.nodes) + len(result.edges) > _MANY
    value = await offload_if(is_long, lambda: call.hide_paths(result.to_dict()))
    return await call.answer(value, is_long=is_long)


async def path(call: ApiCall) -> Response:
    """Answer `GET /path`: a shortest path, as `airw link path --format json` prints it."""
    options = call.fields(PATH_FIELDS, of="/path")
    name = take_text(options, "corpus")
    [start] = check_ids("start", [options.pop("start", "")], most=1)
    [end] = check_ids("end", [options.pop("end", "")], most=1)
    options = {"max_nodes": call.service.limits.max_node_budget, **_limit_links(call, options, _PATH_HOPS)}
    corpus = await call.open(name)
    with call.deadline():
        found = await CorpusGraph(corpus).path(start, end, **options, inverses=INVERSES)
        nodes = await describe(corpus, found.nodes)
    return await call.answer(call.hide_paths(path_dict(found, nodes)), is_long=len(nodes) > _MANY)


def _limit_links(call: ApiCall, options: dict[str, Any], default_hops: int) -> dict[str, Any]:
    """Return the options of a walk along links, within the limits of the server.

    Raises:
        ArgumentError: If one is beyond its limit.
    """
    limits = call.service.limits
    bounded = {key: value for key, value in options.items() if key != "timeout"}
    bounded.setdefault("max_hops", min(default_hops, limits.max_hops))
    most_edges = _EDGES_PER_NODE * limits.max_node_budget
    bounded.setdefault("max_edges", most_edges)
    mosts = {
        "max_hops": limits.max_hops,
        "max_nodes": limits.max_node_budget,
        "max_edges": most_edges,
        "max_fanout": most_edges,
    }
    for field, most in mosts.items():
        check_most(field, bounded.get(field), most)
    for field in ("types", "exclude", "origins"):
        check_length(field, bounded.get(field), most=_MOST_TYPES)
    return bounded

"""The tool `link_path`."""

from typing import Any

from airw._base.checks import check_count
from airw._base.messages import one_line
from airw.links import INVERSES, CorpusGraph
from airw.mcp.calls import NOTE, ToolCall, quote_id, quote_title, take_id
from airw.serving.bodies import FieldKinds
from airw.views import describe, path_dict

DEFAULT_HOPS, MOST_HOPS = 10, 20
"""The hops of a path: by default, and at most."""

_PATH_FIELDS: FieldKinds = {"start": str, "end": str, "corpus": str, "max_hops": int}
_EDGES_PER_NODE = 10


async def find_path(call: ToolCall) -> dict[str, Any]:
    """Answer `link_path`: a shortest path along links, in either direction of each."""
    options = call.arguments(_PATH_FIELDS)
    limits = call.service.limits
    start, end = take_id(options, "start"), take_id(options, "end")
    most_hops = min(MOST_HOPS, limits.max_hops)
    hops = check_count("max_hops", options.pop("max_hops", min(DEFAULT_HOPS, most_hops)), least=1, most=most_hops)
    name = call.pick_corpus(options)
    nodes, edges = limits.max_node_budget, _EDGES_PER_NODE * limits.max_node_budget
    with call.deadline():
        corpus = await call.open(name)
        path = await CorpusGraph(corpus).path(
            start, end, max_hops=hops, max_nodes=nodes, max_edges=edges, inverses=INVERSES
        )
        views = await describe(corpus, path.nodes)
    facts = path_dict(path, views)
    return {
        "corpus": name,
        "found": path.found,
        "hops": facts["path_length"],
        "nodes": [{"id": quote_id(view.id), "title": quote_title(view.title)} for view in views],
        "edges": [
            {"source": quote_id(edge.source), "target": quote_id(edge.target), "type": one_line(edge.type)}
            for edge in path.edges
        ],
        "reason": facts["reason"],
        "note": NOTE,
    }

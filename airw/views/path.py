"""A path along links as text for people, and as one JSON object."""

from collections.abc import Sequence
from typing import Any

from airw._base.json import json_clean
from airw.links import INVERSES, Inverses, LinkPath
from airw.views.model import NodeView, counted, edge_dict, id_text
from airw.views.text import left_out_text, node_text, step_text

_NOWHERE = "there is none at any distance"


def path_text(path: LinkPath, nodes: Sequence[NodeView], *, inverses: Inverses | None = INVERSES) -> str:
    """Write a path for people to read: its artifacts one a line, each but the first with the edge that leads to it.

    Args:
        path: What the search for it gave.
        nodes: What is told of its artifacts: `await describe(corpus, path.nodes)`.
        inverses: What edges are called against their direction; `None` for the type as stored.

    Returns:
        Lines divided by newlines, none at the end. The last ones say how long the path is, or that there is none, and
        where a limit kept the search from looking further, which one.

    Example:
        >>> from airw.values import Edge
        >>> path = LinkPath("a", "b", "both", 10, ("a", "b"), (Edge("b", "a", "supports"),), 1.0)
        >>> print(path_text(path, [NodeView("a", "Alpha"), NodeView("b")]))
        a  Alpha
        ← supported-by  b
        1 hop
        >>> print(path_text(LinkPath("a", "c", "both", 10), []))
        no path from a to c within 10 hops
        there is none at any distance
        >>> print(path_text(LinkPath("a", "c", "both", 1, left_out={"max_hops": 2}), []))
        no path from a to c within 1 hop
        left out: max_hops 2
    """
    rest = left_out_text(counted(path.left_out, path.at_least, ()))
    if not path.found:
        within = "" if path.max_hops is None else f" within {_hops(path.max_hops)}"
        return f"no path from {id_text(path.start)} to {id_text(path.end)}{within}\n{rest or _NOWHERE}"
    lines = [node_text(nodes[0])] if nodes else []
    for here, node, edge in zip(path.nodes, nodes[1:], path.edges, strict=False):
        against = edge.source != here
        name = inverses.named(edge, here) if inverses else edge.type
        lines.append(step_text(node, name, against=against))
    length = _hops(len(path.edges))
    cost = "" if path.cost is None or path.cost == len(path.edges) else f", cost {path.cost:.12g}"
    shorter = [f"a shorter one may have been {rest}"] if rest else []
    return "\n".join([*lines, f"{length}{cost}", *shorter])


def _hops(count: int) -> str:
    return f"{count} hop{'' if count == 1 else 's'}"


def path_dict(path: LinkPath, nodes: Sequence[NodeView]) -> dict[str, Any]:
    """Give a path as one JSON object, whose schema `path_schema` gives.

    Args:
        path: What the search for it gave.
        nodes: What is told of its artifacts: `await describe(corpus, path.nodes)`.

    Returns:
        `from`, `to`, `direction`, `max_hops`, `found`, `path_length` in hops and `cost` (both `None` where none was
        found), `nodes` and `edges` from start to end, edges as stored, `truncated`, `left_out`, `at_least`, and as
        `reason` why no path was found.

    Example:
        >>> told = path_dict(LinkPath("a", "c", "both", 10), [])
        >>> told["found"], told["path_length"], told["reason"]
        (False, None, 'there is none at any distance')
    """
    rest = left_out_text(counted(path.left_out, path.at_least, ()))
    return {
        "from": json_clean(path.start),
        "to": json_clean(path.end),
        "direction": path.direction,
        "max_hops": path.max_hops,
        "found": path.found,
        "path_length": len(path.edges) if path.found else None,
        "cost": path.cost,
        "nodes": [node.to_dict() for node in nodes],
        "edges": [edge_dict(edge) for edge in path.edges],
        "truncated": bool(rest),
        "left_out": dict(path.left_out),
        "at_least": list(path.at_least),
        "reason": None if path.found else rest or _NOWHERE,
    }

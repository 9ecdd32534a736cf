"""A path along links as text for people, and as one JSON object."""

from collections.abc import Sequence
from typing import Any

from airw._base.json import json_clean
from airw.links import INVERSES, Inverses, LinkPath
from airw.views.model import NodeView, edge_dict, format_counts, id_text
from airw.views.text import limits_text, node_text, step_text

_NO_PATH = "there is no path of any length"


def path_text(path: LinkPath, nodes: Sequence[NodeView], *, inverses: Inverses | None = INVERSES) -> str:
    """Write a path for people to read, one artifact a line, with the edge that leads to it.

    Args:
        path: The result of the search for a path.
        nodes: Its artifacts: `await describe(corpus, path.nodes)`.
        inverses: The names of edge types against their direction; `None` for the stored type.

    Returns:
        Lines separated by newlines, without one at the end. The last lines contain the length of the path, or say that
        there is none. If a limit stopped the search, they name it.

    Example:
        >>> from airw.values import Edge
        >>> path = LinkPath("a", "b", "both", 10, ("a", "b"), (Edge("b", "a", "supports"),), 1.0)
        >>> print(path_text(path, [NodeView("a", "Alpha"), NodeView("b")]))
        a  Alpha
        ← supported-by  b
        1 hop
        >>> print(path_text(LinkPath("a", "c", "both", 10), []))
        no path from a to c within 10 hops
        there is no path of any length
        >>> print(path_text(LinkPath("a", "c", "both", 1, left_out={"max_hops": 2}), []))
        no path from a to c within 1 hop
        left out: max_hops 2
    """
    rest = limits_text(format_counts(path.left_out, path.at_least, ()))
    if not path.found:
        within = "" if path.max_hops is None else f" within {_hops(path.max_hops)}"
        return f"no path from {id_text(path.start)} to {id_text(path.end)}{within}\n{rest or _NO_PATH}"
    lines = [node_text(nodes[0])] if nodes else []
    for source, node, edge in zip(path.nodes, nodes[1:], path.edges, strict=False):
        against = edge.source != source
        name = inverses.name_of(edge, source) if inverses else edge.type
        lines.append(step_text(node, name, against=against))
    length = _hops(len(path.edges))
    cost = "" if path.cost is None or path.cost == len(path.edges) else f", cost {path.cost:.12g}"
    shorter = [f"a shorter one may have been {rest}"] if rest else []
    return "\n".join([*lines, f"{length}{cost}", *shorter])


def _hops(count: int) -> str:
    return f"{count} hop{'' if count == 1 else 's'}"


def path_dict(path: LinkPath, nodes: Sequence[NodeView]) -> dict[str, Any]:
    """Return a path as one JSON object; `path_schema` returns its schema.

    Args:
        path: The result of the search for a path.
        nodes: Its artifacts: `await describe(corpus, path.nodes)`.

    Returns:
        The keys are `from`, `to`, `direction`, `max_hops`, `found`, `path_length`, `cost`, `nodes`, `edges`,
        `truncated`, `left_out`, `at_least` and `reason`. `path_length` is in hops; like `cost` it is `None` if no path
        was found. Nodes and stored edges are in order from start to end. `reason` says why no path was found.

    Example:
        >>> fields = path_dict(LinkPath("a", "c", "both", 10), [])
        >>> fields["found"], fields["path_length"], fields["reason"]
        (False, None, 'there is no path of any length')
    """
    rest = limits_text(format_counts(path.left_out, path.at_least, ()))
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
        "reason": None if path.found else rest or _NO_PATH,
    }

"""A walk along links, or a path, as a graph for Graphviz."""

from collections.abc import Iterable, Sequence

from airw._base.messages import escape_controls
from airw.links import LinkPath
from airw.values import Edge, NodeId
from airw.views.model import NodeView, WalkTree, format_counts, id_text
from airw.views.records import id_token
from airw.views.text import limits_text


def tree_dot(tree: WalkTree) -> str:
    r"""Write a tree of links in the language of Graphviz.

    Edges of the tree are solid, other edges dashed, and roots have double lines. Edges point as stored. Nodes are named
    by their ids, percent-encoded as in `tree_records`.

    Args:
        tree: The result of `read_tree`.

    Returns:
        Lines, each with its newline.

    Example:
        >>> from airw.values import Edge
        >>> print(tree_dot(WalkTree(["a"], "out", 1, [NodeView("a", 'An "A"')], [Edge("a", "a", "x")], [])), end="")
        digraph {
          node [shape=box];
          "a" [label="a\nAn \"A\"", peripheries=2];
          "a" -> "a" [label="x", style=dashed];
        }
    """
    tree_edges = {link.edge for link in tree.spanning_tree}
    solid = [edge in tree_edges for edge in tree.edges]
    rest = limits_text(format_counts(tree.left_out, tree.at_least, tree.unknown))
    return _graph(tree.nodes, set(tree.roots), zip(tree.edges, solid, strict=True), rest)


def path_dot(path: LinkPath, nodes: Sequence[NodeView]) -> str:
    """Write a path in the language of Graphviz; both ends have double lines.

    If no path was found, the graph has no nodes.

    Args:
        path: The result of the search for a path.
        nodes: Its artifacts: `await describe(corpus, path.nodes)`.

    Returns:
        Lines, each with its newline; edges point as they are stored.

    Example:
        >>> path = LinkPath("a", "b", "both", 10, ("a", "b"), (Edge("b", "a", "related"),), 1.0)
        >>> print(path_dot(path, [NodeView("a"), NodeView("b")]), end="")
        digraph {
          node [shape=box];
          "a" [label="a", peripheries=2];
          "b" [label="b", peripheries=2];
          "b" -> "a" [label="related"];
        }
    """
    rest = limits_text(format_counts(path.left_out, path.at_least, ()))
    return _graph(nodes, {path.start, path.end}, ((edge, True) for edge in path.edges), rest)


def _graph(nodes: Iterable[NodeView], ends: set[NodeId], edges: Iterable[tuple[Edge, bool]], label: str) -> str:
    lines = ["digraph {", "  node [shape=box];"]
    if label:
        lines.append(f"  label={_quote(label)};")
    for node in nodes:
        label_lines = [id_text(node.id)] if node.title is None else [id_text(node.id), escape_controls(node.title)]
        lines.append(f"  {_name(node.id)} [label={_quote(*label_lines)}{', peripheries=2' * (node.id in ends)}];")
    for edge, is_solid in edges:
        style = "" if is_solid else ", style=dashed"
        lines.append(
            f"  {_name(edge.source)} -> {_name(edge.target)} [label={_quote(escape_controls(edge.type))}{style}];"
        )
    return "".join(f"{line}\n" for line in [*lines, "}"])


def _name(id: NodeId) -> str:
    return f'"{id_token(id)}"'


def _quote(*lines: str) -> str:
    r"""Quote lines as one label, and escape `\` and `"` in them."""
    return '"' + r"\n".join(line.replace("\\", r"\\").replace('"', r"\"") for line in lines) + '"'

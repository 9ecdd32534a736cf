"""Reading a walk along links as a tree."""

from contextlib import aclosing
from types import EllipsisType

from airw._base.checks import check_choice, check_count
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.links import INVERSES, Inverses
from airw.values import DIRECTIONS, Direction
from airw.views._outline import Met, Outline
from airw.views.model import TreeLink, WalkTree
from airw.walking import Walk, WalkEvent, WalkSummary

__all__ = ["TreeReader", "limit_names", "read_tree"]

_NAMES = {"max_depth": "max_hops", "node_budget": "max_nodes"}


def limit_names(summary: WalkSummary | None) -> tuple[dict[str, int], tuple[str, ...], tuple[str, ...]]:
    """Give what a walk left out, the limits where that is a lower bound, and those behind which nobody looked.

    Limits have the names that people give them: `max_hops` for `max_depth`, `max_nodes` for `node_budget`. A deadline
    that ended the walk is one more limit, `timeout`, and so is `closed` where the walk has not ended by itself.
    """
    if summary is None:
        return {}, (), ("closed",)
    left_out = {_NAMES.get(name, name): count for name, count in summary.left_out.items()}
    at_least = {_NAMES.get(name, name) for name in summary.at_least}
    unknown = {_NAMES.get(name, name) for name in summary.unknown} | {"timeout"} & {summary.stop}
    return dict(sorted(left_out.items())), tuple(sorted(at_least)), tuple(sorted(unknown))


class TreeReader:
    """Makes a tree of the events of a walk along links, without I/O.

    Args:
        direction: Which way links are followed.
        max_hops: The cap on hops; `None` for none.
        inverses: What edges are called against their direction; `None` for the type as stored.

    Raises:
        ArgumentError: A parameter cannot be used.

    Example:
        >>> from airw.values import Edge
        >>> from airw.walking import Committed, EdgeFound
        >>> reader = TreeReader()
        >>> reader.add(Committed("a", 0, 0.0, None, None))
        >>> reader.add(EdgeFound("a", "b", "supports", False, Edge("b", "a", "supports")))
        >>> reader.add(Committed("b", 1, -1.0, "a", None))
        >>> [(link.source, link.type, link.target) for link in reader.tree().spanning_tree]
        [('a', 'supported-by', 'b')]
    """

    def __init__(
        self, *, direction: Direction = "both", max_hops: int | None = None, inverses: Inverses | None = INVERSES
    ) -> None:
        self._direction = check_choice("direction", direction, DIRECTIONS)
        self._max_hops = None if max_hops is None else check_count("max_hops", max_hops)
        self._outline = Outline(inverses)

    def add(self, event: WalkEvent) -> None:
        """Take the next event of the walk.

        Raises:
            ArgumentError: The walk does not name its edges.
        """
        self._outline.add(event)

    def tree(self) -> WalkTree:
        """Give the tree of all events so far; before the end of the walk it is truncated: `unknown` names `closed`."""
        outline = self._outline
        listed = [met for met in outline.met.values() if met.target in outline.nodes]
        left_out, at_least, unknown = limit_names(outline.summary)
        ways = {id: outline.met[edge] for id, edge in outline.ways.items()}
        return WalkTree(
            roots=tuple(outline.roots),
            direction=self._direction,
            max_hops=self._max_hops,
            nodes=tuple(outline.nodes.values()),
            edges=tuple(met.edge for met in listed),
            spanning_tree=tuple(map(self._link, ways.values())),
            references=tuple(self._link(met) for met in listed if not outline.is_way(met)),
            unlisted=outline.unlisted(),
            left_out=left_out,
            at_least=at_least,
            unknown=unknown,
            timed_out=outline.summary is not None and outline.summary.stop == "timeout",
        )

    def _link(self, met: Met) -> TreeLink:
        return TreeLink(met.source, met.target, self._outline.hops[met.target], met.type, met.edge)


async def read_tree(
    walk: Walk,
    *,
    direction: Direction | None = None,
    max_hops: int | EllipsisType | None = ...,
    inverses: Inverses | None = INVERSES,
) -> WalkTree:
    """Read a walk along links to its end and give it as a tree.

    Args:
        walk: What `walk_links` returns, or any walk whose policy names edges, before its first hit.
        direction: Which way it follows links; left out, what its policy says, else `"both"`.
        max_hops: Its cap on hops, `None` for none; left out, its policy's. To be said where `traverse` was given
            another one.
        inverses: What edges are called against their direction; `None` for the type as stored. Those of the walk,
            where it chooses edges by them.

    Raises:
        ArgumentError: It is no walk, or names no edges.
        RuntimeError: The walk is being read already.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> from airw.links import MarkdownLinks
        >>> from airw.views.links import walk_links
        >>> notes = {"a.md": "See [[b]] and [[c]].", "b.md": "See [[c]].", "c.md": "A leaf."}
        >>> async def main():
        ...     source = from_mapping(notes, name="notes", embedder=HashingEmbedder(), edge_extractor=MarkdownLinks())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         return await read_tree(walk_links(corpus, ["a.md"]))
        >>> tree = anyio.run(main)
        >>> [(link.source, link.target, link.hop) for link in tree.spanning_tree], tree.truncated
        ([('a.md', 'b.md', 1), ('a.md', 'c.md', 1)], False)
        >>> [(link.source, link.target) for link in tree.references]
        [('b.md', 'c.md')]
    """
    if not isinstance(walk, Walk):
        raise ArgumentError(f"read_tree takes what walk_links returns, not {short_repr(walk)}")
    reader = TreeReader(
        direction=getattr(walk.policy, "direction", "both") if direction is None else direction,
        max_hops=walk.policy.max_depth if max_hops is ... else max_hops,
        inverses=inverses,
    )
    async with aclosing(walk.events()) as events:
        async for event in events:
            reader.add(event)
    return await in_thread(reader.tree)

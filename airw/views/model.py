"""Frozen values that describe a walk along links or a path.

All formats are written from these values, so that they agree.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airw._base.concurrency import in_thread
from airw._base.json import fields_to_json, json_clean
from airw._base.messages import escape_controls
from airw.protocols import OpenCorpus, RecordsOf, ask
from airw.retrieval import check_corpus
from airw.values import Direction, Edge, NodeId, Record, SearchHit

_MANY = 200  # artifacts; describing more takes over a millisecond, so a worker thread does it


@dataclass(frozen=True, slots=True)
class NodeView:
    """An artifact as the views show it.

    Args:
        id: The id of the artifact; for several corpora, `(source, id)`.
        title: Its title; `None` if it has no title or no surface.
        type: The field `type` of its frontmatter.
        tags: The field `tags`, as a tuple of strings.
        path: The path of its file.
    """

    id: NodeId
    title: str | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    path: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the five fields as JSON-clean values."""
        return fields_to_json(self)


def node_view(id: NodeId, found: SearchHit | Record | None) -> NodeView:
    """Return the view of an artifact, from the metadata of a hit or record if there is one."""
    if found is None:
        return NodeView(id)
    get = found.metadata.get
    tags = get("tags")
    tags = tags.split(",") if isinstance(tags, str) else tags if isinstance(tags, list | tuple) else ()
    texts = [text for value in tags if (text := _text(value))]
    return NodeView(id, _text(get("title")), _text(get("type")), tuple(texts), _text(get("airw_path") or get("path")))


def _text(value: object) -> str | None:
    """Return a text or number on one line; `None` for other values and for blanks."""
    if value is None:
        return None
    if value.__class__ is not str:  # most values are; a tree of a thousand artifacts asks five thousand times
        if not isinstance(value, str | int | float):
            return None
        value = str(value)
    return " ".join(value.split()) or None


async def describe(corpus: OpenCorpus, ids: Sequence[NodeId]) -> list[NodeView]:
    """Return the id, title, type, tags and path of each artifact, in the order of `ids`.

    They come from the first surface of each artifact, by one store call. An artifact that has no surface, or is not in
    the corpus, has only its id.

    Args:
        corpus: An open corpus.
        ids: The ids of the artifacts; for several corpora, `(source, id)` pairs.

    Raises:
        ArgumentError: If `corpus` is not an open corpus.

    Example:
        >>> import anyio
        >>> from airw import build, from_records
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> records = [{"id": "a", "text": "Rotate them.", "title": "Keys"}]
        >>> async def main():
        ...     source = from_records(records, name="docs", text_key="text", embedder=HashingEmbedder())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         return await describe(corpus, ["a", "b"])
        >>> [(node.id, node.title) for node in anyio.run(main)]
        [('a', 'Keys'), ('b', None)]
    """
    store: Any = check_corpus(corpus).store  # Any, because ids are pairs if there are several corpora
    records = await ask(store, RecordsOf(list(ids), limit=1)) if ids else []
    return await in_thread(_views, ids, records) if len(ids) > _MANY else _views(ids, records)


def _views(ids: Sequence[NodeId], records: Sequence[Sequence[Record] | None]) -> list[NodeView]:
    return [node_view(id, first[0] if first else None) for id, first in zip(ids, records, strict=True)]


def edge_dict(edge: Edge) -> dict[str, Any]:
    """Return a stored edge as JSON values, with the keys that qipu uses.

    A weight of 1 is left out.
    """
    return {
        "from": json_clean(edge.source),
        "to": json_clean(edge.target),
        "type": edge.type,
        "source": edge.origin,
        **({} if edge.weight == 1 else {"weight": edge.weight}),
    }


@dataclass(frozen=True, slots=True)
class TreeLink:
    """A step of a tree: an edge, and the direction in which the walk followed it.

    Args:
        source: The artifact from which the walk followed the edge.
        target: The artifact that the walk reached.
        hop: Hops from the root to `target`.
        type: The type of the edge as seen from `source`. It is the name of the inverse if the walk followed the edge
            against its direction, unless inverses are off.
        edge: The stored edge.
    """

    source: NodeId
    target: NodeId
    hop: int
    type: str
    edge: Edge

    @property
    def is_against(self) -> bool:
        """Return True if the walk followed the edge against its direction."""
        return self.edge.source != self.source

    def to_dict(self) -> dict[str, Any]:
        """Return the step as JSON values, with the keys that qipu uses."""
        return {"from": json_clean(self.source), "to": json_clean(self.target), "hop": self.hop, "type": self.type}


@dataclass(frozen=True, slots=True)
class WalkTree:
    """A walk along links, as a tree with all edges that the walk met.

    Args:
        roots: The artifacts from which the walk started.
        direction: The direction in which the walk followed links.
        max_hops: The limit of hops; `None` for no limit.
        nodes: Every artifact reached, in the order of the walk.
        edges: Every stored edge met between two of them, without duplicates, in the order of the walk.
        spanning_tree: For each artifact except the roots, the step that reached it, in the order of the walk.
        references: All other edges, as the walk met them: they lead to artifacts already reached.
        unlisted: By artifact, how many neighbours were found there but not reached; only counts above 0.
        left_out: How many items each limit left out: `max_hops`, `max_nodes`, `max_edges`, `max_fanout`, ….
        at_least: The limits whose count in `left_out` is a lower bound.
        unknown: The limits that stopped the walk without counting what they left out.
        timed_out: True if a deadline ended the walk.
    """

    roots: Sequence[NodeId]
    direction: Direction
    max_hops: int | None
    nodes: Sequence[NodeView]
    edges: Sequence[Edge]
    spanning_tree: Sequence[TreeLink]
    references: Sequence[TreeLink] = ()
    unlisted: Mapping[NodeId, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    at_least: Sequence[str] = ()
    unknown: Sequence[str] = ()
    timed_out: bool = False

    @property
    def truncated(self) -> bool:
        """Return True if anything was, or may have been, left out.

        A limit that is reached exactly leaves nothing out.
        """
        return bool(self.left_out or self.at_least or self.unknown or self.timed_out)

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as one JSON object, whose schema `airw link tree --schema` prints.

        It has the keys of the first version of qipu's `link tree`; later versions of qipu call nodes notes and edges
        links.
        """
        return {
            "root": json_clean(self.roots[0]) if self.roots else None,
            "roots": json_clean(list(self.roots)),
            "direction": self.direction,
            "max_hops": self.max_hops,
            "truncated": self.truncated,
            "left_out": dict(self.left_out),
            "at_least": list(self.at_least),
            "unknown": list(self.unknown),
            "nodes": [node.to_dict() for node in self.nodes],
            "edges": [edge_dict(edge) for edge in self.edges],
            "spanning_tree": [link.to_dict() for link in self.spanning_tree],
        }


def id_text(id: NodeId) -> str:
    """Return an id on one line; for several corpora, as `source/id`."""
    return escape_controls(id if isinstance(id, str) else "/".join(id))


def format_counts(
    left_out: Mapping[str, int], at_least: Collection[str], unknown: Collection[str]
) -> list[tuple[str, str]]:
    """Return a pair for each limit, sorted by name: the name, and how much it left out.

    The count is `3`, `3+` for at least 3, or `?` if it is unknown.

    Example:
        >>> format_counts({"max_nodes": 1, "max_hops": 3}, ["max_nodes"], ["timeout"])
        [('max_hops', '3'), ('max_nodes', '1+'), ('timeout', '?')]
    """
    names = sorted({*left_out, *at_least, *unknown})
    return [(name, f"{left_out[name]}{'+' * (name in at_least)}" if name in left_out else "?") for name in names]

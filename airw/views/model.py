"""What is told of a walk along links, or of a path: frozen values that every format is written from, and its words."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airw._base.concurrency import in_thread
from airw._base.json import json_clean
from airw.protocols import OpenCorpus
from airw.retrieval import check_corpus
from airw.values import Direction, Edge, NodeId, Record, SearchHit

_MANY = 200  # artifacts, described in about a millisecond
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What ends a line, drives a terminal, turns the direction of the rest of a line, or is no character."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """What is told of one artifact.

    Args:
        id: The artifact; of several corpora, `(source, id)`.
        title: Its title; `None` where it has none, or no surface to tell.
        type: The field `type` of its frontmatter.
        tags: The field `tags`, as a tuple of strings.
        path: Where its file is.
    """

    id: NodeId
    title: str | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    path: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the five fields as JSON-clean values."""
        return {
            "id": json_clean(self.id),
            "title": self.title,
            "type": self.type,
            "tags": list(self.tags),
            "path": self.path,
        }


def node_view(id: NodeId, found: SearchHit | Record | None) -> NodeView:
    """Return what a hit or a record tells of an artifact; only its id where there is none."""
    if found is None:
        return NodeView(id)
    fields = found.metadata
    tags = fields.get("tags")
    tags = tags.split(",") if isinstance(tags, str) else tags if isinstance(tags, list | tuple) else ()
    return NodeView(
        id,
        _text(fields.get("title")),
        _text(fields.get("type")),
        tuple(tag for each in tags if (tag := _text(each))),
        _text(fields.get("path")),
    )


def _text(value: object) -> str | None:
    """Return a name or number as one line; `None` for anything else, and for blanks."""
    return " ".join(str(value).split()) or None if isinstance(value, str | int | float) else None


async def describe(corpus: OpenCorpus, ids: Sequence[NodeId]) -> list[NodeView]:
    """Return for each artifact its title, type, tags and path, by its first surface; one store call.

    Of an artifact without surfaces, and of one that the corpus does not hold, only the id is told.

    Args:
        corpus: An open corpus.
        ids: The artifacts; of several corpora, `(source, id)` pairs.

    Raises:
        ArgumentError: It is no open corpus.

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
    store: Any = check_corpus(corpus).store  # of several corpora, ids are pairs
    found = await store.records_of(list(ids), limit=1) if ids else []
    return await in_thread(_views, ids, found) if len(ids) > _MANY else _views(ids, found)


def _views(ids: Sequence[NodeId], found: Sequence[Sequence[Record] | None]) -> list[NodeView]:
    return [node_view(id, records[0] if records else None) for id, records in zip(ids, found, strict=True)]


def edge_dict(edge: Edge) -> dict[str, Any]:
    """Return an edge as it is stored, under the names that qipu gives."""
    return {
        "from": json_clean(edge.source),
        "to": json_clean(edge.target),
        "type": edge.type,
        "source": edge.origin,
    }


@dataclass(frozen=True, slots=True)
class TreeLink:
    """One step of a tree: from an artifact to one that was found there.

    Args:
        source: Where the walk was.
        target: What it found.
        hop: Hops from the root to `target`.
        type: The edge as read from `source`: the name of its inverse where it was walked against its direction, unless
            no inverses were asked for.
        edge: The edge as it is stored.
    """

    source: NodeId
    target: NodeId
    hop: int
    type: str
    edge: Edge

    @property
    def is_against(self) -> bool:
        """Say whether the edge was walked against its direction."""
        return self.edge.source != self.source

    def to_dict(self) -> dict[str, Any]:
        """Return it under the names that qipu gives."""
        return {"from": json_clean(self.source), "to": json_clean(self.target), "hop": self.hop, "type": self.type}


@dataclass(frozen=True, slots=True)
class WalkTree:
    """A walk along links, as a tree and all edges met on the way.

    Args:
        roots: Where it started.
        direction: Which way links were followed.
        max_hops: The cap on hops; `None` for none.
        nodes: Every artifact reached, in the order of the walk.
        edges: Every edge met between two of them, as stored, each once, in the order of the walk.
        spanning_tree: For each artifact but the roots how it was reached, in the order of the walk.
        references: The other edges, as the walk met them: to artifacts that it knew already.
        unlisted: How many were found at an artifact and left out before they were reached, where any were.
        left_out: How many were seen and left out, by limit: `max_hops`, `max_nodes`, `max_edges`, `max_fanout`, ….
        at_least: Limits whose count in `left_out` is a lower bound.
        unknown: Limits behind which nobody looked.
        timed_out: Whether a deadline ended the walk.
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
        """Say whether anything was, or may have been, left out; a limit reached exactly is no truncation."""
        return bool(self.left_out or self.at_least or self.unknown or self.timed_out)

    def to_dict(self) -> dict[str, Any]:
        """Return it as one JSON object, in the shape of qipu's `link tree`; the schema is `airw link tree --schema`."""
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


def one_line(text: str) -> str:
    r"""Write what cannot be printed as Python would.

    Example:
        >>> print(one_line("a\nb\x1b[2J"))
        a\nb\x1b[2J
    """
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def id_text(id: NodeId) -> str:
    """Return an id as one line, of several corpora as `source/id`."""
    return one_line(id if isinstance(id, str) else "/".join(id))


def counted(left_out: Mapping[str, int], at_least: Collection[str], unknown: Collection[str]) -> list[tuple[str, str]]:
    """Return what was left out by limit, in order of its name, with `3`, `3+` for at least 3, or `?`.

    Example:
        >>> counted({"max_nodes": 1, "max_hops": 3}, ["max_nodes"], ["timeout"])
        [('max_hops', '3'), ('max_nodes', '1+'), ('timeout', '?')]
    """
    names = sorted({*left_out, *at_least, *unknown})
    return [(name, f"{left_out[name]}{'+' * (name in at_least)}" if name in left_out else "?") for name in names]

"""The links of one artifact, and the links that lead nowhere, for people and programs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airw._base.json import json_clean
from airw.values import Direction, Edge, Link, NodeId, UnresolvedLink
from airw.views.model import NodeView, id_text, one_line
from airw.views.records import edge_line, id_token, token


@dataclass(frozen=True, slots=True)
class ListedLink:
    """One link of a document, as it is read from there.

    Args:
        direction: `"out"`, or `"in"` where the other document holds it.
        type: What it is called from here.
        stored: The edge that it is; or the link as it stands there, where it leads to no document or to several.
        id: The document at the other end, where it leads to one.
        title: Its title.
    """

    direction: Direction
    type: str
    stored: Edge | UnresolvedLink
    id: NodeId | None = None
    title: str | None = None

    @property
    def origin(self) -> str:
        """Say where it was found: `"typed"`, `"inline"`, `"derived"`."""
        return self.stored.origin if isinstance(self.stored, Edge) else self.stored.link.origin

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON, with the same keys for every link."""
        told = {"direction": self.direction, "id": json_clean(self.id), "type": self.type, "source": self.origin}
        state = _RESOLVED if isinstance(self.stored, Edge) else _about(self.stored)
        return {**told, "title": self.title, **state}

    @property
    def text(self) -> str:
        """Give it as one line for people."""
        start = f"{'→' if self.direction == 'out' else '←'} {one_line(self.type)}  {one_line(self.origin)}"
        if isinstance(self.stored, UnresolvedLink):
            return f"{start}  {_place(self.stored)}{_what(self.stored)}"
        end = id_text(self.id or "")
        return f"{start}  {end}  {one_line(self.title)}" if self.title else f"{start}  {end}"

    @property
    def record(self) -> str:
        """Give it as one line for programs, an edge as `tree_records` writes it, `U` for what leads to no document."""
        stored = self.stored
        if isinstance(stored, Edge):
            return edge_line(stored)
        link, candidates = stored.link, ",".join(map(id_token, stored.candidates)) or "-"
        told = f"U {id_token(stored.source)} {token(_written(link))} {token(link.type)} {token(link.origin)}"
        return f"{told} candidates={candidates} file={token(link.file)} line={link.line or '-'}"


def list_links(
    here: str, edges: Iterable[tuple[Edge, str]], unresolved: Iterable[UnresolvedLink], nodes: Mapping[NodeId, NodeView]
) -> list[ListedLink]:
    """Give the links of a document: those out, those in, then those that lead nowhere.

    Each by what they are called, then by the other end; those that lead nowhere as they stand in it.

    Args:
        here: The document.
        edges: Its edges, each with what it is called from here.
        unresolved: Its links that are no edges.
        nodes: What is known of the documents at the other ends.
    """
    found = [_listed(here, edge, name, nodes) for edge, name in edges]
    found.sort(key=lambda each: (each.direction != "out", each.type, id_text(each.id or ""), each.origin))
    return [*found, *(ListedLink("out", each.link.type, each) for each in unresolved)]


def listing_records(here: str, direction: Direction, links: Iterable[ListedLink]) -> str:
    """Write the links of a document in lines for programs: a header, then one for each link."""
    header = f"H airw=1 records=1 mode=link.list id={token(here)} direction={direction} truncated=false"
    return "".join(f"{line}\n" for line in (header, *(link.record for link in links)))


def _listed(here: str, edge: Edge, name: str, nodes: Mapping[NodeId, NodeView]) -> ListedLink:
    end = edge.target if edge.source == here else edge.source
    title = nodes[end].title if end in nodes else None
    return ListedLink("out" if edge.source == here else "in", name, edge, end, title)


def _reference(link: Link) -> str:
    """Give the name that a link looks for, or both."""
    return " or ".join(f"'{one_line(ref)}'" for ref in (link.target_ref, link.or_ref) if ref is not None)


def _written(link: Link) -> str:
    return link.target_ref if link.or_ref is None else f"{link.target_ref}|{link.or_ref}"


def unresolved_dict(found: UnresolvedLink) -> dict[str, Any]:
    """Give a link that leads to no one document as JSON."""
    link = found.link
    return {"id": json_clean(found.source), "type": link.type, "source": link.origin, **_about(found)}


def _about(found: UnresolvedLink) -> dict[str, Any]:
    link = found.link
    about = {"state": found.state, "ref": _written(link), "candidates": json_clean(list(found.candidates))}
    return {**about, "file": link.file, "line": link.line}


_RESOLVED: Mapping[str, Any] = {"state": "resolved", "ref": None, "candidates": [], "file": None, "line": None}


def unresolved_line(found: UnresolvedLink) -> str:
    """Give a link that leads to no one document as compilers tell what is wrong: where, then what."""
    return f"{_place(found)}{_what(found)} ({one_line(found.link.type)}, {one_line(found.link.origin)})"


def _place(found: UnresolvedLink) -> str:
    file = one_line(found.link.file) if found.link.file else id_text(found.source)
    return f"{file}:{found.link.line}: " if found.link.line else f"{file}: "


def _what(found: UnresolvedLink) -> str:
    meant = f"may be {', '.join(map(id_text, found.candidates))}" if found.candidates else "leads nowhere"
    return f"{_reference(found.link)} {meant}"

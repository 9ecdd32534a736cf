"""The links of one artifact, and the links that lead nowhere, for people and programs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airw._base.json import json_clean
from airw._base.messages import escape_controls
from airw.values import Direction, Edge, Link, NodeId, UnresolvedLink
from airw.views.model import NodeView, id_text
from airw.views.records import edge_line, id_token, token


@dataclass(frozen=True, slots=True)
class ListedLink:
    """A link of a document, as seen from this document.

    Args:
        direction: `"out"`, or `"in"` if the other document contains the link.
        type: Its type as seen from here.
        stored: The stored edge, or the unresolved link if it leads to no document or may lead to several.
        id: The document at the other end, if the link is resolved.
        title: The title of that document.
    """

    direction: Direction
    type: str
    stored: Edge | UnresolvedLink
    id: NodeId | None = None
    title: str | None = None

    @property
    def origin(self) -> str:
        """Return the origin of the link: `"typed"`, `"inline"` or `"derived"`."""
        return self.stored.origin if isinstance(self.stored, Edge) else self.stored.link.origin

    def to_dict(self) -> dict[str, Any]:
        """Return the link as JSON values; all links have the same keys."""
        fields = {"direction": self.direction, "id": json_clean(self.id), "type": self.type, "source": self.origin}
        state = _RESOLVED if isinstance(self.stored, Edge) else _fields_of_unresolved(self.stored)
        return {**fields, "title": self.title, **state}

    @property
    def text(self) -> str:
        """Return the link on one line for people."""
        start = (
            f"{'→' if self.direction == 'out' else '←'} {escape_controls(self.type)}  {escape_controls(self.origin)}"
        )
        if isinstance(self.stored, UnresolvedLink):
            return f"{start}  {_place(self.stored)}{_problem(self.stored)}"
        end = id_text(self.id or "")
        return f"{start}  {end}  {escape_controls(self.title)}" if self.title else f"{start}  {end}"

    @property
    def record(self) -> str:
        """Return the link on one line for programs.

        Edges are written as in `tree_records`; unresolved links in the same order, with `U` in front.
        """
        stored = self.stored
        if isinstance(stored, Edge):
            return edge_line(stored)
        link, candidates = stored.link, ",".join(map(id_token, stored.candidates)) or "-"
        fields = f"U {id_token(stored.source)} {token(link.type)} {token(_reference(link))} {token(link.origin)}"
        return f"{fields} candidates={candidates} file={token(link.file)} line={link.line or '-'}"


def list_links(
    here: str, edges: Iterable[tuple[Edge, str]], unresolved: Iterable[UnresolvedLink], nodes: Mapping[NodeId, NodeView]
) -> list[ListedLink]:
    """Return the links of a document: those out of it, those into it, then unresolved links.

    Resolved links are sorted by type, then by the other document. Unresolved links keep the order of the document.

    Args:
        here: The id of the document.
        edges: Its edges, each with its type as seen from here.
        unresolved: Its unresolved links.
        nodes: The documents at the other ends, by id.
    """
    resolved = [_to_listed_link(here, edge, name, nodes) for edge, name in edges]
    resolved.sort(key=lambda link: (link.direction != "out", link.type, id_text(link.id or ""), link.origin))
    return [*resolved, *(ListedLink("out", link.link.type, link) for link in unresolved)]


def listing_records(here: str, direction: Direction, links: Iterable[ListedLink]) -> str:
    """Write the links of a document as records: a header, then one line for each link."""
    header = f"H airw=1 records=1 mode=link.list id={token(here)} direction={direction} truncated=false"
    return "".join(f"{line}\n" for line in (header, *(link.record for link in links)))


def _to_listed_link(here: str, edge: Edge, name: str, nodes: Mapping[NodeId, NodeView]) -> ListedLink:
    end = edge.target if edge.source == here else edge.source
    title = nodes[end].title if end in nodes else None
    return ListedLink("out" if edge.source == here else "in", name, edge, end, title)


def _reference_text(link: Link) -> str:
    """Return the reference of a link in quotes; both, if it has a second one."""
    return " or ".join(f"'{escape_controls(ref)}'" for ref in (link.target_ref, link.or_ref) if ref is not None)


def _reference(link: Link) -> str:
    return link.target_ref if link.or_ref is None else f"{link.target_ref}|{link.or_ref}"


def unresolved_dict(found: UnresolvedLink) -> dict[str, Any]:
    """Return an unresolved link as JSON values."""
    link = found.link
    return {"id": json_clean(found.source), "type": link.type, "source": link.origin, **_fields_of_unresolved(found)}


def _fields_of_unresolved(found: UnresolvedLink) -> dict[str, Any]:
    link = found.link
    fields = {"state": found.state, "ref": _reference(link), "candidates": json_clean(list(found.candidates))}
    return {**fields, "file": link.file, "line": link.line}


_RESOLVED: Mapping[str, Any] = {"state": "resolved", "ref": None, "candidates": [], "file": None, "line": None}


def unresolved_line(found: UnresolvedLink) -> str:
    """Return an unresolved link on one line, as compilers do: place, then problem."""
    return (
        f"{_place(found)}{_problem(found)} ({escape_controls(found.link.type)}, {escape_controls(found.link.origin)})"
    )


def _place(found: UnresolvedLink) -> str:
    file = escape_controls(found.link.file) if found.link.file else id_text(found.source)
    return f"{file}:{found.link.line}: " if found.link.line else f"{file}: "


def _problem(found: UnresolvedLink) -> str:
    problems: dict[str, str] = {
        "ambiguous": f"may be {', '.join(map(id_text, found.candidates))}",
        "file": "leads to a file or folder that is not indexed",
        "outside": "leads out of the folder of the notes",
    }
    return f"{_reference_text(found.link)} {problems.get(found.state, 'leads nowhere')}"

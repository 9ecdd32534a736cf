"""Bundles of notes, as values, and the formats in which they are printed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from airw._base.checks import check_choice
from airw._base.json import dump_json, json_clean
from airw._base.messages import escape_controls
from airw.links import FollowedLinks
from airw.values import Edge, NodeId
from airw.views.model import NodeView, edge_dict, format_counts, id_text
from airw.views.records import edge_line, id_token, node_line, token
from airw.views.text import limits_text

FormName: TypeAlias = Literal["text", "json", "records"]

FORMS: tuple[FormName, ...] = ("text", "json", "records")
"""The formats in which a bundle can be printed."""


class NoteLink(NamedTuple):
    """A stored edge as seen from one note: its type, or the inverse if it leads to the note."""

    edge: Edge
    type: str


@dataclass(frozen=True, slots=True)
class BundledNote:
    """An artifact of a bundle.

    Args:
        node: Its id, title, type, tags and path.
        content: Its text: all its chunks joined, or all its surfaces if it has no chunks. Of a note that does not fit,
            the passage around the best match.
        via: Why it is in the bundle: `"note"` (it was named), `"walk"` (a root of the walk), `"walk:ID"` (reached from
            there) or `"query:SCORE"`.
        hop: Hops from the root, if the walk reached it.
        links: The edges between it and the notes before it.
        is_passage: True if `content` is a passage of the text, because the whole does not fit.

    Example:
        >>> BundledNote(NodeView("a.md"), "text", "walk:b.md", 1).to_dict()["via"]
        'walk:b.md'
    """

    node: NodeView
    content: str
    via: str
    hop: int | None = None
    links: tuple[NoteLink, ...] = ()
    is_passage: bool = False

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The stored edges between it and the notes before it."""
        return tuple(link.edge for link in self.links)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the edges as JSON values."""
        about = {"hop": self.hop, "via": self.via}
        return {**self.node.to_dict(), **about, "content": self.content, "content_truncated": self.is_passage}


class NoteLinks:
    """The stored edges between the notes of a bundle.

    An edge is listed with the later of its two notes, because only then both are in.
    """

    def __init__(self, links: FollowedLinks) -> None:
        """Begin without notes."""
        self._links = links
        self._in: set[NodeId] = set()
        self._waiting: dict[NodeId, list[Edge]] = {}

    def copy(self) -> "NoteLinks":
        """Return a copy to which notes can be added on trial."""
        copy = NoteLinks(self._links)
        copy._in = {*self._in}
        copy._waiting = {id: [*edges] for id, edges in self._waiting.items()}
        return copy

    def link(self, note: BundledNote, out: Sequence[Edge]) -> BundledNote:
        """Return a new note with its links to the notes that are in; `out` are its outgoing edges."""
        id = note.node.id
        edges = [*(edge for edge in out if edge.target in self._in), *self._waiting.get(id, ())]
        links = (NoteLink(edge, self._links.name_of(edge, id)) for edge in edges if self._links.follows(edge))
        return replace(note, links=tuple(links))

    def add(self, id: NodeId, out: Sequence[Edge]) -> None:
        """Add a note that is now in, with its outgoing edges."""
        self._in.add(id)
        for edge in out:
            self._waiting.setdefault(edge.target, []).append(edge)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Notes, and what was left out.

    Args:
        store: The name of their corpus.
        notes: The notes: those named, then those of the walk in its order, then those of the query by rank.
        left_out: How many items each limit left out. `max_chars` and `max_tokens` count notes of which nothing is in
            the bundle; the other limits are those of the walk.
        at_least: The limits whose count in `left_out` is a lower bound.
        unknown: The limits that stopped the walk without counting what they left out, such as `timeout`.
        tokens: How tokens were estimated; `None` if they were counted or there is no limit of tokens.
        omitted: The ids of the notes that `max_chars` and `max_tokens` left out, in order; of many, the first ones.

    Example:
        >>> Bundle("vault", (BundledNote(NodeView("a.md"), "text", "note"),), {"max_chars": 2}).to_dict()["notes_count"]
        1
    """

    store: str
    notes: tuple[BundledNote, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    at_least: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    tokens: str | None = None
    omitted: tuple[NodeId, ...] = ()

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The stored edges between its notes, in the order of the later note."""
        return tuple(edge for note in self.notes for edge in note.edges)

    @property
    def truncated(self) -> bool:
        """Return True if anything was, or may have been, left out.

        A limit that is reached exactly leaves nothing out.
        """
        is_cut = any(note.is_passage for note in self.notes)
        return bool(is_cut or self.left_out or self.at_least or self.unknown)

    def to_dict(self) -> dict[str, Any]:
        """Return the bundle as one JSON object; `tokens` only if they were estimated."""
        return {
            "store": self.store,
            "truncated": self.truncated,
            "left_out": dict(self.left_out),
            "at_least": list(self.at_least),
            "unknown": list(self.unknown),
            "omitted": json_clean(list(self.omitted)),
            **({"tokens": self.tokens} if self.tokens else {}),
            "notes_count": len(self.notes),
            "notes": [note.to_dict() for note in self.notes],
            "edges": [edge_dict(edge) for edge in self.edges],
        }


class Form(NamedTuple):
    """The functions that print a bundle in one format: head, each note, tail, and all at once.

    The whole is never longer than its parts together.
    """

    head: Callable[[Bundle], str]
    note: Callable[[BundledNote], str]
    tail: Callable[[Bundle], str]
    whole: Callable[[Bundle], str]


def bundle_document(bundle: Bundle, form: FormName = "text") -> str:
    r"""Return a bundle as one document, with a newline at its end.

    Args:
        bundle: The bundle.
        form: `"text"` is for people and models: each note has a heading, its links to notes before it, and its text.
            `"json"` is one object, `Bundle.to_dict`. `"records"` has a line for each note and edge, as in
            `tree_records`; the text of a note follows them between `B id lines=N` and `B-END id`. A passage has
            `truncated=true` in its `B` line.

    Raises:
        ArgumentError: If `form` is not one of these.

    Example:
        >>> note = BundledNote(NodeView("keys.md", "Signing keys"), "Rotate them.", "note")
        >>> print(bundle_document(Bundle("vault", (note,))), end="")
        Notes of vault
        <BLANKLINE>
        # keys.md: Signing keys
        via note
        <BLANKLINE>
        Rotate them.
        <BLANKLINE>
    """
    return BUNDLE_FORMS[check_choice("form", form, FORMS)].whole(bundle)


def _join_parts(bundle: Bundle, form: Form) -> str:
    return "".join([form.head(bundle), *map(form.note, bundle.notes), form.tail(bundle)])


# Text.


def _text_head(bundle: Bundle) -> str:
    return f"Notes of {bundle.store}{f'; {bundle.tokens}' if bundle.tokens else ''}\n\n"


def _text_note(note: BundledNote) -> str:
    node = note.node
    about = [f"type {node.type}" if node.type else "", f"tags {', '.join(node.tags)}" if node.tags else ""]
    about += [f"hop {note.hop}" if note.hop is not None else "", f"via {note.via}", node.path or ""]
    about += ["only a passage of it" if note.is_passage else ""]
    lines = [
        f"# {id_text(node.id)}{f': {escape_controls(node.title)}' if node.title else ''}",
        escape_controls("; ".join(part for part in about if part)),
        *(_link_text(link, node.id) for link in note.links),
        "",
    ]
    content = escape_controls(note.content, multiline=True)
    return "\n".join([*lines, *([content.strip("\n"), ""] if content.strip() else []), ""])


def _link_text(link: NoteLink, note: NodeId) -> str:
    is_out = link.edge.source == note
    other, arrow = (link.edge.target, "→") if is_out else (link.edge.source, "←")
    return f"{arrow} {escape_controls(link.type)}  {id_text(other)}"


def _text_tail(bundle: Bundle) -> str:
    limits = limits_text(format_counts(bundle.left_out, bundle.at_least, bundle.unknown))
    omitted = f"left out notes: {', '.join(map(id_text, bundle.omitted))}\n" if bundle.omitted else ""
    return ("" if bundle.notes else "no notes\n") + (f"{limits}\n" if limits else "") + omitted


# JSON.


def _json_note(note: BundledNote) -> str:
    return "".join(f"{dump_json(value)}, " for value in (note.to_dict(), *map(edge_dict, note.edges)))


def _json_whole(bundle: Bundle) -> str:
    return f"{dump_json(bundle.to_dict())}\n"


# Records.


def _records_head(bundle: Bundle) -> str:
    fields = ["H airw=1 records=1", f"store={token(bundle.store)}", "mode=context", f"notes={len(bundle.notes)}"]
    fields += [f"truncated={dump_json(bundle.truncated)}"]
    left_out = ",".join(map(":".join, format_counts(bundle.left_out, bundle.at_least, bundle.unknown)))
    fields += [f"left_out={left_out}"] if left_out else []
    fields += [f"omitted={','.join(map(id_token, bundle.omitted))}"] if bundle.omitted else []
    fields += [f"tokens={token(bundle.tokens)}"] if bundle.tokens else []
    return " ".join(fields) + "\n"


def _records_note(note: BundledNote) -> str:
    id, hop = id_token(note.node.id), "-" if note.hop is None else note.hop
    lines = escape_controls(note.content, multiline=True).split("\n") if note.content else []
    about = [f"{node_line(note.node)} hop={hop} via={token(note.via)}", *map(edge_line, note.edges)]
    is_cut = " truncated=true" if note.is_passage else ""
    return "\n".join([*about, f"B {id} lines={len(lines)}{is_cut}", *lines, f"B-END {id}", ""])


BUNDLE_FORMS: Mapping[FormName, Form] = {
    "text": Form(_text_head, _text_note, _text_tail, lambda bundle: _join_parts(bundle, BUNDLE_FORMS["text"])),
    "json": Form(_json_whole, _json_note, lambda _: "", _json_whole),
    "records": Form(
        _records_head, _records_note, lambda _: "", lambda bundle: _join_parts(bundle, BUNDLE_FORMS["records"])
    ),
}
"""The functions that print each format."""

"""Bundles of whole notes, as values, and the formats in which they are printed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from airw._base.checks import check_choice
from airw._base.json import dump_json
from airw._base.messages import escape_controls
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
    """A whole artifact of a bundle.

    Args:
        node: Its id, title, type, tags and path.
        content: Its text: all its chunks joined, or all its surfaces if it has no chunks.
        via: Why it is in the bundle: `"note"` (it was named), `"walk"` (a root of the walk), `"walk:ID"` (reached from
            there) or `"query:SCORE"`.
        hop: Hops from the root, if the walk reached it.
        links: The edges between it and the notes before it.

    Example:
        >>> BundledNote(NodeView("a.md"), "text", "walk:b.md", 1).to_dict()["via"]
        'walk:b.md'
    """

    node: NodeView
    content: str
    via: str
    hop: int | None = None
    links: tuple[NoteLink, ...] = ()

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The stored edges between it and the notes before it."""
        return tuple(link.edge for link in self.links)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the edges as JSON values."""
        return {**self.node.to_dict(), "hop": self.hop, "via": self.via, "content": self.content}


@dataclass(frozen=True, slots=True)
class Bundle:
    """Whole notes, and what was left out.

    Args:
        store: The name of their corpus.
        notes: The notes: those named, then those of the walk in its order, then those of the query by rank.
        left_out: How many items each limit left out. `max_chars` and `max_tokens` count notes that did not fit; the
            other limits are those of the walk.
        at_least: The limits whose count in `left_out` is a lower bound.
        unknown: The limits that stopped the walk without counting what they left out, such as `timeout`.
        tokens: How tokens were estimated; `None` if they were counted or there is no limit of tokens.

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

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The stored edges between its notes, in the order of the later note."""
        return tuple(edge for note in self.notes for edge in note.edges)

    @property
    def truncated(self) -> bool:
        """Return True if anything was, or may have been, left out.

        A limit that is reached exactly leaves nothing out.
        """
        return bool(self.left_out or self.at_least or self.unknown)

    def to_dict(self) -> dict[str, Any]:
        """Return the bundle as one JSON object; `tokens` only if they were estimated."""
        return {
            "store": self.store,
            "truncated": self.truncated,
            "left_out": dict(self.left_out),
            "at_least": list(self.at_least),
            "unknown": list(self.unknown),
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
            `tree_records`; the text of a note follows them between `B id lines=N` and `B-END id`.

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
    return ("" if bundle.notes else "no notes\n") + (f"{limits}\n" if limits else "")


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
    fields += [f"tokens={token(bundle.tokens)}"] if bundle.tokens else []
    return " ".join(fields) + "\n"


def _records_note(note: BundledNote) -> str:
    id, hop = id_token(note.node.id), "-" if note.hop is None else note.hop
    lines = escape_controls(note.content, multiline=True).split("\n") if note.content else []
    about = [f"{node_line(note.node)} hop={hop} via={token(note.via)}", *map(edge_line, note.edges)]
    return "\n".join([*about, f"B {id} lines={len(lines)}", *lines, f"B-END {id}", ""])


BUNDLE_FORMS: Mapping[FormName, Form] = {
    "text": Form(_text_head, _text_note, _text_tail, lambda bundle: _join_parts(bundle, BUNDLE_FORMS["text"])),
    "json": Form(_json_whole, _json_note, lambda _: "", _json_whole),
    "records": Form(
        _records_head, _records_note, lambda _: "", lambda bundle: _join_parts(bundle, BUNDLE_FORMS["records"])
    ),
}
"""The functions that print each format."""

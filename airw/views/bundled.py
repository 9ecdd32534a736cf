"""Whole notes put together to be read, as values, and the documents that they are printed as; pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from airw._base.checks import check_choice
from airw.values import Edge, NodeId
from airw.views.model import NodeView, counted, edge_dict, id_text, one_line
from airw.views.records import edge_line, id_token, node_line, token
from airw.views.text import left_out_text

FormName: TypeAlias = Literal["text", "json", "records"]

FORMS: tuple[FormName, ...] = ("text", "json", "records")
"""What a bundle can be printed as."""


class NoteLink(NamedTuple):
    """A stored edge as it is told with one of its ends: under its type, or its inverse where it leads there."""

    edge: Edge
    type: str


@dataclass(frozen=True, slots=True)
class BundledNote:
    """One artifact of a bundle, whole.

    Args:
        node: What is told of it.
        content: Its text: its chunks put together, or all its surfaces where it has no chunks.
        via: How it came in: `"note"` (it was named), `"walk"` (a root of the walk), `"walk:ID"` (found from there) or
            `"query:SCORE"`.
        hop: Hops from the root, of what the walk found.
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
        """The edges between it and the notes before it, as they are stored."""
        return tuple(link.edge for link in self.links)

    def to_dict(self) -> dict[str, Any]:
        """Give all but the edges as JSON-clean values."""
        return {**self.node.to_dict(), "hop": self.hop, "via": self.via, "content": self.content}


@dataclass(frozen=True, slots=True)
class Bundle:
    """Notes put together, and what was left out.

    Args:
        store: The corpus they are from.
        notes: The notes, whole: those named, then those of the walk in its order, then those of the query by rank.
        left_out: How many were seen and left out, by limit: `max_chars` and `max_tokens` count notes that did not fit,
            the others are those of the walk.
        at_least: Limits whose count in `left_out` is a lower bound.
        unknown: Limits behind which nobody looked; `timeout` where a deadline ended the walk.
        tokens: How tokens were counted, where they were estimated.

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
        """The stored edges between its notes, each with the later of the two."""
        return tuple(edge for note in self.notes for edge in note.edges)

    @property
    def truncated(self) -> bool:
        """Say whether anything was, or may have been, left out; a limit reached exactly is no truncation."""
        return bool(self.left_out or self.at_least or self.unknown)

    def to_dict(self) -> dict[str, Any]:
        """Give it as one JSON object; `tokens` only where they were estimated."""
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
    """How a bundle is printed: its head, each note, its tail; and the whole of it, which is not longer."""

    head: Callable[[Bundle], str]
    note: Callable[[BundledNote], str]
    tail: Callable[[Bundle], str]
    whole: Callable[[Bundle], str]


def bundle_document(bundle: Bundle, form: FormName = "text") -> str:
    r"""Give a bundle as one document, with a newline at its end.

    Args:
        bundle: The bundle.
        form: `"text"`: for people and models, a heading for each note, its links to notes before it, and its text.
            `"json"`: one object, `Bundle.to_dict`. `"records"`: a line for each note and edge, as `tree_records` has
            them, and after these of a note its text between `B id lines=N` and `B-END id`.

    Raises:
        ArgumentError: There is no such form.

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


def _pieced(bundle: Bundle, form: Form) -> str:
    return "".join([form.head(bundle), *map(form.note, bundle.notes), form.tail(bundle)])


# Text.


def _text_head(bundle: Bundle) -> str:
    return f"Notes of {bundle.store}{f'; {bundle.tokens}' if bundle.tokens else ''}\n\n"


def _text_note(note: BundledNote) -> str:
    node = note.node
    about = [f"type {node.type}" if node.type else "", f"tags {', '.join(node.tags)}" if node.tags else ""]
    about += [f"hop {note.hop}" if note.hop is not None else "", f"via {note.via}", node.path or ""]
    lines = [
        f"# {id_text(node.id)}{f': {node.title}' if node.title else ''}",
        one_line("; ".join(part for part in about if part)),
        *(_link_text(link, node.id) for link in note.links),
        "",
    ]
    return "\n".join([*lines, *([note.content.strip("\n"), ""] if note.content.strip() else []), ""])


def _link_text(link: NoteLink, here: NodeId) -> str:
    other, arrow = (link.edge.target, "→") if link.edge.source == here else (link.edge.source, "←")
    return f"{arrow} {one_line(link.type)}  {id_text(other)}"


def _text_tail(bundle: Bundle) -> str:
    left = left_out_text(counted(bundle.left_out, bundle.at_least, bundle.unknown))
    return ("" if bundle.notes else "no notes\n") + (f"{left}\n" if left else "")


# JSON.


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _json_note(note: BundledNote) -> str:
    return "".join(f"{_json(each)}, " for each in (note.to_dict(), *map(edge_dict, note.edges)))


def _json_whole(bundle: Bundle) -> str:
    return f"{_json(bundle.to_dict())}\n"


# Records.


def _records_head(bundle: Bundle) -> str:
    fields = ["H airw=1 records=1", f"store={token(bundle.store)}", "mode=context", f"notes={len(bundle.notes)}"]
    fields += [f"truncated={_json(bundle.truncated)}"]
    left = ",".join(map(":".join, counted(bundle.left_out, bundle.at_least, bundle.unknown)))
    fields += [f"left_out={left}"] if left else []
    fields += [f"tokens={token(bundle.tokens)}"] if bundle.tokens else []
    return " ".join(fields) + "\n"


def _records_note(note: BundledNote) -> str:
    id, hop = id_token(note.node.id), "-" if note.hop is None else note.hop
    lines = note.content.split("\n") if note.content else []
    about = [f"{node_line(note.node)} hop={hop} via={token(note.via)}", *map(edge_line, note.edges)]
    return "\n".join([*about, f"B {id} lines={len(lines)}", *lines, f"B-END {id}", ""])


BUNDLE_FORMS: Mapping[FormName, Form] = {
    "text": Form(_text_head, _text_note, _text_tail, lambda bundle: _pieced(bundle, BUNDLE_FORMS["text"])),
    "json": Form(_json_whole, _json_note, lambda _: "", _json_whole),
    "records": Form(
        _records_head, _records_note, lambda _: "", lambda bundle: _pieced(bundle, BUNDLE_FORMS["records"])
    ),
}
"""How each form is printed, piece by piece."""

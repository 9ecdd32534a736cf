"""Markdown notes: a description to route by, and the chunks of the body."""

import re
from dataclasses import dataclass, replace
from typing import Any

from airw._base.frontmatter import Frontmatter, note_title, plain_text, read_frontmatter, strip_comments
from airw.indexing._reading import clean_fields, text_of
from airw.indexing.windows import Window, chunk_surfaces, spans
from airw.values import Artifact, IndexPlan, Surface

_FENCE = re.compile(r"`{3,}|~{3,}")
_UNDERLINE = re.compile(r"=+$|-+$")
_APART = re.compile(r"#{1,6}(?:\s|$)|(?:[-*_]\s*){3,}$|\|")  # headings, rules, tables
_MARKER = re.compile(r"^(?:>\s*|[-*+]\s+|\d+[.)]\s+)+")
_HEAD = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    r"""Make a `description` surface of what a note says it is, then `chunk` surfaces of its body.

    The description is the title, a blank line, and the frontmatter's `description`, else the first paragraph without
    markup, cut where a chunk would be. The title is the frontmatter's, else the first heading, else the file's stem:
    every note has one. Chunks and their offsets are as `Chunked` makes them; offsets count from the start of the file,
    frontmatter included. Filter fields are the artifact's metadata.

    Args:
        chunk_size: Characters of a chunk, at most.
        overlap: Characters that a chunk repeats of its predecessor, at most.
        max_tokens: Tokens of a chunk, at most, also when it is read alone, without the special ones that a model adds;
            only a single token can be more. Then `chunk_size` and `overlap` say what share of a chunk is repeated.
        tokenizer: Counts them and says where they end: a function, or a tokenizer that `token_offsets` takes.

    Raises:
        ArgumentError: `chunk_size` or `max_tokens` is below 1, `overlap` is negative or not below `chunk_size`, or of
            `max_tokens` and `tokenizer` one is given without the other.

    Example:
        >>> plan = Notes().decompose(Artifact("keys.md", "# Keys\n\nRotate *them* yearly."))
        >>> [(surface.kind, surface.text) for surface in plan.surfaces]
        [('description', 'Keys\n\nRotate them yearly.'), ('chunk', '# Keys\n\nRotate *them* yearly.')]
    """

    chunk_size: int = 1200
    overlap: int = 200
    max_tokens: int | None = None
    tokenizer: Any = None

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        object.__setattr__(self, "tokenizer", self._window.tokenizer)  # adapted

    @property
    def _window(self) -> Window:
        return Window(self.chunk_size, self.overlap, self.max_tokens, self.tokenizer)

    @property
    def id(self) -> str:
        """Name the strategy and its parameters."""
        return repr(self)

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one note."""
        text = text_of(artifact)
        front = read_frontmatter(text)
        said = self._description(artifact.id, text, front)
        about = [Surface(artifact.id, "description", said, "field")] if said else []
        chunks = chunk_surfaces(artifact.id, text, "chunk", self._window, front.body)
        return IndexPlan(clean_fields(artifact), [*about, *chunks])

    def _description(self, artifact_id: str, text: str, front: Frontmatter) -> str:
        given = front.fields.get("description")
        said = given.strip() if isinstance(given, str) else ""
        said = said or first_paragraph(text[front.body : front.body + _HEAD])
        whole = f"{note_title(artifact_id, front.fields, text, front.body)}\n\n{said}"
        start, end = next(spans(whole, replace(self._window, overlap=0).ruler(whole)), (0, 0))
        return whole[start:end]


def first_paragraph(markup: str) -> str:
    r"""Return the first paragraph or list that says something, without its markup; `""` when there is none.

    Example:
        >>> first_paragraph("# Title\n\n![logo](a.png)\n\nSome\n*words*.\n\nMore.")
        'Some words.'
    """
    taken: list[str] = []
    fence = ""
    for line in [*strip_comments(markup).splitlines(), ""]:
        bare = line.strip()
        if fence:
            fence = "" if bare.startswith(fence) else fence
            bare = ""
        elif opened := _FENCE.match(bare):
            fence, bare = opened[0], ""
        if _UNDERLINE.match(bare):
            taken.clear()  # it was a heading
        elif bare and not _APART.match(bare):
            taken.append(_MARKER.sub("", bare))
        elif taken and (said := plain_text("\n".join(taken))):
            return said
        else:
            taken.clear()
    return ""

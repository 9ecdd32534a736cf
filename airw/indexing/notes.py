"""A strategy for Markdown notes: one description, then the chunks of the body."""

import re
from dataclasses import dataclass, replace
from typing import Any

from airw._base.frontmatter import Frontmatter, note_title, plain_text, read_frontmatter, strip_comments
from airw.indexing._reading import clean_fields, text_of
from airw.indexing.windows import Windowed, chunk_surfaces, spans
from airw.values import Artifact, IndexPlan, Surface

_FENCE = re.compile(r"`{3,}|~{3,}")
_UNDERLINE = re.compile(r"=+$|-+$")
_NO_PROSE = re.compile(r"#{1,6}(?:\s|$)|(?:[-*_]\s*){3,}$|\|")  # headings, rules, tables
_MARKER = re.compile(r"^(?:>\s*|[-*+]\s+|\d+[.)]\s+)+")
_HEAD = 20_000  # characters of a body that are searched for the first paragraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes(Windowed):
    r"""Makes a `description` surface and the `chunk` surfaces of a Markdown note.

    The description is the title, a blank line, and the `description` of the frontmatter. Without that field, the first
    paragraph of the body takes its place, without markup. The whole is cut to the length of one chunk.

    The title is that of the frontmatter, otherwise the heading of the first level that begins the body. Without these
    it is the only heading of that level, otherwise the stem of the file name. So every note has one. Chunks are made as
    by `Chunked`; their offsets count from the start of the file, including the frontmatter. Filter fields are the
    artifact's metadata.

    Args:
        chunk_size: Maximum characters of a chunk.
        overlap: Maximum characters that a chunk repeats of the previous chunk.
        max_tokens: Maximum tokens of a chunk, counted in the chunk alone and without a model's special tokens. Only a
            chunk that cannot be cut further (one token, one character) can exceed it. `chunk_size` is then no limit of
            its own: a chunk repeats at most `max_tokens * overlap / chunk_size` tokens.
        tokenizer: A function from a text to the offsets of its tokens, or a tokenizer that `token_offsets` accepts.
            Required with `max_tokens`.

    Raises:
        ArgumentError: If `chunk_size` or `max_tokens` is below 1, or `overlap` is negative or not below `chunk_size`.
            Also if only one of `max_tokens` and `tokenizer` is given.

    Example:
        >>> plan = Notes().decompose(Artifact("keys.md", "# Keys\n\nRotate *them* yearly."))
        >>> [(surface.kind, surface.text) for surface in plan.surfaces]
        [('description', 'Keys\n\nRotate them yearly.'), ('chunk', '# Keys\n\nRotate *them* yearly.')]
    """

    chunk_size: int = 1200
    overlap: int = 200
    max_tokens: int | None = None
    tokenizer: Any = None

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one note."""
        text = text_of(artifact)
        front = read_frontmatter(text)
        description = self._description(artifact.id, text, front)
        first = [Surface(artifact.id, "description", description, "field")] if description else []
        fields = clean_fields(artifact)
        chunks = chunk_surfaces(artifact.id, text, "chunk", self._window, fields=fields, begin=front.body)
        return IndexPlan(fields, [*first, *chunks])

    def _description(self, artifact_id: str, text: str, front: Frontmatter) -> str:
        field = front.fields.get("description")
        summary = field.strip() if isinstance(field, str) else ""
        summary = summary or first_paragraph(text[front.body : front.body + _HEAD])
        whole = f"{note_title(artifact_id, front.fields, text, front.body)}\n\n{summary}"
        # The description is the first chunk of this text, so that a model reads all of it.
        start, end = next(spans(whole, replace(self._window, overlap=0).ruler(whole)), (0, 0))
        return whole[start:end]


def first_paragraph(markup: str) -> str:
    r"""Return the first paragraph or list that contains text, without its markup.

    Headings, code blocks, tables, rules and images are skipped. Returns `""` if nothing is left.

    Example:
        >>> first_paragraph("# Title\n\n![logo](a.png)\n\nSome\n*words*.\n\nMore.")
        'Some words.'
    """
    paragraph: list[str] = []
    fence = ""
    for line in [*strip_comments(markup).splitlines(), ""]:  # the added blank line ends the last paragraph
        text = line.strip()
        # Lines of a code block count as blank, and so does the fence at either end.
        if fence:
            fence = "" if text.startswith(fence) else fence
            text = ""
        elif opening := _FENCE.match(text):
            fence, text = opening[0], ""
        if _UNDERLINE.match(text):
            paragraph.clear()  # the lines above the underline were a heading
        elif text and not _NO_PROSE.match(text):
            paragraph.append(_MARKER.sub("", text))
        elif paragraph and (plain := plain_text("\n".join(paragraph))):
            return plain
        else:
            paragraph.clear()
    return ""

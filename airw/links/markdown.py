"""Links between markdown notes: in the text, and declared in the frontmatter."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airw._base.frontmatter import note_title, read_frontmatter_with_lines
from airw.errors import ArgumentError
from airw.links._commonmark import inline_links, text_of
from airw.links._note_names import Ref, Unusable, note_names, path_ref, scalar, typed_ref, wiki_ref
from airw.values import Artifact, Extraction, Link

_MAX_LINES = 5
_RULES = 2  # counts what is found in the same text by the same settings


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownLinks:
    r"""Find the links of a markdown note whose id is its POSIX path below the root.

    - **Inline**: `[text](../a/b.md#heading)` and reference definitions, as CommonMark reads them, resolved against the
      note's own folder (`/a.md`: against the root); and `[[target]]`, `[[target|label]]`, `[[label|target]]`,
      `[[target#heading]]`, `[[target^block]]`, `![[target]]`, which name a note in whatever folder and case. Not links:
      URLs, places in the same note, images, embedded media, footnote definitions, code, comments, tags, templates.
    - **Typed**: the frontmatter fields in `fields`: a mapping with `id` and `type`, or a plain name, or a list of
      either, or names divided by commas. A plain name under `links` is of type `"related"`, under another field of the
      field's own name. Fields that are not in the frontmatter are looked for in the filter fields.

    References are ids, paths, or names. A note's own names are its id; its path, with and without its suffix (`.md`
    or `.mdx`); the ends of that path, its frontmatter `id`, and `165` where its stem is `eip-165` and the
    frontmatter says `eip: 165`; and last its title and `aliases`. Without the suffix each also without regard to case,
    which is how wiki links name them. What a markdown link, or a wiki link with `/`, `./` or `../` before it, leads to
    is a place, which counts exactly: `a.md`, what lies there; `a` and `a/`, the note `a.md`, or the `index.md`,
    `_index.md` or, after those, `README.md` in that folder, where `a` prefers the note and `a/` the folder.

    Problems, with their lines: frontmatter that cannot be read, links out of the root, to the note itself, or where
    brackets or blocks nest too deeply to be read.

    Args:
        fields: The frontmatter fields that declare links.
        inline_type: The type of links in the text, and of plain names under `links`.

    Raises:
        ArgumentError: A name is blank or not a string.

    Example:
        >>> note = Artifact("a/b.md", "---\nrequires: 2\n---\n[c](../c.md#top) [d](d/)\n[[Some Note|x]]")
        >>> for link in MarkdownLinks().extract(note, {}).links:
        ...     print(link.line, link.type, link.target_ref, link.or_ref)
        2 requires 2 None
        4 related c.md None
        4 related /a/d/ None
        5 related some note x
    """

    fields: Sequence[str] = ("links", "requires")
    inline_type: str = "related"

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        if isinstance(self.fields, str) or not all(isinstance(name, str) and name for name in self.fields):
            raise ArgumentError(f"fields must be a sequence of field names, not {self.fields!r}")
        if not isinstance(self.inline_type, str) or not self.inline_type:
            raise ArgumentError(f"inline_type must be a non-empty string, not {self.inline_type!r}")
        object.__setattr__(self, "fields", tuple(self.fields))

    @property
    def id(self) -> str:
        """Name the extractor, its settings, and the version of its rules."""
        return f"{self!r} {_RULES}"

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Give the links and names of one note, links in order of line, each reference, type and origin once.

        Raises:
            SourceError: The raw value is neither a string nor a mapping with a string `text`.
        """
        text = text_of(artifact)
        front, lines = read_frontmatter_with_lines(text)
        declared = {**fields, **front.fields}
        names = note_names(artifact.id, declared, note_title(artifact.id, declared, text, front.body))
        found = _Found(artifact.id, names)
        if front.problem:
            found.complain(f"{front.problem}; links it declares are left out")
        self._typed(declared, lines, found)
        self._inline(text, front.body, found)
        return Extraction(sorted(found.links.values(), key=_line), names, found.told())

    def _typed(self, declared: Mapping[str, Any], lines: Mapping[str, Sequence[int]], found: "_Found") -> None:
        for name in self.fields:
            plain = self.inline_type if name == "links" else name
            for entry, line in _entries(declared.get(name), lines.get(name, ())):
                try:
                    ref, written, type_ = _typed_ref(entry, plain, found.artifact_id)
                    found.add(ref, written, type_, "typed", line)
                except Unusable as reason:
                    found.complain(f"{name}: {reason}", line)

    def _inline(self, text: str, body: int, found: "_Found") -> None:
        above = text.count("\n", 0, body) + 1
        targets, unread = inline_links(text[body:])
        for reason, line in unread:
            found.complain(reason, line + above)
        for target in targets:
            read = wiki_ref if target.wiki else path_ref
            try:
                ref = read(target.written, found.artifact_id)
                found.add(ref, target.written, self.inline_type, "inline", target.line + above)
            except Unusable as reason:
                found.complain(str(reason), target.line + above)


@dataclass(slots=True)
class _Found:
    """What one note says: its links, of equal ones the first, and what is wrong with it, with the lines."""

    artifact_id: str
    names: Sequence[Sequence[str]]
    links: dict[tuple[str, str | None, str, str], Link] = field(default_factory=dict)
    problems: dict[str, list[int]] = field(default_factory=dict)

    def add(self, ref: Ref | None, written: str, type_: str, origin: str, line: int | None) -> None:
        """Keep a link, unless it leads to the place of the note itself; by a name, only the store can tell."""
        if ref is None:
            return
        own = any(ref.name in names for names in self.names[: 3 if ref.other else 4])
        if own and not ref.anchored:
            self.complain(f"the link {written!r:.80} names the note that it is in", line)
        if not own or not (ref.name == self.artifact_id or ref.name.startswith("/")):
            link = Link(ref.name, type_, origin, file=self.artifact_id, line=line, or_ref=ref.other)
            self.links.setdefault((ref.name, ref.other, type_, origin), link)

    def complain(self, reason: str, line: int | None = None) -> None:
        """Keep a problem."""
        self.problems.setdefault(reason, []).extend([line] if line else [])

    def told(self) -> list[str]:
        """Give the problems with their lines."""
        return [reason + _at(lines) for reason, lines in self.problems.items()]


def _at(lines: Sequence[int]) -> str:
    """Say where something is, of many lines the first ones."""
    lines = list(dict.fromkeys(lines))
    if not lines:
        return ""
    more = f" and {len(lines) - _MAX_LINES} more" if len(lines) > _MAX_LINES else ""
    return f" (line{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:_MAX_LINES]))}{more})"


def _line(link: Link) -> int:
    return link.line or 0


def _entries(value: Any, lines: Sequence[int]) -> Iterator[tuple[Any, int | None]]:
    """Give the entries of a field, of a list its items, of a string what commas divide, with their lines."""
    line = lines[0] if lines else None
    if isinstance(value, str) and not re.fullmatch(r"\s*\[\[[^\[\]]+\]\]\s*", value):
        yield from ((entry, line) for entry in value.split(","))
    elif isinstance(value, list):
        yield from zip(value, lines[1:] if len(lines) > len(value) else [line] * len(value), strict=False)
    elif value is not None:
        yield value, lines[1] if isinstance(value, Mapping) and len(lines) > 1 else line


def _typed_ref(entry: Any, type_: str, artifact_id: str) -> tuple[Ref | None, str, str]:
    if isinstance(entry, Mapping):
        type_, entry = entry.get("type", type_), entry.get("id")
    written = scalar(entry)
    if written is None or not isinstance(type_, str) or not type_:
        raise Unusable(f"an entry must be a name, or a mapping with id and type, not {entry!r:.80}")
    return (typed_ref(written, artifact_id) if written else None), written, type_

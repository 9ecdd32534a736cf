"""Links between markdown notes: written in the text, or declared in the frontmatter."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airw._base.frontmatter import line_at, note_title, read_frontmatter_with_lines
from airw._base.messages import short_repr
from airw._base.yaml_fields import FieldPath
from airw.errors import ArgumentError
from airw.links._commonmark import inline_links, text_of
from airw.links._note_names import (
    NoteRef,
    UnusableReference,
    note_names,
    parse_path_ref,
    parse_typed_ref,
    parse_wiki_ref,
    to_text,
)
from airw.values import Artifact, Extraction, Link

_MAX_LINES = 5
_RULES_VERSION = 4  # to increase if the rules change: the same text with the same settings then has other links


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownLinks:
    r"""An edge extractor for markdown notes whose ids are their POSIX paths below the root.

    - **Inline links**: `[text](../a/b.md#heading)` and reference definitions, as CommonMark defines them. A path is
      relative to the note's own folder, or else to the root; `/a.md` is relative to the root, `./a.md` to the folder.
      Wiki links are `[[target]]`, `[[target|label]]`, `[[target#heading]]`, `[[target^block]]` and `![[target]]`; they
      refer to a note in any folder, in any case. `[[label|target]]` is understood if the target looks like one:
      `dendron://vault/a.b`, `a.b`, `a#heading`, `a/b` or `a.md`. Ignored are URLs, places in the same note, images,
      embedded media, footnote definitions, code, comments, tags, templates, and TOML tables (`[[name]]`) in the blocks
      of site generators.
    - **Typed links**: the frontmatter fields in `fields`. A value is a mapping with `id` and `type`, a plain name, a
      list of either, or names separated by commas. A plain name has the type `"related"` in the field `links`, and the
      name of the field in others. A field that the frontmatter lacks is read from the filter fields.

    The names of a note are in five name tiers, strongest first:

    1. its id;
    2. its path, with and without its suffix (`.md` or `.mdx`);
    3. the ends of that path, its `id` from the frontmatter, and `165` if its stem is `eip-165` and the frontmatter
       has `eip: 165`;
    4. its title and `aliases`;
    5. all these names in any case. Two notes that differ only by case are ambiguous here.

    Names without suffix also exist in lower case, and wiki links use that form. Markdown links, and wiki links that
    begin with `/`, `./` or `../`, refer to a place. There, `a.md` is the note itself. `a` and `a/` are the note
    `a.md`, or the file `index.md`, `_index.md` or, after those, `README.md` in the folder `a`. If both exist, `a` means
    the note and `a/` the folder.

    Problems are reported with their lines: frontmatter that cannot be read, links out of the root, links of a note to
    itself, and places where brackets or blocks nest too deeply.

    Args:
        fields: The frontmatter fields that declare links.
        inline_type: The type of links in the text, and of plain names in the field `links`.

    Raises:
        ArgumentError: If a name is blank or not a string.

    Example:
        >>> note = Artifact("a/b.md", "---\nrequires: 2\n---\n[c](../c.md#top) [d](d/)\n[[Some Note|x]]")
        >>> for link in MarkdownLinks().extract(note, {}).links:
        ...     print(link.line, link.type, link.target_ref, link.or_ref)
        2 requires 2 None
        4 related c.md None
        4 related /a/d/ /d/
        5 related some note None
    """

    fields: Sequence[str] = ("links", "requires")
    inline_type: str = "related"

    def __post_init__(self) -> None:
        """Check all parameters."""
        if isinstance(self.fields, str) or not all(isinstance(name, str) and name for name in self.fields):
            raise ArgumentError(f"fields must be a list of field names, not {short_repr(self.fields)}")
        if not isinstance(self.inline_type, str) or not self.inline_type:
            raise ArgumentError(f"inline_type must be a non-empty string, not {short_repr(self.inline_type)}")
        object.__setattr__(self, "fields", tuple(self.fields))

    @property
    def id(self) -> str:
        """The extractor id: the class, its settings, and the version of its rules."""
        return f"{self!r} {_RULES_VERSION}"

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Return the links of a note in order of line, and the names of the note.

        Of several links with the same reference, type and origin, only the first is returned.

        Raises:
            SourceError: If the raw value is neither a string nor a mapping with a string `text`.
        """
        text = text_of(artifact)
        front, lines = read_frontmatter_with_lines(text)
        declared_fields = {**fields, **front.fields}
        title = note_title(artifact.id, declared_fields, text, front.body)
        names = note_names(artifact.id, declared_fields, title)
        collector = _LinkCollector(artifact.id, [set(group) for group in names])
        if front.problem:
            collector.add_problem(f"{front.problem}; links in it are ignored")
        self._read_typed_links(declared_fields, lines, collector)
        self._read_inline_links(text, front.body, collector)
        links = sorted(collector.links.values(), key=_line_of)
        return Extraction(links, names, collector.problem_texts(), fold_case=True)

    def _read_typed_links(
        self, declared_fields: Mapping[str, Any], lines: Mapping[FieldPath, int], collector: "_LinkCollector"
    ) -> None:
        for name in self.fields:
            default_type = self.inline_type if name == "links" else name
            for entry, place in _entries(declared_fields.get(name)):
                line = line_at(lines, (name, *place))
                try:
                    ref, written, type_ = _parse_entry(entry, default_type, collector.artifact_id)
                    collector.add(ref, written, type_, "typed", line)
                except UnusableReference as reason:
                    collector.add_problem(f"{name}: {reason}", line)

    def _read_inline_links(self, text: str, body: int, collector: "_LinkCollector") -> None:
        first_line = text.count("\n", 0, body) + 1
        targets, problems = inline_links(text[body:])
        for reason, line in problems:
            collector.add_problem(reason, line + first_line)
        for target in targets:
            parse = parse_wiki_ref if target.is_wiki else parse_path_ref
            try:
                ref = parse(target.written, collector.artifact_id)
                collector.add(ref, target.written, self.inline_type, "inline", target.line + first_line)
            except UnusableReference as reason:
                collector.add_problem(str(reason), target.line + first_line)


@dataclass(slots=True)
class _LinkCollector:
    """Collects the links of a note without duplicates, and its problems with their lines."""

    artifact_id: str
    names: Sequence[Collection[str]]
    links: dict[tuple[str, str | None, str, str], Link] = field(default_factory=dict)
    problems: dict[str, list[int]] = field(default_factory=dict)

    def add(self, ref: NoteRef | None, written: str, type_: str, origin: str, line: int | None) -> None:
        """Add a link, unless it certainly leads to the note itself."""
        if ref is None:
            return
        # Of two sides, one may be a label that happens to be the title of this very note: that alone is no mistake.
        is_own_name = any(ref.name in names for names in self.names[: 3 if ref.or_name else 4])
        if is_own_name and not ref.has_anchor:
            self.add_problem(f"the link {written!r:.80} refers to its own note", line)
        # A place is certain. Other names may belong to a second note, too, which only the store can know.
        is_place = ref.name == self.artifact_id or ref.name.startswith("/")
        if not (is_own_name and is_place):
            link = Link(ref.name, type_, origin, file=self.artifact_id, line=line, or_ref=ref.or_name)
            self.links.setdefault((ref.name, ref.or_name, type_, origin), link)

    def add_problem(self, reason: str, line: int | None = None) -> None:
        """Add a problem; the same problem on several lines is reported once."""
        self.problems.setdefault(reason, []).extend([line] if line else [])

    def problem_texts(self) -> list[str]:
        """Return the problems, each with its lines."""
        return [reason + _line_suffix(lines) for reason, lines in self.problems.items()]


def _line_suffix(lines: Sequence[int]) -> str:
    """Return the lines of a problem in brackets; if there are many, only the first ones."""
    lines = list(dict.fromkeys(lines))
    if not lines:
        return ""
    more = f" and {len(lines) - _MAX_LINES} more" if len(lines) > _MAX_LINES else ""
    return f" (line{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:_MAX_LINES]))}{more})"


def _line_of(link: Link) -> int:
    return link.line or 0


def _entries(value: Any) -> Iterator[tuple[Any, FieldPath]]:
    """Yield the entries of a field with their places: list items, or the parts between commas."""
    if isinstance(value, str) and not re.fullmatch(r"\s*\[\[[^\[\]]+\]\]\s*", value):
        yield from ((entry, ()) for entry in value.split(","))
    elif isinstance(value, list):
        yield from ((entry, (position,)) for position, entry in enumerate(value))
    elif value is not None:
        yield value, ("id",)


def _parse_entry(entry: Any, type_: str, artifact_id: str) -> tuple[NoteRef | None, str, str]:
    if isinstance(entry, Mapping):
        type_, entry = entry.get("type", type_), entry.get("id")
    written = to_text(entry)
    if written is None or not isinstance(type_, str) or not type_:
        raise UnusableReference(f"an entry must be a name, or a mapping with id and type, not {short_repr(entry)}")
    return (parse_typed_ref(written, artifact_id) if written else None), written, type_

"""Links between markdown notes: written in the text, or declared in the frontmatter."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airw._base.checks import check_filled, check_flag
from airw._base.frontmatter import line_at, note_title, read_frontmatter_with_lines
from airw._base.messages import short_repr
from airw._base.yaml_fields import FieldPath
from airw.errors import ArgumentError
from airw.links._commonmark import inline_links, text_of
from airw.links._note_names import PATH_LINK, WIKI_LINK, UnusableReference, note_names, parse_reference, to_text
from airw.links.fields import record_links
from airw.values import Artifact, Extraction, Link

_MAX_LINES = 5
_NAME_FIELDS = ("title", "aliases", "alias")  # what stands there names the note itself
_PATH_FIELDS = ("link", "href")  # of pages of VitePress and Starlight, at any depth
_UNQUOTED = re.compile(r"""(?:[:-]|^)[ \t]+(\[\[[^\[\]"'\n]+\]\])[ \t\r]*(?:#.*)?$""")
_RULES_VERSION = 6  # to increase if the rules change: the same text with the same settings then has other links


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownLinks:
    r"""An edge extractor for markdown notes, whose ids are their paths below a folder.

    - **Inline links**: markdown links and reference definitions, wiki links, and tags such as `<a href>`. A path leads
      from the folder of the note, else from the root of the tree, else from that of the site. `a` and `a/` are the note
      `a.md` or the index of the folder `a`; `a.html` is `a.md`. A wiki link means a note of this name in any folder.
      Of two sides, as in `[[one|other]]`, the one that looks like an address is the target; else the order counts that
      most notes use; else the first. Templates of Jekyll and Hugo that mean a note are read.
    - **Typed links**: the frontmatter fields in `fields`. A value is a name, a path, a link, a mapping with `id` and
      `type`, a list of these, a mapping of types to these, or names separated by commas. A plain entry has the type
      `"related"` in the field `links`, and the name of the field in others. In other fields, at any depth, wiki links
      and markdown links count, with the name of the field as their type. So do paths in `link` and `href` that begin
      with `/` or `.`. A field that the frontmatter lacks is read from the filter fields.

    Ignored are URLs, places in the same note, images, embedded media, code, comments, and TOML tables (`[[name]]`) in
    texts of site generators. The names of a note are in tiers: its id; its path; the ends of its path and its `id`; its
    title, `aliases` and `alias`; its path from the root of the tree, with the addresses that it declares (`permalink`,
    `slug`, `url`, `redirect_from`); the same from the root of the site, with the addresses that site generators make of
    its path; here also `two words` of a note `two-words.md`, and the folder of an index. Last, all these names count in
    any case.

    Problems are reported with their lines: frontmatter that cannot be read, links of a note to itself, templates and
    references to blocks that are not followed, and places where brackets or blocks nest too deeply.

    Args:
        fields: The frontmatter fields that declare links.
        inline_type: The type of links in the text, and of plain names in the field `links`.
        root: The folder of the site's root, such as `"content"`; `""` for the root of the tree. By default, a build
            uses the folder under which most links such as `/guide/start` lead to a note.
        found_root: The root that a build has found; it counts if `root` is `None`. One that begins with `/` is the
            address of the tree: with `/docs`, links to `/docs/a` lead to `a.md`.
        label_first: Whether most notes write the label first in wiki links; a build finds it.

    Raises:
        ArgumentError: If a parameter is not valid.

    Example:
        >>> note = Artifact("a/b.md", "---\nrequires: 2\n---\n[c](../c.md#top) [d](d/)\n[[Some Note|x]]")
        >>> for link in MarkdownLinks().extract(note, {}).links:
        ...     print(link.line, link.type, link.target_ref, link.or_ref)
        2 requires 2 None
        4 related c.md /c.md
        4 related ./a/d/ /d/
        5 related some note None
    """

    fields: Sequence[str] = ("links", "requires")
    inline_type: str = "related"
    root: str | None = None
    found_root: str = ""
    label_first: bool = False

    def __post_init__(self) -> None:
        """Check all parameters."""
        if isinstance(self.fields, str) or not all(isinstance(name, str) and name for name in self.fields):
            raise ArgumentError(f"fields must be a list of field names, not {short_repr(self.fields)}")
        check_filled("inline_type", self.inline_type)
        for name, root in (("root", self.root), ("found_root", self.found_root)):
            if name == "root" and root is None:
                continue
            if not isinstance(root, str) or ".." in root.split("/"):
                raise ArgumentError(f"{name} must be a folder below the notes, such as 'docs', not {short_repr(root)}")
        check_flag("label_first", self.label_first)
        object.__setattr__(self, "fields", tuple(self.fields))
        if self.root is not None:
            object.__setattr__(self, "root", self.root.removeprefix("./").strip("/"))

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
        if "base_path" in fields and isinstance(artifact.raw, Mapping):
            # A skill of a folder: its source knows where the paths in it lead, and has resolved the links.
            names = note_names(artifact.id, fields, str(fields.get("name", "")))
            return Extraction(record_links(artifact).links, names, fold_case=True)
        front, lines = read_frontmatter_with_lines(text)
        front_lines = text[: front.body].split("\n")
        declared = {**fields, **_restore_links(front.fields, (), lines, front_lines)}
        title = note_title(artifact.id, declared, text, front.body)
        names = note_names(artifact.id, declared, title, self.found_root if self.root is None else self.root)
        collector = _LinkCollector(artifact.id, frozenset(name for tier in names for name in tier), self.label_first)
        if front.problem:
            collector.add_problem(front.problem)
        for field_name, value in declared.items():
            if field_name in _NAME_FIELDS:
                continue
            declares = field_name in self.fields
            default_type = self.inline_type if declares and field_name == "links" else field_name
            for written, type_, path in _find_links(value, default_type, (field_name,), declares=declares):
                collector.add_typed(written, type_, field_name, line_at(lines, path))
        first_line = text.count("\n", 0, front.body) + 1
        targets, problems = inline_links(text[front.body :], is_mdx=artifact.id.lower().endswith(".mdx"))
        for reason, line in problems:
            collector.add_problem(reason, line + first_line)
        for target in targets:
            collector.add(target.written, self.inline_type, "inline", target.line + first_line, is_path=True)
        links = sorted(collector.links.values(), key=lambda link: link.line or 0)
        return Extraction(links, names, collector.problem_texts(), fold_case=True)


def _restore_links(value: Any, path: FieldPath, lines: Mapping[FieldPath, int], written: Sequence[str]) -> Any:
    """Return a value of the frontmatter in which `[[name]]` without quotation marks is text.

    YAML reads it as a list in a list, and the name as a number, a date, or several values.

    Args:
        value: The value, or a part of it.
        path: The names and numbers that lead to it.
        lines: The lines of the values.
        written: The lines of the frontmatter.
    """
    match value:
        case [list()] if (line := line_at(lines, path)) and (link := _UNQUOTED.search(written[line - 1])):
            return link[1]
        case list():
            return [_restore_links(entry, (*path, number), lines, written) for number, entry in enumerate(value)]
        case Mapping():
            return {name: _restore_links(entry, (*path, name), lines, written) for name, entry in value.items()}
    return value


def _find_links(value: Any, type_: Any, path: FieldPath, *, declares: bool) -> Iterator[tuple[Any, Any, FieldPath]]:
    """Yield what a field says about links, with its type and where it stands.

    Args:
        value: The value of the field, or a part of it.
        type_: The type of its links.
        path: The names and numbers that lead to the value.
        declares: Whether the field declares links, so that plain names count.
    """
    match value:
        case list():
            for number, entry in enumerate(value):
                yield from _find_links(entry, type_, (*path, number), declares=declares)
        case Mapping() if declares and ("id" in value or value.keys() == {"type"}):
            yield from _find_links(value.get("id"), value.get("type", type_), (*path, "id"), declares=declares)
        case Mapping():
            for name, entry in value.items():
                yield from _find_links(entry, name, (*path, name), declares=declares)
        case str():
            links = [match[0] for pattern in (WIKI_LINK, PATH_LINK) for match in pattern.finditer(value)]
            if not links and path[-1] in _PATH_FIELDS and value.startswith(("/", "./", "../")):
                links = [value]
            if not links and declares:
                is_list = isinstance(path[-1], str) and path[-1] != "id"  # names separated by commas
                links = value.split(",") if is_list else [value]
            yield from ((link, type_, path) for link in links)
        case _ if declares and (value is not None or len(path) > 1):
            yield value, type_, path


@dataclass(slots=True)
class _LinkCollector:
    """Collects the links of a note without duplicates, and its problems with their lines."""

    artifact_id: str
    own_names: frozenset[str]
    label_first: bool
    links: dict[tuple[str, str | None, str, str], Link] = field(default_factory=dict)
    problems: dict[str, list[int]] = field(default_factory=dict)

    def add_typed(self, written: Any, type_: Any, field_name: str, line: int | None) -> None:
        """Add a link of the frontmatter, or a problem if it is none."""
        text = to_text(written)
        if text is None or not isinstance(type_, str) or not type_:
            reason = f"an entry must be a name, or a mapping with id and type, not {short_repr(written)}"
            self.add_problem(f"{field_name}: {reason}", line)
        else:
            self.add(text, type_, "typed", line)

    def add(self, written: str, type_: str, origin: str, line: int | None, *, is_path: bool = False) -> None:
        """Add a link as it was written, unless it certainly leads to the note itself."""
        try:
            ref = parse_reference(written, self.artifact_id, is_path=is_path, label_first=self.label_first)
        except UnusableReference as reason:
            return self.add_problem(str(reason), line)
        if ref is None:
            return None
        names = [ref.name] if ref.or_name is None or ref.or_name.startswith("/") else ref[:2]
        is_own_name = not self.own_names.isdisjoint(names)
        if is_own_name and not ref.has_anchor:
            self.add_problem(f"the link {written!r:.80} refers to its own note", line)
        # A place is certain. Other names may belong to a second note, too, which only the store can know.
        is_place = ref.name == self.artifact_id or ref.name.startswith(("./", "/"))
        if not (is_own_name and is_place):
            link = Link(ref.name, type_, origin, file=self.artifact_id, line=line, or_ref=ref.or_name)
            self.links.setdefault((ref.name, ref.or_name, type_, origin), link)
        return None

    def add_problem(self, reason: str, line: int | None = None) -> None:
        """Add a problem; the same problem on several lines is reported once."""
        self.problems.setdefault(reason, []).extend([line] if line else [])

    def problem_texts(self) -> list[str]:
        """Return the problems, each with its first lines."""
        texts = []
        for reason, lines in self.problems.items():
            first = [str(line) for line in dict.fromkeys(lines)]
            more = f" and {len(first) - _MAX_LINES} more" if len(first) > _MAX_LINES else ""
            where = f" (line{'s' * (len(first) > 1)} {', '.join(first[:_MAX_LINES])}{more})"
            texts.append(reason + where if first else reason)
        return texts

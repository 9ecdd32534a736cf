"""Links between markdown notes: in the text, and declared in the frontmatter."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airw._frontmatter import note_stem, note_title, read_frontmatter, split_frontmatter
from airw.errors import ArgumentError, SourceError
from airw.links._inline import Target, inline_links
from airw.values import Artifact, Extraction, Link

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_FOLDER = re.compile(r"(?:^|/)\.{0,2}$")  # nothing, or a path that names no file
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|mailto:")
_WIKI = re.compile(r"\[\[([^\[\]]+)\]\]")


class _Unusable(ValueError):
    """Why one reference is no link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownLinks:
    r"""Find the links of a markdown note whose id is its POSIX path below the root.

    - **Inline**: `[text](../a/b.md#heading)` and reference definitions, as CommonMark reads them, resolved against the
      note's own folder (`/a.md`: against the root); and `[[target]]`, `[[target|label]]`, `[[target#heading]]`, which
      name a note in whatever folder and case. Not links: URLs, pure anchors, images, embeds, code, comments, HTML.
    - **Typed**: the frontmatter fields in `fields`: a mapping with `id` and `type`, or a plain name, or a list of
      either, or names divided by commas. A plain name under `links` is of type `"related"`, under another field of the
      field's own name. Fields that are not in the frontmatter are looked for in the filter fields.

    References are ids, paths with `.md` left out, or names; the note's own names are its id; its path without `.md`;
    its file's stem, its frontmatter `id`, and `165` where the stem is `eip-165` and the frontmatter says `eip: 165`;
    and last its title and `aliases`. From the path without `.md` on, each also without regard to case, which is how
    wiki links name them; paths count exactly.

    Args:
        fields: The frontmatter fields that declare links.
        inline_type: The type of links in the text, and of plain names under `links`.

    Raises:
        ArgumentError: A name is blank or not a string.

    Example:
        >>> note = Artifact("a/b.md", "---\nrequires: 2\n---\nSee [c](../c.md#top) and [[Some Note]].")
        >>> [(link.target_ref, link.type, link.line) for link in MarkdownLinks().extract(note, {}).links]
        [('2', 'requires', 2), ('c.md', 'related', 4), ('some note', 'related', 4)]
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
        """Name the extractor and its settings."""
        return repr(self)

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Give the links and names of one note, links in order of line, each reference, type and origin once.

        Raises:
            SourceError: The raw value is neither a string nor a mapping with a string `text`.
        """
        text = _text(artifact)
        front = read_frontmatter(text)
        declared = {**fields, **front.fields}
        problems = [f"{front.problem}; links it declares are left out"] if front.problem else []
        links = [*self._typed(artifact.id, text, declared, problems)]
        links += self._inline(artifact.id, text, front.body, problems)
        title = note_title(artifact.id, declared, text, front.body)
        own = {artifact.id, artifact.id.removesuffix(".md")}
        once = {(link.target_ref, link.type, link.origin): link for link in reversed(links)}
        kept = [link for link in reversed(once.values()) if link.target_ref not in own]
        return Extraction(sorted(kept, key=lambda link: link.line or 0), _names(artifact.id, declared, title), problems)

    def _inline(self, artifact_id: str, text: str, body: int, problems: list[str]) -> Iterator[Link]:
        above = len(text[:body].splitlines()) + 1
        targets, unread = inline_links(text[body:])
        problems += unread
        for target in targets:
            line = target.line + above
            try:
                ref = _target_ref(target, artifact_id)
            except _Unusable as reason:
                problems.append(f"{reason} (line {line})")
            else:
                if ref:
                    yield Link(ref, self.inline_type, "inline", file=artifact_id, line=line)

    def _typed(self, artifact_id: str, text: str, declared: Mapping[str, Any], problems: list[str]) -> Iterator[Link]:
        written, _ = split_frontmatter(text)
        for name in self.fields:
            plain = self.inline_type if name == "links" else name
            for entry in _entries(declared.get(name)):
                try:
                    ref, type_ = _typed_ref(entry, plain, artifact_id)
                except _Unusable as reason:
                    problems.append(f"{name}: {reason}")
                else:
                    if ref:
                        line = _line_of(written, name, entry)
                        yield Link(ref, type_, "typed", file=artifact_id, line=line)


def _text(artifact: Artifact) -> str:
    raw = artifact.raw.get("text") if isinstance(artifact.raw, Mapping) else artifact.raw
    if isinstance(raw, str):
        return raw
    given = type(artifact.raw).__name__
    raise SourceError(f"MarkdownLinks reads a string or a mapping with a string `text`; {artifact.id!r} is a {given}")


def _target_ref(target: Target, artifact_id: str) -> str | None:
    return _wiki_ref(target.written) if target.wiki else _path_ref(target.written, artifact_id)


def _wiki_ref(written: str) -> str | None:
    name = written.partition("|")[0].rstrip("\\").partition("#")[0].strip()
    return None if _URL.match(name) else _fold(name.removesuffix(".md"))


def _path_ref(written: str, artifact_id: str) -> str | None:
    path = re.split(r"[?#]", written, maxsplit=1)[0]
    if _SCHEME.match(path) or _FOLDER.search(path):
        return None
    from urllib.parse import unquote

    path = unquote(path)
    parts = [] if path.startswith("/") else artifact_id.split("/")[:-1]
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise _Unusable(f"the link {written!r} leads out of the root")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _entries(value: Any) -> Sequence[Any]:
    """Give the entries of a field: of a list its items, of a string what commas divide."""
    if isinstance(value, str) and not _WIKI.fullmatch(value.strip()):
        return value.split(",")
    return value if isinstance(value, list) else [] if value is None else [value]


def _typed_ref(entry: Any, type_: str, artifact_id: str) -> tuple[str | None, str]:
    if isinstance(entry, Mapping):
        type_, entry = entry.get("type", type_), entry.get("id")
    ref = _scalar(entry)
    if ref is None or not isinstance(type_, str) or not type_:
        raise _Unusable(f"an entry must be a name, or a mapping with id and type, not {entry!r:.80}")
    if wiki := _WIKI.fullmatch(ref):
        return _wiki_ref(wiki[1]), type_
    if ref.startswith(("./", "../", "/")):
        return _path_ref(ref, artifact_id), type_
    return None if _URL.match(ref) else ref, type_


def _scalar(value: Any) -> str | None:
    """Give a name or number as text; `None` for anything else."""
    return str(value).strip() if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None


def _line_of(written: str, name: str, entry: Any) -> int | None:
    """Give the line of an entry in the file, else of its field, else `None`: it was not in the frontmatter."""
    field = re.search(rf"^[\"']?{re.escape(name)}[\"']?\s*:", written, re.MULTILINE)
    if not field:
        return None
    value = entry.get("id") if isinstance(entry, Mapping) else entry
    found = re.compile(rf"(?<!\w){re.escape(str(value).strip())}(?!\w)").search(written, field.end())
    return written.count("\n", 0, found.start() if found else field.start()) + 2  # the fence is line 1


def _names(artifact_id: str, declared: Mapping[str, Any], title: str) -> list[list[str]]:
    stem = note_stem(artifact_id)
    numbers = [_scalar(value) for key, value in declared.items() if f"{key}-{_scalar(value)}" == stem]
    aliases = declared.get("aliases")
    aliases = aliases if isinstance(aliases, list) else [aliases]
    return [
        [artifact_id],
        _both_cases([artifact_id.removesuffix(".md")]),
        _both_cases([stem, _scalar(declared.get("id")), *numbers]),
        _both_cases([title, *map(_scalar, aliases)]),
    ]


def _both_cases(names: Sequence[str | None]) -> list[str]:
    """Give each name that says something as it is and folded, once."""
    return list(dict.fromkeys(form for name in names if name for form in (name, _fold(name))))


def _fold(name: str) -> str:
    """Fold case and composition, so that `CAFÉ` with a combining accent is `café`."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())

"""Markdown notes: YAML frontmatter, titles, and text without markup."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from airw._base.json import json_clean

_FENCE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
NOTE_SUFFIX = re.compile(r"\.(?:md|markdown|mdx)\Z", re.IGNORECASE)
_HEADING = re.compile(
    r"^ {0,3}(?:(`{3,}|~{3,})[^\n]*(?:\n.*?^ {0,3}\1[`~]*[ \t\r]*$|.*\Z)"  # a fenced block, which is skipped
    r"|#{1,6}[ \t]+([^\n]+)|([^\n]*\S)[ \t\r]*\n {0,3}=+[ \t\r]*$)",
    re.DOTALL | re.MULTILINE,
)
_FIRST_LEVEL = re.compile(r" {0,3}#[ \t]+(.+)")
_ANY_LINE = re.compile(r" {0,3}(\S.*)")
_UNDERLINE = re.compile(r" {0,3}=+[ \t]*\Z")
_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*(?:\n.*?^ {0,3}\1[`~]*[ \t\r]*$|.*\Z)", re.DOTALL | re.MULTILINE)
_RULE = re.compile(r" {0,3}(?:[-*_][ \t]*){3,}\Z")
_TARGET = r"(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\[\]]*\])"
# No pattern reads past the next bracket of its kind, so that each takes linear time on any text.
_MARKUP = (
    (re.compile(rf"!\[\[[^\[\]]*\]\]|!\[[^\[\]]*\]{_TARGET}"), ""),  # images and embeds
    (re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]"), r"\1"),  # wiki links: the label, else the target
    (re.compile(rf"\[([^\[\]]*)\]{_TARGET}"), r"\1"),  # links: the text
    (re.compile(r"</?[A-Za-z][^<>]*>"), ""),  # tags
    (re.compile(r"`+|~~|\*+(?=\S)|(?<=\S)\*+|(?<!\w)_+(?=\S)|(?<=\S)_+(?!\w)"), ""),  # emphasis and code marks
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),  # escapes
)
_MAX_DEPTH = 50
# Errors that PyYAML does not catch itself, for values that only look like dates, numbers or tagged values.
_YAML_LEAKS = (ValueError, TypeError, ArithmeticError, AttributeError, LookupError, RecursionError)
_MAX_TITLE = 500
_MAX_OPENING = 20_000  # characters in which the title is searched
_MAX_FRONTMATTER = 500_000  # characters; PyYAML takes a second for about 100,000 of the shortest values
_MAX_SCALAR = 100  # characters of a number or a date; some conversions take quadratic time


class Frontmatter(NamedTuple):
    """The frontmatter of a note.

    Args:
        fields: The fields, as JSON.
        body: The offset at which the body starts.
        problem: The reason why the frontmatter could not be read, or `None`.
    """

    fields: Mapping[str, Any]
    body: int
    problem: str | None = None


def split_frontmatter(text: str) -> tuple[str, int]:
    r"""Return the YAML text between the fences and the offset of the body.

    Without frontmatter that is `("", 0)`.

    Example:
        >>> split_frontmatter("---\ntitle: A\n---\n# Body")
        ('title: A', 17)
    """
    match = _FENCE.match(text)
    return (match[1].rstrip("\r\n"), match.end()) if match else ("", 0)


def read_frontmatter(text: str) -> Frontmatter:
    r"""Parse the frontmatter of a note.

    If it cannot be read, it stays part of the body, and `problem` is the reason. Aliases (`*name`) and nesting deeper
    than 50 levels are refused: a few hundred bytes of them could fill any memory, or overflow the C stack of the YAML
    library. So are numbers and dates of more than 100 characters, which could take minutes to convert, and frontmatter
    of more than 500,000 characters.

    Example:
        >>> read_frontmatter("---\ntitle: A\ntags: [x]\n---\n# Body")
        Frontmatter(fields={'title': 'A', 'tags': ['x']}, body=27, problem=None)
        >>> read_frontmatter("---\n- 1\n---\n").problem
        'the frontmatter is not a mapping of names to values'
    """
    return read_frontmatter_with_lines(text)[0]


def read_frontmatter_with_lines(text: str) -> tuple[Frontmatter, Mapping[str, Sequence[int]]]:
    r"""Parse the frontmatter of a note, and return it with the line numbers of its fields.

    For each field these are the line of its name, then the lines at which its entries begin, counted in the file.

    Example:
        >>> read_frontmatter_with_lines("---\ntitle: A\nlinks:\n- x\n- y\n---\n# Body")[1]
        {'title': [2], 'links': [3, 4, 5]}
    """
    yaml_text, body = split_frontmatter(text)
    if not body:
        return Frontmatter({}, 0), {}
    if len(yaml_text) > _MAX_FRONTMATTER:
        reason = f"the frontmatter has {len(yaml_text)} characters, more than {_MAX_FRONTMATTER}"
        return Frontmatter({}, 0, reason), {}
    fields, lines, problem = _load(yaml_text)
    return Frontmatter({}, 0, problem) if problem else Frontmatter(fields, body), lines


def _load(yaml_text: str) -> tuple[dict[str, Any], dict[str, list[int]], str | None]:
    import yaml

    loader = _make_loader()
    try:
        # The flat stream of events is checked first: loading recurses, and expands aliases.
        lines, problem = _scan_events(yaml.parse(yaml_text, Loader=loader))
        if problem:
            return {}, {}, problem
        value = yaml.load(yaml_text, Loader=loader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        where = f" (line {error.problem_mark.line + 2})" if error.problem_mark else ""
        return {}, {}, f"the frontmatter is not valid YAML: {error.problem}{where}"
    except (yaml.YAMLError, *_YAML_LEAKS) as error:
        return {}, {}, f"the frontmatter is not valid YAML: {' '.join(str(error).split())[:200]}"
    if not isinstance(value, Mapping | None):
        return {}, {}, "the frontmatter is not a mapping of names to values"
    return json_clean(value or {}), lines, None


@cache
def _make_loader() -> Any:
    """Return a safe loader of YAML that refuses long numbers and dates."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("NoteLoader", (base,), {})

    def limit_length(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def construct_short(self: Any, node: Any) -> Any:
            if isinstance(node.value, str) and len(node.value) > _MAX_SCALAR:
                problem = f"a number or date of more than {_MAX_SCALAR} characters: write it as text, in quotes"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            return construct(self, node)

        return construct_short

    for kind in ("int", "float", "timestamp"):
        tag = f"tag:yaml.org,2002:{kind}"
        loader.add_constructor(tag, limit_length(base.yaml_constructors[tag]))
    return loader


def _scan_events(events: Iterable[Any]) -> tuple[dict[str, list[int]], str | None]:
    """Return the line numbers of the fields, and why the YAML must not be loaded, or `None`."""
    lines: dict[str, list[int]] = {}
    field_lines: list[int] = []
    depth, is_key = 0, True
    for event in events:
        kind = type(event).__name__.removesuffix("Event")
        if kind == "Alias":
            return (
                {},
                f"the frontmatter uses the YAML alias *{event.anchor}: write the value out{_line_of(event)}",
            )
        if kind.startswith(("Scalar", "Mapping", "Sequence")):
            # YAML counts lines from 0, and the fence is the first line of the file.
            line = event.start_mark.line + 2
            if depth == 1 and is_key and kind == "Scalar":
                field_lines = lines[event.value] = [line]
            elif depth == 2 and not kind.endswith("End"):
                field_lines.append(line)
            depth += kind.endswith("Start")
            depth -= kind.endswith("End")
            # At depth 1 the name or the value of a field has just ended, and they alternate.
            if depth == 1 and not kind.endswith("Start"):
                is_key = not is_key
        if depth > _MAX_DEPTH:
            return {}, f"the frontmatter nests deeper than {_MAX_DEPTH} levels{_line_of(event)}"
    return lines, None


def _line_of(event: Any) -> str:
    return f" (line {event.start_mark.line + 2})"


def strip_suffix(name: str) -> str:
    """Return a path or name without `.md`, `.markdown` or `.mdx` at its end.

    Example:
        >>> strip_suffix("notes/v1.2.md"), strip_suffix(".md")
        ('notes/v1.2', '.md')
    """
    stem = NOTE_SUFFIX.sub("", name)
    # A file named only ".md" keeps its name.
    return name if stem == "" or stem.endswith("/") else stem


def note_stem(artifact_id: str) -> str:
    """Return the last part of a path without the suffix of a note.

    Example:
        >>> note_stem("notes/v1.2.md")
        'v1.2'
    """
    return strip_suffix(artifact_id.rsplit("/", 1)[-1])


def note_title(artifact_id: str, fields: Mapping[str, Any], text: str, body: int = 0) -> str:
    r"""Return the title of a note.

    That is its field `title`, else the heading of the first level that begins the text after the offset `body`, else
    the stem of the file. Later headings, and those of other levels, are sections.

    Example:
        >>> note_title("a.md", {}, "# The *first* heading")
        'The first heading'
        >>> note_title("notes/a.md", {"title": " "}, "no heading\n\n## Section")
        'a'
    """
    title = fields.get("title")
    if isinstance(title, (str, int, float)) and (field_title := " ".join(str(title).split())):
        return field_title
    return _opening_title(text, body or split_frontmatter(text)[1]) or note_stem(artifact_id)


def _opening_title(text: str, body: int) -> str:
    """Return the heading of the first level before all prose, or `""`."""
    lines = strip_comments(_FENCED.sub("", text[body : body + _MAX_OPENING])).splitlines()
    for line, next_line in pairwise([*lines, ""]):
        heading = _FIRST_LEVEL.match(line)
        if heading is None and _UNDERLINE.match(next_line):
            heading = _ANY_LINE.match(line)
        title = _heading_text(heading[1]) if heading else ""
        # Images, tags, rules and blocks of code may come before it.
        if title or (not heading and not _RULE.match(line) and plain_text(line)):
            return title
    return ""


def first_heading(text: str) -> str:
    r"""Return the first heading of a text, of any level, or `""`.

    Example:
        >>> first_heading("Some words.\n\n## Section")
        'Section'
    """
    for match in _HEADING.finditer(text):
        if title := _heading_text(match[2] or match[3] or ""):
            return title
    return ""


def _heading_text(heading: str) -> str:
    return plain_text(re.sub(r"(?:^|[ \t])#+$", "", heading[:_MAX_TITLE].rstrip()))


def plain_text(markup: str) -> str:
    """Return a paragraph without inline markup, its white space folded; approximate by design.

    Example:
        >>> plain_text("See [*the* docs](a.md), `x_y` and [[b|B]].<!-- hm -->")
        'See the docs, x_y and B.'
    """
    text = strip_comments(markup)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def strip_comments(text: str) -> str:
    """Return a text without HTML comments; one that is never closed stays.

    Example:
        >>> strip_comments("a<!-- b -->c")
        'ac'
    """
    parts: list[str] = []
    position = 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[position:start])
        position = end + 3
    return "".join(parts) + text[position:]

"""What a markdown note says about itself: its YAML frontmatter, its title, and markup taken off a line of text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from airw._base.json import json_clean

_FENCE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
NOTE_SUFFIX = re.compile(r"\.mdx?\Z", re.IGNORECASE)
_HEADING = re.compile(
    r"^ {0,3}(?:(`{3,}|~{3,})[^\n]*(?:\n.*?^ {0,3}\1[`~]*[ \t\r]*$|.*\Z)"  # a fenced block: stepped over
    r"|#{1,6}[ \t]+([^\n]+)|([^\n]*\S)[ \t\r]*\n {0,3}=+[ \t\r]*$)",
    re.DOTALL | re.MULTILINE,
)
_TARGET = r"(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\[\]]*\])"
_MARKUP = (  # none looks past the next bracket of its kind: linear on any text
    (re.compile(rf"!\[\[[^\[\]]*\]\]|!\[[^\[\]]*\]{_TARGET}"), ""),  # images and embeds
    (re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]"), r"\1"),  # wiki links: the label, else the target
    (re.compile(rf"\[([^\[\]]*)\]{_TARGET}"), r"\1"),  # links: the text
    (re.compile(r"</?[A-Za-z][^<>]*>"), ""),  # tags
    (re.compile(r"`+|~~|\*+(?=\S)|(?<=\S)\*+|(?<!\w)_+(?=\S)|(?<=\S)_+(?!\w)"), ""),  # emphasis and code marks
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),  # escapes
)
_MAX_DEPTH = 50
# What PyYAML lets through for values that look like dates, numbers or tagged values but are none.
_ESCAPED = (ValueError, TypeError, ArithmeticError, AttributeError, LookupError, RecursionError)
_MAX_TITLE = 500


class Frontmatter(NamedTuple):
    """The frontmatter of a note: what it says, where the body starts, and what was wrong with it.

    Args:
        fields: JSON-clean.
        body: The offset where the body starts.
        problem: Why it could not be read.
    """

    fields: Mapping[str, Any]
    body: int
    problem: str | None = None


def split_frontmatter(text: str) -> tuple[str, int]:
    r"""Give the YAML text between the fences and the offset where the body starts; `("", 0)` without frontmatter.

    Example:
        >>> split_frontmatter("---\ntitle: A\n---\n# Body")
        ('title: A', 17)
    """
    found = _FENCE.match(text)
    return (found[1].rstrip("\r\n"), found.end()) if found else ("", 0)


def read_frontmatter(text: str) -> Frontmatter:
    r"""Parse a note's frontmatter; what cannot be read stays part of the body, and `problem` says why.

    Aliases (`*name`) and nesting deeper than 50 levels are refused: a few hundred bytes of either can stand for more
    than any memory holds, or overrun the C stack of the YAML library.

    Example:
        >>> read_frontmatter("---\ntitle: A\ntags: [x]\n---\n# Body")
        Frontmatter(fields={'title': 'A', 'tags': ['x']}, body=27, problem=None)
        >>> read_frontmatter("---\n- 1\n---\n").problem
        'the frontmatter is not a mapping of names to values'
    """
    return read_frontmatter_with_lines(text)[0]


def read_frontmatter_with_lines(text: str) -> tuple[Frontmatter, Mapping[str, Sequence[int]]]:
    r"""Parse a note's frontmatter; give too the line of each field in the file, then the lines its entries begin on.

    Example:
        >>> read_frontmatter_with_lines("---\ntitle: A\nlinks:\n- x\n- y\n---\n# Body")[1]
        {'title': [2], 'links': [3, 4, 5]}
    """
    written, body = split_frontmatter(text)
    if not body:
        return Frontmatter({}, 0), {}
    fields, lines, problem = _load(written)
    return Frontmatter({}, 0, problem) if problem else Frontmatter(fields, body), lines


def _load(written: str) -> tuple[dict[str, Any], dict[str, list[int]], str | None]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        lines, refused = _looked_at(yaml.parse(written, Loader=loader))
        if refused:
            return {}, {}, refused
        value = yaml.load(written, Loader=loader)  # noqa: S506 - one of the two safe loaders
    except yaml.MarkedYAMLError as error:
        where = f" (line {error.problem_mark.line + 2})" if error.problem_mark else ""
        return {}, {}, f"the frontmatter is not valid YAML: {error.problem}{where}"
    except (yaml.YAMLError, *_ESCAPED) as error:
        return {}, {}, f"the frontmatter is not valid YAML: {' '.join(str(error).split())[:200]}"
    if not isinstance(value, Mapping | None):
        return {}, {}, "the frontmatter is not a mapping of names to values"
    return json_clean(value or {}), lines, None


def _looked_at(events: Iterable[Any]) -> tuple[dict[str, list[int]], str | None]:
    """Look at the flat stream of events, before anything recursive does: where fields are, and why not to read them."""
    lines: dict[str, list[int]] = {}
    at: list[int] = []
    depth, is_key = 0, True
    for event in events:
        kind = type(event).__name__.removesuffix("Event")
        if kind == "Alias":
            return {}, f"the frontmatter uses the YAML alias *{event.anchor}: write the value out instead{_on(event)}"
        if kind.startswith(("Scalar", "Mapping", "Sequence")):
            line = event.start_mark.line + 2  # the fence is line 1
            if depth == 1 and is_key and kind == "Scalar":
                at = lines[event.value] = [line]
            elif depth == 2 and not kind.endswith("End"):
                at.append(line)
            depth += kind.endswith("Start")
            depth -= kind.endswith("End")
            if depth == 1 and not kind.endswith("Start"):  # a field's name or its value is complete
                is_key = not is_key
        if depth > _MAX_DEPTH:
            return {}, f"the frontmatter nests deeper than {_MAX_DEPTH} levels{_on(event)}"
    return lines, None


def _on(event: Any) -> str:
    return f" (line {event.start_mark.line + 2})"


def strip_suffix(name: str) -> str:
    """Give a path or name without `.md` or `.mdx` at its end.

    Example:
        >>> strip_suffix("notes/v1.2.md"), strip_suffix(".md")
        ('notes/v1.2', '.md')
    """
    bare = NOTE_SUFFIX.sub("", name)
    return name if bare == "" or bare.endswith("/") else bare


def note_stem(artifact_id: str) -> str:
    """Give the last part of a path without the suffix of a note.

    Example:
        >>> note_stem("notes/v1.2.md")
        'v1.2'
    """
    return strip_suffix(artifact_id.rsplit("/", 1)[-1])


def note_title(artifact_id: str, fields: Mapping[str, Any], text: str, body: int = 0) -> str:
    """Give a note's title: the field `title`, else the first heading after offset `body`, else the file's stem.

    Example:
        >>> note_title("a.md", {}, "# The *first* heading")
        'The first heading'
        >>> note_title("notes/a.md", {"title": " "}, "no heading")
        'a'
    """
    title = fields.get("title")
    if isinstance(title, (str, int, float)) and (named := " ".join(str(title).split())):
        return named
    for found in _HEADING.finditer(text, body):
        heading = (found[2] or found[3] or "")[:_MAX_TITLE].rstrip()
        if title := plain_text(re.sub(r"(?:^|[ \t])#+$", "", heading)):
            return title
    return note_stem(artifact_id)


def plain_text(markup: str) -> str:
    """Take the inline markup off a paragraph and fold its white space; for short texts, approximate by design.

    Example:
        >>> plain_text("See [*the* docs](a.md), `x_y` and [[b|B]].<!-- hm -->")
        'See the docs, x_y and B.'
    """
    text = strip_comments(markup)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def strip_comments(text: str) -> str:
    """Cut HTML comments out of a text; one that is never closed stays.

    Example:
        >>> strip_comments("a<!-- b -->c")
        'ac'
    """
    kept, position = [], 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[position:start])
        position = end + 3
    return "".join(kept) + text[position:]

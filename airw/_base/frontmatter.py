"""Markdown notes: frontmatter, titles, and text without markup."""

import re
from collections.abc import Iterable, Mapping
from html import unescape
from typing import Any, NamedTuple

from airw._base.json import json_clean
from airw._base.messages import one_line
from airw._base.yaml_fields import MAX_DEPTH, FieldPath, UnreadableFields, read_yaml

_FRONT = re.compile(
    r"\A\ufeff?(?:---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)"
    r"|\+\+\+[ \t]*\r?\n(?P<toml>.*?)^\+\+\+[ \t]*(?:\r?\n|\Z)"
    r"|(?P<properties>(?:[\w-][\w./-]*::(?:[ \t][^\n]*)?(?:\r?\n|\Z))+))",  # the properties of a page in Logseq
    re.DOTALL | re.MULTILINE,
)
NOTE_SUFFIX = re.compile(r"\.(?:mdx?|markdown)\Z", re.IGNORECASE)
_HEADING = re.compile(
    r"^ {0,3}(?:(`{3,}|~{3,})[^\n]*(?:\n.*?^ {0,3}\1[`~]*[ \t\r]*$|.*\Z)"  # a fenced block, which is skipped
    r"|#{1,6}[ \t]+([^\n]+)|([^\n]*\S)[ \t\r]*\n {0,3}=+[ \t\r]*$)",
    re.DOTALL | re.MULTILINE,
)
# Each pattern begins with a line feed, which Python finds fast, and reads no text twice.
_FIRST_LEVEL = re.compile(r"\n {0,3}(?:#[ \t]+([^\n]+)|=+[ \t\r]*(?=\n|\Z))")
FENCED = re.compile(r"\n {0,3}(`{3,}|~{3,})[^\n]*(?:\n.*?\n {0,3}\1[`~]*[ \t\r]*(?=\n|\Z)|.*\Z)", re.DOTALL)
_OTHER_CODE = {
    "<pre": re.compile(r"<pre\b(?:(?!<pre\b).)*?</pre\s*>", re.DOTALL),
    "highlight": re.compile(  # blocks of Jekyll and Hugo
        r"\{[{%][<%-]?\s*highlight\b(?:(?![{<%-]\s*highlight\b).)*?(?:end|/)\s*highlight\b[^\n]*", re.DOTALL
    ),
}
# In HTML after nothing but tags. Where it is indented it is code, unless a tag is in the line before.
_HTML_HEADING = re.compile(
    r"\n {0,3}(?:<[^\n]*\n[ \t]*)?(?:<[^<>\n]*>[ \t]*)*<h1\b[^<>]*>((?:(?!</?h1\b).)*)</h1\b", re.DOTALL | re.IGNORECASE
)
_ANY_LINE = re.compile(r" {0,3}([^\s#].*)")
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
_MAX_TITLE = 500
_MAX_FRONTMATTER = 500_000  # characters; PyYAML takes a second for about 100,000 of the shortest values
_MAX_TOML = 100_000  # characters; Python takes three seconds for the worst of them
_TOML_NAME = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
# Python's reader takes quadratic time for a dotted name.
_LONG_TOML_NAME = re.compile(rf"(?<![\w-]){_TOML_NAME}(?:[ \t]*+\.[ \t]*+{_TOML_NAME}){{{MAX_DEPTH}}}")
# The name that begins a line, perhaps that of a table; texts of several lines are passed over.
_TOML_LINE = re.compile(
    rf"\"{{3}}(?:\\.|.)*?\"{{3}}|'{{3}}.*?'{{3}}|^[ \t]*+(\[\[?+)?[ \t]*+({_TOML_NAME})", re.DOTALL | re.MULTILINE
)
_MAX_BITS = 400  # of a whole number, which are 120 digits
_TOO_LONG = "the frontmatter has a number of more than 120 digits: write it as text, in quotes"
_TOO_DEEP = f"the frontmatter nests deeper than {MAX_DEPTH} levels"
_LIST_ITEM = re.compile(r"[ \t]*+(?:\[\[[^\[\]]*\]\]|[^,]++)")  # of a page property; a comma may be in a page's name


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
    r"""Return the text of the frontmatter, without its fences, and the offset of the body.

    Without frontmatter that is `("", 0)`.

    Example:
        >>> split_frontmatter("---\ntitle: A\n---\n# Body")
        ('title: A', 17)
    """
    match = _FRONT.match(text)
    return (match[match.lastgroup or 0].rstrip("\r\n"), match.end()) if match else ("", 0)


def read_frontmatter(text: str) -> Frontmatter:
    r"""Parse the frontmatter of a note.

    It is YAML between lines `---`, or TOML between lines `+++`. `read_yaml` says what the values of YAML are; dates of
    TOML are ISO text. A note without them may begin with page properties as Logseq writes them: lines such as
    `tags:: a, b`. Then `alias`, `aliases` and `tags` are lists, and other properties are text.

    Frontmatter that cannot be read stays part of the body, and `problem` is the reason. Refused are YAML aliases
    (`*name`), nesting deeper than 50 levels, and numbers of more than 100 characters (in TOML, 120 digits). So is
    frontmatter of more than 500,000 characters (in TOML, 100,000). It could fill any memory, or take minutes.

    Example:
        >>> read_frontmatter("---\ntitle: A\ntags: [x]\n---\n# Body")
        Frontmatter(fields={'title': 'A', 'tags': ['x']}, body=27, problem=None)
        >>> read_frontmatter("---\n- 1\n---\n").problem
        'the frontmatter is not a mapping of names to values; write it as "name: value"'
    """
    return read_frontmatter_with_lines(text)[0]


def read_frontmatter_with_lines(text: str) -> tuple[Frontmatter, Mapping[FieldPath, int]]:
    r"""Parse the frontmatter of a note, and return it with the line of each value in the file.

    A value is named by the fields and list items that lead to it; see `line_at`. In TOML, only the lines of the
    outermost fields are known.

    Example:
        >>> read_frontmatter_with_lines("---\ntitle: A\nlinks:\n- x\n- y\n---\n# Body")[1]
        {('title',): 2, ('links',): 3, ('links', 0): 4, ('links', 1): 5}
    """
    match = _FRONT.match(text)
    if match is None:
        return Frontmatter({}, 0), {}
    kind = match.lastgroup or ""
    content = match[kind].rstrip("\r\n")
    longest = _MAX_TOML if kind == "toml" else _MAX_FRONTMATTER
    if len(content) > longest:
        reason = f"the frontmatter has {len(content)} characters, more than {longest}"
        return Frontmatter({}, 0, reason), {}
    try:
        fields, lines = _READERS[kind](content)
    except UnreadableFields as error:
        return Frontmatter({}, 0, str(error)), {}
    return Frontmatter(fields, match.end()), lines


def line_at(lines: Mapping[FieldPath, int], path: FieldPath) -> int | None:
    r"""Return the line of a value in the frontmatter, or else of the closest value around it.

    Args:
        lines: The lines that `read_frontmatter_with_lines` returned.
        path: The names of fields and numbers of list items that lead to the value.

    Example:
        >>> lines = read_frontmatter_with_lines("+++\ntitle = 'A'\nsee = ['x', 'y']\n+++\n")[1]
        >>> line_at(lines, ("see", 1)), line_at(lines, ("other",))
        (3, None)
    """
    parents = (path[:length] for length in range(len(path), 0, -1))
    return next((lines[parent] for parent in parents if parent in lines), None)


def _read_yaml_fields(content: str) -> tuple[dict[str, Any], dict[FieldPath, int]]:
    value, lines = read_yaml(content, 2)
    if not isinstance(value, dict | None):
        raise UnreadableFields('the frontmatter is not a mapping of names to values; write it as "name: value"')
    return value or {}, lines


def _read_toml_fields(content: str) -> tuple[dict[str, Any], dict[FieldPath, int]]:
    import tomllib

    if long_name := _LONG_TOML_NAME.search(content):
        line = content.count("\n", 0, long_name.start()) + 2
        raise UnreadableFields(f"the frontmatter has a name of more than {MAX_DEPTH} parts; shorten it (line {line})")
    try:
        fields = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).rpartition(" (at ")
        at = re.match(r"line (\d+)", place)
        line = int(at[1]) + 1 if at else content.count("\n") + 2
        advice = "write text in quotes, and close quotes and brackets"
        raise UnreadableFields(
            f"the frontmatter is not valid TOML: {one_line(reason)}; {advice} (line {line})"
        ) from error
    except RecursionError as error:
        raise UnreadableFields(_TOO_DEEP) from error
    except ValueError as error:  # Python does not convert thousands of digits
        raise UnreadableFields(_TOO_LONG) from error
    _check_toml(fields)
    return json_clean(fields), _find_toml_lines(content, fields)


def _check_toml(fields: dict[str, Any]) -> None:
    """Refuse values that nest deeply, and numbers that no JSON text could hold."""
    level: list[Any] = [fields]
    for _ in range(MAX_DEPTH + 1):
        if any(type(value) is int and value.bit_length() > _MAX_BITS for value in level):
            raise UnreadableFields(_TOO_LONG)
        level = [item for value in level for item in _items_of(value)]
    if any(isinstance(value, dict | list) for value in level):
        raise UnreadableFields(_TOO_DEEP)


def _items_of(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _find_toml_lines(content: str, fields: Mapping[str, Any]) -> dict[FieldPath, int]:
    """Return the lines of the outermost fields, which a table may also begin."""
    lines: dict[FieldPath, int] = {}
    line, position, is_table = 2, 0, False
    for match in _TOML_LINE.finditer(content):
        line, position = line + content.count("\n", position, match.start()), match.start()
        name = (match[2] or "").strip("\"'")
        is_table = is_table or bool(match[1])
        if name in fields and (match[1] or not is_table):
            lines.setdefault((name,), line)
    return lines


def _read_properties(content: str) -> tuple[dict[str, Any], dict[FieldPath, int]]:
    fields: dict[str, Any] = {}
    lines: dict[FieldPath, int] = {}
    for line, written in enumerate(content.split("\n"), 1):
        name, _, value = written.removeprefix("\ufeff").partition("::")
        items = [item.strip() for item in _LIST_ITEM.findall(value)]
        if name in ("alias", "aliases"):
            items = [item.removeprefix("[[").removesuffix("]]") for item in items]
        is_list = name in ("alias", "aliases", "tags")
        fields[name] = [item for item in items if item] if is_list else value.strip()
        lines[name,] = line
    return fields, lines


_READERS = {"yaml": _read_yaml_fields, "toml": _read_toml_fields, "properties": _read_properties}


def strip_suffix(name: str) -> str:
    """Return a path or name without `.md`, `.markdown` or `.mdx` at its end, in any case.

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

    That is its field `title`, else the heading of the first level that begins the text after the offset `body`. Without
    these it is the only heading of that level, else the stem of the file. Headings in HTML count, those in code do not.

    Example:
        >>> note_title("a.md", {}, "# The *first* heading")
        'The first heading'
        >>> note_title("notes/a.md", {"title": " "}, "no heading\n\n## Section")
        'a'
    """
    title = fields.get("title")
    if isinstance(title, (str, int, float)) and (field_title := " ".join(str(title).split())):
        return field_title
    return _title_heading(text[body or split_frontmatter(text)[1] :]) or note_stem(artifact_id)


def _title_heading(body: str) -> str:
    """Return the heading of the first level that begins a text or is the only one, or `""`."""
    text = f"\n{body}"
    if "<h1" in text or "<H1" in text:
        text = _HTML_HEADING.sub(lambda match: f"\n# {' '.join(match[1].split())}\n", text)
    if not _FIRST_LEVEL.search(text):
        return ""
    text = FENCED.sub("", text)
    for mark, code in _OTHER_CODE.items():
        text = code.sub("", text) if mark in text else text
    text = strip_comments(text)
    title, title_start = "", 0
    for match in _FIRST_LEVEL.finditer(text):
        # A line of `=` makes the line before it a heading.
        start = match.start() if match[1] else text.rfind("\n", 0, match.start())
        above = _ANY_LINE.fullmatch(text, start + 1, match.start())
        heading = _heading_text(match[1] or (above[1] if above else ""))
        if title and heading:
            return title if _is_blank(text[:title_start]) else ""
        if heading:
            title, title_start = heading, start
    return title


def _is_blank(text: str) -> bool:
    """Return whether a text is nothing but images, tags, rules and headings without words."""
    return all(_RULE.match(line) or not plain_text(line.strip("#= \t")) for line in text.splitlines())


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
    text = re.sub(r"(?:^|[ \t])#+$", "", heading[:_MAX_TITLE].rstrip())
    # Attributes such as `{#id}` and marks of footnotes are no words of a heading.
    return unescape(plain_text(re.sub(r"[ \t]*\{:?[ \t]*[#.][^{}]*\}$|\[\^[^\[\]]*\]", "", text)))


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


def strip_comments(text: str, begin: str = "<!--", end: str = "-->", *, keep_lines: bool = False) -> str:
    """Return a text without comments, by default of HTML; one that is not closed stays.

    Args:
        text: The text.
        begin: What begins a comment.
        end: What ends it.
        keep_lines: Whether the line feeds in comments stay.

    Example:
        >>> strip_comments("a<!-- b -->c")
        'ac'
    """
    parts: list[str] = []
    position = 0
    while (start := text.find(begin, position)) >= 0 and (stop := text.find(end, start + len(begin))) >= 0:
        parts += [text[position:start], "\n" * text.count("\n", start, stop) if keep_lines else ""]
        position = stop + len(end)
    return "".join(parts) + text[position:]

"""Markdown as CommonMark defines it: the links of a text, and its prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from html import unescape
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote

from airw._base.frontmatter import FENCED, NOTE_SUFFIX, split_frontmatter, strip_comments
from airw.errors import SourceError
from airw.links._toml_tables import find_toml_tables
from airw.values import Artifact

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_Rule: TypeAlias = "Callable[[StateInline, bool], bool]"

_NEWLINE = re.compile(r"\r\n?")
# What a link may begin with that is neither a URL nor a place in the same note. Many texts contain none: this search
# then saves the parser's work.
_LOCAL = re.compile(r"\[\[|\](?:\(|:)\s*+<?+(?!https?://|mailto:|#)|<(?:[aA]|area|AREA|router-link|[A-Z][\w.]*)\s|\(\(")
_MARKUP = re.compile(r"[\[<(]")
_WIKI = re.compile(r"\[\[[^\[\]\n]+\]\]")
_MARKER = re.compile(r"[>*+-]|\d+[.)]")
_OPAQUE = re.compile(r"\s*<(?:[!?]|(?:pre|script|style|textarea)\b)", re.IGNORECASE)
# A tag that may be a link: `<a>`, or a component of MDX or Vue such as `<Link>`. In its attributes, quotation marks and
# braces may contain any character.
_TAG = re.compile(
    r"""<(?:[aA]|area|AREA|router-link|[A-Z][\w.]*+)(?=\s)"""
    r"""((?:[^<>"'{}]++|"[^"]*+"|'[^']*+'|\{(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+\})*+)>"""
)
_TAG_TARGET = re.compile(
    r"""\s(?i:href|to)\s*=\s*(?:"([^"]*)"|'([^']*)'|\{\s*(?:\w+\()?\s*(["'`])([^"'`{}]*)\3\s*\)?\s*\}|([^\s"'<>={}`]+))"""
)
# The end of a component's tag on a line of its own, which would begin a quote.
_TAG_END = re.compile(r"(<[A-Z][\w.]*+(?:\s++(?!/>)[^\s<>]++)+)(\s*\n[ \t]*)(/?>)")
_COMPONENT = re.compile(r"^ {0,3}</?[A-Z][\w.]*+(?:[ \t][^<>\n]*+)?(?:/?>)?[ \t]*$", re.MULTILINE)  # alone on a line
# An indented block: an admonition or a tab of mkdocs, a block of PyMdown, the text of a footnote, a definition.
_INDENTED = re.compile(r"(?:!!!|\?\?\?\+?)[ \t]*\S|===[!+]?[ \t]+[\"']|/{3,}[ \t]*\w|\[\^[^\]\n]+\]:|:[ \t]")
_BLOCK_REFERENCE = re.compile(r"\(\([\da-f]{8}-[\da-f-]{27}\)\)")  # of Logseq
# A link whose target contains spaces is none in CommonMark, but in many programs; a definition likewise.
_SPACED_PATH = r"""((?:[^()<>\[\]\n"]|\([^()\n]*\)){1,300}?(?:\.(?:md|markdown|mdx|html)(?:[?#][^()\n"]{0,200}?)?|/))"""
_SPACED_LINK = re.compile(
    r"""\[(?!\^)(?:[^\[\]\n]++|\[[^\[\]\n]*+\](?:\([^()\n]*+\))?+){0,9}+"""
    rf"""\](?:\({_SPACED_PATH}[ \t]*(?:"[^"\n]*"|'[^'\n]*')?[ \t]*\)|:[ \t]+{_SPACED_PATH}[ \t]*(?=\n|\Z))""",
    re.IGNORECASE,
)
# The templates of site generators that stand for the address of a note: Jekyll's, then Hugo's.
_TEMPLATE = re.compile(r"\{%[^%\n]*%\}|\{\{(?![^{}\n]*\[\[)[^{}\n]*\}\}")
_NOTE_TEMPLATE = re.compile(
    r"""\{%-?\s*(?P<tag>link|post_url)\s+(?P<note>\S+?)\s*-?%\}"""
    r"""|\{\{[<%]?-?\s*(?:rel)?ref\s+(?:\.\s+|path=)?["'`]?(?P<hugo>[^"'`\s>%}]+)["'`]?(?:\s+["'][^"']*["'])?\s*-?[>%]?\}\}"""
    r"""|\{\{-?\s*["'](?P<path>[^"']*)["']\s*\|\s*(?:(?:relative|absolute)_url|prepend:\s*site\.\w+)\b[^{}]*\}\}"""
)
# Templates that contain the path of a note: files that mdBook includes, and Hugo's shortcodes with a link.
_INCLUDE = re.compile(r"\{\{\s*#\w+\s+([^\s:{}]+)[^{}]*\}\}")
_SHORTCODE = re.compile(r"""\{\{[<%][^{}]*\s(?:link|href|url|relref|ref)\s*=\s*["']([^"'{}]+)["'][^{}]*\}\}""")
_BASE_URL = re.compile(r"\{\{-?\s*(?:site\.(?:base)?url|base_?path)\s*-?\}\}", re.IGNORECASE)
# Embedded files that are not notes: images, sound, film, documents of other programs.
_MEDIA = re.compile(
    r"\.(?:avif|bmp|gif|heic|ico|jpe?g|png|svg|tiff?|webp|3gp|aac|flac|m4a|mp3|oga|ogg|opus|wav|avi|mkv|mov|mp4|mpe?g|ogv"
    r"|webm|pdf|epub|docx?|odt|pptx?|xlsx?|zip|canvas)\s*(?:[#|\\]|\]\]|\Z)",
    re.IGNORECASE,
)
_PLACES = ("parent", "owner", "skill_path", "base_path")  # fields of skills and packages that are no text
_MAX_NESTING = 100  # levels, beyond which the parser drops the rest of the text
_MAX_BLOCK_LEVEL = 50  # so that containers stop well before: a list takes two levels
_DEEP_LINE = "airw: the first line that nests too deeply"
# The parser's time grows with the product of the brackets open at once and all brackets of a paragraph.
_MAX_OPEN = 90  # brackets open at once, if the paragraph has at most `_MANY_BRACKETS`
_MANY_BRACKETS = 1_000
_MAX_OPEN_IF_MANY = 20
# Characters without which a text can only be prose.
_SPECIAL = re.compile(r"[`<\[]|://|www\.")
# Wiki links and bare URLs: CommonMark reads them as text, but they are not prose.
_NOT_PROSE = re.compile(r"!?\[\[[^\[\]\n]+\]\]|\b[A-Za-z][A-Za-z0-9+.-]{0,20}://\S+|\bwww\.\S+")
_NOT_NEWLINE = re.compile(r"[^\n]")
_MAX_BRACKETS = 1_000  # per paragraph; the time to read prose grows with their square


# The blocks that contain blocks, and the blocks that each of them can interrupt: markdown-it's own settings.
_CONTAINERS = {
    "blockquote": ["paragraph", "reference", "blockquote", "list"],
    "list": ["paragraph", "reference", "blockquote"],
}


class Target(NamedTuple):
    """The target of a link.

    Args:
        written: The target as written; a wiki link with its brackets.
        line: The line of the link, counted from 0.
    """

    written: str
    line: int


def text_of(artifact: Artifact) -> str:
    """Return the markdown text of an artifact.

    That of a mapping is its field `text`, or else all its strings: name, description and readme of a package. Where a
    skill or package comes from is no text.

    Raises:
        SourceError: If the raw value is neither text nor a mapping, or `text` is no string.
    """
    raw: Any = artifact.raw
    if isinstance(raw, Mapping):
        strings = [value for name, value in raw.items() if isinstance(value, str) and name not in _PLACES]
        raw = raw["text"] or "" if "text" in raw else "\n\n".join(strings)
    if isinstance(raw, bytes):
        raw = raw.decode("utf-8", "replace")
    if isinstance(raw, str):
        return raw
    raise SourceError(f"{artifact.id!r} has a {type(raw).__name__} for its text; links need a string")


def inline_links(text: str, *, is_mdx: bool = False) -> tuple[list[Target], list[tuple[str, int]]]:
    """Return the links of a markdown text, and the problems with their lines.

    Embeds of notes, tags such as `<a href>` and reference definitions are links; a definition that an image uses is
    not. Images, links in code and comments, and TOML tables in texts of site generators, are not.

    Args:
        text: The text.
        is_mdx: Whether the text is MDX, in which indented lines are no code. Texts with components are, too.

    Returns:
        The links in order of line, and pairs of a problem and its line. Lines count from 0.
    """
    text, source = read_templates(text), text
    if not _LOCAL.search(text):
        return [], []
    if is_mdx or _COMPONENT.search(FENCED.sub("", text)):
        is_mdx, text = True, _TAG_END.sub(r"\1\3\2", strip_comments(text, "{/*", "*/}", keep_lines=True))
    # Blocks first: they separate text from code, and collect the reference definitions that links anywhere may use.
    text = _NEWLINE.sub("\n", text)
    markdown, tokens, env = _link_parser(is_mdx=is_mdx), list["Token"](), dict[str, Any]()
    markdown.block.parse(text, markdown, env, tokens)
    definitions = env.get("references", {})
    problems: list[tuple[str, int]] = []
    if _DEEP_LINE in env:
        problems.append(("lists and quotes nest too deeply; deeper levels are read as plain text", env[_DEEP_LINE]))
    # Then the links of each block. Without definitions, a block without the start of a local link cannot have one.
    targets: list[Target] = []
    images: set[str] = set()
    for token in tokens:
        if token.map and _may_have_links(token) and (_MARKUP if definitions else _LOCAL).search(token.content):
            for line, piece in _split_unreadable(_mask_comments(token), token.map[0], problems):
                _collect_links(piece, line, env, targets, images)
                if _BLOCK_REFERENCE.search(piece):
                    problems.append(("references to blocks of Logseq are not followed; link to the page", line))
    targets += [Target(item["href"], item["map"][0]) for item in definitions.values() if item["href"] not in images]
    if any(_WIKI.match(target.written) for target in targets):
        tables = find_toml_tables(_NEWLINE.sub("\n", source))
        targets = [target for target in targets if target.line not in tables]
    return sorted(targets, key=lambda target: target.line), problems


def read_templates(text: str) -> str:
    """Return a text in which the templates of site generators are what they stand for.

    Example:
        >>> read_templates("[b]({{ '/b/' | relative_url }}) [c]({% link c.md %}) [d]({{ url }})")
        '[b](/b/) [c](/c.md) [d]({{url}})'
    """
    return _TEMPLATE.sub(_read_template, text) if "{{" in text or "{%" in text else text


def _read_template(match: re.Match[str]) -> str:
    """Return what a template of a site generator stands for, as a target of a link.

    Others lose their spaces and quotation marks, so that a link that contains them is read, and reported.
    """
    if _BASE_URL.fullmatch(match[0]):
        return ""
    if found := _INCLUDE.fullmatch(match[0]) or _SHORTCODE.fullmatch(match[0]):
        return f"[](<{found[1]}>)"
    note = _NOTE_TEMPLATE.fullmatch(match[0])
    if note is None:
        return re.sub(r"[\s\"']+", "", match[0])
    if note["tag"] == "link":
        return "/" + quote(note["note"].lstrip("/"))
    if path := note["path"]:
        return quote(path, safe="/#?%")
    name = note["note"] or note["hugo"]
    # A name without a folder is that of a note anywhere.
    return quote(name, safe="/#?%") if "/" in name and note["tag"] is None else f"[[{name.rpartition('/')[2]}]]"


def _may_have_links(token: Token) -> bool:
    # CommonMark does not parse markdown inside an HTML block, but many renderers do.
    return token.type == "inline" or (token.type == "html_block" and not _OPAQUE.match(_mask_comments(token)))


def _mask_comments(token: Token) -> str:
    """Return the text of a block; in HTML without comments, but with their lines."""
    return token.content if token.type == "inline" else strip_comments(token.content, keep_lines=True)


def _split_unreadable(content: str, line: int, problems: list[tuple[str, int]]) -> Iterator[tuple[int, str]]:
    """Yield a block with its line; if parsing it would take minutes, yield its lines."""
    if _is_readable(content):
        yield line, content
        return
    for number, piece in enumerate(content.split("\n"), line):
        if _is_readable(piece):
            yield number, piece
        else:
            problems.append(("too many unclosed brackets; links on this line are not read", number))


def _is_readable(content: str) -> bool:
    count = content.count("[")
    max_open = _MAX_OPEN if count <= _MANY_BRACKETS else _MAX_OPEN_IF_MANY
    return count <= _MAX_OPEN or _max_open_brackets(content) <= max_open


def _max_open_brackets(content: str) -> int:
    steps = (1 if bracket == "[" else -1 for bracket in re.findall(r"[\[\]]", content))
    return max(accumulate(steps, lambda depth, step: max(0, depth + step)), default=0)


def _collect_links(piece: str, line: int, env: dict[str, Any], targets: list[Target], images: set[str]) -> None:
    tokens: list[Token] = []
    parser = _link_parser()
    parser.inline.parse(piece, parser, env, tokens)
    counted = 0  # newlines before this position are in `line` already
    for token in tokens:
        position = token.meta.get("position")
        written = str(token.attrs.get("href") or token.attrs.get("src", ""))
        if token.type == "image" and not NOTE_SUFFIX.search(written.partition("#")[0]):
            images.add(written)
        elif position is not None:
            line += piece.count("\n", counted, position)
            counted = position
            targets.append(Target(written, line))


@cache
def _link_parser(*, is_mdx: bool = False) -> MarkdownIt:
    """Return a CommonMark parser with wiki links, and only the rules that matter for links."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import image, link

    class LinkParser(MarkdownIt):
        def normalizeLink(self, url: str) -> str:  # noqa: N802 - the name is the library's
            return url  # as written, because it is resolved as a path and not as a URL

    parser = LinkParser("commonmark", {"maxNesting": _MAX_NESTING})
    parser.disable(["emphasis", "entity", "newline"])
    for name, others in _CONTAINERS.items():
        parser.block.ruler.at(name, partial(_parse_container, name), {"alt": others})
    parser.block.ruler.before("reference", "indented", _parse_indented, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.at("link", partial(_parse_with_position, link))
    parser.inline.ruler.at("image", partial(_parse_with_position, image))
    parser.inline.ruler.after("link", "other_link", _parse_other_link)
    parser.inline.ruler.at("html_inline", _parse_tag)
    if is_mdx:
        parser.disable("code")
    return parser


def _parse_container(name: str, state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Parse a list or a quote, unless it nests too deeply: it is then plain text."""
    from markdown_it.rules_block import blockquote, list_block

    if state.level < _MAX_BLOCK_LEVEL:
        return (list_block if name == "list" else blockquote)(state, start, end, silent)
    if _MARKER.match(state.src, state.bMarks[start] + state.tShift[start]):
        state.env.setdefault(_DEEP_LINE, start)
    return False


def _parse_indented(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Parse a block of text that belongs to the line above it by its indentation."""
    position = state.bMarks[start] + state.tShift[start]
    if state.is_code_block(start) or not _INDENTED.match(state.src, position):
        return False
    if state.level >= _MAX_BLOCK_LEVEL:
        state.env.setdefault(_DEEP_LINE, start)
        return False
    if silent:
        return True
    after = start + 1
    while after < end and (state.isEmpty(after) or state.sCount[after] >= state.blkIndent + 4):
        after += 1
    token = state.push("inline", "", 0)
    token.content, token.map, token.children = state.src[position : state.eMarks[start]], [start, start + 1], []
    outer = state.parentType, state.lineMax, state.blkIndent, state.level
    state.lineMax, state.blkIndent, state.level = after, state.blkIndent + 4, state.level + 1
    state.md.block.tokenize(state, start + 1, after)
    state.parentType, state.lineMax, state.blkIndent, state.level = outer
    state.line = after
    return True


def _parse_with_position(rule: _Rule, state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the rules are the library's
    # Tokens of links have no position, but their lines are needed: store where the rule began.
    position, token_count = state.pos, len(state.tokens)
    matched = rule(state, silent)
    if matched and not silent:
        token = next(token for token in state.tokens[token_count:] if token.type in ("link_open", "image"))
        token.meta["position"] = position
    return matched


def _parse_tag(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
    """Parse a tag, which may be a link."""
    from markdown_it.rules_inline import html_inline

    position = state.pos
    tag = _TAG.match(state.src, position)
    target = _TAG_TARGET.search(tag[1]) if tag else None
    if tag is None or target is None:
        return html_inline(state, silent)
    if not silent:
        token = state.push("html_inline", "", 0)
        token.meta["position"] = position
        token.attrs["href"] = unescape(target[1] or target[2] or target[4] or target[5] or "")
    state.pos = tag.end()
    return True


def _parse_other_link(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
    """Parse wiki links, and links whose target has spaces.

    `![[target]]` of other media is passed over.
    """
    wiki = _WIKI.match(state.src, state.pos)
    match = wiki or _SPACED_LINK.match(state.src, state.pos)
    if not match:
        return False
    is_embed = state.src[state.pos - 1 : state.pos] == "!" and not state.src[: state.pos - 1].endswith("\\")
    if not silent and not (is_embed and _MEDIA.search(match[0])):
        token = state.push("other_link", "", 0)
        token.attrs["href"] = match[0] if wiki else match[1] or match[2]
        token.meta["position"] = state.pos
    state.pos = match.end()
    return True


class Paragraph(NamedTuple):
    """A paragraph or a heading.

    Args:
        text: Its text.
        line: The line where it starts, counted from 1.
        env: The reference definitions that its links may use.
    """

    text: str
    line: int
    env: Mapping[str, Any]

    @property
    def is_prose(self) -> bool:
        """True if the text certainly contains no links, code or tags."""
        return not _SPECIAL.search(self.text)

    @property
    def is_unreadable(self) -> bool:
        """True if parsing the text would take minutes."""
        return self.text.count("[") + self.text.count("<") > _MAX_BRACKETS

    def mask_markup(self) -> str:
        """Return the text with NUL in place of each character that is not prose; newlines stay."""
        spans: list[tuple[int, int]] = []
        _prose_parser().inline.parse(self.text, _prose_parser(), {**self.env, "whole": self.text, "spans": spans}, [])
        pieces = []
        position = 0
        for start, end in sorted(spans):  # spans may nest: an outer one comes before those inside it
            if end > position:
                pieces += [self.text[position:start], _mask(self.text[max(position, start) : end])]
                position = end
        prose = "".join([*pieces, self.text[position:]])
        return _NOT_PROSE.sub(lambda match: _mask(match[0]), prose)


def _mask(text: str) -> str:
    return _NOT_NEWLINE.sub("\0", text)


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs and headings below the frontmatter; unreadable ones line by line."""
    text = _NEWLINE.sub("\n", text)
    _, body = split_frontmatter(text)
    first_line = text.count("\n", 0, body) + 1
    tokens, env = list["Token"](), dict[str, Any]()
    _prose_parser().block.parse(text[body:], _prose_parser(), env, tokens)
    for token in tokens:
        if token.type == "inline" and token.map:
            paragraph = Paragraph(token.content, token.map[0] + first_line, env)
            if paragraph.is_unreadable:
                lines = enumerate(paragraph.text.split("\n"), paragraph.line)
                yield from (Paragraph(line, number, env) for number, line in lines)
            else:
                yield paragraph


@cache
def _prose_parser() -> MarkdownIt:
    """Return a CommonMark parser that records the spans of text that are not prose."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import autolink, backtick, html_inline, image, link

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    parser.disable(["emphasis", "entity", "newline"])
    rules = {"backticks": backtick, "link": link, "image": image, "autolink": autolink, "html_inline": html_inline}
    for name, rule in rules.items():
        parser.inline.ruler.at(name, _record_span(rule))
    return parser


def _record_span(rule: _Rule) -> _Rule:
    def parse(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
        start = state.pos
        matched = rule(state, silent)
        # The text of a link is parsed again by itself, with positions of its own: those spans are inside the link's.
        if matched and not silent and state.src is state.env["whole"]:
            state.env["spans"].append((start, state.pos))
        return matched

    return parse

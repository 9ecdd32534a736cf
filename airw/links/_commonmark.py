"""Markdown as CommonMark defines it: the links of a text, and its prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from airw._base.frontmatter import NOTE_SUFFIX, split_frontmatter
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
# The start of a link that is neither a URL nor a place in the same note. Many files contain none: this search over the
# whole text then saves the parser's work.
_LOCAL = re.compile(r"\[\[|\](?:\(|:)\s*+<?+(?!https?://|mailto:|#)")
_BRACKET = re.compile(r"\[")
_WIKI = re.compile(r"\[\[([^\[\]\n]+)\]\]")
_MARKER = re.compile(r"[>*+-]|\d+[.)]")
_FOOTNOTE = re.compile(r"\[\^")
_OPAQUE = re.compile(r"\s*<(?:[!?]|(?:pre|script|style|textarea)\b)", re.IGNORECASE)
# Embedded files that are not notes: images, sound, film, documents of other programs.
_MEDIA = re.compile(
    r"\.(?:avif|bmp|gif|heic|ico|jpe?g|png|svg|tiff?|webp|3gp|aac|flac|m4a|mp3|oga|ogg|opus|wav|avi|mkv|mov|mp4|mpe?g|ogv"
    r"|webm|pdf|epub|docx?|odt|pptx?|xlsx?|zip|canvas)\s*(?:[#|\\]|\Z)",
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
        written: The target as written.
        line: The line of the link, counted from 0.
        is_wiki: True for a wiki link.
    """

    written: str
    line: int
    is_wiki: bool = False


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


def inline_links(text: str) -> tuple[list[Target], list[tuple[str, int]]]:
    """Return the links of a markdown text, and the problems with their lines.

    Embeds of notes and reference definitions are links; a definition that an image uses is not. Images, links in code,
    comments and tags, and TOML tables in blocks of site generators, are not. The text of a footnote is searched like
    other text.

    Returns:
        The links in order of line, and pairs of a problem and its line. Lines count from 0.
    """
    if not _LOCAL.search(text):
        return [], []
    # Blocks first: they separate text from code, and collect the reference definitions that links anywhere may use.
    text = _NEWLINE.sub("\n", text)
    markdown, tokens, env = _link_parser(), list["Token"](), dict[str, Any]()
    markdown.block.parse(text, markdown, env, tokens)
    definitions = env.get("references", {})
    problems: list[tuple[str, int]] = []
    if _DEEP_LINE in env:
        problems.append(("lists and quotes nest too deeply; deeper levels are read as plain text", env[_DEEP_LINE]))
    # Then the links of each block. Without definitions, a block without the start of a local link cannot have one.
    targets: list[Target] = []
    images: set[str] = set()
    for token in tokens:
        if token.map and _may_have_links(token) and (_BRACKET if definitions else _LOCAL).search(token.content):
            for line, piece in _split_unreadable(token.content, token.map[0], problems):
                _collect_links(piece, line, env, targets, images)
    targets += [Target(item["href"], item["map"][0]) for item in definitions.values() if item["href"] not in images]
    if any(target.is_wiki for target in targets):
        toml_tables = find_toml_tables(text)
        targets = [target for target in targets if not (target.is_wiki and target.line in toml_tables)]
    return sorted(targets, key=lambda target: target.line), problems


def _may_have_links(token: Token) -> bool:
    # CommonMark does not parse markdown inside an HTML block, but many renderers do.
    return token.type == "inline" or (token.type == "html_block" and not _OPAQUE.match(token.content))


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
    _link_parser().inline.parse(piece, _link_parser(), env, tokens)
    counted = 0  # newlines before this position are in `line` already
    for token in tokens:
        position = token.meta.get("position")
        is_wiki = token.type == "wiki_link"
        written = token.content if is_wiki else str(token.attrs.get("href") or token.attrs.get("src", ""))
        if token.type == "image" and not NOTE_SUFFIX.search(written.partition("#")[0]):
            images.add(written)
        elif position is not None:
            line += piece.count("\n", counted, position)
            counted = position
            targets.append(Target(written, line, is_wiki))


@cache
def _link_parser() -> MarkdownIt:
    """Return a CommonMark parser with wiki links, and only the rules that matter for links."""
    from markdown_it import MarkdownIt

    class LinkParser(MarkdownIt):
        def normalizeLink(self, url: str) -> str:  # noqa: N802 - the name is the library's
            return url  # as written, because it is resolved as a path and not as a URL

    parser = LinkParser("commonmark", {"maxNesting": _MAX_NESTING})
    parser.disable(["emphasis", "entity", "newline"])
    for name, others in _CONTAINERS.items():
        parser.block.ruler.at(name, partial(_parse_container, name), {"alt": others})
    parser.block.ruler.at("reference", _parse_reference)
    parser.inline.ruler.at("link", _parse_link)
    parser.inline.ruler.at("image", _parse_image)
    parser.inline.ruler.after("link", "wiki_link", _parse_wiki_link)
    return parser


def _parse_container(name: str, state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Parse a list or a quote, unless it nests too deeply: it is then plain text."""
    from markdown_it.rules_block import blockquote, list_block

    if state.level < _MAX_BLOCK_LEVEL:
        return (list_block if name == "list" else blockquote)(state, start, end, silent)
    if _MARKER.match(state.src, state.bMarks[start] + state.tShift[start]):
        state.env.setdefault(_DEEP_LINE, start)
    return False


def _parse_reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Parse a reference definition; that of a footnote remains a paragraph with links."""
    from markdown_it.rules_block import reference

    is_footnote = _FOOTNOTE.match(state.src, state.bMarks[start] + state.tShift[start])
    return not is_footnote and reference(state, start, end, silent)


def _parse_link(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
    from markdown_it.rules_inline import link

    return _parse_with_position(link, state, silent)


def _parse_image(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
    # An image may embed a note, so its position matters, too.
    from markdown_it.rules_inline import image

    return _parse_with_position(image, state, silent)


def _parse_with_position(rule: _Rule, state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - so are the rules
    # Tokens of links have no position, but their lines are needed: store where the rule began.
    position, token_count = state.pos, len(state.tokens)
    matched = rule(state, silent)
    if matched and not silent:
        token = next(token for token in state.tokens[token_count:] if token.type in ("link_open", "image"))
        token.meta["position"] = position
    return matched


def _parse_wiki_link(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
    """Parse `[[target]]` after CommonMark's own links; skip `![[target]]` of other media."""
    match = _WIKI.match(state.src, state.pos)
    if not match:
        return False
    is_embed = state.src[state.pos - 1 : state.pos] == "!" and not state.src[: state.pos - 1].endswith("\\")
    if not silent and not (is_embed and _MEDIA.search(match[1])):
        token = state.push("wiki_link", "", 0)
        token.content = match[1]
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

"""What CommonMark says of a text: the links in it, and its prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from airw._base.frontmatter import NOTE_SUFFIX, split_frontmatter
from airw.errors import SourceError
from airw.values import Artifact

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_Rule: TypeAlias = "Callable[[StateInline, bool], bool]"

_NEWLINE = re.compile(r"\r\n?")
# Where a link could start that leads neither to a URL nor to a place in the same note: most files have none.
_LOCAL = re.compile(r"\[\[|\](?:\(|:)\s*+<?+(?!https?://|mailto:|#)")
_BRACKET = re.compile(r"\[")
_WIKI = re.compile(r"\[\[([^\[\]\n]+)\]\]")
_MARKER = re.compile(r"[>*+-]|\d+[.)]")
_FOOTNOTE = re.compile(r"\[\^")
_OPAQUE = re.compile(r"\s*<(?:[!?]|(?:pre|script|style|textarea)\b)", re.IGNORECASE)
# What is embedded but no note: images, sound, film, documents of other programs.
_MEDIA = re.compile(
    r"\.(?:avif|bmp|gif|heic|ico|jpe?g|png|svg|tiff?|webp|3gp|aac|flac|m4a|mp3|oga|ogg|opus|wav|avi|mkv|mov|mp4|mpe?g|ogv"
    r"|webm|pdf|epub|docx?|odt|pptx?|xlsx?|zip|canvas)\s*(?:[#|\\]|\Z)",
    re.IGNORECASE,
)
_MAX_NESTING, _MAX_BLOCKS = 100, 50  # levels; a list takes two
_DEEP = "airw: the first line that nests too deeply"
# Brackets open at once: what is read takes the product of them and of all brackets.
_MAX_OPEN, _MANY, _MAX_OPEN_OF_MANY = 90, 1_000, 20
# What prose has none of, and what is none of it where CommonMark sees no link.
_SPECIAL = re.compile(r"[`<\[]|://|www\.")
_ELSE = re.compile(r"!?\[\[[^\[\]\n]+\]\]|\b[A-Za-z][A-Za-z0-9+.-]{0,20}://\S+|\bwww\.\S+")
_KEPT = re.compile(r"[^\n]")
_MAX_BRACKETS = 1_000  # in prose; reading takes the square of them


# The blocks that hold blocks, and what each may end: the library's own settings.
_CONTAINERS = {
    "blockquote": ["paragraph", "reference", "blockquote", "list"],
    "list": ["paragraph", "reference", "blockquote"],
}


class Target(NamedTuple):
    """A link's target as written, the 0-based line it is on, and whether it is a wiki link."""

    written: str
    line: int
    wiki: bool = False


def text_of(artifact: Artifact) -> str:
    """Return the markdown text of an artifact.

    Raises:
        SourceError: The raw value is neither a string nor a mapping with a string `text`.
    """
    raw = artifact.raw.get("text") if isinstance(artifact.raw, Mapping) else artifact.raw
    if isinstance(raw, str):
        return raw
    given = type(artifact.raw).__name__
    raise SourceError(
        f"links are looked for in a string or a mapping with a string `text`; {artifact.id!r} is a {given}"
    )


def inline_links(text: str) -> tuple[list[Target], list[tuple[str, int]]]:
    """Return the links of a markdown text in order of line, and what could not be read with its line, 0-based too.

    Links in code, comments and tags are not links, nor are images, but embeds of notes are. A reference definition is
    one, on its own line, unless an image uses it; a footnote is text.
    """
    if not _LOCAL.search(text):
        return [], []
    markdown, tokens, env = _link_parser(), list["Token"](), dict[str, Any]()
    markdown.block.parse(_NEWLINE.sub("\n", text), markdown, env, tokens)
    defined = env.get("references", {})
    targets: list[Target] = []
    images: set[str] = set()
    problems = (
        [("lists and quotes nest so deeply that what is deeper was read as text", env[_DEEP])] if _DEEP in env else []
    )
    for token in tokens:
        if token.map and _is_prose(token) and (_BRACKET if defined else _LOCAL).search(token.content):
            for line, piece in _pieces(token.content, token.map[0], problems):
                _collect(piece, line, env, targets, images)
    targets += [Target(item["href"], item["map"][0]) for item in defined.values() if item["href"] not in images]
    return sorted(targets, key=lambda target: target.line), problems


def _is_prose(token: Token) -> bool:
    """Return whether a block may hold links: text, and what stands among tags, which many renderers read as text."""
    return token.type == "inline" or (token.type == "html_block" and not _OPAQUE.match(token.content))


def _pieces(content: str, line: int, problems: list[tuple[str, int]]) -> Iterator[tuple[int, str]]:
    """Yield a paragraph whole, or line by line where it opens so many brackets that reading it would take minutes."""
    if _is_readable(content):
        yield line, content
        return
    for number, piece in enumerate(content.split("\n"), line):
        if _is_readable(piece):
            yield number, piece
        else:
            problems.append(("too many brackets are opened and not closed: not read for links", number))


def _is_readable(content: str) -> bool:
    count = content.count("[")
    return count <= _MAX_OPEN or _most_open(content) <= (_MAX_OPEN if count <= _MANY else _MAX_OPEN_OF_MANY)


def _most_open(content: str) -> int:
    steps = (1 if bracket == "[" else -1 for bracket in re.findall(r"[\[\]]", content))
    return max(accumulate(steps, lambda depth, step: max(0, depth + step)), default=0)


def _collect(piece: str, line: int, env: dict[str, Any], targets: list[Target], images: set[str]) -> None:
    tokens: list[Token] = []
    _link_parser().inline.parse(piece, _link_parser(), env, tokens)
    read = 0
    for token in tokens:
        at = token.meta.get("at")
        written = (
            token.content if token.type == "wiki_link" else str(token.attrs.get("href") or token.attrs.get("src", ""))
        )
        if token.type == "image" and not NOTE_SUFFIX.search(written.partition("#")[0]):
            images.add(written)
        elif at is not None:
            line += piece.count("\n", read, at)
            read = at
            targets.append(Target(written, line, token.type == "wiki_link"))


@cache
def _link_parser() -> MarkdownIt:
    """Make the CommonMark parser, without the rules that no link depends on, and with wiki links."""
    from markdown_it import MarkdownIt

    class Parser(MarkdownIt):
        def normalizeLink(self, url: str) -> str:  # noqa: N802 - the name is the library's
            return url  # as written: what is resolved is a path, not a URL

    parser = Parser("commonmark", {"maxNesting": _MAX_NESTING})
    parser.disable(["emphasis", "entity", "newline"])
    for name, others in _CONTAINERS.items():
        parser.block.ruler.at(name, partial(_container, name), {"alt": others})
    parser.block.ruler.at("reference", _reference)
    parser.inline.ruler.at("link", _link)
    parser.inline.ruler.at("image", _image)
    parser.inline.ruler.after("link", "wiki_link", _wiki_link)
    return parser


def _container(name: str, state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Read a list or a quote as CommonMark does, but none so deep that the parser would leave out all that follows."""
    from markdown_it.rules_block import blockquote, list_block

    if state.level < _MAX_BLOCKS:
        return (list_block if name == "list" else blockquote)(state, start, end, silent)
    if _MARKER.match(state.src, state.bMarks[start] + state.tShift[start]):
        state.env.setdefault(_DEEP, start)
    return False


def _reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - the library's
    """Read a reference definition; that of a footnote is a paragraph, with links in it."""
    from markdown_it.rules_block import reference

    is_footnote = _FOOTNOTE.match(state.src, state.bMarks[start] + state.tShift[start])
    return not is_footnote and reference(state, start, end, silent)


def _link(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
    """Read a link as CommonMark does and note where it starts."""
    from markdown_it.rules_inline import link

    return _placed(link, state, silent)


def _image(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
    """Read an image as CommonMark does and note where it starts: it may embed a note."""
    from markdown_it.rules_inline import image

    return _placed(image, state, silent)


def _placed(rule: _Rule, state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - so are the rules
    at, before = state.pos, len(state.tokens)
    matched = rule(state, silent)
    if matched and not silent:
        made = next(token for token in state.tokens[before:] if token.type in ("link_open", "image"))
        made.meta["at"] = at
    return matched


def _wiki_link(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
    """Read `[[target]]` where CommonMark sees no link, and `![[target]]` where that is no file of another kind."""
    found = _WIKI.match(state.src, state.pos)
    if not found:
        return False
    is_embed = state.src[state.pos - 1 : state.pos] == "!" and not state.src[: state.pos - 1].endswith("\\")
    if not silent and not (is_embed and _MEDIA.search(found[1])):
        token = state.push("wiki_link", "", 0)
        token.content, token.meta["at"] = found[1], state.pos
    state.pos = found.end()
    return True


# Prose.


class Paragraph(NamedTuple):
    """The text of a paragraph or heading, the 1-based line where it starts, and the definitions its links may use."""

    text: str
    line: int
    env: Mapping[str, Any]

    @property
    def plain(self) -> bool:
        """Return whether nothing in it can be anything but prose."""
        return not _SPECIAL.search(self.text)

    @property
    def unreadable(self) -> bool:
        """Return whether reading it would take minutes."""
        return self.text.count("[") + self.text.count("<") > _MAX_BRACKETS

    def prose(self) -> str:
        """Return the text with NUL for each character that is no prose; lines stay lines."""
        spans: list[tuple[int, int]] = []
        _prose_parser().inline.parse(self.text, _prose_parser(), {**self.env, "whole": self.text, "spans": spans}, [])
        pieces, read = [], 0
        for start, end in sorted(spans):  # those of a link before those in its text
            if end > read:
                pieces += [self.text[read:start], _KEPT.sub("\0", self.text[max(read, start) : end])]
                read = end
        kept = "".join([*pieces, self.text[read:]])
        return _ELSE.sub(lambda found: _KEPT.sub("\0", found[0]), kept)


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs and headings below the frontmatter of a text; long rows of brackets line by line."""
    text = _NEWLINE.sub("\n", text)
    _, body = split_frontmatter(text)
    above = text.count("\n", 0, body) + 1
    tokens, env = list["Token"](), dict[str, Any]()
    _prose_parser().block.parse(text[body:], _prose_parser(), env, tokens)
    for token in tokens:
        if token.type == "inline" and token.map:
            whole = Paragraph(token.content, token.map[0] + above, env)
            if whole.unreadable:
                yield from (Paragraph(line, at, env) for at, line in enumerate(whole.text.split("\n"), whole.line))
            else:
                yield whole


@cache
def _prose_parser() -> MarkdownIt:
    """Make a CommonMark parser that notes where what is no prose stands."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import autolink, backtick, html_inline, image, link

    parser = MarkdownIt("commonmark", {"maxNesting": 100})
    parser.disable(["emphasis", "entity", "newline"])
    rules = {"backticks": backtick, "link": link, "image": image, "autolink": autolink, "html_inline": html_inline}
    for name, rule in rules.items():
        parser.inline.ruler.at(name, _noting(rule))
    return parser


def _noting(rule: _Rule) -> _Rule:
    def noted(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
        at = state.pos
        matched = rule(state, silent)
        if matched and not silent and state.src is state.env["whole"]:  # else it is a part, which counts from its start
            state.env["spans"].append((at, state.pos))
        return matched

    return noted

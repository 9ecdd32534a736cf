"""Links in markdown text, found as CommonMark reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_NEWLINE = re.compile(r"\r\n?")
# Where a link could start that leads neither to a URL nor to a place in the same note: most files have none.
_LOCAL = re.compile(r"\[\[|\](?:\(|:)\s*+<?+(?!https?://|mailto:|#)")
_BRACKET = re.compile(r"\[")
_WIKI = re.compile(r"\[\[([^\[\]\n]+)\]\]")
_MAX_BRACKETS = 1_000  # reading takes the square of them


class Target(NamedTuple):
    """A link's target as written, the 0-based line it is on, and whether it is a wiki link."""

    written: str
    line: int
    wiki: bool = False


def inline_links(text: str) -> tuple[list[Target], list[str]]:
    """Give the links of a markdown text in order of line, and what could not be read.

    Links in code, comments and HTML are not links, nor are images. A reference definition is one, on its own line,
    unless an image uses it.
    """
    if not _LOCAL.search(text):
        return [], []
    markdown, tokens, env = _parser(), list["Token"](), dict[str, Any]()
    markdown.block.parse(_NEWLINE.sub("\n", text), markdown, env, tokens)
    defined = env.get("references", {})
    targets: list[Target] = []
    images: set[str] = set()
    problems: list[str] = []
    for token in tokens:
        if token.type == "inline" and token.map and (_BRACKET if defined else _LOCAL).search(token.content):
            for line, piece in _pieces(token.content, token.map[0], problems):
                _collect(piece, line, env, targets, images)
    targets += [Target(item["href"], item["map"][0]) for item in defined.values() if item["href"] not in images]
    return sorted(targets, key=lambda target: target.line), problems


def _pieces(content: str, line: int, problems: list[str]) -> Iterator[tuple[int, str]]:
    """Give a paragraph whole, or line by line where it holds so many brackets that reading it would take minutes."""
    if _brackets(content) <= _MAX_BRACKETS:
        yield line, content
        return
    for number, piece in enumerate(content.split("\n"), line):
        if _brackets(piece) <= _MAX_BRACKETS:
            yield number, piece
        else:
            problems.append(f"more than {_MAX_BRACKETS} brackets on one line: not read for links (line {number + 1})")


def _brackets(content: str) -> int:
    return content.count("[") + content.count("<")


def _collect(piece: str, line: int, env: dict[str, Any], targets: list[Target], images: set[str]) -> None:
    tokens: list[Token] = []
    _parser().inline.parse(piece, _parser(), env, tokens)
    read = 0
    for token in tokens:
        if token.type == "image":
            images.add(str(token.attrs["src"]))
        elif (at := token.meta.get("at")) is not None:
            line += piece.count("\n", read, at)
            read = at
            wiki = token.type == "wiki_link"
            targets.append(Target(token.content if wiki else str(token.attrs["href"]), line, wiki))


@cache
def _parser() -> MarkdownIt:
    """Make the CommonMark parser, without the rules that no link depends on, and with wiki links."""
    from markdown_it import MarkdownIt

    class Parser(MarkdownIt):
        def normalizeLink(self, url: str) -> str:  # noqa: N802 - the name is the library's
            return url  # as written: what is resolved is a path, not a URL

    parser = Parser("commonmark", {"maxNesting": 100})
    parser.disable(["emphasis", "entity", "newline"])
    parser.inline.ruler.at("link", _link)
    parser.inline.ruler.after("link", "wiki_link", _wiki_link)
    return parser


def _link(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
    """Read a link as CommonMark does and note where it starts."""
    from markdown_it.rules_inline import link

    at, before = state.pos, len(state.tokens)
    matched = link(state, silent)
    if matched and not silent:
        _first_link(state.tokens[before:]).meta["at"] = at
    return matched


def _first_link(tokens: Sequence[Token]) -> Token:
    return next(token for token in tokens if token.type == "link_open")


def _wiki_link(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
    """Read `[[target]]` where CommonMark sees no link; an embed, `![[target]]`, is none."""
    found = _WIKI.match(state.src, state.pos)
    if not found or state.src[state.pos - 1 : state.pos] == "!":
        return False
    if not silent:
        token = state.push("wiki_link", "", 0)
        token.content, token.meta["at"] = found[1], state.pos
    state.pos = found.end()
    return True

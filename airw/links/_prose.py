"""The prose of a markdown text: its paragraphs and headings, with code, comments, links and addresses blotted out."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from airw._base.frontmatter import split_frontmatter

if TYPE_CHECKING:
    from collections.abc import Callable

    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_NEWLINE = re.compile(r"\r\n?")
_SPECIAL = re.compile(r"[`<\[]|://|www\.")
_ELSE = re.compile(r"!?\[\[[^\[\]\n]+\]\]|\b[A-Za-z][A-Za-z0-9+.-]{0,20}://\S+|\bwww\.\S+")
_KEPT = re.compile(r"[^\n]")
_MAX_BRACKETS = 1_000  # reading takes the square of them


class Paragraph(NamedTuple):
    """The text of a paragraph or heading, the 1-based line where it starts, and the definitions its links may use."""

    text: str
    line: int
    env: Mapping[str, Any]

    @property
    def plain(self) -> bool:
        """Say whether nothing in it can be anything but prose."""
        return not _SPECIAL.search(self.text)

    @property
    def unreadable(self) -> bool:
        """Say whether reading it would take minutes."""
        return self.text.count("[") + self.text.count("<") > _MAX_BRACKETS

    def prose(self) -> str:
        """Give the text with NUL for each character that is no prose; lines stay lines."""
        spans: list[tuple[int, int]] = []
        _parser().inline.parse(self.text, _parser(), {**self.env, "whole": self.text, "spans": spans}, [])
        pieces, read = [], 0
        for start, end in sorted(spans):  # those of a link before those in its text
            if end > read:
                pieces += [self.text[read:start], _KEPT.sub("\0", self.text[max(read, start) : end])]
                read = end
        kept = "".join([*pieces, self.text[read:]])
        return _ELSE.sub(lambda found: _KEPT.sub("\0", found[0]), kept)


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Give the paragraphs and headings of a markdown text below its frontmatter; long rows of brackets line by line."""
    text = _NEWLINE.sub("\n", text)
    _, body = split_frontmatter(text)
    above = text.count("\n", 0, body) + 1
    tokens, env = list["Token"](), dict[str, Any]()
    _parser().block.parse(text[body:], _parser(), env, tokens)
    for token in tokens:
        if token.type == "inline" and token.map:
            whole = Paragraph(token.content, token.map[0] + above, env)
            if whole.unreadable:
                yield from (Paragraph(line, at, env) for at, line in enumerate(whole.text.split("\n"), whole.line))
            else:
                yield whole


@cache
def _parser() -> "MarkdownIt":
    """Make a CommonMark parser that notes where what is no prose stands."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import autolink, backtick, html_inline, image, link

    parser = MarkdownIt("commonmark", {"maxNesting": 100})
    parser.disable(["emphasis", "entity", "newline"])
    rules = {"backticks": backtick, "link": link, "image": image, "autolink": autolink, "html_inline": html_inline}
    for name, rule in rules.items():
        parser.inline.ruler.at(name, _noting(rule))
    return parser


def _noting(rule: "Callable[[StateInline, bool], bool]") -> "Callable[[StateInline, bool], bool]":
    def noted(state: "StateInline", silent: bool) -> bool:  # noqa: FBT001 - the signature is the library's
        at = state.pos
        matched = rule(state, silent)
        if matched and not silent and state.src is state.env["whole"]:  # else it is a part, which counts from its start
            state.env["spans"].append((at, state.pos))
        return matched

    return noted

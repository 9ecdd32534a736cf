"""What the texts of a document must contain, and the operators in a query that say so."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from airw._base.checks import check_strings
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.values.analysers import Analyser

_ENDS = r".,;:?!)\u2026\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f"
_QUOTES = '"\u201c\u201d\u201e'
# A phrase, or a word that ends with a star; before either a minus leaves out. A word after a minus begins with two
# letters, as "-5" is a number and "-m" an option of a program. All stand between spaces, brackets or punctuation.
_OPERATORS = re.compile(
    rf"""(?<![^\s(]) (?: (?P<minus>-)? [{_QUOTES}] (?P<phrase> [^{_QUOTES}]+ ) [{_QUOTES}]
    | (?P<before>-)? (?P<prefix> \w[^\s{_QUOTES}*]+ ) \*
    | - (?P<word> [^\W\d_]{{2}} [^\s{_QUOTES}*]*+ ) ) (?! [^\s{_ENDS}] )""",
    re.VERBOSE,
)
_MOST = 32  # terms of a query


@dataclass(frozen=True, slots=True)
class Contains:
    """What the texts of a document must contain, and what not.

    A term is a word, or several as they follow each other in one text; or the beginning of a word, with a `*` after it.
    Terms are compared as a lexical search compares words: in an English corpus by their stems,
    but a beginning by the words as they are. The terms of a document may be in different records of it.

    Args:
        every: The terms that a document must contain, each of them.
        none: The terms that it must not contain.

    Raises:
        ArgumentError: If there is no term at all, more than 32, or one without a word.

    Example:
        >>> Contains(every=("connection pool", "time*"), none=("redis",))
        Contains(every=('connection pool', 'time*'), none=('redis',))
    """

    every: tuple[str, ...] = ()
    none: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("every", "none"):
            object.__setattr__(self, name, tuple(check_strings(name, getattr(self, name))))
        terms = (*self.every, *self.none)
        if not 1 <= len(terms) <= _MOST:
            raise ArgumentError(f"contains must have 1 to {_MOST} terms, not {len(terms)}")
        for term in terms:
            if not _is_term(term):
                has = "one word before its *" if term.endswith("*") else "a word"
                raise ArgumentError(f"a term of contains must have {has}, unlike {short_repr(term)}")

    @property
    def beginnings(self) -> tuple[str, ...]:
        """Return the beginnings of words that a document must contain, each with its `*`."""
        return tuple(term for term in self.every if term.endswith("*"))


def _is_term(term: str) -> bool:
    words = Analyser(None).terms(term)
    return len(words) == 1 if term.endswith("*") else bool(words)


class ParsedQuery(NamedTuple):
    """A query whose operators have been read.

    Args:
        text: The words to search for, without operators and without those to leave out.
        contains: What the operators say; `None` if there are none.
    """

    text: str
    contains: Contains | None


def read_operators(query: str) -> ParsedQuery:
    """Return the plain words of a query, and what its operators say.

    `"connection pool"` must be there as it is, `time*` as the beginning of a word, and `-redis`, `-"a phrase"` or
    `-time*` must not. All else has no meaning: a hyphen or a star inside a word, a quote without another one, a
    minus before a number or a single letter.

    Raises:
        ArgumentError: If the query has only words to leave out, or more than 32 terms.

    Example:
        >>> read_operators('"connection pool" time* -redis')
        ParsedQuery(text='connection pool time', contains=Contains(every=('connection pool', 'time*'), none=('redis',)))
        >>> read_operators("pre-commit at -5 degrees")
        ParsedQuery(text='pre-commit at -5 degrees', contains=None)
    """
    every, none = list[str](), list[str]()

    def read(match: re.Match[str]) -> str:
        phrase, prefix = match["phrase"], match["prefix"]
        words = phrase or prefix or match["word"]
        term = " ".join(words.replace("*", " ").split()) + ("*" if prefix else "")
        if not _is_term(term):
            return match[0]
        is_left_out = bool(match["minus"] or match["before"] or match["word"])
        (none if is_left_out else every).append(term)
        return "" if is_left_out else words

    text = " ".join(_OPERATORS.sub(read, query).split())
    if not every and not none:
        return ParsedQuery(query, None)
    if not Analyser(None).terms(text):
        raise ArgumentError(
            f"query must have words to search for beside those to leave out, unlike {short_repr(query)}; add a word"
        )
    return ParsedQuery(text, Contains(tuple(dict.fromkeys(every)), tuple(dict.fromkeys(none))))

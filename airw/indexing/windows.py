"""Where to cut a text into chunks, measured in characters or in tokens."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import index
from typing import Any, Protocol, TypeAlias

from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.indexing._identity import identity
from airw.values import Surface

Offsets: TypeAlias = Sequence[tuple[int, int]]

_INK = re.compile(r"\S")
_WORD_START = re.compile(r"(?<=\s)\S")
# Where to cut, best first: blank lines, line ends, sentence ends, any white space.
_CUTS = tuple(map(re.compile, (r"\n[ \t\r]*\n", r"\n", r"[.!?…][\"'”’)\]]*\s|[。！？](?=.)", r"\s")))  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class TokenOffsets:
    """What `token_offsets` makes of a tokenizer: a function of a text; those with the same id are equal.

    Args:
        function: Gives the offsets of the tokens of a text.
        id: Names the tokenizer.
    """

    function: Callable[[str], Offsets] = field(repr=False, compare=False)
    id: str

    def __call__(self, text: str) -> Offsets:
        """Return `(start, end)` of each token of a text, in order.

        Raises:
            ArgumentError: The tokenizer gave something else.
        """
        given = self.function(text)
        try:
            found = [(index(start), index(end)) for start, end in given]
        except (TypeError, ValueError) as error:
            raise self._unusable(given) from error
        last = len(text)
        for (start, end), (after, further) in pairwise([(0, 0), *found, (last, last)]):
            if not start <= after <= further or end > further:
                raise self._unusable((after, further) if further < last else (start, end))
        return found

    def _unusable(self, found: object) -> ArgumentError:
        must = "the (start, end) of each token in its text, in order, without special tokens"
        return ArgumentError(f"a tokenizer must give {must}; {self.id} gave {short_repr(found)}")


def token_offsets(tokenizer: Any, *, id: str | None = None) -> TokenOffsets:
    r"""Make a function that gives the `(start, end)` of each token of a text, in order.

    Strategies do so themselves with the tokenizer they are given; an `id` of your own is a reason to do it for them.

    Args:
        tokenizer: Such a function; or a `tokenizers.Tokenizer` or a fast tokenizer of `transformers`, of which a copy
            is used that adds no special tokens and cuts nothing off.
        id: Names the tokenizer; left out, a function is named by `identity`, one of those libraries by its content.

    Raises:
        ArgumentError: It is none of these, or a function without a stable identity and an `id`.

    Example:
        >>> import re
        >>> words = token_offsets(lambda text: [word.span() for word in re.finditer(r"\w+", text)], id="words-1")
        >>> words, words("one two")
        (TokenOffsets(id='words-1'), [(0, 3), (4, 7)])
    """
    if id is not None and (not isinstance(id, str) or not id.strip()):
        raise ArgumentError(f"id must name the tokenizer and its version, not be {short_repr(id)}")
    made = tokenizer if isinstance(tokenizer, TokenOffsets) else _adapted(tokenizer, id)
    return made if id is None else replace(made, id=id)


def _adapted(tokenizer: Any, id: str | None) -> TokenOffsets:
    library = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(library, "to_str") and hasattr(library, "encode"):
        return _copied(library)
    if not callable(tokenizer) or hasattr(tokenizer, "is_fast"):
        kinds = "a function of a text, a tokenizers.Tokenizer or a fast tokenizer of transformers"
        raise ArgumentError(f"a tokenizer is {kinds}, not {short_repr(tokenizer)}")
    return TokenOffsets(tokenizer, id or identity(tokenizer))


def _copied(library: Any) -> TokenOffsets:
    """Copy a tokenizer, as cutting off and padding are its own settings, which others may rely on."""
    copy = type(library).from_str(library.to_str())
    copy.no_truncation()
    copy.no_padding()

    def offsets(text: str) -> Offsets:
        found: Offsets = copy.encode(text, add_special_tokens=False).offsets
        return found

    return TokenOffsets(offsets, f"tokenizer-{identity(copy.to_str())}")


class Ruler(Protocol):
    """Measures one text; `size` and `overlap` are in its units."""

    size: int
    overlap: int

    def ahead(self, position: int, units: int) -> int:
        """Return the furthest end of at most so many units from a position, past it in any case."""
        ...

    def back(self, position: int, units: int) -> int:
        """Return the earliest start of at most so many units up to a position."""
        ...

    def excess(self, start: int, end: int) -> int:
        """Count the units beyond `size` that a part of the text has when it stands alone."""
        ...


@dataclass(frozen=True, slots=True)
class Window:
    """What strategies cut by: so many characters, or so many tokens of a tokenizer.

    Raises:
        ArgumentError: A number is out of its range, or of `max_tokens` and `tokenizer` one is given alone.
    """

    chunk_size: int
    overlap: int
    max_tokens: int | None = None
    tokenizer: Any = None

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        size = check_count("chunk_size", self.chunk_size, least=1)
        if check_count("overlap", self.overlap) >= size:
            raise ArgumentError(f"overlap must be smaller than chunk_size ({size}), not {self.overlap}")
        if (self.max_tokens is None) != (self.tokenizer is None):
            given = f"max_tokens={short_repr(self.max_tokens)} and tokenizer={short_repr(self.tokenizer)}"
            raise ArgumentError(f"a budget of tokens needs both max_tokens and tokenizer, not {given}")
        if self.max_tokens is not None:
            check_count("max_tokens", self.max_tokens, least=1)
            object.__setattr__(self, "tokenizer", token_offsets(self.tokenizer))

    def ruler(self, text: str, begin: int = 0) -> Ruler:
        """Measure a text from `begin` on."""
        if self.max_tokens is None:
            return _Characters(self.chunk_size, self.overlap)
        overlap = round(self.max_tokens * self.overlap / self.chunk_size)
        return _Tokens(text, begin, self.tokenizer, self.max_tokens, overlap)


@dataclass(slots=True)
class _Characters:
    size: int
    overlap: int

    def ahead(self, position: int, units: int) -> int:
        return position + units

    def back(self, position: int, units: int) -> int:
        return position - units

    def excess(self, _start: int, _end: int) -> int:
        return 0


class _Tokens:
    """Counts the tokens that a part of the text touches; what lies between tokens costs nothing."""

    def __init__(self, text: str, begin: int, tokenizer: TokenOffsets, size: int, overlap: int) -> None:
        self.size, self.overlap = size, overlap
        self._text, self._tokenizer = text, tokenizer
        tokens = tokenizer(text[begin:])
        self._starts = [begin + start for start, _ in tokens]
        self._ends = [begin + end for _, end in tokens]

    def ahead(self, position: int, units: int) -> int:
        after = bisect_right(self._ends, position) + units
        # One character can be several tokens: the next place to end at lies behind all of them.
        after = max(after, bisect_right(self._starts, position))
        return self._starts[after] if after < len(self._starts) else len(self._text)

    def back(self, position: int, units: int) -> int:
        before = bisect_left(self._starts, position) - units - 1
        return min(self._ends[before], position) if before >= 0 else 0

    def excess(self, start: int, end: int) -> int:
        return max(0, len(self._tokenizer(self._text[start:end])) - self.size)


def chunk_surfaces(artifact_id: str, text: str, kind: str, window: Window, begin: int = 0) -> list[Surface]:
    """Make the chunk surfaces of `text[begin:]`, with their offsets in the whole `text`."""
    cuts = list(spans(text, window.ruler(text, begin), begin))
    return [
        Surface(
            artifact_id,
            kind,
            text[start:end],
            "chunk",
            {"chunk_index": number, "n_chunks": len(cuts), "start": start, "end": end},
        )
        for number, (start, end) in enumerate(cuts)
    ]


def spans(text: str, ruler: Ruler, begin: int = 0) -> Iterator[tuple[int, int]]:
    """Yield `(start, end)` of chunks that hold every character of `text[begin:]` that is not white space.

    A chunk neither starts nor ends with white space and is at most `ruler.size` long, also when measured alone, unless
    a single token is longer alone; it starts at most `ruler.overlap` before its predecessor's end, after its start, and
    ends after its end.

    Example:
        >>> text = "one two three four"
        >>> list(spans(text, Window(chunk_size=9, overlap=4).ruler(text)))
        [(0, 7), (4, 13), (14, 18)]
    """
    last = begin + len(text[begin:].rstrip())
    start = fresh = _next_ink(text, begin, last)  # `fresh`: the first character that no chunk holds yet
    while fresh < last:
        start, end = _chunk(text, start, fresh, last, ruler)
        yield start, end
        fresh = _next_ink(text, end, last)
        start = _overlapped(text, max(ruler.back(end, ruler.overlap), start + 1), end, fresh, ruler)


def _next_ink(text: str, position: int, last: int) -> int:
    found = _INK.search(text, position, last)
    return found.start() if found else last


def _chunk(text: str, start: int, fresh: int, last: int, ruler: Ruler) -> tuple[int, int]:
    """Cut a chunk; one that is longer alone than in the text, as half a word can be, is cut shorter."""
    size = ruler.size
    while True:
        end = last if ruler.ahead(start, size) >= last else _cut(text, start, fresh, size, ruler)
        end = start + len(text[start:end].rstrip())
        excess = ruler.excess(start, end)
        if not excess or (start == fresh and size == 1):
            return start, end
        size = max(size - excess, 1)
        if start < fresh and ruler.ahead(start, size) <= fresh:
            start, size = fresh, ruler.size  # without an overlap


def _cut(text: str, start: int, fresh: int, size: int, ruler: Ruler) -> int:
    """Find the best cut in the second half of the window, past `fresh` and past the overlap."""
    low = max(ruler.ahead(start, max(size // 2, ruler.overlap + 1)), fresh + 1)
    high = ruler.ahead(start, size)
    for pattern in _CUTS:
        # One character more: white space right behind the window makes its last word a whole one.
        if ends := [found.end() for found in pattern.finditer(text, low, high + 1)]:
            return min(ends[-1], high)
    return high


def _overlapped(text: str, low: int, end: int, fresh: int, ruler: Ruler) -> int:
    """Start the next chunk at the first word in `[low, end)`, leaving room for something fresh."""
    low = max(low, ruler.back(fresh + 1, ruler.size))
    if low >= end:
        return fresh
    found = _WORD_START.search(text, low, end)
    if found:
        return found.start()
    return low if fresh == end else fresh  # half a word only where the cut itself went through it

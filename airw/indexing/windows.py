"""Cut a text into overlapping chunks, measured in characters or in tokens."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
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

_VISIBLE = re.compile(r"\S")
_WORD_START = re.compile(r"(?<=\s)\S")
# Ends of chunks, best first: blank lines, line ends, sentence ends, any white space.
# `。` needs a character after it, so that it lies inside the window itself, not in the one character searched beyond.
_BREAKS = tuple(map(re.compile, (r"\n[ \t\r]*\n", r"\n", r"[.!?…][\"'”’)\]]*\s|[。！？](?=.)", r"\s")))  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class TokenOffsets:
    """A function from a text to the offsets of its tokens; made by `token_offsets`.

    Two objects with the same id are equal, whatever their functions.

    Args:
        function: Returns the offsets of the tokens of a text.
        id: The name of the tokenizer.
    """

    function: Callable[[str], Offsets] = field(repr=False, compare=False)
    id: str

    def __call__(self, text: str) -> Offsets:
        """Return `(start, end)` of each token of a text, in order.

        Raises:
            ArgumentError: If the tokenizer returns anything else.
        """
        answer = self.function(text)
        try:
            tokens = [(index(start), index(end)) for start, end in answer]
        except (TypeError, ValueError) as error:
            raise self._wrong_answer(answer) from error
        # A chunk is cut at these offsets, so a wrong order would lose text. Starts and ends may repeat but not go back.
        last = len(text)
        for (start, end), (next_start, next_end) in pairwise([(0, 0), *tokens]):
            if not start <= next_start <= next_end <= last or end > next_end:
                raise self._wrong_answer((next_start, next_end))
        return tokens

    def _wrong_answer(self, answer: object) -> ArgumentError:
        expected = "the (start, end) of each token in its text, in order, without special tokens"
        return ArgumentError(f"a tokenizer must return {expected}; {self.id} returned {short_repr(answer)}")


def token_offsets(tokenizer: Any, *, id: str | None = None) -> TokenOffsets:
    r"""Return a function from a text to the `(start, end)` of its tokens, in order.

    Strategies call this for their tokenizer. Call it yourself to set an `id`.

    Args:
        tokenizer: A function from a text to these offsets, a `tokenizers.Tokenizer`, or a fast tokenizer of
            `transformers`. Tokenizers of these libraries are copied; the copy adds no special tokens and does not
            truncate.
        id: The name of the tokenizer. Default: the `identity` of a function, or a hash of a library's tokenizer.

    Raises:
        ArgumentError: If `tokenizer` is none of these, or a function with neither a stable identity nor an `id`.

    Example:
        >>> import re
        >>> words = token_offsets(lambda text: [word.span() for word in re.finditer(r"\w+", text)], id="words-1")
        >>> words, words("one two")
        (TokenOffsets(id='words-1'), [(0, 3), (4, 7)])
    """
    if id is not None and (not isinstance(id, str) or not id.strip()):
        raise ArgumentError(f"id must name the tokenizer and its version in a string, not be {short_repr(id)}")
    adapted = tokenizer if isinstance(tokenizer, TokenOffsets) else _adapt(tokenizer, id)
    return adapted if id is None else replace(adapted, id=id)


def _adapt(tokenizer: Any, id: str | None) -> TokenOffsets:
    library = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(library, "to_str") and hasattr(library, "encode"):
        return _copy_library_tokenizer(library)
    # Slow tokenizers of transformers are callable too, but return no offsets.
    if not callable(tokenizer) or hasattr(tokenizer, "is_fast"):
        kinds = "a function of a text, a tokenizers.Tokenizer or a fast tokenizer of transformers"
        raise ArgumentError(f"tokenizer must be {kinds}, not {short_repr(tokenizer)}")
    return TokenOffsets(tokenizer, id or identity(tokenizer))


def _copy_library_tokenizer(library: Any) -> TokenOffsets:
    # Truncation and padding are settings of the tokenizer itself. The caller may rely on them, so change a copy.
    copy = type(library).from_str(library.to_str())
    copy.no_truncation()
    copy.no_padding()

    def offsets(text: str) -> Offsets:
        tokens: Offsets = copy.encode(text, add_special_tokens=False).offsets
        return tokens

    return TokenOffsets(offsets, f"tokenizer-{identity(copy.to_str())}")


class Ruler(Protocol):
    """Measures one text in characters or tokens; `size` and `overlap` are in these units."""

    size: int
    overlap: int

    def ahead(self, position: int, units: int) -> int:
        """Return the last end of a part that starts at `position` and has at most `units` units.

        The end is after `position` even if no part is short enough. It may lie outside the text.
        """
        ...

    def back(self, position: int, units: int) -> int:
        """Return the first start of a part that ends at `position` and has at most `units` units.

        The start may lie outside the text.
        """
        ...

    def excess(self, start: int, end: int) -> int:
        """Return by how many units a part of the text exceeds `size` when measured alone."""
        ...


@dataclass(frozen=True, slots=True)
class Window:
    """The maximum size and overlap of chunks, in characters or in tokens of a tokenizer.

    With `max_tokens`, `chunk_size` is not a limit. It sets only the overlap: `max_tokens * overlap / chunk_size`,
    rounded.

    Raises:
        ArgumentError: If a number is out of range, or only one of `max_tokens` and `tokenizer` is given.
    """

    chunk_size: int
    overlap: int
    max_tokens: int | None = None
    tokenizer: Any = None

    def __post_init__(self) -> None:
        """Check all parameters and adapt the tokenizer."""
        size = check_count("chunk_size", self.chunk_size, least=1)
        if check_count("overlap", self.overlap) >= size:
            raise ArgumentError(f"overlap must be smaller than chunk_size ({size}), not {self.overlap}")
        if (self.max_tokens is None) != (self.tokenizer is None):
            values = f"max_tokens={short_repr(self.max_tokens)} and tokenizer={short_repr(self.tokenizer)}"
            raise ArgumentError(f"max_tokens and tokenizer need each other, not {values}; pass both or neither")
        if self.max_tokens is not None:
            check_count("max_tokens", self.max_tokens, least=1)
            object.__setattr__(self, "tokenizer", token_offsets(self.tokenizer))

    def ruler(self, text: str, begin: int = 0) -> Ruler:
        """Return a ruler for `text[begin:]`; its positions count in the whole text."""
        if self.max_tokens is None:
            return _Characters(self.chunk_size, self.overlap)
        # In tokens, the overlap is the same share of a chunk, rounded. It may be as large as a chunk: a start always
        # advances.
        overlap = round(self.max_tokens * self.overlap / self.chunk_size)
        return _Tokens(text, begin, self.tokenizer, self.max_tokens, overlap)


class Windowed:
    """The base class of strategies that cut texts; a dataclass adds the fields."""

    __slots__ = ()
    chunk_size: int
    overlap: int
    max_tokens: int | None
    tokenizer: Any

    def __post_init__(self) -> None:
        """Check all parameters."""
        # The adapted tokenizer has an id, so that `repr` and equality do not depend on the object the caller passed.
        object.__setattr__(self, "tokenizer", self._window.tokenizer)

    @property
    def _window(self) -> Window:
        return Window(self.chunk_size, self.overlap, self.max_tokens, self.tokenizer)

    @property
    def id(self) -> str:
        """The name of the strategy and its parameters; builds compare it to notice a change."""
        return repr(self)


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
    """A ruler that counts the tokens a part of the text touches.

    Characters between tokens are free. The text is tokenized once. Positions are then looked up in the sorted starts
    and ends of its tokens.
    """

    def __init__(self, text: str, begin: int, tokenizer: TokenOffsets, size: int, overlap: int) -> None:
        self.size, self.overlap = size, overlap
        self._text, self._tokenizer = text, tokenizer
        tokens = tokenizer(text[begin:])
        self._starts = [begin + start for start, _ in tokens]
        self._ends = [begin + end for _, end in tokens]

    def ahead(self, position: int, units: int) -> int:
        # The part may reach up to the first token that it must not touch.
        first_outside = bisect_right(self._ends, position) + units
        # One character can be several tokens, such as an emoji. The part must end after all of them.
        first_outside = max(first_outside, bisect_right(self._starts, position))
        return self._starts[first_outside] if first_outside < len(self._starts) else len(self._text)

    def back(self, position: int, units: int) -> int:
        last_outside = bisect_left(self._starts, position) - units - 1
        # A character of several tokens: the last token outside may end after `position`.
        return min(self._ends[last_outside], position) if last_outside >= 0 else 0

    def excess(self, start: int, end: int) -> int:
        return max(0, len(self._tokenizer(self._text[start:end])) - self.size)


def chunk_surfaces(
    artifact_id: str, text: str, kind: str, window: Window, *, fields: Mapping[str, Any], begin: int = 0
) -> list[Surface]:
    """Return the chunk surfaces of `text[begin:]`; their offsets count in the whole `text`.

    No metadata of a chunk replaces one of the `fields` of the artifact. If `start` or `end` is one of them, the
    offsets are in `span`.
    """
    cuts = list(spans(text, window.ruler(text, begin), begin))
    has_dates = "start" in fields or "end" in fields
    surfaces = []
    for number, (start, end) in enumerate(cuts):
        offsets = {"span": [start, end]} if has_dates else {"start": start, "end": end}
        chunk = {"chunk_index": number, "n_chunks": len(cuts), **offsets}
        metadata = {name: value for name, value in chunk.items() if name not in fields}
        surfaces.append(Surface(artifact_id, kind, text[start:end], "chunk", metadata))
    return surfaces


def spans(text: str, ruler: Ruler, begin: int = 0) -> Iterator[tuple[int, int]]:
    """Yield `(start, end)` of chunks that cover `text[begin:]`, except white space.

    A chunk neither starts nor ends with white space. It is at most `ruler.size` long, also when measured alone; only a
    chunk that cannot be cut further can be longer. It starts after the start of the previous chunk and ends after that
    chunk's end. It repeats at most `ruler.overlap` of that chunk.

    Example:
        >>> text = "one two three four"
        >>> list(spans(text, Window(chunk_size=9, overlap=4).ruler(text)))
        [(0, 7), (4, 13), (14, 18)]
    """
    last = begin + len(text[begin:].rstrip())
    start = fresh = _next_visible(text, begin, last)  # `fresh`: the first character that is in no chunk yet
    while fresh < last:
        start, end = _next_chunk(text, start, fresh, last, ruler)
        yield start, end
        fresh = _next_visible(text, end, last)
        start = _overlap_start(text, max(ruler.back(end, ruler.overlap), start + 1), end, fresh, ruler)


def _next_visible(text: str, position: int, last: int) -> int:
    match = _VISIBLE.search(text, position, last)
    return match.start() if match else last


def _next_chunk(text: str, start: int, fresh: int, last: int, ruler: Ruler) -> tuple[int, int]:
    """Return the next chunk; it contains at least the character at `fresh`."""
    size = ruler.size
    while True:
        end = last if ruler.ahead(start, size) >= last else _best_end(text, start, fresh, size, ruler)
        end = start + len(text[start:end].rstrip())
        # A chunk can have more tokens alone than inside the text: half a word can become several. Then cut it shorter.
        excess = ruler.excess(start, end)
        # A chunk without overlap and of one unit cannot be cut further.
        if not excess or (start == fresh and size == 1):
            return start, end
        size = max(size - excess, 1)
        # No room is left for new text after the overlap: begin again, without an overlap.
        if start < fresh and ruler.ahead(start, size) <= fresh:
            start, size = fresh, ruler.size


def _best_end(text: str, start: int, fresh: int, size: int, ruler: Ruler) -> int:
    """Return the best end of a chunk, in the second half of the longest chunk from `start`.

    If there is no break, return the end of that longest chunk.
    """
    # A chunk must contain new text, and be longer than the overlap: otherwise the next one repeats nearly all of it.
    low = max(ruler.ahead(start, max(size // 2, ruler.overlap + 1)), fresh + 1)
    high = ruler.ahead(start, size)
    for pattern in _BREAKS:
        # Look one character further: white space just after the window shows that its last word is complete.
        if ends := [match.end() for match in pattern.finditer(text, low, high + 1)]:
            return min(ends[-1], high)
    return high


def _overlap_start(text: str, low: int, end: int, fresh: int, ruler: Ruler) -> int:
    """Return the start of the next chunk in `[low, end)`, or `fresh` for no overlap."""
    # A chunk that starts here must still have room for at least one new character.
    low = max(low, ruler.back(fresh + 1, ruler.size))
    if low >= end:
        return fresh
    match = _WORD_START.search(text, low, end)
    if match:
        return match.start()
    # There is no start of a word. Begin inside a word only if the previous chunk ended inside that word.
    return low if fresh == end else fresh

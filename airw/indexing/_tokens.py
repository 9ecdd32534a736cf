"""Tokenizers: where the tokens of a text lie in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import index
from typing import Any, TypeAlias

from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.indexing._identity import identity

Offsets: TypeAlias = Sequence[tuple[int, int]]


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
        """Give `(start, end)` of each token of a text, in order.

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

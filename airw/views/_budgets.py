"""How much of a document notes take, and whether another one fits; pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.views.bundled import Bundle, BundledNote, Form

__all__ = ["ESTIMATE", "Budget", "Counts", "estimated_tokens"]

ESTIMATE = "tokens are estimated, one for 4 bytes of UTF-8"
"""What a bundle says of tokens that no tokenizer has counted."""

_DIGITS = 10  # of a count that is not known yet
_OF_WALKS = ("max_edges", "max_fanout", "max_frontier", "max_hops", "max_nodes", "timeout")


def estimated_tokens(text: str) -> int:
    """Estimate how many tokens a text has: one for every four bytes of UTF-8, rounded up.

    Example:
        >>> estimated_tokens("signing keys"), estimated_tokens("鍵")
        (3, 1)
    """
    return -(-len(text.encode()) // 4)


@dataclass(slots=True)
class Budget:
    """So much of a document, measured; `used` counts its frame, as it is when every limit was spent."""

    limit: str
    most: int
    measure: Callable[[str], int]
    form: Form
    frame: Bundle
    used: int = 0

    def __post_init__(self) -> None:
        """Measure the frame.

        Raises:
            ArgumentError: There is no room for it.
        """
        self.used = self._of_document(())
        if self.used > self.most:
            raise ArgumentError(f"{self.limit} must be at least {self.used}, to say what was left out, not {self.most}")

    def _of_document(self, notes: Sequence[BundledNote]) -> int:
        document = self.form.whole(replace(self.frame, notes=tuple(notes)))
        return self.measure(document + "9" * _DIGITS)

    def with_note(self, notes: Sequence[BundledNote], note: BundledNote) -> int | None:
        """Give what is used once a note is in beside these; `None` where it does not fit."""
        used = self.used + self.measure(self.form.note(note))
        if used <= self.most and self.measure is not len:  # the tokens of parts need not add up to those of the whole
            used = self._of_document([*notes, note])
        return used if used <= self.most else None


class Counts(NamedTuple):
    """What may be printed."""

    max_chars: int | None
    max_tokens: int | None
    count_tokens: Callable[[str], int] | None

    def budgets(self, form: Form, empty: Bundle, *, walks: bool) -> list[Budget]:
        """Give the budgets there are."""
        if self.count_tokens is not None and (self.max_tokens is None or not callable(self.count_tokens)):
            raise ArgumentError(
                "count_tokens= needs max_tokens="
                if self.max_tokens is None
                else f"count_tokens must be a function of a text, not {short_repr(self.count_tokens)}"
            )
        asked = [("max_chars", self.max_chars, len), ("max_tokens", self.max_tokens, self._tokens)]
        given = [
            (limit, check_count(limit, most, least=1), measure) for limit, most, measure in asked if most is not None
        ]
        limits = [limit for limit, _, _ in given] + (list(_OF_WALKS) if walks else [])
        frame = replace(
            empty,
            left_out=dict.fromkeys(limits, 10**_DIGITS - 1),
            at_least=tuple(limits),
            unknown=tuple(limits) if walks else (),
        )
        return [Budget(limit, most, measure, form, frame) for limit, most, measure in given]

    def _tokens(self, text: str) -> int:
        count = (self.count_tokens or estimated_tokens)(text)
        return check_count("what count_tokens gives", count)

"""Budgets of a stream: how many hits, characters or tokens a client wants to receive."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias

from airw._base.checks import check_count
from airw.values import SearchHit
from airw.views.bundling import cut_to_tokens, estimate_tokens

BudgetName: TypeAlias = Literal["max_hits", "max_chars", "max_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBudget:
    """The budgets of one stream; `None` for none.

    Args:
        max_hits: The number of hits.
        max_chars: The number of characters of their texts.
        max_tokens: The number of tokens of their texts, as `airw.views.estimate_tokens` estimates them.

    Raises:
        ArgumentError: If a budget is not a whole number of at least 1.

    Example:
        >>> StreamBudget(max_chars=2_000).is_unlimited
        False
    """

    max_hits: int | None = None
    max_chars: int | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check the budgets."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                check_count(field.name, value, least=1)

    @property
    def is_unlimited(self) -> bool:
        """Return whether there is no budget."""
        return self == StreamBudget()


class BudgetCount:
    """What a stream has used of its budgets.

    The hit that uses up a budget ends the stream. If it does not fit, the beginning of its text is sent that does. So
    the hits of a stream are the first ones of its walk, without a gap, and there is always one.

    Attributes:
        ended_by: The budget that ended the stream; `None` while there is room.
        has_cut: True if the last hit was cut.

    Example:
        >>> count = BudgetCount(StreamBudget(max_chars=10))
        >>> hits = [count.fit(SearchHit("a", "chunk", 1.0, text)) for text in ("six ch", "seven c", "x")]
        >>> [hit and hit.text for hit in hits], count.ended_by
        (['six ch', 'seve', None], 'max_chars')
    """

    def __init__(self, budget: StreamBudget) -> None:
        """Start with nothing used."""
        left = {field.name: getattr(budget, field.name) for field in fields(budget)}
        self._left: dict[BudgetName, int] = {name: most for name, most in left.items() if most is not None}  # type: ignore[misc]
        self.ended_by: BudgetName | None = None
        self.has_cut: bool = False

    def fit(self, hit: SearchHit) -> SearchHit | None:
        """Return a hit as it may be sent, and count it: the hit itself, or a copy with less text.

        It is `None` once the stream has ended.
        """
        if self.ended_by is not None:
            return None
        cost = {name: _COSTS[name](hit) for name in self._left}
        self.ended_by = next((name for name, left in self._left.items() if cost[name] > left), None)
        if self.ended_by is not None:
            self.has_cut = True
            text = hit.text[: self._left.get("max_chars")]
            return replace(hit, text=cut_to_tokens(text, self._left.get("max_tokens", len(text))))
        self._left = {name: left - cost[name] for name, left in self._left.items()}
        self.ended_by = next((name for name, left in self._left.items() if left == 0), None)
        return hit


_COSTS: Mapping[BudgetName, Callable[[SearchHit], int]] = {
    "max_hits": lambda _: 1,
    "max_chars": lambda hit: len(hit.text),
    "max_tokens": lambda hit: estimate_tokens(hit.text),
}

"""Budgets of a stream: how many hits, characters or tokens a client wants to receive."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from airw._base.checks import check_count
from airw.values import SearchHit
from airw.views.bundling import estimate_tokens

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

    The first hit that does not fit ends the stream, and so does the hit that uses up a budget. So the hits of a stream
    are the first ones of its walk, without a gap.

    Attributes:
        ended_by: The budget that ended the stream; `None` while there is room.

    Example:
        >>> count = BudgetCount(StreamBudget(max_chars=10))
        >>> texts = ["six ch", "four", "x"]
        >>> [count.take(SearchHit("a", "chunk", 1.0, text)) for text in texts], count.ended_by
        ([True, True, False], 'max_chars')
    """

    def __init__(self, budget: StreamBudget) -> None:
        """Start with nothing used."""
        left = {field.name: getattr(budget, field.name) for field in fields(budget)}
        self._left: dict[BudgetName, int] = {name: most for name, most in left.items() if most is not None}  # type: ignore[misc]
        self.ended_by: BudgetName | None = None

    def take(self, hit: SearchHit) -> bool:
        """Return whether a hit fits, and count it if it does."""
        if self.ended_by is not None:
            return False
        cost = {name: _COSTS[name](hit) for name in self._left}
        self.ended_by = next((name for name, left in self._left.items() if cost[name] > left), None)
        if self.ended_by is not None:
            return False
        self._left = {name: left - cost[name] for name, left in self._left.items()}
        self.ended_by = next((name for name, left in self._left.items() if left == 0), None)
        return True


_COSTS: Mapping[BudgetName, Callable[[SearchHit], int]] = {
    "max_hits": lambda _: 1,
    "max_chars": lambda hit: len(hit.text),
    "max_tokens": lambda hit: estimate_tokens(hit.text),
}

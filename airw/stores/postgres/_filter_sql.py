"""Filters as SQL conditions on a PostgreSQL server, with exactly the results of `filters.matches`."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Parameters:
    """The parameters of one statement, in their order.

    Example:
        >>> parameters = Parameters()
        >>> parameters.add(["a"], "text[]"), parameters.add(5, "bigint"), parameters.values
        ('$1::text[]', '$2::bigint', [['a'], 5])
    """

    values: list[Any] = field(default_factory=list)

    def add(self, value: Any, type: str) -> str:
        """Add a value, and return the SQL that stands for it."""
        self.values.append(value)
        return f"${len(self.values)}::{type}"

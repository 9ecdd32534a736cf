"""The mark of a method whose docstring is that of the protocol or base it implements."""

from typing import TYPE_CHECKING, Any

__all__ = ["override"]

if TYPE_CHECKING:  # for Python itself from 3.12 on
    from typing_extensions import override
else:

    def override(method: Any) -> Any:
        """Return the method; checkers look for what it overrides."""
        return method

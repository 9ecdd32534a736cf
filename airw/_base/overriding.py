"""What classes override: a decorator for methods."""

from typing import TYPE_CHECKING, Any

__all__ = ["override"]

if TYPE_CHECKING:  # Python 3.12 has it in `typing`
    from typing_extensions import override
else:

    def override(method: Any) -> Any:
        """Return the method unchanged; type checkers check that it overrides another one."""
        return method

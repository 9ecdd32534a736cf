"""The decorator of methods whose docstring is the one of their protocol or base class."""

from typing import TYPE_CHECKING, Any

__all__ = ["override"]

if TYPE_CHECKING:  # Python 3.12 has it in `typing`
    from typing_extensions import override
else:

    def override(method: Any) -> Any:
        """Return the method unchanged; type checkers check that it overrides another one."""
        return method

"""What classes override: a decorator for methods, and a look at subclasses."""

from typing import TYPE_CHECKING, Any

__all__ = ["is_newer", "override"]

if TYPE_CHECKING:  # Python 3.12 has it in `typing`
    from typing_extensions import override
else:

    def override(method: Any) -> Any:
        """Return the method unchanged; type checkers check that it overrides another one."""
        return method


def is_newer(kind: type, name: str, other: str) -> bool:
    """Return whether a subclass has its own method `name`, but inherits `other`.

    Then the inherited method may answer what the new one hides.
    """
    owners = [next((base for base in kind.__mro__ if each in vars(base)), object) for each in (name, other)]
    return owners[0] is not owners[1] and issubclass(*owners)

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
    """Return whether a class takes its method `name` from before the one that has `other`.

    Then the inherited `other` may answer what a subclass, or a class mixed in before the others, hides in `name`.
    """
    order = kind.__mro__
    owners = [next((base for base in order if each in vars(base)), object) for each in (name, other)]
    return order.index(owners[0]) < order.index(owners[1])

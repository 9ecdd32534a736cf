"""The defaults of the library, as help texts show them.

The parser repeats none of them: an option that was not given is not passed on, so the library decides.
"""

import inspect
from functools import cache
from pkgutil import resolve_name
from typing import Any


def default_text(place: str) -> str | None:
    """Return the default of a parameter as text, or `None` if it means "not set".

    Args:
        place: The function or class and its parameter, such as `airw.search:k`.

    Example:
        >>> default_text("airw.search:k")
        '10'
    """
    value = read_default(place)
    if value is None or value is ... or value == () or value is False:
        return None
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


@cache
def read_default(place: str) -> Any:
    """Return the default of a parameter.

    Args:
        place: The function or class and its parameter, such as `airw.search:k`.
    """
    path, _, name = place.partition(":")
    parameter = inspect.signature(resolve_name(path)).parameters[name]
    if parameter.default is parameter.empty:
        raise LookupError(f"{place} has no default")
    return parameter.default

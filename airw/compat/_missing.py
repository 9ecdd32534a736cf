"""Names that another library has and airw has not: asking for one says what to write instead."""

from collections.abc import Callable, Mapping
from typing import Any


def missing(module: str, instead: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module: an `ImportError` for the names told, an `AttributeError` for all others.

    A line for `"*"` holds for every name that has none of its own.

    Example:
        >>> missing("airw.compat.ir.schedule", {"*": "have cron call `airw maintain`"})("install")
        Traceback (most recent call last):
            ...
        ImportError: airw.compat.ir.schedule has no install: have cron call `airw maintain`
    """

    def get(name: str) -> Any:
        line = instead.get(name, instead.get("*"))
        if line is None or name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise ImportError(f"{module} has no {name}: {line}")

    return get

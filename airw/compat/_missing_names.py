"""Errors for names that another library has and airw does not."""

from collections.abc import Callable, Mapping
from typing import Any


def explain_missing(module: str, instead: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module that names the replacement of a missing name.

    Names in `instead` raise an `ImportError` with their replacement. Other names raise an `AttributeError`, unless
    there is an entry `"*"`, which applies to all of them.

    Example:
        >>> explain_missing("airw.compat.ir.schedule", {"*": "let cron run `airw maintain`"})("install")
        Traceback (most recent call last):
            ...
        ImportError: airw.compat.ir.schedule has no install: let cron run `airw maintain`
    """

    def get(name: str) -> Any:
        replacement = instead.get(name, instead.get("*"))
        if replacement is None or name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise ImportError(f"{module} has no {name}: {replacement}")

    return get

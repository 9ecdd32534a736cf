"""Packages whose names are imported when they are first used, so that `import airw` stays light (PEP 562)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], instead: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package.

    Args:
        package: The package, `__name__` in its `__init__`.
        homes: The names that each of its modules defines. A module may be asked for by its name, too. One outside the
            package has its whole path.
        instead: Names that are not here, each with what to write instead. To ask for one is an `ImportError` that says
            so, and that `from … import` shows.

    Example:
        >>> getattr_, dir_ = lazy_names("airw", {"values": ["Edge"]})
        >>> getattr_("Edge").__name__, dir_()
        ('Edge', ['Edge', 'values'])
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    modules = {home: home if home.startswith("airw.") else f"{package}.{home}" for home in homes}

    def get(name: str) -> Any:
        if name in home_of:
            value = getattr(import_module(modules[home_of[name]]), name)
            setattr(sys.modules[package], name, value)  # found without us from now on
            return value
        if name in modules:
            return import_module(modules[name])
        if instead is not None and name in instead:
            raise ImportError(f"{package} has no {name}: {instead[name]}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*home_of, *(module for module in modules if "." not in module and module[0] != "_")})

    return get, names

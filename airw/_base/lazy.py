"""Lazy imports of the names of a package (PEP 562), so that `import airw` stays light."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, Sequence[str]],
    *,
    extra: str | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package.

    Args:
        package: The name of the package: `__name__` in its `__init__`.
        homes: The names that each of its modules defines. The modules themselves are attributes too. A module outside
            the package is written with its full path.
        extra: The extra of airw that the modules need; without its packages, a name raises an error that names it.

    Example:
        >>> getattr_, dir_ = lazy_names("airw", {"values": ["Edge"]})
        >>> getattr_("Edge").__name__, dir_()
        ('Edge', ['Edge', 'values'])
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    modules = {home: home if home.startswith("airw.") else f"{package}.{home}" for home in homes}

    def load(module: str) -> Any:
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            from airw.errors import ArgumentError  # only now, as every package of the library begins with this module

            missing = (error.name or "").partition(".")[0]
            if extra is None or missing == "airw":
                raise
            raise ArgumentError(f"{package} needs {missing}: pip install 'airw[{extra}]'") from error

    def get(name: str) -> Any:
        if name in home_of:
            value = getattr(load(modules[home_of[name]]), name)
            # As an attribute of the package, the name is found without this function from now on.
            setattr(sys.modules[package], name, value)
            return value
        if name in modules:
            return load(modules[name])
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*home_of, *(module for module in modules if "." not in module and module[0] != "_")})

    return get, names

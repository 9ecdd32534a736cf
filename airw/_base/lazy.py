"""Lazy imports of the names of a package (PEP 562), so that `import airw` stays light."""

import dis
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import CodeType
from typing import Any


def lazy_names(
    package: str, *, extra: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, the `__dir__` and the `__all__` of a package.

    The names of a package stand once: in the import statements that its `__init__` has for type checkers. Python never
    runs those. They are read here from the compiled `__init__`, and a name is imported when it is first asked for. The
    modules that have the names are attributes, too.

    Args:
        package: The name of the package: `__name__` in its `__init__`.
        extra: The extra of airw that the modules need; without its packages, a name raises an error that names it.

    Example:
        # in airw/chat/__init__.py
        if TYPE_CHECKING:
            from airw.chat.models import ChatModel as ChatModel
        else:
            __getattr__, __dir__, __all__ = lazy_names(__name__)
    """
    home_of = dict(_find_imports(sys._getframe(1).f_code))  # noqa: SLF001 - the frame of the `__init__`
    inside = f"{package}."
    modules = {home.removeprefix(inside).partition(".")[0] for home in home_of.values() if home.startswith(inside)}
    modules |= {name for name, home in home_of.items() if home == package}  # from airw import chat as chat
    public = sorted(name for name in home_of if name not in modules and not name.startswith("_"))

    def get(name: str) -> Any:
        if name in modules:
            return _load(f"{package}.{name}", package, extra)
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(_load(home_of[name], package, extra), name)
        # As an attribute of the package, the name is found without this function from now on.
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*public, *(name for name in modules if not name.startswith("_"))})

    return get, names, public


def _find_imports(code: CodeType) -> Iterator[tuple[str, str]]:
    """Yield the names that import statements in compiled code bring, each with its module."""
    module = ""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            module = step.argval
        elif step.opname == "IMPORT_FROM" and module not in {"typing", __name__}:
            yield step.argval, module


def _load(module: str, package: str, extra: str | None) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        from airw.errors import ArgumentError  # only now, as every package of the library begins with this module

        missing = (error.name or "").partition(".")[0]
        if extra is None or missing == "airw":
            raise
        raise ArgumentError(f"{package} needs {missing}: pip install 'airw[{extra}]'") from error

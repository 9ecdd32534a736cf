"""How the reference reads docstrings."""

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from griffe import Attribute, Expr, ExprCall, Extension, Function, Module, Object

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads this file by its path
from pages import public_names

CLASS = re.compile(r"(?<![\[`\w])`((?:airw\.(?:\w+\.)*)?([A-Z]\w+))`(?![\]`])")

MAKERS = {"airw._base.signatures.convert_result", "airw.sync._wrapping.blocking"}
"""What makes a function of another one, its first argument, and takes over signature and docstring."""


class ReferenceDocstrings(Extension):
    """Examples get the title that is expected of them, and names of public classes become links."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring:
            text = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
            own = {obj.name, obj.parent.name if obj.parent else ""}
            places = {name: place for name, place in anchors().items() if name not in own}
            obj.docstring.value = CLASS.sub(
                lambda found: f"[`{found[1]}`][{places[found[2]]}]" if found[2] in places else found[0], text
            )


class MadeFunctions(Extension):
    """A function that is made of another one has its signature and docstring."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Replace the attributes of a package that are such functions."""
        self._replace(pkg, pkg)

    def _replace(self, module: Module, package: Module) -> None:
        for inner in module.modules.values():
            if not inner.is_alias:
                self._replace(inner, package)
        for name, attribute in [*module.attributes.items()]:
            value = None if attribute.is_alias else attribute.value
            if isinstance(value, ExprCall) and value.canonical_path in MAKERS and isinstance(value.arguments[0], Expr):
                origin = package[value.arguments[0].canonical_path.removeprefix(f"{package.name}.")]
                module.set_member(name, _copy(attribute, origin.final_target if origin.is_alias else origin))


def _copy(attribute: Attribute, function: Any) -> Function:
    """Return the function that an attribute is, as the reference shows it."""
    return Function(
        attribute.name,
        lineno=attribute.lineno,
        endlineno=attribute.endlineno,
        docstring=function.docstring,
        parameters=function.parameters,
    )


@cache
def anchors() -> dict[str, str]:
    """Return the place of each public class in the reference."""
    return {place.rpartition(".")[2]: place for place in reversed([*public_names()])}

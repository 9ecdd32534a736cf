"""How the reference reads docstrings."""

import re
from typing import Any

from griffe import Attribute, Expr, ExprCall, Extension, Function, Module, Object

MAKERS = {"airw._base.signatures.convert_result", "airw.sync._wrapping.blocking"}
"""What makes a function of another one, its first argument, and takes over signature and docstring."""


class ExampleSections(Extension):
    """Examples are under "Example:", which the reader of docstrings knows in the plural only."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rename the section of an object."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)


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

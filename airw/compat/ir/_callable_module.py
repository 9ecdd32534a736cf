"""Modules that can be called as functions: `ir.traverse` is a module and a function."""

from inspect import Signature, signature
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that passes calls on to the function with its own name."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function."""
        return self._function(*args, **options)

    @property
    def __signature__(self) -> Signature:
        return signature(self._function)

    @property
    def _function(self) -> Any:
        return vars(self)[self.__name__.rpartition(".")[2]]

"""Signatures and checks for functions with `**options`, and functions made of others."""

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")
Made = TypeVar("Made")


def shows_options(options: type, defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """Return a decorator that adds the options to the signature that `help()` shows.

    Type checkers read the options from `**options: Unpack[...]` instead.

    Args:
        options: The `TypedDict` of the options.
        defaults: The default of each option, in the order of the signature.

    Example:
        >>> from typing import TypedDict
        >>> @shows_options(TypedDict("Options", {"k": int}), {"k": 10})
        ... def search(query, **options): ...
        >>> print(inspect.signature(search))
        (query, *, k: int = 10)
    """
    hints = options.__annotations__
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in defaults.items()
    ]

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        positional = [
            parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
        ]
        function.__signature__ = signature.replace(parameters=[*positional, *parameters])  # type: ignore[attr-defined]
        return function

    return decorate


def check_option_names(verb: str, names: Collection[str], known: Collection[str]) -> None:
    """Check that a function has all options that its caller passed.

    Raises:
        TypeError: If it lacks one, as Python itself does; the message suggests a similar option.
    """
    for name in names:
        if name not in known:
            from difflib import get_close_matches

            similar = get_close_matches(name, known, 1)
            hint = f"; did you mean {similar[0]!r}?" if similar else ""
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}{hint}")


def convert_result(function: Callable[P, T], convert: Callable[[T], Made]) -> Callable[P, Made]:
    """Return a function that converts what another one returns.

    Example:
        >>> convert_result(range, list)(3)
        [0, 1, 2]
    """

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> Made:
        return convert(function(*args, **options))

    return call

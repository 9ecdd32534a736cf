"""Functions that take their options as `**options`: what their signatures show, and what they refuse."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def shows_options(options: type, defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """Return a decorator that shows options, with their defaults, in the signature of a function for `help()`.

    Type checkers read them from `**options: Unpack[...]`.

    Args:
        options: The `TypedDict` of the options.
        defaults: What each of them is when it is left out, in the order of the signature.

    Example:
        >>> from typing import TypedDict
        >>> @shows_options(TypedDict("Options", {"k": int}), {"k": 10})
        ... def search(query, **options): ...
        >>> print(inspect.signature(search))
        (query, *, k: int = 10)
    """
    hints = options.__annotations__
    shown = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in defaults.items()
    ]

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        named = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        function.__signature__ = own.replace(parameters=[*named, *shown])  # type: ignore[attr-defined]
        return function

    return decorate


def check_option_names(verb: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse options that a function does not have, as Python does.

    Raises:
        TypeError: There is one; the message names the function, and the option that was perhaps meant.
    """
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}{hint}")

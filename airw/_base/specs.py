"""Frozen dataclasses as JSON and back, so that settings can say how something was made."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from airw._base.messages import short_repr
from airw.errors import ArgumentError

T = TypeVar("T")


def spec_of(thing: object, known: Mapping[str, Callable[..., Any]]) -> dict[str, Any] | None:
    """Give `{"name": …, "params": {…}}`, from which `from_spec` makes an equal one; `None` where JSON cannot say it.

    Example:
        >>> from airw.values import Limits
        >>> spec_of(Limits(max_hits=3), {"Limits": Limits})["params"]["max_hits"]
        3
    """
    name = type(thing).__name__
    if known.get(name) is not type(thing) or not is_dataclass(thing):
        return None
    params = {each.name: getattr(thing, each.name) for each in fields(thing) if each.init}
    try:
        spec: dict[str, Any] = json.loads(json.dumps({"name": name, "params": params}, allow_nan=False))
        return spec if repr(from_spec(spec, known, "thing")) == repr(thing) else None
    except (TypeError, ValueError, RecursionError):
        return None


def from_spec(spec: object, known: Mapping[str, Callable[..., T]], what: str) -> T:
    """Make what a specification says; `what` names in errors what it should be.

    Raises:
        ArgumentError: It is no specification, its name is not known, or its parameters cannot be used.
    """
    if not isinstance(spec, Mapping) or not isinstance(spec.get("params", {}), Mapping):
        raise ArgumentError(f'{what} is specified as {{"name": …, "params": {{…}}}}, not {short_repr(spec)}')
    made = known.get(str(spec.get("name")))
    if made is None:
        raise ArgumentError(f"there is no {what} {short_repr(spec.get('name'))}; known: {', '.join(known)}")
    try:
        return made(**spec.get("params", {}))
    except TypeError as error:
        raise ArgumentError(f"{what} {spec['name']}: {error}") from error

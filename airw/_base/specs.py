"""Specifications: frozen dataclasses as JSON, so that settings can record them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from airw._base.messages import short_repr
from airw.errors import ArgumentError

T = TypeVar("T")


def spec_of(thing: object, known: Mapping[str, Callable[..., Any]]) -> dict[str, Any] | None:
    """Return the specification of a dataclass instance, or `None` if JSON cannot express it.

    It is `{"name": …, "params": {…}}`; `from_spec` makes an equal instance of it.

    Example:
        >>> from airw.values import Limits
        >>> spec_of(Limits(max_hits=3), {"Limits": Limits})["params"]["max_hits"]
        3
    """
    name = type(thing).__name__
    if known.get(name) is not type(thing) or not is_dataclass(thing):
        return None
    params = {field.name: getattr(thing, field.name) for field in fields(thing) if field.init}
    # Only a specification that makes an equal instance is usable: JSON may change a value, such as a tuple.
    try:
        spec: dict[str, Any] = json.loads(json.dumps({"name": name, "params": params}, allow_nan=False))
        return spec if repr(from_spec(spec, known, "thing")) == repr(thing) else None
    except (TypeError, ValueError, RecursionError):
        return None


def from_spec(spec: object, known: Mapping[str, Callable[..., T]], what: str) -> T:
    """Return the instance that a specification describes; `what` names its kind in errors.

    Raises:
        ArgumentError: If it is not a specification, its name is unknown, or its parameters cannot be used.
    """
    if not isinstance(spec, Mapping) or not isinstance(spec.get("params", {}), Mapping):
        raise ArgumentError(f'{what} must be specified as {{"name": …, "params": {{…}}}}, not {short_repr(spec)}')
    constructor = known.get(str(spec.get("name")))
    if constructor is None:
        raise ArgumentError(f"there is no {what} {short_repr(spec.get('name'))}; known: {', '.join(known)}")
    try:
        return constructor(**spec.get("params", {}))
    except TypeError as error:
        raise ArgumentError(f"{what} {spec['name']}: {error}") from error

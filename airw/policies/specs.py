"""Specifications of policies: names and parameters as JSON, for requests and links."""

import dataclasses
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

from airw import policies
from airw._base.checks import check_kind
from airw._base.messages import short_repr
from airw.errors import AirwError, ArgumentError
from airw.policies.scope import Scope
from airw.values.filters import to_mapping
from airw.walking import WalkPolicy

_PROGRAMS_ONLY = ("inverses", "path_scorer", "policy", "scorer", "strategy")  # values that only a program can make
_FILTERS = ("start", "cross", "keep")


def list_policies() -> dict[str, type[WalkPolicy]]:
    """Return the policies of the library that have a name, by name.

    Those that need a program are left out: `PerNode` wraps a policy, and `Strategy` is derived from.

    Example:
        >>> ", ".join(list_policies())
        'beam, collapsed-tree, eager, link-walk, mmr, path-coverage, personalized-page-rank, reverse-dependency, scored'
    """
    kinds = {name: getattr(policies, name) for name in dir(policies) if name not in ("PerNode", "Strategy")}
    return {_name(kind): kind for kind in kinds.values() if hasattr(kind, "to_hits")}


def name_of(policy: WalkPolicy) -> str:
    """Return the name of a policy of the library.

    Example:
        >>> name_of(policies.CollapsedTree())
        'collapsed-tree'
    """
    return _name(type(policy))


def _name(kind: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()


def parameters_of(kind: type) -> list[dataclasses.Field[Any]]:
    """Return the parameters of a policy that JSON can express.

    Example:
        >>> [field.name for field in parameters_of(policies.CollapsedTree)]
        ['summary_kinds', 'leaf_kinds', 'seed_k', 'operators', 'scope', 'max_depth']
    """
    fields: Collection[dataclasses.Field[Any]] = dataclasses.fields(kind)
    return [field for field in fields if field.init and field.name not in _PROGRAMS_ONLY]


def with_operators(policy: WalkPolicy) -> WalkPolicy:
    """Return a policy that reads operators in the query.

    One that does not search stays as it is.

    Example:
        >>> with_operators(policies.CollapsedTree()).operators
        True
    """
    has_operators = any(field.name == "operators" for field in dataclasses.fields(policy))  # type: ignore[arg-type]
    return dataclasses.replace(policy, operators=True) if has_operators else policy  # type: ignore[type-var]


def policy_spec(policy: WalkPolicy) -> dict[str, Any]:
    """Return the specification of a policy, from which `policy_from_spec` makes an equal one.

    It has all parameters, so that it means the same where the defaults are others.

    Returns:
        JSON: `{"name": …, "params": {…}}`.

    Raises:
        ArgumentError: If JSON cannot express the policy, because it is not of the library or has a function.

    Example:
        >>> policy_spec(policies.CollapsedTree(seed_k=3))["params"]["seed_k"]
        3
    """
    name, kind = name_of(policy), type(policy)
    if list_policies().get(name) is not kind:
        raise ArgumentError(f"policy {short_repr(policy)} is not one of the library, so it has no specification")
    params, known = {}, parameters_of(kind)
    for field in dataclasses.fields(policy):  # type: ignore[arg-type]
        value = getattr(policy, field.name)
        text = _dump(value) if field in known else None
        if text is not None:
            params[field.name] = json.loads(text)
        elif field.init and value != field.default:
            raise ArgumentError(f"{field.name} of policy {name} cannot be written as JSON: {short_repr(value)}")
    return {"name": name, "params": params}


def _dump(value: Any) -> str | None:
    """Return a value as JSON; `None` if that is not possible."""
    if isinstance(value, Scope):
        filters = {name: getattr(value, name) for name in _FILTERS}
        value = {name: to_mapping(filter) for name, filter in filters.items() if filter is not None}
    elif isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping):
        value = [*value]
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None


def policy_from_spec(spec: object) -> WalkPolicy:
    """Return the policy that a specification describes.

    A specification is the name of a policy, or JSON such as `{"name": "beam", "params": {"width": 8}}`. A scope is
    `{"keep": {"status": "Final"}}`. A root in one of several corpora is `[source, id]`.

    Raises:
        ArgumentError: If there is no such policy, or a parameter is unknown, missing or cannot be used.
        FilterError: If a filter of the scope is malformed.

    Example:
        >>> policy_from_spec({"name": "beam", "params": {"width": 8}}) == policies.Beam(width=8)
        True
    """
    if isinstance(spec, str):
        spec = {"name": spec}
    if not isinstance(spec, Mapping) or not spec.keys() <= {"name", "params"} or "name" not in spec:
        raise ArgumentError(
            f'policy must be a name, or {{"name": "beam", "params": {{"width": 8}}}}, not {short_repr(spec)}'
        )
    name, params = spec["name"], spec.get("params", {})
    kind = list_policies().get(name) if isinstance(name, str) else None
    if kind is None:
        raise ArgumentError(f"there is no policy {short_repr(name)}; known: {', '.join(list_policies())}")
    check_kind(f"params of policy {name}", params, Mapping, "be an object", error=ArgumentError)
    fields, hints = {field.name: field for field in parameters_of(kind)}, get_type_hints(kind)
    unknown = [key for key in params if key not in fields]
    if unknown:
        raise ArgumentError(f"policy {name} has no parameter {short_repr(unknown[0])}; it has {', '.join(fields)}")
    missing = [key for key in fields if key not in params and fields[key].default is dataclasses.MISSING]
    if missing:
        raise ArgumentError(f"policy {name} needs the parameter {missing[0]}")
    try:
        return kind(**{key: to_parameter(key, value, hints[key]) for key, value in params.items()})
    except AirwError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"policy {name} cannot have these parameters: {error}") from error


def to_parameter(name: str, value: Any, hint: Any) -> Any:
    """Return a value of a parameter from JSON.

    Args:
        name: The name of the parameter, for messages.
        value: The JSON value.
        hint: The type of the parameter.

    Raises:
        ArgumentError: If a scope has other parts than three filters, or another parameter is an object.

    Example:
        >>> to_parameter("edges", [["keywords", "keywords"]], Sequence[tuple[str, str]])
        [('keywords', 'keywords')]
    """
    if hint is Scope:
        if not isinstance(value, Mapping) or not value.keys() <= {*_FILTERS}:
            example = '{"keep": {"status": "Final"}}'
            raise ArgumentError(
                f"{name} takes filters named start, cross or keep, such as {example}, not {short_repr(value)}"
            )
        return Scope(**value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ArgumentError(f"{name} must be a finite number, not {value}")
    if isinstance(value, Mapping):  # the library would take its keys for a list
        raise ArgumentError(f"{name} must be a list, text or number, not {short_repr(value)}")
    if takes_list(hint) and isinstance(value, list):
        # Fields of `edges` are pairs, and so are artifacts of several corpora: the library takes both as tuples.
        return [tuple(item) if isinstance(item, list) else item for item in value]
    return value


def takes_list(hint: Any) -> bool:
    """Return whether a type of a parameter allows a list.

    Example:
        >>> takes_list(Sequence[str] | None), takes_list(int)
        (True, False)
    """
    return any(get_origin(each) in (Sequence, Collection) for each in [hint, *get_args(hint)])

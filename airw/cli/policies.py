"""From the name of a policy and `NAME=VALUE` words to a walk policy, for `traverse`."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from airw import policies
from airw.errors import ArgumentError
from airw.policies.path_coverage import DEFAULT_POLICY
from airw.policies.specs import list_policies, parameters_of, takes_list, to_parameter
from airw.walking import WalkPolicy

_DOCUMENTS = ("roots", "seeds")
_STARTS = ("start_k", "seed_k")


def describe_policies() -> str:
    """Return a paragraph for each policy: name, purpose, parameters and defaults."""
    paragraphs = []
    for name, kind in list_policies().items():
        summary = (kind.__doc__ or "").partition("\n")[0]
        mark = " (default)" if kind is type(DEFAULT_POLICY) else ""
        texts = [f"  {name}{mark}: {summary}"]
        texts.append(textwrap.fill(", ".join(_describe(field) for field in parameters_of(kind)), 110))
        paragraphs.append(f"{texts[0]}\n{textwrap.indent(texts[1], '      ')}")
    return "\n".join(paragraphs)


def _describe(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return f"{field.name} (needed)"
    if field.name == "scope":
        return field.name
    value = field.default
    if isinstance(value, str) or (isinstance(value, tuple) and value):
        return f"{field.name}={value if isinstance(value, str) else ','.join(value)}"
    return f"{field.name}={json.dumps(value)}"


def list_parameters(name: str) -> list[str]:
    """Return the names of the parameters of a policy."""
    return [field.name for field in parameters_of(list_policies()[name])]


def parse_parameters(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a policy, from `NAME=VALUE` words.

    A value is JSON, plain text, or `none` where that is possible. For a list, plain text is split at commas.

    Raises:
        ArgumentError: If the policy has no such parameter, it is given twice, or the word has no `=`.

    Example:
        >>> parse_parameters("beam", ["width=8", "types=cites,supports"])
        {'width': 8, 'types': ['cites', 'supports']}
    """
    kind, known = list_policies()[name], list_parameters(name)
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals:
            raise ArgumentError(f"--set takes NAME=VALUE, such as {known[0]}=…, not {word!r}")
        if key not in known:
            raise ArgumentError(f"policy {name} has no parameter {key!r}; it has {', '.join(known)}")
        if key in values:
            raise ArgumentError(f"--set {key} is given twice, the second time as {word!r}; give it once")
        values[key] = _parse_value(key, text, hints[key])
    return values


def _parse_value(name: str, text: str, hint: Any) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = None if text == "none" and type(None) in get_args(hint) else text
    if isinstance(value, list) or hint is policies.Scope or not takes_list(hint):
        return to_parameter(f"--set {name}", value, hint)
    if value is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    # One word of a few, such as a way of `seeding`, may stand alone.
    takes_word = any(get_origin(each) is Literal for each in get_args(hint))
    return parts[0] if takes_word and len(parts) == 1 else parts


def documents_of(parameters: dict[str, Any]) -> dict[str, list[str]]:
    """Return the parameters that name documents, which a user names by id, path or title."""
    return {name: parameters[name] for name in _DOCUMENTS if name in parameters}


def make_policy(name: str, parameters: dict[str, Any], *, start: int | None, direction: str | None) -> WalkPolicy:
    """Return a policy with these parameters, and with the library's defaults of all others.

    Args:
        name: The name of the policy.
        parameters: The values of `--set`.
        start: The value of `--start`, which policies call `start_k` or `seed_k`.
        direction: The value of `--direction`.

    Raises:
        ArgumentError: If the policy lacks a parameter, needs another one, or a value cannot be used.
    """
    kind, known = list_policies()[name], list_parameters(name)
    options = {next((key for key in _STARTS if key in known), "--start"): start, "direction": direction}
    for key, value in options.items():
        if value is None:
            continue
        if key not in known:
            raise ArgumentError(f"policy {name} takes no {key if key.startswith('-') else f'--{key}'}")
        if key in parameters:
            raise ArgumentError(f"{key} is given twice, by --set and by another option; give it once")
        parameters = {**parameters, key: value}
    needed = [field.name for field in parameters_of(kind) if field.default is dataclasses.MISSING]
    if missing := [key for key in needed if key not in parameters]:
        raise ArgumentError(f"policy {name} needs `--set {missing[0]}=ID,…`")
    return _check_start(name, kind(**parameters))


def _check_start(name: str, policy: WalkPolicy) -> WalkPolicy:
    """Return a policy; refuse one that starts neither from a search nor from documents."""
    if getattr(policy, "start_k", 0) is None and not getattr(policy, "roots", True):
        raise ArgumentError(f"policy {name} needs `--set roots=ID,…` or `--start N`")
    return policy

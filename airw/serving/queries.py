"""Checks that several endpoints share: which corpora, how much, and what may be read."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.policies import Scope
from airw.policies.specs import policy_from_spec
from airw.serving.filters import guard_filter
from airw.serving.limits import ServingLimits
from airw.serving.service import ClientCall
from airw.walking import WalkPolicy

_COUNTED = ("k", "max_k")
_MOST_EDGES = 32  # pairs of fields, each of which may cost a scan of all records
_FETCHED_PER_HIT = 5  # as many as a search fetches by default


def take_text(options: dict[str, Any], name: str) -> str:
    """Remove a field that must be there, and return it.

    Raises:
        ArgumentError: If it is missing, or no text.
    """
    value = options.pop(name, None)
    if not isinstance(value, str):
        raise ArgumentError(f"{name} is missing; send a text with the request")
    return value


def take_corpora(options: dict[str, Any]) -> str | list[str]:
    """Remove the field `corpus` or `corpora`, and return the name or names in it.

    Raises:
        ArgumentError: If there is none or both, or a name is not a string.
    """
    if ("corpus" in options) == ("corpora" in options):
        raise ArgumentError("send either corpus, the name of one, or corpora, a list of names")
    if "corpus" in options:
        return take_text(options, "corpus")
    names = options.pop("corpora")
    if not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"corpora must be a list of names, not {short_repr(names)}")
    return list(names)


def check_finding(call: ClientCall, query: str, options: dict[str, Any]) -> None:
    """Check a query and the options of its search, and guard the filter among them.

    Raises:
        ArgumentError: If one is beyond its limit, or the reranker is none of the server's.
        FilterError: If the filter is malformed, or could find out a path of this machine.
    """
    limits = call.service.limits
    check_query_length(call, query)
    for name in _COUNTED:
        check_most(name, options.get(name), limits.max_k)
    check_most("fetch_k", options.get("fetch_k"), _FETCHED_PER_HIT * limits.max_k)
    check_most("rerank_max_chars", options.get("rerank_max_chars"), limits.max_query_chars)
    check_filter_size(options.get("filter"), most=limits.max_conditions)
    options["filter"] = guard_filter(options.get("filter"), call.service.roots)
    check_most("node_budget", options.get("node_budget"), limits.max_node_budget)
    for name in ("surfaces", "surface_weights", "merge_weights", "min_score"):
        check_length(name, options.get(name), most=limits.max_conditions)
    rerankers = call.service.rerankers
    if options.get("rerank") is not None and options["rerank"] not in rerankers:
        known = f"one of {', '.join(map(repr, rerankers))}" if rerankers else "left out"
        raise ArgumentError(f"rerank must be {known} here, not {short_repr(options['rerank'])}")


def read_policy(call: ClientCall, spec: object) -> WalkPolicy:
    """Return the policy that a request describes, within the limits of the server.

    Args:
        call: The request.
        spec: The name of a policy of the library, or its name and parameters.

    Raises:
        ArgumentError: If there is no such policy, or a parameter cannot be used, or is beyond a limit.
        FilterError: If a filter of its scope is malformed, or could find out a path of this machine.
    """
    limits = call.service.limits
    params = spec.get("params") if isinstance(spec, dict) else None
    if isinstance(params, dict):
        _check_params(params, limits)
    policy = policy_from_spec(spec)
    scope: Any = getattr(policy, "scope", None)
    if isinstance(scope, Scope):
        filters = {field.name: guard_filter(getattr(scope, field.name), call.service.roots) for field in fields(scope)}
        policy = replace(cast("Any", policy), scope=Scope(**filters))
    check_most("max_depth", getattr(policy, "max_depth", None), limits.max_hops)
    return policy


def _check_params(params: Mapping[str, Any], limits: ServingLimits) -> None:
    """Check the sizes of what the parameters of a policy contain.

    Raises:
        ArgumentError: If one is beyond its limit.
    """
    for name, value in params.items():
        if isinstance(value, int) and not isinstance(value, bool):
            check_most(name, value, limits.max_node_budget)
        check_length(name, value, most=limits.max_ids)
    check_length("edges of a policy", params.get("edges"), most=_MOST_EDGES)
    scope = params.get("scope")
    if isinstance(scope, dict):
        check_filter_size(list(scope.values()), most=limits.max_conditions)


def check_query_length(call: ClientCall, query: str) -> None:
    """Check that a query is within `max_query_chars`.

    Raises:
        ArgumentError: If it is longer.
    """
    most = call.service.limits.max_query_chars
    if len(query) > most:
        raise ArgumentError(f"query must have at most {most:,} characters, not {len(query):,}")


def check_most(name: str, value: int | None, most: int) -> None:
    """Check that a number is within the limit of the server; `None` is.

    Raises:
        ArgumentError: If it is greater.
    """
    if value is not None and value > most:
        raise ArgumentError(f"{name} must be at most {most:,} here, not {short_repr(value)}")


def check_filter_size(filter: object, *, most: int) -> None:
    """Check that a filter has at most so many conditions, each value of a list included.

    Raises:
        ArgumentError: If it has more.

    Example:
        >>> check_filter_size({"tag": {"$in": ["a", "b", "c"]}}, most=2)
        Traceback (most recent call last):
            ...
        airw.errors.ArgumentError: filter must have at most 2 conditions here, each value of a list included
    """
    count, waiting = 0, [filter]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
        else:
            count += part is not None
        if count + len(waiting) > most:
            raise ArgumentError(f"filter must have at most {most:,} conditions here, each value of a list included")


def check_length(name: str, value: object, *, most: int) -> None:
    """Check that a list or an object has at most so many entries; anything else passes.

    Raises:
        ArgumentError: If it has more.
    """
    if isinstance(value, list | dict) and len(value) > most:
        raise ArgumentError(f"{name} must have at most {most:,} entries here, not {len(value):,}")


def check_ids(name: str, ids: Sequence[object], *, most: int) -> list[str]:
    """Return ids if they are strings that are not empty, one at least and not too many.

    Raises:
        ArgumentError: If they are not.
    """
    check_length(name, ids, most=most)
    if not ids or not all(isinstance(id, str) and id for id in ids):
        raise ArgumentError(f"{name} must be a list of ids, at least one, not {short_repr(ids)}")
    return [str(id) for id in ids]


def check_disclosure(call: ClientCall, name: str) -> None:
    """Check that the operator allows files to be read.

    Raises:
        ArgumentError: If no root is named.
    """
    if not call.service.roots:
        raise ArgumentError(f"{name} must be 'metadata' here, as this server discloses no files")

"""The endpoints of walks, whose hits are sent as they are committed."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields
from functools import partial
from types import NoneType
from typing import Any

from starlette.responses import Response

from airw import policies
from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw.discovery import FederatedCorpus
from airw.discovery.discovery import DiscoveryStream
from airw.errors import ArgumentError
from airw.policies.specs import with_operators
from airw.serving.access import client_of
from airw.serving.bodies import FieldKinds
from airw.serving.event_streams import EventStream, to_messages
from airw.serving.queries import check_most, check_query_length, read_policy, take_corpora, take_text
from airw.serving.service import ApiCall
from airw.serving.stream_budgets import StreamBudget
from airw.serving.stream_messages import Messages, WalkMessages
from airw.serving.walk_keeper import WalkKeeper
from airw.traversal import traverse as walk_corpus
from airw.values import Limits
from airw.walking import WalkPolicy

TRAVERSE_FIELDS: FieldKinds = {
    "corpus": str,
    "corpora": list,
    "query": str,
    "operators": bool,
    "policy": (dict, str, NoneType),
    "node_budget": int,
    "max_depth": (int, NoneType),
    "timeout": (float, NoneType),
    "limits": (dict, NoneType),
    "edges": bool,
    "routers": bool,
    "hold": bool,
    "best": (int, NoneType),
    "max_hits": (int, NoneType),
    "max_chars": (int, NoneType),
    "max_tokens": (int, NoneType),
}
"""The fields of a request; `query` and one of `corpus` and `corpora` are needed."""

CONTINUE_FIELDS: FieldKinds = {
    "continue": str,
    "node_budget": int,
    "max_depth": (int, NoneType),
    "timeout": (float, NoneType),
}
"""The fields of a request to go on with a walk; `continue` is needed."""

_LIMITS = Limits()
_BUDGETS = tuple(field.name for field in fields(StreamBudget))


async def traverse(call: ApiCall) -> Response:
    """Answer `/traverse`: a walk of one corpus or several, as a stream of events."""
    options = call.fields(TRAVERSE_FIELDS, of="/traverse")
    names, query = take_corpora(options), take_text(options, "query")
    check_query_length(call, query)
    edges, best = options.pop("edges", False), options.pop("best", None)
    routers = options.pop("routers", edges)
    budget = StreamBudget(**{name: options.pop(name, None) for name in _BUDGETS})
    most = call.service.limits.max_node_budget
    check_most("node_budget", options.get("node_budget"), most)
    check_most("best", best, call.service.limits.max_k)
    limits = _read_limits(options.pop("limits", None))
    spec = options.pop("policy", None)
    policy = None if spec is None else read_policy(call, spec)
    is_held, reads_operators = options.pop("hold", False), options.pop("operators", False)
    corpus = await _open(call, names)
    policy = policies.default_policy(corpus) if policy is None else policy
    if reads_operators:
        policy = with_operators(policy)
    bounds = {
        "max_depth": _choose_depth(call, policy, options),
        "node_budget": options.get("node_budget", min(64, most)),
        "timeout": call.timeout(),
    }
    walk = walk_corpus(query, corpus, policy=policy, limits=limits, **bounds)
    keeper = None
    if is_held and not limits.count_beyond_limits:  # what lies beyond was asked for, and would be asked again
        may_deepen, owner, service = not policy.keeps_frontier, _client_of(call), call.service
        keeper = WalkKeeper(service.held, service.limits, owner=owner, bounds=bounds, can_go_deeper=may_deepen)
    return _stream(call, to_messages(walk, edges=edges, routers=routers, best=best, budget=budget, keeper=keeper))


async def continue_walk(call: ApiCall) -> Response:
    """Answer `/traverse/continue`: the further events of a held walk, with larger limits."""
    raised = call.fields(CONTINUE_FIELDS, of="/traverse/continue")
    token = take_text(raised, "continue")
    most = call.service.limits
    for name, largest in (("node_budget", most.max_node_budget), ("max_depth", most.max_hops)):
        if raised.get(name) is not None:
            check_count(name, raised[name])
        check_most(name, raised.get(name), largest)
    if "max_depth" in raised and raised["max_depth"] is None:
        raised["max_depth"] = most.max_hops
    if "timeout" in raised:
        raised["timeout"] = call.timeout()
    return _stream(call, _go_on(call, token, raised))


@asynccontextmanager
async def _go_on(call: ApiCall, token: str, raised: Mapping[str, Any]) -> AsyncIterator[Messages]:
    """Yield the further messages of a walk; a mistake does not use up the token."""
    with call.service.held.take(token, WalkMessages, _client_of(call)) as waiting:
        further = waiting.go_on(**raised)
    async with further:
        yield further


def stream_discovery(call: ApiCall, stream: DiscoveryStream) -> Response:
    """Return the answer that streams a discovery: each `source`, then the `result`."""
    return _stream(call, to_messages(stream, edges=False, routers=False, best=None, budget=StreamBudget()))


def _stream(call: ApiCall, messages: AbstractAsyncContextManager[Messages]) -> Response:
    service, client = call.service, _client_of(call)
    return EventStream(
        messages,
        heartbeat=service.limits.heartbeat,
        max_stall=service.limits.max_stall,
        admit=partial(service.admission.stream, client),
        hide=call.hide_paths,
        ending=service.ending,
    )


def _client_of(call: ApiCall) -> str:
    return client_of(call.caller, call.request.scope)


async def _open(call: ApiCall, names: str | list[str]) -> Any:
    """Return one corpus, or several as one graph; rights are checked before any is opened."""
    if isinstance(names, str):
        return await call.open(names)
    call.caller.require_read(names)
    return FederatedCorpus(await call.open_all(names))


def _choose_depth(call: ApiCall, policy: WalkPolicy, options: Mapping[str, Any]) -> int:
    """Return the depth cap of a walk; without one, it is that of the server."""
    most = call.service.limits.max_hops
    depth = options.get("max_depth", policy.max_depth)
    check_most("max_depth", depth, most)
    return most if depth is None else depth


def _read_limits(asked: Mapping[str, Any] | None) -> Limits:
    """Return the limits of a walk; a client may only lower those of the library.

    Raises:
        ArgumentError: If a limit is unknown, raised, or no whole number.
    """
    known = [field.name for field in fields(Limits)]
    for name, value in (asked or {}).items():
        if name not in known:
            raise ArgumentError(f"limits takes {', '.join(known)}, not {short_repr(name)}")
        most = getattr(_LIMITS, name)
        if isinstance(value, int) and not isinstance(most, bool) and most is not None:
            check_most(f"{name} in limits", value, most)
    return Limits(**asked or {})

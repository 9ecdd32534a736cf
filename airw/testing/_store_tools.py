"""What the store cases are made of: ways to open stores, and the questions whose answers show all there is to see."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from airw._base.messages import one_line
from airw.protocols import RunKeeper, Store
from airw.stores import MemoryStore
from airw.testing.changes import ODD_IDS, put, vector_of
from airw.testing.exam import Case
from airw.values import ArtifactChange, ArtifactRef, Link
from airw.values.filters import parse_filter

GROUPS = {
    "records": ("records_of", "get_records", "artifact_ids", "ledger", "counts"),
    "vectors": ("search_vectors", "similarities", "best_of", "vectors", "vectors_of"),
    "text": ("search_text",),
    "links": (
        *("neighbors", "resolve", "referrers", "fan_in", "max_fan_in", "matching"),
        *("unresolved_links", "link_counts"),
    ),
}
"""The methods that show content. A law needs the first of a group, and asks the others too where they are offered."""
_FEW = 5  # questions by method are asked where a case asks after each of many writes
_LINK_STATES = ("resolved", "dangling", "ambiguous", "foreign")


class FullStore(Store, RunKeeper, Protocol):
    """A store with everything that one may offer; a case uses the methods that it needs."""


class StoreCall(NamedTuple):
    """What one call of a method is given."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]

    async def put_to(self, store: FullStore, method: str) -> Any:
        """Return the answer of a store, as a value that compares."""
        answer = await getattr(store, method)(*self.arguments, **self.options)
        if method == "ledger":
            return [each and replace(each, record_ids=tuple(each.record_ids)) for each in answer]
        if method == "counts":
            return {kind: answer.get(kind) for kind in ("artifacts", "records", *_LINK_STATES)}
        if method.startswith("search"):
            return [(list(each.record_ids), list(each.artifact_ids), each.scores) for each in answer]
        return list(answer) if method in ("best_of", "vectors_of") else answer

    def __str__(self) -> str:
        told = [one_line(repr(each), longest=60) for each in self.arguments]
        return f"({', '.join([*told, *(f'{name}={value!r}' for name, value in self.options.items())])})"


_FILTERS: list[dict[str, Any]] = [{"tag": "x"}, {"tag": {"$contains": "x"}}, {"$not": {"n": {"$gte": 2}}}]


def _ask(*arguments: Any, **options: Any) -> StoreCall:
    return StoreCall(arguments, options)


def questions_about(changes: Iterable[ArtifactChange]) -> dict[str, list[StoreCall]]:
    """Return by method what can be asked about artifacts, whether a store holds them or not."""
    changes = list(changes)
    absent = ["absent", "\ud800", "nul\0"]
    names = sorted({change.entry.artifact_id for change in changes})
    ids = sorted({record.id for change in changes for record in change.records})
    asked, records, refs = [*names, *absent, *names[:1]], [*ids, *absent, *ids[:1]], [*names, *absent, "T", "U"]
    nodes = [*refs, *(ArtifactRef("else", ref) for ref in refs)]
    vectors = np.array([vector_of("one two"), vector_of("three")], np.float32)
    cuts: list[dict[str, Any]] = [{"kinds": ["chunk"]}, {"kinds": ["title", "chunk"], "limit": 1}, {"kinds": []}]
    searches: list[tuple[int, dict[str, Any]]] = [
        (0, {}),
        *((k, {"per_artifact": flag}) for k in (1_000, 5, 1) for flag in (False, True)),
        *((5, {"surfaces": kinds, "per_artifact": True}) for kinds in (["chunk"], ["title", "chunk", "no"], [])),
        *((5, {"filter": parse_filter(each), "per_artifact": flag}) for each in _FILTERS for flag in (False, True)),
    ]
    choices: list[dict[str, Any]] = [
        *({"direction": direction} for direction in ("out", "in", "both")),
        *({"direction": "both", "limit": limit} for limit in (0, 1, 2, 3)),
        *({"types": types, "exclude": exclude} for types in (None, ["r"], []) for exclude in ([], ["q"])),
        *({"origins": origins, "direction": "both"} for origins in (["typed"], [])),
        {"exclude": ["related"], "limit": 1},
    ]
    shared = [("tag", "x"), ("tag", ["x"]), ("tag", None), ("n", 1), ("n", True), ("n", "1"), ("who.name", "Ada")]
    return {
        "records_of": [_ask(asked), _ask([]), *(_ask(asked, **cut) for cut in cuts), _ask(asked, limit=2)],
        "get_records": [_ask(records), _ask([])],
        "artifact_ids": [_ask()],
        "ledger": [_ask(), _ask(asked)],
        "counts": [_ask()],
        "search_vectors": [_ask(vectors, k, **options) for k, options in searches] + [_ask(vectors[:0], 5)],
        "similarities": [_ask(vectors[0], records)],
        "best_of": [_ask(vectors[0], asked), _ask(vectors[0], asked, surfaces=["title"])],
        "vectors": [_ask(records)],
        "vectors_of": [_ask(asked), _ask(["absent"]), _ask([])],
        "search_text": [
            *(_ask(["one two", "three", "?!", ""], k, **options) for k, options in searches),
            _ask(["CAFE", "keys' OR", '"bucher', "日本", "text:rotate*", "NEAR(", "\ud800", "s", "rotate\0keys"], 5),
        ],
        "neighbors": [_ask(asked, **choice) for choice in choices] + [_ask([])],
        "resolve": [_ask(refs), _ask([])],
        "referrers": [_ask(nodes), _ask(nodes, types=["r"]), _ask(nodes, types=[])],
        "fan_in": [_ask(nodes), _ask(nodes, types=["r"])],
        "max_fan_in": [_ask(), _ask(types=["r"]), _ask(types=[])],
        "matching": [_ask(shared * 2), _ask(shared, limit=1), _ask([])],
        "unresolved_links": [_ask(), _ask(limit=1), _ask(asked), _ask(asked[1:-1], limit=1), _ask([])],
        "link_counts": [_ask()],
    }


def linked() -> list[ArtifactChange]:
    """Return artifacts with links by id, of several types and origins, to themselves, to other corpora, to nowhere."""
    away = Link("b2", "z", "derived", "else"), Link("zz", "r", target_source="else")
    several = Link("c", "r"), Link("b", "r"), Link("a", "r"), Link("b", "q", "typed"), Link("no", "r")
    return [
        put("a", "one", links=several),
        put("b", "two", "three", kinds=("title", "chunk"), links=[Link("a", "r"), *away]),
        put("c", links=[Link("a", "r", "typed"), Link("a", "r", file="f", line=1), Link("a", "r", line=2)]),
        *(put(name, "four", links=[Link(ODD_IDS[at - 1])]) for at, name in enumerate(ODD_IDS) if name != "a"),
    ]


def named() -> list[ArtifactChange]:
    """Return artifacts that carry names, shared and not, and links by them to one, to several and to none."""
    many, either, wider = Link("T", "r", "typed", file="f.md", line=3), Link("no", "b", or_ref="T"), Link("W", "c")
    others = Link("V", "q"), Link("b", "r"), Link("no", "q")
    return [
        put("a", names=[["T"], ["U"], ["V", "b"]], links=[either, Link("b"), Link("T", target_source="else"), wider]),
        put("b", names=[[], ["T"], ["W"]], links=[many, Link("a"), Link("no", "r"), Link("no", "r"), Link("t")]),
        put("c", names=[["T"], ["U"]], links=[Link("no", or_ref="no too"), Link("V", or_ref="c")]),
        put("B", names=[[], ["U"], ["T", "W"]], links=[*others, Link("B"), Link("a", "d", or_ref="c")]),
    ]


def rich() -> list[ArtifactChange]:
    """Return artifacts with equal texts, odd ones and none, many records and few, and fields of all kinds."""
    tags: list[Any] = ["x", ["x", "y"], None, [["x"]], [], {"deep": 1}]
    numbers: list[Any] = [1, 1.0, True, "1", 2, {"m": [1]}]
    backwards = put("backwards", *"pqrstuvwxy")
    odd = {"half": 0.5, "yes": True, "big": 2**63 + 1, "none": None, "who.name": "Ada"}
    return [
        *linked(),
        *(
            put(
                f"t{at:02}",
                *["one two"] * (at % 3 + 1),
                *["three"] * (at % 2),
                kinds=("title", "chunk"),
                metadata={"tag": tags[at % 6], "n": numbers[at // 2 % 6], "who": {"name": "Ada"}},
                version=str(at),
            )
            for at in range(24)
        ),
        replace(backwards, records=[replace(each, surface_index=9 - each.surface_index) for each in backwards.records]),
        put("crowd", *(f"one {at}" for at in range(60)), metadata={"n": 3}),
        put("odd", "", "\n \t", "nul \0 inside", "a\r\nb", "🦊 é e\u0301", "long " * 20_000, metadata=odd),
        put("words", "Café-Bücher: rotate the KEYS", "日本語 text", "AND or not near", "it's snake_case x1"),
    ]


def anchored() -> list[ArtifactChange]:
    """Return two artifacts with something to see by every method."""
    return [
        put("anchor", "one two", "four", metadata={"tag": ["x"]}, names=[[], ["T"]]),
        put("old", "two three", metadata={"tag": "y"}, links=[Link("T"), Link("new0")]),
    ]


@dataclass(frozen=True, slots=True)
class ExaminedStore:
    """What a case is given: ways to open stores on one content, empty at first.

    Args:
        open: Called with artifacts, gives an async context manager of a store that holds them too.
        offers: The names of the methods that a store has.
        stack: Closes what `store` opened.
    """

    open: Callable[[Sequence[ArtifactChange]], AbstractAsyncContextManager[FullStore]]
    offers: frozenset[str]
    stack: AsyncExitStack

    async def store(self, changes: Sequence[ArtifactChange] = ()) -> FullStore:
        """Return a store that holds these artifacts, open until the case is over."""
        return await self.stack.enter_async_context(self.open(changes))

    async def see(self, group: str, store: FullStore, about: Iterable[ArtifactChange]) -> dict[str, Any]:
        """Return what the methods of a group that are offered show about artifacts, asked a few questions each."""
        questions = questions_about(about)
        return {
            f"{method}{question}": await question.put_to(store, method)
            for method in GROUPS[group]
            if method in self.offers
            for question in questions[method][:_FEW]
        }

    async def see_fresh(
        self, group: str, changes: Iterable[ArtifactChange], about: Iterable[ArtifactChange]
    ) -> dict[str, Any]:
        """Return what they show of a fresh `MemoryStore` that is given artifacts in one call, in reverse."""
        async with MemoryStore() as fresh:
            await fresh.apply(sorted(changes, key=lambda each: each.entry.artifact_id, reverse=True))
            return await self.see(group, fresh, about)


StoreCase: TypeAlias = Case[ExaminedStore]

"""Tools of the store cases: the fixture, sample artifacts, calls that show all content."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from airw._base.messages import one_line
from airw.protocols import AdjacencyReader, LanguageKeeper, RunKeeper, SchemaReader, Store, TermStatistics
from airw.stores import MemoryStore
from airw.testing.changes import ODD_IDS, put, vector_of
from airw.testing.exam import Case, expect_equal
from airw.values import ArtifactChange, ArtifactRef, Edge, Link
from airw.values.filters import parse_filter

GROUPS = {
    "records": ("records_of", "get_records", "artifact_ids", "ledger", "counts"),
    "vectors": ("search_vectors", "similarities", "best_of", "vectors", "vectors_of"),
    "text": ("search_text", "term_statistics"),
    "links": (
        *("neighbors", "resolve", "referrers", "fan_in", "max_fan_in", "matching"),
        *("unresolved_links", "link_counts", "neighbor_columns"),
    ),
}
"""The methods that return content. A case for a group needs its first method and uses the others if there are any."""
_MAX_CALLS = 5  # calls per method when a case looks at the store after each of many writes
_LINK_STATES = ("resolved", "dangling", "ambiguous", "foreign")


class FullStore(AdjacencyReader, TermStatistics, LanguageKeeper, Store, RunKeeper, SchemaReader, Protocol):
    """A store with all methods; a case uses only the methods that it needs."""


class StoreCall(NamedTuple):
    """The arguments of one call of a store."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]

    async def run(self, store: FullStore, method: str) -> Any:
        """Call a method of a store; return its answer as a value that can be compared."""
        if method == "neighbor_columns":
            return await self._read_columns(store)
        answer = await getattr(store, method)(*self.arguments, **self.options)
        if method == "ledger":
            return [entry and replace(entry, record_ids=tuple(entry.record_ids)) for entry in answer]
        if method == "counts":
            return {kind: answer.get(kind) for kind in ("artifacts", "records", *_LINK_STATES)}
        if method.startswith("search"):
            return [(list(ranking.record_ids), list(ranking.artifact_ids), ranking.scores) for ranking in answer]
        return list(answer) if method in ("best_of", "vectors_of") else answer

    async def _read_columns(self, store: FullStore) -> list[list[Edge]]:
        """Return the edges in `neighbor_columns`, as numbers differ from store to store."""
        (ids,) = self.arguments
        columns = await store.neighbor_columns(await store.artifact_numbers(ids), **self.options)
        is_foreign = [columns.label_table[label].is_foreign for label in columns.labels]
        expect_equal(
            [isinstance(columns.nodes[end], tuple) for end in columns.ends], is_foreign, "whether edges are foreign"
        )
        return columns.to_edges(ids)

    def __str__(self) -> str:
        arguments = [one_line(repr(argument), longest=60) for argument in self.arguments]
        return f"({', '.join([*arguments, *(f'{name}={value!r}' for name, value in self.options.items())])})"


_CONDITIONS: list[dict[str, Any]] = [{"tag": "x"}, {"tag": {"$contains": "x"}}, {"$not": {"n": {"$gte": 2}}}]
_FILTERS = [parse_filter(condition) for condition in _CONDITIONS]


_SEARCHES: list[tuple[int, dict[str, Any]]] = [
    (0, {}),
    *((k, {"per_artifact": flag}) for k in (1_000, 5, 1) for flag in (False, True)),
    *((5, {"surfaces": kinds, "per_artifact": True}) for kinds in (["chunk"], ["title", "chunk", "no"], [])),
    *((5, {"filter": parsed, "per_artifact": flag}) for parsed in _FILTERS for flag in (False, True)),
]
_LINK_CHOICES: list[dict[str, Any]] = [
    *({"direction": direction} for direction in ("out", "in", "both")),
    *({"direction": "both", "limit": limit} for limit in (0, 1, 2, 3)),
    *({"types": types, "exclude": exclude} for types in (None, ["r"], []) for exclude in ([], ["q"])),
    *({"origins": origins, "direction": "both"} for origins in (["typed"], [])),
    {"exclude": ["related"], "limit": 1},
]


def _call(*arguments: Any, **options: Any) -> StoreCall:
    return StoreCall(arguments, options)


def calls_about(changes: Iterable[ArtifactChange]) -> dict[str, list[StoreCall]]:
    """Return calls about artifacts by method; a store need not contain the artifacts."""
    changes = list(changes)
    absent = ["absent", "\ud800", "nul\0"]
    names = sorted({change.entry.artifact_id for change in changes})
    record_ids = sorted({record.id for change in changes for record in change.records})
    # Each list contains ids that are absent or cannot be stored, and one id twice.
    ids, records = [*names, *absent, *names[:1]], [*record_ids, *absent, *record_ids[:1]]
    refs = [*names, *absent, "T", "U", "FOLD/B", "FOLD/SAME"]
    nodes = [*refs, *(ArtifactRef("else", ref) for ref in refs)]
    vectors = np.array([vector_of("one two"), vector_of("three")], np.float32)
    cuts: list[dict[str, Any]] = [{"kinds": ["chunk"]}, {"kinds": ["title", "chunk"], "limit": 1}, {"kinds": []}]
    shared = [("tag", "x"), ("tag", ["x"]), ("tag", None), ("n", 1), ("n", True), ("n", "1"), ("who.name", "Ada")]
    return {
        "records_of": [_call(ids), _call([]), *(_call(ids, **cut) for cut in cuts), _call(ids, limit=2)],
        "get_records": [_call(records), _call([])],
        "artifact_ids": [_call()],
        "ledger": [_call(), _call(ids)],
        "counts": [_call()],
        "search_vectors": [_call(vectors, k, **options) for k, options in _SEARCHES] + [_call(vectors[:0], 5)],
        "similarities": [_call(vectors[0], records)],
        "best_of": [_call(vectors[0], ids), _call(vectors[0], ids, surfaces=["title"])],
        "vectors": [_call(records)],
        "vectors_of": [_call(ids), _call(["absent"]), _call([])],
        "search_text": [
            *(_call(["one two", "three", "?!", ""], k, **options) for k, options in _SEARCHES),
            _call(["CAFE", "keys' OR", '"bucher', "日本", "text:rotate*", "NEAR(", "\ud800", "s", "rotate\0keys"], 5),
        ],
        "term_statistics": [_call(["one two", "three", "?!", "CAFE 日本", "absent"]), _call([""]), _call([])],
        "neighbors": [_call(ids, **choice) for choice in _LINK_CHOICES] + [_call([])],
        "neighbor_columns": [_call(ids, **choice) for choice in _LINK_CHOICES[2:]] + [_call([])],
        "resolve": [_call(refs), _call([])],
        "referrers": [_call(nodes), _call(nodes, types=["r"]), _call(nodes, types=[])],
        "fan_in": [_call(nodes), _call(nodes, types=["r"])],
        "max_fan_in": [_call(), _call(types=["r"]), _call(types=[])],
        "matching": [_call(shared * 2), _call(shared, limit=1), _call([])],
        "unresolved_links": [_call(), _call(limit=1), _call(ids), _call(ids[1:-1], limit=1), _call([])],
        "link_counts": [_call()],
        "surface_kinds": [_call()],
        "has_fields": [_call(["tag", "who", "who.name", "who.none", "none", "", "a.b", 'qu"ote', "\ud800"]), _call([])],
        "field_names": [_call()],
    }


def artifacts_with_links() -> list[ArtifactChange]:
    """Return artifacts with links by id, of several types and origins.

    Some lead to the artifact itself, to other corpora, or to ids that do not exist.
    """
    foreign = Link("b2", "z", "derived", "else"), Link("zz", "r", target_source="else")
    several = Link("c", "r"), Link("b", "r"), Link("a", "r"), Link("b", "q", "typed"), Link("no", "r")
    weighted = [
        *(Link("a", "r", weight=weight) for weight in (0.25, 0.85, 0.5)),
        *(Link("b", "r", weight=weight) for weight in (0.5, 1)),
        *(Link("zz", "r", target_source="else", weight=weight) for weight in (0.125, 0.5)),
        Link("c", "r", weight=0.5),
        Link("no", weight=0.75),
        Link("weighted", weight=0.75),
    ]
    return [
        put("a", "one", links=several),
        put("b", "two", "three", kinds=("title", "chunk"), links=[Link("a", "r"), *foreign]),
        put("c", links=[Link("a", "r", "typed"), Link("a", "r", file="f", line=1), Link("a", "r", line=2)]),
        put("weighted", links=weighted),
        *(put(name, "four", links=[Link(ODD_IDS[number - 1])]) for number, name in enumerate(ODD_IDS) if name != "a"),
    ]


def artifacts_with_names() -> list[ArtifactChange]:
    """Return artifacts with names, and links by name that are resolved, ambiguous or dangling."""
    many, either, wider = Link("T", "r", "typed", file="f.md", line=3), Link("no", "b", or_ref="T"), Link("W", "c")
    others = Link("V", "q"), Link("b", "r"), Link("no", "q")
    in_any_case = Link("FOLD/B"), Link("no", or_ref="fold/B"), Link("fold/SAME"), Link("u")
    return [
        put("a", names=[["T"], ["U"], ["V", "b"]], links=[either, Link("b"), Link("T", target_source="else"), wider]),
        put("b", names=[[], ["T"], ["W"]], links=[many, Link("a"), Link("no", "r"), Link("no", "r"), Link("t")]),
        put("c", names=[["T"], ["U"]], links=[Link("no", or_ref="no too"), Link("V", or_ref="c")]),
        put("B", names=[[], ["U"], ["T", "W"]], links=[*others, Link("B"), Link("a", "d", or_ref="c")]),
        put("Fold", names=[["Fold/b"], ["Fold/same"]], links=in_any_case, fold_case=True),
        put("fold", names=[["fold/Same"], ["same"]], links=[Link("FOLD/b"), Link("SAME")], fold_case=True),
    ]


def diverse_artifacts() -> list[ArtifactChange]:
    """Return artifacts with equal, odd and no texts, many records and fields of all types."""
    tags: list[Any] = ["x", ["x", "y"], None, [["x"]], [], {"deep": 1}]
    numbers: list[Any] = [1, 1.0, True, "1", 2, {"m": [1]}]
    backwards = put("backwards", *"pqrstuvwxy")
    odd = {"half": 0.5, "yes": True, "big": 2**63 + 1, "none": None, "who.name": "Ada"}
    return [
        *artifacts_with_links(),
        *(
            put(
                f"t{number:02}",
                *["one two"] * (number % 3 + 1),
                *["three"] * (number % 2),
                kinds=("title", "chunk"),
                metadata={"tag": tags[number % 6], "n": numbers[number // 2 % 6], "who": {"name": "Ada"}},
                version=str(number),
            )
            for number in range(24)
        ),
        replace(
            backwards,
            records=[replace(record, surface_index=9 - record.surface_index) for record in backwards.records],
        ),
        put("crowd", *(f"one {number}" for number in range(60)), metadata={"n": 3}),
        put("odd", "", "\n \t", "nul \0 inside", "a\r\nb", "🦊 é e\u0301", "long " * 20_000, metadata=odd),
        put("words", "Café-Bücher: rotate the KEYS", "日本語 text", "AND or not near", "it's snake_case x1"),
    ]


def two_artifacts() -> list[ArtifactChange]:
    """Return two artifacts, `anchor` and `old`, of which every method returns something."""
    return [
        put("anchor", "one two", "four", metadata={"tag": ["x"]}, names=[[], ["T"]]),
        put("old", "two three", metadata={"tag": "y"}, links=[Link("T"), Link("new0")]),
    ]


@dataclass(frozen=True, slots=True)
class StoreFixture:
    """The fixture of one case: opens stores on the same content, which is empty at first.

    Args:
        open: A function that returns an async context manager of a store; it adds the artifacts that it is passed.
        offers: The names of the methods and capabilities of the store.
        stack: Closes the stores that `open_store` opens.
    """

    open: Callable[[Sequence[ArtifactChange]], AbstractAsyncContextManager[FullStore]]
    offers: frozenset[str]
    stack: AsyncExitStack

    async def open_store(self, changes: Sequence[ArtifactChange] = ()) -> FullStore:
        """Return a store with these artifacts that stays open until the end of the case."""
        return await self.stack.enter_async_context(self.open(changes))

    async def observe(self, group: str, store: FullStore, about: Iterable[ArtifactChange]) -> dict[str, Any]:
        """Return the answers of a store to some calls of each method of a group."""
        calls = calls_about(about)
        return {
            f"{method}{call}": await call.run(store, method)
            for method in GROUPS[group]
            if method in self.offers
            for call in calls[method][:_MAX_CALLS]
        }

    async def observe_fresh(
        self, group: str, changes: Iterable[ArtifactChange], about: Iterable[ArtifactChange]
    ) -> dict[str, Any]:
        """Return the answers of a new `MemoryStore` that contains the artifacts.

        It is filled by one call, in reverse order of ids: neither history nor order may matter.
        """
        async with MemoryStore() as fresh:
            await fresh.apply(sorted(changes, key=lambda change: change.entry.artifact_id, reverse=True))
            return await self.observe(group, fresh, about)


StoreCase: TypeAlias = Case[StoreFixture]

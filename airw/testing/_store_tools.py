"""Tools of the store cases: the fixture, sample artifacts, requests that show all content."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from airw._base.messages import one_line
from airw.errors import ArgumentError
from airw.protocols import (
    ArtifactIds,
    Calibrations,
    Change,
    Config,
    Counts,
    Edges,
    Ledger,
    LinkCounts,
    Matching,
    MaxFanIn,
    Names,
    Rank,
    Records,
    RecordsOf,
    Referrers,
    Request,
    Schema,
    Stale,
    Store,
    TextLanguage,
    UnresolvedLinks,
    Vectors,
    VectorsOf,
    Words,
)
from airw.stores import MemoryStore
from airw.testing.changes import ODD_IDS, put, vector_of
from airw.testing.exam import Case
from airw.values import ArtifactChange, ArtifactRef, LedgerEntry, Link, LinkFilter, NodeId, Ranking
from airw.values.filters import parse_filter

DELAYS = (0.0, 0.001, 0.003, 0.01)  # seconds until a call is cancelled
_FILTERS = [
    parse_filter(condition) for condition in ({"tag": "x"}, {"tag": {"$contains": "x"}}, {"$not": {"n": {"$gte": 2}}})
]
_SEARCHES: list[dict[str, Any]] = [
    {},
    {"k": 0},
    *({"k": k, "per_artifact": flag} for k in (1_000, 5, 1) for flag in (False, True)),
    *({"k": 5, "surfaces": kinds, "per_artifact": True} for kinds in (["chunk"], ["title", "chunk", "no"], [])),
    *({"k": 5, "filter": parsed, "per_artifact": flag} for parsed in _FILTERS for flag in (False, True)),
]
_LINKS: list[dict[str, Any]] = [
    *({"direction": direction} for direction in ("out", "in", "both")),
    *({"direction": "both", "limit": limit} for limit in (0, 1, 2, 3)),
    *({"links": LinkFilter(types=types, exclude=out)} for types in (None, ["r"], []) for out in ([], ["q"])),
    *({"links": LinkFilter(origins=origins), "direction": "both"} for origins in (["typed"], [])),
    *({"links": LinkFilter(exclude=[out]), "limit": 1} for out in ("q", "related")),
]


def requests_about(changes: Iterable[ArtifactChange]) -> list[Request[Any]]:
    """Return requests of all kinds about artifacts; a store need not contain the artifacts."""
    changes = list(changes)
    absent = ["absent", "\ud800", "nul\0"]
    names = sorted({change.entry.artifact_id for change in changes})
    rows = [record for change in changes for record in change.records]
    record_ids = [row.id for row in sorted(rows, key=lambda row: (row.artifact_id, row.surface_index))]
    # Each list contains ids that are absent or cannot be stored, and one id twice.
    ids, records = [*names, *absent, *names[:1]], [*record_ids, *absent, *record_ids[:1]]
    refs = [*names, *absent, "T", "t", "U", "FOLDED"]
    nodes: list[NodeId] = [*refs, *(ArtifactRef("else", ref) for ref in refs)]
    vectors = np.array([vector_of(text, width_of(changes)) for text in ("one two", "three")], np.float32)
    shared = [("tag", "x"), ("tag", ["x"]), ("tag", None), ("n", 1), ("n", True), ("n", "1"), ("who.name", "Ada")]
    # Fields and texts of the content itself, whatever it is.
    fields_of_one = next((row.metadata for row in rows if row.metadata), {})
    shared += [(name, value) for name, value in fields_of_one.items() if isinstance(value, str | int)]
    searches = [*_SEARCHES, *({"k": 5, "filter": parse_filter(dict([pair]))} for pair in shared[7:8])]
    texts = ["one two", "three", "?!", "", *(row.text[:100] for row in rows[:1])]
    paths = ["tag", "who", "who.name", "who.none", "n", "n.m", "none", "", "a.b", 'qu"ote', "\ud800"]
    stamp = LedgerEntry("", "", "embedder", "strategy", "extractor", "source")
    versions = dict.fromkeys([*names, *absent], "1")
    return [
        *(Records(records), Records([])),
        *(RecordsOf(ids), RecordsOf([]), RecordsOf(ids, limit=2), RecordsOf(ids, ["chunk"]), RecordsOf(ids, [])),
        RecordsOf(ids, ["title", "chunk"], 1),
        *(Vectors(records), VectorsOf(ids), VectorsOf(["absent"]), VectorsOf([])),
        *(Rank(vectors, **options) for options in searches),
        Rank(vectors[:0], 5),
        *(Rank(vectors, k, records=records) for k in (None, 3)),
        *(Rank(vectors, k, among=ids, per_artifact=True) for k in (None, 3)),
        *(Rank(vectors, among=chosen, per_artifact=True, surfaces=["title"]) for chosen in (ids, [])),
        *(Rank(vectors, among=names[::2], per_artifact=True, filter=parsed) for parsed in (None, _FILTERS[0])),
        *(Rank(texts, **options) for options in searches),
        *(Rank(texts, among=names[::2], k=k) for k in (None, 3)),
        *(Rank(queries, 3, records=record_ids[::2]) for queries in (vectors, texts)),
        Rank(["CAFE", "keys' OR", '"bucher', "日本", "text:rotate*", "NEAR(", "\ud800", "s", "rotate\0keys"], 5),
        *(Words(["one two", "three", "?!", "CAFE 日本", "absent"]), Words([""]), Words([]), TextLanguage()),
        *(Edges(ids, **options) for options in _LINKS),
        *(Edges([]), Names(refs), Names([]), LinkCounts()),
        *(Referrers(nodes, types) for types in (None, ["r"], [])),
        *(MaxFanIn(types) for types in (None, ["r"], [])),
        *(UnresolvedLinks(), UnresolvedLinks(limit=1), UnresolvedLinks(ids), UnresolvedLinks(ids[1:-1], 1)),
        UnresolvedLinks([]),
        *(Matching(shared * 2), Matching(shared, 1), Matching([])),
        *(ArtifactIds(), Ledger(), Ledger(ids), Counts(), Config(), Calibrations()),
        *(Stale(versions, replace(stamp, embedder_id=embedder)) for embedder in ("embedder", "other")),
        *(Schema(), Schema(paths)),
    ]


def width_of(content: Sequence[ArtifactChange]) -> int:
    """Return the width of the vectors of artifacts; that of `put` if there are none."""
    return next((change.vectors.shape[1] for change in content if len(change.records)), 4)


def describe(request: Request[Any]) -> str:
    """Return a request in one line, without arguments that have their default."""
    given = [(item.name, getattr(request, item.name), item.default) for item in fields(request)]  # type: ignore[arg-type]
    shown = [f"{name}={one_line(repr(value), longest=60)}" for name, value, default in given if value is not default]
    return f"{type(request).__name__}({', '.join(shown)})"


async def read_all(store: Store, requests: Sequence[Request[Any]]) -> dict[str, Any]:
    """Return the answers of one call of a store, by request, as values that can be compared."""
    answers = await store.read(*requests)
    return {
        describe(request): sorted(answer) if isinstance(request, Stale) else to_comparable(answer)
        for request, answer in zip(requests, answers, strict=True)
    }


def to_comparable(answer: Any) -> Any:
    """Return an answer without differences that mean nothing, such as lists for tuples."""
    if isinstance(answer, Ranking):
        return list(answer.record_ids), list(answer.artifact_ids), answer.scores
    if isinstance(answer, LedgerEntry):
        return replace(answer, record_ids=tuple(answer.record_ids))
    return [*map(to_comparable, answer)] if isinstance(answer, list) else answer


def draw_artifact(random: np.random.Generator, name: str, *, with_names: bool = True) -> ArtifactChange:
    """Return an artifact drawn at random; with names, links may be by name, too."""

    def pick(choices: Sequence[Any], at_most: int) -> list[Any]:
        return [choices[position] for position in random.integers(0, len(choices), random.integers(0, at_most + 1))]

    called = ["a", "b", "c", "d", "A", "T", "t", "U"]
    refs = [*called, "no", name, name.upper()]
    links = [
        Link(
            ref,
            str(random.choice(["r", "q", "related"])),
            str(random.choice(["inline", "typed", "derived"])),
            "else" if random.integers(0, 6) == 0 else None,
            line=next(iter(pick([1, 2], 1)), None),
            or_ref=next(iter(pick(refs, with_names)), None),
            weight=float(random.choice([0.25, 0.85, 1, 1])),
        )
        for ref in pick(refs, 6)
    ]
    return put(
        name,
        *(" ".join(pick(["one", "two", "three", "four"], 4)) for _ in range(random.integers(0, 4))),
        kinds=("title", "chunk"),
        metadata={"tag": pick(["x", "y", ["x", "z"], None, 1], 1) or "x", **dict.fromkeys(pick(["n", "more"], 1), 1)},
        links=links,
        names=[pick(called, 2) for _ in range(random.integers(0, 4) * with_names)],
        fold_case=bool(random.integers(0, 2)),
        version=str(random.integers(0, 3)),
    )


def artifacts_with_names() -> list[ArtifactChange]:
    """Return artifacts with names, and links by name that are resolved, ambiguous or dangling."""
    random = np.random.default_rng(8)
    twice = put("0", names=[["Folded"], ["T"]], links=[Link("no"), Link("no"), Link("FOLDED", "r")], fold_case=True)
    return [twice, *(draw_artifact(random, name) for name in "abcdABCD")]


def diverse_artifacts() -> list[ArtifactChange]:
    """Return artifacts with equal, odd and no texts, many records and fields of all types."""
    tags: list[Any] = ["x", ["x", "y"], None, [["x"]], [], {"deep": 1}]
    numbers: list[Any] = [1, 1.0, True, "1", 2, {"m": [1]}]
    backwards = put("backwards", *"pqrstuvwxy")
    random = np.random.default_rng(9)
    odd = {"half": 0.5, "yes": True, "big": 2**63 + 1, "none": None, "who.name": "Ada"}
    return [
        *(draw_artifact(random, name, with_names=False) for name in dict.fromkeys(["b", "c", "d", *ODD_IDS])),
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
        offers: The capabilities of the store.
        stack: Closes the stores that `open_store` opens.
        content: The artifacts of a store that has no others; `open` ignores what it is passed then.
    """

    open: Callable[[Sequence[ArtifactChange]], AbstractAsyncContextManager[Any]]
    offers: frozenset[str]
    stack: AsyncExitStack
    content: Sequence[ArtifactChange] | None = None

    def choose(self, content: Sequence[ArtifactChange]) -> Sequence[ArtifactChange]:
        """Return the content of a store that has no other; else what is passed."""
        return content if self.content is None else self.content

    async def open_store(self, changes: Sequence[ArtifactChange] = ()) -> Any:
        """Return a store with these artifacts that stays open until the end of the case."""
        return await self.stack.enter_async_context(self.open(changes))

    def requests_offered(self, about: Iterable[ArtifactChange]) -> list[Request[Any]]:
        """Return requests about artifacts of all kinds that the store offers."""
        return [request for request in requests_about(about) if request.needs in self.offers]

    async def list_answered(self, store: Store, about: Iterable[ArtifactChange]) -> list[Request[Any]]:
        """Return the requests that a store answers; it may refuse options with its own content."""
        answered = []
        for request in self.requests_offered(about):
            with suppress(*[ArgumentError] * (self.content is not None)):
                await store.read(request)
                answered.append(request)
        return answered

    async def observe(self, store: Store, about: Iterable[ArtifactChange]) -> dict[str, Any]:
        """Return the answers of a store to requests of all kinds that it offers."""
        return await read_all(store, self.requests_offered(about))

    async def observe_fresh(self, content: Change, about: Iterable[ArtifactChange]) -> dict[str, Any]:
        """Return the answers of a new `MemoryStore` that has only ever had this content.

        It is filled by one call, in reverse order of ids: neither history nor order may matter.
        """
        puts = sorted(content.puts, key=lambda change: change.entry.artifact_id, reverse=True)
        async with MemoryStore() as fresh:
            await fresh.apply(replace(content, puts=puts))
            return await self.observe(fresh, about)


StoreCase: TypeAlias = Case[StoreFixture]

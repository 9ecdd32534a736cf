"""Tools of the store cases: the fixture, sample artifacts, requests that show all content."""

import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import product
from typing import Any, TypeAlias, TypeVar

import anyio
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
from airw.testing.exam import Case, expect_equal, find_difference
from airw.values import DIRECTIONS, ArtifactChange, ArtifactRef, Contains, LedgerEntry, Link, LinkFilter, Ranking

T = TypeVar("T")

DELAYS = (0.0, 0.001, 0.003, 0.01)  # seconds until a call is cancelled
_CONDITIONS: list[Mapping[str, Any] | None] = [
    None,
    {"tag": "x"},
    {"tag": {"$contains": "x"}},
    {"$not": {"n": {"$gte": 2}}},
]
_PATHS = ["tag", "who", "who.name", "who.none", "n", "n.m", "none", "", "a.b", 'qu"ote', "\ud800"]
_WORDS = [
    *("CAFE", "keys' OR", '"bucher', "日本", "text:rotate*", "NEAR(", "\ud800", "s", "rotate\0keys"),
    *("walks", "the key", "that"),
]
_CONTAINS = [
    Contains(("one",)),
    Contains(("One, two", "t*")),
    Contains(("tw*",), ("three",)),
    Contains((), ("tw*", "two one")),
    Contains(("日本", "abs*")),
]
_SOME_TYPES: list[list[str] | None] = [None, ["r"], []]


def _vary(kind: Callable[..., T], **choices: Sequence[Any]) -> list[T]:
    """Return what a class makes of all combinations of values of its fields.

    The first values come first.
    """
    return [kind(**dict(zip(choices, values, strict=True))) for values in product(*choices.values())]


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
    vectors = np.array([vector_of(text, width_of(changes)) for text in ("one two", "three")], np.float32)
    queries: list[Any] = [vectors, ["one two", "three", "?!", "", *(row.text[:100] for row in rows[:1])]]
    # Fields of the content itself, whatever it is.
    fields_of_one = next((row.metadata for row in rows if row.metadata), {})
    own = [(name, value) for name, value in fields_of_one.items() if isinstance(value, str | int)]
    shared = [("tag", "x"), ("tag", ["x"]), ("tag", None), ("n", 1), ("n", True), ("n", "1"), ("who.name", "Ada"), *own]
    ranks: Any = partial(_vary, Rank, queries=queries)
    links = _vary(LinkFilter, types=_SOME_TYPES, exclude=[[], ["q"]], origins=[None, ["typed"]])
    stamps = [LedgerEntry("", "", id, "strategy", "extractor", "source") for id in ("embedder", "other")]
    return [
        *_vary(Records, ids=[records, []]),
        *_vary(RecordsOf, artifact_ids=[ids], kinds=[None, ["chunk"], ["title", "chunk"], []], limit=[None, 1]),
        *_vary(Vectors, ids=[records, []]),
        *_vary(VectorsOf, artifact_ids=[ids, ["absent"], []]),
        *ranks(k=[None, 1_000, 5, 1, 0], per_artifact=[False, True]),
        *ranks(k=[5], per_artifact=[True], surfaces=[["chunk"], ["title", "chunk", "no"], []]),
        *ranks(k=[5], per_artifact=[False, True], filter=[*_CONDITIONS, *({name: value} for name, value in own[:1])]),
        *ranks(k=[None, 3], records=[records, record_ids[::2]]),
        *ranks(k=[None, 3], per_artifact=[True], among=[ids, names[::2], []], filter=_CONDITIONS[:2]),
        *ranks(per_artifact=[True], among=[ids], surfaces=[["title"]]),
        *ranks(k=[None, 2], per_artifact=[False, True], contains=_CONTAINS),
        *_vary(Rank, queries=[vectors[:0], _WORDS], k=[5]),
        *_vary(Words, queries=[["one two", "three", "?!", "CAFE 日本", "absent"], [""], []]),
        *_vary(Edges, ids=[ids], direction=DIRECTIONS, limit=[None, 0, 1, 2, 3]),
        *_vary(Edges, ids=[ids], direction=["both"], links=links, limit=[None, 1]),
        *_vary(Referrers, nodes=[[*refs, *(ArtifactRef("else", ref) for ref in refs)]], types=_SOME_TYPES),
        *_vary(MaxFanIn, types=_SOME_TYPES),
        *_vary(UnresolvedLinks, artifact_ids=[None, ids, ids[1:-1], []], limit=[None, 1]),
        *_vary(Matching, wanted=[shared * 2, []], limit=[None, 1]),
        *_vary(Stale, versions=[dict.fromkeys([*names, *absent], "1")], stamp=stamps),
        *(RecordsOf([]), Edges([]), Names(refs), Names([]), Ledger(), Ledger(ids), Schema(), Schema(_PATHS)),
        *(kind() for kind in (TextLanguage, LinkCounts, ArtifactIds, Counts, Config, Calibrations)),
    ]


def width_of(content: Sequence[ArtifactChange]) -> int:
    """Return the width of the vectors of artifacts; that of `put` if there are none."""
    return next((change.vectors.shape[1] for change in content if len(change.records)), 4)


def describe(request: Request[Any]) -> str:
    """Return a request in one line, without arguments that have their default."""
    given = [(item.name, getattr(request, item.name), item.default) for item in fields(request)]  # type: ignore[arg-type]
    shown = [f"{name}={one_line(repr(value), longest=60)}" for name, value, default in given if value is not default]
    return f"{type(request).__name__}({', '.join(shown)})"


async def read_all(store: Store, requests: Sequence[Request[Any]]) -> list[Any]:
    """Return the answers of one call of a store as values that can be compared."""
    answers = zip(requests, await store.read(*requests), strict=True)
    return [to_comparable(answer, request) for request, answer in answers]


async def read_fresh(content: Change, requests: Sequence[Request[Any]]) -> list[Any]:
    """Return the answers of a new `MemoryStore` that has only ever had this content.

    It is filled by one call, in reverse order of ids: neither history nor order may matter.
    """
    puts = sorted(content.puts, key=lambda change: change.entry.artifact_id, reverse=True)
    async with MemoryStore() as fresh:
        await fresh.apply(replace(content, puts=puts))
        return await read_all(fresh, requests)


def expect_answers(requests: Sequence[Request[Any]], got: Sequence[Any], expected: Sequence[Any], where: str) -> None:
    """Raise `AssertionError` if answers to requests are not equal; `where` begins its message."""
    for request, one, other in zip(requests, got, expected, strict=True):
        expect_equal(one, other, f"{where}{describe(request)}")


def to_comparable(answer: Any, request: Request[Any] | None = None) -> Any:
    """Return an answer without differences that mean nothing, such as lists for tuples."""
    if isinstance(request, Stale):
        return sorted(answer)
    if isinstance(answer, Ranking):
        return list(answer.record_ids), list(answer.artifact_ids), answer.scores
    if isinstance(answer, LedgerEntry):
        return replace(answer, record_ids=tuple(answer.record_ids))
    return [*map(to_comparable, answer)] if isinstance(answer, list) else answer


def draw_artifact(random: np.random.Generator, name: str, *, with_names: bool = True) -> ArtifactChange:
    """Return an artifact drawn at random; with names, links may be by name, too."""

    def pick(choices: Sequence[Any], at_most: int) -> list[Any]:
        return [choices[position] for position in random.integers(0, len(choices), random.integers(0, at_most + 1))]

    def one_of(*choices: Any) -> Any:
        return choices[random.integers(len(choices))]

    called = ["a", "b", "c", "d", "A", "T", "t", "U"]
    refs = [*called, "no", name, name.upper()]
    links = [
        Link(
            ref,
            one_of("r", "q", "related"),
            one_of("inline", "typed", "derived"),
            one_of("else", *[None] * 5),
            line=one_of(None, 1, 2),
            or_ref=one_of(None, one_of(*refs)) if with_names else None,
            weight=one_of(0.25, 0.85, 1.0, 1.0),
        )
        for ref in pick(refs, 6)
    ]
    return put(
        name,
        *(" ".join(pick(["one", "two", "three", "four"], 4)) for _ in range(one_of(0, 1, 2, 3))),
        kinds=("title", "chunk"),
        metadata={"tag": one_of("x", "y", ["x", "z"], None, 1), **dict.fromkeys(pick(["n", "more"], 1), 1)},
        links=links,
        names=[pick(called, 2) for _ in range(one_of(0, 1, 2, 3) * with_names)],
        fold_case=bool(one_of(0, 1)),
        version=one_of("0", "1", "2"),
    )


def artifacts_with_names() -> list[ArtifactChange]:
    """Return artifacts with names, and links by name that are resolved, ambiguous or dangling."""
    random = np.random.default_rng(8)
    twice = put("0", names=[["Folded"], ["T"]], links=[Link("no"), Link("no"), Link("FOLDED", "r")], fold_case=True)
    tiers = put("strong", names=[["Tier"]]), put("weak", names=[[], ["Tier"]], links=[Link("Tier")])
    return [twice, *tiers, *(draw_artifact(random, name) for name in "abcdABCD")]


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

    async def open_store(self, changes: Sequence[ArtifactChange] = ()) -> Any:
        """Return a store with these artifacts that stays open until the end of the case."""
        return await self.stack.enter_async_context(self.open(changes))

    async def open_with(self, changes: Sequence[ArtifactChange]) -> tuple[Sequence[ArtifactChange], Any]:
        """Return the content of a store, and the store: its own content, or these artifacts."""
        content = changes if self.content is None else self.content
        return content, await self.open_store(content)

    @asynccontextmanager
    async def open_for(self, stores: Sequence[Any]) -> AsyncIterator[Sequence[Any]]:
        """Yield these stores; a new one if there are none, which is closed afterwards."""
        if stores:
            yield stores
        else:
            async with self.open([]) as store:
                yield [store]

    def requests_offered(self, about: Iterable[ArtifactChange]) -> list[Request[Any]]:
        """Return requests about artifacts of all kinds that the store offers."""
        return [request for request in requests_about(about) if request.all_needs <= self.offers]

    async def list_answered(self, store: Store, about: Iterable[ArtifactChange]) -> list[Request[Any]]:
        """Return the requests that a store answers; it may refuse options with its own content."""
        answered = []
        for request in self.requests_offered(about):
            with suppress(*[ArgumentError] * (self.content is not None)):
                await store.read(request)
                answered.append(request)
        return answered


def merge_changes(state: Change, change: Change) -> Change:
    """Return one change that stores what two stored in turn."""
    puts = {each.entry.artifact_id: each for each in state.puts if each.entry.artifact_id not in change.removals}
    puts |= {each.entry.artifact_id: each for each in change.puts}
    config = state.config if change.config is None else change.config
    language = state.language if change.language == "same" else change.language
    return Change([*puts.values()], (), config, {**state.calibrations, **change.calibrations}, language)


async def write_history(
    fixture: StoreFixture,
    history: Sequence[Change],
    requests: Sequence[Request[Any]],
    *,
    open_stores: int = 1,
    delays: Sequence[float] = (),
) -> None:
    """Write changes to stores in turn, and check all answers after each.

    They are those of a new store that was written once.

    Reads follow every write, as the answers of earlier reads must not matter either: they may be in a cache.

    Args:
        fixture: The fixture.
        history: The changes.
        requests: What the stores are asked.
        open_stores: The number of stores. With 0, one is opened for each write, and another one for the reads.
        delays: Seconds after which each write is cancelled; it may then be done, or not have begun.
    """
    stores = [await fixture.open_store() for _ in range(open_stores)]
    state = Change()
    for number, change in enumerate(history, 1):
        expected = await read_fresh(state, requests)
        async with fixture.open_for(stores[:1]) as [store]:
            with anyio.move_on_after(delays[number - 1] if delays else math.inf) as scope:
                await store.apply(change)
        async with fixture.open_for(stores) as readers:
            got = [await read_all(store, requests) for store in readers]
        if not scope.cancelled_caught or find_difference(got, [expected] * len(got)):
            state = merge_changes(state, change)
            expected = await read_fresh(state, requests)
        how = "cancelled " * scope.cancelled_caught
        for answers in got:
            expect_answers(requests, answers, expected, f"after {how}write {number}, in {len(got)} stores: ")
        stores = stores[1:] + stores[:1]


StoreCase: TypeAlias = Case[StoreFixture]

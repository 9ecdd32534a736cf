"""What the store cases are made of: expectations that say what came, small artifacts, and views of a store."""

import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw.protocols import Store
from airw.testing._exam import Case, brief, expect
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, NodeId, Ranking, Record

__all__ = [
    "EAST",
    "VIEWS",
    "Asked",
    "Opener",
    "StoreCase",
    "axes",
    "columns",
    "expect_equal",
    "expect_refusal",
    "fact",
    "fact_of_several",
    "on_one_store",
    "put",
    "record_id",
    "store_case",
    "vector_of",
]

Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
OnStore: TypeAlias = Callable[[Store], Coroutine[Any, Any, None]]
OnOpener: TypeAlias = Callable[[Opener], Coroutine[Any, Any, None]]
StoreCase: TypeAlias = Case[Opener]
Array: TypeAlias = NDArray[Any]
View: TypeAlias = "Callable[[Store, Asked], Awaitable[Any]]"

EAST: Floats = np.array([[1.0, 0.0]], np.float32)


def on_one_store(check: OnStore) -> OnOpener:
    """Turn a check of an open, empty store into one that opens it."""

    async def run(open_store: Opener) -> None:
        async with open_store() as store:
            await check(store)

    return run


def store_case(name: str, needs: Iterable[str], check: OnOpener) -> StoreCase:
    """Make a case whose promise is its name, read as a sentence; `check` is given what opens stores.

    The first store opened is empty, later ones are on the same content.
    """
    return Case(name, f"{name[0].upper()}{name[1:].replace('_', ' ')}.", check, frozenset(needs))


def fact(cases: list[StoreCase], *needs: str) -> Callable[[OnStore], OnStore]:
    """Add a check of one open, empty store to the cases, under its function's name."""

    def add(check: OnStore) -> OnStore:
        cases.append(store_case(check.__name__.strip("_"), needs, on_one_store(check)))
        return check

    return add


def fact_of_several(cases: list[StoreCase], *needs: str) -> Callable[[OnOpener], OnOpener]:
    """Add a check that opens stores on the same content itself to the cases, under its function's name."""

    def add(check: OnOpener) -> OnOpener:
        cases.append(store_case(check.__name__.strip("_"), needs, check))
        return check

    return add


def expect_equal(got: object, expected: object, what: str) -> None:
    """Raise, naming the first place that differs, unless both are equal; arrays to 1e-6, NaN equal to NaN."""
    difference = _difference(got, expected, "")
    if difference is not None:
        place, part, wanted = difference
        raise AssertionError(f"{what}{place}: expected {brief(wanted)}, got {brief(part)}")


def _difference(got: Any, expected: Any, place: str) -> tuple[str, object, object] | None:
    """Give the first place that differs and both its values."""
    if isinstance(expected, np.ndarray):
        return _array_difference(got, expected, place)
    if isinstance(expected, list | tuple) and type(got) is type(expected) and len(got) == len(expected):
        keys: Iterable[Any] = range(len(expected))
    elif isinstance(expected, dict) and isinstance(got, dict) and got.keys() == expected.keys():
        keys = expected
    elif (
        isinstance(expected, Record)
        and isinstance(got, Record)
        and replace(got, metadata=expected.metadata) == expected
    ):
        return _difference(got.metadata, expected.metadata, f"{place}.metadata")
    else:
        same = got == expected and isinstance(got, bool) == isinstance(expected, bool)
        return None if same else (place, got, expected)
    parts = (_difference(got[key], expected[key], f"{place}[{key!r}]") for key in keys)
    return next((part for part in parts if part is not None), None)


def _array_difference(got: Any, expected: Array, place: str) -> tuple[str, object, object] | None:
    if not isinstance(got, np.ndarray) or (got.shape, got.dtype) != (expected.shape, expected.dtype):
        kind = f"{got.dtype} {got.shape}" if isinstance(got, np.ndarray) else got
        return place, kind, f"{expected.dtype} {expected.shape}"
    wrong = np.argwhere(~np.isclose(got, expected, 1e-6, 1e-6, equal_nan=True))
    if not len(wrong):
        return None
    at = tuple(wrong[0].tolist())
    return f"{place}{list(at)}", got[at].item(), expected[at].item()


async def expect_refusal(kind: type[Exception], call: Awaitable[object], what: str, *naming: str) -> Exception:
    """Raise unless the call fails with an error of this kind whose message is one line and holds each of `naming`."""
    try:
        answer = await call
    except kind as error:
        message = str(error)
        expect(message and "\n" not in message, f"{what}: expected a message of one line, got {message!r}")
        for each in naming:
            expect(each in message, f"{what}: expected a message that names {each!r}, got {brief(message)}")
        return error
    except Exception as error:
        raise AssertionError(f"{what}: expected {kind.__name__}, got {brief(error)}") from error
    raise AssertionError(f"{what}: expected {kind.__name__}, got no error but {brief(answer)}")


def record_id(name: str, at: int = 0, kind: str = "chunk") -> str:
    """Give the id of one record that `put` makes."""
    return Record.make_id(name, kind, at)


def vector_of(text: str, dim: int = 4) -> Floats:
    """Give a unit vector `(dim,)` that only depends on the text."""
    row = np.random.default_rng(list(text.encode(errors="surrogatepass"))).standard_normal(dim)
    return np.asarray(row / np.linalg.norm(row), np.float32)


def axes(*angles: float) -> list[list[float]]:
    """Give unit vectors in the plane at these angles; their cosine to `EAST` falls from 0 to 180."""
    return [[math.cos(math.radians(angle)), math.sin(math.radians(angle))] for angle in angles]


def put(
    name: str,
    *texts: str,
    kinds: Sequence[str] = ("chunk",),
    metadata: Mapping[str, Any] | None = None,
    vectors: Sequence[Sequence[float]] | None = None,
    links: Sequence[Link] = (),
    names: Sequence[Sequence[str]] = (),
    version: str = "1",
    dim: int = 4,
) -> ArtifactChange:
    """Make an artifact of these texts, one record each, with vectors that follow from the texts unless given."""
    records = [
        Record(record_id(name, at, kinds[at % len(kinds)]), name, kinds[at % len(kinds)], at, text, metadata or {})
        for at, text in enumerate(texts)
    ]
    rows = [vector_of(text, dim) for text in texts] if vectors is None else vectors
    return ArtifactChange(
        LedgerEntry(name, version, "embedder", "strategy", "extractor", "source", tuple(each.id for each in records)),
        records,
        np.array(rows, np.float32).reshape(len(records), -1) if records else np.empty((0, 0), np.float32),
        Extraction(links, names),
    )


def columns(ranking: Ranking) -> tuple[list[str], list[str], object]:
    """Give a ranking as values that compare."""
    return list(ranking.record_ids), list(ranking.artifact_ids), ranking.scores


@dataclass(frozen=True, slots=True)
class Asked:
    """What a view asks about: artifacts and records that the store may hold or not."""

    names: list[str]
    record_ids: list[str]

    @classmethod
    def of(cls, changes: Iterable[ArtifactChange]) -> "Asked":
        """Ask about everything in these changes."""
        changes = list(changes)
        names = {change.entry.artifact_id for change in changes}
        return cls(sorted(names), sorted({record.id for change in changes for record in change.records}))


async def _view_of_records(store: Store, asked: Asked) -> Any:
    counts = await store.counts()
    entries = [await store.ledger(), await store.ledger(asked.names)]
    return {
        "artifact_ids": await store.artifact_ids(),
        "ledger": [[each and replace(each, record_ids=tuple(each.record_ids)) for each in some] for some in entries],
        "records_of": await store.records_of(asked.names),
        "get_records": await store.get_records(asked.record_ids),
        "counts": [counts["artifacts"], counts["records"]],
    }


async def _view_of_vectors(store: Store, asked: Asked) -> Any:
    queries = np.array([vector_of("one two"), vector_of("three")], np.float32)
    best, scores = await store.best_of(queries[0], asked.names)
    return {
        "vectors": await store.vectors(asked.record_ids),
        "similarities": await store.similarities(queries[0], asked.record_ids),
        "vectors_of": list(await store.vectors_of(asked.names)),
        "best_of": [best, scores],
        "search_vectors": [
            columns(each)
            for per_artifact in (False, True)
            for each in await store.search_vectors(queries, 5, per_artifact=per_artifact)
        ],
    }


async def _view_of_text(store: Store, _: Asked) -> Any:
    return [
        columns(each)
        for per_artifact in (False, True)
        for each in await store.search_text(["one two", "three"], 5, per_artifact=per_artifact)
    ]


async def _view_of_links(store: Store, asked: Asked) -> Any:
    refs = [*asked.names, "T", "U"]
    nodes: list[NodeId] = [*refs, *(("else", each) for each in refs)]
    return {
        "resolve": await store.resolve(refs),
        "referrers": await store.referrers(nodes),
        "fan_in": [await store.fan_in(nodes, types=["r"]), await store.max_fan_in()],
        "neighbors": [await store.neighbors(asked.names, direction=direction) for direction in ("out", "in", "both")],
        "matching": await store.matching([("tag", "x"), ("tag", "y"), ("tag", None)]),
        "unresolved": await store.unresolved(),
        "link_counts": await store.link_counts(),
    }


VIEWS: Mapping[str, View] = {
    "records": _view_of_records,
    "vectors": _view_of_vectors,
    "text": _view_of_text,
    "links": _view_of_links,
}
"""For each capability that shows content: all that can be seen through it."""

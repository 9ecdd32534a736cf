"""Cases of `RecordWriter.apply`: all or nothing, one state per call, and no trace of the way to it.

Each is asked once for every capability that shows content, and compares with a fresh `MemoryStore` where it needs to.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np

from airw._base.concurrency import first_error
from airw.errors import StoreError
from airw.protocols import Store
from airw.stores import MemoryStore
from airw.testing._exam import brief, expect
from airw.testing._store_tools import (
    VIEWS,
    Asked,
    StoreCase,
    expect_equal,
    expect_refusal,
    on_one_store,
    put,
    record_id,
    store_case,
    vector_of,
)
from airw.values import ArtifactChange, Link

__all__ = ["CASES", "anchored", "view_of_fresh"]

DELAYS = (0.0, 0.001, 0.003, 0.01)  # seconds until a call is cancelled


async def view_of_fresh(capability: str, changes: Iterable[ArtifactChange], asked: Asked) -> Any:
    """Give what a fresh `MemoryStore` shows when it is given these artifacts in one call, in reverse."""
    async with MemoryStore() as fresh:
        await fresh.apply(sorted(changes, key=lambda each: each.entry.artifact_id, reverse=True))
        return await VIEWS[capability](fresh, asked)


def anchored() -> list[ArtifactChange]:
    """Make two artifacts with something to see by every capability."""
    return [
        put("anchor", "one two", "four", metadata={"tag": ["x"]}, names=[[], ["T"]]),
        put("old", "two three", metadata={"tag": "y"}, links=[Link("T"), Link("new0")]),
    ]


async def _nothing_of_a_refused_write_is_kept(capability: str, store: Store) -> None:
    before, new = anchored(), [put(f"new{at}", "three", metadata={"tag": "x"}, links=[Link("T")]) for at in range(20)]
    asked = Asked.of([*before, *new])
    await store.apply(before)
    for bad in (put("new0", "twice"), put("bad\ud800", "x")):
        what = f"a write that ends with {brief(bad.entry.artifact_id)}"
        await expect_refusal(StoreError, store.apply([*new, bad], removals=["old"]), what)
        found = await VIEWS[capability](store, asked)
        expect_equal(found, await view_of_fresh(capability, before, asked), f"after {what} was refused: ")
    await store.apply(new, removals=["old"])
    expected = await view_of_fresh(capability, [before[0], *new], asked)
    expect_equal(await VIEWS[capability](store, asked), expected, "after the same write without its end: ")


async def _a_cancelled_write_is_done_or_was_never_begun(capability: str, store: Store) -> None:
    state = {each.entry.artifact_id: each for each in anchored()}
    await store.apply(list(state.values()))
    for step, delay in enumerate(DELAYS):
        new = [
            put(f"new{at}", f"three {step}", metadata={"tag": "x"}, links=[Link("T", f"t{step}")]) for at in range(100)
        ]
        after = {name: each for name, each in state.items() if name != "old"} | {
            each.entry.artifact_id: each for each in new
        }
        asked = Asked.of([*state.values(), *new[::10]])
        with anyio.move_on_after(delay):
            await store.apply(new, removals=["old"])
        found = await VIEWS[capability](store, asked)
        try:
            expect_equal(found, await view_of_fresh(capability, state.values(), asked), "")
        except AssertionError:
            expected = await view_of_fresh(capability, after.values(), asked)
            expect_equal(found, expected, f"after a write cancelled at {delay} s, neither undone nor done: ")
            state = after
    await store.apply([put("last", "still usable")])


def _crowd(version: int) -> list[ArtifactChange]:
    """Make forty artifacts that show the version by every capability."""
    parity = ("even", "odd")[version % 2]
    return [
        put(f"a{at}", f"text {parity}", version=str(version), metadata={"p": parity}, links=[Link("hub", parity)])
        for at in range(40)
    ]


_NAMES = [f"a{at}" for at in range(40)]
_IDS = [record_id(name) for name in _NAMES]
_EVEN_AND_ODD = np.array([vector_of("text even"), vector_of("text odd")], np.float32)


async def _versions_of_records(store: Store) -> list[int]:
    entries = {each and each.version for each in await store.ledger(_NAMES)}
    texts = {group[0].text if group else None for group in await store.records_of(_NAMES)}
    more = {each and each.text for each in await store.get_records(_IDS)}
    return [len(entries), len(texts), len(more)]


async def _versions_of_vectors(store: Store) -> list[int]:
    rankings = await store.search_vectors(_EVEN_AND_ODD, 100)
    rows = np.unique(await store.vectors(_IDS), axis=0)
    same = [len(np.unique(each.scores.round(5))) if len(each) == len(_IDS) else len(each) for each in rankings]
    return [len(rows), *same, len(np.unique((await store.similarities(_EVEN_AND_ODD[0], _IDS)).round(5)))]


async def _versions_of_text(store: Store) -> list[int]:
    found = sorted([len(each) for each in await store.search_text(["even", "odd", "text"], 100)])
    return [1] if found == [0, 40, 40] else found


async def _versions_of_links(store: Store) -> list[int]:
    [edges] = await store.neighbors(["hub"], direction="in")
    values = sorted(len(each) for each in await store.matching([("p", "even"), ("p", "odd")]))
    return [len({each.type for each in edges}), 1 if values == [0, 40] else 2, len(edges) // 40]


_VERSIONS: Mapping[str, Callable[[Store], Awaitable[list[int]]]] = {
    "records": _versions_of_records,
    "vectors": _versions_of_vectors,
    "text": _versions_of_text,
    "links": _versions_of_links,
}


async def _a_reader_sees_all_of_a_write_or_nothing(capability: str, store: Store) -> None:
    async def write() -> None:
        for version in range(2, 14):
            await store.apply(_crowd(version))
            await anyio.lowlevel.checkpoint()
        done.set()

    async def read() -> None:
        while not done.is_set():
            versions = await _VERSIONS[capability](store)
            expect(set(versions) == {1}, f"expected one version of 40 artifacts in each answer, got {versions}")
            await anyio.lowlevel.checkpoint()

    done = anyio.Event()
    await store.apply([put("hub"), *_crowd(1)])
    with first_error():
        async with anyio.create_task_group() as group:
            for task in (write, read, read):
                group.start_soon(task)


async def _any_history_ends_as_one_write_of_what_is_left(capability: str, store: Store) -> None:
    """What was asked on the way must not matter either."""
    random = np.random.default_rng(3)
    history = list(_history(random))
    asked = Asked.of([*anchored(), *(each for puts, _ in history for each in puts)])
    state = {each.entry.artifact_id: each for each in anchored()[:1]}
    await store.apply(list(state.values()))
    for step, (puts, removals) in enumerate(history):
        await store.apply(puts, removals=removals)
        state = {name: each for name, each in state.items() if name not in removals}
        state |= {each.entry.artifact_id: each for each in puts}
        expected = await view_of_fresh(capability, state.values(), asked)
        expect_equal(await VIEWS[capability](store, asked), expected, f"after {step + 1} writes: ")


def _history(random: np.random.Generator) -> Iterable[tuple[list[ArtifactChange], list[str]]]:
    for _ in range(15):
        names = random.choice(list("abcdef"), 3, replace=False)
        yield (
            [_drawn(random, str(name)) for name in names[: random.integers(1, 4)]],
            [str(random.choice(list("abcdef")))],
        )


def _drawn(random: np.random.Generator, name: str) -> ArtifactChange:
    def some(choices: Sequence[Any], most: int) -> list[Any]:
        return [choices[at] for at in random.integers(0, len(choices), random.integers(0, most + 1))]

    texts = [" ".join(some(["one", "two", "three", "four"], 4)) for _ in range(random.integers(0, 4))]
    links = [
        Link(
            ref,
            str(random.choice(["r", "q"])),
            target_source=("else" if random.integers(0, 6) == 0 else None),
            or_ref=next(iter(some(["b", "d", "T", "U"], 1)), None),
        )
        for ref in some(["a", "b", "c", "T", "U"], 3)
    ]
    metadata = {"tag": some(["x", "y", ["x", "z"], None, 1], 1) or "x"}
    names = [some(["T", "U", "a"], 1) for _ in range(random.integers(0, 3))]
    version = str(random.integers(0, 100))
    return put(name, *texts, kinds=("title", "chunk"), metadata=metadata, links=links, names=names, version=version)


async def _ask_records(store: Store, at: int) -> list[str]:
    return [each.artifact_id for each in await store.get_records([record_id(f"a{at}")]) if each]


async def _ask_vectors(store: Store, at: int) -> list[str]:
    return list((await store.search_vectors(vector_of(f"word n{at}")[None], 1))[0].artifact_ids)


async def _ask_text(store: Store, at: int) -> list[str]:
    return list((await store.search_text([f"n{at}"], 5))[0].artifact_ids)


async def _ask_links(store: Store, at: int) -> list[str]:
    return (await store.matching([("n", at)]))[0]


_ASK: Mapping[str, Callable[[Store, int], Awaitable[Any]]] = {
    "records": _ask_records,
    "vectors": _ask_vectors,
    "text": _ask_text,
    "links": _ask_links,
}


async def _questions_asked_at_once_get_their_own_answers(capability: str, store: Store) -> None:
    async def ask(at: int) -> None:
        expect_equal(await _ASK[capability](store, at), [f"a{at}"], f"the answer to question {at} of 30")

    await store.apply([put(f"a{at}", f"word n{at}", metadata={"n": at}) for at in range(30)])
    with first_error():
        async with anyio.create_task_group() as group:
            for at in range(30):
                group.start_soon(ask, at)


async def _a_cancelled_question_leaves_the_store_usable(capability: str, store: Store) -> None:
    await store.apply([put(f"a{at}", f"word n{at}", metadata={"n": at}) for at in range(300)])
    for at, delay in enumerate(DELAYS):
        with anyio.move_on_after(delay):
            for other in range(20):
                await _ASK[capability](store, other)
        expect_equal(await _ASK[capability](store, at), [f"a{at}"], f"the answer after one cancelled at {delay} s")
    await store.apply([put("a0", "word new", metadata={"n": -1})])
    expect_equal(await _ASK[capability](store, 1), ["a1"], "the answer after a write")


_CHECKS = (
    _nothing_of_a_refused_write_is_kept,
    _a_cancelled_write_is_done_or_was_never_begun,
    _a_reader_sees_all_of_a_write_or_nothing,
    _any_history_ends_as_one_write_of_what_is_left,
    _questions_asked_at_once_get_their_own_answers,
    _a_cancelled_question_leaves_the_store_usable,
)

CASES: list[StoreCase] = [
    store_case(f"{check.__name__[1:]}_as_{capability}_tell", [capability], on_one_store(partial(check, capability)))
    for check in _CHECKS
    for capability in VIEWS
]

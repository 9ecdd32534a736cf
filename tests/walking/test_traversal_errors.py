"""Errors during a walk: invalid hits and ids, errors at each stage, failing stores."""

import asyncio
from collections import UserDict
from contextlib import suppress
from dataclasses import replace
from itertools import count

import anyio
import numpy as np
import pytest

from airw.corpora import build, open_corpus
from airw.errors import PolicyError, StoreError
from airw.policies import CollapsedTree, Eager, per_node
from airw.stores import MemoryStore, Wrapper
from airw.traversal import traverse
from airw.values import SearchHit
from tests.support.adversaries import (
    PATIENCE,
    STAGES,
    STAR,
    Batched,
    OneByOne,
    Sources,
    every_form,
    every_stage,
    failing,
    hit_of,
    leaving_nothing,
    run_walk,
    stages,
    walk_of,
)
from tests.support.corpora import source


class Mine(BaseException):
    """Not an `Exception`, like errors that end a program."""


# Hits.


async def test_the_same_hit_for_many_nodes_is_accepted():
    hit = hit_of("shared")

    async def to_hits(state, committed, store):
        return [hit] * len(committed)

    async with leaving_nothing():
        walk = walk_of(Batched(STAR, to_hits=to_hits))
        assert [got is hit async for got in walk] == [True] * 6
    assert walk.summary.emitted == 6
    assert len(walk.ranking) == 6
    assert walk.path(hit)


async def test_the_same_metadata_dict_for_many_hits_is_accepted():
    shared = {}

    async def to_hits(state, committed, store):
        return [SearchHit(str(entry.id), "node", 0.0, "", shared) for entry in committed]

    async with leaving_nothing():
        walk = walk_of(Batched(STAR, to_hits=to_hits))
        hits = [hit async for hit in walk]
    assert [walk.path(hit)[-1] for hit in hits] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("metadata", [None, [], "x", UserDict(), dict.items], ids=repr)
async def test_metadata_that_is_no_dict_is_a_policy_error(metadata):
    async def to_hits(state, committed, store):
        return [SearchHit("a", "node", 0.0, "", metadata)]

    error, ids = await failing(Batched(STAR, to_hits=to_hits))
    assert isinstance(error, PolicyError)
    assert "metadata dict" in str(error)
    assert ids == []


@pytest.mark.parametrize("broken", ["artifact_id", "surface_kind", "source", "surface_index"])
async def test_hits_that_cannot_be_distinguished_cannot_be_ranked(broken):
    async def to_hits(state, committed, store):
        parts = {"artifact_id": "a", "surface_kind": "node", "score": 0.0, "text": ""} | {broken: []}
        return [SearchHit(**parts)]

    async with walk_of(Batched(STAR, to_hits=to_hits), node_budget=1) as walk:
        assert len([hit async for hit in walk]) == 1
    with pytest.raises(PolicyError, match=r"returned hits whose identity cannot be compared \("):
        _ = walk.ranking


async def test_a_dict_that_refuses_writes_ends_the_walk_with_its_error():
    class Locked(dict):
        def __setitem__(self, name, value):
            raise KeyError("locked")

    async def to_hits(state, committed, store):
        return [SearchHit("a", "node", 0.0, "", Locked())]

    error, _ = await failing(Batched(STAR, to_hits=to_hits))
    assert isinstance(error, KeyError)
    assert "to_hits" in "".join(error.__notes__)


# Nodes and ids.


class Id:
    """An id that fails in the given method."""

    def __init__(self, name="id", *, hashes=None, equals=None):
        self.name, self.hashes, self.equals = name, hashes, equals

    def __hash__(self):
        return self.hashes() if self.hashes else 1

    def __eq__(self, other):
        return self.equals() if self.equals else self is other


def fails(kind):
    def fail(*arguments):
        raise kind("mine")

    return fail


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize("kind", [KeyError, TypeError, Mine])
@pytest.mark.parametrize("where", ["hashes", "equals"])
async def test_an_id_that_cannot_be_hashed_or_compared_ends_the_walk(form, kind, where):
    ids = [Id(**{where: fails(kind)}) for _ in range(3)]
    error, emitted = await failing(form(seeds=[0, 1, 2], node_id=lambda node: ids[node]))
    assert isinstance(error, PolicyError if (kind, where) == (TypeError, "hashes") else kind)
    if kind is KeyError:
        assert any("node_id" in note for note in error.__notes__)
    assert emitted == []


@pytest.mark.parametrize("where", ["hashes", "equals"])
async def test_an_error_of_an_id_names_the_node_too(where):
    ids = [Id(**{where: fails(KeyError)}) for _ in range(3)]
    error, _ = await failing(Batched(seeds=["x", "y"], node_id=lambda node: ids["xy".index(node)]))
    assert any("'y'" in note or "'x'" in note for note in error.__notes__)


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize("unhashable", [[], {}, set(), np.zeros(2), ([],)], ids=repr)
async def test_an_unhashable_id_is_a_policy_error(form, unhashable):
    error, _ = await failing(form(seeds=["x"], node_id=lambda node: unhashable))
    assert isinstance(error, PolicyError)
    assert "hashable" in str(error)
    assert "'x'" in str(error)


@every_form
async def test_ids_that_equal_everything_are_one_node(form):
    ids, summary = await run_walk(form(count, node_id=lambda node: Id(equals=lambda: True)), limits={"max_fanout": 50})
    assert ids == ["0" if form is not Batched else ids[0]]
    assert summary.stop == "exhausted"


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize("strange", ["never equal", "another hash each time", "nan", "changing"])
async def test_ids_that_never_equal_themselves_end_at_the_budget_or_in_an_error(form, strange):
    hashes = count()
    make = {
        "never equal": lambda node: Id(equals=lambda: False),
        "another hash each time": lambda node: Id(hashes=lambda: next(hashes)),
        "nan": lambda node: float("nan"),
        "changing": lambda node: next(hashes),
    }[strange]
    policy = form(lambda node: [1, 2, 3], node_id=make)
    with anyio.fail_after(PATIENCE):
        walk = walk_of(policy, node_budget=50)
        with suppress(PolicyError, KeyError):
            async for _ in walk:
                pass
    assert walk.summary.emitted <= 50


class Unspeakable:
    """A node whose repr fails, or is not one line."""

    def __init__(self, text=None):
        self.text = text

    def __repr__(self):
        if self.text is None:
            raise ValueError("no repr")
        return self.text


class Unread(Batched):
    """Fails at one stage that concerns a node."""

    def __init__(self, node, what, kind=KeyError):
        super().__init__(seeds=[node])
        self.what, self.kind = what, kind

    def node_id(self, node):
        if self.what == "node_id":
            raise self.kind("mine")
        return [] if self.what == "unhashable" else id(node)

    def edge_of(self, node):
        if self.what == "edge_of":
            raise self.kind("mine")

    async def score(self, state, nodes, store):
        return [float("nan") if self.what == "nan" else None if self.what == "none" else 0.0 for _ in nodes]

    async def expand(self, state, committed, store):
        return [self.neighbours() for _ in committed] if self.what != "text" else ["text"]

    def neighbours(self):
        if self.what == "read":
            raise self.kind("mine")
        yield from ()


@pytest.mark.parametrize("what", ["node_id", "edge_of", "read"])
async def test_the_error_is_raised_even_if_the_repr_of_the_node_fails(what):
    error, _ = await failing(Unread(Unspeakable(), what))
    assert isinstance(error, KeyError)
    assert error.args == ("mine",)


@pytest.mark.pairwise
@pytest.mark.parametrize("method", ["score", "expand", "to_hit"])
@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
async def test_the_error_of_a_per_node_policy_is_raised_even_if_the_repr_of_the_node_fails(method, wait):
    def fail(*arguments):
        raise KeyError("mine")

    async def fail_later(*arguments):
        raise KeyError("mine")

    replaced = {"to_hit": lambda *_: None, method: fail_later if wait else fail}
    error, _ = await failing(per_node(OneByOne(seeds=[Unspeakable()], node_id=id, **replaced)))
    assert isinstance(error, KeyError)


@pytest.mark.pairwise
@pytest.mark.parametrize("what", ["unhashable", "nan", "none"])
@pytest.mark.parametrize("text", [None, "two\nlines"], ids=["no repr", "two lines"])
async def test_a_message_about_a_node_is_one_line_for_every_repr(what, text):
    error, _ = await failing(Unread(Unspeakable(text), what))
    assert isinstance(error, PolicyError)
    assert str(error).count("\n") == 0


# Errors.


def error_of(kind):
    return ExceptionGroup("mine", [KeyError("mine")]) if kind is ExceptionGroup else kind("mine")


def raising(kind):
    def fail(*arguments):
        raise error_of(kind)

    return fail


def is_stray(kind):
    return issubclass(kind, (StopIteration, StopAsyncIteration))


def text_of(error):
    return str(error) + "".join(getattr(error, "__notes__", ()))


@pytest.mark.pairwise
@every_stage
@pytest.mark.parametrize("kind", [KeyError, ExceptionGroup, TimeoutError, StopIteration, StopAsyncIteration, Mine])
async def test_an_error_at_any_stage_is_raised_unchanged_and_names_the_stage(form, stage, kind):
    error, ids = await failing(form(STAR, at=stage, do=raising(kind)))
    assert type(error) is (PolicyError if is_stray(kind) else kind)
    if kind is not Mine:
        # A policy that works one node at a time has a method `to_hit`.
        methods = {"read seeds": "seed", "read neighbours": "expand", "to_hits": "to_hit"}
        assert "." + methods.get(stage, stage) in text_of(error)
    assert ids == (["0"] if stage in ("stop", "expand", "read neighbours") else [])


@pytest.mark.pairwise
@stages(["batched", "per node"], STAGES[:-1])  # an event loop itself ends when a task but the first raises these
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
async def test_an_error_that_ends_a_program_ends_the_walk_and_is_raised_unchanged(form, stage, kind):
    """This includes a `CancelledError` without a cancellation."""
    error, _ = await failing(form(STAR, at=stage, do=raising(kind)))
    assert type(error) is kind


@every_form
async def test_an_error_group_from_the_tasks_of_a_policy_is_raised_whole(form):
    async def fail(state):
        async with anyio.create_task_group() as group:
            for kind in (KeyError, OSError):
                group.start_soon(raises_later, kind)

    async def raises_later(kind):
        await anyio.lowlevel.checkpoint()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.001)
        raise kind("mine")

    for stage in ("seed", "score", "expand", "to_hits", "stop", "read neighbours"):
        error, _ = await failing(form(STAR, at=stage, do=fail))
        assert isinstance(error, ExceptionGroup)
        assert {type(each) for each in error.exceptions} == {KeyError, OSError}


@pytest.mark.parametrize("kind", [KeyError, StopIteration, StopAsyncIteration, Mine])
async def test_an_error_of_rank_is_raised_at_every_request_for_the_ranking(kind):
    walk = walk_of(Batched(STAR, at="rank", do=raising(kind)))
    assert len([hit async for hit in walk]) == 6
    for _ in range(2):
        with pytest.raises(PolicyError if is_stray(kind) else kind):
            _ = walk.ranking


class Failing:
    """An iterable of two items that raises at the given position."""

    def __init__(self, error, at):
        self.error, self.at, self.left = error, at, 2

    def reach(self, stage):
        if stage == self.at:
            raise self.error

    def take(self, end):
        self.left -= 1
        if self.left >= 0:
            return self.left + 1
        self.reach("next")
        raise end

    def __iter__(self):
        self.reach("iter")
        return self

    def __next__(self):
        return self.take(StopIteration)

    def close(self):
        self.reach("close")


class FailingLater(Failing):
    """The async form of `Failing`."""

    __iter__ = __next__ = None

    def __aiter__(self):
        self.reach("iter")
        return self

    async def __anext__(self):
        return self.take(StopAsyncIteration)

    async def aclose(self):
        self.reach("close")


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize(
    ("source", "at", "kind"),
    [
        (source, at, kind)
        for source, end in ((Failing, StopIteration), (FailingLater, StopAsyncIteration))
        for at in ("iter", "next", "close")
        for kind in (KeyError, RuntimeError, ExceptionGroup, StopIteration, StopAsyncIteration, Mine)
        if (at, kind) != ("next", end)
    ],
)
@pytest.mark.parametrize("where", ["seeds", "neighbours"])
async def test_an_error_of_an_iterable_is_raised_unchanged(form, source, at, kind, where):
    """A stray `StopIteration` or `StopAsyncIteration` becomes a `PolicyError`."""
    offered = source(error_of(kind), at)
    error, ids = await failing(form(seeds=offered) if where == "seeds" else form({0: offered}))
    assert type(error) is (PolicyError if is_stray(kind) else kind)
    if kind is not Mine:
        assert {"seeds": ".seed", "neighbours": ".expand"}[where] in text_of(error)
    assert ids == ([] if where == "seeds" else ["0"])


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize("failing_one", [0, 3, 7])
async def test_all_other_sources_of_a_step_are_closed_when_one_fails(form, failing_one):
    sources = Sources()

    def neighbours(id):
        if id == 0:
            return range(1, 9)
        kind = "cursor" if id % 2 else "async cursor"
        return Failing(KeyError("mine"), "next") if id == failing_one + 1 else sources.make(kind, count(100 * id))

    error, _ = await failing(form(neighbours))
    assert isinstance(error, KeyError)
    assert sources.open == 0


# Stores that fail half-way.


class FailingStore(Wrapper):
    """A store that counts its calls and fails at the n-th."""

    def __init__(self, store, fails_at=None):
        super().__init__(store)
        self.fails_at, self.calls = fails_at, 0

    async def read(self, *requests):
        self.calls += 1
        if self.calls == self.fails_at:
            raise OSError(f"call {self.calls}")
        return await super().read(*requests)


async def take(walk, ids):
    async for hit in walk:
        ids.append(hit.artifact_id)


POLICIES = [Eager(start_k=1, select_k=None, types=["NEXT"], max_depth=4), CollapsedTree()]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
async def test_a_failing_call_of_a_store_ends_the_walk_with_its_error_and_earlier_hits_stay(policy):
    async with build(source(), store=MemoryStore()) as corpus:
        whole = FailingStore(corpus.store)
        walk = traverse("alpha 7", replace(corpus, store=whole), policy=policy)
        expected = [hit.artifact_id async for hit in walk]
        assert len(expected) > 2
        assert whole.calls >= 2
        for n in range(1, whole.calls + 1):
            ids = []
            async with leaving_nothing():
                walk = traverse("alpha 7", replace(corpus, store=FailingStore(corpus.store, n)), policy=policy)
                with pytest.raises(OSError, match=f"call {n}") as caught:
                    await take(walk, ids)
            assert any(type(policy).__name__ in note for note in caught.value.__notes__)
            assert ids == expected[: len(ids)]
            assert walk.summary.stop == "failed"
            assert {hit.artifact_id for hit in walk.ranking} == set(ids)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("taken", [0, 1, 3])
async def test_a_file_closed_in_the_middle_of_a_walk_ends_it_with_a_store_error(tmp_path, taken):
    path = tmp_path / "notes.airw"
    await (await build(source(), store=path)).aclose()
    async with leaving_nothing():
        corpus = await open_corpus(path, embedder=source().embedder)
        walk = traverse("alpha 7", corpus, policy=Eager(start_k=1, select_k=None, types=["NEXT"], max_depth=9))
        ids = [(await anext(walk)).artifact_id for _ in range(taken)]
        await corpus.aclose()
        with pytest.raises(StoreError, match="closed") as caught:
            await take(walk, ids)
        assert str(caught.value).count("\n") == 0
        assert any("Eager." in note for note in caught.value.__notes__)
        assert (walk.summary.stop, walk.summary.emitted) == ("failed", len(ids))


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_a_file_closed_while_a_walk_reads_it_ends_the_walk(tmp_path):
    """The walk ends or raises an error of the store, and leaves nothing.

    Another task closes the file after each number of turns.
    """
    path = tmp_path / "notes.airw"
    await (await build(source(), store=path)).aclose()
    for turns in range(0, 60, 4):
        outcome = []

        async def walk_it(corpus, outcome):
            walk = traverse("alpha 7", corpus, policy=POLICIES[0])
            try:
                async for _ in walk:
                    pass
            except StoreError:
                pass
            outcome.append(walk.summary.stop)

        async with leaving_nothing():
            corpus = await open_corpus(path, embedder=source().embedder)
            async with anyio.create_task_group() as group:
                group.start_soon(walk_it, corpus, outcome)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                await corpus.aclose()
        assert outcome in (["failed"], ["exhausted"], ["sufficient"])

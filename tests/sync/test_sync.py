"""`airw.sync`: the async functions of airw for scripts and notebooks."""

import asyncio
import contextvars
import inspect
import threading
import traceback
import typing
from contextlib import suppress

import anyio
import pytest

import airw
from airw import from_mapping, sync
from airw.errors import ArgumentError, CorpusNotFound, WalkNotExtendable
from airw.policies import CollapsedTree, Eager
from airw.protocols import Counts, ask
from airw.stores import MemoryStore
from airw.values import SearchHit
from airw.walking import NodeCommitted, Policy

TEXTS = {"a": "rotate the signing keys", "b": "bake a loaf of bread", "c": "signing a loaf", "d": "the keys of a piano"}


class Chain(Policy):
    """Walks nodes 0, 1, 2, ..., one a step, and notes which were expanded."""

    max_depth = None

    def __init__(self):
        self.expanded = []

    async def seed(self, state, store):
        return [0]

    async def score(self, state, nodes, store):
        return [-float(node) for node in nodes]

    async def expand(self, state, committed, store):
        self.expanded += [entry.id for entry in committed]
        return [[entry.id + 1] for entry in committed]

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.id), "node", entry.score, "") for entry in committed]


def source(texts=TEXTS, name="notes"):
    return from_mapping(texts, name=name, embedder="light")


@pytest.fixture(scope="module")
def corpus():
    with sync.build(source(), store=MemoryStore()) as opened:
        yield opened


def is_async(function):
    """Return whether callers must await the function, or what it returns."""
    if inspect.iscoroutinefunction(function):
        return True
    returned = typing.get_type_hints(inspect.unwrap(function)).get("return")
    kind = typing.get_origin(returned) or returned
    members = [getattr(kind, name, None) for name in ("__await__", "__anext__", "__aenter__")]
    return any(members) or inspect.iscoroutinefunction(getattr(kind, "__call__", None))  # noqa: B004 - of its objects


def test_each_async_verb_of_airw_is_there():
    functions = [name for name in airw.__all__ if inspect.isfunction(getattr(airw, name))]
    verbs = {name for name in functions if is_async(getattr(airw, name))}
    assert {"search", "traverse", "build", "as_retriever", "prefetch", "discover_stream"} <= verbs
    assert "select" not in verbs
    assert verbs == {name for name in sync.__all__ if inspect.isfunction(getattr(sync, name))} - {"run"}


def test_a_verb_shows_the_parameters_of_the_async_one():
    for name in ("search", "build", "traverse", "discover", "register"):
        assert inspect.signature(getattr(sync, name)) == inspect.signature(getattr(airw, name))
        assert getattr(sync, name).__doc__ == getattr(airw, name).__doc__


def test_a_corpus_is_built_changed_searched_and_closed(tmp_path):
    with sync.build(source(), store=tmp_path / "notes.airw") as built:
        assert (built.name, built.report.added) == ("notes", 4)
        assert built.upsert({"e": "seven sourdough loaves"}).added == 1
        assert [hit.artifact_id for hit in built.search("sourdough", k=1)] == ["e"]
        assert built.delete(["e", "nothing"]) == 1
        assert sync.run(ask, built.store, Counts())["artifacts"] == 4
    opened = sync.open_corpus(tmp_path / "notes.airw")
    assert [hit.artifact_id for hit in sync.search(opened, "piano", k=1)] == ["d"]
    opened.close()
    opened.close()


def test_the_hits_of_a_walk_are_those_of_the_async_walk(corpus):
    async def walk():
        async with airw.build(source(), store=MemoryStore()) as opened:
            started = airw.traverse("signing keys", opened, policy=CollapsedTree())
            return [hit async for hit in started], started.ranking, started.summary.stop

    walked = sync.traverse("signing keys", corpus, policy=CollapsedTree())
    assert walked.summary is None
    hits = list(walked)
    assert (hits, walked.ranking, walked.summary.stop) == asyncio.run(walk())
    assert [walked.path(hit) for hit in hits] == [hit.metadata["walk_path"] for hit in hits]
    assert sync.top_k(sync.traverse("signing keys", corpus, policy=CollapsedTree()), k=2) == walked.ranking[:2]


def test_the_first_hit_arrives_before_the_second_step_begins():
    policy = Chain()
    walk = sync.traverse("", None, policy=policy)
    assert (next(walk).artifact_id, policy.expanded) == ("0", [])
    assert (next(walk).artifact_id, policy.expanded) == ("1", [0])


def test_a_walk_can_be_read_as_events(corpus):
    walk = sync.traverse("signing keys", corpus)
    assert [hit.artifact_id for hit in walk] == [
        event.hit.artifact_id
        for event in sync.traverse("signing keys", corpus).events()
        if isinstance(event, NodeCommitted) and event.hit
    ]
    assert walk.summary.stop == "exhausted"


def test_functions_become_a_corpus():
    with sync.adapt(search=lambda query, k: [("a", 1.0)], get=lambda ids: ["signing keys"] * len(ids)) as corpus:
        assert [hit.artifact_id for hit in corpus.search("keys")] == ["a"]
        assert [hit.artifact_id for hit in sync.traverse("keys", corpus)] == ["a"]


def test_a_walk_that_ended_at_its_budget_goes_on(corpus):
    walk, whole = (sync.traverse("signing keys", corpus, node_budget=budget) for budget in (1, 3))
    first = list(walk)
    assert [*first, *walk.extend(node_budget=3)] == list(whole)
    assert len(first) == 1


def test_a_walk_whose_hits_were_not_all_taken_does_not_go_on(corpus):
    whole = [hit.artifact_id for hit in sync.traverse("signing keys", corpus, node_budget=4)]
    walk = sync.traverse("signing keys", corpus, node_budget=2)
    taken = [hit.artifact_id for hit in walk]
    walk.close()  # it has ended: closing it loses nothing
    taken.append(next(walk.extend(node_budget=3)).artifact_id)
    assert taken == whole[:3]
    walk.close()
    with pytest.raises(WalkNotExtendable, match="it was closed"):
        walk.extend(node_budget=4)
    assert list(walk) == []


def end_of(walk):
    """Return the async walk, after the loop has done what was waiting."""
    sync.run(anyio.sleep, 0)
    return walk.summary.stop


def test_a_walk_that_is_dropped_is_closed():
    walk = sync.traverse("", None, policy=Chain())
    inner = walk.walk
    next(walk)
    assert inner.summary is None
    del walk
    assert end_of(inner) == "closed"


def test_a_walk_is_closed_at_the_end_of_its_block():
    with sync.traverse("", None, policy=Chain()) as walk:
        for _ in walk:
            break
    assert walk.summary.stop == "closed"
    assert list(walk) == []


@pytest.mark.parametrize("policy", [Eager(start_k=4, seeding="dense"), CollapsedTree()])
def test_a_closed_walk_yields_no_hit_of_the_step_that_it_was_in(corpus, policy):
    events = sync.traverse("signing keys", corpus, policy=policy).events(edges=False)
    assert [next(events).depth for _ in range(4)] == [0] * 4
    walk = sync.traverse("signing keys", corpus, policy=policy)
    next(walk)
    walk.close()
    assert list(walk) == []


def test_a_walk_that_goes_on_after_its_block_is_closed_when_it_is_dropped():
    with sync.traverse("", None, policy=Chain(), node_budget=2) as walk:
        list(walk)
    walk.extend(node_budget=4)
    inner = walk.walk
    next(walk)
    assert inner.summary is None
    del walk
    assert end_of(inner) == "closed"


def test_only_an_async_walk_becomes_a_sync_one():
    for value in ("x", sync.traverse("", None, policy=Chain())):
        with pytest.raises(ArgumentError, match=r"^SyncWalk takes an async walk, not .*walk_links returns$"):
            sync.SyncWalk(value)


def test_only_an_open_corpus_becomes_a_sync_one(corpus):
    for value in ("notes", corpus, airw.FederatedCorpus([corpus]), None):
        with pytest.raises(ArgumentError, match=r"^SyncCorpus takes an open corpus with aclose, not .*"):
            sync.SyncCorpus(value)


def test_a_walk_is_closed_by_an_error_in_a_loop_over_it():
    started = []

    def read():
        walk = sync.traverse("", None, policy=Chain())
        started.append(walk.walk)
        for _ in walk:
            raise LookupError

    with suppress(LookupError):
        read()
    assert end_of(started[0]) == "closed"


def test_several_threads_share_a_walk():
    walk, taken = sync.traverse("", None, policy=Chain(), node_budget=60), []
    threads = [threading.Thread(target=lambda: taken.extend(int(hit.artifact_id) for hit in walk)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(taken) == list(range(60))


def test_it_works_within_a_running_event_loop(corpus):
    """As in a notebook."""

    async def cell():
        return [hit.artifact_id for hit in sync.traverse("piano", corpus, policy=Eager(start_k=1))]

    assert asyncio.run(cell()) == ["d"]


def test_within_its_own_loop_it_is_an_error():
    def search_again(_):
        sync.search("notes", "keys")

    with pytest.raises(RuntimeError, match=r"^a sync call within airw's own event loop .*: await search instead$"):
        sync.build(source(), store=MemoryStore(), progress=search_again)


def test_an_error_is_that_of_the_function_and_shows_no_frame_of_the_threads_in_between():
    with pytest.raises(CorpusNotFound) as caught:
        sync.search("nowhere", "keys")
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert [name for name in files if "anyio" in name or "concurrent" in name or "threading" in name] == []
    with pytest.raises(ArgumentError, match="node_budget"):
        sync.traverse("keys", None, policy=Chain(), node_budget=-1)
    with pytest.raises(ArgumentError, match=r"^top_k takes walks of airw\.sync"):
        sync.top_k(airw.traverse("keys", None, policy=Chain()))


def test_even_an_exit_reaches_the_caller_and_the_loop_goes_on():
    async def leave():
        raise SystemExit(3)

    with pytest.raises(SystemExit, match="3"):
        sync.run(leave)
    assert sync.run(anyio.sleep, 0) is None


def test_context_variables_of_the_caller_are_seen():
    name = contextvars.ContextVar("name", default="nobody")

    async def read():
        return name.get()

    name.set("ada")
    assert sync.run(read) == "ada"


def test_walks_run_ahead_and_are_merged(corpus):
    expected = [hit.artifact_id for hit in sync.traverse("signing keys", corpus)]
    with sync.prefetch(sync.traverse("signing keys", corpus), buffer=1) as hits:
        assert [hit.artifact_id for hit in hits] == expected
    one, other = (sync.traverse("", None, policy=Chain()) for _ in range(2))
    with sync.merge(one, other, order="turns", buffer=1) as pairs:
        first, second = next(pairs), next(pairs)
    assert (first[0], second[0]) == (one, other)
    assert one.summary.stop == other.summary.stop == "closed"


def test_corpora_are_discovered_one_after_the_other_or_at_the_end(corpus):
    with sync.build(source({"x": "signing keys of a bank"}, name="bank"), store=MemoryStore()) as bank:
        result = sync.discover([corpus, bank], "signing keys", min_score=None)
        with sync.discover_stream([corpus, bank], "signing keys", min_score=None) as updates:
            *answers, last = updates
        assert {answer.source for answer in answers} == {"notes", "bank"}
        assert last.ids == result.ids
        federated = airw.FederatedCorpus([corpus, bank])
        assert {hit.source for hit in sync.traverse("signing keys", federated)} == {"notes", "bank"}


def test_what_is_found_is_disclosed_and_expanded(corpus):
    hits = corpus.search("piano", k=1)
    assert sync.expand(hits[0], corpus).text == TEXTS["d"]
    [disclosed] = sync.disclose(airw.select(hits, strategy="top_k"), level="metadata")
    assert disclosed.artifact_id == "d"


def test_a_retriever_opens_its_corpus_once(tmp_path):
    path = tmp_path / "notes.airw"
    sync.build(source(), store=path).close()
    with sync.as_retriever(path, k=1) as retrieve:
        assert [hit.artifact_id for hit in retrieve("piano")] == ["d"]
        assert [len(retrieve("keys", k=k)) for k in (1, 2)] == [1, 2]


def test_registered_corpora_are_built_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "home"))
    (tmp_path / "key.md").write_text("Rotate the signing keys.")
    sync.register("vault", "notes", root=str(tmp_path), embedder="light", maintenance={"reindex": "manual"})
    assert [outcome.action for outcome in sync.maintain("vault").corpora] == ["built"]
    with sync.build_corpus("vault") as built:
        assert (built.report.added, built.report.unchanged) == (0, 1)

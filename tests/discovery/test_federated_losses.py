"""Walks over several corpora of which some fail, hang or recover."""

import json
from collections import Counter
from dataclasses import replace

import anyio
import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import FederatedCorpus, discover, traverse
from airw.errors import ArgumentError, DiscoveryError, FilterError, StoreError
from airw.policies import Beam, Eager, LinkWalk, PersonalizedPageRank
from airw.protocols import ArtifactIds, Rank, Vectors, VectorsOf, ask
from airw.stores import Wrapper
from airw.testing import run_on_virtual_clock
from airw.views import read_tree, tree_schema, walk_links
from airw.walking import LostCorpus, WalkEnded
from tests.support.artifact_corpora import walk_all
from tests.support.discoveries import Without
from tests.support.drawing import examples
from tests.support.federated_walks import POLICIES, keys, notes, parts_story, policy_of
from tests.support.federations import Federation, split_of
from tests.support.virtual_time import on_virtual_clock

QUERY = "8 0 0 0 0 0 0 0"
ASKED = ["dense", "lexical", "scores", "records", "edges", "links", "words"]


class Failing(Wrapper):
    """A store whose reads fail, after some or always.

    `reads` counts them all, `failed` the requests of those that fail, by capability.

    Args:
        store: The store to ask while it works.
        error: The error to raise; `None` to hang instead.
        after: The number of reads that work.
        needs: The capabilities whose requests fail; `None` for all.
    """

    def __init__(self, store, error=None, *, after=0, needs=None):
        super().__init__(store)
        self.error, self.after, self.needs = error, after, needs
        self.reads, self.failed = 0, Counter()

    async def read(self, *requests):
        self.reads += 1
        works = self.needs is not None and not any(request.needs in self.needs for request in requests)
        if works or self.reads <= self.after:
            return await super().read(*requests)
        self.failed.update(request.needs for request in requests)
        if self.error is None:
            await anyio.sleep_forever()
        raise self.error


class Slow(Wrapper):
    """A store whose searches by vectors take the seconds given, then 12 each."""

    def __init__(self, store, *seconds):
        super().__init__(store)
        self.seconds = iter(seconds)

    async def read(self, *requests):
        if any(request.needs == "dense" for request in requests):
            await anyio.sleep(next(self.seconds, 12))
        return await super().read(*requests)


def with_failing(corpus, name="b", error=None, *, after=0, needs=None, **options):
    """Return the same corpora, one of them with a failing store, and that store."""
    members = dict(corpus.members)
    store = Failing(members[name].store, error, after=after, needs=needs)
    members[name] = replace(members[name], store=store)
    return FederatedCorpus(members, **options), store


def three():
    """Open a, b and c: a chain of links leads from each to the next and back to a."""
    return Federation(
        {
            "a": notes(x=[["b", "x"], "y"], y=[["c", "x"]]),
            "b": notes(x=[["c", "y"]]),
            "c": notes(x=["y"], y=[["a", "x"]]),
        }
    )


LOST = (LostCorpus("b", "failed", "StoreError: the disk is gone"),)
GONE = StoreError("the disk is gone")


@pytest.mark.pairwise
@pytest.mark.parametrize("need", ASKED)
@pytest.mark.parametrize(
    "policy",
    [Eager(select_k=None), Beam(seeding="hybrid"), PersonalizedPageRank(), LinkWalk(roots=[("a", "x")], max_depth=9)],
    ids=lambda policy: type(policy).__name__,
)
async def test_a_walk_survives_a_corpus_that_cannot_answer_some_requests(policy, need):
    async with three() as corpus:
        whole, _ = await walk_all(corpus, policy, QUERY)
        failing, store = with_failing(corpus, error=GONE, needs=[need])
        hits, walk = await walk_all(failing, policy, QUERY)
    assert {("a", "x"), ("a", "y"), ("c", "x"), ("c", "y")} <= set(keys(hits)) <= set(keys(whole))
    if store.failed:
        assert walk.summary.lost == LOST
        assert walk.summary.truncated
    else:
        assert hits == whole
        assert walk.summary.lost == ()


QUICK = ("Eager", "LinkWalk-weighted")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in POLICIES]
)
@given(number=st.integers(0, 2**32))
@settings(max_examples=examples(15))
def test_a_corpus_that_never_answers_is_as_if_it_were_not_there(name, number):
    split = split_of(number)
    lost_one = sorted(split.parts)[number % len(split.parts)]
    roots = [root for root in split.roots if root[0] != lost_one]

    async def main():
        async with Federation(split.parts) as corpus:
            others = {each: member for each, member in corpus.members.items() if each != lost_one}
            failing, _ = with_failing(corpus, lost_one, GONE)
            expected, _ = await parts_story(FederatedCorpus(others), policy_of(name, roots), split.graph.query)
            actual, summary = await parts_story(failing, policy_of(name, roots), split.graph.query)
            assert actual == expected
            if expected[0]:
                assert [each["name"] for each in summary["lost"]] == [lost_one]

    if len(split.parts) > 1 and (roots or not split.roots):
        anyio.run(main)


async def test_the_vectors_of_a_lost_corpus_are_unknown_and_as_wide_as_those_of_the_others():
    async with three() as corpus:
        ids = (await ask(corpus.store, VectorsOf([("b", "x")]))).record_ids[0]
        failing, _ = with_failing(corpus, error=GONE)
        walked = failing.begin_walk()
        vectors, owned = await walked.store.read(Vectors(ids), VectorsOf([("b", "x")]))
    assert walked.lost == LOST
    assert vectors.shape == (1, 8)
    assert np.isnan(vectors).all()
    assert (owned.record_ids, owned.vectors.shape) == ([[]], (0, 8))


@pytest.mark.parametrize("after", range(4))
async def test_a_corpus_that_fails_in_the_middle_of_a_walk_is_called_no_more(after):
    async with three() as corpus:
        told = []
        for _ in range(2):
            failing, store = with_failing(corpus, error=GONE, after=after)
            hits, walk = await walk_all(failing, Eager(select_k=None, start_k=1, max_depth=9), QUERY)
            told.append((keys(hits), walk.summary.left_out, walk.summary.lost, walk.summary.routed, store.reads))
            has_failed = bool(store.failed)
        assert told[0] == told[1]
        assert {("a", "x"), ("a", "y"), ("c", "x"), ("c", "y")} <= set(told[0][0])
        assert walk.summary.lost == (LOST if has_failed else ())
        assert max(store.failed.values(), default=0) <= 2  # no stage asks one corpus for the same more often


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_corpus_that_hangs_costs_its_timeout_once(backend):
    async def main():
        async with three() as corpus:
            start = anyio.current_time()
            failing, store = with_failing(corpus, member_timeout=2)
            hits, walk = await walk_all(failing, Eager(select_k=None, start_k=9, seeding="dense"), QUERY)
            return hits, walk.summary, store.reads, anyio.current_time() - start

    hits, summary, calls, seconds = run_on_virtual_clock(main, backend=backend)
    assert (seconds, calls) == (2, 1)
    assert keys(hits) == [("a", "x"), ("c", "x"), ("a", "y"), ("c", "y")]
    text = "StoreError: corpus 'b' did not answer within member_timeout=2 s"
    assert summary.lost == (LostCorpus("b", "timeout", text),)
    assert summary.to_dict()["lost"] == [{"name": "b", "status": "timeout", "error": text}]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_corpus_that_hangs_leaves_half_of_the_time_of_a_walk_to_the_others(backend):
    async def main():
        async with three() as corpus:
            failing, _ = with_failing(corpus)
            policy = Eager(select_k=None, start_k=9, seeding="dense")
            hits, walk = await walk_all(failing, policy, QUERY, timeout=5)
            return hits, walk.summary

    hits, summary = run_on_virtual_clock(main, backend=backend)
    assert keys(hits) == [("a", "x"), ("c", "x"), ("a", "y"), ("c", "y")]
    text = "StoreError: corpus 'b' did not answer within 2.5 s, and another one did"
    assert (summary.seconds, summary.stop, summary.lost) == (2.5, "exhausted", (LostCorpus("b", "timeout", text),))


def test_a_walk_waits_longer_while_no_corpus_has_answered():
    async def main():
        async with three() as corpus:
            slow = {name: replace(each, store=Slow(each.store)) for name, each in corpus.members.items()}
            hits, walk = await walk_all(FederatedCorpus(slow), Eager(start_k=9, seeding="dense"), QUERY, timeout=20)
            return len(hits), walk.summary

    count, summary = run_on_virtual_clock(main)
    assert (count, summary.lost, summary.seconds) == (5, (), 12)


@on_virtual_clock
async def test_only_the_first_answer_of_a_walk_tells_how_long_the_others_may_take():
    async with three() as corpus:
        times = {"a": (16, 1), "b": (16, 25), "c": (16, 1)}
        slow = {name: replace(each, store=Slow(each.store, *times[name])) for name, each in corpus.members.items()}
        walk = FederatedCorpus(slow, member_timeout=30).begin_walk(40)
        for _ in range(2):
            await walk.store.read(Rank(np.ones((1, 8), np.float32), 3))
    assert walk.lost == ()


@on_virtual_clock
async def test_the_deadline_of_a_walk_ends_it_while_a_corpus_hangs():
    async with three() as corpus:
        failing, _ = with_failing(corpus, needs=["edges"], member_timeout=None)
        policy = Eager(select_k=None, start_k=1, direction="out")
        hits, walk = await walk_all(failing, policy, QUERY, timeout=0.1)
    assert keys(hits) == [("a", "x"), ("a", "y"), ("b", "x")]  # the next step asks for the links of ("b", "x")
    assert (walk.summary.stop, walk.summary.lost) == ("timeout", ())


@on_virtual_clock
async def test_leaving_a_walk_cancels_the_call_that_hangs():
    async with three() as corpus:
        failing, _ = with_failing(corpus, needs=["edges"])
        with anyio.move_on_after(0.1) as scope:
            async with traverse(QUERY, failing, policy=Eager(select_k=None)) as walk:
                async for _ in walk:
                    pass
        assert scope.cancelled_caught
        assert (walk.summary.stop, walk.summary.lost) == ("closed", ())


@pytest.mark.parametrize("options", [{"on_error": "raise"}, {"on_error": "raise", "member_timeout": None}], ids=str)
@on_virtual_clock
async def test_the_error_of_a_corpus_ends_the_walk_if_that_is_wanted(options):
    async with three() as corpus:
        failing, _ = with_failing(corpus, error=GONE, **options)
        with pytest.raises(StoreError, match="the disk is gone") as caught:
            await walk_all(failing, Eager(), QUERY)
        assert any("from corpus 'b'" in note for note in caught.value.__notes__)
        slow, _ = with_failing(corpus, on_error="raise", member_timeout=0.05)
        with pytest.raises(StoreError, match=r"^corpus 'b' did not answer within member_timeout=0.05 s"):
            await walk_all(slow, Eager(), QUERY)


async def test_a_walk_without_any_corpus_left_raises_all_errors():
    async with three() as corpus:
        members = {
            name: replace(member, store=Failing(member.store, StoreError(f"disk {name}\nis gone")))
            for name, member in corpus.members.items()
        }
        walk = traverse(QUERY, FederatedCorpus(members), policy=Eager())
        with pytest.raises(DiscoveryError) as caught:
            await anext(walk)
        assert str(caught.value) == (
            "every corpus of the walk failed: a: StoreError: disk a is gone; b: StoreError: disk b is gone; "
            "c: StoreError: disk c is gone"
        )
        assert list(caught.value.causes) == ["a", "b", "c"]
        assert (walk.summary.stop, len(walk.summary.lost)) == ("failed", 3)
        with pytest.raises(StoreError, match="disk a"):
            await walk_all(FederatedCorpus([members["a"]]), Eager(), QUERY)


@pytest.mark.parametrize("error", [ArgumentError("no such surface"), FilterError("no such operator")], ids=repr)
async def test_a_request_that_is_wrong_for_every_corpus_is_raised(error):
    async with three() as corpus:
        failing, _ = with_failing(corpus, error=error)
        with pytest.raises(type(error)):
            await walk_all(failing, Eager(), QUERY)


async def test_each_walk_has_its_own_losses_and_a_corpus_that_recovers_is_asked_again():
    async with three() as corpus:
        failing, store = with_failing(corpus, error=GONE)
        first, second = (traverse(QUERY, failing, policy=Eager(select_k=None, start_k=9)) for _ in range(2))
        await anext(first)
        store.after = 10**9
        assert ("b", "x") in keys([hit async for hit in second])
        assert ("b", "x") not in keys([hit async for hit in first])
    assert (first.summary.lost, second.summary.lost) == (LOST, ())


async def test_outside_of_walks_an_error_is_raised():
    async with three() as corpus:
        failing, _ = with_failing(corpus, error=GONE)
        assert failing.lost == ()
        with pytest.raises(StoreError, match="the disk is gone"):
            await ask(failing.store, ArtifactIds())


async def test_a_long_error_is_one_short_line():
    async with three() as corpus:
        failing, _ = with_failing(corpus, error=StoreError("broken\n" * 10_000))
        _, walk = await walk_all(failing, Eager(), QUERY)
    [lost] = walk.summary.lost
    assert len(lost.error) == 200
    assert "\n" not in lost.error


async def test_the_last_event_and_a_discovery_name_the_corpus_that_was_lost():
    async with three() as corpus:
        failing, _ = with_failing(corpus, error=GONE)
        *_, last = [event async for event in traverse(QUERY, failing, policy=Eager()).events()]
        assert isinstance(last, WalkEnded)
        lost = [{"name": "b", "status": "failed", "error": "StoreError: the disk is gone"}]
        assert last.to_dict()["lost"] == lost
        found = await discover(failing, QUERY, walk=Eager(), strategy="top_k")
        assert found.signals["walk"]["lost"] == lost


async def test_a_tree_over_corpora_of_which_one_was_lost_is_truncated():
    async with three() as corpus:
        failing, _ = with_failing(corpus, error=GONE)
        tree = await read_tree(walk_links(failing, [("a", "x")]))
    assert (tree.truncated, tree.unknown) == (True, ("corpora",))
    jsonschema.validate(json.loads(json.dumps(tree.to_dict())), tree_schema())


async def test_which_of_two_errors_comes_first_does_not_matter():
    pauses = {}

    class Two(Without):
        async def read(self, *requests):
            await anyio.sleep(pauses.get(requests[0].needs, 0))
            raise StoreError(f"{requests[0].needs} failed")

    async with three() as corpus:
        told = []
        for seconds in ({"dense": 0, "lexical": 0.02}, {"dense": 0.02, "lexical": 0}):
            pauses.update(seconds)
            two = replace(corpus.members["b"], store=Two(corpus.members["b"].store, "words"))
            failing = FederatedCorpus(corpus.members | {"b": two})
            hits, walk = await walk_all(failing, Eager(seeding="hybrid", select_k=None), QUERY)
            told.append((keys(hits), walk.summary.lost))
    assert told[0] == told[1]
    assert told[0][1][0].error == "StoreError: dense failed"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_error": "ignore"}, "on_error must be "),
        ({"member_timeout": -1}, "member_timeout must be "),
        ({"member_timeout": "soon"}, "member_timeout must be "),
    ],
    ids=str,
)
async def test_unusable_options_are_refused(options, message):
    async with three() as corpus:
        with pytest.raises(ArgumentError, match=message):
            FederatedCorpus(corpus.members, **options)

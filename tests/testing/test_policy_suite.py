"""The exam of policies: ours pass it, and each fault is caught by the case that names it."""

import asyncio
import copy
import os
import subprocess
import sys
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import count

import anyio
import numpy as np
import pytest

from airw import open_corpus
from airw.errors import ArgumentError, PolicyError, StoreError
from airw.policies import CollapsedTree, Eager, per_node
from airw.protocols import Counts, Edges, Rank, RecordsOf, ask
from airw.testing import PolicySuite
from airw.values import SearchHit
from airw.walking import Policy
from tests.support.repeats import mark_repeats, share_cases
from tests.support.ring import QUERY, corpus


@dataclass(frozen=True)
class OneAtATime:
    """A policy as in `ir`: it calls the store for each node separately."""

    start: int = 3

    async def seed(self, state, store):
        return [f"{number:02}" for number in range(self.start)]

    async def score(self, state, node, store):
        query = await store.embedder.embed_query(state.query)
        [ranking] = await ask(store.store, Rank(query[None], among=[node], per_artifact=True))
        return float(ranking.scores.sum())  # of one or none

    async def expand(self, state, node, store):
        [edges] = await ask(store.store, Edges([node]))
        return [edge.target for edge in edges]

    def node_id(self, node):
        return node

    async def to_hit(self, state, node, score, depth):
        [records] = await ask(store_of(state), RecordsOf([node]))
        return None if not records else records[0].as_hit(score, "ring")


def store_of(state):
    return state.cache["store"]


class Remembering(OneAtATime):
    async def seed(self, state, store):
        state.cache["store"] = store.store
        return await super().seed(state, store)


@dataclass(frozen=True)
class Numbers(Policy):
    """A policy that walks numbers and needs no store."""

    graph: tuple = ((1, 2, 3), (0, 2), (3, 4), (0,), (5, 6), (4,), (0, 6))
    lazily: bool = False

    async def seed(self, state, store):
        return [0, 1]

    async def score(self, state, nodes, store):
        return [-float(node % 3) if node else np.inf for node in nodes]

    async def expand(self, state, committed, store):
        found = [self.graph[entry.id] for entry in committed]
        return [self.each(nodes) for nodes in found] if self.lazily else found

    async def each(self, nodes):
        for node in nodes:
            await anyio.lowlevel.checkpoint()
            yield node

    def node_id(self, node):
        return node

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.id), "number", entry.score, "") if entry.id != 2 else None for entry in committed]


# The tests of each policy take its exam, too.
OURS = {
    "eager-narrow": PolicySuite(Eager(select_k=9, start_k=1, adjacent_k=2, direction="both"), corpus, QUERY),
    "lazily": PolicySuite(Numbers(lazily=True), lambda: nullcontext(None), "", is_corpus=False),
}


@pytest.mark.parametrize(
    ("suite", "case"),
    [
        pytest.param(OURS[name], *case.values, id=f"{name}-{case.id}", marks=case.marks)
        for name, cases in zip(OURS, share_cases(*OURS.values()), strict=True)
        for case in cases
    ],
)
async def test_ours_pass(suite, case):
    await suite.check(case)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    ("policy", "options"),
    [(Eager, {}), (CollapsedTree, {}), (lambda: per_node(Remembering()), {"max_calls": None})],
    ids=["eager", "collapsed-tree", "per-node"],
)
async def test_ours_pass_over_a_file(policy, options, tmp_path):
    path = tmp_path / "ring.airw"
    async with corpus(path):
        pass
    report = await PolicySuite(policy, lambda: open_corpus(path), QUERY, **options).run()
    assert report.passed, str(report)


# --- faults are caught ----------------------------------------------------------------------------------------------

MUTANTS = []


def breaks(*patterns):
    """Register a policy that fails the cases with these names; `*` matches anything."""

    def add(mutant):
        MUTANTS.append((mutant, patterns))
        return mutant

    return add


def suite_of(mutant):
    return PolicySuite(lambda: mutant(select_k=None, start_k=2), corpus, QUERY)


def mutants_and_cases():
    for mutant, patterns in MUTANTS:
        for pattern in patterns:
            matching_cases = [case for case in PolicySuite.all_cases if fnmatch(case.name, pattern)]
            assert matching_cases, f"no case is named {pattern}"
            yield from (pytest.param(mutant, case, id=f"{mutant.__name__}-{case}") for case in matching_cases)


@breaks("every_attribute*")
class NeverAsked(Eager):
    stop = None


@breaks("every_attribute*")
@dataclass(frozen=True)
class HalfAPolicy:
    select_k: int | None
    start_k: int

    async def to_hits(self, state, committed, store):
        return []


@breaks("every_attribute*")
class DepthBelowZero(Eager):
    def __post_init__(self):
        object.__setattr__(self, "max_depth", -1)


@breaks("every_attribute*")
class SaysOne(Eager):
    keeps_frontier = 1


@breaks("the_query_yields*")
class FindsNothing(Eager):
    async def seed(self, state, store):
        return []


@breaks("a_policy_is_a_frozen_value*", "another_policy*")
class NeverEqual(Eager):
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@breaks("a_policy_is_a_frozen_value*")
class PrintsItsAddress(Eager):
    __repr__ = object.__repr__


@breaks("a_policy_is_a_frozen_value*")
class Thawed(Eager):
    __setattr__ = object.__setattr__


@breaks("another_policy*")
class EachItsOwn(Eager):
    numbers = count()

    def __post_init__(self):
        object.__setattr__(self, "start_k", 1 + next(self.numbers) % 5)


@breaks("another_policy*")
class HidesAnOption(Eager):
    numbers = count()

    def __post_init__(self):
        self.__dict__["width"] = 1 + next(self.numbers) % 2

    def select(self, state, frontier):
        return frontier.best_first()[: self.width]


@breaks("a_walk_leaves_nothing_in*", "walks_one_after_another*", "what_is_done*")
class RemembersWhatItGave(Eager):
    async def seed(self, state, store):
        seen = self.__dict__.setdefault("seen", set())
        nodes = [node for node in await super().seed(state, store) if node.id not in seen]
        seen.update(node.id for node in nodes)
        return nodes


@breaks("walks_at_the_same_time*", "a_walk_leaves_nothing_in*")
class KeepsTheStateInItself(Eager):
    async def seed(self, state, store):
        self.__dict__["state"] = state
        return await super().seed(state, store)

    def stop(self, state):
        return len(self.state.results) >= 6


@breaks("a_node_has_the_same*", "every_hit_comes_once", "a_hit_says_truly*", "a_walk_without_a_depth_cap*")
class NumbersItsNodes(Eager):
    numbers = count()

    def node_id(self, node):
        return next(self.numbers)

    async def to_hits(self, state, committed, store):
        return await super().to_hits(state, [entry._replace(id=entry.node.id) for entry in committed], store)


@breaks("a_node_has_the_same*")
class NumbersItsWalks(NumbersItsNodes):
    async def seed(self, state, store):
        self.__dict__["walk"] = next(self.numbers)
        return await super().seed(state, store)

    def node_id(self, node):
        return node.id, self.walk


@breaks("every_hit_comes_once")
class WalksEdges(NumbersItsNodes):
    def node_id(self, node):
        return node.id, node.edge and node.edge.source


@breaks("a_walk_without_a_depth_cap*")
class GoesRoundUnseen(NumbersItsNodes):
    """A policy that yields each artifact once and never ends."""

    async def to_hits(self, state, committed, store):
        shown = state.cache.setdefault("shown", set())
        hits = await super().to_hits(state, committed, store)
        fresh = [hit and hit.artifact_id not in shown and not shown.add(hit.artifact_id) for hit in hits]
        return [hit if is_fresh else None for hit, is_fresh in zip(hits, fresh, strict=True)]


@breaks("a_walk_takes_every*")
class ScoresNan(Eager):
    async def score(self, state, nodes, store):
        return np.where(await super().score(state, nodes, store) > 0, np.nan, 1.0)


@breaks("a_walk_takes_every*")
class ScoresTheFirst(Eager):
    async def score(self, state, nodes, store):
        return (await super().score(state, nodes, store))[:1]


@breaks("a_walk_takes_every*")
class ScoresInWords(Eager):
    async def score(self, state, nodes, store):
        return [str(score) for score in await super().score(state, nodes, store)]


@breaks("a_walk_takes_every*")
class SelectsTheDropped(Eager):
    def select(self, state, frontier):
        return range(len(frontier.ids))


@breaks("a_walk_takes_every*")
class SelectsByMask(Eager):
    def select(self, state, frontier):
        return np.ones(len(frontier.live), np.bool_)


@breaks("a_walk_takes_every*")
class StopsByNumber(Eager):
    def stop(self, state):
        return len(state.results) - 3


@breaks("a_walk_takes_every*")
class ExpandsAllIntoOne(Eager):
    async def expand(self, state, committed, store):
        return [[node for some in await super().expand(state, committed, store) for node in some]]


@breaks("a_walk_takes_every*")
class ExpandsIntoAName(Eager):
    async def expand(self, state, committed, store):
        return ["00" for _ in committed]


@breaks("a_walk_takes_every*")
class LeavesOutRouters(Eager):
    async def to_hits(self, state, committed, store):
        return [hit for hit in await super().to_hits(state, committed, store) if hit is not None]


@breaks("a_walk_takes_every*")
class GivesDicts(Eager):
    async def to_hits(self, state, committed, store):
        return [hit and hit.to_dict() for hit in await super().to_hits(state, committed, store)]


@breaks("edge_of_gives*")
class TellsTypesForEdges(Eager):
    def edge_of(self, node):
        return "NEXT"


class OtherHits(Eager):
    """A policy that returns other hits: `twist(hit)`."""

    async def to_hits(self, state, committed, store):
        return [hit and self.twist(hit) for hit in await super().to_hits(state, committed, store)]


@breaks("edge_of_gives*")
class InventsEdges(OtherHits):
    def twist(self, hit):
        hit.metadata["walk_edge"] = "INVENTED"
        return hit


@breaks("a_hit_is_made*")
class HitsHoldObjects(OtherHits):
    def twist(self, hit):
        hit.metadata["policy"] = object()
        return hit


@breaks("a_hit_is_made*")
class HitsHoldThemselves(OtherHits):
    def twist(self, hit):
        hit.metadata["metadata"] = hit.metadata
        return hit


@breaks("a_hit_is_made*")
class HitsScoreNan(OtherHits):
    def twist(self, hit):
        return replace(hit, score=np.nan)


@breaks("a_hit_is_made*")
class HitsAreNumbered(OtherHits):
    def twist(self, hit):
        return replace(hit, artifact_id=int(hit.artifact_id))


@breaks("hits_are_fresh*", "a_hit_says_truly*", "what_is_done*")
class OneMetadataForAll(OtherHits):
    metadata = {}  # noqa: RUF012 - shared is what is broken

    def twist(self, hit):
        self.metadata.update(hit.metadata)
        return replace(hit, metadata=self.metadata)


@breaks("hits_are_fresh*", "what_is_done*")
class MetadataFromACache(OtherHits):
    known = {}  # noqa: RUF012 - shared is what is broken

    def twist(self, hit):
        return replace(hit, metadata=dict(self.known.setdefault(hit.artifact_id, hit.metadata)))


@breaks("what_is_done*")
class MetadataFromTheWalkBefore(OtherHits):
    known = {}  # noqa: RUF012 - shared is what is broken

    def twist(self, hit):
        if hit.artifact_id in self.known:
            return replace(hit, metadata=self.known[hit.artifact_id])
        self.known[hit.artifact_id] = copy.deepcopy(hit.metadata)
        return hit


@breaks("hits_are_fresh*")
class HitsFromACache(OtherHits):
    known = {}  # noqa: RUF012 - shared is what is broken

    def twist(self, hit):
        return self.known.setdefault(hit.artifact_id, hit)


@breaks("what_is_done*")
class ReadsItsHits(Eager):
    def select(self, state, frontier):
        order = super().select(state, frontier)
        return order[1:] if any("spoiled" in hit.metadata for hit in state.results) else order


@breaks("a_hit_says_truly*", "of_the_state*")
class RewritesHits(Eager):
    def stop(self, state):
        state.results[-1].metadata["walk_depth"] = 0
        return False


@breaks("a_hit_says_truly*")
class RewritesParents(Eager):
    def stop(self, state):
        state.results[-1].metadata["walk_parent"] = "somebody"
        return False


@breaks("a_hit_says_truly*")
class RewritesPaths(Eager):
    def stop(self, state):
        state.results[-1].metadata["walk_path"].insert(0, "somewhere")
        return False


@breaks("of_the_state*")
class WritesIntoTheState(Eager):
    async def expand(self, state, committed, store):
        state.visited.add("nobody")
        return await super().expand(state, committed, store)


@breaks("of_the_state*")
class RaisesItsBudget(Eager):
    async def seed(self, state, store):
        state.node_budget = 10**9
        return await super().seed(state, store)


@breaks("rank_orders*", "a_walk_takes_every*")
class RankAdds(Eager):
    def rank(self, state, hits):
        return [*hits, SearchHit("one", "more", 0.0, "")]


@breaks("rank_orders*")
class RankSortsInPlace(Eager):
    def rank(self, state, hits):
        hits = hits if isinstance(hits, list) else list(hits)
        hits.sort(key=lambda hit: hit.artifact_id)
        return list(hits)


@breaks("rank_orders*", "a_walk_takes_every*")
class RankInvents(Eager):
    def rank(self, state, hits):
        return [replace(hit, artifact_id=f"{hit.artifact_id}!") for hit in hits]


@breaks("rank_orders*")
class RankUsesItselfUp(Eager):
    def rank(self, state, hits):
        state.cache["turn"] = -state.cache.get("turn", -1)
        return hits[:: state.cache["turn"]]


@breaks("a_walk_is_the_same_whatever*")
class AsWideAsItMayRun(Eager):
    def select(self, state, frontier):
        return frontier.best_first()[: state.limits.max_concurrency]


@breaks("a_walk_of_at_most_n*")
class SavesWork(Eager):
    def select(self, state, frontier):
        return frontier.best_first()[:1] if state.limits.max_hits else frontier.best_first()


@breaks("a_walk_with_a_timeout*")
class HurriesBeforeADeadline(Eager):
    async def seed(self, state, store):
        nodes = await super().seed(state, store)
        return nodes[:1] if anyio.current_effective_deadline() - anyio.current_time() < 30 else nodes


@breaks("small_bounds*")
class AssumesTwo(Eager):
    def select(self, state, frontier):
        best = frontier.best_first()
        return best if frontier.scores[best[0]] >= frontier.scores[best[1]] else best[::-1]


@breaks("small_bounds*")
class SharesOutItsBudget(Eager):
    async def seed(self, state, store):
        state.cache["share"] = 1 / state.node_budget
        return await super().seed(state, store)


@breaks("a_walk_leaves_no_task*")
class LeavesATask(Eager):
    tasks = []  # noqa: RUF012 - or it would be collected as garbage

    async def seed(self, state, store):
        self.tasks.append(asyncio.create_task(asyncio.sleep(3600)))
        return await super().seed(state, store)


@breaks("a_walk_leaves_no_task*")
class LeavesAnIteratorOpen(Eager):
    async def seed(self, state, store):
        state.cache["pages"] = pages = self.pages(state, store)
        return await anext(pages)

    async def pages(self, state, store):
        while True:
            yield await super().seed(state, store)


@breaks("a_walk_is_the_same_however_long*")
class TakesAnswersAsTheyCome(Eager):
    async def expand(self, state, committed, store):
        found = []

        async def ask(entry):
            found.extend(await super(TakesAnswersAsTheyCome, self).expand(state, [entry], store))

        async with anyio.create_task_group() as group:
            for entry in committed:
                group.start_soon(ask, entry)
        return found


@breaks("an_error_of_the_store*")
class SwallowsErrors(Eager):
    async def expand(self, state, committed, store):
        try:
            return await super().expand(state, committed, store)
        except StoreError:
            return [[] for _ in committed]


class AsksToScore(Eager):
    """A policy that asks the store when it scores, and not only before."""

    async def score(self, state, nodes, store):
        await ask(store.store, Counts())
        return await super().score(state, nodes, store)


@breaks("an_error_of_the_store*")
class FailsLate(AsksToScore):
    async def score(self, state, nodes, store):
        try:
            return await super().score(state, nodes, store)
        except StoreError as error:
            state.cache["error"] = error
            return range(len(nodes))

    async def to_hits(self, state, committed, store):
        if "error" in state.cache:
            return [SearchHit(entry.id, "none", 0.0, "") for entry in committed]
        return await super().to_hits(state, committed, store)

    async def expand(self, state, committed, store):
        if "error" in state.cache:
            raise state.cache["error"]
        return await super().expand(state, committed, store)


@breaks("an_error_of_the_store*")
class WrapsErrors(AsksToScore):
    async def score(self, state, nodes, store):
        try:
            return await super().score(state, nodes, store)
        except Exception as error:
            raise PolicyError("could not score") from error


@breaks("an_error_of_the_store*")
class GroupsErrors(Eager):
    async def expand(self, state, committed, store):
        found = []

        async def ask():
            found.extend(await super(GroupsErrors, self).expand(state, committed, store))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
        return found


@breaks("a_cancelled_walk*")
class Shields(Eager):
    async def expand(self, state, committed, store):
        with anyio.CancelScope(shield=True):
            return await super().expand(state, committed, store)


@breaks("a_cancelled_walk*")
class LetsCallsRunOn(Eager):
    tasks = []  # noqa: RUF012 - or they would be collected as garbage

    async def expand(self, state, committed, store):
        self.tasks.append(asyncio.create_task(super().expand(state, committed, store)))
        return await asyncio.shield(self.tasks[-1])


@breaks("a_cancelled_walk*")
class TakesCancellationForAnError(AsksToScore):
    async def score(self, state, nodes, store):
        try:
            return await super().score(state, nodes, store)
        except BaseException as error:
            raise PolicyError("could not score") from error


@breaks("a_walk_that_goes_on*")
class RemembersBeforeItAsks(AsksToScore):
    async def score(self, state, nodes, store):
        asked, ids = state.cache.setdefault("asked", set()), [node.id for node in nodes]
        again = asked & {*ids}
        asked.update(ids)
        scores = await super().score(state, nodes, store)
        return [-1.0 if id in again else score for id, score in zip(ids, scores, strict=True)]


@breaks("a_step_takes_few*")
class AsksAgainAndAgain(Eager):
    async def expand(self, state, committed, store):
        for _ in range(3):
            await super().expand(state, committed, store)
        return await super().expand(state, committed, store)


@breaks("a_step_takes_few*", "more_nodes*")
class AsksForEachNode(Eager):
    async def expand(self, state, committed, store):
        return [(await super(AsksForEachNode, self).expand(state, [entry], store))[0] for entry in committed]


@breaks("a_step_takes_few*")
class AsksInTwoMethods(Eager):
    """One call a method of the policy, but two a step."""

    async def to_hits(self, state, committed, store):
        await ask(store.store, Edges([entry.id for entry in committed]))
        return await super().to_hits(state, committed, store)


class ReadsTexts(Eager):
    """A step reads four kinds of data: edges, scores, all texts, and the records of hits."""

    async def expand(self, state, committed, store):
        await ask(store.store, RecordsOf([entry.id for entry in committed]))
        return await super().expand(state, committed, store)


@pytest.mark.asyncio_only
async def test_a_step_may_make_one_call_for_each_kind_of_request():
    few, more = [case for case in PolicySuite.all_cases if "max_calls" in case.needs]
    for case in (few, more):
        await suite_of(ReadsTexts).check(case)
    with pytest.raises(AssertionError, match="at most 0 calls of the store with each kind of request"):
        await PolicySuite(ReadsTexts, corpus, QUERY, max_calls=0).check(few)


@pytest.mark.slow  # hundreds of faults
@pytest.mark.asyncio_only  # the faults are the same on every event loop
@pytest.mark.parametrize(("mutant", "case"), mark_repeats(mutants_and_cases()))
async def test_a_broken_policy_fails_the_case_of_its_fault_in_one_line(mutant, case):
    with pytest.raises(AssertionError) as caught:
        await suite_of(mutant).check(case)
    message = str(caught.value)
    assert message.startswith(f"{case}: ")
    assert "expected " in message
    assert ", got " in message
    assert "\n" not in message
    assert len(message) < 700


def test_every_case_is_failed_by_some_broken_policy():
    caught = {param.values[1].name for param in mutants_and_cases()}
    assert [case.name for case in PolicySuite.all_cases if case.name not in caught] == []


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_a_per_node_policy_that_keeps_state_in_itself_is_caught():
    class Counting(Remembering):
        async def seed(self, state, store):
            self.__dict__["walks"] = self.__dict__.get("walks", 0) + 1
            return await super().seed(state, store)

    report = await PolicySuite(per_node(Counting()), corpus, QUERY, max_calls=None).run()
    assert [outcome.name for outcome in report.failed] == ["a_walk_leaves_nothing_in_the_policy"]


async def test_a_policy_that_never_answers_fails(monkeypatch):
    class Stuck(Eager):
        async def stop(self, state):
            await anyio.sleep_forever()

    monkeypatch.setattr(PolicySuite, "patience", 0.2)
    suite = suite_of(Stuck)
    with pytest.raises(AssertionError, match=r"^the_query_yields.*: expected an answer, got none in 0.2 s$"):
        await suite.check(suite.cases[1])


# --- the suite itself -----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_report_lists_the_outcome_of_each_case_and_the_cases_left_out():
    report = await PolicySuite(StopsByNumber(start_k=2), corpus, QUERY, max_calls=None).run()
    assert "a_walk_takes_every_answer_as_it_comes" in [outcome.name for outcome in report.failed]
    printed = str(report)
    assert printed.startswith("policy: ")
    assert "Every method returns values that a walk accepts." in printed
    assert "expected no error, got PolicyError('StopsByNumber.stop returned -2; return True or False')" in printed
    assert "needs corpus, max_calls" in printed
    assert "needs factory" in printed


async def test_without_a_corpus_or_a_factory_their_cases_are_left_out():
    suite = PolicySuite(Numbers(), lambda: nullcontext(None), "", is_corpus=False)
    assert {need for case in suite.cases for need in case.needs} == set()
    report = await suite.run()
    left_out = [outcome.name for outcome in report.outcomes if outcome.status == "left out"]
    assert len(left_out) == len(report.outcomes) - len(suite.cases) == 7


async def test_each_case_opens_its_corpus_and_closes_it():
    events = []

    @asynccontextmanager
    async def open_and_note():
        events.append("open")
        async with corpus() as one:
            yield one
        events.append("close")

    suite = PolicySuite(Eager, open_and_note, QUERY)
    for case in suite.cases[:3]:
        await suite.check(case)
    assert events == ["open", "close"] * 3


async def test_a_value_that_is_no_corpus_is_an_error_that_names_the_option():
    suite = PolicySuite(Numbers(), lambda: nullcontext({}), "")
    with pytest.raises(AssertionError, match="is_corpus=False"):
        await suite.check(suite.cases[0])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("eager", corpus, ""), "policy"),
        ((Eager, "corpus", ""), "open"),
    ],
)
def test_unusable_arguments_are_refused_on_construction(arguments, name):
    with pytest.raises(ArgumentError, match=name):
        PolicySuite(*arguments)
    with pytest.raises(ArgumentError, match="max_calls"):
        PolicySuite(Eager, corpus, "", max_calls=-1)


@pytest.mark.slow
def test_the_exam_needs_no_test_framework():
    code = (
        "import sys, anyio; from airw import build, from_mapping; from airw.policies import Eager;"
        "from airw.stores import MemoryStore; from airw.testing import PolicySuite;"
        "corpus = lambda: build(from_mapping({'a': 'b', 'c': 'b d'}, name='n', embedder='light'), store=MemoryStore());"
        "report = anyio.run(PolicySuite(Eager, corpus, 'b').run); print(report.passed);"
        "print({'pytest', 'hypothesis', '_pytest', 'trio'} & {*sys.modules})"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-O", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == ["True", "set()"]

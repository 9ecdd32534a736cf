"""A walk in columns equals the same walk of lists."""

import pickle
from dataclasses import replace
from itertools import pairwise

import anyio
import numpy as np
import pytest

from airw.errors import PolicyError
from airw.traversal import traverse
from airw.values import HitBatch, SearchHit
from airw.walking import Columns, Policy
from tests.support.case_policies import InColumns, Listed, bounds_of, outcome_of
from tests.support.walk_cases import case_of

QUICK, ALL = 200, 4_000


async def walk_hits(policy, close_after):
    walk = traverse("query", None, policy=policy, **bounds_of(policy.case))
    hits = []
    async for hit in walk:
        hits.append(hit)
        if len(hits) == close_after:
            break
    await walk.aclose()
    return outcome_of(walk, hits)


async def walk_events(policy):
    walk = traverse("query", None, policy=policy, **bounds_of(policy.case))
    events = [event async for event in walk.events()]
    return [event.to_dict() for event in events[:-1]]


async def walk_batches(policy):
    walk = traverse("query", None, policy=policy, **bounds_of(policy.case))
    batches = [batch async for batch in walk.batches()]
    assert all(batches)
    return outcome_of(walk, [hit for batch in batches for hit in batch])


async def compare(numbers):
    for number in numbers:
        case = replace(case_of(number), forms=["list"] * 16)
        close_after = number % 4 // 2 * (number % 5) or None
        expected = await walk_hits(Listed(case), close_after)
        assert await walk_hits(InColumns(case), close_after) == expected, case
        if close_after is None:
            assert await walk_batches(InColumns(case)) == expected, case
            assert await walk_batches(Listed(case)) == expected, case
        assert await walk_events(InColumns(case)) == await walk_events(Listed(case)), case


@pytest.mark.parametrize(("backend", "start"), [("asyncio", 0), ("trio", 1)])
def test_some_walks_in_columns_equal_those_of_lists(backend, start):
    anyio.run(compare, range(start, QUICK, 2), backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "start"), [("asyncio", 0), ("trio", 1)])
def test_thousands_of_walks_in_columns_equal_those_of_lists(backend, start):
    anyio.run(compare, range(QUICK + start, ALL, 2), backend=backend)


# Small walks.


class Ring(Policy):
    """Walks along numbers 0 to 9 that follow each other."""

    async def seed(self, state, store):
        return np.array([0])

    async def score(self, state, nodes, store):
        return np.zeros(len(nodes))

    async def expand(self, state, committed, store):
        return Columns((committed.nodes + 1) % 10, np.arange(len(committed) + 1))

    async def to_hits(self, state, committed, store):
        return HitBatch([str(entry.node) for entry in committed], "node", committed.scores, sources="ring")


async def hits_of(policy, **options):
    return [hit async for hit in traverse("query", None, policy=policy, **options)]


async def test_without_names_the_id_of_a_number_is_the_number():
    hits = await hits_of(Ring(), node_budget=3)
    assert hits[-1] == SearchHit(
        "2", "node", 0.0, "", {"walk_depth": 2, "walk_parent": 1, "walk_path": [0, 1, 2], "seed": "0"}, "ring"
    )


async def test_a_hit_that_nobody_has_looked_at_can_be_copied_and_pickled():
    expected = [hit.to_dict() for hit in await hits_of(Ring(), node_budget=3)]
    assert [hit.to_dict() for hit in pickle.loads(pickle.dumps(await hits_of(Ring(), node_budget=3)))] == expected
    assert [replace(hit).to_dict() for hit in await hits_of(Ring(), node_budget=3)] == expected


async def test_the_seeds_of_an_array_may_be_expanded_in_lists():
    class Mixed(Ring):
        async def expand(self, state, committed, store):
            return [[entry.node + 1] for entry in committed]

    assert [hit.artifact_id for hit in await hits_of(Mixed(), node_budget=3)] == ["0", "1", "2"]


async def test_a_policy_with_ids_of_its_own_and_no_names_gets_lists():
    class Own(Ring):
        def node_id(self, node):
            return f"n{node}"

        async def score(self, state, nodes, store):
            assert isinstance(nodes, list)
            return [0.0] * len(nodes)

        async def expand(self, state, committed, store):
            return Columns(np.array([entry.node + 1 for entry in committed]), np.arange(len(committed) + 1))

    [_, hit] = await hits_of(Own(), node_budget=2)
    assert hit.metadata["walk_path"] == ["n0", "n1"]


async def test_score_can_tell_by_which_edge_a_node_was_found():
    found = []

    class Curious(Ring):
        async def expand(self, state, committed, store):
            return Columns(np.array([5, 0, 7, 5]), np.array([0, 4]))

        async def score(self, state, nodes, store):
            found.append((nodes.tolist(), state.fresh_edges.tolist()))
            return np.zeros(len(nodes))

    await hits_of(Curious(), node_budget=3)
    assert found == [([0], []), ([5, 7], [0, 2])]


def answer(**columns):
    class Wrong(Ring):
        async def expand(self, state, committed, store):
            return Columns(**columns)

    return Wrong()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (answer(ids=np.array([1]), offsets=np.array([0])), "an integer array of 2, one more than"),
        (answer(ids=np.array([1]), offsets=[0, 1]), "an integer array of 2, one more than"),
        (answer(ids=np.array([1]), offsets=np.array([0, 2])), "they must rise from 0 to the number of ids"),
        (answer(ids=np.array([1]), offsets=np.array([1, 1])), "they must rise from 0 to the number of ids"),
        (answer(ids=np.array([-1]), offsets=np.array([0, 1])), "expand returned node -1; return numbers from 0 to"),
        (answer(ids=np.array([2**40]), offsets=np.array([0, 1])), "expand returned node 1099511627776"),
        (answer(ids=np.array([0.5]), offsets=np.array([0, 1])), "return the numbers of nodes as an integer array"),
        (answer(ids=["a"], offsets=np.array([0, 1])), "return the numbers of nodes as an integer array"),
    ],
    ids=range(8),
)
async def test_columns_that_do_not_fit_are_an_error(policy, message):
    with pytest.raises(PolicyError, match=message):
        await hits_of(policy)


@pytest.mark.parametrize("names", [["a", "b"], [["a"]], None, "a"], ids=repr)
async def test_names_that_do_not_fit_are_an_error(names):
    class Named(Ring):
        async def name_nodes(self, state, numbers, store):
            return names

    with pytest.raises(PolicyError, match="name_nodes"):
        await hits_of(Named())


@pytest.mark.parametrize(
    "batch",
    [
        lambda count: HitBatch(["a"] * (count + 1), "node", np.zeros(count)),
        lambda count: HitBatch(["a"] * count, "node", np.zeros(count + 1)),
        lambda count: HitBatch(["a"] * count, "node", [0.0] * count),
        lambda count: HitBatch(["a"] * count, "node", np.array(["high"] * count)),
        lambda count: HitBatch(["a"] * count, "node", np.zeros(count), texts=[]),
    ],
)
async def test_a_batch_that_does_not_fit_is_an_error(batch):
    class Wrong(Ring):
        async def to_hits(self, state, committed, store):
            return batch(len(committed))

    with pytest.raises(PolicyError, match=r"Wrong.to_hits returned a HitBatch with"):
        await hits_of(Wrong())


async def test_a_policy_cannot_change_what_it_is_shown():
    class Changing(Ring):
        async def score(self, state, nodes, store):
            with pytest.raises(ValueError):  # noqa: PT011 - in the words of numpy
                nodes[:] = 0
            return np.zeros(len(nodes))

        def select(self, state, frontier):
            for column in (frontier.nodes, frontier.ids, frontier.depths, frontier.scores):
                with pytest.raises(ValueError, match="WRITEABLE"):
                    column.setflags(write=True)
            return frontier.live

    assert len(await hits_of(Changing(), node_budget=3)) == 3


async def test_offsets_say_where_the_neighbours_of_a_node_are():
    columns = Columns(np.array([7, 8, 9]), np.array([0, 2, 2, 3]))
    assert [columns.ids[start:end].tolist() for start, end in pairwise(columns.offsets)] == [[7, 8], [], [9]]


# Batches.


async def test_a_batch_has_what_is_ready_and_its_hits_are_made_when_they_are_looked_at():
    made = []

    class Counting(Ring):
        async def seed(self, state, store):
            return np.arange(10)

        async def to_hits(self, state, committed, store):
            def metadata(row):
                made.append(row)
                return {"row": row}

            ids = [str(node) for node in committed.nodes.tolist()]
            return HitBatch(ids, "node", committed.scores, metadata=metadata)

    walk = traverse("query", None, policy=Counting(), max_depth=0)
    [batch] = [batch async for batch in walk.batches()]
    assert (batch.artifact_ids[:2], len(batch), made) == (("0", "1"), 10, [])
    assert batch[3].metadata == {"row": 3, "walk_depth": 0, "walk_parent": None, "walk_path": [3]}
    assert made == [3]
    assert [hit is other for hit, other in zip(batch, walk.ranking, strict=True)] == [True] * 10


async def test_a_walk_is_read_in_one_way():
    walk = traverse("query", None, policy=Ring(), node_budget=3)
    batches = walk.batches()
    assert [hit.artifact_id for hit in await anext(batches)] == ["0"]
    for read in (walk.batches, walk.events):
        with pytest.raises(RuntimeError, match="is being read already"):
            read()
    with pytest.raises(RuntimeError, match="is read as batches"):
        await anext(walk)
    await batches.aclose()
    assert (walk.summary.stop, walk.summary.emitted) == ("closed", 1)
    assert [batch async for batch in batches] == []


async def test_the_hits_before_an_error_of_stop_are_delivered():
    class Failing(Ring):
        async def seed(self, state, store):
            return np.arange(5)

        def stop(self, state):
            if len(state.results) == 3:
                raise LookupError("mine")
            return False

    walk = traverse("query", None, policy=Failing())
    batches = walk.batches()
    assert [hit.artifact_id for hit in await anext(batches)] == ["0", "1", "2"]
    with pytest.raises(LookupError, match="mine"):
        await anext(batches)
    assert (walk.summary.stop, walk.summary.emitted) == ("failed", 3)


async def test_a_stop_that_is_awaited_ends_the_batches_too():
    class Waiting(Ring):
        async def seed(self, state, store):
            return np.arange(5)

        async def stop(self, state):
            return len(state.results) == 2

    walk = traverse("query", None, policy=Waiting())
    assert [len(batch) async for batch in walk.batches()] == [1, 1]
    assert walk.summary.stop == "sufficient"

"""The numbers of a policy that a store must answer at once are bounded."""

import pytest

from airw import Corpus, Limits, traverse
from airw.errors import ArgumentError
from airw.policies import Beam, CollapsedTree, Eager, LinkWalk, PersonalizedPageRank
from airw.protocols import Change
from airw.stores import MemoryStore
from airw.testing.changes import put
from airw.values import Link
from tests.support.drawn_walks import EMBEDDER


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (Eager, "start_k"),
        (Eager, "select_k"),
        (LinkWalk, "start_k"),
        (Beam, "seed_k"),
        (PersonalizedPageRank, "seed_k"),
        (CollapsedTree, "seed_k"),
    ],
)
def test_a_number_of_seeds_beyond_a_million_is_refused(policy, name):
    policy(**{name: 1_000_000})
    with pytest.raises(ArgumentError, match=f"{name} must be at most 1,000,000, not 1000000000"):
        policy(**{name: 10**9})


@pytest.mark.parametrize("policy", [Eager, Beam], ids=lambda kind: kind.__name__)
async def test_the_neighbours_of_a_hub_beyond_those_of_one_call_have_their_surfaces(policy):
    """Of the first thousand, which are compared with the links, one artifact has no surface."""
    ends = [f"n{number:04}" for number in range(1_500)]
    changes = [put(end, *([] if end == "n0007" else [end]), dim=8) for end in ends]
    changes.append(put("hub", "a hub", links=[Link(end, "to") for end in ends], dim=8))
    options = {"adjacent_k": None, "start_k": 0, "select_k": None} if policy is Eager else {"seed_k": 0, "width": 2_000}
    async with MemoryStore() as store:
        await store.apply(Change(changes))
        walk = traverse(
            "n0001",
            Corpus("c", store, EMBEDDER),
            policy=policy(roots=["hub"], **options),
            node_budget=2_000,
            limits=Limits(max_fanout=2_000),
        )
        found = {hit.artifact_id async for hit in walk}
    assert found == {"hub", *ends} - {"n0007"}

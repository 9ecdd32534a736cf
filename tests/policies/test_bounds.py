"""The numbers of a policy that a store must answer at once are bounded."""

import pytest

from airw.errors import ArgumentError
from airw.policies import Beam, CollapsedTree, Eager, LinkWalk, PersonalizedPageRank


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

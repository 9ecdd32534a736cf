"""Walks that have no time at all."""

import pytest

from airw import traverse
from airw.policies.specs import list_policies, policy_from_spec
from tests.support.served import notes

PARAMS = {"link-walk": {"roots": ["keys.md"]}, "reverse-dependency": {"seeds": ["keys.md"]}}


@pytest.mark.parametrize("name", sorted(list_policies()))
async def test_a_walk_that_ends_before_its_policy_begins_has_an_empty_ranking(name):
    policy = policy_from_spec({"name": name, "params": PARAMS.get(name, {})})
    async with notes() as corpus, traverse("keys", corpus, policy=policy, timeout=0) as walk:
        assert [hit async for hit in walk] == []
        assert (walk.ranking, walk.summary.stop) == ([], "timeout")

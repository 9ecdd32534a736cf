"""Several corpora read a step in one call of each store, and walks stay the same."""

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import FederatedCorpus
from airw.stores.steps import compose_step, reads_steps
from airw.values import ArtifactRef
from tests.support.artifact_corpora import EIGHTHS
from tests.support.drawing import examples
from tests.support.federated_walks import POLICIES, parts_story, policy_of
from tests.support.federations import part, split_of
from tests.support.internals.step_stores import Plain, StepStore

NUMBERS = st.integers(0, 2**32)


@asynccontextmanager
async def open_both(split, *, plain=()):
    """Yield the parts of a graph as one corpus that reads steps, and as one that does not.

    `plain` names the parts whose stores do not read steps in either.
    """
    async with AsyncExitStack() as stack:
        corpora = [
            await stack.enter_async_context(part(items, name, store=StepStore())) for name, items in split.parts.items()
        ]
        without = [replace(corpus, store=Plain(corpus.store)) for corpus in corpora]
        some = [other if one.name in plain else one for one, other in zip(corpora, without, strict=True)]
        yield FederatedCorpus(some), FederatedCorpus(without)


def to_comparable(answer):
    vectors = None if answer.vectors is None else (answer.vectors.record_ids, answer.vectors.vectors.tolist())
    best = answer.best.record_ids, np.nan_to_num(answer.best.scores, nan=-9).tolist()
    return answer.edges, answer.artifact_ids, best, answer.records, vectors


async def compare_steps(number):
    draw, split = Random(number), split_of(number)
    plain = draw.sample(sorted(split.parts), draw.randint(0, len(split.parts) - 1))
    ids = [ArtifactRef(*split.pair(id)) for id in sorted(split.graph.items)]
    others = [ArtifactRef("mid", "none"), ArtifactRef("elsewhere", "n00"), "n00"]
    async with open_both(split, plain=plain) as (federated, without):
        assert [reads_steps(each.store) for each in (federated, without)] == [True, False]
        for _ in range(4):
            options = {
                "direction": draw.choice(["out", "in", "both"]),
                "types": draw.choice([None, ["x"]]),
                "limit": draw.choice([None, 1, 3]),
                "hit_ids": draw.sample([*ids, *others], draw.randint(0, 3)),
                "known_ids": draw.sample(ids, draw.randint(0, len(ids))),
                "max_ends": draw.choice([0, 2, 100]),
                "max_records": draw.choice([0, 1, 100]),
                "with_vectors": draw.random() < 0.5,
            }
            asked = draw.sample(ids, draw.randint(1, min(4, len(ids))))
            query = draw.choice([None, await EIGHTHS.embed_query(split.graph.query)])
            answer = await federated.store.read_step(asked, query, **options)
            expected = await compose_step(without.store, asked, query, **options)
            assert to_comparable(answer) == to_comparable(expected), options


@given(number=NUMBERS)
@settings(max_examples=examples(20))
async def test_a_step_equals_the_calls_that_it_replaces(number):
    await compare_steps(number)


@pytest.mark.slow
@given(number=NUMBERS)
@settings(max_examples=100)
async def test_a_step_equals_the_calls_that_it_replaces_in_many_cases(number):
    await compare_steps(number)


@pytest.mark.slow
@pytest.mark.asyncio_only  # what a step asks does not depend on the loop
@pytest.mark.parametrize("name", [name for name in POLICIES if name != "Strategy"])
@given(number=NUMBERS)
@settings(max_examples=examples(15))
async def test_walks_are_those_of_stores_that_read_no_steps(name, number):
    split = split_of(number)
    plain = sorted(split.parts)[1:] if number % 3 == 0 else ()
    async with open_both(split, plain=plain) as both:
        policy, query = policy_of(name, split.roots), split.graph.query
        with_steps, without = [await parts_story(corpus, policy, query) for corpus in both]
        assert with_steps == without

"""`/traverse/continue` goes on with a walk that has ended at a limit."""

from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw import Corpus, build, from_notes
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError
from airw.policies.specs import policy_spec
from airw.protocols import Change
from airw.serving import ServingLimits, Token, app
from airw.stores import MemoryStore
from airw.testing import run_on_virtual_clock
from tests.support.drawing import examples
from tests.support.drawn_walks import EMBEDDER, draw_changes, draw_policy
from tests.support.event_streams import parse_events
from tests.support.served import client
from tests.support.served_corpora import calls_of, make_chain

pytestmark = pytest.mark.asyncio_only

EIPS = Path(__file__).parents[2] / "examples" / "data" / "eips"
LINKS = {"name": "link-walk", "params": {"roots": ["n00000"], "max_depth": None}}
CHAIN = {"corpus": "chain", "query": "keys", "policy": LINKS, "hold": True}


@pytest.fixture
def chain():
    return make_chain(20)


async def read_part(asking, path, fields, **options):
    """Return the events of one request, and the token of its summary."""
    answer = await asking.post(path, json=fields, **options)
    assert answer.status_code == 200, answer.text
    events = parse_events(answer.content)
    assert events[-1].kind == "summary", events[-1]
    return events, events[-1].data.get("continue")


async def walk_in_parts(asking, fields, *further):
    """Return the events of a walk and of its further parts."""
    events, token = await read_part(asking, "/traverse", fields)
    parts = [events]
    for raised in further:
        if token is None:
            break
        events, token = await read_part(asking, "/traverse/continue", {"continue": token, **raised})
        parts.append(events)
    return parts


async def refusal_of(asking, fields, **options):
    """Return the status and the message of a request that cannot go on."""
    answer = await asking.post("/traverse/continue", json=fields, **options)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    kinds = {410: "WalkNotExtendable", 400: "ArgumentError"}
    assert (problem["error"], problem["status"]) == (kinds[answer.status_code], answer.status_code)
    return answer.status_code, problem["detail"]


def hits_of(*parts):
    return [event.data for events in parts for event in events if event.kind == "hit"]


def end_of(events):
    """Return what the last summary says, without the time and the token."""
    return {name: value for name, value in events[-1].data.items() if name not in ("seconds", "continue")}


# --- the law ---------------------------------------------------------------------------------------------------------


def draw_spec(draw):
    """Return the specification of a policy, drawn until it has one."""
    while True:
        with suppress(ArgumentError):
            return policy_spec(draw_policy(draw))


async def compare_with_one_walk(draw):
    async with MemoryStore() as store:
        await store.apply(Change(draw_changes(draw)))
        async with client(app([Corpus("drawn", store, EMBEDDER)])) as asking:
            fields = {"corpus": "drawn", "query": "n1 n2", "policy": draw_spec(draw), "edges": True}
            budgets = sorted(draw.sample(range(1, 40), 3))
            first, *further = [{"node_budget": budget} for budget in budgets]
            parts = await walk_in_parts(asking, {**fields, **first, "hold": True}, *further)
            [whole] = await walk_in_parts(asking, {**fields, **further[-1]})
    assert hits_of(*parts) == hits_of(whole)
    assert end_of(parts[-1]) == end_of(whole)


@settings(max_examples=3)
@given(draw=st.randoms(use_true_random=False))
async def test_the_hits_of_the_parts_are_those_of_one_walk(draw):
    await compare_with_one_walk(draw)


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(draw=st.randoms(use_true_random=False))
async def test_the_hits_of_the_parts_are_those_of_one_walk_in_many_cases(draw):
    await compare_with_one_walk(draw)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["path-coverage", "beam", "personalized-page-rank", "eager"])
async def test_the_parts_of_walks_over_real_documents_are_one_walk(policy):
    source = from_notes(EIPS, name="eips", embedder=HashingEmbedder())
    async with build(source, store=MemoryStore()) as corpus, client(app([corpus])) as asking:
        fields = {"corpus": "eips", "query": "typed structured data", "policy": policy}
        budgets = [{"node_budget": budget} for budget in (3, 10, 30)]
        parts = await walk_in_parts(asking, {**fields, **budgets[0], "hold": True}, *budgets[1:])
        [whole] = await walk_in_parts(asking, {**fields, **budgets[-1]})
    assert len(parts) > 1
    assert hits_of(*parts) == hits_of(whole)
    assert end_of(parts[-1]) == end_of(whole)


async def test_depth_is_raised_and_event_ids_go_on(chain):
    async with client(app([chain])) as asking:
        fields = {**CHAIN, "max_depth": 2}
        events, further = await walk_in_parts(asking, fields, {"max_depth": 5})
    assert [hit["id"] for hit in hits_of(events, further)] == [f"n{at:05}" for at in range(6)]
    numbers = [int(event.id) for part in (events, further) for event in part if event.id != "end"]
    assert numbers == [*range(1, len(numbers) + 1)]


def test_a_deadline_is_raised_and_the_time_between_does_not_count():
    chain = make_chain(9, seconds=1.0)

    async def main():
        async with client(app([chain])) as asking:
            events, token = await read_part(asking, "/traverse", {**CHAIN, "timeout": 3.5})
            await anyio.sleep(100)
            further, _ = await read_part(asking, "/traverse/continue", {"continue": token, "timeout": 60})
            return events, further

    events, further = run_on_virtual_clock(main)
    assert [part[-1].data["stop"] for part in (events, further)] == ["timeout", "exhausted"]
    assert [hit["id"] for hit in hits_of(events, further)] == [f"n{at:05}" for at in range(9)]
    assert further[-1].data["seconds"] < 30


@pytest.mark.slow
async def test_the_store_is_asked_nothing_twice(chain):
    calls = []
    for budgets in ((4, 8), (8,)):
        before = calls_of(chain)
        async with client(app([chain])) as asking:
            first, *further = [{"node_budget": budget} for budget in budgets]
            await walk_in_parts(asking, {**CHAIN, **first}, *further)
        calls.append(calls_of(chain) - before)
    assert calls[0] == calls[1]


@pytest.mark.slow
async def test_lists_of_the_best_hits_go_on(chain):
    async with client(app([chain])) as asking:
        events, further = await walk_in_parts(asking, {**CHAIN, "best": 3, "node_budget": 2}, {"node_budget": 9})
        [whole] = await walk_in_parts(asking, {**CHAIN, "best": 3, "node_budget": 9})
    assert [event.kind for event in events].count("best") == 2
    assert further[-2].data == whole[-2].data


# --- who may go on, and how far --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_walk_is_held_for_whoever_asks_for_that(chain):
    async with client(app([chain])) as asking:
        without, _ = await read_part(asking, "/traverse", {**CHAIN, "hold": False, "node_budget": 2})
        ended, token = await read_part(asking, "/traverse", CHAIN)
        counted, _ = await read_part(
            asking, "/traverse", {**CHAIN, "node_budget": 2, "limits": {"count_beyond_limits": True}}
        )
        few, unheld = await read_part(asking, "/traverse", {**CHAIN, "node_budget": 5, "max_hits": 2})
        metrics = (await asking.get("/metrics")).text
    assert "continue" not in without[-1].data
    assert "continue" not in counted[-1].data
    assert (ended[-1].data["stop"], token) == ("exhausted", None)
    assert (few[-1].data["budget"], unheld) == ("max_hits", None)
    assert "airw_walks_held 0" in metrics


@pytest.mark.slow
async def test_the_limits_of_the_server_hold_for_all_parts_together(chain):
    limits = ServingLimits(max_node_budget=5, max_timeout=30, max_hops=6, max_held_nodes=3)
    async with client(app([chain], limits=limits)) as asking:
        _, token = await read_part(asking, "/traverse", {**CHAIN, "node_budget": 2})
        for raised, message in [
            ({"node_budget": 6}, "node_budget must be at most 5 here"),
            ({"max_depth": 7}, "max_depth must be at most 6 here"),
            ({"node_budget": 1}, "node_budget must be at least 2, as before, not 1"),
            ({"timeout": 0.5}, "timeout must be at least 30"),
        ]:
            status, detail = await refusal_of(asking, {"continue": token, **raised})
            assert status == 400
            assert message in detail
        # A mistake does not use up the token, and at the largest budget there is no other.
        events, last = await read_part(asking, "/traverse/continue", {"continue": token, "node_budget": 5})
        assert (events[-1].data["stop"], last) == ("node_budget", None)
        _, large = await read_part(asking, "/traverse", {**CHAIN, "node_budget": 4})
        assert large is None  # it is larger than what is held


async def test_a_token_belongs_to_its_client_and_works_once(chain):
    tokens = [Token(value=f"{name}-with-a-long-token", label=name) for name in ("ada", "bob")]
    ada, bob = ({"Authorization": f"Bearer {token.value}"} for token in tokens)
    async with client(app([chain], tokens=tokens)) as asking:
        _, token = await read_part(asking, "/traverse", {**CHAIN, "node_budget": 2}, headers=ada)
        further = {"continue": token, "node_budget": 3}
        assert (await asking.post("/traverse/continue", json=further)).status_code == 401
        for asked, headers in [(further, bob), ({"continue": "x"}, ada)]:
            status, message = await refusal_of(asking, asked, headers=headers)
            assert status == 410
            assert message.endswith("start another walk with the larger limits")
        await read_part(asking, "/traverse/continue", further, headers=ada)
        assert (await refusal_of(asking, further, headers=ada))[0] == 410


@pytest.mark.slow
def test_a_walk_is_held_for_a_time(chain):
    async def main():
        async with client(app([chain], limits=ServingLimits(max_hold=10.0))) as asking:
            _, token = await read_part(asking, "/traverse", {**CHAIN, "node_budget": 2})
            counts = []
            for _ in range(2):
                counts.append("airw_walks_held 1" in (await asking.get("/metrics")).text)
                await anyio.sleep(11)
            return counts, await refusal_of(asking, {"continue": token})

    counts, (status, _) = run_on_virtual_clock(main)
    assert counts == [True, False]
    assert status == 410


@pytest.mark.slow
async def test_the_end_of_the_server_frees_what_it_holds(chain):
    application = app([chain])
    async with client(application) as asking:
        await read_part(asking, "/traverse", {**CHAIN, "node_budget": 2})
        held = application.state.service.held
        assert len(held) == 1
    assert len(held) == 0


@pytest.mark.slow
def test_a_client_that_leaves_ends_the_walk_and_its_token():
    chain = make_chain(20, seconds=1.0)

    async def main():
        async with client(app([chain])) as asking:
            _, token = await read_part(asking, "/traverse", {**CHAIN, "node_budget": 2})
            further = {"continue": token, "node_budget": 9}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: asking.post("/traverse/continue", json=further))
                await anyio.sleep(0.5)
                assert chain.store.running
                assert (await refusal_of(asking, further))[0] == 410  # one stream at a time
                tasks.cancel_scope.cancel()
            assert not chain.store.running
            assert (await refusal_of(asking, further))[0] == 410

    run_on_virtual_clock(main)


@pytest.mark.slow
async def test_a_refusal_for_too_many_streams_keeps_the_token(chain):
    application = app([chain], limits=ServingLimits(max_streams=1))
    async with client(application) as asking:
        _, token = await read_part(asking, "/traverse", {**CHAIN, "node_budget": 2})
        with application.state.service.admission.stream("another"):
            answer = await asking.post("/traverse/continue", json={"continue": token, "node_budget": 3})
            assert answer.status_code == 429
        events, _ = await read_part(asking, "/traverse/continue", {"continue": token, "node_budget": 3})
        assert [hit["id"] for hit in hits_of(events)] == ["n00002"]


@pytest.mark.slow
async def test_a_corpus_that_was_closed_is_gone(tmp_path):
    source = from_notes(EIPS, name="eips", embedder=HashingEmbedder())
    async with build(source, store=tmp_path / "eips.airw") as corpus, client(app([corpus])) as asking:
        fields = {"corpus": "eips", "query": "typed structured data", "node_budget": 1, "hold": True}
        _, token = await read_part(asking, "/traverse", fields)
        await corpus.store.aclose()
        status, message = await refusal_of(asking, {"continue": token, "node_budget": 3})
    assert status == 410
    assert "its corpus has failed" in message

"""Budgets of a stream: its hits are the first ones of the walk that fit, without a gap."""

import pytest
from hypothesis import given, strategies as st

from airw.errors import ArgumentError
from airw.serving import sse
from airw.serving.stream_budgets import BudgetCount, StreamBudget
from airw.values import SearchHit
from airw.views.bundling import estimate_tokens
from tests.support.event_streams import StreamClient
from tests.support.streamed_notes import NAMES, TEXTS, open_chain, walk_chain

pytestmark = pytest.mark.asyncio_only  # streams on trio are in test_sse.py

BUDGETS = st.builds(
    StreamBudget,
    max_hits=st.none() | st.integers(1, 8),
    max_chars=st.none() | st.integers(1, 40),
    max_tokens=st.none() | st.integers(1, 12),
)


def costs_of(texts):
    text = "".join(texts)
    return {"max_hits": len(texts), "max_chars": len(text), "max_tokens": sum(map(estimate_tokens, texts))}


@given(BUDGETS, st.lists(st.text(alphabet="aé鍵🔑 ", max_size=12), max_size=12))
def test_the_hits_are_the_first_ones_that_fit(budget, texts):
    count = BudgetCount(budget)
    taken = [count.take(SearchHit("a", "chunk", 1.0, text)) for text in texts]
    number = sum(taken)
    assert taken == [True] * number + [False] * (len(texts) - number)

    def fits(size):
        costs = costs_of(texts[:size])
        return all(getattr(budget, name) is None or cost <= getattr(budget, name) for name, cost in costs.items())

    is_used_up = number and any(cost == getattr(budget, name) for name, cost in costs_of(texts[:number]).items())
    assert fits(number)
    assert number == len(texts) or is_used_up or not fits(number + 1)
    assert (count.ended_by is None) == (number == len(texts) and not is_used_up)


@pytest.mark.parametrize(
    ("budget", "hits"),
    [
        ({"max_hits": 3}, 3),
        ({"max_hits": 100}, len(NAMES)),
        ({"max_chars": 2 * len("signing keys, part 0")}, 2),
        ({"max_chars": 2 * len("signing keys, part 0") + 5}, 2),
        ({"max_chars": 5}, 0),
        ({"max_tokens": 16}, 3),
        ({"max_hits": 5, "max_tokens": 16}, 3),
    ],
)
async def test_a_stream_ends_with_its_budget_and_the_summary_names_it(budget, hits):
    async with open_chain() as corpus:
        walk = walk_chain(corpus)
        client = await StreamClient().call(sse(walk, **budget))
        whole = len(NAMES) == hits
        if not whole:
            assert corpus.store.calls["neighbors"] < hits + 1
    sent = [event.data for event in client.events if event.kind == "hit"]
    assert [hit["artifact_id"] for hit in sent] == NAMES[:hits]
    summary = client.events[-1].data
    assert client.events[-1].kind == "summary"
    assert summary["hits"] == hits
    assert summary["budget"] == (None if whole else [*budget][-1])
    assert summary["stop"] == ("exhausted" if whole else "closed")
    assert [entry["artifact_id"] for entry in summary["ranking"]] == NAMES[:hits]
    assert sum(len(hit["text"]) for hit in sent) <= budget.get("max_chars", len("".join(TEXTS.values())))


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True])
def test_a_budget_is_a_whole_number_of_at_least_one(value):
    for name in ("max_hits", "max_chars", "max_tokens"):
        with pytest.raises(ArgumentError, match=name):
            StreamBudget(**{name: value})

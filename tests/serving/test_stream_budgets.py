"""Budgets of a stream: its hits are the first ones of the walk that fit, without a gap."""

import pytest
from hypothesis import given, strategies as st

from airw import build, from_mapping, traverse
from airw.errors import ArgumentError
from airw.policies import LinkWalk
from airw.protocols import Edges
from airw.serving import sse
from airw.serving.stream_budgets import BudgetCount, StreamBudget
from airw.stores import MemoryStore
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
def test_the_hits_are_the_first_ones_and_the_last_is_cut_to_what_is_left(budget, texts):
    count = BudgetCount(budget)
    hits = [count.fit(SearchHit("a", "chunk", 1.0, text)) for text in texts]
    sent = [hit.text for hit in hits if hit is not None]
    assert hits[len(sent) :] == [None] * (len(texts) - len(sent))
    whole = sent if sent == texts[: len(sent)] else sent[:-1]
    assert whole == texts[: len(whole)]
    assert texts == [] or sent != []

    def uses(some):
        costs = costs_of(some)
        return [costs[name] / most for name in costs if (most := getattr(budget, name)) is not None]

    assert all(use <= 1 for use in uses(sent))
    if len(whole) < len(sent):
        # One more character would be too much.
        assert texts[len(whole)].startswith(sent[-1])
        assert any(use > 1 for use in uses([*whole, texts[len(whole)][: len(sent[-1]) + 1]]))
    is_used_up = any(use == 1 for use in uses(whole)) if whole else False
    assert (count.ended_by is None) == (sent == texts and not is_used_up)


@pytest.mark.parametrize(
    ("budget", "hits"),
    [
        ({"max_hits": 3}, 3),
        ({"max_hits": 100}, len(NAMES)),
        ({"max_chars": 2 * len("signing keys, part 0")}, 2),
        ({"max_chars": 2 * len("signing keys, part 0") + 5}, 3),
        ({"max_chars": 5}, 1),
        ({"max_tokens": 16}, 4),
        ({"max_hits": 5, "max_tokens": 16}, 4),
    ],
)
async def test_a_stream_ends_with_its_budget_and_the_summary_names_it(budget, hits):
    async with open_chain() as corpus:
        walk = walk_chain(corpus)
        client = await StreamClient().call(sse(walk, **budget))
        whole = len(NAMES) == hits
        if not whole:
            assert corpus.store.calls[Edges] < hits + 1
    sent = [event.data for event in client.events if event.kind == "hit"]
    assert [hit["artifact_id"] for hit in sent] == NAMES[:hits]
    summary = client.events[-1].data
    assert client.events[-1].kind == "summary"
    assert summary["hits"] == hits
    assert summary["budget"] == (None if whole else [*budget][-1])
    assert summary["stop"] == ("exhausted" if whole else "closed")
    assert [entry["artifact_id"] for entry in summary["ranking"]] == NAMES[:hits]
    assert summary["truncated"] is not whole
    texts = [hit["text"] for hit in sent]
    assert [TEXTS[name].startswith(text) for name, text in zip(NAMES, texts, strict=False)] == [True] * hits
    assert [hit["artifact_id"] for hit in sent if "text_truncated" in hit] == [
        name for name, text in zip(NAMES, texts, strict=False) if text != TEXTS[name]
    ]
    assert sum(len(hit["text"]) for hit in sent) <= budget.get("max_chars", len("".join(TEXTS.values())))


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True])
def test_a_budget_is_a_whole_number_of_at_least_one(value):
    for name in ("max_hits", "max_chars", "max_tokens"):
        with pytest.raises(ArgumentError, match=name):
            StreamBudget(**{name: value})


@pytest.mark.parametrize("budget", [{"max_tokens": 10}, {"max_chars": 40}])
async def test_a_first_hit_that_is_too_long_is_sent_in_part_and_the_summary_counts_the_others(budget):
    texts = {"long": "fox fox fox " + "red " * 400, "short": "a fox", "other": "the fox runs"}
    async with build(from_mapping(texts, name="notes", embedder="light"), store=MemoryStore()) as corpus:
        walk = traverse("fox", corpus, policy=LinkWalk(roots=["long", "short", "other"]))
        client = await StreamClient().call(sse(walk, **budget))
    [hit] = [event.data for event in client.events if event.kind == "hit"]
    assert (hit["text"], hit["text_truncated"]) == (texts["long"][:40], True)
    summary = client.events[-1].data
    [name] = budget
    assert (summary["hits"], summary["budget"], summary["truncated"]) == (1, name, True)
    assert summary["hits"] + summary["left_out"].get(name, 0) == summary["emitted"]
    assert name in (*summary["at_least"], *summary["unknown"])

"""Cost of spans: walks without OpenTelemetry, with its API alone, and with its SDK.

The peer is the same walk without the question whether somebody wants a span. The SDK keeps its spans in memory.
"""

import sys
import time
from contextlib import contextmanager

import anyio
import pytest
from opentelemetry import trace

from airw.traversal import traverse
from airw.values import SearchHit
from airw.walking import Policy
from airw.walking.run import WalkRun
from tests.benchmarks.results import run_in_turn
from tests.support.spans import SpanRecorder

QUESTION = "What do spans for OpenTelemetry cost?"
PEER = "no question about spans"
WALKS, ROUNDS, DEGREE = 64, 60, 10
GOALS = {"without OpenTelemetry": 1.01, "with its API alone": 1.01, "with its SDK": None}


class Stairs(Policy):
    """A walk over numbers: ten neighbours a node, 64 nodes a step."""

    async def seed(self, state, store):
        return range(64)

    async def score(self, state, nodes, store):
        return [-float(node) for node in nodes]

    def select(self, state, frontier):
        return frontier.best_first(64)

    async def expand(self, state, committed, store):
        return [[*range(entry.node + 1, entry.node + DEGREE + 1)] for entry in committed]

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.node), "node", entry.score, "") for entry in committed]


@contextmanager
def leave_out_the_question():
    asks, WalkRun._start_span = WalkRun._start_span, lambda self: None
    yield
    WalkRun._start_span = asks


@contextmanager
def unload():
    module = sys.modules.pop("opentelemetry.trace")
    yield
    sys.modules["opentelemetry.trace"] = module


@contextmanager
def use_provider(provider):
    get_provider, trace.get_tracer_provider = trace.get_tracer_provider, lambda: provider
    yield
    trace.get_tracer_provider = get_provider


@pytest.mark.parametrize("budget", [64, 640])
def test_cost_of_spans(results, budget):
    recorder = SpanRecorder()

    async def walk():
        start = time.perf_counter()
        for _ in range(WALKS * 64 // budget):
            hits = traverse("query", None, policy=Stairs(), max_depth=None, node_budget=budget)
            assert len([hit async for hit in hits]) == budget
        return (time.perf_counter() - start) / (WALKS * 64 // budget)

    def measure(setting, *arguments):
        def run():
            with setting(*arguments):
                seconds = anyio.run(walk)
            recorder.clear()
            return seconds

        return run

    ways = {
        PEER: measure(leave_out_the_question),
        "without OpenTelemetry": measure(unload),
        "with its API alone": measure(use_provider, trace.ProxyTracerProvider()),
        "with its SDK": measure(use_provider, recorder.provider),
    }
    figures = run_in_turn(ways, rounds=ROUNDS, scale=1e6)
    for way, goal in GOALS.items():
        work = f"a walk of {budget:,} nodes, {way}"
        results.compare(QUESTION, work, {"airw": figures[way], PEER: figures[PEER]}, {PEER: goal}, unit="us")

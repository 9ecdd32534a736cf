"""Cost of spans: walks of a program without OpenTelemetry, with its API alone, and with its SDK.

The peer is the same walk without the question whether somebody wants a span. The SDK keeps its spans in memory.
"""

import sys
import time
from contextlib import contextmanager

import anyio
import pytest
from opentelemetry import trace

from airw.traversal import traverse
from airw.walking.steps import Steps
from tests.benchmarks.bench_walk import Digraph, InColumns
from tests.benchmarks.results import run_in_turn
from tests.support.spans import SpanRecorder

QUESTION = "What do spans for OpenTelemetry cost?"
PEER = "no question about spans"
WALKS, ROUNDS = 64, 60
GOALS = {"without OpenTelemetry": 1.01, "with its API alone": 1.01, "with its SDK": None}


@contextmanager
def leave_out_the_question():
    asks, Steps.start_span = Steps.start_span, lambda self, timeout: None
    yield
    Steps.start_span = asks


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


@pytest.mark.parametrize("budget", [64, 1_000])
def test_cost_of_spans(results, budget):
    graph, recorder = Digraph(10_000), SpanRecorder()

    async def walk():
        start = time.perf_counter()
        for _ in range(WALKS * 64 // budget):
            hits = traverse("query", None, policy=InColumns(graph, 64), max_depth=None, node_budget=budget)
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

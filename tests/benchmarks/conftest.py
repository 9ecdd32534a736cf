"""Shared parts of the benchmarks: texts, and tables of times."""

import itertools
import os
import random
import statistics
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.benchmarks.results import Results

WORDS = 60
SYLLABLES = ["ba", "ke", "lo", "mi", "tu", "ra", "sen", "tor", "pli", "gan", "est", "ing", "con", "ver", "qua"]


@pytest.fixture(scope="session")
def make_texts():
    """Return a function that makes `count` texts from 20,000 made-up words.

    Words are drawn by Zipf's law, or with rare words equally likely.
    """
    vocabulary = ["".join(each) for each in itertools.islice(itertools.product(SYLLABLES, repeat=4), 20_000)]
    random.Random(1).shuffle(vocabulary)

    def make(count: int, *, words: int = WORDS, seed: int = 2, rare: bool = False) -> list[str]:
        weights = [float(rank > 100) if rare else 1 / rank for rank in range(1, len(vocabulary) + 1)]
        weights = list(itertools.accumulate(weights))
        draw = random.Random(seed)
        return [" ".join(draw.choices(vocabulary, cum_weights=weights, k=words)) for _ in range(count)]

    return make


class Times:
    """Milliseconds of every run, by operation, library and size of the input."""

    def __init__(self) -> None:
        self._runs = defaultdict(lambda: defaultdict(list))

    def note(self, operation: str, who: str, start: float, *, given: int = 0, end: float | None = None) -> None:
        """Record the time from `start` to `end`, or to now; both are of `time.perf_counter`."""
        self._runs[operation, who][given].append(((time.perf_counter() if end is None else end) - start) * 1000)

    def typical(self, operation: str, who: str) -> float:
        """Return the median over the inputs of their fastest runs.

        Other work on the machine only adds time.
        """
        return statistics.median(map(min, self._runs[operation, who].values()))


@pytest.fixture
def times():
    return Times()


@pytest.fixture(scope="session")
def results():
    """Return the collector of results.

    It writes the file that the environment variable `AIRW_BENCH_RESULTS` names, which `make bench` sets.
    """
    path = os.environ.get("AIRW_BENCH_RESULTS")
    return Results(Path(path) if path else None)

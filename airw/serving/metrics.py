"""Numbers of a server, in the text format of Prometheus.

A label has few values, and none that a client chooses: each value is a series that lives as long as the process.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, get_args

from airw.values import StopReason

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the format."""

Labels: TypeAlias = tuple[tuple[str, str], ...]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_STOPS = frozenset((*get_args(StopReason), "disconnected", "stopping"))
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"))


class Histogram:
    """Counts values by size, with their sum.

    Args:
        bounds: The upper bounds of the buckets, rising.

    Example:
        >>> histogram = Histogram([1, 10])
        >>> histogram.observe(3)
        >>> [*histogram.buckets()], histogram.sum, histogram.count
        ([('1', 0), ('10', 1), ('+Inf', 1)], 3.0, 1)
    """

    def __init__(self, bounds: Sequence[float] = _SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum: float = 0.0

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self._counts)

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> Iterator[tuple[str, int]]:
        """Yield each upper bound, with the number of values up to it."""
        total = 0
        for bound, count in zip((*map(_number, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield bound, total


class Metrics:
    """The counters and histograms of one process.

    Example:
        >>> metrics = Metrics()
        >>> metrics.count_request("/search", "POST", 200, 0.02)
        >>> print(metrics.to_text().splitlines()[2])
        airw_requests_total{endpoint="/search",method="POST",status="200"} 1
    """

    def __init__(self) -> None:
        self.folder: Path | None = None  # where the processes of one server add up their numbers
        self._requests: Counter[Labels] = Counter()
        self._seconds: defaultdict[Labels, Histogram] = defaultdict(Histogram)
        self._walks: Counter[Labels] = Counter()
        self._first_hits = Histogram()
        self._hits = 0
        self._refused: Counter[Labels] = Counter()
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def count_request(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered.

        Args:
            endpoint: Its endpoint: one of a fixed set, never a path that a client made up.
            method: Its method.
            status: The status of the answer; 499 if the client left before it.
            seconds: How long it took, with all of the answer.
        """
        known = method if method in _METHODS else "other"
        self._requests[("endpoint", endpoint), ("method", known), ("status", str(status))] += 1
        self._seconds[(("endpoint", endpoint),)].observe(seconds)

    def count_walk(self, stop: str, hits: int, first_hit: float | None) -> None:
        """Count a walk that was streamed.

        Args:
            stop: Why it ended: the `stop` of its summary, `"disconnected"` or `"stopping"`.
            hits: The hits that were sent.
            first_hit: The seconds from the request to the first of them, if there was one.
        """
        self._walks[(("stop", stop if stop in _STOPS else "other"),)] += 1
        self._hits += hits
        if first_hit is not None:
            self._first_hits.observe(first_hit)

    def count_refusal(self, reason: str) -> None:
        """Count a request that was refused because the server had too much to do."""
        self._refused[(("reason", reason),)] += 1

    def add_gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Add a number that is read whenever somebody asks."""
        self._gauges[name] = (about, read)

    def to_text(self) -> str:
        """Return all numbers in the text format of Prometheus, version 0.0.4."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _counter("airw_requests_total", "Requests that were answered.", self._requests)
        yield from _histograms("airw_request_seconds", "Seconds until a request was answered.", self._seconds)
        yield from _counter("airw_walks_total", "Walks that were streamed, by why they ended.", self._walks)
        yield from _counter("airw_hits_total", "Hits that streams sent.", {(): self._hits})
        first: Mapping[Labels, Histogram] = {(): self._first_hits}
        yield from _histograms("airw_first_hit_seconds", "Seconds until a stream sent its first hit.", first)
        yield from _counter("airw_refused_total", "Requests that were refused with status 429.", self._refused)
        for name, (about, read) in self._gauges.items():
            yield from _head(name, about, "gauge")
            yield f"{name} {_number(read())}"


def _counter(name: str, about: str, counts: Mapping[Labels, int]) -> Iterator[str]:
    yield from _head(name, about, "counter")
    for labels, count in counts.items():
        yield f"{name}{_labels(labels)} {count}"


def _histograms(name: str, about: str, histograms: Mapping[Labels, Histogram]) -> Iterator[str]:
    yield from _head(name, about, "histogram")
    for labels, histogram in histograms.items():
        for bound, count in histogram.buckets():
            yield f"{name}_bucket{_labels((*labels, ('le', bound)))} {count}"
        yield f"{name}_sum{_labels(labels)} {_number(histogram.sum)}"
        yield f"{name}_count{_labels(labels)} {histogram.count}"


def _head(name: str, about: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))

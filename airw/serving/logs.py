"""The log of a server: what is known of each request, and its line.

The line contains neither the query string nor the body: they are what somebody searched for.
"""

import logging
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from airw._base.messages import one_line

LOGGER = logging.getLogger("airw.serving")
"""The logger of all servers; a program that wants lines adds a handler, as `airw serve` does."""

_KEY = "airw.record"
_LONGEST_NAME = 120  # characters of a path or a label


@dataclass(slots=True, eq=False)
class RequestRecord:
    """What a request did so far, for the log and the metrics.

    Args:
        method: Its method.
        path: Its path, as the client sent it.
        label: The label of its token; `""` without one.
        status: The status of the answer; 0 until it begins.
        hits: The hits that a stream sent.
        stop: Why the walk of a stream ended, such as `"exhausted"` or `"disconnected"`; `None` if there was none.
        first_hit: The seconds until the first hit was sent; `None` before it.
        began: The time when it began, in seconds of a clock of its own.
    """

    method: str = ""
    path: str = ""
    label: str = ""
    status: int = 0
    hits: int = 0
    stop: str | None = None
    first_hit: float | None = None
    began: float = field(default_factory=perf_counter)

    def count_hit(self) -> None:
        """Count a hit that a stream sends now."""
        self.hits += 1
        if self.first_hit is None:
            self.first_hit = perf_counter() - self.began

    def to_line(self, seconds: float) -> str:
        r"""Return the record as one line, in which nothing of a stranger acts.

        Args:
            seconds: How long the request took.

        Example:
            >>> print(RequestRecord("GET", "/a\nb", label="ada", status=404).to_line(0.0123))
            GET /a b 404 12.3 ms ada
            >>> print(RequestRecord("POST", "/traverse", status=200, hits=3, stop="exhausted").to_line(1.5))
            POST /traverse 200 1500.0 ms - hits=3 stop=exhausted
        """
        method, path = one_line(self.method, longest=16), one_line(self.path, longest=_LONGEST_NAME)
        label = one_line(self.label, longest=_LONGEST_NAME) or "-"
        walk = "" if self.stop is None else f" hits={self.hits} stop={one_line(self.stop, longest=16)}"
        return f"{method} {path} {self.status or '-'} {seconds * 1000:.1f} ms {label}{walk}"


def record_of(scope: MutableMapping[str, Any]) -> RequestRecord:
    """Return the record of a request, from its ASGI scope; a new one if nothing else keeps it.

    Example:
        >>> scope = {"type": "http", "method": "GET", "path": "/corpora"}
        >>> record_of(scope).label = "ada"
        >>> record_of(scope).label
        'ada'
    """
    record = scope.get(_KEY)
    if not isinstance(record, RequestRecord):
        record = RequestRecord(str(scope.get("method", "")), str(scope.get("path", "")))
        scope[_KEY] = record
    return record

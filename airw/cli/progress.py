"""Shows how far a build is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airw._base.messages import escape_controls
from airw.cli.printing import print_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airw.corpora import BuildProgress

_FIRST_LINE = 2.0  # seconds; a shorter build needs no line
_PAUSES = (5.0, 10.0, 30.0)  # seconds from line to line; the last one is repeated


class Estimate:
    """Writes the counts of a build and the time that is left, as far as it is known.

    Args:
        clock: A function that returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start: float | None = None

    def describe(self, state: BuildProgress) -> str:
        """Return the counts, the share and the time that is left, as one line."""
        if self._start is None and state.stage == "index":
            self._start = self._clock()
        parts = [self._counts(state)]
        if state.stage == "index" and state.fraction is not None:
            parts += [f"{state.fraction:.0%}", *self._time_left(state.fraction)]
        return ", ".join(parts)

    def _counts(self, state: BuildProgress) -> str:
        total = "" if state.total is None else f" of {state.total:,}"
        if state.stage == "survey":
            return f"reading links: {state.read:,}{total} documents"
        if state.stage == "finish":
            return f"finishing: {state.done:,} documents, {state.written:,} of them written"
        known = state.unchanged + max(state.embedded, state.written)
        if known == 0:
            return f"{state.read:,}{total} documents read"
        return f"{known:,}{total} documents, {max(state.embedded, state.written):,} of them new or changed"

    def _time_left(self, fraction: float) -> list[str]:
        elapsed = 0.0 if self._start is None else self._clock() - self._start
        # The first moments say little: loading a model would count as the time of a few documents.
        if fraction == 0 or elapsed < 1:
            return []
        return [f"about {format_seconds(elapsed * (1 - fraction) / fraction)} left"]


def format_seconds(seconds: float) -> str:
    """Return a duration as minutes and seconds, or hours and minutes.

    Example:
        >>> format_seconds(9.6), format_seconds(200), format_seconds(7300)
        ('0:10 min', '3:20 min', '2:01 h')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


class ProgressLines:
    """Prints the progress of builds as lines on stderr, seldom enough for a log.

    Args:
        clock: A function that returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = clock() + _FIRST_LINE
        self._count = 0
        self._estimates: dict[str, Estimate] = {}

    def show(self, name: str, state: BuildProgress) -> None:
        """Print a line, if the last one is long enough ago."""
        text = self._estimates.setdefault(name, Estimate(self._clock)).describe(state)
        if self._clock() >= self._next:
            print_note(f"{name}: {text}")
            self._next = self._clock() + _PAUSES[min(self._count, len(_PAUSES) - 1)]
            self._count += 1


@contextmanager
def show_progress(title: str) -> Iterator[Callable[[str, BuildProgress], None]]:
    """Show the progress of builds on stderr while they run, each with its name."""
    if sys.stderr.isatty():
        with _show_bar(title) as show:
            yield show
    else:
        yield ProgressLines().show


@contextmanager
def _show_bar(title: str) -> Iterator[Callable[[str, BuildProgress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # The bar moves the cursor, so it draws on the stream that escapes nothing. Its texts are escaped here.
    stream: Any = getattr(sys.stderr, "beneath", sys.stderr)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
    )
    estimates: dict[str, Estimate] = {}
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(escape_controls(title), total=None)

        def show(name: str, state: BuildProgress) -> None:
            text = estimates.setdefault(name, Estimate()).describe(state)
            fraction = state.fraction if state.stage == "index" else None
            bar.update(
                task,
                description=escape_controls(f"{name}: {text}"),
                total=None if fraction is None else 1.0,
                completed=fraction or 0.0,
            )

        yield show

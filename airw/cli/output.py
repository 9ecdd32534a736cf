"""What the commands print: text for people, one JSON object a line for programs."""

import json
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from airw.cli.link_list import unresolved_line
from airw.corpora import BuildProgress, BuildReport
from airw.discovery import Disclosure, DiscoveryResult, SourceAnswered
from airw.embedders import ExportReport
from airw.evaluation import MinScoreCalibration
from airw.values import ItemProblem, Passage, SearchHit, UnresolvedLink
from airw.walking import WalkSummary

__all__ = [
    "DiscoveryPrinter",
    "WalkPrinter",
    "built",
    "calibration",
    "changes",
    "corpus_line",
    "exported",
    "hits",
    "line",
    "passage",
    "problems",
    "progress",
    "progress_of_many",
    "shortened",
]

_WIDTH = 72


@contextmanager
def progress(title: str) -> Iterator[Callable[[BuildProgress], None] | None]:
    """Show how far a build is while it runs, on a terminal only."""
    with progress_of_many(title) as show:
        yield None if show is None else partial(show, title)


@contextmanager
def progress_of_many(title: str) -> Iterator[Callable[[str, BuildProgress], None] | None]:
    """Show which of several builds is running, and how far it is, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title)
        yield lambda which, now: bar.update(task, description=f"{which}: {_progress_text(now)}")


def _progress_text(now: BuildProgress) -> str:
    return f"{now.done} documents, {now.added + now.updated} of them written"


def built(
    name: str,
    path: Path,
    report: BuildReport | None,
    counts: Mapping[str, int],
    unresolved: Sequence[UnresolvedLink] | None = None,
) -> None:
    """Say what a build did; name on stderr the links that lead to no one document where they are given, else how to."""
    if report is None:
        return
    print(f"{name}: {changes(report)}")
    hint = f"; `airw link check -c {name} -v` lists them" if unresolved is None else ""
    print(f"{path} holds {_counts_text(counts, hint)}")
    for link in unresolved or ():
        print(f"airw: {unresolved_line(link)}", file=sys.stderr)


def changes(report: BuildReport) -> str:
    """Give what a build did in a few words."""
    return (
        f"{report.added} added, {report.updated} updated, {report.unchanged} unchanged, "
        f"{report.removed} removed in {report.seconds:.1f} s"
    )


def _counts_text(counts: Mapping[str, int], hint: str = "") -> str:
    states = ("resolved", "foreign", "dangling", "ambiguous")
    unresolved = ", ".join(f"{counts[state]} {state}" for state in states[2:] if counts[state])
    links = f"{sum(counts[state] for state in states)} links" + (f" ({unresolved}{hint})" if unresolved else "")
    return f"{counts['artifacts']} documents, {counts['records']} surfaces, {links}"


def problems(found: Sequence[ItemProblem], *, verbose: bool) -> None:
    """Name what was left out, on stderr; what cost no document only where asked, else count it."""
    shown = [problem for problem in found if problem.lost or verbose]
    for problem in shown:
        what = "left out" if problem.lost else "in part"
        print(f"airw: {what}: {problem.item}: {problem.reason}", file=sys.stderr)
    if len(found) > len(shown):
        print(f"{len(found) - len(shown)} remarks that cost no document; --verbose lists them")


def hits(found: Sequence[SearchHit], form: str) -> None:
    """Print ranked hits."""
    for rank, hit in enumerate(found, start=1):
        if form == "json":
            line({"type": "hit", "rank": rank, **hit.to_dict()})
        else:
            print(f"{rank:3}  {hit.score:8.4f}  {hit.artifact_id}  {_title(hit)}")
    if not found and form == "text":
        print("nothing found")


class WalkPrinter:
    """Prints a walk while it runs, flushing each line."""

    def __init__(self, form: str) -> None:
        """Start the clock that the lines show."""
        self._json = form == "json"
        self._start = time.perf_counter()
        if not self._json:
            print(f"{'ms':>7}  depth    score  path", flush=True)

    def hit(self, hit: SearchHit) -> None:
        """Print one hit: milliseconds since the start, depth, score, path."""
        elapsed = (time.perf_counter() - self._start) * 1000
        if self._json:
            line({"type": "hit", "elapsed_ms": round(elapsed, 1), **hit.to_dict()})
            return
        path = " > ".join(str(id) for id in hit.metadata.get("walk_path", ["…", hit.artifact_id]))
        print(f"{elapsed:7.1f}  {hit.metadata['walk_depth']:5}  {hit.score:7.4f}  {path}  {_title(hit)}", flush=True)

    def summary(self, summary: WalkSummary) -> None:
        """Print why the walk ended and what each limit left out."""
        if self._json:
            line({"type": "summary", **summary.to_dict()})
            return
        print(
            f"stopped: {summary.stop} after {summary.emitted} hits of {summary.committed} documents visited, "
            f"{summary.steps} steps, {summary.edges} links read, depth {summary.depth}, {summary.seconds * 1000:.0f} ms"
        )
        left = [f"{limit} {_at_least(limit, summary)}{count}" for limit, count in summary.left_out.items()]
        left += [f"{limit} unknown" for limit in summary.unknown]
        print(f"left out: {', '.join(left) or 'nothing'}")


def _at_least(limit: str, summary: WalkSummary) -> str:
    return "at least " if limit in summary.at_least else ""


def exported(report: ExportReport) -> None:
    """Say what an export made."""
    print(
        f"{report.place} holds {report.id}, {report.size / 1e6:.1f} MB; "
        f"vectors of {report.texts} texts differ from torch's by at most {report.difference:.1e}"
    )


def corpus_line(name: str, counts: Mapping[str, int], config: Mapping[str, Any]) -> None:
    """Print one corpus of a list."""
    print(f"{name:20}  {_counts_text(counts)}  {config.get('embedder_id', 'never completed')}")


class DiscoveryPrinter:
    """Prints a discovery while it runs, flushing each line."""

    def __init__(self, form: str, *, many: bool) -> None:
        """Tell of each corpus only where there are several, in text; in JSON always."""
        self._json = form == "json"
        self._many = many

    def answer(self, answered: SourceAnswered) -> None:
        """Print that one corpus has answered: its name, how it went, its hits, milliseconds."""
        report = answered.report
        if self._json:
            line({"type": "progress", **answered.to_dict()})
        elif self._many:
            about = f"{report['n_retrieved']:4} hits" if report["status"] == "ok" else " " * 9
            note = f"  {report['reason']}" if report["status"] == "ok" and report["reason"] else ""
            milliseconds = f"{report['seconds'] * 1000:.0f} ms"
            print(f"{answered.source:20}  {report['status']:7}  {about}  {milliseconds}{note}", flush=True)

    def result(self, result: DiscoveryResult) -> None:
        """Print what was committed to, or why nothing was."""
        for rank, found in enumerate(result.results, start=1):
            if self._json:
                line({"type": "hit", "rank": rank, **found.to_dict()})
            else:
                self._disclosed(rank, found)
        if self._json:
            line({"type": "summary", **{name: value for name, value in result.to_dict().items() if name != "results"}})
        elif result.abstained:
            print(f"nothing answers it: {result.reason}")

    def _disclosed(self, rank: int, found: Disclosure) -> None:
        where = f"{found.source}  " if self._many else ""
        title = shortened(str(found.metadata.get("title") or found.summary))
        print(f"{rank:3}  {found.score:8.4f}  {where}{found.artifact_id}  {title}")
        parts = {"passage": found.passage, "body": found.body, "files": "\n".join(found.bundle)}
        parts["note"] = ", ".join(
            str(found.metadata[key]) for key in ("disclosure", "expansion") if key in found.metadata
        )
        for part, text in parts.items():
            if text:
                print(textwrap.indent(f"{part}:\n{textwrap.indent(text.rstrip(), '  ')}", "     "))


def passage(found: Passage, form: str) -> None:
    """Print a passage."""
    if form == "json":
        told = found.to_dict()
        del told["score"]  # nothing was searched
        line({"type": "passage", **told})
    else:
        print(found.text)


def calibration(found: MinScoreCalibration, form: str, *, saved: bool) -> None:
    """Print what a calibration found."""
    if form == "json":
        line({"type": "calibration", "saved": saved, **found.to_dict()})
        return
    print(found)
    if saved:
        print(f"saved as {found.key}: `airw discover --min-score auto` finds it")


def _title(hit: SearchHit) -> str:
    return shortened(str(hit.metadata.get("title") or hit.text))


def shortened(text: str) -> str:
    """Give a text on one line that a terminal has room for."""
    told = " ".join(text.split())
    return told if len(told) <= _WIDTH else told[: _WIDTH - 1] + "…"


def line(value: Mapping[str, Any]) -> None:
    """Print one JSON object at once."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)

"""Prints the results of search, traverse, discover, expand and calibrate.

Text is for people; programs get one JSON object a line.
"""

from __future__ import annotations

import textwrap
import time
from typing import TYPE_CHECKING, Any

from airw._base.messages import escape_controls
from airw.cli.output import print_json_line, shorten
from airw.cli.printing import print_line, write
from airw.cli.snippets import find_snippet
from airw.values.hits import get_fact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airw.discovery import Disclosure, DiscoveryResult, SourceAnswered
    from airw.evaluation import MinScoreCalibration
    from airw.values import Passage, SearchHit
    from airw.walking import WalkSummary

_INDENT = " " * 5


def print_hits(hits: Sequence[SearchHit], query: str, form: str) -> None:
    """Print ranked hits, each with the part that matches the query best."""
    for rank, hit in enumerate(hits, start=1):
        if form == "json":
            print_json_line({"type": "hit", "rank": rank, **hit.to_dict()})
        else:
            print_line(f"{rank:3}  {hit.score:8.4f}  {hit.artifact_id}  {_title(hit)}")
            _print_snippet(hit.text, query, title=hit.metadata.get("title"))
    if not hits and form == "text":
        print_line("nothing found")


class WalkPrinter:
    """Prints a walk while it runs, one line a hit."""

    def __init__(self, form: str) -> None:
        """Start the clock, and print the heading of the columns."""
        self._json = form == "json"
        self._start = time.perf_counter()
        if not self._json:
            print_line(f"{'ms':>7}  depth    score  path")

    def print_hit(self, hit: SearchHit) -> None:
        """Print one hit: milliseconds since the start, depth, score, path, and what it adds."""
        elapsed = (time.perf_counter() - self._start) * 1000
        if self._json:
            print_json_line({"type": "hit", "elapsed_ms": round(elapsed, 1), **hit.to_dict()})
            return
        path = " > ".join(str(id) for id in get_fact(hit.metadata, "walk_path", ["…", hit.artifact_id]))
        print_line(f"{elapsed:7.1f}  {get_fact(hit.metadata, 'walk_depth'):5}  {hit.score:7.4f}  {path}  {_title(hit)}")
        if added := get_fact(hit.metadata, "path_added"):  # of `PathCoverage`
            print_line(f"{'':14}adds: {shorten(' '.join(map(str, added)))}")

    def print_summary(self, summary: WalkSummary) -> None:
        """Print why the walk stopped and how much each limit left out."""
        if self._json:
            print_json_line({"type": "summary", **summary.to_dict()})
            return
        print_line(
            f"stopped: {summary.stop} after {summary.emitted} hits of {summary.committed} documents visited, "
            f"{summary.steps} steps, {summary.edges} links read, depth {summary.depth}, {summary.seconds * 1000:.0f} ms"
        )
        limits = [f"{limit} {_at_least(limit, summary)}{count}" for limit, count in summary.left_out.items()]
        limits += [f"{limit} not counted" for limit in summary.unknown]
        print_line(f"left out: {', '.join(limits) or 'nothing'}")


def _at_least(limit: str, summary: WalkSummary) -> str:
    return "at least " if limit in summary.at_least else ""


class DiscoveryPrinter:
    """Prints a discovery while it runs."""

    def __init__(self, form: str, query: str, *, many: bool) -> None:
        """Prepare; text reports the answer of each corpus only if there are `many`, JSON always."""
        self._json = form == "json"
        self._query = query
        self._many = many
        self._reports: list[Mapping[str, Any]] = []

    def print_answer(self, answered: SourceAnswered) -> None:
        """Print the answer of one corpus: name, status, number of hits, milliseconds."""
        report = answered.report
        self._reports.append(report)
        if self._json:
            print_json_line({"type": "progress", **_progress_dict(answered)})
        elif self._many:
            is_ok = report["status"] == "ok"
            hits = f"{report['n_retrieved']:4} hits" if is_ok else " " * 9
            note = f"  {report['reason']}" if is_ok and report["reason"] else ""
            milliseconds = f"{report['seconds'] * 1000:.0f} ms"
            print_line(f"{answered.source:20}  {report['status']:7}  {hits}  {milliseconds}{note}")

    def print_result(self, result: DiscoveryResult) -> None:
        """Print the committed documents, or why there are none."""
        for rank, disclosure in enumerate(result.results, start=1):
            if self._json:
                print_json_line({"type": "hit", "rank": rank, **disclosure.to_dict()})
            else:
                self._print_disclosure(rank, disclosure)
        if self._json:
            print_json_line(
                {"type": "summary", **{name: value for name, value in result.to_dict().items() if name != "results"}}
            )
        else:
            self._print_reason(result)

    def _print_reason(self, result: DiscoveryResult) -> None:
        """Print which rule ended the list, or why there are no documents."""
        reason = f"{result.explanation} ({result.reason})"
        count = len(result.results)
        start = f"chosen {count} of {result.n_retrieved}" if count else "no document answers the query"
        print_line(f"{start}: {reason}{self._floor_text()}")

    def _floor_text(self) -> str:
        """Return how the best score of a single corpus compares with its floor, if it has one."""
        if self._many or len(self._reports) != 1:
            return ""
        report = self._reports[0]
        # Most floors are on the scale of evidence, not of scores.
        name = "evidence" if "evidence" in report else "top_score"
        floor, best = report.get("floor"), report.get(name)
        if floor is None or best is None:
            return ""
        return f"; {'evidence' if name == 'evidence' else 'best score'} {best:.4f}, floor {floor:.4f}"

    def _print_disclosure(self, rank: int, disclosure: Disclosure) -> None:
        corpus = f"{disclosure.source}  " if self._many else ""
        metadata = disclosure.metadata
        title = shorten(str(metadata.get("title") or disclosure.summary))
        print_line(f"{rank:3}  {disclosure.score:8.4f}  {corpus}{disclosure.artifact_id}  {title}")
        if disclosure.passage is None:
            _print_snippet(disclosure.summary, self._query, title=metadata.get("title"))
        parts = {"passage": disclosure.passage, "body": disclosure.body, "files": "\n".join(disclosure.bundle)}
        parts["note"] = ", ".join(str(note) for key in ("disclosure", "expansion") if (note := get_fact(metadata, key)))
        for part, text in parts.items():
            if text:
                lines = textwrap.indent(escape_controls(text, multiline=True).rstrip(), "  ")
                write(textwrap.indent(f"{part}:\n{lines}\n", "     "))


def print_passage(passage: Passage, form: str) -> None:
    """Print a passage."""
    if form == "json":
        fields = passage.to_dict()
        del fields["score"]  # without a search there is no score
        print_json_line({"type": "passage", **fields})
    else:
        write(f"{passage.text}\n")


def print_calibration(calibration: MinScoreCalibration, form: str, *, saved: bool) -> None:
    """Print the floor that a calibration found."""
    if form == "json":
        print_json_line({"type": "calibration", "saved": saved, **calibration.to_dict()})
        return
    write(f"{calibration}\n")
    if saved:
        print_line(f"saved as {calibration.key}; `airw discover --min-score auto` uses it")


def _title(hit: SearchHit) -> str:
    return shorten(str(hit.metadata.get("title") or hit.text))


def _print_snippet(text: str, query: str, *, title: object) -> None:
    """Print the part of a text that matches, unless it is the title again."""
    body = text.removeprefix(str(title)).lstrip(" :-\n") if title else text
    snippet = find_snippet(body, query)
    if snippet and shorten(text) != shorten(str(title or text)):
        for line in textwrap.wrap(escape_controls(snippet), 88):
            print_line(f"{_INDENT}{line}")


def _progress_dict(answered: SourceAnswered) -> dict[str, Any]:
    """Return an answer without the texts and metadata of its hits, which the hits chosen have."""
    fields = answered.to_dict()
    for name in ("hits", "ranking"):
        keys = ("artifact_id", "source", "score")
        fields[name] = [{key: hit[key] for key in keys} for hit in fields[name]]
    for hit, slim in zip(answered.ranking, fields["ranking"], strict=True):
        slim["rank_final"] = get_fact(hit.metadata, "rank_final")
    return fields

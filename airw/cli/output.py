"""What the commands print: text for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airw import views
from airw._base.json import json_clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from airw.corpora import (
        BuildProgress,
        BuildReport,
        Coverage,
        Definition,
        Maintenance,
        MaintenanceOutcome,
        MaintenanceReport,
    )
    from airw.discovery import Disclosure, DiscoveryResult, SourceAnswered
    from airw.embedders import ExportReport
    from airw.evaluation import MinScoreCalibration
    from airw.links import GraphDiagnosis
    from airw.values import Direction, ItemProblem, LinkCount, Passage, SearchHit, UnresolvedLink
    from airw.walking import WalkSummary

_WIDTH = 72
_WIDE = re.compile(r"[^\x00-\x7f]")
_STATES = ("resolved", "dangling", "ambiguous", "foreign")
_COUNTS = ("artifacts", "records", *_STATES)
_SETTINGS = ("embedder", "embedder_id", "dim", "strategy_id", "extractor_id", "source")
_RECIPES = "recipes"  # for upserts; may hold all titles
_OF_FLOORS = ("min_score", "mode", "k", "embedder_id")


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
        print(f"airw: {views.unresolved_line(link)}", file=sys.stderr)


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


@dataclass(frozen=True, slots=True)
class About:
    """All that is known of one corpus: what is registered of it, and what its file says once it is built."""

    name: str
    path: Path
    bytes: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    calibrations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    definition: Definition | None = None
    links: Sequence[LinkCount] = ()

    def floors(self) -> dict[str, dict[str, Any]]:
        """Give the floors by key, and whether each was found with the embedder that the corpus has now."""
        now = self.config.get("embedder_id")
        return {
            key: {**{name: each.get(name) for name in _OF_FLOORS}, "current": each.get("embedder_id") == now}
            for key, each in sorted(self.calibrations.items())
        }

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as JSON, with the same keys for every corpus; null for what is not known."""
        told = {
            "name": self.name,
            "path": str(self.path),
            "bytes": self.bytes,
            **{name: self.counts.get(name) for name in _COUNTS},
            "links": [asdict(each) for each in self.links],
            **{name: json_clean(self.config.get(name)) for name in _SETTINGS},
            "maintained": self.config.get("maintained"),
            "floors": json_clean(self.floors()),
            "definition": None if self.definition is None else self.definition.to_dict(),
        }
        rest = self.config.keys() - told.keys() - {_RECIPES}
        return {**told, "settings": {name: json_clean(self.config[name]) for name in sorted(rest)}}


def registered(definition: Definition) -> None:
    """Say what was registered."""
    print(f"registered {definition.name}: {_definition_text(definition)}")
    print(f"`airw build {definition.name}` builds it; `airw maintain` builds it {_upkeep_text(definition.schedule)}")


def replaced(before: Definition, after: Definition) -> None:
    """Say that a name means something else from now on."""
    print(f"{after.name} is registered as {_source_text(after)} from now on; it was {_source_text(before)}")


def shadowed(preset: str) -> None:
    """Say, on stderr, that a path here keeps a preset from being meant."""
    print(f"airw: {preset!r} exists here, so it is read as a path; elsewhere it is the preset", file=sys.stderr)


def unbuilt(definition: Definition) -> None:
    """Print one corpus of a list that is only registered."""
    print(f"{definition.name:20}  not built yet: {_definition_text(definition)}")


def unreadable(name: str, error: Exception) -> None:
    """Say, on stderr, what keeps a corpus from being listed."""
    print(f"airw: {name}: {error}", file=sys.stderr)


def _definition_text(definition: Definition) -> str:
    return f"{_source_text(definition)}, embedder {definition.embedder}"


def _source_text(definition: Definition) -> str:
    params = " ".join(f"{name}={_param_text(value)}" for name, value in definition.params.items())
    return f"{definition.kind} {params}".rstrip()


def _param_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _upkeep_text(maintenance: Maintenance) -> str:
    when = {
        "source-change": "each time",
        "interval": f"every {maintenance.every_hours or 0:g} hours",
        "manual": "only when it is named",
    }[maintenance.reindex]
    return when if maintenance.window is None else f"{when}, from {' to '.join(maintenance.window)}"


def info(about: About, form: str) -> None:
    """Print all that is known of one corpus."""
    if form == "json":
        line({"type": "info", **about.to_dict()})
        return
    print(about.name)
    for title, rows in _sections(about):
        if rows:
            print(title)
        for name, value in rows.items():
            print(f"  {name:14} {value}")


def _sections(about: About) -> Iterable[tuple[str, dict[str, Any]]]:
    if about.bytes is None:
        yield "file", {"path": about.path, "size": f"not built yet; `airw build {about.name}` builds it"}
    else:
        yield "file", {"path": about.path, "size": f"{about.bytes / 1e6:.1f} MB"}
    config = about.config
    yield "holds", {name: about.counts[name] for name in ("artifacts", "records") if about.counts}
    yield "links", {**{name: about.counts[name] for name in _STATES if about.counts}, **_link_rows(about.links)}
    yield "built with", {name: shortened(str(config[name])) for name in _SETTINGS if config.get(name)}
    yield "floors", {key: _floor_text(floor) for key, floor in about.floors().items()}
    yield "registered as", {} if about.definition is None else _definition_rows(about.definition)
    yield "maintained", {} if about.definition is None else _upkeep_rows(about.definition, config.get("maintained"))


def _link_rows(links: Sequence[LinkCount]) -> dict[str, str]:
    """Give a row for each type and origin of links; no name of a state holds a comma."""
    rows: dict[str, list[str]] = {}
    for each in links:
        rows.setdefault(f"{each.type}, {each.origin}", []).append(f"{each.count} {each.state}")
    return {name: ", ".join(counts) for name, counts in rows.items()}


def _floor_text(floor: Mapping[str, Any]) -> str:
    score = "none" if floor["min_score"] is None else f"{floor['min_score']:.4f}"
    return score if floor["current"] else f"{score}, which is not used: another embedder gave it"


def _definition_rows(definition: Definition) -> dict[str, Any]:
    rows = {"kind": definition.kind, **{name: _param_text(value) for name, value in definition.params.items()}}
    strategy = {} if definition.strategy is None else {"strategy": json.dumps(dict(definition.strategy))}
    return {**rows, "embedder": definition.embedder, **strategy}


def _upkeep_rows(definition: Definition, last: object) -> dict[str, Any]:
    return {"when": _upkeep_text(definition.schedule), "last": last or "never"}


def maintained(report: MaintenanceReport, form: str) -> None:
    """Say of each corpus what was done about it, and why."""
    for each in report.corpora:
        if form == "json":
            line({"type": "maintained", **each.to_dict()})
        else:
            print(f"{each.name:20}  {each.action:8}  {_done_text(each)}")
    if form == "json":
        line({"type": "summary", "ok": report.ok, "dry_run": report.dry_run})
    elif not report.corpora:
        print("no corpora registered; `airw register NAME KIND` and `airw build FOLDER` do that")


def _done_text(done: MaintenanceOutcome) -> str:
    if done.report is None:
        return done.reason
    lost = sum(problem.lost for problem in done.report.problems)
    return changes(done.report) + (f"; {lost} left out" if lost else "")


def covered(found: Coverage, form: str, *, verbose: bool) -> None:
    """Print how much of its source a corpus holds, and what not."""
    if form == "json":
        line({"type": "coverage", **found.to_dict()})
        return
    print(f"{found.name}: {len(found.indexed)} of {len(found.expected)} documents indexed ({found.ratio:.1%})")
    for title, about, items in _uncovered(found):
        print(f"{title:10} {len(items):6}  {about}".rstrip())
        for item in items if verbose else ():
            print(f"    {item}")


def _uncovered(found: Coverage) -> Iterable[tuple[str, str, Sequence[str]]]:
    yield "missing", "not in the corpus yet", found.missing
    yield "outdated", "changed since they were indexed", found.outdated
    yield "gone", "in the corpus, but no longer in the source", found.gone
    yield "problems", "cannot be indexed, or not whole", [f"{each.item}: {each.reason}" for each in found.problems]
    for reason, paths in found.excluded.items():
        yield "excluded", reason, paths


class Sink:
    """Takes the parts of a document: prints each at once, or keeps them for a file."""

    def __init__(self, file: str | None) -> None:
        """Print, unless there is a file."""
        self._file = file
        self._parts: list[str] = []

    def put(self, text: str) -> None:
        """Take the next part, as it is."""
        if self._file is None:
            say(text)
        else:
            self._parts.append(text)

    def close(self) -> None:
        """Write the file, where there is one, in place of what it held."""
        if self._file is not None:
            Path(self._file).write_text("".join(self._parts), encoding="utf-8", newline="\n")


def say(text: str) -> None:
    """Print text at once, without a newline of its own; where the terminal has not all of its characters, escaped."""
    try:
        text.encode(sys.stdout.encoding or "utf-8", "strict")
    except UnicodeEncodeError:
        text = _WIDE.sub(lambda found: json.dumps(found[0])[1:-1], text)  # what JSON takes, too
    print(text, end="", flush=True)


def json_document(value: Any) -> str:
    """Give a value as JSON on one line."""
    return f"{json.dumps(value, ensure_ascii=False, allow_nan=False)}\n"


def link_list(id: str, direction: Direction, links: Sequence[views.ListedLink], form: str) -> None:
    """Print the links of one document."""
    if form == "json":
        say(json_document([link.to_dict() for link in links]))
    elif form == "records":
        say(views.listing_records(id, direction, links))
    else:
        say("".join(f"{link.text}\n" for link in links) or "no links found\n")


def checked(name: str, found: GraphDiagnosis, unresolved: Sequence[UnresolvedLink] | None, form: str) -> None:
    """Print what a graph is like, and the links that lead nowhere, where they were asked for."""
    if form == "json":
        told = {} if unresolved is None else {"unresolved": [views.unresolved_dict(each) for each in unresolved]}
        say(json_document({"type": "check", "name": name, **found.to_dict(), **told}))
        return
    say(f"{found}\n")
    for each in unresolved or ():
        say(f"{views.unresolved_line(each)}\n")

"""Prints the results of commands: text for people, one JSON object a line for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airw import views
from airw._base.json import dump_json, json_clean
from airw._base.messages import one_line
from airw.cli.printing import print_line, print_note, write
from airw.cli.wording import describe_error, translate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airw.corpora import (
        BuildReport,
        Coverage,
        Definition,
        Maintenance,
        MaintenanceOutcome,
        MaintenanceReport,
        Place,
    )
    from airw.links import GraphDiagnosis
    from airw.values import Direction, ItemProblem, LinkCount, UnresolvedLink

_WIDTH = 72
_STATES = ("resolved", "dangling", "ambiguous", "foreign", "file", "outside")
_COUNTS = ("artifacts", "records", *_STATES)
_SETTINGS = ("embedder", "embedder_id", "dim", "strategy_id", "extractor_id", "source")
_INTERNAL = {"recipes", "problems", "files"}  # for later builds, and may contain every title: not printed
_FLOOR_FIELDS = ("min_score", "signal", "mode", "k", "embedder_id")
_BUILT_FIELDS = ("min_evidence", "mode", "reason", "own_kept", "foreign_rejected", "artifacts", "embedder_id")
_NO_FLOOR = {
    "inseparable": "everyday questions score as the corpus's own sentences",
    "too_small": "the corpus is too small to measure one",
    "too_large": "the corpus is too large to measure one",
}


def print_build_report(
    name: str,
    place: Place,
    report: BuildReport | None,
    counts: Mapping[str, int],
    unresolved: Sequence[UnresolvedLink] | None = None,
) -> None:
    """Print the counts of a build and of the corpus.

    The floor is that of the default mode. Unresolved links, if given, go to stderr, one a line. Otherwise a hint names
    the command that lists them.
    """
    if report is None:
        return
    print_line(f"{name}: {summarize_changes(report)}")
    hint = f"; `airw link check -c {name} -v` lists them" if unresolved is None else ""
    print_line(f"{place} contains {_counts_text(counts, hint)}")
    if report.left_out:
        counts_by_reason = ", ".join(f"{count} {reason}" for reason, count in report.left_out.items())
        print_line(f"left out: {counts_by_reason}; `airw coverage {name} -v` lists them")
    if report.cut:
        print_line(f"cut: the embedder reads only the beginning of {report.cut} texts; --verbose names some")
    if floor := report.floors.get("hybrid"):
        print_line(f"floor of discover: {_text_of_build_floor(floor.to_dict())}")
    for link in unresolved or ():
        print_note(f"{views.unresolved_line(link)}")


def summarize_changes(report: BuildReport) -> str:
    """Return the counts of a build in one line."""
    return (
        f"{report.added} added, {report.updated} updated, {report.unchanged} unchanged, "
        f"{report.removed} removed in {report.seconds:.1f} s"
    )


def _counts_text(counts: Mapping[str, int], hint: str = "") -> str:
    words = {"dangling": "dangling", "ambiguous": "ambiguous", "file": "to files", "outside": "out of the folder"}
    unresolved = ", ".join(f"{counts[state]} {word}" for state, word in words.items() if counts[state])
    links = f"{sum(counts[state] for state in _STATES)} links" + (f" ({unresolved}{hint})" if unresolved else "")
    return f"{counts['artifacts']} documents, {counts['records']} surfaces, {links}"


def print_problems(problems: Sequence[ItemProblem], *, verbose: bool) -> None:
    """Print each document that was left out, on stderr.

    Smaller problems, after which the document was indexed nevertheless, are listed if `verbose`, else counted.
    """
    listed = [problem for problem in problems if problem.lost or verbose]
    for problem in listed:
        effect = "left out" if problem.lost else "in part"
        print_note(f"{effect}: {problem.item}: {translate(problem.reason)}")
    if len(problems) > len(listed):
        count = len(problems) - len(listed)
        first = next(problem for problem in problems if not problem.lost)
        print_line(
            f"{count} smaller problem{'s' * (count != 1)}, whose documents are in the corpus all the same, such as "
            f"{one_line(f'{first.item}: {translate(first.reason)}')}; --verbose lists them"
        )


def print_corpus_line(name: str, counts: Mapping[str, int], config: Mapping[str, Any]) -> None:
    """Print one built corpus of a list."""
    print_line(f"{name:20}  {_counts_text(counts)}  {config.get('embedder_id', 'never completed')}")


def shorten(text: str) -> str:
    """Return a text on one line, cut to fit a terminal."""
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def print_json_line(value: Mapping[str, Any]) -> None:
    """Print one JSON object and flush, so that a reading program gets it at once."""
    print_line(dump_json(value))


@dataclass(frozen=True, slots=True)
class About:
    """Everything that `info` shows of one corpus.

    It combines the definition, if the corpus is registered, and the contents of its store, if it is built.
    """

    name: str
    place: Place
    is_built: bool = False
    bytes: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    calibrations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    definition: Definition | None = None
    links: Sequence[LinkCount] = ()
    language: str | None = None

    def floors(self) -> dict[str, dict[str, Any]]:
        """Return the floors by key, and whether each was measured with the current embedder."""
        from airw.corpora.floors import is_built_key

        embedder_id = self.config.get("embedder_id")
        return {
            key: {
                **{name: floor.get(name) for name in (_BUILT_FIELDS if is_built_key(key) else _FLOOR_FIELDS)},
                "kind": "built" if is_built_key(key) else "calibrated",
                "current": floor.get("embedder_id") == embedder_id,
            }
            for key, floor in sorted(self.calibrations.items())
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values; keys are the same for all corpora."""
        fields = {
            "name": self.name,
            "store": "file" if isinstance(self.place, Path) else "server",
            "path": str(self.place) if isinstance(self.place, Path) else None,
            "address": None if isinstance(self.place, Path) else str(self.place),
            "bytes": self.bytes,
            "language": self.language,
            **{name: self.counts.get(name) for name in _COUNTS},
            "links": [asdict(count) for count in self.links],
            **{name: json_clean(self.config.get(name)) for name in _SETTINGS},
            "maintained": self.config.get("maintained"),
            "floors": json_clean(self.floors()),
            "definition": None if self.definition is None else self.definition.to_dict(),
        }
        rest = self.config.keys() - fields.keys() - _INTERNAL
        return {**fields, "settings": {name: json_clean(self.config[name]) for name in sorted(rest)}}


def print_registration(definition: Definition) -> None:
    """Print the definition that was registered, and when it is built."""
    when = _maintenance_text(definition.schedule)
    print_line(f"registered {definition.name}: {_definition_text(definition)}")
    print_line(f"`airw build {definition.name}` builds it; `airw maintain` builds it {when}")


def print_replacement(before: Definition, after: Definition) -> None:
    """Print that a name is now registered for another source."""
    print_line(f"{after.name} is now registered as {_source_text(after)}; before, it was {_source_text(before)}")


def warn_preset_hidden(preset: str) -> None:
    """Warn on stderr that a path in the current folder hides a preset."""
    print_note(f"{preset!r} exists here, so it is built as a path; elsewhere it is the preset")


def print_unbuilt_corpus(definition: Definition) -> None:
    """Print one corpus of a list that is registered but not built yet."""
    print_line(f"{definition.name:20}  not built yet: {_definition_text(definition)}")


def print_unreadable_corpus(name: str, error: Exception) -> None:
    """Print on stderr why a corpus cannot be listed."""
    print_note(f"{name}: {describe_error(error)}")


def _definition_text(definition: Definition) -> str:
    return f"{_source_text(definition)}, embedder {definition.embedder}"


def _source_text(definition: Definition) -> str:
    params = " ".join(f"{name}={_param_text(value)}" for name, value in definition.params.items())
    return f"{definition.kind} {params}".rstrip()


def _param_text(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value)


def _maintenance_text(maintenance: Maintenance) -> str:
    trigger = {
        "source-change": "each time",
        "interval": f"every {maintenance.every_hours or 0:g} hours",
        "manual": "only when you name it",
    }[maintenance.reindex]
    return trigger if maintenance.window is None else f"{trigger}, from {' to '.join(maintenance.window)}"


def print_info(about: About, form: str) -> None:
    """Print one corpus: its store, counts, links, settings, floors and definition."""
    if form == "json":
        print_json_line({"type": "info", **about.to_dict()})
        return
    print_line(about.name)
    for title, rows in _sections(about):
        if rows:
            print_line(title)
        for name, value in rows.items():
            print_line(f"  {name:14} {value}")


def _sections(about: About) -> Iterable[tuple[str, dict[str, Any]]]:
    yield "store", _store_rows(about)
    config, definition = about.config, about.definition
    yield "contains", {name: about.counts[name] for name in ("artifacts", "records") if about.counts}
    yield "links", {**{name: about.counts[name] for name in _STATES if about.counts}, **_link_rows(about.links)}
    yield "built with", {name: shorten(str(config[name])) for name in _SETTINGS if config.get(name)}
    yield "floors", {key: _floor_text(floor) for key, floor in about.floors().items()}
    yield "registered as", {} if definition is None else _definition_rows(definition)
    yield "maintained", {} if definition is None else _maintenance_rows(definition, config.get("maintained"))


def _store_rows(about: About) -> dict[str, Any]:
    """Return the kind of the store and where it is, and the language of its texts."""
    unbuilt = {} if about.is_built else {"size": f"not built yet; `airw build {about.name}` builds it"}
    size = {} if about.bytes is None else {"size": f"{about.bytes / 1e6:.1f} MB"}
    language = {"language": about.language or "none: words as they are"} if about.is_built else {}
    if isinstance(about.place, Path):
        return {"kind": "file (SQLite)", "path": about.place, **unbuilt, **size, **language}
    return {"kind": "server (PostgreSQL)", "address": about.place, **unbuilt, **language}


def _link_rows(links: Sequence[LinkCount]) -> dict[str, str]:
    """Return a row for each type and origin of links."""
    # Rows of states come before: the comma keeps these names from being equal to the name of a state.
    rows: dict[str, list[str]] = {}
    for count in links:
        rows.setdefault(f"{count.type}, {count.origin}", []).append(f"{count.count} {count.state}")
    return {name: ", ".join(counts) for name, counts in rows.items()}


def _floor_text(floor: Mapping[str, Any]) -> str:
    if floor["kind"] == "built":
        return _text_of_build_floor(floor)
    of = " of the evidence" if floor.get("signal") == "evidence" else ""
    score = "none" if floor["min_score"] is None else f"{floor['min_score']:.4f}{of}"
    return score if floor["current"] else f"{score}, not used: it was calibrated with another embedder"


def _text_of_build_floor(floor: Mapping[str, Any]) -> str:
    if floor["min_evidence"] is None:
        return f"none: {_NO_FLOOR.get(floor['reason'], floor['reason'])}"
    return (
        f"{floor['min_evidence']:.2f}, measured by the build: {floor['own_kept']:.0%} of the corpus's own sentences "
        f"pass, {floor['foreign_rejected']:.0%} of everyday questions do not"
    )


def _definition_rows(definition: Definition) -> dict[str, Any]:
    rows = {"kind": definition.kind, **{name: _param_text(value) for name, value in definition.params.items()}}
    strategy = {} if definition.strategy is None else {"strategy": json.dumps(dict(definition.strategy))}
    return {**rows, "embedder": definition.embedder, **strategy}


def _maintenance_rows(definition: Definition, last: object) -> dict[str, Any]:
    return {"when": _maintenance_text(definition.schedule), "last": last or "never"}


def print_maintenance_report(report: MaintenanceReport, form: str) -> None:
    """Print the action for each corpus, and the reason."""
    for outcome in report.corpora:
        if form == "json":
            print_json_line({"type": "maintained", **outcome.to_dict()})
        else:
            print_line(f"{outcome.name:20}  {outcome.action:8}  {_outcome_text(outcome)}")
    if form == "json":
        print_json_line({"type": "summary", "ok": report.ok, "dry_run": report.dry_run})
    elif not report.corpora:
        print_line("no corpora registered; `airw register NAME KIND` or `airw build FOLDER` registers one")


def _outcome_text(outcome: MaintenanceOutcome) -> str:
    if outcome.report is None:
        return translate(outcome.reason)
    lost = sum(problem.lost for problem in outcome.report.problems)
    return summarize_changes(outcome.report) + (f"; {lost} left out" if lost else "")


def print_coverage(coverage: Coverage, form: str, *, verbose: bool) -> None:
    """Print how much of its source a corpus contains, and list the rest."""
    if form == "json":
        print_json_line({"type": "coverage", **coverage.to_dict()})
        return
    indexed, expected = len(coverage.indexed), len(coverage.expected)
    print_line(f"{coverage.name}: {indexed} of {expected} documents indexed ({coverage.ratio:.1%})")
    for title, about, items in _coverage_gaps(coverage):
        print_line(f"{title:10} {len(items):6}  {about}".rstrip())
        for item in items if verbose else ():
            print_line(f"    {item}")


def _coverage_gaps(coverage: Coverage) -> Iterable[tuple[str, str, Sequence[str]]]:
    yield "missing", "not in the corpus yet", coverage.missing
    yield "outdated", "changed since they were indexed", coverage.outdated
    yield "gone", "in the corpus, but no longer in the source", coverage.gone
    problems = [f"{problem.item}: {problem.reason}" for problem in coverage.problems]
    yield "problems", "cannot be indexed, or only in part", problems
    for reason, paths in coverage.excluded.items():
        yield "excluded", reason, paths


class Sink:
    """The output of a command: prints each part at once, or collects all parts for a file."""

    def __init__(self, file: str | None) -> None:
        """Prepare; without a file, parts are printed."""
        self._file = file
        self._parts: list[str] = []

    def write(self, text: str) -> None:
        """Write the next part unchanged."""
        if self._file is None:
            write(text)
        else:
            self._parts.append(text)

    def close(self) -> None:
        """Write the collected parts to the file, if there is one, and replace its old contents."""
        if self._file is not None:
            Path(self._file).write_text("".join(self._parts), encoding="utf-8", newline="\n")


def print_link_list(id: str, direction: Direction, links: Sequence[views.ListedLink], form: str) -> None:
    """Print the links of one document."""
    if form == "json":
        print_line(dump_json([link.to_dict() for link in links]))
    elif form == "records":
        write(views.listing_records(id, direction, links))
    else:
        for line in [link.text for link in links] or ["no links found"]:
            print_line(line)


def print_diagnosis(
    name: str, diagnosis: GraphDiagnosis, unresolved: Sequence[UnresolvedLink] | None, form: str
) -> None:
    """Print the diagnosis of a graph and, if given, the links that lead nowhere."""
    if form == "json":
        links = {} if unresolved is None else {"unresolved": [views.unresolved_dict(link) for link in unresolved]}
        print_json_line({"type": "check", "name": name, **diagnosis.to_dict(), **links})
        return
    write(f"{diagnosis}\n")
    for link in unresolved or ():
        print_line(views.unresolved_line(link))

"""What the commands that keep corpora print: text for people, one JSON object a line for programs."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from airw._base.json import json_clean
from airw.cli import output
from airw.corpora import Coverage, Definition, Maintained, Maintenance, MaintenanceReport
from airw.values import LinkCount

__all__ = ["About", "covered", "info", "maintained", "registered", "replaced", "shadowed", "unbuilt", "unreadable"]

_STATES = ("resolved", "dangling", "ambiguous", "foreign")
_COUNTS = ("artifacts", "records", *_STATES)
_SETTINGS = ("embedder", "embedder_id", "dim", "strategy_id", "extractor_id", "source")
_RECIPES = "recipes"  # for upserts; may hold all titles
_OF_FLOORS = ("min_score", "mode", "k", "embedder_id")


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
        output.line({"type": "info", **about.to_dict()})
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
    yield "built with", {name: output.shortened(str(config[name])) for name in _SETTINGS if config.get(name)}
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
            output.line({"type": "maintained", **each.to_dict()})
        else:
            print(f"{each.name:20}  {each.action:8}  {_done_text(each)}")
    if form == "json":
        output.line({"type": "summary", "ok": report.ok, "dry_run": report.dry_run})
    elif not report.corpora:
        print("no corpora registered; `airw register NAME KIND` and `airw build FOLDER` do that")


def _done_text(done: Maintained) -> str:
    if done.report is None:
        return done.reason
    lost = sum(problem.lost for problem in done.report.problems)
    return output.changes(done.report) + (f"; {lost} left out" if lost else "")


def covered(found: Coverage, form: str, *, verbose: bool) -> None:
    """Print how much of its source a corpus holds, and what not."""
    if form == "json":
        output.line({"type": "coverage", **found.to_dict()})
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

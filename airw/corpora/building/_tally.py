"""What became of each partition, as a row of JSON, and what all rows say together: pure, no I/O."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from airw._base.json import json_clean
from airw.corpora.ingestion.pipeline import Page
from airw.values import ArtifactChange, ItemProblem

__all__ = ["PartitionReport", "Tally", "report_of", "row_of"]


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What became of one partition.

    Args:
        number: Which one.
        added: Artifacts that were not in the corpus before.
        updated: Artifacts written again, because they or the way to index them changed.
        unchanged: Artifacts that needed nothing.
        problems: What could not be indexed, or not whole, in the order of the items.
    """

    number: int
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    problems: tuple[ItemProblem, ...] = ()


def row_of(page: Page, changes: Iterable[ArtifactChange], held: Iterable[str]) -> dict[str, Any]:
    """Say what a partition adds, updates and finds unchanged, with versions; what else it keeps; and its problems."""
    puts = {change.entry.artifact_id: change.entry.version for change in changes}
    return {
        "added": {name: version for name, version in puts.items() if name not in page.known},
        "updated": {name: version for name, version in puts.items() if name in page.known},
        "unchanged": page.unchanged,
        "kept": sorted(name for name in held if name not in puts and name not in page.unchanged),
        "problems": [json_clean([each.item, each.reason, each.lost]) for each in page.problems],
    }


def report_of(number: int, row: Mapping[str, Any]) -> PartitionReport:
    """Give the report of the partition whose row this is."""
    counts = {verdict: len(row[verdict]) for verdict in ("added", "updated", "unchanged")}
    return PartitionReport(number, **counts, problems=tuple(_problems(row)))


@dataclass(slots=True)
class Tally:
    """What all partitions hold together; of an id that several give, the partition with the lowest number has it."""

    version_of: dict[str, str] = field(default_factory=dict)
    number_of: dict[str, int] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    problems: list[ItemProblem] = field(default_factory=list)
    doubles: list[ItemProblem] = field(default_factory=list)
    verdicts: dict[str, set[str]] = field(
        default_factory=lambda: {"added": set(), "updated": set(), "unchanged": set()}
    )

    @classmethod
    def of(cls, rows: Mapping[int, Mapping[str, Any]]) -> "Tally":
        """Read the rows, which come in the order of their numbers."""
        tally = cls()
        for number, row in rows.items():
            tally._add(number, row)
        return tally

    def _add(self, number: int, row: Mapping[str, Any]) -> None:
        self.problems.extend(_problems(row))
        self.kept.update(row["kept"])
        for verdict, names in self.verdicts.items():
            names.update(row[verdict])
        for name, version in chain.from_iterable(row[verdict].items() for verdict in self.verdicts):
            first = self.number_of.setdefault(name, number)
            self.version_of.setdefault(name, version)
            if first != number:
                problem = ItemProblem(name, f"is given by partition {number} as by partition {first}; ids must differ")
                self.doubles.append(problem)
                self.problems.append(problem)

    @property
    def held(self) -> set[str]:
        """Give all that must not be pruned."""
        return self.kept.union(self.number_of)

    @property
    def counts(self) -> dict[str, int]:
        """Count each artifact once: as added if any partition added it, else as updated if any updated it."""
        added, updated, unchanged = self.verdicts.values()
        return {
            "added": len(added),
            "updated": len(updated - added),
            "unchanged": len(unchanged - updated - added),
        }


def _problems(row: Mapping[str, Any]) -> Iterator[ItemProblem]:
    return (ItemProblem(item, reason, lost=lost) for item, reason, lost in row["problems"])

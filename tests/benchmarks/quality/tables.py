"""Tables of docs/quality.md: kept as JSON, and printed as Markdown.

A page has a place for each kind of table, between two comments. `write_page` fills all places.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.results import ROOT, commit, describe_machine, today

PAGE = ROOT / "docs" / "quality.md"
KEPT = Path(__file__).with_name("results.json")
_PLACE = re.compile(r"(?<=<!-- tables: )([a-z-]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Table:
    """A table: a title, the names of its columns, and its cells as they are printed.

    Args:
        title: What was measured, and on how many questions.
        head: The names of the columns.
        rows: The cells of each row.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]] = field(default_factory=list)

    def to_markdown(self) -> str:
        """Return the title and the table."""
        lines = [f"**{self.title}**", "", to_line(self.head), "|" + "---|" * len(self.head), *map(to_line, self.rows)]
        return "\n".join(lines)


def to_line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


@dataclass(frozen=True)
class Section:
    """The tables that one command prints.

    Args:
        name: The name of the command.
        tables: The tables.
        seconds: How long it took.
        date: The day of the measurement.
        commit: The commit that was measured, with `+` if files were changed since.
    """

    name: str
    tables: Sequence[Table]
    seconds: float
    date: str = field(default_factory=today)
    commit: str = field(default_factory=commit)

    def to_markdown(self) -> str:
        """Return what stands in the page."""
        took = f"Printed by `python -m tests.benchmarks.quality {self.name}` in {self.seconds:.0f} s"
        return "\n\n".join([f"{took}, on {self.date}, commit {self.commit}.", *(t.to_markdown() for t in self.tables)])


def keep(section: Section, path: Path) -> None:
    """Write a section into a file, in place of an older one."""
    sections = load(path) if path.exists() else {}
    sections[section.name] = section
    values = {"machine": describe_machine(), "sections": [asdict(each) for each in sections.values()]}
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path = KEPT) -> dict[str, Section]:
    """Return the sections of a file by name."""
    values: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    sections = [
        Section(**{**each, "tables": [Table(**table) for table in each["tables"]]}) for each in values["sections"]
    ]
    return {section.name: section for section in sections}


def fill_page(text: str, sections: Mapping[str, Section]) -> str:
    """Return a page with the sections in their places.

    Raises:
        ValueError: If the page has no place for a section, or no section for a place.
    """
    places = {match[1] for match in _PLACE.finditer(text)}
    if places != set(sections):
        raise ValueError(f"places and sections differ: {sorted(places ^ set(sections))}")
    return _PLACE.sub(lambda match: f"{match[1]}{match[2]}\n{sections[match[1]].to_markdown()}\n\n", text)


def write_page(path: Path = PAGE, kept: Path = KEPT) -> None:
    """Fill all places of a page with the kept sections."""
    path.write_text(fill_page(path.read_text(encoding="utf-8"), load(kept)), encoding="utf-8")


def show(value: float | None, digits: int = 3) -> str:
    """Return a number with a fixed number of digits, or `-` for `None`."""
    return "-" if value is None else f"{value:.{digits}f}"

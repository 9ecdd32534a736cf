"""The runs that a store in memory keeps rows of."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from airw.protocols import Run, RunRows

__all__ = ["RunBook"]


@dataclass(slots=True)
class _Begun:
    mark: str
    row: str
    parts: dict[int, str] = field(default_factory=dict)


class RunBook:
    """One run of each name, and the rows of its parts, as JSON text."""

    def __init__(self) -> None:
        self._runs: dict[str, _Begun] = {}

    def begin(self, run: Run, row: str) -> None:
        """Put a run in place of an earlier one of its name."""
        self._runs[run.name] = _Begun(run.mark, row)

    def holds(self, run: Run) -> bool:
        """Say whether a run was begun and neither replaced nor forgotten."""
        return run.name in self._runs and self._runs[run.name].mark == run.mark

    def read(self, run: Run, parts: Iterable[int] | None) -> RunRows:
        """Give the row of a run and those of its parts."""
        begun = self._runs[run.name]
        wanted = sorted(begun.parts if parts is None else begun.parts.keys() & {*parts})
        return RunRows(json.loads(begun.row), {part: json.loads(begun.parts[part]) for part in wanted})

    def keep(self, run: Run, part: int, row: str) -> None:
        """Keep a row for a part."""
        self._runs[run.name].parts[part] = row

    def forget(self, run: Run, parts: Iterable[int] | None) -> None:
        """Forget parts of a run, or all of it."""
        if parts is None:
            del self._runs[run.name]
        else:
            for part in parts:
                self._runs[run.name].parts.pop(part, None)

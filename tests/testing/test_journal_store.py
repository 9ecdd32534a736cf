"""A store that a third party could have written takes the exam, except for sharing.

It is a store in memory with a journal.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import anyio
import numpy as np
import pytest

from airw._base.json import json_clean
from airw.protocols import Change
from airw.stores import MemoryStore
from airw.testing import CAPABILITIES, StoreSuite
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record


class JournalStore(MemoryStore):
    """A store in memory with a journal.

    Every write is also a line of a file, and opening the store repeats them.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._turn = anyio.Path(path), anyio.Lock()

    async def __aenter__(self) -> Self:
        lines = (await self._path.read_text()).splitlines() if await self._path.exists() else []
        for values in map(json.loads, lines):
            await super().apply(Change(**{**values, "puts": [*map(_change, values["puts"])]}))
        return self

    async def apply(self, change: Change) -> None:
        """Write a change, and a line of the journal."""
        with anyio.CancelScope(shield=True):  # in memory and in the file, or in neither
            async with self._turn, await self._path.open("a") as file:
                await super().apply(change)
                await file.write(json.dumps(json_clean(asdict(change))) + "\n")


def _change(line: Mapping[str, Any]) -> ArtifactChange:
    records = [Record(**each) for each in line["records"]]
    links = [Link(**each) for each in line["extraction"]["links"]]
    extraction = Extraction(**{**line["extraction"], "links": links})
    return ArtifactChange(LedgerEntry(**line["entry"]), records, np.array(line["vectors"], np.float32), extraction)


@pytest.mark.slow
def test_a_journal_takes_the_whole_exam_of_a_store_of_one_process():
    suite = StoreSuite(lambda folder: JournalStore(folder / "log"), capabilities=CAPABILITIES - {"shared"})
    report = anyio.run(suite.run)
    head, *lines = str(report).splitlines()
    assert report.passed, str(report)
    assert re.fullmatch(r"store: \d+ passed, \d+ left out", head)
    assert "  passed    The content is still there after the store is closed and opened again." in lines
    left_out = [line for line in lines if line.strip().startswith("needs")]
    assert all("shared" in line for line in left_out)

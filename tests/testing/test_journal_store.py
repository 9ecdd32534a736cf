"""A store that a third party could have written takes the exam, except for sharing.

It is a store in memory with a journal. It does not read whole steps either.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import anyio
import numpy as np
import pytest

from airw._base.json import json_clean
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
        for method, arguments, options in map(json.loads, lines):
            values = [list(map(_change, arguments[0]))] if method == "apply" else arguments
            await getattr(super(), method)(*values, **options)
        return self

    async def apply(self, puts: Sequence[ArtifactChange], *, removals: Sequence[str] = ()) -> None:
        """Put and remove whole artifacts."""
        await self._write("apply", puts, removals=removals)

    async def set_config(self, config: Mapping[str, Any]) -> None:
        """Replace the settings."""
        await self._write("set_config", config)

    async def set_calibration(self, key: str, value: Mapping[str, Any]) -> None:
        """Replace one calibration."""
        await self._write("set_calibration", key, value)

    async def _write(self, method: str, *arguments: Any, **options: Any) -> None:
        with anyio.CancelScope(shield=True):  # in memory and in the file, or in neither
            async with self._turn, await self._path.open("a") as file:
                await getattr(super(), method)(*arguments, **options)
                plain = [[asdict(each) for each in arguments[0]]] if method == "apply" else arguments
                await file.write(json.dumps(json_clean([method, plain, options])) + "\n")


def _change(line: Mapping[str, Any]) -> ArtifactChange:
    records = [Record(**each) for each in line["records"]]
    links = [Link(**each) for each in line["extraction"]["links"]]
    extraction = Extraction(**{**line["extraction"], "links": links})
    return ArtifactChange(LedgerEntry(**line["entry"]), records, np.array(line["vectors"], np.float32), extraction)


@pytest.mark.slow
def test_a_journal_takes_the_whole_exam_of_a_store_of_one_process():
    offered = CAPABILITIES.keys() - {"shared", "steps"}
    suite = StoreSuite(lambda folder: JournalStore(folder / "log"), capabilities=offered)
    report = anyio.run(suite.run)
    head, *lines = str(report).splitlines()
    assert report.passed, str(report)
    assert re.fullmatch(r"store: \d+ passed, \d+ left out", head)
    promise = (
        "The content is still there after the store is closed and opened again (seen through the methods for links)."
    )
    assert f"  passed    {promise}" in lines
    left_out = [line for line in lines if line.strip().startswith("needs")]
    assert all("shared" in line or "read_step" in line for line in left_out)

"""Peak memory of builds of several sizes, each in its own process.

The source keeps nothing in memory.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio

from airw.corpora import build
from airw.sources import from_mapping

SIZES = {20_000: None, 40_000: 90, 50_000: None, 100_000: None}
"""The highest accepted peak in MB, by number of records."""


class Texts(Mapping):
    """`count` texts of 60 words, generated on demand."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self):
        return (str(number) for number in range(self._count))

    def __getitem__(self, key: str) -> str:
        return " ".join(f"word{int(key) * at % 20_011}" for at in range(1, 61))


async def build_one(count: int, folder: Path) -> None:
    async with build(from_mapping(Texts(count), name="many", embedder="light"), store=folder / "many.airw"):
        pass


def test_memory_of_builds(results):
    for size, goal in SIZES.items():
        done = subprocess.run([sys.executable, __file__, str(size)], check=True, capture_output=True, text=True)
        peak = float(done.stdout)
        results.amount("How much memory does a build need at most?", f"{size:,} records", [peak], goal=goal, unit="MB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        anyio.run(build_one, int(sys.argv[1]), Path(made))
    status = Path("/proc/self/status").read_text().splitlines()
    print(round(next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1000))

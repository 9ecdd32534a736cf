"""The numbers of several processes as one.

Each process writes its own to a folder, and the one that is asked adds them up.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_SUFFIX = ".prom"
_LONGEST_SILENCE = 10  # seconds after which a process counts as ended; each writes every second


def publish_metrics(folder: Path, text: str) -> None:
    """Write the numbers of this process to a folder, in place of those before.

    If the disk is full, the numbers stay as they were: a server does not stop for that.

    Args:
        folder: The folder of all processes.
        text: The numbers, as `Metrics.to_text` returns them.
    """
    file = folder / f"{os.getpid()}{_SUFFIX}"
    unfinished = file.with_suffix(".new")
    with suppress(OSError):
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)


def read_metrics(folder: Path) -> str:
    """Return the sum of all numbers in a folder.

    What processes counted that have ended stays, so that a counter never falls. What is open in them does not count.
    """
    files = sorted(folder.glob(f"*{_SUFFIX}"))
    newest = time.time() - _LONGEST_SILENCE
    return add_metrics([(file.read_text(encoding="utf-8"), file.stat().st_mtime >= newest) for file in files])


def add_metrics(texts: Iterable[tuple[str, bool]]) -> str:
    r"""Return the sum of several texts in the format of Prometheus.

    Args:
        texts: Each text, and whether its process still runs. Of one that has ended, gauges do not count.

    Example:
        >>> print(add_metrics([("# TYPE hits counter\nhits 2\n", True), ("# TYPE hits counter\nhits 3\n", False)]))
        # TYPE hits counter
        hits 5
        <BLANKLINE>
    """
    families: dict[str, tuple[list[str], dict[str, float]]] = {}
    for text, is_running in texts:
        heads: list[str] = []
        values: dict[str, float] = {}
        kind = ""
        for line in text.splitlines():
            if line.startswith("# "):
                _, word, name, rest = line.split(" ", 3)
                heads, values = families.setdefault(name, ([], {}))
                if line not in heads:
                    heads.append(line)
                kind = rest if word == "TYPE" else kind
                continue
            sample, _, value = line.rpartition(" ")
            counts = is_running or kind != "gauge"
            values[sample] = values.get(sample, 0) + (float(value) if counts else 0)
    return "".join(
        f"{line}\n"
        for heads, values in families.values()
        for line in (*heads, *(f"{sample} {value:.15g}" for sample, value in values.items()))
    )

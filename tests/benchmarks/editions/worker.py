"""A process that runs the rows of one program with one edition, whenever its parent asks.

Its argument is a plan as JSON, with the name of the program and the fields of `Setting`. It prints a line of JSON when
the rows are prepared, and one for each line of its input, which names a row and its turns.
"""

import gc
import hashlib
import json
import sys
import time
import traceback
from pathlib import Path

import anyio

import airw
from tests.benchmarks.editions.rows import PROGRAMS, Measured, Row, Setting


async def run_row(row: Row, turns: range) -> dict:
    """Return the figure of a turn, the mean of several, and a mark of each answer."""
    figures = []
    gc.collect()  # what earlier rounds left is not for this one to clear
    start = time.perf_counter()
    answers = [await row.run(turn) for turn in turns]
    seconds = (time.perf_counter() - start) / len(turns)
    for at, answer in enumerate(answers):
        if isinstance(answer, Measured):
            figures.append(answer.figure)
            answers[at] = answer.answer
    figure = sum(figures) / len(figures) if figures else seconds
    marks = [hashlib.sha256(repr(answer).encode()).hexdigest()[:12] for answer in answers]
    return {"figure": figure, "seconds": seconds, "marks": marks}


async def main(name: str, setting: Setting) -> None:
    """Prepare the rows, and run those that are asked for until the input ends."""
    async with PROGRAMS[name].prepare(setting) as rows:
        report(rows=[[row.name, row.unit] for row in rows], library=airw.__file__)
        for line in sys.stdin:
            request = json.loads(line)
            report(**await run_row(rows[request["row"]], range(*request["turns"])))


def report(**facts: object) -> None:
    """Print facts as a line of JSON."""
    print(json.dumps(facts), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    plan = json.loads(sys.argv[1])
    sys.stdout = sys.stderr  # whatever a library prints is no report
    try:
        anyio.run(main, plan["program"], Setting(plan["edition"], Path(plan["folder"]), plan["scale"]))
    except Exception as error:  # noqa: BLE001 - any error of an edition: the parent goes on with other programs
        traceback.print_exc()
        report(error=f"{type(error).__name__}: {error}")

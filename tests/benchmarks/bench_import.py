"""Time to import and to start, beyond the required libraries, beside `ir`."""

import os
import subprocess
import sys
import time
from functools import partial

from tests.benchmarks.results import run_in_turn

ROUNDS = 9
GOAL_MS = 20
IMPORTS = "How long do imports take, beyond `import anyio, numpy`?"
COMMANDS = "How long does a command take?"
STATEMENTS = (
    "import airw",
    "import airw.policies",
    "import airw.stores",
    "from airw import traverse",
    "from airw import open_corpus, search",
    "from airw import build, from_notes",
    "from airw import discover",
)


def run(*command: str) -> None:
    """Run Python once; it keeps compiled modules, as an installation does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment)


def measure(*command: str) -> float:
    """Return the seconds that a new process takes."""
    start = time.perf_counter()
    run(*command)
    return time.perf_counter() - start


def test_how_long_imports_take(results):
    statements = ["", *STATEMENTS]
    ways = {each: partial(measure, "-c", f"import anyio, numpy; {each}") for each in statements}
    for way in ways.values():
        way()
    rounds = run_in_turn(ways, rounds=ROUNDS)
    libraries = min(rounds[""])
    for each in STATEMENTS:
        beyond = [took - libraries for took in rounds[each]]
        results.amount(IMPORTS, f"`{each}`", beyond, goal=GOAL_MS if each == "import airw" else None, unit="ms")


def test_how_long_commands_take(results, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRW_HOME", str(tmp_path))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "keys.md").write_text("rotate the signing keys")
    run("-m", "airw", "build", str(tmp_path / "notes"), "--name", "notes", "--embedder", "light")
    for command in (["--help"], ["search", "notes", "keys"], ["traverse", "notes", "keys"]):
        run("-m", "airw", *command)
        ways = {"airw": partial(measure, "-m", "airw", *command), "import ir": partial(measure, "-c", "import ir")}
        rounds = run_in_turn(ways, rounds=ROUNDS)
        results.compare(COMMANDS, f"`airw {' '.join(command)}`", rounds, {"import ir": 1.0})

"""Time to import and to start, without the required libraries, compared with `ir`."""

import os
import subprocess
import sys
import time

RUNS = 10
GOAL_MS = 20


def fastest_ms(*command: str) -> float:
    """Return the time of the fastest of several new processes, in milliseconds."""

    def one() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        return (time.perf_counter() - start) * 1000

    one()
    return min(one() for _ in range(RUNS))


def test_how_long_imports_take():
    libraries = fastest_ms("-c", "import anyio, numpy")
    beside = fastest_ms("-c", "import ir")
    print(f"\n| statement | beyond `import anyio, numpy` (goal {GOAL_MS} ms) | of `import ir` |\n|---|---|---|")
    for statement in (
        "import airw",
        "import airw.policies",
        "import airw.stores",
        "from airw import traverse",
        "from airw import open_corpus, search",
        "from airw import build, from_notes",
        "from airw import discover",
    ):
        took = fastest_ms("-c", f"import anyio, numpy; {statement}")
        print(f"| `{statement}` | {took - libraries:.0f} ms | {took / beside:.2f} x |")


def test_how_long_commands_take(tmp_path):
    os.environ["AIRW_HOME"] = str(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "keys.md").write_text("rotate the signing keys")
    fastest_ms("-m", "airw", "build", str(tmp_path / "notes"), "--name", "notes", "--embedder", "light")
    empty, beside = fastest_ms("-c", "pass"), fastest_ms("-c", "import ir")
    print("\n| command | whole process | of `import ir` |\n|---|---|---|")
    for command in (["--help"], ["search", "notes", "keys"], ["traverse", "notes", "keys"]):
        took = fastest_ms("-m", "airw", *command)
        print(f"| `airw {' '.join(command)}` | {took:.0f} ms | {(took - empty) / (beside - empty):.2f} x |")

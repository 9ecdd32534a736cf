"""How long `import airw` takes beyond the start of the interpreter."""

import subprocess
import sys
import time

RUNS = 5
GOAL_MS = 150


def fastest_ms(statement: str) -> float:
    """The fastest of a few fresh interpreters, in milliseconds."""

    def one() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        return (time.perf_counter() - start) * 1000

    one()
    return min(one() for _ in range(RUNS))


def test_how_long_the_import_takes():
    interpreter = fastest_ms("pass")
    libraries = fastest_ms("import anyio, numpy") - interpreter
    total = fastest_ms("import airw") - interpreter
    print(f"\nimport airw: {total:.0f} ms, of which anyio and numpy {libraries:.0f} ms; the goal is {GOAL_MS} ms")

"""What a command loads: nothing that it does not use."""

import json
import subprocess
import sys

import pytest

from airw.cli import main

PROGRAM = """
import json, sys
before = {*sys.modules}
from airw.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps(sorted({*sys.modules} - before)))
"""


def loaded(*argv) -> list[str]:
    """The modules that a command loads in a fresh interpreter."""
    command = [sys.executable, "-c", PROGRAM, *argv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def of_others(modules) -> set[str]:
    """The packages among them that are neither airw nor of the standard library."""
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"airw"}


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["search", "--help"], ["link", "tree", "--help"]])
def test_help_needs_the_parser_alone(argv):
    modules = loaded(*argv)
    assert of_others(modules) == set()
    ours = [name for name in modules if name.partition(".")[0] == "airw"]
    assert len(ours) <= 9, ours
    assert {"dataclasses", "json", "pathlib", "sqlite3"}.isdisjoint(modules) or argv == ["--version"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "unused"),
    [
        (["search", "signing keys"], ["discovery", "evaluation", "policies", "views", "walking"]),
        (["ls"], ["discovery", "evaluation", "policies", "views", "walking"]),
        (["traverse", "signing keys"], ["discovery", "evaluation", "views"]),
        (["link", "list", "keys.md"], ["discovery", "evaluation"]),
        (["discover", "signing keys"], ["evaluation", "policies", "views"]),
    ],
)
def test_a_command_loads_the_libraries_of_a_corpus_and_no_package_that_it_does_not_use(tmp_path, argv, unused):
    """No HTTP, YAML, Markdown or drawing on terminals; the front door of a package is no more than its names."""
    (tmp_path / "keys.md").write_text("# Signing keys\n\nRotate them.\n", encoding="utf-8")
    assert main(["build", str(tmp_path), "--name", "notes", "--embedder", "light"]) == 0
    modules = loaded(*argv)
    assert of_others(modules) <= of_others(loaded_by_libraries())
    assert [name for name in modules if name.startswith(tuple(f"airw.{package}." for package in unused))] == []


def loaded_by_libraries() -> list[str]:
    """What the libraries load that every corpus needs."""
    code = "import json, sys, anyio, numpy, aiosqlite, anyio._backends._asyncio; print(json.dumps([*sys.modules]))"
    return json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

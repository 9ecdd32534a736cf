"""A command loads no module that it does not use."""

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


def modules_of(*argv) -> list[str]:
    """Return the modules that a command loads in a fresh interpreter."""
    command = [sys.executable, "-c", PROGRAM, *argv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def third_party_packages(modules) -> set[str]:
    """Return the packages among them that are neither airw nor in the standard library."""
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"airw"}


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["build", "--help"], ["ls", "--help"]])
def test_help_loads_only_the_parser(argv):
    modules = modules_of(*argv)
    assert third_party_packages(modules) == set()
    ours = [name for name in modules if name.partition(".")[0] == "airw"]
    # The parser is a module for each family of commands.
    assert all(name.startswith(("airw._base", "airw.cli")) for name in ours if name != "airw"), ours
    assert len(ours) <= 12, ours
    assert {"dataclasses", "json", "pathlib", "sqlite3"}.isdisjoint(modules) or argv == ["--version"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "unused"),
    [
        (["search", "signing keys"], ["discovery", "evaluation", "policies", "views", "walking"]),
        (["search", "notes", "keys"], ["discovery", "evaluation", "indexing", "policies", "sources", "views"]),
        (["ls"], ["discovery", "evaluation", "policies", "views", "walking"]),
        (["traverse", "signing keys"], ["discovery", "evaluation", "views"]),
        (["traverse", "notes", "keys"], ["discovery", "evaluation", "indexing", "sources", "views"]),
        (["link", "list", "keys.md"], ["discovery", "evaluation"]),
        (["discover", "signing keys"], ["evaluation", "policies", "views"]),
    ],
)
def test_a_command_loads_the_libraries_of_a_corpus_and_no_unused_package(tmp_path, argv, unused):
    """It loads no code for HTTP, YAML, Markdown or terminals.

    Importing a package loads only its names.
    """
    (tmp_path / "keys.md").write_text("# Signing keys\n\nRotate them.\n", encoding="utf-8")
    assert main(["build", str(tmp_path), "--name", "notes", "--embedder", "light"]) == 0
    modules = modules_of(*argv)
    assert third_party_packages(modules) <= third_party_packages(modules_of_libraries())
    assert [name for name in modules if name.startswith(tuple(f"airw.{package}." for package in unused))] == []


def modules_of_libraries() -> list[str]:
    """Return the modules that are loaded by the libraries that every corpus needs."""
    code = "import json, sys, anyio, numpy, anyio._backends._asyncio; print(json.dumps([*sys.modules]))"
    return json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

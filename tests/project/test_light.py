"""The modules that an import loads: only the front doors, until something is used."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = sorted(
    f"airw.{path.stem}"
    for path in (ROOT / "airw").iterdir()
    if not path.name.startswith("_") and path.name not in {"cli", "py.typed", "traversal.py"}  # one verb, not a room
)


def modules_after(statement: str) -> set[str]:
    """Return the modules that a statement loads in a new interpreter."""
    code = f"import json, sys; before = set(sys.modules); {statement}; print(json.dumps([*set(sys.modules) - before]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("room", ["airw", *ROOMS])
def test_importing_a_package_loads_no_other_part_and_no_library(room):
    loaded = modules_after(f"import {room}")
    assert {name for name in loaded if name.startswith("airw")} == {"airw", "airw._base", "airw._base.lazy", room}
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"airw"}


def packages_of(statement: str) -> set[str]:
    """Return the packages that a statement loads beyond their front door, and the libraries."""
    loaded = modules_after(statement)
    libraries = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names - {"airw"}
    return {name.split(".")[1] for name in loaded if name.count(".") > 1 and name.startswith("airw.")} | libraries


@pytest.mark.parametrize(
    ("name", "rooms"),
    [
        ("traverse", {"walking", "values"}),
        ("search", {"corpora", "retrieval", "reranking", "embedders", "stores", "protocols", "values"}),
        ("from_notes", {"sources", "indexing", "links", "protocols", "values"}),
    ],
)
def test_a_name_loads_only_the_packages_it_needs(name, rooms):
    """No SQLite, HTTP, YAML, Markdown, terminal or model is loaded before it is used."""
    loaded = packages_of(f"from airw import {name}")
    assert loaded - {"_base", "anyio", "sniffio", "idna", "numpy", "typing_extensions"} == rooms

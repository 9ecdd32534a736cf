"""What the linters, the type checker and the house rules say about the code: `make test` is the one gate."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import airw

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
MODULES = sorted((ROOT / "airw").rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LONGEST_FILE, LONGEST_FUNCTION = 600, 50

every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))


def run(*command) -> str:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.fail(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}", pytrace=False)
    return result.stdout


def loaded_by(statement: str) -> set[str]:
    """The top-level names of the modules that a statement loads in a fresh interpreter."""
    code = f"import json, sys; before = set(sys.modules); {statement}; print(json.dumps([*set(sys.modules) - before]))"
    return {name.partition(".")[0] for name in json.loads(run(sys.executable, "-c", code))}


def test_ruff_has_no_complaint():
    run(sys.executable, "-m", "ruff", "check", ".")


def test_the_code_is_formatted():
    run(sys.executable, "-m", "ruff", "format", "--check", ".")


def test_types_are_complete_and_right():
    run(sys.executable, "-m", "mypy")


def test_imports_go_down_the_layers():
    run(BIN / "lint-imports")


def test_import_airw_loads_only_anyio_and_numpy():
    """Sqlite, HTTP, YAML, Markdown, terminals and models are loaded where they are used."""
    loaded = loaded_by("import airw")
    allowed = loaded_by("import anyio.lowlevel, anyio.streams.memory, anyio.to_thread, numpy.typing")
    assert loaded - allowed - sys.stdlib_module_names == {"airw"}
    assert "sqlite3" not in loaded


def test_every_name_in_all_is_there_once():
    assert len(set(airw.__all__)) == len(airw.__all__)
    assert [name for name in airw.__all__ if not hasattr(airw, name)] == []


@every_module
def test_no_file_is_too_long(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@every_module
def test_no_function_is_too_long(path):
    """Counted without the docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, FUNCTIONS):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= LONGEST_FUNCTION, f"{path}:{node.lineno} {node.name} has {length} lines"


PACKAGES = [path for path in MODULES if path.name == "__init__.py" and not {"_base", "cli"} & {*path.parts}]
every_package = pytest.mark.parametrize("path", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))


def imported(nodes) -> dict[str, str]:
    """The names that import statements bring, each with its module."""
    assert all(isinstance(node, ast.ImportFrom) for node in nodes)
    return {alias.asname or alias.name: node.module for node in nodes for alias in node.names}


@every_package
def test_init_files_say_once_for_the_checker_and_once_for_python_where_names_are(path):
    """Nothing else stands in them, and no name is both a module's and that of something in the package."""
    package = ".".join(path.parent.relative_to(ROOT).parts)
    docstring, *nodes = ast.parse(path.read_text(encoding="utf-8")).body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(docstring.value, ast.Constant)
    if not nodes:
        return
    *imports, choice, listing = nodes
    assert set(imported(imports)) == {"TYPE_CHECKING", "lazy_names"}
    assert ast.unparse(choice.test) == "TYPE_CHECKING"
    checked = imported(choice.body)
    modules = {name for name, module in checked.items() if module == package}
    [assignment] = choice.orelse
    assert ast.unparse(assignment.targets[0]) == "(__getattr__, __dir__)"
    homes = ast.literal_eval(assignment.value.args[1])
    full = {home: home if home.startswith("airw.") else f"{package}.{home}" for home in homes}
    assert {name: full[home] for home, names in homes.items() for name in names} == {
        name: module for name, module in checked.items() if name not in modules
    }
    assert modules <= set(homes)
    assert sorted(ast.literal_eval(listing.value)) == sorted(set(checked) - modules)
    inside = {each.stem for each in path.parent.iterdir()}
    assert inside.isdisjoint(set(checked) - modules)


def public(body):
    for node in body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if not any(decorator.endswith((".setter", "overload", "override")) for decorator in decorators):
                yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


@every_module
def test_public_docstrings_start_with_one_sentence(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in [tree, *public(tree.body)]:
        where = f"{path}:{getattr(node, 'lineno', 1)} {getattr(node, 'name', '')}"
        docstring = ast.get_docstring(node)
        assert docstring, f"{where} has no docstring"
        first = docstring.splitlines()[0]
        assert first.endswith((".", "?", "!")), f"{where}: {first!r} is no sentence on one line"
        assert not re.search(r"[^.\s][.?!] [A-Z]", first), f"{where}: {first!r} is more than one sentence"

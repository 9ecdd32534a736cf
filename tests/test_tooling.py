"""What the linters, the type checker and the house rules say about the code: `make test` is the one gate."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import airw

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
MODULES = sorted((ROOT / "airw").rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LONGEST_FILE, LONGEST_FUNCTION = 400, 50

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


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.name == "__init__.py"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_init_files_hold_only_imports_and_all(path):
    docstring, *nodes = ast.parse(path.read_text(encoding="utf-8")).body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(docstring.value, ast.Constant)
    for node in nodes:
        if isinstance(node, ast.Assign):
            assert [ast.unparse(target) for target in node.targets] == ["__all__"]
            assert all(isinstance(name, str) for name in ast.literal_eval(node.value))
        else:
            assert isinstance(node, ast.Import | ast.ImportFrom), f"{path}:{node.lineno}"


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

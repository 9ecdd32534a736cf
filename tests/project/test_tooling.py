"""The checks of linters, type checkers and house rules: `make test` is the one gate."""

import ast
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from tests.support.syntax import FUNCTIONS, forget_trees, statements_of, tree_of

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
MODULES = sorted((ROOT / "airw").rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 700, 80

TESTS = sorted((ROOT / "tests").rglob("*.py"))
PACKAGES = [".".join(path.relative_to(ROOT).parts[:-1]) for path in MODULES if path.name == "__init__.py"]
every_package = pytest.mark.parametrize("name", PACKAGES)


@pytest.fixture(scope="module", autouse=True)
def _forget_trees():
    yield
    forget_trees()


def relative_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def run(*command) -> str:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.fail(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}", pytrace=False)
    return result.stdout


def libraries_of(statement: str) -> set[str]:
    """Return the top-level names of the modules that a statement loads in a new interpreter."""
    code = f"import json, sys; before = set(sys.modules); {statement}; print(json.dumps([*set(sys.modules) - before]))"
    return {name.partition(".")[0] for name in json.loads(run(sys.executable, "-c", code))}


def test_ruff_has_no_complaints():
    run(sys.executable, "-m", "ruff", "check", ".")


def test_the_code_is_formatted():
    run(sys.executable, "-m", "ruff", "format", "--check", ".")


def test_types_are_complete_and_correct():
    run(sys.executable, "-m", "mypy")


@pytest.mark.slow
def test_pyright_sees_the_public_names_as_mypy_does():
    run(BIN / "basedpyright")


@pytest.mark.slow
def test_each_public_name_has_one_known_type():
    """Whatever a type checker would have to guess may be guessed otherwise by the next one."""
    # This mode of pyright takes the Python that it finds in the path, whatever its options say.
    environment = os.environ | {"PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]), "PYTHONPATH": str(ROOT)}
    command = [BIN / "basedpyright", "--verifytypes", "airw", "--ignoreexternal", "--outputjson"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)["typeCompleteness"]
    assert Path(report["packageRootDirectory"]) == ROOT / "airw"
    exported = [symbol for symbol in report["symbols"] if symbol["isExported"]]
    assert len(exported) > 5_000
    faults = {symbol["name"] for symbol in exported if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]}
    assert sorted(faults) == []
    assert report["completenessScore"] == 1


def test_imports_go_down_the_layers():
    run(BIN / "lint-imports")


def test_import_airw_loads_only_anyio_and_numpy():
    """Sqlite, HTTP, YAML, Markdown, terminals and models are loaded when they are used."""
    loaded = libraries_of("import airw")
    allowed = libraries_of("import anyio.lowlevel, anyio.streams.memory, anyio.to_thread, numpy.typing")
    assert loaded - allowed - sys.stdlib_module_names == {"airw"}
    assert "sqlite3" not in loaded


@every_package
def test_every_name_in_all_exists_once(name):
    """No name is both a module and something else."""
    package = import_module(name)
    names = getattr(package, "__all__", [])
    assert len(set(names)) == len(names)
    assert [each for each in names if not hasattr(package, each)] == []
    modules = {each.name for each in iter_modules(package.__path__)}
    assert modules & {*names} == set()


def test_no_file_is_too_long():
    lengths = {relative_path(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def length_of(function) -> int:
    """Return the number of lines of its body, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_no_function_is_too_long():
    functions = [(path, node) for path in MODULES for node in statements_of(path) if isinstance(node, FUNCTIONS)]
    assert [f"{path}:{n.lineno} {n.name}" for path, n in functions if length_of(n) > LONGEST_FUNCTION] == []


def imports_of(path: Path) -> set[str]:
    """Return the modules that a file imports, and the names from them, with dots."""
    found = set()
    for node in statements_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno} is relative"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def home_of(name: str) -> str | None:
    """Return the package to which a name is private, if any; all may use `airw._base`."""
    parts = name.split(".")
    if parts[0] != "airw" or parts[1:2] == ["_base"]:
        return None
    return next((".".join(parts[:at]) for at, part in enumerate(parts) if part.startswith("_")), None)


def test_no_package_imports_private_names_of_another():
    """A private module is for its own package and those below, a private name for its module."""
    faults = []
    for path in MODULES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        homes = {name: home_of(name) for name in imports_of(path)}
        faults += [f"{module}: {n}" for n, home in homes.items() if home and not f"{module}.".startswith(f"{home}.")]
    assert faults == []


def test_only_tests_of_internals_import_private_names():
    """They are in folders named `internals`; all other tests use what users see."""
    paths = [path for path in TESTS if "internals" not in path.parts and any(map(home_of, imports_of(path)))]
    assert list(map(relative_path, paths)) == []


def test_tests_import_no_other_test_and_do_not_change_the_import_path():
    """Code shared by test files is in `tests/support`; whatever else they import is a command."""
    faults = []
    for path in set(TESTS) - {Path(__file__)}:
        others = {
            name
            for name in imports_of(path)
            if re.match(r"tests\.(?!support\.|golden\.|project\.mass|benchmarks\.(editions|results|quality)\.)", name)
        }
        touched = re.findall(r"sys\.path(?:\.insert|\.append|\.extend| \+?= ).*", path.read_text(encoding="utf-8"))
        faults += [f"{relative_path(path)}: {fault}" for fault in (*others, *touched)]
    assert faults == []


def test_every_folder_of_tests_mirrors_a_package():
    """Exceptions are tests of the whole project.

    A folder `internals` tests what is private to its package.
    """
    folders = {path.parent.relative_to(ROOT / "tests") for path in TESTS if path.name.startswith("test_")}
    mirrored = {Path(*(part for part in folder.parts if part != "internals")) for folder in folders} - {
        Path("golden"),
        Path("project"),
    }
    packages = {Path("_base" if folder == Path("base") else folder) for folder in mirrored}
    assert [str(package) for package in packages if not (ROOT / "airw" / package / "__init__.py").exists()] == []


def test_the_names_of_tests_are_the_same_in_every_process(request):
    """Otherwise pytest-xdist could not run them, and nobody could select them by name."""
    assert [item.nodeid for item in request.session.items if re.search(r" at 0x[0-9a-f]{6}", item.nodeid)] == []


def test_examples_are_drawn_by_tests_themselves():
    """The second run of the gate repeats the tests that pytest knows to draw examples."""
    functions = [(path, node) for path in TESTS for node in statements_of(path) if isinstance(node, FUNCTIONS)]
    hidden = {
        relative_path(path)
        for path, node in functions
        if any("given(" in ast.unparse(each) for each in node.decorator_list) and not node.name.startswith("test_")
    }
    # It is slow, and draws as many in each run.
    assert hidden == {"tests/serving/test_openapi_conformance.py"}


def public(body):
    for node in body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if not any(decorator.endswith((".setter", "overload", "override")) for decorator in decorators):
                yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def docstring_fault(node) -> str | None:
    docstring = ast.get_docstring(node)
    if not docstring:
        return "has no docstring"
    first = docstring.splitlines()[0]
    if not first.endswith((".", "?", "!")):
        return f"{first!r} is no sentence on one line"
    if re.search(r"[^.\s][.?!] [A-Z]", first):
        return f"{first!r} is more than one sentence"
    return None


def test_public_docstrings_start_with_one_sentence():
    faults = []
    for path in MODULES:
        nodes = [tree_of(path), *public(tree_of(path).body)]
        faults += [f"{path}:{getattr(node, 'lineno', 1)} {fault}" for node in nodes if (fault := docstring_fault(node))]
    assert faults == []

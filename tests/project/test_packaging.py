"""The wheel can be installed and used alone, and contains no data sets."""

import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command, **options) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    """A folder with the sdist, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist) -> Path:
    return next(dist.glob("*.whl"))


def test_the_wheel_contains_the_whole_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = [path.relative_to(ROOT) for path in (ROOT / "airw").rglob("*") if path.is_file()]
    assert names == {str(path) for path in files if path.parent.name != "__pycache__"}
    assert "airw/py.typed" in names


def test_an_index_accepts_both_packages(dist):
    """Twine checks that the README can be shown; `make dist` does the same."""
    if importlib.util.find_spec("twine") is None:
        pytest.skip("twine is not installed: make test installs it")
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(dist.iterdir()))


def test_the_sdist_contains_tests_and_docs_but_no_data(dist):
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"airw/py.typed", "tests/conftest.py", "README.md", "LICENSE", "Makefile", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith("examples/data")]


def test_the_installed_wheel_works_without_the_checkout(wheel, tmp_path):
    target, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel)
    env = os.environ | {"PYTHONPATH": str(target)}
    origin = run(sys.executable, "-c", "import airw; print(airw.__file__)", cwd=elsewhere, env=env).strip()
    assert Path(origin) == target / "airw" / "__init__.py"
    assert "airw" in run(sys.executable, "-m", "airw", "--help", cwd=elsewhere, env=env)


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """The Python of an environment with the wheel and no extra, and its variables."""
    folder = tmp_path_factory.mktemp("bare")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, env=env)
    return python, env | {"AIRW_HOME": str(folder / "home")}


def test_an_environment_with_nothing_else_builds_searches_and_walks(bare, tmp_path):
    python, env = bare
    (tmp_path / "keys.md").write_text("Rotate the signing keys. See [the vault](vault.md).", encoding="utf-8")
    (tmp_path / "vault.md").write_text("Where secrets are stored.", encoding="utf-8")
    run(python, "-m", "pip", "check", cwd=tmp_path, env=env)
    airw = (python.parent / "airw",)
    run(*airw, "build", tmp_path, "--name", "notes", "--embedder", "light", cwd=tmp_path, env=env)
    assert "keys.md" in run(*airw, "search", "notes", "signing keys", cwd=tmp_path, env=env)
    assert "vault.md" in run(*airw, "traverse", "notes", "signing keys", cwd=tmp_path, env=env)


PUBLIC_NAMES = """
import pkgutil, airw
from importlib import import_module
from airw.errors import ArgumentError
for info in pkgutil.iter_modules(airw.__path__, "airw."):
    if not info.name.startswith("airw._"):
        for name in getattr(import_module(info.name), "__all__", ()):
            try:
                getattr(import_module(info.name), name)
            except ArgumentError as error:
                print(error)
for name in ("langchain", "llama_index"):
    module = import_module(f"airw.integrations.{name}")
    try:
        [getattr(module, each) for each in module.__all__]
    except ArgumentError as error:
        print(error)
"""


def test_a_public_name_that_needs_an_extra_names_it(bare, tmp_path):
    python, env = bare
    printed = run(python, "-W", "error", "-c", PUBLIC_NAMES, cwd=tmp_path, env=env).splitlines()
    assert {*printed} == {
        "airw.mcp needs mcp: pip install 'airw[mcp]'",
        "airw.serving needs starlette: pip install 'airw[serve]'",
        "airw.integrations.langchain needs langchain_core: pip install 'airw[langchain]'",
        "airw.integrations.llama_index needs llama_index: pip install 'airw[llama-index]'",
    }

"""The wheel can be installed and used alone, and contains no data sets."""

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

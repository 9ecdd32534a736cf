"""Shared fixtures and rules of all tests: event loops, home, data folder, no silent skips.

- Async tests run on asyncio and on trio. Those of the packages in `PASSIVE` run on asyncio alone, as does a test with
  `@pytest.mark.asyncio_only` (also as a module's `pytestmark`): its trio variant is not collected.
- A quick run (`-m "not slow"`) is a sample: of the parameters of a test it tries each value, not each combination. It
  runs a test on one event loop: which one, the name of the test decides. In the packages in `SERVING`, it is asyncio.
- `AIRW_HOME` is a new path for each test; the folder does not exist yet.
- The `data` fixture is the folder in `AIRW_DATA`; if it is not set, the test is skipped.
- A test marked `pairwise` runs on some combinations of its parameters and the event loop: each two values of any two
  parameters occur together.
- Hypothesis draws a twentieth of the examples, or all with `--hypothesis-profile full`.
- Under `AIRW_REQUIRE_ALL=1` every skip is a failure that reports the reason of the skip.
- A second run takes what a first one has not shown with the options in `tests/support/passed_tests.py`.
"""

import gc
import importlib.util
import os
import re
import zlib
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.minilm import PACKAGE, find_minilm
from tests.support.pairwise import select_items, select_values

pytest_plugins = ["pytester", "tests.support.passed_tests"]

TESTS = Path(__file__).parent
# Their own code starts few tasks or none; what runs tasks for them is tested on both event loops in every run, and the
# golden rows have each policy and verb on both.
PASSIVE = {
    "chat",
    "embedders",
    "evaluation",
    "indexing",
    "links",
    "policies",
    "reranking",
    "retrieval",
    "sources",
    "tools",
    "views",
}

# What serves runs on asyncio, as uvicorn does. Exams have hundreds of cases, and each store has them on its own loops.
SERVING = {"mcp", "remote", "serving", "testing"}

SLOW_MODULE = re.compile(r"^pytestmark = .*\bpytest\.mark\.slow\b", re.MULTILINE)

# In CI the examples are the same each time. `tests/support/drawing.py` sets their number.
common = settings(deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True)
settings.register_profile("full", common, max_examples=100)
settings.register_profile("quick", common, max_examples=5)
settings.load_profile("quick")


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Run one process more than there are cores, as tests often wait for other processes."""
    cores = yield
    return cores + 1


def pytest_generate_tests(metafunc):
    if "anyio_backend" in metafunc.fixturenames:
        package = _package_of(metafunc.definition)
        asyncio_only = metafunc.definition.get_closest_marker("asyncio_only") or package in PASSIVE
        backends = ["asyncio"] if asyncio_only else ["asyncio", "trio"]
        if _is_quick(metafunc.config):
            chosen = 0 if package in SERVING else zlib.crc32(metafunc.definition.name.encode())
            backends = [backends[chosen % len(backends)]]
        metafunc.parametrize("anyio_backend", backends, indirect=True, scope="module")


@pytest.fixture(scope="module")
def anyio_backend(request) -> str:
    """The event loop that a test runs on: "asyncio" or "trio"."""
    return request.param


@pytest.fixture
def recorder(monkeypatch):
    """The spans that the SDK of OpenTelemetry records in a test."""
    from tests.support.spans import record_spans

    return record_spans(monkeypatch)


def pytest_ignore_collect(collection_path, config):
    """Do not import a module for a quick run that leaves out all its tests.

    Some of them import large libraries.
    """
    if _is_quick(config) and collection_path.suffix == ".py":
        return SLOW_MODULE.search(collection_path.read_text(encoding="utf-8")) is not None or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector):
    items = yield
    if not isinstance(items, list) or not items:
        return items
    if _is_quick(collector.config):  # a slow item, which does not run, must not stand for a value
        return select_values([item for item in items if not item.get_closest_marker("slow")])
    return select_items(items) if items[0].get_closest_marker("pairwise") else items


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect the tests and no garbage: the modules and tests live on."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "data" in getattr(item, "fixturenames", ()):
            item.add_marker("data")
        callspec = getattr(item, "callspec", None)
        if callspec is not None and callspec.params.get("anyio_backend") == "trio" and _package_of(item) in SERVING:
            item.add_marker("slow")


def _is_quick(config):
    return config.option.markexpr == "not slow"


def _package_of(item):
    return item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else None


def pytest_runtest_setup(item):
    if item.get_closest_marker("data") and not os.environ.get("AIRW_DATA"):
        pytest.skip("AIRW_DATA names no folder of data sets")


@pytest.fixture(scope="module", autouse=True)
def _collect_garbage():
    """Collect the garbage of a module at its end, with its warnings, and freeze the rest.

    Once torch is loaded, each full collection would take a tenth of a second.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder that holds the data sets, one folder each."""
    folder = Path(os.environ["AIRW_DATA"])
    if not folder.is_dir():
        pytest.fail(f"AIRW_DATA names {str(folder)!r}, which is no folder")
    return folder


@pytest.fixture(scope="session")
def minilm_folder():
    """The folder of all-MiniLM-L6-v2 in its package; the test is skipped if it cannot run."""
    for module in ("torch", "sentence_transformers", "onnx", "onnxruntime", "tokenizers"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    folder = find_minilm()
    if folder is None:
        pytest.skip(f"{PACKAGE}, which contains the weights, is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield folder


@pytest.fixture(scope="session")
def minilm_export(minilm_folder, tmp_path_factory) -> Path:
    """A folder with the model exported for onnxruntime and nothing else."""
    from tests.support.onnx_export import export_model

    folder = tmp_path_factory.mktemp("export") / "minilm"
    export_model(minilm_folder, folder)
    return folder


@pytest.fixture(scope="session")
def _homes(tmp_path_factory):
    base = tmp_path_factory.mktemp("homes")
    return (base / str(number) for number in count())


@pytest.fixture(autouse=True)
def home(_homes, monkeypatch) -> Path:
    """The home of this test, which does not exist yet, without settings of the developer."""
    for name in ("CHAT", "CORPUS", "FETCHERS", "MODEL_DIR", "PROJECTS", "ALLOWED_ORIGINS", "ALLOWED_FOLDERS"):
        monkeypatch.delenv(f"AIRW_{name}", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    folder = next(_homes)
    monkeypatch.setenv("AIRW_HOME", str(folder))
    return folder


@pytest.fixture
def error(capsys):
    """Run a command of `airw` that must fail, and return its one line."""

    from airw.cli import main

    def run(*argv):
        try:
            code = main(list(map(str, argv)))
        except SystemExit as exit:  # raised by the parser itself
            code = exit.code
        printed = capsys.readouterr()
        assert (code, printed.out, printed.err.count("\n")) == (2, "", 1)
        assert printed.err.startswith("airw: ")
        return printed.err

    return run


def _forbid_skip(report):
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("AIRW_REQUIRE_ALL") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"AIRW_REQUIRE_ALL=1 forbids skips: {str(reason).removeprefix('Skipped: ')}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    return _forbid_skip((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report():
    return _forbid_skip((yield))

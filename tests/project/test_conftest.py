"""The guarantees of `conftest.py` for all other tests."""

import os
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytestmark = pytest.mark.slow  # each test runs pytest in another process

ROOT = Path(__file__).parents[2]
SKIPS = """
import pytest

@pytest.fixture
def absent():
    pytest.skip("reason: fixture")

def test_fixture(absent): pass

@pytest.mark.skip(reason="reason: marker")
def test_marker(): pass

def test_call(): pytest.skip("reason: call")

def test_data(data): pass

@pytest.mark.xfail(strict=True)
def test_expected_failure(): assert 0
"""
SKIPPED_MODULE = 'import pytest; pytest.importorskip("no_such_module", reason="reason: module")'
BACKENDS = """
import pytest, sniffio

async def test_both(): pass

@pytest.mark.asyncio_only
async def test_one(): assert sniffio.current_async_library() == "asyncio"
"""
PAIRS = """
import pytest

@pytest.mark.pairwise
@pytest.mark.parametrize("number", [0, 0.0, False])
@pytest.mark.parametrize("text", "abc")
async def test_few(number, text): pass

@pytest.mark.parametrize("number", [0, 0.0, False])
@pytest.mark.parametrize("text", "abc")
async def test_all(number, text): pass

@pytest.mark.pairwise
@pytest.mark.parametrize(("number", "text"), [(1, "a"), (2, "b"), (1, "b")])
async def test_those_that_exist(number, text): pass
"""

AGAIN = """
import os
import pytest
from hypothesis import given, strategies as st

@given(st.integers())
def test_draws(number): pass

def test_data(data): pass

@pytest.mark.skipif("AIRW_DATA" not in os.environ, reason="reason: marker")
def test_skipped(): pass

@pytest.mark.xfail(strict=True)
def test_expected_failure(): assert 0

@pytest.fixture
def begin():
    assert "AIRW_DATA" in os.environ

@pytest.fixture
def end():
    yield
    assert "AIRW_DATA" in os.environ

def test_fails(): assert "AIRW_DATA" in os.environ

def test_fails_before(begin): pass

def test_fails_after(end): pass
"""
ONCE = """
import pytest

def test_plain(): pass

class TestPlain:
    @pytest.mark.parametrize("text", ["a", "[b]", "c\\nd", "e\\u2028f", "é"])
    def test_inner(self, text): pass

@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("text", "ab")
async def test_all(number, text): pass

@pytest.mark.slow
def test_slow(): pass
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Run pytest in a process, with this suite's conftest beside the given test modules."""
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    pytester.makepyprojecttoml(f"""
        [tool.pytest.ini_options]
        anyio_mode = "auto"
        markers = ["asyncio_only", "data", "pairwise", "slow"]
        pythonpath = ["{ROOT.as_posix()}"]
        """)
    monkeypatch.delenv("AIRW_DATA", raising=False)
    monkeypatch.delenv("AIRW_REQUIRE_ALL", raising=False)

    def run_tests(*arguments, **modules):
        pytester.makepyfile(**modules)
        return pytester.runpytest_subprocess("-ra", "-p", "no:cacheprovider", *arguments)

    return run_tests


def test_skips_are_skips_by_default(run):
    run(test_a=SKIPS, test_b=SKIPPED_MODULE).assert_outcomes(skipped=5, xfailed=1)


def test_every_skip_fails_with_its_reason_under_require_all(run, monkeypatch):
    monkeypatch.setenv("AIRW_REQUIRE_ALL", "1")
    result = run(test_a=SKIPS)
    result.assert_outcomes(failed=1, errors=3, xfailed=1)
    for reason in ("reason: fixture", "reason: marker", "reason: call", "AIRW_DATA names no folder"):
        result.stdout.fnmatch_lines([f"AIRW_REQUIRE_ALL=1 forbids skips: *{reason}*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_skipped_module_is_an_error_under_require_all(run, monkeypatch):
    monkeypatch.setenv("AIRW_REQUIRE_ALL", "1")
    result = run(test_b=SKIPPED_MODULE)
    result.stdout.fnmatch_lines(["*AIRW_REQUIRE_ALL=1 forbids skips: reason: module*"])
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_async_tests_run_on_both_loops_unless_marked_and_pairwise_ones_on_few_combinations(run):
    """The loop is one of the paired values."""
    result = run(test_a=BACKENDS, test_b=PAIRS)
    result.stdout.fnmatch_lines(["*test_a.py ... *", f"*test_b.py {'.' * (9 + 18 + 5)} *"])
    result.assert_outcomes(passed=3 + 9 + 18 + 5)


def test_a_quick_run_tries_each_value_and_each_row_but_not_each_combination_on_one_loop(run):
    result = run("-m", "not slow", "-v", test_b=PAIRS)
    result.assert_outcomes(passed=2 * (3 + 3 - 1) + 3)
    loops = re.findall(r"::(test_\w+)\[.*(asyncio|trio)", result.stdout.str())
    assert len(set(loops)) == 3
    assert {loop for _, loop in loops} == {"asyncio", "trio"}


def test_a_second_run_has_each_test_that_the_first_did_not_show_in_full(pytester, run, monkeypatch):
    """Whatever the reason for which the first run did not, no test is in neither."""

    def names_of(*options):
        result = run("-n", "2", "--junitxml=names.xml", *options, test_a=AGAIN, test_b=ONCE)
        assert result.ret in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        cases = ET.parse(pytester.path / "names.xml").iter("testcase")
        return [f"{case.get('classname')}.{case.get('name')}" for case in cases]

    quick = names_of("-m", "not slow", "--write-passed=passed")
    monkeypatch.setenv("AIRW_DATA", str(pytester.path))
    rest = names_of("--leave-out-passed=passed")
    assert {*quick, *rest} == {*names_of()}
    again = {name for name in quick if name.startswith("test_a.")}
    assert len(again) == 7
    assert {*quick} & {*rest} == again


def test_each_test_has_its_own_home_that_does_not_exist_yet(home, tmp_path):
    assert os.environ["AIRW_HOME"] == str(home)
    assert not home.exists()
    assert tmp_path not in home.parents

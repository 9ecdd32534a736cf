"""Two options of pytest, with which a second run takes what a first one has not shown.

`--write-passed=FILE` writes the names of the tests that passed. `--leave-out-passed=FILE` leaves these tests out. One
that draws examples runs again, as the profile of the second run may draw more. So does a test that was skipped or
failed in the first run, or was not part of it: only what the file names is left out.
"""

from pathlib import Path

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("airw")
    group.addoption("--write-passed", metavar="FILE", help="write the names of the tests that passed")
    group.addoption("--leave-out-passed", metavar="FILE", help="leave out tests that FILE names")


def pytest_configure(config):
    if config.option.write_passed and not hasattr(config, "workerinput"):  # xdist reports all in its first process
        config.pluginmanager.register(_Passed(Path(config.option.write_passed)))


class _Passed:
    """Write the names of the tests of which each phase passed."""

    def __init__(self, file):
        self.file = file
        self.passed, self.others = set(), set()

    def pytest_runtest_logreport(self, report):
        if not report.passed:
            self.others.add(report.nodeid)
        elif report.when == "teardown":  # the last phase
            self.passed.add(report.nodeid)

    def pytest_sessionfinish(self):
        self.file.write_text("".join(f"{name}\n" for name in sorted(self.passed - self.others)), encoding="utf-8")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if not config.option.leave_out_passed:
        return
    names = {*Path(config.option.leave_out_passed).read_text(encoding="utf-8").split("\n")}
    left_out = {item for item in items if item.nodeid in names and not item.get_closest_marker("hypothesis")}
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]

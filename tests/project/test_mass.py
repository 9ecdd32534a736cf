"""No room of the library grows: a reader has to hold all of it."""

from collections import Counter

import pytest

from tests.project.mass import AIRW, MEASURES, count_file, count_rooms, load_budgets

HOLDS = '''
"""A docstring counts as nothing."""
import os
from typing import Any

class _Reader(Protocol):  # noqa: N801
    def read(self, size: int) -> Any: ...

def _once(number): return number + 1

value = _once(2)  # a comment
name = "four"
'''


@pytest.fixture(scope="module")
def rooms():
    return count_rooms(AIRW)


@pytest.mark.slow
def test_each_room_keeps_its_budget(rooms):
    budgets = load_budgets()["rooms"]
    assert rooms.keys() == budgets.keys()
    above = {
        f"{room} {measure}": (counts[measure], budgets[room][measure])
        for room, counts in rooms.items()
        for measure in MEASURES
        if counts[measure] > budgets[room][measure]
    }
    assert above == {}


@pytest.mark.slow
def test_all_rooms_together_keep_the_total(rooms):
    """While a room is rewritten, it may hold the old and the new."""
    assert sum(rooms.values(), Counter())["nodes"] <= load_budgets()["total_nodes"]


def test_what_is_counted(tmp_path):
    file = tmp_path / "room.py"
    file.write_text(HOLDS, encoding="utf-8")
    counts = count_file(file).counts
    assert {measure: counts[measure] for measure in MEASURES if measure != "once"} == {
        "nodes": 25,
        "code": 7,
        "text": 4,
        "files": 1,
        "protocols": 1,
        "any": 2,
        "ignored": 1,
    }
    assert count_rooms(tmp_path)["room.py"]["once"] == 2


def test_a_file_that_is_not_python_counts_as_text(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "page.js").write_text("let a = 1", encoding="utf-8")
    assert count_rooms(tmp_path)["room"]["text"] == 9

"""The library answers what was written down: ids, order, scores, errors, names.

`tests/golden/write.py` says how rows are made, and when they may change.
"""

import pytest

from tests.golden.write import DATA, SECTIONS, differences, file_of, load, record, section

CASES = [(name, part, way) for name in SECTIONS for part in section(name).PARTS for way in section(name).WAYS]


def case(name, part, way):
    """Return a test case, slow unless `QUICK` has its way, or its part and way."""
    module = section(name)
    quick = getattr(module, "QUICK", module.WAYS[:1])
    quick = way in (quick[part] if isinstance(quick, dict) else quick)
    return pytest.param(name, part, way, marks=[] if quick else pytest.mark.slow, id=f"{name}-{part}-{way}")


@pytest.mark.parametrize(("name", "part", "way"), [case(*each) for each in CASES])
def test_the_answers_are_those_written_down(name, part, way, tmp_path):
    assert differences(load(name, part), record(name, part, way, tmp_path)) == []


def test_each_file_belongs_to_a_section():
    assert {file_of(name, part) for name, part, _ in CASES} == set(DATA.glob("*.json"))

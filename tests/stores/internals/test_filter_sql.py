"""A compiled filter keeps exactly the rows that `filters.matches` keeps."""

import math
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings, strategies as st

from airw.stores._changes import metadata_json
from airw.stores.sqlite._filter_sql import compile_field, compile_filter, register_functions
from airw.values.filters import And, Compare, Not, get_field, matches, parse_filter
from tests.support.drawing import examples
from tests.support.filters import COMPARISONS, EDGES, FILTERS, FINITE, METADATA, PATHS, STRINGS

pytestmark = pytest.mark.slow  # the exam of stores asks the same of whole stores


@pytest.fixture(scope="module")
def connection():
    with closing(sqlite3.connect(":memory:")) as connection:
        register_functions(connection)
        yield connection


def find_matches(connection, filter, rows):
    """Return the positions of the rows that the compiled filter keeps.

    Fail if its value is neither 0 nor 1 for a row.
    """
    sql, parameters = compile_filter(filter, "metadata")
    connection.execute("DROP TABLE IF EXISTS row")
    connection.execute("CREATE TABLE row (position INTEGER PRIMARY KEY, metadata TEXT)")
    connection.executemany("INSERT INTO row VALUES (?, ?)", list(enumerate(map(metadata_json, rows))))
    answers = connection.execute(f"SELECT {sql} FROM row ORDER BY position", parameters).fetchall()
    assert {value for (value,) in answers} <= {0, 1}
    return [position for position, (value,) in enumerate(answers) if value]


@given(filter=FILTERS, rows=st.lists(METADATA, min_size=1, max_size=4))
@settings(max_examples=examples(400))
def test_a_compiled_filter_equals_its_meaning(connection, filter, rows):
    assert find_matches(connection, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


@pytest.mark.parametrize("op", COMPARISONS)
def test_numbers_compare_to_the_last_bit(connection, op):
    """Every pair of edge numbers and their neighbours is compared.

    The operand is plain or in a list; values of other types are compared, too.
    """
    rows = [{"v": value} for value in [*EDGES, True, False, None, "1", [1], {"a": 1}]]
    for operand in [*EDGES, True, False]:
        for filter in (Compare("v", op, operand), Compare("v", "$in", [operand])):
            assert find_matches(connection, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


@given(operand=FINITE, op=st.sampled_from(COMPARISONS))
@settings(max_examples=examples(300))
def test_fractions_compare_to_the_last_bit(connection, operand, op):
    near = [operand, math.nextafter(operand, math.inf), math.nextafter(operand, -math.inf)]
    filter, rows = Compare("v", op, operand), [{"v": value} for value in near if math.isfinite(value)]
    assert find_matches(connection, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


@pytest.mark.parametrize("op", [*COMPARISONS, "$contains"])
def test_strings_compare_with_quotes_escapes_and_nul(connection, op):
    rows = [{"v": value} for text in STRINGS for value in (text, [text], ["x", text], {text: text})]
    for operand in STRINGS:
        for filter in (Compare("v", op, operand), Compare("v", "$in", [operand]), Compare("v", "$nin", [operand])):
            assert find_matches(connection, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


@given(path=PATHS, metadata=METADATA)
def test_a_field_is_read_as_get_field_reads_it(connection, path, metadata):
    sql, parameters = compile_field(path, "?")
    count = sql.count("?") - len(parameters)
    values = [metadata_json(metadata)]
    bound = [values[0], *parameters] if count == 1 else [values[0], parameters[0], values[0], parameters[1]]
    (text,) = connection.execute(f"SELECT {sql}", bound).fetchone()
    expected = metadata_json({"v": get_field(metadata, path)}) if text is not None else None
    assert expected == (None if text is None else f'{{"v":{text}}}')
    assert (text is None) == (not matches(Compare(path, "$exists", True), metadata))  # noqa: FBT003 - an operand


@pytest.mark.parametrize(
    "filter",
    [
        {"$or": [{"n": number} for number in range(3000)]},
        pytest.param({"n": {"$in": list(range(100_000))}}, marks=pytest.mark.slow),
        {"$and": [{"n": {"$lt": number + 10}} for number in range(2000)]},
    ],
    ids=["3,000 alternatives", "a list of 100,000", "2,000 conditions"],
)
def test_long_filters_work(connection, filter):
    parsed, rows = parse_filter(filter), [{"n": 5}, {"n": -1}, {"n": 5000}, {}]
    assert find_matches(connection, parsed, rows) == [at for at, row in enumerate(rows) if matches(parsed, row)]


def test_deeply_nested_filters_work(connection):
    nested = Compare("n", "$eq", 1)
    for _ in range(101):
        nested = Not(And((nested,)))
    assert find_matches(connection, nested, [{"n": 1}, {"n": 2}]) == [1]

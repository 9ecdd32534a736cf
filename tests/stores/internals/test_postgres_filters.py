"""A filter on a PostgreSQL server keeps exactly the rows that `filters.matches` keeps."""

import asyncio
import math

import pytest
from hypothesis import given, settings, strategies as st

from airw.stores._changes import metadata_json
from airw.stores.postgres._field_json import to_fields
from airw.stores.postgres._filter_sql import Parameters, compile_exists, compile_filter
from airw.values.filters import MISSING, And, Compare, Not, get_field, matches, parse_filter
from tests.support.drawing import examples
from tests.support.filters import COMPARISONS, EDGES, FILTERS, FINITE, METADATA, PATHS, SCALARS, STRINGS
from tests.support.postgres import server_dsn

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ask():
    """A function that evaluates a condition on rows in one statement."""
    asyncpg = pytest.importorskip("asyncpg")
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(server_dsn()))

        def ask(compile, rows):
            parameters = Parameters()
            texts = parameters.add([to_fields(metadata_json(row)) for row in rows], "jsonb[]")
            condition = compile("fields", parameters)
            query = f"SELECT {condition} FROM unnest({texts}) WITH ORDINALITY AS row (fields, place) ORDER BY place"
            answers = runner.run(connection.fetch(query, *parameters.values))
            assert {value for (value,) in answers} <= {True, False}
            return [position for position, (value,) in enumerate(answers) if value]

        yield ask
        runner.run(connection.close())


def find_matches(ask, filter, rows):
    """Return the positions of the rows that the compiled filter keeps.

    Fail if its value is NULL for a row.
    """
    return ask(lambda column, parameters: compile_filter(filter, column, parameters), rows)


@given(filter=FILTERS, rows=st.lists(METADATA, min_size=1, max_size=4))
@settings(max_examples=examples(400))
def test_a_compiled_filter_equals_its_meaning(ask, filter, rows):
    assert find_matches(ask, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


@pytest.mark.parametrize("op", COMPARISONS)
def test_numbers_compare_to_the_last_bit(ask, op):
    """Every pair of edge numbers and their neighbours is compared.

    The operand is plain or in a list; values of other types are compared, too.
    """
    rows = [{"v": value} for value in [*EDGES, True, False, None, "1", [1], {"a": 1}]]
    for operand in [*EDGES, True, False]:
        for filter in (Compare("v", op, operand), Compare("v", "$in", [operand])):
            assert find_matches(ask, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


@given(operand=FINITE, op=st.sampled_from(COMPARISONS))
@settings(max_examples=examples(300))
def test_fractions_compare_to_the_last_bit(ask, operand, op):
    near = [operand, math.nextafter(operand, math.inf), math.nextafter(operand, -math.inf)]
    filter, rows = Compare("v", op, operand), [{"v": value} for value in near if math.isfinite(value)]
    assert find_matches(ask, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


@pytest.mark.parametrize("op", [*COMPARISONS, "$contains"])
def test_strings_compare_with_quotes_escapes_and_nul(ask, op):
    rows = [{"v": value} for text in STRINGS for value in (text, [text], ["x", text], {text: text})]
    for operand in STRINGS:
        for filter in (Compare("v", op, operand), Compare("v", "$in", [operand]), Compare("v", "$nin", [operand])):
            assert find_matches(ask, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


@given(path=PATHS, values=st.lists(SCALARS, min_size=17, max_size=20), rows=st.lists(METADATA, min_size=1, max_size=4))
@settings(max_examples=examples(200))
def test_one_of_some_values_is_found_by_a_json_path(ask, path, values, rows):
    for op in ("$in", "$nin"):
        filter = Compare(path, op, values)
        assert find_matches(ask, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


CONTROLS = st.text(st.sampled_from("\0\1\2\3\4a\ue000\U00010000"), max_size=3)


@given(values=st.lists(CONTROLS, min_size=1, max_size=4), operand=CONTROLS)
@settings(max_examples=examples(200))
def test_control_characters_sort_and_are_contained_as_in_python(ask, values, operand):
    rows = [{"v": value} for value in values]
    for op in [*COMPARISONS, "$contains"]:
        filter = Compare("v", op, operand)
        assert find_matches(ask, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


@given(path=PATHS, rows=st.lists(METADATA, min_size=1, max_size=4))
@settings(max_examples=examples(200))
def test_fields_exist_as_get_field_reads_them(ask, path, rows):
    held = [get_field(row, path) for row in rows]
    assert ask(lambda column, parameters: compile_exists(path, column, parameters), rows) == [
        at for at, found in enumerate(held) if found is not MISSING
    ]


@pytest.mark.parametrize(
    "filter",
    [
        {"$or": [{"n": number} for number in range(5000)]},
        {"$and": [{f"n.{number}": {"$nin": [number, [number]]}} for number in range(5000)]},
        {"n": {"$in": list(range(999_999))}},
        {"$and": [{"n": {"$lt": number + 10}} for number in range(5000)]},
        {"$or": [{"a.b.c.d.e.f": {"$contains": str(number)}} for number in range(5000)]},
        {".".join("n" * 20_000): {"$exists": True}},
    ],
    ids=[
        *("5,000 alternatives", "5,000 dotted paths", "a list of 999,999", "5,000 conditions"),
        *("many parameters", "a long path"),
    ],
)
def test_large_filters_work(ask, filter):
    parsed, rows = parse_filter(filter), [{"n": 5}, {"n": -1}, {"n": 5000}, {"n": [7]}, {}]
    assert find_matches(ask, parsed, rows) == [at for at, row in enumerate(rows) if matches(parsed, row)]


@pytest.mark.parametrize("length", [2, 8, 9, 300])
def test_dotted_paths_of_any_length_pass_through_mappings_only(ask, length):
    keys = ["a", '"\\', "\0", "é", "0", "", "a[*]", "$"] * 50

    def nest(value, last=length):
        for key in reversed(keys[:last]):
            value = {key: value}
        return value

    rows = [
        nest(1),
        nest([1]),
        nest(2),
        nest({"x": 1}),
        nest([nest(1)], 1),
        nest([1], length - 1),
        {".".join(keys[:length]): 1},
    ]
    for op, operand in (("$eq", 1), ("$contains", 1), ("$exists", True), ("$in", [1, [2]]), ("$lt", 3)):
        filter = Compare(".".join(keys[:length]), op, operand)
        assert find_matches(ask, filter, rows) == [at for at, row in enumerate(rows) if matches(filter, row)]


def test_deeply_nested_filters_work(ask):
    nested = Compare("n", "$eq", 1)
    for _ in range(101):
        nested = Not(And((nested,)))
    assert find_matches(ask, nested, [{"n": 1}, {"n": 2}]) == [1]

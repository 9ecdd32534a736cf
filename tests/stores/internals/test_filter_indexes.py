"""Columns in memory find the records of a file that satisfy a filter.

The result is exactly that of `filters.matches`, whichever connection writes.
"""

import json
import sqlite3
import tempfile
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from enum import IntEnum
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.protocols import Change, Rank, ask
from airw.stores import MemoryStore, SqliteStore
from airw.stores._changes import metadata_json
from airw.stores._indexes import filter_columns as columns_module
from airw.stores._indexes.filter_columns import Column
from airw.stores.sqlite import _field_indexes, _writing
from airw.stores.sqlite._field_indexes import FilterIndex
from airw.stores.sqlite._schema import connect, transaction
from airw.stores.sqlite._writing import apply_change
from airw.testing.changes import put
from airw.values.filters import And, Compare, Not, Or, matches, parse_filter
from tests.support.drawing import examples
from tests.support.filters import EDGES, FILTERS, METADATA, STRINGS

pytestmark = pytest.mark.slow  # the exam of stores asks the same of whole stores

COMPARISONS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$contains"]
NESTED = [[], ["a"], ["a", "b"], [1], [True, "a"], [None], [["a"]], [{"k": 1}], {}, {"k": 1}, {"k": [1]}, {"k": 1.0}]
VALUES = [*EDGES, *STRINGS, None, True, False, 0.5, *NESTED]
NAMES = st.sampled_from("abcdef")


@pytest.fixture
def file(tmp_path):
    """A connection that writes to a file and another that reads it."""
    with ExitStack() as stack:
        path = tmp_path / "corpus.airw"
        yield (
            stack.enter_context(closing(connect(path, create=True, writable=True))),
            stack.enter_context(closing(connect(path))),
        )


def changes_of(rows):
    """Make an artifact for each name, with a record for each mapping of fields."""
    for name, fields in rows.items():
        change = put(name, *(f"{at}" for at in range(len(fields))), dim=2)
        records = zip(change.records, fields, strict=True)
        yield replace(change, records=[replace(record, metadata=metadata) for record, metadata in records])


def write(connection, rows, removals=()):
    apply_change(connection, Change([*changes_of(rows)], removals))


def number_artifacts(values):
    return {f"n{at:04}": [{"v": value}] for at, value in enumerate(values)}


def match_one_by_one(connection, filter):
    rows = connection.execute("SELECT rowid, metadata FROM record ORDER BY rowid")
    return [number for number, metadata in rows if matches(filter, json.loads(metadata))]


def match_by_index(connection, columns, filter):
    with transaction(connection):
        positions = columns.match(connection, filter)
    assert positions.dtype == np.int64
    return positions.tolist()


def check(connection, columns, *filters):
    for condition in filters:
        filter = parse_filter(condition)
        assert match_by_index(connection, columns, filter) == match_one_by_one(connection, filter)


def one_by_one(field, values):
    """Return one filter for each value."""
    return [{field: value} for value in values]


# Comparisons of a column


def test_every_value_compares_with_every_other_as_in_filters():
    column, rows = Column(), [{"v": value} for value in VALUES] + [{}]
    for half in (slice(25), slice(25, None)):
        column.add_texts([metadata_json({"v": row["v"]})[5:-1] if row else None for row in rows[half]])
        column.match("$gt", 0)
    for op, operand in product(COMPARISONS, VALUES):
        assert column.match(op, operand).tolist() == [matches(Compare("v", op, operand), row) for row in rows]


@pytest.mark.parametrize("op", ["$in", "$nin"])
@pytest.mark.parametrize(
    "operand",
    [[], [1], [True], [2**53 + 1, 0.5], ["a", None], [["a"]], [[]], [{"k": 1}], ["a", "a\0b", 1e22], VALUES],
    ids=repr,
)
def test_membership_of_every_value_is_that_of_filters(op, operand):
    column, rows = Column(), [{"v": value} for value in VALUES] + [{}]
    column.add_texts([metadata_json({"v": row["v"]})[5:-1] if row else None for row in rows])
    assert column.match(op, operand).tolist() == [matches(Compare("v", op, operand), row) for row in rows]


def test_thousands_of_numbers_and_dates_compare_to_the_last_bit():
    values = [2**53 + at for at in range(-300, 300)] + [float(2**53 + at) for at in range(-300, 300)]
    values += [f"20{at % 50:02}-{at % 12:02}" for at in range(500)]
    column = Column()
    column.add_texts([*map(json.dumps, values)])
    for operand in (2**53, 2**53 + 1, 2.0**53 + 2, -1, 10**400, "2012", "2012-05", ""):
        for op in ("$gt", "$gte", "$lt", "$lte", "$eq"):
            expected = [matches(Compare("v", op, operand), {"v": value}) for value in values]
            assert column.match(op, operand).tolist() == expected


# Allowed records

STEPS = st.tuples(st.dictionaries(NAMES, st.lists(METADATA, max_size=2), max_size=3), st.lists(NAMES, max_size=2))


@settings(max_examples=examples(40))
@given(
    st.lists(st.tuples(STEPS, st.lists(FILTERS, max_size=3)), min_size=1, max_size=4),
    FILTERS,
)
def test_the_allowed_records_satisfy_the_filter_after_any_writes_of_another_connection(steps, filter):
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path, columns = Path(folder) / "corpus.airw", FilterIndex()
        writer = stack.enter_context(closing(connect(path, create=True, writable=True)))
        reader = stack.enter_context(closing(connect(path)))
        for (puts, removals), filters in steps:
            write(writer, puts, removals)
            for each in (*filters, filter, *(Not(each) for each in (*filters, filter)), filter):
                assert match_by_index(reader, columns, each) == match_one_by_one(reader, each)


@pytest.mark.parametrize(
    "filter", [And(()), Or(()), Not(And(())), And((Or(()), And(())))], ids=["all", "none", "not all", "none of all"]
)
def test_a_filter_without_fields_allows_all_or_none(file, filter):
    writer, reader = file
    write(writer, number_artifacts(range(3)))
    columns = FilterIndex()
    for _ in range(2):
        assert match_by_index(reader, columns, filter) == match_one_by_one(reader, filter)


def test_an_empty_file_allows_nothing_until_records_are_written(file):
    writer, reader = file
    columns, filters = FilterIndex(), one_by_one("v", range(3))
    check(reader, columns, *filters)
    write(writer, number_artifacts([0, 1, 2]))
    check(reader, columns, *filters, {"v": {"$gt": 0}})
    write(writer, {}, removals=[*number_artifacts(range(3))])
    check(reader, columns, *filters, {"v": {"$gt": 0}})
    write(writer, number_artifacts([2]))
    check(reader, columns, *filters, {"v": {"$gt": 1}})


def test_a_filter_is_answered_from_the_snapshot_of_its_read(file):
    writer, reader = file
    write(writer, number_artifacts(range(5)))
    columns, filters = FilterIndex(), [parse_filter({"v": {"$gte": at}}) for at in range(4)]
    assert len(match_by_index(reader, columns, filters[0])) == 5
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM record").fetchone() == (5,)
    write(writer, {"new": [{"v": 9}]}, removals=["n0004"])
    assert [len(columns.match(reader, each)) for each in (filters[0], *filters[1:])] == [5, 4, 3, 2]
    reader.execute("COMMIT")
    check(reader, columns, *({"v": {"$gte": at}} for at in range(4)))


# Costs


@pytest.fixture
def row_counts(monkeypatch):
    """The number of rows that each call added to a column."""
    counts, add_texts = [], Column.add_texts

    def count_texts(column, texts):
        counts.append(len(texts))
        add_texts(column, texts)

    monkeypatch.setattr(Column, "add_texts", count_texts)
    return counts


def test_a_field_is_read_once_for_all_filters_and_fields_of_one_filter_in_one_pass(file, row_counts):
    writer, reader = file
    write(writer, {f"n{at:03}": [{"v": at, "w": -at}] for at in range(100)})
    columns, statements = FilterIndex(), []
    check(reader, columns, *one_by_one("v", range(20)))
    assert row_counts == [100]
    reader.set_trace_callback(statements.append)
    assert len(match_by_index(reader, FilterIndex(), parse_filter({"v": {"$gt": 1}, "w": {"$gt": -9}}))) == 7
    reader.set_trace_callback(None)
    assert len([each for each in statements if "metadata" in each]) == 1


def test_after_a_write_only_its_rows_are_read(file, row_counts):
    writer, reader = file
    write(writer, number_artifacts(range(100)))
    columns = FilterIndex()
    check(reader, columns, *one_by_one("v", range(3)))
    row_counts.clear()
    write(writer, {"n0001": [{"v": 2}], "more": [{"v": 2}]}, removals=["n0002"])
    check(reader, columns, {"v": {"$lte": 2}}, {"v": {"$gt": 2}})
    assert row_counts == [2]


def test_a_field_that_was_not_needed_for_a_while_is_brought_up_to_date(file, row_counts):
    writer, reader = file
    write(writer, {name: [{"v": at, "w": -at}] for at, name in enumerate("abcde")})
    columns = FilterIndex()
    check(reader, columns, *one_by_one("v", range(3)))
    write(writer, {"f": [{"v": 1, "w": 1}]}, removals=["b"])
    check(reader, columns, *one_by_one("w", range(3)))
    check(reader, columns, {"v": {"$gte": 1}}, {"v": {"$gte": 1}, "w": {"$lte": 0}})
    assert row_counts == [5, 5, 1]


def test_values_that_no_record_contains_any_more_are_forgotten(file, monkeypatch):
    monkeypatch.setattr(columns_module, "_MAX_UNUSED", 8)
    writer, reader = file
    columns = FilterIndex()
    for at in range(60):
        write(writer, {"a": [{"v": at}], "b": [{"v": "b"}]})
        check(reader, columns, {"v": {"$gte": at}})
        assert at == 0 or columns._table.columns["v"].value_count <= 12


def test_records_with_values_too_large_are_compared_one_by_one(file, monkeypatch):
    writer, reader = file
    write(writer, {name: [{"v": name * 200, "w": name}] for name in "abcdef"})
    monkeypatch.setattr(_field_indexes, "_MAX_COLUMN_BYTES", 3_000)
    columns = FilterIndex()
    for _ in range(2):
        check(reader, columns, *one_by_one("v", ["a" * 200, "b" * 200, "c"]), *one_by_one("w", "abc"))
        check(reader, columns, *({"v": {"$contains": "a"}, "w": each} for each in "ab"))
        write(writer, {"a": [{"v": "c", "w": "a"}]}, removals=["b"])
    assert "v" not in columns._table.columns
    assert len(columns._table.columns["w"]) == 5


def test_reading_a_field_stops_at_a_value_that_is_too_large(file, row_counts, monkeypatch):
    writer, reader = file
    write(writer, {f"n{at}": [{"v": f"{at}" * 100, "w": f"{at}" * 100}] for at in range(99)})
    monkeypatch.setattr(_field_indexes, "_BLOCK", 4)
    monkeypatch.setattr(_field_indexes, "_MAX_COLUMN_BYTES", 3_000)
    columns = FilterIndex()
    check(reader, columns, *one_by_one("v", "ab"))
    check(reader, columns, *one_by_one("w", "ab"))
    assert sum(row_counts) <= 2 * 8


def test_the_most_recently_used_columns_are_kept(file, monkeypatch):
    monkeypatch.setattr(_field_indexes, "_MAX_BYTES", 2_500)
    writer, reader = file
    write(writer, {f"n{at}": [{"v": at, "w": at, "x": at}] for at in range(9)})
    columns = FilterIndex()
    for field in "vwx":
        check(reader, columns, *({field: {"$lt": at}} for at in range(3)))
    assert [*columns._table.columns] == ["x"]
    check(reader, columns, *({field: {"$gte": at}} for at in range(9) for field in "vwx"))


def test_a_filter_of_more_fields_than_are_kept_is_answered(file):
    writer, reader = file
    write(writer, {name: [{f"f{at}": at for at in range(40)}] for name in "ab"})
    columns = FilterIndex()
    for value in range(3):
        check(reader, columns, {f"f{at}": {"$gte": value - at} for at in range(40)})
    assert len(columns._table.columns) == 32


@pytest.mark.parametrize(
    "filter",
    [
        {"$or": [{"n": number} for number in range(3000)]},
        {"n": {"$in": list(range(100_000))}},
        {"$and": [{f"n{number}": {"$exists": False}} for number in range(1, 2_500)]},
    ],
    ids=["3,000 alternatives", "a list of 100,000", "2,500 fields"],
)
def test_long_filters_work(file, filter):
    writer, reader = file
    write(writer, {"a": [{"n": 5}, {"n": -1}, {"n": 5000}, {}, {"n7": 1}]})
    check(reader, FilterIndex(), filter)


def test_deeply_nested_filters_work(file):
    writer, reader = file
    write(writer, number_artifacts(range(3)))
    nested = Compare("v", "$eq", 1)
    for _ in range(101):
        nested = Not(And((nested,)))
    assert match_by_index(reader, FilterIndex(), nested) == match_one_by_one(reader, nested)


# Collisions, missed writes and interruptions


def test_records_whose_ids_have_the_same_hash_are_distinguished(file, monkeypatch):
    monkeypatch.setattr(_field_indexes, "hash", lambda _: 7, raising=False)
    writer, reader = file
    write(writer, number_artifacts(range(9)))
    columns = FilterIndex()
    check(reader, columns, *one_by_one("v", range(3)))
    write(writer, {"n0001": [{"v": 2}]}, removals=["n0002"])
    check(reader, columns, *({"v": {"$gte": at}} for at in range(3)))


def test_writes_whose_tombstones_were_forgotten_are_read_again(file, monkeypatch):
    monkeypatch.setattr(_writing, "_MAX_TOMBSTONES", 2)
    writer, reader = file
    write(writer, number_artifacts(range(20)))
    columns = FilterIndex()
    check(reader, columns, *one_by_one("v", range(3)))
    for at in range(8):
        write(writer, {"more": [{"v": at}]}, removals=[f"n{at:04}"])
    check(reader, columns, {"v": 0}, *({"v": {"$gte": at}} for at in range(3)))


@pytest.mark.parametrize("step", [60, 70, 80])
def test_an_interrupted_answer_is_completed_by_the_next(file, monkeypatch, step):
    """Each answer is stopped later than the one before, until eight end by themselves.

    Another connection writes before each answer.
    """
    monkeypatch.setattr(_field_indexes, "_BLOCK", 4)
    writer, reader = file
    write(writer, {name: [{"v": at, "w": -at}] for at, name in enumerate("abcdefghijkl")})
    columns, stopped, answered = FilterIndex(), 0, 0
    while answered < 8:
        turn = stopped + answered + 1
        write(writer, {f"more{turn}": [{"v": turn, "w": -turn}]}, removals=[f"more{turn - 2}"])
        filter = parse_filter({"v": {"$gte": turn % 4, "$ne": -turn}, "w": {"$lte": turn % 3}})
        reader.set_progress_handler(lambda: True, step * turn)
        try:
            found = match_by_index(reader, columns, filter)
        except sqlite3.OperationalError:
            stopped += 1
        else:
            answered += 1
            reader.set_progress_handler(None, 0)
            assert found == match_one_by_one(reader, filter)
        finally:
            reader.set_progress_handler(None, 0)
    assert stopped


# In memory


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@contextmanager
def memory_store():
    store = MemoryStore()
    yield store
    store._close()


def list_numbers(content):
    return {record_id: int(content.index.number(None, [record_id], None)[0]) for record_id in content.by_id}


def check_memory(store, *filters):
    for condition in filters:
        filter = parse_filter(condition)
        content = store._content
        allowed = content.match(filter).tolist()
        assert [record_id for record_id, number in list_numbers(content).items() if number in allowed] == [
            record.id for record in content.by_id.values() if matches(filter, record.metadata)
        ]
        assert allowed == sorted(allowed)


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(STEPS, st.lists(FILTERS, max_size=3)), min_size=1, max_size=4))
def test_in_memory_the_allowed_records_satisfy_the_filter_after_any_writes(steps):
    with memory_store() as store:
        for (puts, removals), filters in steps:
            store._apply(Change([*changes_of(puts)], removals))
            check_memory(store, *filters, *(Not(each) for each in filters))
            content = store._content
            assert dict(content.texts._connection.execute("SELECT id, rowid FROM record")) == list_numbers(content)


def test_in_memory_only_rows_that_are_new_are_read(monkeypatch):
    found, code = [], Column._get_code

    def get_code(column, value):
        found.append(value)
        return code(column, value)

    monkeypatch.setattr(Column, "_get_code", get_code)
    with memory_store() as store:
        store._apply(Change([*changes_of(number_artifacts(range(50)))]))
        check_memory(store, *({"v": {"$gt": at}} for at in range(5)))
        assert found == [*range(50)]
        store._apply(Change([*changes_of({"n0001": [{"v": 7}], "more": [{"v": 8}]})], ["n0002"]))
        check_memory(store, {"v": {"$lt": 9}}, {"v": {"$lt": 10}})
        assert found == [*range(50), 7, 8]


def test_in_memory_nothing_piles_up_without_filters_or_with_values_that_never_return(monkeypatch):
    monkeypatch.setattr(columns_module, "_MAX_UNUSED", 8)
    with memory_store() as store:
        for at in range(40):
            store._apply(Change([*changes_of({"a": [{"v": at}]})]))
        assert store._content.filters._removed == []
        for at in range(40):
            store._apply(Change([*changes_of({"a": [{"v": at}]})]))
            check_memory(store, {"v": {"$gte": at}})
            assert store._content.filters._table.columns["v"].value_count <= 12


def test_in_memory_members_of_an_enumeration_compare_as_numbers():
    with memory_store() as store:
        store._apply(Change([*changes_of(number_artifacts([Level.LOW, Level.HIGH, 3, "x"]))]))
        for op in ("$gt", "$gte", "$lt", "$lte", "$eq", "$ne"):
            check_memory(store, *({"v": {op: value}} for value in (1, 2, Level.HIGH, 2.5)))


@pytest.mark.asyncio_only
async def test_a_search_with_a_new_filter_sees_the_writes_of_another_store(tmp_path):
    path = tmp_path / "corpus.airw"
    async with SqliteStore(path) as writer, SqliteStore(path) as reader:

        async def search_ids(filter):
            [ranking] = await ask(reader, Rank(np.ones((1, 4), np.float32), 99, filter=parse_filter(filter)))
            return sorted(ranking.artifact_ids)

        await writer.apply(Change([put(name, name, metadata={"n": at}) for at, name in enumerate("abcd")]))
        assert [await search_ids({"n": {"$gte": at}}) for at in range(3)] == [[*"abcd"], [*"bcd"], [*"cd"]]
        await writer.apply(Change([put("a", "new", metadata={"n": 9})], removals=["d"]))
        assert [await search_ids({"n": {"$gt": at}}) for at in range(3)] == [[*"abc"], ["a", "c"], ["a"]]
        assert await search_ids({"n": {"$gte": 1}}) == [*"abc"]

"""A field in SQL is read as `get_field` reads it."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given

from airw.stores._changes import metadata_json
from airw.stores.sqlite._field_sql import compile_field, register_functions
from airw.values.filters import Compare, get_field, matches
from tests.support.filters import METADATA, PATHS

pytestmark = pytest.mark.slow  # the exam of stores asks the same of whole stores


@pytest.fixture(scope="module")
def connection():
    with closing(sqlite3.connect(":memory:")) as connection:
        register_functions(connection)
        yield connection


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

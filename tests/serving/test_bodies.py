"""The bodies and query strings of requests: JSON within bounds, and nothing guessed."""

import json

import anyio
import pytest
from hypothesis import given, strategies as st

from airw.errors import ArgumentError
from airw.serving.bodies import BodyTooLarge, check_fields, parse_object, parse_query, read_body

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda items: st.lists(items, max_size=3) | st.dictionaries(st.text(), items, max_size=3),
    max_leaves=10,
)


def parse(body, max_nesting=60):
    return anyio.run(lambda: parse_object(body, max_nesting=max_nesting))


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_each_object_is_read_as_it_was_written(value):
    assert parse(json.dumps(value).encode()) == value


def test_no_body_is_an_empty_object():
    assert parse(b"") == {}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "must be a JSON object"),
        (b"{", "must be JSON"),
        (b'{"a": NaN}', "JSON, which has no NaN"),
        (b'{"a": 1e999}', "numbers such as 1e999"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "numbers of 5,000 digits"),
        (b'{"a": 1, "b": 2, "a": 3}', "'a' twice"),
        (b'{"a": {"b": 1, "b": 1}}', "'b' twice"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "at most 60 levels deep"),
        (b"[" * 200_000, "at most 60 levels deep"),
    ],
)
def test_what_is_no_bounded_object_is_refused(body, message):
    with pytest.raises(ArgumentError, match=message):
        parse(body)


async def test_no_more_than_one_piece_beyond_the_limit_is_read():
    read = []

    class Pieces:
        def __aiter__(self):
            return self

        async def __anext__(self):
            read.append(10)
            return b"x" * 10

    with pytest.raises(BodyTooLarge):
        await read_body(Pieces(), max_bytes=25)
    assert len(read) == 3


KINDS = {"name": str, "k": (int, type(None)), "alpha": float, "deep": bool, "ids": list, "filter": dict}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.text(),
            "k": st.integers(-(10**19), 10**19),
            "alpha": st.floats(allow_nan=False, allow_infinity=False),
            "deep": st.booleans(),
            "ids": st.lists(st.text(), min_size=1),
            "filter": st.dictionaries(st.text(), st.integers(), max_size=2),
        },
    )
)
def test_a_query_string_has_the_fields_that_a_body_would_have(fields):
    parameters = []
    for name, value in fields.items():
        if name == "ids":
            parameters += [(name, item) for item in value]
        else:
            parameters.append((name, value if isinstance(value, str) else json.dumps(value)))
    assert parse_query(parameters, KINDS, of="/test", max_nesting=9) == fields
    check_fields(fields, KINDS, of="/test")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([("k", "1"), ("k", "2")], "k must be there only once"),
        ([("k", "one")], "k must be a whole number, not 'one'"),
        ([("k", "9" * 400)], "k must be a whole number"),
        ([("alpha", "nan")], "must be"),
        ([("deep", "True")], "deep must be true or false"),
        ([("filter", "[1]")], "must be"),
        ([("filter", '{"a": ')], "filter must be an object in JSON, at most 2 levels deep"),
        ([("filter", '{"a": {"b": {"c": 1}}}')], "filter must be an object in JSON, at most 2 levels deep"),
        ([("path", "/etc")], "/test takes name, k, alpha, deep, ids, filter, not 'path'"),
    ],
)
def test_a_parameter_that_is_not_of_its_type_is_refused(parameters, message):
    with pytest.raises(ArgumentError, match=message):
        parse_query(parameters, KINDS, of="/test", max_nesting=2)

"""Filters compare numbers, dates, times and texts as Python does, in every store."""

import asyncio
import datetime
import operator
from contextlib import AsyncExitStack
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import adapt, build, discover, from_records, search
from airw._base.json import json_clean
from airw.protocols import Matching, Rank, ask
from airw.stores import MemoryStore, SqliteStore
from airw.values.filters import matches, parse_filter
from tests.support.drawing import examples
from tests.support.filters import EDGES
from tests.support.postgres import fresh_store
from tests.support.remote_corpora import use_remotely

ZONES = [datetime.timezone(datetime.timedelta(minutes=minutes)) for minutes in (0, 120, -210, 840)]
OLD_ZONE = datetime.timezone(datetime.timedelta(minutes=19, seconds=32))  # Amsterdam until 1937
DAY, TEN = datetime.date(2024, 1, 5), datetime.datetime(2024, 1, 5, 10)  # noqa: DTZ001 - without a zone
CLOCKS = [
    *(TEN, TEN.replace(microsecond=1), TEN.replace(microsecond=500_000), TEN.replace(second=1), TEN.replace(hour=0)),
    *(datetime.datetime.min, datetime.datetime.max, datetime.datetime(2024, 2, 29, 23, 59)),  # noqa: DTZ001, DTZ901
]
NUMBERS = [number for number in EDGES if abs(number) < 10**300] + [True, False]
DECIMALS = [Decimal(text) for text in ("0.1", "0.10", "9.99", "1", "100", "9007199254740993", "1E+22", "-0", "1E-7")]
MOMENTS = [clock.replace(tzinfo=zone) for clock in CLOCKS for zone in (*ZONES, OLD_ZONE)]
DAYS = [DAY, datetime.date(2024, 2, 29), datetime.date.min, datetime.date.max]
WORDS = ["", "a", "ab", "b", "é", "2024", "9.99", "true", "2024-01-05T25:00:00Z", "2023-02-29T00:00:00", "\0"]
SCALARS = [*NUMBERS, *DECIMALS, *MOMENTS, *CLOCKS, *DAYS, *WORDS, None]
LISTS = [[], [1], [TEN], [DAY, "a"], MOMENTS[:2], [MOMENTS[0], 0.1], [[MOMENTS[0]]], [{"at": MOMENTS[1]}]]
STORED = [*SCALARS, *LISTS, {"at": MOMENTS[0]}, {"at": [CLOCKS[0]]}]

ORDERS = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
KEY = np.ones((1, 512), np.float32)  # as wide as the vectors of the light embedder


def spell(moment):
    """Return other texts of a date with a time."""
    text = moment.isoformat()
    return [
        text,
        text.replace("T", " "),
        text.replace("T", "t"),
        text.replace("+00:00", "Z"),
        text.replace(":00+", "+"),
    ]


def mean(value):
    """Return what Python compares.

    A decimal is the number that JSON keeps, and a day its text.
    """
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime.datetime():
            return value
        case datetime.date():
            return value.isoformat()
        case list():
            return [*map(mean, value)]
        case dict():
            return {key: mean(item) for key, item in value.items()}
    return value


def compare(test, value, operand):
    """Return whether Python's comparison is true.

    Other pairs of texts compare as they are written, and lists never.
    """
    if isinstance(value, list) or isinstance(operand, list):
        return False
    value, operand = mean(value), mean(operand)
    texts = [each.isoformat() if isinstance(each, datetime.datetime) else each for each in (value, operand)]
    try:
        return bool(test(value, operand))
    except TypeError:
        return {*map(type, texts)} == {str} and bool(test(*texts))


def is_as_in_python(op, value, operand):
    """Return whether a condition is true of a value, by Python's own operators."""
    match op:
        case "$eq" | "$ne":
            return (mean(value) == mean(operand)) is (op == "$eq")
        case "$in" | "$nin":
            items, wanted = mean(value) if isinstance(value, list) else [mean(value)], mean(operand)
            return any(item in wanted for item in items) is (op == "$in")
        case "$contains":
            if isinstance(value, list):
                return mean(operand) in mean(value)
            texts = [each.isoformat() if isinstance(each, datetime.date) else each for each in (value, operand)]
            return {*map(type, texts)} == {str} and texts[1] in texts[0]
    return compare(ORDERS[op], value, operand)


TYPED = st.one_of(
    st.sampled_from(SCALARS),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([*ZONES, OLD_ZONE])),
    st.text("ab012-:TZ", max_size=4),
)
OPERANDS = TYPED | st.sampled_from(LISTS)
CONDITIONS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne", *ORDERS, "$contains"]), OPERANDS),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(TYPED | st.sampled_from(LISTS), max_size=4)),
)


@given(value=TYPED | st.sampled_from(STORED), condition=CONDITIONS)
@settings(max_examples=examples(1_000))
def test_a_condition_is_true_exactly_if_it_is_in_python(value, condition):
    op, operand = condition
    assert matches(parse_filter({"v": {op: operand}}), json_clean({"v": value})) is is_as_in_python(op, value, operand)


@pytest.mark.parametrize("moment", [*MOMENTS, *CLOCKS], ids=str)
def test_the_spelling_of_a_moment_does_not_matter(moment):
    for text in spell(moment):
        for filter in ({"v": moment}, {"v": {"$gte": moment, "$lte": moment}}, {"v": {"$in": [moment]}}):
            assert matches(parse_filter(filter), {"v": text}), (text, filter)
            assert not matches(parse_filter({"v": {"$lt": moment}}), {"v": text})
        assert matches(parse_filter({"v": {"$contains": moment}}), {"v": [text]})


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """A function that returns the positions of the values that a filter keeps.

    It asks corpora of every kind.
    """

    def records(start, end):
        rows = [{"id": f"{at:04}", "text": "key"} | {"v": value} for at, value in enumerate(STORED)]
        return from_records([*rows, {"id": "none", "text": "key"}][start:end], name=f"r{start}", embedder="light")

    def ids_of(hits):
        return [int(id) if (id := hit.artifact_id) != "none" else len(STORED) for hit in hits]

    async def open_all(stack):
        stores = {
            "memory": MemoryStore(),
            "file": await stack.enter_async_context(SqliteStore(tmp_path_factory.mktemp("filters") / "c.airw")),
            "postgres": await stack.enter_async_context(fresh_store()),
        }
        corpora = {
            name: await stack.enter_async_context(build(records(0, None), store=store))
            for name, store in stores.items()
        }
        ([corpora["served"]], _) = await stack.enter_async_context(use_remotely(corpora["memory"]))
        half = len(STORED) // 2
        halves = [
            await stack.enter_async_context(build(part, store=MemoryStore()))
            for part in (records(0, half), records(half, None))
        ]
        found = {hit.artifact_id: dict(hit.metadata) for hit in await search(corpora["memory"], "key", k=1_000)}
        functions = adapt(get=lambda ids: [{"text": "key", **found[id]} for id in ids], name="functions")
        await stack.enter_async_context(functions)

        async def by_function(filter):
            [ranking] = await ask(functions.store, Rank(KEY, None, filter=parse_filter(filter), among=[*found]))
            return [SimpleNamespace(artifact_id=id) for id in ranking.artifact_ids]

        def by_search(corpus):
            async def find(filter):
                return await search(corpus, "key", k=1_000, filter=filter, mode="lexical")

            return find

        async def by_both(filter):
            options = {"strategy": "top_k", "max_k": 1_000, "min_score": None, "dedup_by": None}
            return (await discover(halves, "key", k=1_000, mode="lexical", filter=filter, **options)).results

        return {name: by_search(corpus) for name, corpus in corpora.items()} | {
            "functions": by_function,
            "two": by_both,
        }

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        finders = runner.run(open_all(stack))

        async def ask_all(filter):
            return {name: sorted(ids_of(await find(filter))) for name, find in finders.items()}

        def find_all(filter):
            return runner.run(ask_all(filter))

        yield find_all
        runner.run(stack.aclose())


@pytest.mark.slow
@given(condition=CONDITIONS)
@settings(max_examples=examples(200))
def test_every_kind_of_store_keeps_what_python_keeps(homes, condition):
    op, operand = condition
    kept = [at for at, value in enumerate(STORED) if is_as_in_python(op, value, operand)]
    expected = kept + [len(STORED)] * (op in ("$ne", "$nin"))
    for name, found in homes({"v": {op: operand}}).items():
        assert found == expected, (name, [STORED[at] for at in {*found} ^ {*expected} if at < len(STORED)])


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_values_to_match_compare_as_in_filters(tmp_path):
    values = [value for value in STORED if value is not None]
    rows = [{"id": f"{at:04}", "text": "key", "v": value} for at, value in enumerate(values)]
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        for store in (MemoryStore(), await enter(SqliteStore(tmp_path / "c.airw")), await enter(fresh_store())):
            corpus = await enter(build(from_records(rows, name="r", embedder="light"), store=store))
            found = await ask(corpus.store, Matching([("v", value) for value in values]))
            for value, ids in zip(values, found, strict=True):
                either = [is_as_in_python("$eq", each, value) or _has(each, value) for each in values]
                assert ids == [f"{at:04}" for at, is_found in enumerate(either) if is_found], (type(store), value)


def _has(value, item):
    return isinstance(value, list) and is_as_in_python("$contains", value, item)

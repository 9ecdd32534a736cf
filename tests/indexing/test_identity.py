"""`identity` distinguishes objects that differ and is equal in every process.

A change that matters is never missed.
"""

import copy
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from airw.corpora import build
from airw.errors import ArgumentError
from airw.indexing import Chunked, identity
from airw.sources import from_mapping
from airw.stores import MemoryStore
from tests.support.identities import DIFFERENT, Hidden, Named, Pair, Renamed, Slotted, Strategy, adder, rings

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def test_objects_that_differ_have_different_names():
    names = [identity(thing) for thing in DIFFERENT]
    same = [
        (DIFFERENT[one], DIFFERENT[two]) for one, two in combinations(range(len(names)), 2) if names[one] == names[two]
    ]
    assert same == []


def test_a_name_is_short_and_printable_and_contains_the_name_of_the_object():
    assert all(identity(thing).isprintable() and len(identity(thing)) < 120 for thing in DIFFERENT)
    assert re.fullmatch(r"adder\.<locals>\.add-[0-9a-f]{16}", identity(adder(1)))
    assert re.fullmatch(r"Strategy-[0-9a-f]{16}", identity(Strategy(a=1)))


def test_an_object_with_an_id_is_named_by_it():
    assert identity(Chunked()) == Chunked().id
    assert identity(Named("one", junk=threading.Lock())) == "one"
    assert identity(Pair(Named("one", junk=1))) == identity(Pair(Named("one", junk=2)))


@given(JSON)
def test_equal_values_have_equal_names(value):
    again = json.loads(json.dumps(value))
    assert identity(again) == identity(value)
    assert identity(Pair(value, value)) == identity(Pair(value, again))
    assert identity(Strategy(a=value)) == identity(Strategy(a=again))
    assert identity(adder(value)) == identity(adder(again))


@given(st.lists(st.tuples(st.text(max_size=3), JSON), max_size=6, unique_by=lambda pair: pair[0]))
def test_the_order_of_keys_and_attributes_does_not_matter(pairs):
    backwards = dict(reversed(pairs))
    assert identity(dict(pairs)) == identity(backwards)
    assert identity({key for key, _ in pairs}) == identity(set(backwards))
    assert identity(Strategy(**dict(pairs))) == identity(Strategy(**backwards))


@pytest.mark.parametrize(
    "thing", [Pair([1, {2}]), Hidden(1, a=Slotted("x")), Strategy(_split=functools.partial(max, 1))]
)
def test_a_copy_is_named_the_same(thing):
    assert identity(copy.deepcopy(thing)) == identity(thing)


def test_the_place_of_a_function_in_its_file_does_not_matter():
    code = "def add(number, *others, times=2):\n    return [number * times for _ in others]\n"
    one, two, three = {}, {}, {}
    exec(compile(code, "one.py", "exec"), one)
    exec(compile(f"# moved\n\n{code}", "two.py", "exec"), two)
    exec(compile(code.replace("number * times", "times * number"), "one.py", "exec"), three)
    assert identity(one["add"]) == identity(two["add"]) != identity(three["add"])


def test_using_an_object_does_not_change_its_name():
    strategy = Strategy(path=pathlib.Path("a/b"), pattern=re.compile("a"), add=adder(1))
    before = strategy.id
    (
        hash(strategy.path),
        str(strategy.path),
        strategy.pattern.match("a"),
        [strategy.add(number) for number in range(1_000)],
    )
    assert strategy.id == before == strategy.id


def test_an_object_that_contains_itself_has_a_name():
    names = [identity(thing) for thing in rings()]
    assert names == [identity(thing) for thing in rings()]
    assert len(set(names)) == len(names)


def test_objects_that_are_shared_often_are_read_once():
    shared = []
    for _ in range(200):
        shared = [shared, shared]
    assert identity(shared)

    def tangle():
        def call(name):
            return [a, b, c, d, e, f, g, h, i, j][name]

        a, b, c, d, e, f, g, h, i, j = (functools.partial(call, number) for number in range(10))
        return call

    assert identity(tangle()) == identity(tangle())


def open_file():
    with Path(os.devnull).open() as file:
        return file


@pytest.mark.parametrize(
    "thing",
    [
        object(),
        (item for item in ()),
        open_file(),
        threading.Lock(),
        threading.local(),
        memoryview(b""),
        functools.partial(max, (item for item in ())),
        adder(threading.Lock()),
        Pair([{"deep": object()}]),
        Slotted(open_file()),
        Strategy(_lock=threading.RLock()),
        {object(): 1},
    ],
)
def test_an_object_without_stable_identity_is_an_error_that_asks_for_an_id(thing):
    with pytest.raises(
        ArgumentError, match="has no stable identity; add an `id` attribute to it or to the object"
    ) as caught:
        identity(thing)
    assert "\n" not in str(caught.value)


def test_an_object_that_nests_too_deeply_is_an_error():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ArgumentError, match="nested too deeply"):
        identity(deep)
    while deep:
        deep = deep.pop()


PRINT_NAMES = """
from airw.indexing import identity
from tests.support.identities import DIFFERENT, Strategy, rings

strings = {"one", "two", "three", ("a", "b"), frozenset({"c", "d"})}
for thing in [*DIFFERENT, *rings(), strings, Strategy(a=strings), lambda text: text in {"p", "q", "r"}]:
    print(ascii(identity(thing)))
"""


@pytest.mark.slow
def test_names_are_the_same_in_every_process():
    def print_names(seed):
        variables = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PRINT_NAMES]
        return subprocess.run(
            command, cwd=Path(__file__).parents[2], env=variables, check=True, capture_output=True, text=True
        ).stdout

    one, two = print_names("1"), print_names("2")
    assert one.count("\n") > len(DIFFERENT)
    assert one == two
    assert one.splitlines()[: len(DIFFERENT)] == [ascii(identity(thing)) for thing in DIFFERENT]


async def build_and_count(store, strategy):
    reports = []
    source = from_mapping({"a": "one two\nthree", "b": "four"}, name="texts", strategy=strategy)
    await build(source, store=store, embedder="light", progress=reports.append)
    return reports[-1].added, reports[-1].updated, reports[-1].unchanged


async def test_a_build_decomposes_again_exactly_if_a_setting_of_the_strategy_changed():
    store = MemoryStore()
    assert await build_and_count(store, Strategy(_split=lambda text: text.split())) == (2, 0, 0)
    assert await build_and_count(store, Strategy(_split=lambda text: text.split())) == (0, 0, 2)
    assert await build_and_count(store, Strategy(_split=lambda text: text.splitlines())) == (0, 2, 0)
    assert await build_and_count(store, Renamed(_split=lambda text: text.splitlines())) == (0, 2, 0)


async def test_the_same_is_true_for_a_strategy_with_slots():
    class Tight:
        __slots__ = ("_split",)
        id = property(identity)
        kind = "piece"
        decompose = Strategy.decompose

        def __init__(self, split):
            self._split = split

    store = MemoryStore()
    assert await build_and_count(store, Tight(adder_of_words(1))) == (2, 0, 0)
    assert await build_and_count(store, Tight(adder_of_words(1))) == (0, 0, 2)
    assert await build_and_count(store, Tight(adder_of_words(2))) == (0, 2, 0)


def adder_of_words(number):
    return lambda text: text.split() * number

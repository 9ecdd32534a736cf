"""Objects for tests of `identity`; a process with only the library can import them."""

import collections
import datetime
import decimal
import enum
import functools
import math
import operator
import pathlib
import re
import types
from dataclasses import dataclass

from airw.embedders import HashingEmbedder
from airw.indexing import Chunked, identity
from airw.values import IndexPlan, Surface


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Pair:
    left: object
    right: object = None


@dataclass(frozen=True, slots=True)
class Slotted:
    left: object


@dataclass(frozen=True, slots=True)
class SlottedChild(Slotted):
    right: object = None


class Hidden:
    __slots__ = ("__dict__", "__secret")

    def __init__(self, secret, **others):
        self.__secret = secret
        self.__dict__.update(others)


class Strategy:
    """A strategy of a user, with any attributes."""

    id = property(identity)
    kind = "piece"

    def __init__(self, **settings):
        self.__dict__.update(settings)

    def decompose(self, artifact):
        return IndexPlan({}, [Surface(artifact.id, self.kind, piece) for piece in self._split(artifact.raw)])


class Renamed(Strategy):
    kind = "part"


class Named:
    def __init__(self, id, junk=None):
        self.id = id
        self.junk = junk


class Shy(Strategy):
    """A strategy that leaves its function out when pickled, since a lambda cannot be pickled."""

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_split"}


def with_version(number):
    return type("Versioned", (Strategy,), {"version": number, "__module__": __name__})()


def with_mark(mark):
    def call():
        return None

    call.mark = mark
    return call


def adder(number, step=1):
    def add(other, *, times=step):
        return other + number * times

    return add


def strip_text(text):
    return text.strip()


def twin(text):
    return text.strip()


TWIN = types.FunctionType(twin.__code__, {}, "strip_text")

# All of these have different identities. The lambdas have the same name.
DIFFERENT = [
    *(None, True, 1, 1.0, 1j, "1", b"1", -1, 0.0, -0.0, math.nan, ..., "", 10**5000, "\ud800"),
    *([], (), {}, set(), frozenset(), [1], (1,), {1}, frozenset([1]), {1: 1}, {"1": 1}, [[1]], [1, 1], [1, [1]]),
    *({"a": 1, "b": 2}, {"a": 2, "b": 1}, ["a", "b"], ["b", "a"], ["ab"], ("a", ("b",)), ("a", "b")),
    *(len, max, operator.add, str, str.upper, "a".upper, "b".upper, re, math, int, list[int], Pair, range(3), range(4)),
    *(re.compile("a"), re.compile("a", re.IGNORECASE), pathlib.PurePosixPath("a"), pathlib.PurePosixPath("b")),
    *(Colour.RED, Colour.BLUE, decimal.Decimal(1), datetime.date(2026, 11, 21), bytearray(b"1")),
    *(collections.deque([1]), collections.defaultdict(int), collections.defaultdict(list), collections.Counter("a")),
    *(collections.defaultdict(int, a=1), collections.defaultdict(int, a=2), collections.OrderedDict(a=1)),
    *(collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)),
    *(types.MappingProxyType({1: 1}), types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    *(lambda text: text, lambda text: text + "a", lambda text: text + "b", lambda text: text.a, lambda text: text.b),
    *(lambda text, n=1: text, lambda text, n=2: text, lambda text, *, n=1: text, lambda text, *, n=2: text),
    *(lambda *text: text, lambda **text: text, lambda: [0 for _ in ""], lambda: [1 for _ in ""]),
    *(lambda: {1, 2}, lambda: (1, 2), lambda: (1, 2.0), adder(1), adder(2), adder(1, step=2), adder("1"), adder([1])),
    *(functools.partial(adder, 1), functools.partial(adder, 2), functools.partial(adder, step=1), adder),
    *(functools.lru_cache(adder), functools.lru_cache(adder(1)), functools.lru_cache(adder(2)), strip_text, twin, TWIN),
    *(Pair(1), Pair(2), Pair(1, 1), Pair(adder(1)), Pair(adder(2)), Slotted(1), Slotted(2), Slotted(adder(1))),
    *(SlottedChild(1), SlottedChild(2), SlottedChild(1, 1), Hidden(1), Hidden(2), Hidden(1, a=1), Hidden(1, a=2)),
    *(Strategy(), Renamed(), Strategy(_split=str.split), Strategy(_split=str.splitlines), Strategy(a=Strategy())),
    *(Shy(_split=str.split), Shy(_split=str.splitlines), with_version(1), with_version(2), with_mark(1), with_mark(2)),
    *(Pair(1).__init__, Pair(2).__init__, Pair(1).__eq__),
    *(Named("one"), Named("two"), Pair(Named("one")), Pair(Named("two")), Named(""), Named("", 1), Named(7), Named(8)),
    *(
        Chunked(),
        Chunked(chunk_size=900),
        HashingEmbedder(),
        HashingEmbedder(dim=64),
        Pair(Chunked()),
        Strategy(a=Chunked()),
    ),
]


def rings():
    """Return new objects that contain themselves."""
    ring = [1]
    ring.append(ring)
    twice, within = [], []
    twice += [[twice]]
    twice += [[twice[0]]]
    within += [[within]]
    apart = []
    apart += [[apart], within]
    pair = Strategy(a=1)
    pair.me = pair
    inner, outer = Strategy(n=1), Strategy(n=2)
    inner.other, outer.other = outer, inner

    def even(number):
        return number == 0 or odd(number - 1)

    def odd(number):
        return number != 0 and even(number - 1)

    def empty_cell():
        return later

    if not ring:
        later = None
    return [twice, apart, empty_cell, ring, pair, inner, outer, even, odd, {"a": ring, "b": [ring, ring]}, (even, odd)]

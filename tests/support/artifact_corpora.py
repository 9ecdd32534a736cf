"""Corpora of artifacts whose cosines can be had by hand, random ones with many ties, and walks of them."""

import math
from dataclasses import dataclass
from functools import partial
from random import Random

from hypothesis import strategies as st

from airw import build, embedder_from, from_mapping, traverse
from airw.links import extractor_from
from airw.stores import MemoryStore
from airw.values import IndexPlan, Surface

LINKS = extractor_from(lambda _, fields: fields["links"], id="links")


def angle(texts):
    """Embed a text that is a number x as the unit vector at the angle x * pi."""
    return [[math.cos(float(text) * math.pi), math.sin(float(text) * math.pi)] for text in texts]


def eighths(texts):
    """Embed eight whole numbers, whose squares add up to 64, so that every cosine is exact."""
    return [[int(number) / 8 for number in text.split()] for text in texts]


ANGLE = embedder_from(angle, id="angle", dim=2)
EIGHTHS = embedder_from(eighths, id="eighths", dim=8)


def cos(x):
    return math.cos(x * math.pi)


@dataclass(frozen=True)
class Texts:
    """One surface a text, a pair of text and fields of its own where it has some; all else is metadata."""

    id: str = "texts"

    def decompose(self, artifact):
        fields = {name: value for name, value in artifact.raw.items() if name != "texts"}
        pairs = [(text, {}) if isinstance(text, str) else text for text in artifact.raw["texts"]]
        return IndexPlan(fields, [Surface(artifact.id, "chunk", text, metadata=own) for text, own in pairs])


def item(*texts, to=(), links=None, **fields):
    return {"texts": list(texts), "links": {"REF": list(to)} if links is None else links, **fields}


def corpus_of(items, store=None, embedder=ANGLE, links=LINKS):
    source = from_mapping(items, name="test", strategy=Texts(), embedder=embedder, edge_extractor=links)
    return build(source, store=MemoryStore() if store is None else store)


async def walked(corpus, policy, query="0", **options):
    """Give the hits of a walk, and the walk."""
    async with traverse(query, corpus, policy=policy, **options) as walk:
        hits = [hit async for hit in walk]
    return hits, walk


def ids(hits):
    return [hit.artifact_id for hit in hits]


async def found(items, policy, query="0", **options):
    """Give the ids that a walk of a corpus finds."""
    async with corpus_of(items) as corpus:
        return ids((await walked(corpus, policy, query, **options))[0])


class Counting:
    """Notes the calls of a store or an embedder."""

    def __init__(self, counted):
        self._counted, self.calls = counted, []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self._counted, name)


# --- random graphs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Graph:
    """Linked artifacts, a query, and roots."""

    items: dict
    query: str
    roots: list

    def vector(self, id):
        """The vector of the best surface, the first of equals; zeros where there is none."""
        vectors = eighths(self.items[id]["texts"])
        return max(vectors, key=lambda vector: dot(vector, *eighths([self.query])), default=[0.0] * 8)

    def cosine(self, id):
        return dot(self.vector(id), *eighths([self.query])) if self.items[id]["texts"] else -math.inf

    def nearest(self, k, passes=lambda _: True):
        """What a search finds: ties by id."""
        able = [id for id, each in self.items.items() if each["texts"] and passes(id)]
        return sorted(able, key=lambda each: (-self.cosine(each), each))[:k]

    def start(self, k, passes=lambda _: True):
        """What a walk starts from: the nearest, then the roots."""
        return [id for id in dict.fromkeys([*self.nearest(k, passes), *self.roots]) if passes(id)]

    def behind(self, id):
        """The other ends of the links of one, by type, then by id."""
        links = self.items[id]["links"]
        return [end for kind in sorted(links) for end in sorted(set(links[kind])) if end != id]

    def passes(self, scope, name, id):
        """Whether an artifact passes a filter of a scope, which is one of `GROUPS`; a bare one has no fields."""
        filter, each = (scope or {}).get(name), self.items[id]
        return filter is None or not each["texts"] or each["group"] != filter["group"]["$ne"]


GROUPS = [{"group": {"$ne": group}} for group in range(4)]


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def vector_of(chance):
    """Draw eight whole numbers whose squares add up to 64, as text."""
    numbers, left = [], 64
    for room in range(7, 0, -1):
        numbers.append(chance.randint(-math.isqrt(left), math.isqrt(left)) // (1 if room < 4 else 2))
        left -= numbers[-1] ** 2
    last = math.isqrt(left)
    return vector_of(chance) if last**2 != left else " ".join(map(str, [*numbers, last]))


def graph_of(number, *, bare=True):
    """The random graph of a number; few different vectors, so that there are ties. `bare` ones have no surfaces."""
    chance = Random(number)
    names = [f"n{at:02}" for at in range(chance.choice([4, 8, 12, 16]))]
    palette = [vector_of(chance) for _ in range(chance.choice([2, 4, 8]))]
    degree = chance.choice([1, 2, 4])
    items = {
        name: item(
            *chance.choices(palette, k=chance.choice([0, 1, 1, 1, 1, 2] if bare else [1, 1, 1, 2])),
            links={kind: chance.choices(names, k=chance.randint(0, degree)) for kind in "xy"},
            group=chance.randrange(4),
            rank=chance.randrange(5),
            tags=chance.choices("abcde", k=chance.randint(0, 3)),
        )
        for name in names
    }
    return Graph(items, chance.choice([palette[0], vector_of(chance)]), chance.sample(names, chance.randint(0, 2)))


def graphs(**parts):
    return st.integers(0, 2**32).map(partial(graph_of, **parts))


# --- what walks of them are ------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Reached:
    """An artifact on its way through a walk; `late` is what was admitted after the first choice."""

    path: list
    late: bool = True

    @property
    def id(self):
        return self.path[-1]

    @property
    def depth(self):
        return len(self.path) - 1


def reference(graph, choose, *, start_k, adjacent_k, select_k, max_depth=None, max_traverse=None, scope=None):
    """Give what each step of a walk along links commits; `choose(pool, committed)` takes from what was admitted.

    `scope` is a mapping of the names of its filters to those in `GROUPS`.
    """

    def is_open(name):
        return graph.passes(scope, "cross", name) or graph.passes(scope, "keep", name)

    start = graph.start(start_k, lambda name: graph.passes(scope, "start", name) and is_open(name))
    pool = [Reached([name], late=False) for name in start]
    steps, committed = [], []
    while chosen := choose(pool, committed):
        steps.append(chosen)
        committed += chosen
        pool = [each for each in pool if each not in chosen]
        if select_k is not None and len(kept(graph, committed, scope)) >= select_k:
            break
        below = [each for each in chosen if each.depth != max_depth and graph.passes(scope, "cross", each.id)]
        if max_traverse is not None:
            below, max_traverse = below[:max_traverse], max_traverse - len(below[:max_traverse])
        fresh = [each for each in behind(graph, below, pool, committed) if is_open(each.id)]
        admitted = sorted(fresh, key=lambda each: -graph.cosine(each.id))[:adjacent_k]
        pool += [each for each in fresh if each in admitted]
    return steps


def behind(graph, chosen, pool, committed):
    """What is found for the first time; what waits, and is found again nearer, takes the shorter way."""
    waiting, visited, fresh = {each.id: each for each in pool}, {each.id for each in committed}, []
    for each in chosen:
        for end in graph.behind(each.id):
            if end not in visited and end not in waiting:
                waiting[end] = Reached([*each.path, end])
                fresh.append(waiting[end])
            elif end not in visited and each.depth + 1 < waiting[end].depth:
                waiting[end].path = [*each.path, end]
    return fresh


def kept(graph, committed, scope=None):
    """Those that are hits: with a surface, and to be kept."""
    return [each for each in committed if graph.items[each.id]["texts"] and graph.passes(scope, "keep", each.id)]

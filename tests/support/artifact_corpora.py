"""Corpora with exact cosines, random graphs with ties, and reference walks."""

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
    """A strategy with one surface per text, or per pair of text and metadata.

    All other fields are filter fields.
    """

    id: str = "texts"

    def decompose(self, artifact):
        fields = {name: value for name, value in artifact.raw.items() if name != "texts"}
        pairs = [(text, {}) if isinstance(text, str) else text for text in artifact.raw["texts"]]
        return IndexPlan(fields, [Surface(artifact.id, "chunk", text, metadata=metadata) for text, metadata in pairs])


def item(*texts, to=(), links=None, **fields):
    return {"texts": list(texts), "links": {"REF": list(to)} if links is None else links, **fields}


def corpus_of(items, store=None, embedder=ANGLE, links=LINKS):
    source = from_mapping(items, name="test", strategy=Texts(), embedder=embedder, edge_extractor=links)
    return build(source, store=MemoryStore() if store is None else store)


async def walk_all(corpus, policy, query="0", **options):
    """Run a walk; return its hits and the walk."""
    async with traverse(query, corpus, policy=policy, **options) as walk:
        hits = [hit async for hit in walk]
    return hits, walk


def ids(hits):
    return [hit.artifact_id for hit in hits]


async def find_ids(items, policy, query="0", **options):
    """Build a corpus and return the ids of the hits of a walk."""
    async with corpus_of(items) as corpus:
        return ids((await walk_all(corpus, policy, query, **options))[0])


class Counting:
    """Records the names of the methods that are used of a store or an embedder."""

    def __init__(self, counted):
        self._counted, self.calls = counted, []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self._counted, name)


# --- random graphs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Graph:
    """Linked artifacts with a query and root ids."""

    items: dict
    query: str
    roots: list

    def vector(self, id):
        """Return the vector of the best surface, zeros if there is no surface."""
        vectors = eighths(self.items[id]["texts"])
        return max(vectors, key=lambda vector: dot(vector, *eighths([self.query])), default=[0.0] * 8)

    def cosine(self, id):
        return dot(self.vector(id), *eighths([self.query])) if self.items[id]["texts"] else -math.inf

    def nearest(self, k, passes=lambda _: True):
        """Return the ids that a search returns, best first, ties by id."""
        searchable = [id for id, fields in self.items.items() if fields["texts"] and passes(id)]
        return sorted(searchable, key=lambda name: (-self.cosine(name), name))[:k]

    def start(self, k, passes=lambda _: True):
        """Return the seeds of a walk: the nearest ids, then the roots."""
        return [id for id in dict.fromkeys([*self.nearest(k, passes), *self.roots]) if passes(id)]

    def behind(self, id):
        """Return the targets of the links of an artifact, by type, then by id."""
        links = self.items[id]["links"]
        return [end for kind in sorted(links) for end in sorted(set(links[kind])) if end != id]

    def passes(self, scope, name, id):
        """Return whether an artifact passes a filter of a scope (one of `GROUPS`).

        An artifact without surfaces has no filter fields, so it passes.
        """
        filter, fields = (scope or {}).get(name), self.items[id]
        return filter is None or not fields["texts"] or fields["group"] != filter["group"]["$ne"]


GROUPS = [{"group": {"$ne": group}} for group in range(4)]


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def vector_of(chance):
    """Return eight random whole numbers, as text, whose squares add up to 64."""
    numbers, left = [], 64
    for room in range(7, 0, -1):
        numbers.append(chance.randint(-math.isqrt(left), math.isqrt(left)) // (1 if room < 4 else 2))
        left -= numbers[-1] ** 2
    last = math.isqrt(left)
    return vector_of(chance) if last**2 != left else " ".join(map(str, [*numbers, last]))


def graph_of(number, *, bare=True):
    """Return the random graph with a number.

    It has few different vectors, so that there are ties. With `bare`, some artifacts have no surfaces.
    """
    chance = Random(number)
    names = [f"n{number:02}" for number in range(chance.choice([4, 8, 12, 16]))]
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


# --- the walks that policies must reproduce ---------------------------------------------------------------------------


@dataclass(eq=False)
class Reached:
    """A node of a reference walk with its path; `late` is false for seeds."""

    path: list
    late: bool = True

    @property
    def id(self):
        return self.path[-1]

    @property
    def depth(self):
        return len(self.path) - 1


def reference(graph, choose, *, start_k, adjacent_k, select_k, max_depth=None, max_traverse=None, scope=None):
    """Return the nodes that each step of a walk along links commits.

    `choose(pool, committed)` returns the nodes of the frontier to commit. `scope` maps names of filters to filters in
    `GROUPS`.
    """

    def is_open(name):
        return graph.passes(scope, "cross", name) or graph.passes(scope, "keep", name)

    start = graph.start(start_k, lambda name: graph.passes(scope, "start", name) and is_open(name))
    pool = [Reached([name], late=False) for name in start]
    steps, committed = [], []
    while chosen := choose(pool, committed):
        steps.append(chosen)
        committed += chosen
        pool = [node for node in pool if node not in chosen]
        if select_k is not None and len(nodes_to_keep(graph, committed, scope)) >= select_k:
            break
        expandable = [node for node in chosen if node.depth != max_depth and graph.passes(scope, "cross", node.id)]
        if max_traverse is not None:
            expandable = expandable[:max_traverse]
            max_traverse -= len(expandable)
        new = [node for node in behind(graph, expandable, pool, committed) if is_open(node.id)]
        admitted = sorted(new, key=lambda node: -graph.cosine(node.id))[:adjacent_k]
        pool += [node for node in new if node in admitted]
    return steps


def behind(graph, chosen, pool, committed):
    """Return the new neighbours of nodes; frontier nodes keep the shorter path."""
    frontier, visited, new = {node.id: node for node in pool}, {node.id for node in committed}, []
    for node in chosen:
        for end in graph.behind(node.id):
            if end not in visited and end not in frontier:
                frontier[end] = Reached([*node.path, end])
                new.append(frontier[end])
            elif end not in visited and node.depth + 1 < frontier[end].depth:
                frontier[end].path = [*node.path, end]
    return new


def nodes_to_keep(graph, committed, scope=None):
    """Return the committed nodes that have a surface and pass the filter `keep`."""
    return [node for node in committed if graph.items[node.id]["texts"] and graph.passes(scope, "keep", node.id)]

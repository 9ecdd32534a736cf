"""Custom strategies that both packages can run, and their walks over small graphs."""

from dataclasses import dataclass, field, make_dataclass
from functools import cache

from airw import traverse
from airw.policies import Strategy
from tests.support.graph_retriever_oracle import QUERY, corpus_of, weight

LINKS = [("links", "$id")]


# --- bodies for the `Strategy` of either package ---------------------------------------------------------------------


class Everything:
    def iteration(self, nodes, tracker):
        tracker.select_and_traverse(nodes)


class SelectsOnly:
    """Selects but does not expand, so the walk ends after the first step."""

    def iteration(self, nodes, tracker):
        tracker.select(nodes)


class Routes:
    """Expands all nodes, selects some of them."""

    def iteration(self, nodes, tracker):
        tracker.select([node for node in nodes if node.metadata["lang"] == "a"])
        tracker.traverse(nodes)


class RoutesFirst:
    """Selects all nodes except the seeds."""

    def iteration(self, nodes, tracker):
        tracker.select([node for node in nodes if node.depth])
        tracker.traverse(nodes)


@dataclass(kw_only=True)
class Forgets:
    """Takes the heaviest nodes of each step and drops the others."""

    width: int = 2

    def iteration(self, nodes, tracker):
        tracker.select_and_traverse(sorted(nodes, key=weight, reverse=True)[: self.width])


@dataclass(kw_only=True)
class KeepsHeap:
    """Takes the heaviest of all nodes so far until one is expanded; stores its weight."""

    heap: list = field(default_factory=list)

    def iteration(self, nodes, tracker):
        self.heap = sorted([*self.heap, *nodes], key=weight)
        while self.heap and tracker.num_remaining > 0:
            node = self.heap.pop()
            node.extra_metadata["_weight"] = weight(node)
            if tracker.select_and_traverse([node]):
                break


@dataclass(kw_only=True)
class GivesUp:
    """Takes one node per step, oldest first, and expands it only if it is heavy enough."""

    waiting: list = field(default_factory=list)

    def iteration(self, nodes, tracker):
        self.waiting += nodes
        chosen = [self.waiting.pop(0)] if self.waiting else []
        tracker.select(chosen)
        tracker.traverse([node for node in chosen if weight(node) > -1])


class Reorders:
    """Ranks the lightest node first and drops the heaviest."""

    def iteration(self, nodes, tracker):
        tracker.select_and_traverse(nodes)

    def finalize_nodes(self, selected):
        return super().finalize_nodes(sorted(selected, key=weight)[:-1])


@dataclass(kw_only=True)
class Tires:
    """Stops expanding after some steps but continues to select."""

    steps: int = 0

    def iteration(self, nodes, tracker):
        self.steps += 1
        tracker.select(nodes)
        if self.steps < 3:
            tracker.traverse(nodes)


BODIES = [Everything, SelectsOnly, Routes, RoutesFirst, Forgets, KeepsHeap, GivesUp, Reorders, Tires]


@cache
def strategy_class(body, base=Strategy):
    """Return the class of a strategy with this body, for the package of `base`."""
    return make_dataclass(body.__name__, [], bases=(body, base), kw_only=True)


def line_of(**links):
    """Return a graph of artifacts, best first; the weight is the position."""
    count = len(links)
    vectors = {id: [1.0, at / count] for at, id in enumerate(links)} | {QUERY: [1.0, 0.0]}
    return {id: {"links": list(ends), "weight": at} for at, (id, ends) in enumerate(links.items())}, vectors


LINE = line_of(a="bc", b="d", c="e", d="f", e="", f="")


async def walk_of(policy, graph=LINE, **options):
    """Walk to the end; return the walk and its hits."""
    async with corpus_of(*graph) as corpus, traverse(QUERY, corpus, policy=policy, **options) as walk:
        hits = [hit async for hit in walk]
    return walk, hits


def ids(hits):
    return "".join(hit.artifact_id for hit in hits)


def strategy_from(iteration, **options):
    """Return a strategy made of a function; it has one seed and no limit of selected nodes."""
    kind = type("Made", (Strategy,), {"iteration": iteration})
    return kind(**{"edges": LINKS, "start_k": 1, "select_k": None, **options})

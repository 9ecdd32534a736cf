"""Federated corpora: parts of one graph, opened together."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import Random

from airw import FederatedCorpus, build, from_mapping
from airw.stores import MemoryStore
from tests.support.artifact_corpora import EIGHTHS, LINKS, Graph, Texts, graph_of

NAMES = ["zoo", "art", "mid"]  # not in alphabetical order


def part(items, name="test", store=None, embedder=EIGHTHS):
    source = from_mapping(items, name=name, strategy=Texts(), embedder=embedder, edge_extractor=LINKS)
    return build(source, store=MemoryStore() if store is None else store)


class Federation:
    """Opens corpora in memory, made of items by name, as one federated corpus."""

    def __init__(self, parts, **options):
        self._parts, self._options, self._stack = parts, options, AsyncExitStack()

    async def __aenter__(self):
        await self._stack.__aenter__()
        builds = [part(items, name, **self._options) for name, items in self._parts.items()]
        return FederatedCorpus([await self._stack.enter_async_context(build) for build in builds])

    async def __aexit__(self, *exc_info):
        await self._stack.aclose()


@dataclass(frozen=True)
class Split:
    """A graph as a whole and in parts; a part has consecutive ids of the whole."""

    graph: Graph
    parts: dict
    home: dict

    @property
    def roots(self):
        return [self.pair(id) for id in self.graph.roots]

    def pair(self, id):
        return self.home[id], id


def split_of(number):
    chance, graph = Random(number), graph_of(number)
    for fields in graph.items.values():
        fields |= {"mentions": chance.sample(sorted(graph.items), 2), "value": 20 * fields["rank"]}
    cuts = sorted(chance.choices(range(len(graph.items) + 1), k=chance.choice([1, 2])))
    home = {id: NAMES[sum(cut <= position for cut in cuts)] for position, id in enumerate(sorted(graph.items))}

    def spell(end, id):
        # A pair may name its own corpus, but not its own artifact: a store does not notice such a self-link.
        is_far = home[end] != home[id] or (end != id and chance.random() < 0.2)
        return [home[end], end] if is_far else end

    nowhere = [["mid", "none"], ["elsewhere", "n00"], "none"]
    parts = {name: {} for name in NAMES[: len(cuts) + 1]}
    for id, fields in graph.items.items():
        links = {kind: [spell(end, id) for end in ends] for kind, ends in fields["links"].items()}
        links["y"] = links["y"] + chance.sample(nowhere, chance.choice([0, 0, 1]))
        parts[home[id]][id] = fields | {"links": links, "mentions": [spell(end, id) for end in fields["mentions"]]}
    return Split(graph, parts, home)

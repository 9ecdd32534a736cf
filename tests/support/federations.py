"""Corpora that are the parts of one graph, and corpora opened together."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import Random

from airw import FederatedCorpus, build, from_mapping
from airw.stores import MemoryStore
from tests.support.artifact_corpora import EIGHTHS, LINKS, Graph, Texts, graph_of

NAMES = ["zoo", "art", "mid"]  # in no alphabetical order


def part(items, name="test", store=None, embedder=EIGHTHS):
    source = from_mapping(items, name=name, strategy=Texts(), embedder=embedder, edge_extractor=LINKS)
    return build(source, store=MemoryStore() if store is None else store)


class Federation:
    """Corpora in memory, made of items by name, and opened together."""

    def __init__(self, parts, **options):
        self._parts, self._options, self._stack = parts, options, AsyncExitStack()

    async def __aenter__(self):
        await self._stack.__aenter__()
        made = [part(items, name, **self._options) for name, items in self._parts.items()]
        return FederatedCorpus([await self._stack.enter_async_context(each) for each in made])

    async def __aexit__(self, *exc_info):
        await self._stack.aclose()


@dataclass(frozen=True)
class Split:
    """A graph, and the same in parts: ids that follow each other in the whole do so in the parts too."""

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
    for each in graph.items.values():
        each |= {"mentions": chance.sample(sorted(graph.items), 2), "value": 20 * each["rank"]}
    cuts = sorted(chance.choices(range(len(graph.items) + 1), k=chance.choice([1, 2])))
    home = {id: NAMES[sum(cut <= at for cut in cuts)] for at, id in enumerate(sorted(graph.items))}

    def said(end, id):
        # A pair may also name its own corpus, but not its own artifact: a store cannot tell that this is a self-link.
        is_far = home[end] != home[id] or (end != id and chance.random() < 0.2)
        return [home[end], end] if is_far else end

    nowhere = [["mid", "none"], ["elsewhere", "n00"], "none"]
    parts = {name: {} for name in NAMES[: len(cuts) + 1]}
    for id, each in graph.items.items():
        here = home[id]
        links = {kind: [said(end, id) for end in ends] for kind, ends in each["links"].items()}
        links["y"] = links["y"] + chance.sample(nowhere, chance.choice([0, 0, 1]))
        parts[here][id] = each | {"links": links, "mentions": [said(end, id) for end in each["mentions"]]}
    return Split(graph, parts, home)

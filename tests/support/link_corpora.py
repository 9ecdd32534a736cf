"""Corpora of linked notes, as files and as random graphs, and walks of them read as trees and as lines."""

from collections import Counter
from dataclasses import dataclass, field

import anyio
from hypothesis import strategies as st

from airw import build, embedder_from, from_mapping, from_notes
from airw.embedders import HashingEmbedder
from airw.stores import MemoryStore
from airw.values import Extraction, IndexPlan, Link, Surface
from airw.views import TreeTextWriter, read_tree, walk_links

FLAT = embedder_from(lambda texts: [[1.0] for _ in texts], id="flat", dim=1)
TYPES = ("related", "supports", "supported-by", "part-of", "cites")
BACKENDS = ("asyncio", "trio")


def note(*links, title=None, body="", **fields):
    """A markdown note; a link is a name, or a type and a name."""
    pairs = [("related", link) if isinstance(link, str) else link for link in links]
    said = {**({} if title is None else {"title": title}), **fields}
    lines = [f"{name}: {value}" for name, value in said.items()]
    lines += ["links:", *(f"  - {{id: {name}, type: {type}}}" for type, name in pairs)] if pairs else []
    return "\n".join(["---", *lines, "---", body, ""])


def vault(folder, notes):
    """A corpus of markdown files, by their paths without `.md`."""
    for name, text in notes.items():
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return build(from_notes(folder, name="vault", embedder=HashingEmbedder()), store=MemoryStore())


@dataclass(frozen=True)
class Graph:
    """Nodes 0 to `size - 1`, edges `(source, target, type, origin)`, and which nodes have no surface."""

    size: int
    edges: tuple
    routers: frozenset = frozenset()
    values: tuple = ()

    @property
    def ids(self):
        return [name_of(at) for at in range(self.size)]


def name_of(at):
    return f"n{at}"


@dataclass(frozen=True)
class _Nodes:
    """One surface each, but for routers."""

    id: str = "nodes"

    def decompose(self, artifact):
        surfaces = [] if artifact.raw["router"] else [Surface(artifact.id, "node", artifact.id)]
        return IndexPlan({"title": f"Node {artifact.id}", "value": artifact.raw["value"]}, surfaces)


@dataclass(frozen=True)
class _Typed:
    id: str = "typed"

    def extract(self, artifact, fields):
        return Extraction([Link(name_of(to), *said) for to, *said in artifact.raw["links"]], [[artifact.id]])


def corpus_of(graph):
    links = {at: [] for at in range(graph.size)}
    for source, *rest in graph.edges:
        links[source].append(rest)
    items = {
        name_of(at): {
            "router": at in graph.routers,
            "value": graph.values[at] if graph.values else None,
            "links": links[at],
        }
        for at in range(graph.size)
    }
    source = from_mapping(items, name="graph", strategy=_Nodes(), embedder=FLAT, edge_extractor=_Typed())
    return build(source, store=MemoryStore())


@st.composite
def graphs(draw, most=7, edges=14):
    """Small graphs with cycles, loops, parallel edges and artifacts without surfaces."""
    size = draw(st.integers(1, most))
    ends = st.integers(0, size - 1)
    edge = st.tuples(ends, ends, st.sampled_from(TYPES), st.sampled_from(("typed", "inline")))
    links = draw(st.lists(edge, max_size=edges, unique=True))
    routers = draw(st.sets(st.integers(0, size - 1), max_size=2))
    values = draw(st.tuples(*[st.sampled_from((0, 50, 100))] * size))
    return Graph(size, tuple(links), frozenset(routers), values)


bounds = st.fixed_dictionaries(
    {},
    optional={
        "direction": st.sampled_from(("out", "in", "both")),
        "max_hops": st.none() | st.integers(0, 4),
        "max_nodes": st.integers(0, 8),
        "max_edges": st.integers(0, 8),
        "max_fanout": st.integers(0, 3),
        "weighted": st.booleans(),
        "types": st.lists(st.sampled_from(TYPES), max_size=3),
        "exclude": st.lists(st.sampled_from(TYPES), max_size=2),
        "origins": st.lists(st.sampled_from(("typed", "inline")), max_size=2),
    },
)


@dataclass
class Told:
    """A walk read as a tree and, once more, as lines: `(event, lines given at it)`."""

    tree: object
    steps: list = field(default_factory=list)

    @property
    def lines(self):
        return [line for _, lines in self.steps for line in lines]


async def tree_of(corpus, *roots, **options):
    """The tree of a walk; ids of notes may go without `.md`."""
    inverses = {"inverses": options["inverses"]} if "inverses" in options else {}
    return await read_tree(walk_links(corpus, roots, **options), **inverses)


async def told(corpus, *roots, **options):
    answer = Told(await tree_of(corpus, *roots, **options))
    lines = TreeTextWriter(**({"inverses": options["inverses"]} if "inverses" in options else {}))
    async for event in walk_links(corpus, roots, **options).events():
        answer.steps.append((event, lines.add(event)))
    return answer


def told_of(graph, roots=1, backend="asyncio", **options):
    """The same of a graph, from its first nodes."""

    async def main():
        async with corpus_of(graph) as corpus:
            return await told(corpus, *graph.ids[:roots], **options)

    return anyio.run(main, backend=backend)


def ids(tree):
    return [node.id.removesuffix(".md") for node in tree.nodes]


def links(tree, which="spanning_tree"):
    """`a>b` for a link walked along from a to b, `a<b` for one walked against, and its name."""
    found = getattr(tree, which)
    ends = [[end.removesuffix(".md") for end in (link.source, link.target)] for link in found]
    return [f"{'<>'[not link.is_against].join(pair)} {link.type}" for link, pair in zip(found, ends, strict=True)]


def stored(tree):
    return Counter((edge.source.removesuffix(".md"), edge.target.removesuffix(".md")) for edge in tree.edges)

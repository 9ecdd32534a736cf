"""Corpora of linked notes, from files or random graphs, and their walks as trees."""

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
    """Return a Markdown note; a link is a name, or a pair of type and name."""
    pairs = [("related", link) if isinstance(link, str) else link for link in links]
    properties = {**({} if title is None else {"title": title}), **fields}
    lines = [f"{name}: {value}" for name, value in properties.items()]
    lines += ["links:", *(f"  - {{id: {name}, type: {type}}}" for type, name in pairs)] if pairs else []
    return "\n".join(["---", *lines, "---", body, ""])


def vault(folder, notes):
    """Build a corpus of Markdown files; `notes` maps their paths without `.md` to texts."""
    for name, text in notes.items():
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return build(from_notes(folder, name="vault", embedder=HashingEmbedder()), store=MemoryStore())


@dataclass(frozen=True)
class Graph:
    """A graph of nodes 0 to `size - 1` and edges `(source, target, type, origin)`.

    Nodes in `routers` have no surface.
    """

    size: int
    edges: tuple
    routers: frozenset = frozenset()
    values: tuple = ()

    @property
    def ids(self):
        return [name_of(number) for number in range(self.size)]


def name_of(number):
    return f"n{number}"


@dataclass(frozen=True)
class _Nodes:
    """A strategy with one surface per artifact, none for routers."""

    id: str = "nodes"

    def decompose(self, artifact):
        surfaces = [] if artifact.raw["router"] else [Surface(artifact.id, "node", artifact.id)]
        return IndexPlan({"title": f"Node {artifact.id}", "value": artifact.raw["value"]}, surfaces)


@dataclass(frozen=True)
class _Typed:
    id: str = "typed"

    def extract(self, artifact, fields):
        return Extraction(
            [Link(name_of(target), *options) for target, *options in artifact.raw["links"]], [[artifact.id]]
        )


def corpus_of(graph):
    links = {number: [] for number in range(graph.size)}
    for source, *rest in graph.edges:
        links[source].append(rest)
    items = {
        name_of(number): {
            "router": number in graph.routers,
            "value": graph.values[number] if graph.values else None,
            "links": links[number],
        }
        for number in range(graph.size)
    }
    source = from_mapping(items, name="graph", strategy=_Nodes(), embedder=FLAT, edge_extractor=_Typed())
    return build(source, store=MemoryStore())


@st.composite
def graphs(draw, most=7, edges=14):
    """Draw small graphs with cycles, loops, parallel edges and artifacts without surfaces."""
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
class TreeText:
    """The tree of a walk, and the steps of the same walk: `(event, lines printed for it)`."""

    tree: object
    steps: list = field(default_factory=list)

    @property
    def lines(self):
        return [line for _, lines in self.steps for line in lines]


async def tree_of(corpus, *roots, **options):
    """Return the tree of a walk; ids of notes need no `.md`."""
    inverses = {"inverses": options["inverses"]} if "inverses" in options else {}
    return await read_tree(walk_links(corpus, roots, **options), **inverses)


async def text_of_walk(corpus, *roots, **options):
    """Return the `TreeText` of a walk from some roots."""
    answer = TreeText(await tree_of(corpus, *roots, **options))
    lines = TreeTextWriter(**({"inverses": options["inverses"]} if "inverses" in options else {}))
    async for event in walk_links(corpus, roots, **options).events():
        answer.steps.append((event, lines.add(event)))
    return answer


def text_of_graph(graph, roots=1, backend="asyncio", **options):
    """Return the `TreeText` of a walk of a graph from its first nodes."""

    async def main():
        async with corpus_of(graph) as corpus:
            return await text_of_walk(corpus, *graph.ids[:roots], **options)

    return anyio.run(main, backend=backend)


def ids(tree):
    return [node.id.removesuffix(".md") for node in tree.nodes]


def links(tree, which="spanning_tree"):
    """Return links as text: `a>b type` if walked forwards, `a<b type` if walked against."""
    tree_links = getattr(tree, which)
    ends = [[end.removesuffix(".md") for end in (link.source, link.target)] for link in tree_links]
    return [f"{'<>'[not link.is_against].join(pair)} {link.type}" for link, pair in zip(tree_links, ends, strict=True)]


def edge_counts(tree):
    return Counter((edge.source.removesuffix(".md"), edge.target.removesuffix(".md")) for edge in tree.edges)

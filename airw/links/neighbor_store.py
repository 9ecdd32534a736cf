"""Graphs that a policy reads one node at a time: their contents and their neighbours."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from airw.errors import NoLedgerEntry
from airw.links._path_search import PAGE
from airw.links.graph import CorpusGraph
from airw.protocols import ArtifactIds, OpenCorpus, Store, ask
from airw.values import NodeId, Record


@runtime_checkable
class GraphStore(Protocol):
    """A graph with two methods: the content of a node, and its neighbours.

    A walk passes its store to the policy as it is. So a policy that calls these two methods walks any object that has
    them: a corpus that `load_graph` has read, or a graph of your own. `airw.policies.per_node` runs such policies.

    Example:
        >>> class Halves:
        ...     def __getitem__(self, number): return f"the number {number}"
        ...     def neighbors(self, number, *, edge_type=None): return [number // 2] if number else []
        >>> class Follow:
        ...     def seed(self, state, graph): return [int(state.query)]
        ...     def score(self, state, number, graph): return float(number)
        ...     def expand(self, state, number, graph): return graph.neighbors(number)
        ...     def node_id(self, number): return number
        ...     def to_hit(self, state, number, score, depth): return SearchHit(str(number), "number", score, "")
        >>> import airw, anyio
        >>> from airw.values import SearchHit
        >>> walk = airw.traverse("9", Halves(), policy=airw.policies.per_node(Follow()), max_depth=3)
        >>> [hit.artifact_id for hit in anyio.run(airw.top_k, walk)]
        ['9', '4', '2', '1']
    """

    def __getitem__(self, node_id: Any, /) -> Any:
        """Return the content of a node.

        Policies call this to score a node and to make its hit.
        """
        ...

    def neighbors(self, node_id: Any, *, edge_type: str | None = None) -> Iterable[Any]:
        """Return the nodes that a node leads to, by edges of one type if it is given.

        Policies call this to expand a node.
        """
        ...


class LoadedGraph:
    """The artifacts of a corpus and the links between them in memory; `load_graph` makes one."""

    def __init__(
        self, records: Mapping[NodeId, Sequence[Record]], links: Mapping[NodeId, Sequence[tuple[str, NodeId]]]
    ) -> None:
        self._records = records
        self._links = links

    def __getitem__(self, node_id: NodeId, /) -> list[Record]:
        """Return the records of an artifact in plan order.

        Raises:
            NoLedgerEntry: If the corpus does not contain it.
        """
        if node_id not in self._records:
            raise NoLedgerEntry(f"the graph has no artifact {node_id!r:.100}")
        return list(self._records[node_id])

    def neighbors(self, node_id: NodeId, *, edge_type: str | None = None) -> list[NodeId]:
        """Return the targets of the links of an artifact without duplicates.

        They are ids, `(source, id)` pairs of other corpora, and references that lead to no artifact.
        """
        targets = [target for type, target in self._links.get(node_id, ()) if edge_type in (None, type)]
        return list(dict.fromkeys(targets))


async def load_graph(store_or_corpus: OpenCorpus | Store) -> LoadedGraph:
    """Read all artifacts and links of a corpus into memory, for policies that do not await.

    Later changes of the corpus do not change the graph. A policy that can await calls the methods of `CorpusGraph`
    instead, which read what it needs.

    Args:
        store_or_corpus: An open corpus, or a store.

    Raises:
        ArgumentError: If it is neither a corpus nor a store, or the store cannot list its artifacts.

    Example:
        >>> import airw, anyio
        >>> from airw.links import default_edge_extractor
        >>> deps = {"app": ["lib>=1", "numpy"], "lib": []}
        >>> async def main():
        ...     source = airw.from_mapping(
        ...         dict.fromkeys(deps, "a package"), name="packages", embedder="light",
        ...         metadata_of=lambda id, _: {"deps": deps[id]}, edge_extractor=default_edge_extractor,
        ...     )
        ...     async with airw.build(source, store=airw.stores.MemoryStore()) as corpus:
        ...         graph = await load_graph(corpus)
        ...     print(graph.neighbors("app", edge_type="REF"), [record.text for record in graph["lib"]])
        >>> anyio.run(main)
        ['lib', 'numpy'] ['a package']
    """
    graph = CorpusGraph(store_or_corpus)
    ids: list[Any] = list(await ask(graph.store, ArtifactIds()))
    records: dict[NodeId, list[Record]] = {}
    links: dict[NodeId, list[tuple[str, NodeId]]] = {}
    for start in range(0, len(ids), PAGE):
        page = ids[start : start + PAGE]
        found = zip(page, await graph.records_of(page), strict=True)
        records |= {id: own for id, own in found if own is not None}  # one may have been deleted meanwhile
        for id, edges in zip(page, await graph.neighbors(page), strict=True):
            links[id] = [(edge.type, edge.target) for edge in edges]
        for unresolved in await graph.unresolved_links(page):
            links[unresolved.source].append((unresolved.link.type, unresolved.link.target_ref))
    return LoadedGraph(records, links)

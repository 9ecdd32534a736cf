"""The graph of a corpus: its artifacts and the links between them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from airw._base.arrays import Floats
from airw._base.checks import check_count, check_flag
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, EmbedderUnavailable, NoLedgerEntry
from airw.links._path_search import find_path
from airw.links._structure import find_components, find_cycles, read_edges
from airw.links.fields import NEXT
from airw.links.inverses import FollowedLinks, Inverses
from airw.links.paths import LinkCycle, LinkPath, PathLimits
from airw.links.unresolved import count_links, read_unresolved
from airw.protocols import Edges, Embedder, MaxFanIn, Names, OpenCorpus, RecordsOf, Referrers, Store, ask
from airw.values import ArtifactRef, Direction, Edge, LinkCount, LinkFilter, NodeId, Record, UnresolvedLink

if TYPE_CHECKING:
    from airw.links.diagnosis import GraphDiagnosis


class CorpusGraph:
    """The artifacts of a corpus and the links between them.

    Methods take many artifacts at once and return results in the same order. In one corpus an artifact is named by its
    id; a pair of the corpus's own name and an id means the same. In several corpora, opened as a `FederatedCorpus`, an
    artifact is named by a `(source, id)` pair. Policies accept a graph in place of a corpus.

    Args:
        store_or_corpus: An open corpus, or a store. A graph of a store alone has no name and cannot embed queries.

    Raises:
        ArgumentError: If it is neither a corpus nor a store.

    Example:
        >>> import airw, anyio
        >>> from airw.links.markdown import MarkdownLinks
        >>> notes = {"a.md": "See [[b]].", "b.md": "See [[c]].", "c.md": "The end."}
        >>> async def main():
        ...     source = airw.from_mapping(
        ...         notes, name="notes", embedder="light", edge_extractor=MarkdownLinks()
        ...     )
        ...     async with airw.build(source, store=airw.stores.MemoryStore()) as corpus:
        ...         graph = CorpusGraph(corpus)
        ...         print(await graph.neighbors(["a.md"]), await graph.fan_in(["b.md", "a.md"]))
        ...         print((await graph.path("a.md", "c.md")).nodes)
        >>> anyio.run(main)
        [[Edge(source='a.md', target='b.md', type='related', origin='inline')]] [1, 0]
        ('a.md', 'b.md', 'c.md')
    """

    def __init__(self, store_or_corpus: OpenCorpus | Store) -> None:
        corpus: Any = store_or_corpus
        # A store that wraps another one has it as `store`, as a corpus has its own.
        store: Any = corpus if _is_store(corpus) else getattr(corpus, "store", None)
        if not _is_store(store):
            raise ArgumentError(f"CorpusGraph needs a corpus or a store, not {short_repr(corpus)}; use open_corpus()")
        is_store_alone = store is corpus
        self._source: str | None = None if is_store_alone else getattr(corpus, "name", None) or None
        self.store: Store = store
        self.embedder: Embedder = getattr(corpus, "embedder", _NO_EMBEDDER)
        self.members: Mapping[str, OpenCorpus] = getattr(corpus, "members", {})

    @property
    def source(self) -> str | None:
        """The name of the corpus, as in `(source, id)` pairs; `None` for a store alone."""
        return self._source

    @property
    def name(self) -> str:
        """The name of the corpus; empty for a store alone."""
        return self._source or ""

    async def records_of(
        self, artifact_ids: Sequence[NodeId], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        """Return the records of each artifact in plan order; `None` if there is no such artifact.

        Args:
            artifact_ids: The artifacts.
            kinds: The surface kinds to return; `None` for all.
            limit: The most records to return per artifact.

        Raises:
            ArgumentKindError: If `artifact_ids` is not a list of ids.
        """
        return await ask(self.store, RecordsOf(self._to_nodes("artifact_ids", artifact_ids), kinds=kinds, limit=limit))

    async def neighbors(
        self,
        ids: Sequence[NodeId],
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[list[Edge]]:
        """Return the edges of each artifact as stored, ordered by type, then by the other id.

        A link to another corpus is an edge whose target is a pair. Dangling and ambiguous links are not edges: see
        `unresolved_links`. An unknown artifact has no edges.

        Args:
            ids: The artifacts.
            direction: `"out"` for edges that begin at the artifact, `"in"` for those that end there, or `"both"`.
            types: Return edges of these types only; `None` for all.
            exclude: Return no edges of these types.
            origins: Return edges of these origins only; `None` for all.
            limit: The most edges to return per artifact.

        Raises:
            ArgumentError: If a parameter is not valid.
        """
        link_filter = LinkFilter(types=types, exclude=exclude, origins=origins)
        rows = await ask(self.store, Edges(self._to_nodes("ids", ids), direction, link_filter, limit))
        return [list(row) for row in rows]

    async def edge_types(self, ids: Sequence[NodeId]) -> list[list[str]]:
        """Return the types of the edges that begin at each artifact, sorted.

        Raises:
            ArgumentKindError: If `ids` is not a list of ids.
        """
        return [sorted({edge.type for edge in edges}) for edges in await self.neighbors(ids)]

    async def reverse_neighbors(
        self, ids: Sequence[NodeId], *, types: Sequence[str] | None = None
    ) -> list[list[NodeId]]:
        """Return the ids of the artifacts that link to each node, sorted.

        A name is resolved as in a link: `"pyyaml"` means the artifact `PyYAML` if its extractor says so. A node can
        also be the target of links that the corpus does not contain, such as a library that others need.

        Args:
            ids: Ids or names of artifacts, `(source, id)` pairs, or references that lead to no artifact.
            types: The link types that count; `None` for all.

        Raises:
            ArgumentKindError: If `ids` is not a list of ids.
        """
        nodes: list[Any] = await self._resolve_nodes(self._to_nodes("ids", ids))
        return cast("list[list[NodeId]]", await ask(self.store, Referrers(nodes, types=types)))

    async def fan_in(self, ids: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        """Return the number of artifacts that link to each node.

        A node is named as in `reverse_neighbors`.

        Raises:
            ArgumentKindError: If `ids` is not a list of ids.
        """
        nodes: list[Any] = await self._resolve_nodes(self._to_nodes("ids", ids))
        return [len(ids) for ids in await ask(self.store, Referrers(nodes, types=types))]

    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        """Return the largest `fan_in` of all nodes; 0 if there are no links."""
        return await ask(self.store, MaxFanIn(types=types))

    async def resolve(self, refs: Sequence[NodeId]) -> list[NodeId]:
        """Return the artifact that each reference means, or the reference itself if it means none.

        If a reference is ambiguous, the artifact with exactly that id is returned, otherwise the first in order. A
        reference that is returned unchanged is a name of no artifact here, or a pair of another corpus. In both cases
        `reverse_neighbors` accepts it.

        Raises:
            ArgumentKindError: If `refs` is not a list of references.
        """
        nodes = self._to_nodes("refs", refs)
        candidates = await self._find_candidates(nodes)
        return [_choose_target(node, candidates.get(node, ())) for node in nodes]

    async def _resolve_nodes(self, nodes: Sequence[NodeId]) -> list[NodeId]:
        """Return the artifact that each node means; a node that several may mean stays as it is."""
        candidates = await self._find_candidates(nodes)
        return [candidates[node][0] if len(candidates.get(node, ())) == 1 else node for node in nodes]

    async def _find_candidates(self, nodes: Sequence[NodeId]) -> dict[NodeId, Sequence[NodeId]]:
        """Return the artifacts that each node may mean; nodes of other corpora are missing."""
        resolvable: list[Any] = [node for node in nodes if isinstance(node, str) or node[0] in self.members]
        artifacts = await ask(self.store, Names(resolvable)) if resolvable else []
        return dict(zip(resolvable, artifacts, strict=True))

    async def unresolved_links(
        self, ids: Sequence[NodeId] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        """Return the links of artifacts, or of all, that are no edges, ordered by artifact.

        They are ambiguous or dangling, or lead to a file or out of the folder; see `UnresolvedLink.state`.

        Raises:
            ArgumentKindError: If `ids` is not a list of ids.
        """
        return await read_unresolved(self.store, None if ids is None else self._to_nodes("ids", ids), limit=limit)

    async def link_counts(self) -> list[LinkCount]:
        """Return the numbers of links by type, origin and state, in that order."""
        return await count_links(self.store)

    async def surface_order(self, ids: Sequence[NodeId]) -> list[list[Edge]]:
        """Return the `NEXT` edges of each artifact, which connect its records in plan order.

        Their ends are record ids. They are not stored, but follow from the order of the records. Against their
        direction they are `PREV`. An artifact that is unknown, or has only one record, has none.

        Raises:
            ArgumentKindError: If `ids` is not a list of ids.

        Example:
            >>> import anyio
            >>> from airw.stores import MemoryStore
            >>> anyio.run(CorpusGraph(MemoryStore()).surface_order, ["unknown.md"])
            [[]]
        """
        return [
            [Edge(record.id, next_record.id, NEXT, "derived") for record, next_record in pairwise(records or ())]
            for records in await self.records_of(ids)
        ]

    async def path(
        self,
        start: NodeId,
        end: NodeId,
        *,
        direction: Direction = "both",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        max_hops: int | None = 10,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        max_fanout: int | None = None,
        weighted: bool = False,
        inverses: Inverses | None = None,
    ) -> LinkPath:
        """Return the shortest path by hops between two artifacts or, if `weighted`, the cheapest.

        Links cost as much as in `LinkWalk(weighted=True)`. Of paths with equal cost, the one with fewer hops counts. If
        several are left, the order of their links decides where they part: by name of the link, by the id it leads to,
        out before in, then by origin.

        If `left_out` of the result is empty, a path that was found is the best one, and one that was not found does
        not exist. Otherwise a limit may have hidden a path. Then a path that was found exists, but a shorter or cheaper
        one may exist too, even among the links that were read. So test `left_out` before you call a path the shortest.

        Args:
            start: The artifact where the path begins.
            end: The artifact where the path ends.
            direction: Follow links `"out"`, `"in"` or `"both"`.
            types: Follow links of these types only; `None` for all.
            exclude: Follow no links of these types.
            origins: Follow links of these origins only: `"typed"`, `"inline"`, `"derived"`; `None` for all.
            max_hops: The most links on the path; `None` for any number.
            max_nodes: The most artifacts to reach, including both ends; at least 2.
            max_edges: The most links to follow.
            max_fanout: The most links to follow per artifact. Links are cut in the order of their names, then of the
                ids at their other ends. The search goes from both ends of the path; if it is `weighted` and has a
                limit other than `max_hops`, from the start alone.
            weighted: Find the cheapest path instead of the one with the fewest hops.
            inverses: Compare `types` and `exclude` with the name that a link has in the direction it is followed.

        Raises:
            ArgumentError: If a parameter is not valid.
            NoLedgerEntry: If the graph does not contain one of the two artifacts.
        """
        limits = PathLimits(max_hops=max_hops, max_nodes=max_nodes, max_edges=max_edges, max_fanout=max_fanout)
        check_flag("weighted", weighted)
        link_filter = LinkFilter(types=types, exclude=exclude, origins=origins)
        links = FollowedLinks(direction=direction, filter=link_filter, inverses=inverses)
        ends = start, end = tuple(self._to_nodes("start and end", [start, end]))
        await self._check_artifacts(ends)
        if start == end:
            path = LinkPath(start, end, direction, max_hops, (start,), cost=0.0, visited=1)
        else:
            positions = {name: position for position, name in enumerate(self.members)}
            path = await find_path(self.store, links, limits, ends, is_weighted=weighted, corpus_positions=positions)
        return path

    async def components(
        self, *, types: Sequence[str] | None = None, exclude: Sequence[str] = (), origins: Sequence[str] | None = None
    ) -> list[list[NodeId]]:
        """Return the groups of artifacts that links connect, in either direction.

        The largest group is first; of equal groups, the one with the smallest id. The ids of a group are sorted. An
        artifact without links is a group by itself. This reads all links, 1,000 artifacts at a time, and keeps two
        numbers per link in memory.

        Raises:
            ArgumentError: If a parameter is not valid.
        """
        return await find_components(
            await read_edges(self.store, LinkFilter(types=types, exclude=exclude, origins=origins))
        )

    async def cycles(
        self, *, types: Sequence[str] | None = None, exclude: Sequence[str] = (), origins: Sequence[str] | None = None
    ) -> list[LinkCycle]:
        """Return the groups of artifacts that all lead to one another, each with a shortest cycle.

        The largest group is first; of equal groups, the one with the smallest id. Of several shortest cycles, each read
        from its smallest id on, the first in order is returned. A graph without cycles has no groups. This reads all
        links, 1,000 artifacts at a time, and keeps two numbers per link in memory.

        Raises:
            ArgumentError: If a parameter is not valid.
        """
        link_filter = LinkFilter(types=types, exclude=exclude, origins=origins)
        return await find_cycles(await read_edges(self.store, link_filter), self.store, link_filter)

    async def diagnose(self, *, gold: Sequence[Sequence[NodeId]] | None = None, seed: int = 0) -> "GraphDiagnosis":
        """Measure the graph, and report whether its links can help to find artifacts.

        Args:
            gold: Sets of artifacts; those of a set answer one question together. If you have them, they are the best
                evidence.
            seed: The random seed for the sampled pairs of artifacts and starts of walks.

        Raises:
            ArgumentError: If a parameter is not valid.
            NoLedgerEntry: If the graph does not contain an artifact of `gold`.
        """
        from airw.links.diagnosis import diagnose

        check_count("seed", seed)
        sets = None if gold is None else [self._to_nodes("gold", group) for group in gold]
        embedders = {corpus.embedder.id for corpus in self.members.values()}
        return await diagnose(self.store, gold=sets, seed=seed, has_vectors=len(embedders) < 2)

    async def _check_artifacts(self, nodes: Sequence[Any]) -> None:
        for node, records in zip(nodes, await ask(self.store, RecordsOf(nodes, limit=1)), strict=True):
            if records is None:
                corpus = "the graph" if self.source is None else f"corpus {self.source!r}"
                raise NoLedgerEntry(f"{corpus} has no artifact {short_repr(node)}; a path needs the ids of artifacts")

    def _to_nodes(self, name: str, nodes: Sequence[NodeId]) -> list[Any]:
        """Return nodes as the store names them; in one corpus, ids without the name of the corpus."""
        if isinstance(nodes, str) or not isinstance(nodes, Sequence | set | frozenset):
            raise ArgumentKindError(f"{name} must be a list of ids, not {short_repr(nodes)}; use [{short_repr(nodes)}]")
        return [self._to_node(name, node) for node in nodes]

    def _to_node(self, name: str, node: object) -> NodeId:
        match node:
            case str():
                return node
            case [str() as source, str() as id]:
                return id if source == self.source and not self.members else ArtifactRef(source, id)
        raise ArgumentError(f"{name} must be ids or (source, id) pairs, not {short_repr(node)}")


def _is_store(value: object) -> bool:
    return callable(getattr(type(value), "read", None)) and hasattr(value, "capabilities")


def _choose_target(ref: NodeId, candidates: Sequence[NodeId]) -> NodeId:
    exact = [id for id in candidates if ref == id or (isinstance(id, tuple) and ref == id[1])]
    return (exact or candidates or [ref])[0]


class _NoEmbedder:
    """The embedder of a graph of a store alone: it raises an error that explains the remedy."""

    id = ""
    dim = 0

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        raise self._error()

    async def embed_query(self, text: str) -> Floats:
        raise self._error()

    def _error(self) -> EmbedderUnavailable:
        return EmbedderUnavailable(
            "CorpusGraph of a store alone cannot embed a query; pass it an open corpus, or walk from roots"
        )


_NO_EMBEDDER = _NoEmbedder()

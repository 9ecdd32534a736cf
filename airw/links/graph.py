"""The graph of a corpus: artifacts, and the links between them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from airw._base.arrays import Floats
from airw._base.checks import check_choice, check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, EmbedderUnavailable, NoLedgerEntry
from airw.links._cheapest_path import CostSearch, LimitedCostSearch
from airw.links._path_search import HopSearch, PathLimits, StepReader
from airw.links._structure import components_of, cycles_of, read_edges
from airw.links.fields import NEXT
from airw.links.inverses import FollowedLinks, Inverses
from airw.links.paths import LinkCycle, LinkPath
from airw.protocols import Embedder, GraphStore, OpenCorpus, Store
from airw.values import DIRECTIONS, ArtifactRef, Direction, Edge, LinkCount, LinkFilter, NodeId, Record, UnresolvedLink

if TYPE_CHECKING:
    from airw.links.diagnosis import GraphDiagnosis


class CorpusGraph:
    """The artifacts of a corpus and the links between them, asked for many artifacts at once.

    An artifact is its id; a pair of the corpus's own name and an id means that id. Of several corpora, as
    `FederatedCorpus` opens them, each is a `(source, id)` pair. Answers are in the order of what was asked. A graph can
    be walked: policies take it as they take a corpus.

    Args:
        store_or_corpus: An open corpus; or a store, of which no name is known and nothing can be embedded.

    Raises:
        ArgumentError: It is neither.

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

    def __init__(self, store_or_corpus: OpenCorpus | GraphStore) -> None:
        given: Any = store_or_corpus
        store = getattr(given, "store", given)
        if isinstance(given, str) or not isinstance(store, GraphStore):
            raise ArgumentError(
                f"a graph needs an open corpus, as `open_corpus` gives, or a store, not {short_repr(given)}"
            )
        self._source: str | None = (getattr(given, "name", None) or None) if store is not given else None
        self.store: Store = cast("Store", store)
        self.embedder: Embedder = getattr(given, "embedder", _NO_EMBEDDER)
        self.members: Mapping[str, OpenCorpus] = getattr(given, "members", {})

    @property
    def source(self) -> str | None:
        """Give the name of the corpus, as pairs of a source and an id have it; `None` for a bare store."""
        return self._source

    @property
    def name(self) -> str:
        """Give the name of the corpus; empty for a bare store."""
        return self._source or ""

    async def records_of(
        self, artifact_ids: Sequence[NodeId], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        """Give the records of each artifact, at most `limit`, in plan order; `None` for unknown artifacts.

        Raises:
            ArgumentKindError: What was given is no list of ids.
        """
        return await self.store.records_of(self._nodes("artifact_ids", artifact_ids), kinds=kinds, limit=limit)

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
        """Give the edges of each artifact, as stored, ordered by type, then by the id at the other end.

        A link to another corpus is an edge whose target is a pair; what dangles or is ambiguous is none: see
        `unresolved_links`. An artifact that is not known has none.

        Raises:
            ArgumentError: A parameter cannot be used.
        """
        check_choice("direction", direction, DIRECTIONS)
        chosen = LinkFilter(types=types, exclude=exclude, origins=origins)
        nodes = self._nodes("ids", ids)
        return await self.store.neighbors(nodes, direction=direction, **chosen.options(), limit=limit)

    async def edge_types(self, ids: Sequence[NodeId]) -> list[list[str]]:
        """Give the types, sorted, of the edges that lead out of each artifact.

        Raises:
            ArgumentKindError: `ids` is no list of ids.
        """
        return [sorted({edge.type for edge in edges}) for edges in await self.neighbors(ids)]

    async def reverse_neighbors(
        self, ids: Sequence[NodeId], *, types: Sequence[str] | None = None
    ) -> list[list[NodeId]]:
        """Give for each node the ids, sorted, of the artifacts that link to it.

        A node may also be what links name and the corpus does not hold, such as a library that others need.

        Raises:
            ArgumentKindError: `ids` is no list of ids.
        """
        return cast("list[list[NodeId]]", await self.store.referrers(self._nodes("ids", ids), types=types))

    async def fan_in(self, ids: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        """Count the artifacts that link to each node.

        Raises:
            ArgumentKindError: `ids` is no list of ids.
        """
        return await self.store.fan_in(self._nodes("ids", ids), types=types)

    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        """Count the artifacts that link to the node to which most do; 0 without links."""
        return await self.store.max_fan_in(types=types)

    async def resolve(self, refs: Sequence[NodeId]) -> list[NodeId]:
        """Give for each reference the artifact that it means, and the reference itself where it means none here.

        Where it may mean several, the one of that very id counts, else the first in order. What means none is what
        `reverse_neighbors` knows it by: a name that nothing here carries, or a pair of another corpus.

        Raises:
            ArgumentKindError: `refs` is no list of references.
        """
        nodes = self._nodes("refs", refs)
        asked = [node for node in nodes if isinstance(node, str) or node[0] in self.members]
        found = dict(zip(asked, await self.store.resolve(asked) if asked else [], strict=True))
        return [_meant(node, found.get(node, ())) for node in nodes]

    async def unresolved_links(
        self, ids: Sequence[NodeId] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        """Give the links of these artifacts, or of all, that dangle or are ambiguous; ordered by artifact.

        Raises:
            ArgumentKindError: `ids` is no list of ids.
        """
        return await self.store.unresolved_links(None if ids is None else self._nodes("ids", ids), limit=limit)

    async def link_counts(self) -> list[LinkCount]:
        """Count all links by type, origin and state, in that order."""
        return await self.store.link_counts()

    async def surface_order(self, ids: Sequence[NodeId]) -> list[list[Edge]]:
        """Give for each artifact the `NEXT` edges from each of its records to the one that follows, by record id.

        They are not stored, as the plan says them; walked against their direction they are `PREV`. An artifact that is
        not known, or has one record, has none.

        Raises:
            ArgumentKindError: `ids` is no list of ids.

        Example:
            >>> import anyio
            >>> from airw.stores import MemoryStore
            >>> anyio.run(CorpusGraph(MemoryStore()).surface_order, ["unknown.md"])
            [[]]
        """
        return [
            [Edge(one.id, next_.id, NEXT, "derived") for one, next_ in pairwise(records or ())]
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
        """Find the path of fewest hops between two artifacts, or with `weighted` the cheapest one.

        Links cost what they cost in `LinkWalk(weighted=True)`, and of paths that cost the same the one of fewer hops
        counts. Of those that are left it is the path that comes first where they part, by what the link is called, then
        by the id it leads to, out before in, then by origin. A search by hops goes from both ends at once.

        A path that was not found does not exist where `left_out` is empty; else a limit may have hidden it. A path that
        was found is the shortest, or the cheapest, where `left_out` is empty.

        Args:
            start: Where to begin.
            end: Where to arrive.
            direction: Follow links `"out"`, `"in"` or `"both"`.
            types: Follow links of these types only; `None` for all.
            exclude: Follow no links of these types.
            origins: Follow links of these origins only: `"typed"`, `"inline"`, `"derived"`; `None` for all.
            max_hops: The most links on the path; `None` for any number.
            max_nodes: The most artifacts reached, both ends included; at least 2.
            max_edges: The most links read.
            max_fanout: The most links read of one artifact, from either end of the path; the first in order of what
                they are called, then of the other end.
            weighted: Go by cost instead of hops.
            inverses: Compare `types` and `exclude` with what a link is called in the direction it is followed.

        Raises:
            ArgumentError: A parameter cannot be used.
            NoLedgerEntry: The graph does not hold one of the two artifacts.
        """
        limits = PathLimits(max_hops=max_hops, max_nodes=max_nodes, max_edges=max_edges, max_fanout=max_fanout)
        if not isinstance(weighted, bool):
            raise ArgumentError(f"weighted must be True or False, not {short_repr(weighted)}")
        chosen = LinkFilter(types=types, exclude=exclude, origins=origins)
        links = FollowedLinks(direction=direction, filter=chosen, inverses=inverses)
        reader = StepReader(self.store, links, {name: place for place, name in enumerate(self.members)})
        ends = self._nodes("start and end", [start, end])
        await self._check_held(ends)
        if ends[0] == ends[1]:
            return LinkPath(ends[0], ends[1], direction, max_hops, (ends[0],), cost=0.0, visited=1)
        by_cost = CostSearch if limits.only_max_hops else LimitedCostSearch
        return await (by_cost if weighted else HopSearch)(reader, ends[0], ends[1], limits).run()

    async def components(
        self, *, types: Sequence[str] | None = None, exclude: Sequence[str] = (), origins: Sequence[str] | None = None
    ) -> list[list[NodeId]]:
        """Give the artifacts that links connect, whichever way they lead, group by group.

        The largest first, of equal ones that of the first id; ids are sorted. An artifact without links is a group.
        All links are read, 1,000 artifacts at a time, and two numbers kept of each.

        Raises:
            ArgumentError: A parameter cannot be used.
        """
        return await components_of(
            await read_edges(self.store, LinkFilter(types=types, exclude=exclude, origins=origins))
        )

    async def cycles(
        self, *, types: Sequence[str] | None = None, exclude: Sequence[str] = (), origins: Sequence[str] | None = None
    ) -> list[LinkCycle]:
        """Give each group of artifacts that all lead to one another, with one shortest cycle in it.

        The largest group first, of equal ones that of the first id. Of several shortest cycles it is the one that comes
        first when each is read from its first id on. A graph without cycles gives none.
        All links are read, 1,000 artifacts at a time, and two numbers kept of each.

        Raises:
            ArgumentError: A parameter cannot be used.
        """
        chosen = LinkFilter(types=types, exclude=exclude, origins=origins)
        return await cycles_of(await read_edges(self.store, chosen), self.store, chosen)

    async def diagnose(self, *, gold: Sequence[Sequence[NodeId]] | None = None, seed: int = 0) -> "GraphDiagnosis":
        """Measure the graph, and say whether it can help to find things.

        Args:
            gold: Sets of artifacts that answer one question together, where such are known: the best evidence.
            seed: What is sampled, pairs of artifacts and starts of walks, follows from it.

        Raises:
            ArgumentError: A parameter cannot be used.
            NoLedgerEntry: The graph does not hold an artifact in `gold`.
        """
        from airw.links.diagnosis import diagnose

        check_count("seed", seed)
        sets = None if gold is None else [self._nodes("gold", each) for each in gold]
        embedders = {corpus.embedder.id for corpus in self.members.values()}
        return await diagnose(self.store, gold=sets, seed=seed, has_vectors=len(embedders) < 2)

    async def _check_held(self, nodes: Sequence[Any]) -> None:
        for node, records in zip(nodes, await self.store.records_of(nodes, limit=1), strict=True):
            if records is None:
                corpus = "the graph" if self.source is None else f"corpus {self.source!r}"
                raise NoLedgerEntry(
                    f"{corpus} holds no artifact {short_repr(node)}; a path goes between artifacts by id"
                )

    def _nodes(self, name: str, given: Sequence[NodeId]) -> list[Any]:
        """Give nodes as the store knows them; of one corpus, ids without its name."""
        if isinstance(given, str) or not isinstance(given, Sequence | set | frozenset):
            raise ArgumentKindError(
                f"{name} must be a list of ids, not {short_repr(given)}; one is [{short_repr(given)}]"
            )
        return [self._node(name, each) for each in given]

    def _node(self, name: str, given: object) -> NodeId:
        match given:
            case str():
                return given
            case [str() as source, str() as id]:
                return id if source == self.source and not self.members else ArtifactRef(source, id)
        raise ArgumentError(f"{name} must be ids or (source, id) pairs, not {short_repr(given)}")


def _meant(ref: NodeId, found: Sequence[NodeId]) -> NodeId:
    same = [id for id in found if ref == id or (isinstance(id, tuple) and ref == id[1])]
    return (same or found or [ref])[0]


class _NoEmbedder:
    """Stands where there is a store alone: what needs no vector works, the rest is told why it cannot."""

    id = ""
    dim = 0

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        raise self._error()

    async def embed_query(self, text: str) -> Floats:
        raise self._error()

    def _error(self) -> EmbedderUnavailable:
        return EmbedderUnavailable(
            "a graph over a bare store embeds nothing: give CorpusGraph the open corpus, or walk from given roots"
        )


_NO_EMBEDDER = _NoEmbedder()

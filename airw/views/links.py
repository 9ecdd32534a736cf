"""A walk along the links of a corpus, under the names of the limits that people give."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from airw._base.checks import check_count
from airw._base.concurrency import offload_if
from airw.errors import ArgumentError
from airw.links import INVERSES, Inverses
from airw.policies import LinkWalk
from airw.policies.artifact_memory import ArtifactMemory
from airw.policies.link_walk import LinkStep
from airw.protocols import GraphStore, OpenCorpus
from airw.values import Direction, Limits, NodeId
from airw.walking import CommittedNode, LazyNeighbors, Walk, WalkState, traverse

_MANY = 1_000  # edges, looked up in about a millisecond


@dataclass(slots=True, eq=False)
class _Met(ArtifactMemory):
    """What one walk remembers besides: the edges that it met."""

    met: set[Any] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class _EdgesOnce(LinkWalk):
    """Walks an edge from the end it was met at first, and not back, which would use up limits and leave nothing out."""

    def begin(self, state: WalkState[ArtifactMemory]) -> ArtifactMemory:
        """Remember the edges that were met, too."""
        return _Met(state.query, self.scope, keeps_records=True)

    async def expand(
        self, state: WalkState[ArtifactMemory], committed: Sequence[CommittedNode], store: OpenCorpus[GraphStore]
    ) -> list[LazyNeighbors | list[LinkStep]]:
        """Give the ways that lead on from each one along edges that were not met before."""
        found = await super().expand(state, committed, store)
        if self.direction != "both":
            return found
        met = cast("_Met", state.memory).met
        return await offload_if(sum(map(len, found)) > _MANY, _unmet, met, found, state.limits.max_fanout)


def _unmet(met: set[Any], found: Sequence[Iterable[LinkStep]], fanout: int) -> list[LazyNeighbors | list[LinkStep]]:
    """Leave out the ways whose edge was met, and note the others, as far as they are read."""
    unmet: list[LazyNeighbors | list[LinkStep]] = []
    for ways in found:
        new = list({way.edge: way for way in ways if way.edge not in met}.values())
        met.update(way.edge for way in new[:fanout])
        unmet.append(new)
    return unmet


def walk_links(
    corpus: OpenCorpus,
    roots: Sequence[NodeId],
    *,
    direction: Direction = "both",
    max_hops: int | None = 3,
    max_nodes: int = 10_000,
    max_edges: int | None = None,
    max_fanout: int | None = None,
    types: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    origins: Sequence[str] | None = None,
    weighted: bool = False,
    inverses: Inverses | None = INVERSES,
    timeout: float | None = None,
) -> Walk:
    """Walk along links from given artifacts, each edge once: a walk to read as a tree, as events or as hits.

    Nothing is embedded and no vector is read. A stored edge that was met from one of its ends is not met again from the
    other, so that it neither counts twice nor uses up a limit.

    Args:
        corpus: An open corpus.
        roots: Ids of the artifacts to start from; of several corpora, `(source, id)` pairs.
        direction: Follow links `"out"`, `"in"` (backlinks) or `"both"`.
        max_hops: Artifacts this far from the nearest root are not expanded; `None` for no cap.
        max_nodes: List at most this many artifacts, the roots included; once they are, no more edges are met.
        max_edges: Meet at most this many edges; left out, 100,000.
        max_fanout: Meet at most this many edges at each artifact; left out, 1,000.
        types: Follow links of these types only, as they are called in the direction they are walked; `None` for all.
        exclude: Follow no links of these types, called so too.
        origins: Follow links of these origins only: `"typed"`, `"inline"`, `"derived"`; `None` for all.
        weighted: Go by cost instead of hops, see `LinkWalk`.
        inverses: What edges are called against their direction; `None` for the type as stored.
        timeout: Seconds from the first request; `None` for none.

    Returns:
        The walk. Neighbours come in order of edge type, then id, and artifacts in order of discovery.

    Raises:
        ArgumentError: An argument cannot be used; raised by this call.
        NoLedgerEntry: The corpus does not hold one of the roots; raised by the walk.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> from airw.links import MarkdownLinks
        >>> notes = {"a.md": "See [[b]].", "b.md": "A leaf.", "c.md": "See [[a]]."}
        >>> async def main():
        ...     source = from_mapping(notes, name="notes", embedder=HashingEmbedder(), edge_extractor=MarkdownLinks())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         async with walk_links(corpus, ["b.md"], direction="in") as walk:
        ...             return [hit.artifact_id async for hit in walk]
        >>> anyio.run(main)
        ['b.md', 'a.md', 'c.md']
    """
    if max_hops is not None:
        check_count("max_hops", max_hops)
    check_count("max_nodes", max_nodes)
    policy = _EdgesOnce(
        roots=roots,
        direction=direction,
        types=types,
        exclude=exclude,
        origins=origins,
        weighted=weighted,
        inverses=inverses,
        max_depth=max_hops,
    )
    if not policy.roots:
        raise ArgumentError("roots must name at least one artifact to start from")
    given: dict[str, Any] = {"max_edges": max_edges, "max_fanout": max_fanout}
    limits = Limits(**{name: value for name, value in given.items() if value is not None})
    return traverse("", corpus, policy=policy, node_budget=max_nodes, timeout=timeout, limits=limits)

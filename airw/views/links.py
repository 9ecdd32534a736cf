"""Walks along the links of a corpus, with limits of hops, nodes, edges and fanout."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, cast

import numpy as np

from airw._base.checks import check_count
from airw._base.concurrency import offload_if
from airw.errors import ArgumentError
from airw.links import INVERSES, Inverses
from airw.links.columns import LinkColumnReader, LinkColumns, Numbers
from airw.policies import LinkWalk
from airw.policies.link_walk import LinkMemory, LinkStep
from airw.protocols import GraphStore, OpenCorpus
from airw.values import Direction, Limits, NodeId
from airw.walking import Columns, CommittedNode, LazyNeighbors, Walk, WalkState, start_walk

_MANY = 1_000  # edges; more take over a millisecond, so a worker thread looks them up


@dataclass(slots=True, eq=False)
class _EdgeMemory(LinkMemory):
    """The memory of one walk, with the edges that it has met."""

    met: set[Any] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class _EdgesOnce(LinkWalk):
    """A link walk that meets each edge only from one end.

    A walk in both directions would meet each edge again from its other end. That would use up limits, and count edges
    as left out that are already listed.
    """

    speaks_columns = True

    def begin(self, state: WalkState[LinkMemory]) -> LinkMemory:
        """Return a memory that also contains the edges met."""
        return _EdgeMemory(state.query, self.scope, keeps_records=True)

    async def expand(
        self, state: WalkState[LinkMemory], committed: Sequence[CommittedNode], store: OpenCorpus[GraphStore]
    ) -> list[LazyNeighbors | list[LinkStep]] | Columns:
        """Return the steps from each committed node along edges that were not met before."""
        steps = await super().expand(state, committed, store)
        # In one direction, an edge has only one end from which it can be met.
        if self.direction != "both" or isinstance(steps, Columns):
            return steps
        met = cast("_EdgeMemory", state.memory).met
        return await offload_if(sum(map(len, steps)) > _MANY, _drop_met, met, steps, state.limits.max_fanout)

    async def _read_links(
        self, state: WalkState[LinkMemory], committed: Sequence[CommittedNode], reader: LinkColumnReader
    ) -> tuple[LinkColumns, Numbers]:
        links, offsets = await super()._read_links(state, committed, reader)
        if self.direction != "both":
            return links, offsets
        met = cast("_EdgeMemory", state.memory).met
        is_long, fanout = len(links.ends) > _MANY, state.limits.max_fanout
        return await offload_if(is_long, _select_unmet, met, reader.edge_keys(links), links, offsets, fanout)


def _select_unmet(
    met: set[Any], keys: Sequence[Any], links: LinkColumns, offsets: Numbers, fanout: int
) -> tuple[LinkColumns, Numbers]:
    """Return the links along edges that were not met before, and add these edges to `met`."""
    is_new: list[bool] = []
    for start, end in pairwise(offsets.tolist()):
        new: dict[Any, None] = {}
        for key in keys[start:end]:
            is_new.append(key not in met and key not in new)
            if is_new[-1]:
                new[key] = None
        # The walk reads at most `fanout` steps of a node; an edge after these may still be met from its other end.
        met.update(islice(new, fanout))
    return links.select_in_rows(np.array(is_new, np.bool_), offsets)


def _drop_met(met: set[Any], steps: Sequence[Iterable[LinkStep]], fanout: int) -> list[LazyNeighbors | list[LinkStep]]:
    """Drop the steps along edges that were met before, and add the other edges to `met`."""
    new_steps: list[LazyNeighbors | list[LinkStep]] = []
    for node_steps in steps:
        new = list({step.edge: step for step in node_steps if step.edge not in met}.values())
        # The walk reads at most `fanout` steps of a node; an edge after these may still be met from its other end.
        met.update(step.edge for step in new[:fanout])
        new_steps.append(new)
    return new_steps


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
    """Walk along links from given artifacts, and meet each edge only once.

    The walk can be read as a tree (`read_tree`), as events or as hits. It embeds nothing and reads no vectors. An edge
    that was met from one end is not met again from the other end. So it does not count twice against a limit.

    Args:
        corpus: An open corpus.
        roots: The ids of the artifacts to start from; for several corpora, `(source, id)` pairs.
        direction: Follow links `"out"`, `"in"` (backlinks) or `"both"`.
        max_hops: Artifacts at this distance from the nearest root are not expanded; `None` for no limit.
        max_nodes: The maximum number of artifacts, including the roots. When it is reached, no more edges are met.
        max_edges: The maximum number of edges; by default 100,000.
        max_fanout: The maximum number of edges met at each artifact; by default 1,000.
        types: Follow only links of these types, as named in the direction of the walk; `None` for all.
        exclude: Follow no links of these types, named in the same way.
        origins: Follow only links of these origins: `"typed"`, `"inline"`, `"derived"`; `None` for all.
        weighted: Measure distance by cost instead of hops, see `LinkWalk`.
        inverses: The names of edge types against their direction; `None` for the stored type.
        timeout: Seconds from the first request; `None` for no limit.

    Returns:
        The walk. Neighbours come in order of edge type, then id, and artifacts in the order in which they are met.

    Raises:
        ArgumentError: If an argument cannot be used; raised by this call.
        NoLedgerEntry: If a root is not in the corpus; raised by the walk.

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
        raise ArgumentError("roots must contain at least one artifact id, not none")
    edge_limits: dict[str, Any] = {"max_edges": max_edges, "max_fanout": max_fanout}
    # A tree says how much it leaves out, so its walk looks behind its limits.
    limits = Limits(count_beyond_limits=True, **{name: n for name, n in edge_limits.items() if n is not None})
    return start_walk("", corpus, policy, node_budget=max_nodes, timeout=timeout, limits=limits)

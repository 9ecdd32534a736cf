"""Walks along the links of a corpus, with limits of hops, nodes, edges and fanout."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from airw._base.checks import check_count
from airw._base.concurrency import offload_if
from airw.errors import ArgumentError
from airw.links import INVERSES, Inverses
from airw.policies import LinkWalk
from airw.policies.artifact_memory import ArtifactMemory
from airw.policies.link_walk import LinkStep, LinkSteps
from airw.protocols import OpenCorpus
from airw.values import Direction, Limits, NodeId
from airw.walking import CommittedNode, Walk, WalkState, start_walk

_MANY = 1_000  # edges; more take over a millisecond, so a worker thread looks them up


@dataclass(slots=True, eq=False)
class _EdgeMemory(ArtifactMemory):
    """The memory of one walk, with the edges that it has met."""

    met: set[Any] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class _EdgesOnce(LinkWalk):
    """A link walk that meets each edge only from one end.

    A walk in both directions would meet each edge again from its other end. That would use up limits, and count edges
    as left out that are already listed.
    """

    _memory = _EdgeMemory

    async def follow(
        self, state: WalkState[ArtifactMemory], committed: Sequence[CommittedNode], store: OpenCorpus
    ) -> list[LinkSteps]:
        """Return the steps from each committed node along edges that were not met before."""
        steps = await super().follow(state, committed, store)
        if self.direction != "both":  # an edge has only one end from which it can be met
            return steps
        met = cast("_EdgeMemory", state.memory).met
        return await offload_if(sum(map(len, steps)) > _MANY, _drop_met, met, steps, state.limits.max_fanout)


def _drop_met(met: set[Any], steps: Sequence[Iterable[LinkStep]], fanout: int) -> list[LinkSteps]:
    """Drop the steps along edges that were met before, and add the other edges to `met`."""
    new_steps: list[LinkSteps] = []
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

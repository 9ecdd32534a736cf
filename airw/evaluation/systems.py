"""Systems: ways to find documents that can be evaluated and compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from airw.corpora import Corpus, search
from airw.evaluation.metering import Meter
from airw.traversal import traverse
from airw.values import SearchHit
from airw.walking import WalkPolicy


class System(Protocol):
    """A way to find documents: a search, a walk, or a program of yours.

    `FlatSearch` and `PolicyWalk` are systems. Any object with these two members can take their place.

    Example:
        >>> class Backwards:
        ...     label = "backwards"
        ...     async def find(self, corpus, query, k, meter):
        ...         hits = await corpus.search(query, k=k)
        ...         for hit in hits:
        ...             meter.arrive(hit.artifact_id)
        ...         return hits[::-1]
    """

    @property
    def label(self) -> str:
        """Return the name of the system in tables."""
        ...

    async def find(self, corpus: Corpus, query: str, k: int, meter: Meter) -> Sequence[SearchHit]:
        """Return the final ranking of a query, best first.

        An evaluation calls this once per case. `corpus` counts what is read from its store. Call `meter.arrive` with
        each hit as soon as a user could have it.
        """
        ...


@dataclass(frozen=True, slots=True)
class FlatSearch:
    """A search without links.

    Args:
        options: The options of `airw.search`, such as `{"mode": "dense"}` or `{"rerank": "cross-encoder"}`.
        label: The name in tables.

    Example:
        >>> FlatSearch({"mode": "dense"}, "dense").label
        'dense'
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = "flat"

    async def find(self, corpus: Corpus, query: str, k: int, meter: Meter) -> Sequence[SearchHit]:
        """Return the hits of the search, which arrive together."""
        hits: list[SearchHit] = await search(corpus, query, **{**self.options, "k": k})
        for hit in hits:
            meter.arrive(hit.artifact_id)
        return hits


@dataclass(frozen=True, slots=True)
class PolicyWalk:
    """A walk, by default that of `airw.traverse`.

    The ranking is that of the policy, `walk.ranking`. With `fill`, the hits of that search follow, without those that
    the walk found.

    Args:
        policy: The policy; `None` for that of `airw.traverse`.
        label: The name in tables; by default the name of the policy's class, or `"traverse"`.
        node_budget: The largest number of nodes to commit.
        fill: The search whose hits follow; `None` for none.
        options: Further options of `airw.traverse`, such as `{"max_depth": 2}`.

    Example:
        >>> from airw.policies import Beam
        >>> PolicyWalk(Beam(width=8)).label, PolicyWalk().label
        ('Beam', 'traverse')
    """

    policy: WalkPolicy | None = None
    label: str = ""
    node_budget: int = 64
    fill: FlatSearch | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fill in the label."""
        name = "traverse" if self.policy is None else type(self.policy).__name__
        object.__setattr__(self, "label", self.label or name)

    async def find(self, corpus: Corpus, query: str, k: int, meter: Meter) -> Sequence[SearchHit]:
        """Return the ranking of the walk; its hits arrive one by one."""
        walk = traverse(query, corpus, policy=self.policy, node_budget=self.node_budget, **self.options)
        async with walk:
            async for hit in walk:
                meter.arrive(hit.artifact_id)
        meter.nodes = walk.summary.committed if walk.summary else 0
        ranking = walk.ranking or []
        if self.fill is None:
            return ranking
        ids = {hit.artifact_id for hit in ranking}
        own_arrivals = Meter()  # of the search that fills: only the hits that are new arrive
        filling = await self.fill.find(corpus, query, k, own_arrivals)
        new = [hit for hit in filling if hit.artifact_id not in ids]
        for hit in new:
            meter.arrive(hit.artifact_id)
        return [*ranking, *new]

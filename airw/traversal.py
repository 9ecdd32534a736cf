"""`traverse`: walk a corpus or graph from a query."""

from types import EllipsisType
from typing import Any

from airw import policies
from airw._base.checks import check_query
from airw.values import Limits
from airw.walking import Walk, WalkPolicy, start_walk


def traverse(
    query: str,
    store: Any,
    *,
    policy: WalkPolicy | None = None,
    max_depth: int | EllipsisType | None = ...,
    node_budget: int = 64,
    timeout: float | None = None,
    limits: Limits | None = None,
) -> Walk:
    """Walk a corpus or graph from a query and yield each hit as soon as it is committed.

    The policy decides where the walk starts and where it goes. The operator enforces the limits, so no policy can loop
    forever or use unlimited memory.

    Without a policy, the walk is one of `airw.policies.PathCoverage`: it starts from a search and follows links. In a
    corpus without links, `walk.ranking` has the hits of the search in their order.

    Args:
        query: The text to search for.
        store: An open corpus, or any object that the policy understands. The operator only passes it to the policy.
        policy: A walk policy, for example one of `airw.policies`; `None` for the default, which walks open corpora.
        max_depth: The depth cap: nodes at this depth are not expanded. `None` for no cap; by default the policy's own.
        node_budget: The number of nodes to commit at most, routers included.
        timeout: Seconds from the first request to the deadline, the consumer's own time included; `None` for none.
        limits: The other limits; `None` for the defaults of `Limits`.

    Returns:
        An async generator of hits in order of commitment. It is also an async context manager that closes the walk.
        After the end, `summary` reports why the walk stopped and what was left out, and `ranking` is the policy's final
        order.

    Raises:
        ArgumentError: If an argument cannot be used, or the default policy cannot walk this object. It is raised by
            this call, before the walk starts.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping, traverse
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     source = from_mapping({"a": "signing keys", "b": "door keys"}, name="docs", embedder=HashingEmbedder())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         async with traverse("rotate the signing keys", corpus) as walk:
        ...             async for hit in walk:
        ...                 print(hit.artifact_id, hit.metadata["walk_depth"])
        ...         print(walk.summary.stop)
        >>> anyio.run(main)
        a 0
        b 0
        exhausted
    """
    check_query(query)  # before the store: whoever swaps the two reads about the query
    chosen = policies.default_policy(store) if policy is None else policy
    return start_walk(
        query, store, chosen, max_depth=max_depth, node_budget=node_budget, timeout=timeout, limits=limits
    )

"""What one does with a stream of hits."""

from airw.errors import ArgumentError
from airw.limits import check_count
from airw.traversal import Walk
from airw.values import SearchHit

__all__ = ["top_k"]


async def top_k(walk: Walk, k: int = 10) -> list[SearchHit]:
    """Run a walk to its end, close it, and give the first `k` hits of its final ranking.

    Raises:
        ArgumentError: `walk` is not a walk, or `k` is not a whole number of at least 0.

    Example:
        >>> async def main(corpus):
        ...     from airw.policies import Eager
        ...     return await top_k(airw.traverse("signing keys", corpus, policy=Eager()), k=3)
    """
    if not isinstance(walk, Walk):
        raise ArgumentError(f"top_k takes what airw.traverse returns, not {walk!r}")
    check_count("k", k)
    async with walk:
        async for _ in walk:
            pass
    return (walk.ranking or [])[:k]

"""Walks that an agent may read on."""

from collections.abc import Hashable

from airw._base.messages import one_line
from airw.mcp.calls import Report
from airw.values import SearchHit
from airw.walking import Walk, WalkSummary
from airw.walking.walk import read_ready

MOST_FOUND = 2_000
"""The most nodes that one walk commits, all its parts together; it bounds the memory of a walk that is held."""


class PagedWalk:
    """A walk that is listed in parts: each has the best hits that no part before it had.

    Args:
        walk: A walk that has not begun.
        node_budget: Its node budget.
        most: The largest node budget that it may get.
        timeout: The seconds for each part.
    """

    def __init__(self, walk: Walk, *, node_budget: int, most: int, timeout: float) -> None:
        self._walk, self._budget, self._most, self._timeout = walk, node_budget, most, timeout
        self._listed: set[Hashable] = set()
        self._found = 0

    @property
    def summary(self) -> WalkSummary:
        """The summary of the part that was read last."""
        summary = self._walk.summary
        if summary is None:
            raise RuntimeError("read the walk to its end before its summary")
        return summary

    @property
    def has_more(self) -> bool:
        """True if another part may have hits."""
        stopped_early = self.summary.stop in ("node_budget", "timeout") and self._budget < self._most
        return stopped_early or len(self._listed) < self._found

    async def read(self, report: Report) -> None:
        """Walk until a limit, and report what is committed as it comes."""
        while hits := await read_ready(self._walk):
            self._found += len(hits)
            await report(self._found, self._budget, f"found {one_line(str(hits[-1].artifact_id), longest=100)}")

    def raise_limits(self, node_budget: int) -> None:
        """Raise the node budget of a walk that has ended, with the time of a part once more."""
        self._budget = min(self._most, self._budget + node_budget)
        self._walk.extend(node_budget=self._budget, timeout=self.summary.seconds + self._timeout)

    def take_best(self, k: int) -> list[SearchHit]:
        """Return the best hits that were not returned before, at most k."""
        best: list[SearchHit] = []
        for hit in self._walk.ranking or ():
            identity = (hit.source, hit.artifact_id)
            if len(best) < k and identity not in self._listed:
                self._listed.add(identity)
                best.append(hit)
        return best

    def path(self, hit: SearchHit) -> list[Hashable]:
        """Return the ids of the nodes from the seed to a hit."""
        return self._walk.path(hit)

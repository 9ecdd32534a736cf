"""`WalkKeeper`: which walks over HTTP may go on, and are held for their clients."""

from collections.abc import Mapping
from typing import Any

from airw.serving.held_walks import HeldWalks
from airw.serving.limits import ServingLimits
from airw.walking import WalkSummary


class WalkKeeper:
    """The limits of one walk, which is held when it has ended at one that can be raised.

    All parts of a walk together have the limits of the server. So a walk that ends at one of those goes on no more.

    Args:
        held: The walks of the server.
        limits: The limits of the server.
        owner: The client.
        bounds: `node_budget`, `max_depth` and `timeout` of the walk.
        can_go_deeper: Whether a higher depth cap keeps the hits of before: not if the policy keeps its frontier.
    """

    def __init__(
        self,
        held: HeldWalks,
        limits: ServingLimits,
        *,
        owner: str,
        bounds: Mapping[str, Any],
        can_go_deeper: bool,
    ) -> None:
        self._held, self._most_nodes, self._owner = held, limits.max_held_nodes, owner
        self._bounds = dict(bounds)
        self._most = {"node_budget": limits.max_node_budget, "timeout": limits.max_timeout}
        if can_go_deeper:
            self._most["max_depth"] = limits.max_hops

    def keep(self, stream: object, summary: WalkSummary, *, waiting: int) -> str | None:
        """Hold a stream whose walk has ended, and return its token.

        It is `None` if the walk cannot go on.

        Args:
            stream: What is held.
            summary: The summary of the walk.
            waiting: The number of nodes in its frontier.
        """
        is_too_deep = summary.stop == "exhausted" and "max_depth" in (*summary.left_out, *summary.unknown)
        reached = "max_depth" if is_too_deep else summary.stop
        if reached not in self._most or self._bounds[reached] >= self._most[reached]:
            return None
        if summary.committed + waiting > self._most_nodes:
            return None
        return self._held.hold(stream, self._owner)

    def note_raised(self, raised: Mapping[str, Any]) -> None:
        """Note the limits with which the walk goes on."""
        self._bounds.update(raised)

"""The summary of a walk: why it ended and what its limits left out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, Self

from airw.values import StopReason


@dataclass(frozen=True, slots=True)
class LostCorpus:
    """A corpus that failed during a walk, and was left out from then on.

    Args:
        name: The name of the corpus.
        status: `"failed"` if a call of it raised an error, `"timeout"` if a call took too long.
        error: The type and the message of the error, on one line of at most 200 characters.
    """

    name: str
    status: Literal["failed", "timeout"]
    error: str


class LossyCorpus(Protocol):
    """Several corpora that a walk treats as one, and that go on when one of them fails.

    `FederatedCorpus` is one. A walk asks `begin_walk` for the corpora that its policy sees.
    """

    def begin_walk(self, timeout: float) -> Self:
        """Return the same corpora for a walk of `timeout` seconds, with no losses so far."""
        ...

    @property
    def lost(self) -> Sequence[LostCorpus]:
        """The corpora that failed in this walk so far, for its summary."""
        ...

    def leave_out_lost(self) -> None:
        """Call the corpora that failed so far no more.

        The walk calls this before each stage. So the calls of one stage do not depend on which of them fails first.
        """
        ...


@dataclass(frozen=True, slots=True)
class WalkSummary:
    """The summary of an ended walk.

    Args:
        stop: The reason why the walk ended. If several apply, it is the first of `failed`, `closed`, `timeout`,
            `sufficient`, `max_hits`, `node_budget`, `exhausted`.
        emitted: The number of hits yielded.
        routed: The number of routers committed.
        steps: The number of times that nodes were selected from the frontier.
        edges: The number of neighbours read.
        depth: The greatest depth of a committed node.
        seconds: The time from the first request to the end, on the event loop's clock.
        left_out: The number of nodes that each limit left out, by the name of the limit.
        at_least: The limits whose number in `left_out` is a lower bound.
        unknown: The limits that kept nodes from being expanded, and behind which nothing was counted. See
            `Limits.count_beyond_limits`.
        lost: The corpora that failed during a walk over several, in their order.
        improved: The number of committed nodes that the walk found again by a better path. See
            `Policy.rescores_committed`.
    """

    stop: StopReason
    emitted: int
    routed: int
    steps: int
    edges: int
    depth: int
    seconds: float
    left_out: dict[str, int]
    at_least: tuple[str, ...]
    unknown: tuple[str, ...]
    lost: tuple[LostCorpus, ...] = ()
    improved: int = 0

    @property
    def committed(self) -> int:
        """The number of nodes committed: hits and routers."""
        return self.emitted + self.routed

    @property
    def truncated(self) -> bool:
        """True if anything was, or may have been, left out.

        A limit that is reached exactly does not truncate a walk if `count_beyond_limits` found nothing beyond it.
        """
        return bool(self.left_out or self.at_least or self.unknown or self.lost) or self.stop == "timeout"

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a dict of JSON values."""
        return {
            "stop": self.stop,
            "committed": self.committed,
            "emitted": self.emitted,
            "routed": self.routed,
            "steps": self.steps,
            "edges": self.edges,
            "depth": self.depth,
            "seconds": self.seconds,
            "left_out": dict(self.left_out),
            "at_least": list(self.at_least),
            "unknown": list(self.unknown),
            "lost": [asdict(corpus) for corpus in self.lost],
            "improved": self.improved,
            "truncated": self.truncated,
        }


@dataclass(slots=True)
class WalkCounts:
    """The counts of a walk that is running."""

    emitted: int = 0
    routed: int = 0
    steps: int = 0
    edges: int = 0
    depth: int = 0
    improved: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    at_least: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    @property
    def committed(self) -> int:
        """The number of nodes committed so far."""
        return self.emitted + self.routed

    def forget_end(self) -> None:
        """Forget what was counted when the walk ended: the nodes that these limits left out."""
        for limit in ("max_depth", "max_hits", "node_budget"):
            self.left_out.pop(limit, None)
            self.at_least.discard(limit)
            self.unknown.discard(limit)

    def refuse(self, limit: str, count: int, *, at_least: bool = False) -> None:
        """Add nodes to those that a limit left out; with `at_least`, `count` is a lower bound."""
        if count > 0:  # it is negative if an iterable reports a smaller length than it has
            self.left_out[limit] = self.left_out.get(limit, 0) + count
            if at_least:
                self.at_least.add(limit)

    def summary(self, stop: StopReason, seconds: float, lost: Sequence[LostCorpus] = ()) -> WalkSummary:
        """Return the counts as the summary of an ended walk."""
        return WalkSummary(
            stop=stop,
            emitted=self.emitted,
            routed=self.routed,
            steps=self.steps,
            edges=self.edges,
            depth=self.depth,
            seconds=seconds,
            left_out=dict(sorted(self.left_out.items())),
            at_least=tuple(sorted(self.at_least)),
            unknown=tuple(sorted(self.unknown)),
            lost=tuple(lost),
            improved=self.improved,
        )

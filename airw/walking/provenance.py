"""Writing into each hit how it was reached."""

from collections.abc import Hashable, Sequence
from typing import Any

from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.values import Edge, SearchHit
from airw.walking.policy import CommittedNode, WalkPolicy
from airw.walking.reading import explain

_PATH_DEPTH = 64


class Provenance:
    """The ways from the seeds to what was committed, as far as hits tell them."""

    def __init__(self, policy: WalkPolicy) -> None:
        """Start with no way."""
        self._policy = policy
        self._trails: dict[Hashable, tuple[Hashable, ...]] = {}  # below the depth to which it is told, the seed alone
        self._seeds: dict[Hashable, Any] = {}

    def stamp(self, entries: Sequence[CommittedNode], hits: Sequence[SearchHit | None]) -> None:
        """Write `walk_depth`, `walk_parent`, `walk_path`, `walk_edge` and `seed` into the hits of committed entries.

        Raises:
            PolicyError: One is no hit.
        """
        for hit in hits:
            if hit is not None and not (isinstance(hit, SearchHit) and isinstance(hit.metadata, dict)):
                raise PolicyError(f"to_hits must give SearchHit values with a metadata dict, not {short_repr(hit)}")
        trails = self._trails
        for (node, id, depth, _, parent), hit in zip(entries, hits, strict=True):
            if depth == 0:
                # Among several corpora an id alone would not say which artifact it is.
                self._seeds[id] = id if hit is None or hit.key == id else hit.artifact_id
                trail: tuple[Hashable, ...] = (id,)
            else:
                above = trails[parent]
                trail = (*above, id) if depth <= _PATH_DEPTH else above[:1]
            trails[id] = trail
            if hit is not None:
                metadata = hit.metadata
                metadata["walk_depth"] = depth
                metadata["walk_parent"] = parent
                if depth <= _PATH_DEPTH:
                    metadata["walk_path"] = list(trail)
                if depth and "seed" not in metadata:
                    metadata["seed"] = self._seeds[trail[0]]
                edge = self._edge_of(node)
                if edge is not None:
                    metadata["walk_edge"] = edge.type

    def _edge_of(self, node: Any) -> Edge | None:
        try:
            return self._policy.edge_of(node)
        except Exception as error:
            explain(error, "edge_of", self._policy, node)
            raise

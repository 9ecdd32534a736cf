"""The provenance of hits: how the walk reached each of them."""

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.values import SearchHit
from airw.walking.policy import CommittedNode, WalkPolicy
from airw.walking.slips import find_edge, require_stable_ids

_PATH_DEPTH = 64  # deeper hits have no `walk_path`: in a chain of n nodes all paths have n * n / 2 ids


class Provenance:
    """The paths from the seeds to the committed nodes, as far as hits contain them."""

    def __init__(self, policy: WalkPolicy) -> None:
        """Start without paths."""
        self._policy = policy
        self._paths: dict[Hashable, tuple[Hashable, ...]] = {}  # below `_PATH_DEPTH` the seed alone
        self._seeds: dict[Hashable, Any] = {}

    def annotate(self, entries: Sequence[CommittedNode], hits: Sequence[SearchHit | None]) -> None:
        """Write into the metadata of hits how the walk reached them.

        The fields are `walk_depth`, `walk_parent`, `walk_path`, `walk_edge` and `seed`.

        Raises:
            PolicyError: If one is not a hit.
        """
        for hit in hits:
            if hit is not None and not (
                isinstance(hit, SearchHit) and isinstance(hit.metadata, dict) and isinstance(hit.score, Real)
            ):
                raise PolicyError(
                    f"{type(self._policy).__name__}.to_hits returned {short_repr(hit)}; "
                    "return SearchHit values with a metadata dict and a number as score, or None"
                )
        with require_stable_ids(self._policy):
            self._annotate(entries, hits)

    def _annotate(self, entries: Sequence[CommittedNode], hits: Sequence[SearchHit | None]) -> None:
        paths = self._paths
        for (node, id, depth, _, parent), hit in zip(entries, hits, strict=True):
            if depth == 0:
                # Among several corpora an id alone does not identify an artifact, so the seed keeps its whole key.
                # An id that is no tuple is no key; numpy would compare it with each part of the key.
                is_plain = hit is not None and not (isinstance(id, tuple) and hit.key == id)
                self._seeds[id] = hit.artifact_id if hit is not None and is_plain else id
                path: tuple[Hashable, ...] = (id,)
            else:
                parent_path = paths[parent]
                path = (*parent_path, id) if depth <= _PATH_DEPTH else parent_path[:1]
            paths[id] = path
            if hit is not None:
                metadata = hit.metadata
                metadata["walk_depth"] = depth
                metadata["walk_parent"] = parent
                if depth <= _PATH_DEPTH:
                    metadata["walk_path"] = list(path)
                if depth and "seed" not in metadata:  # a policy may have written a seed of its own
                    metadata["seed"] = self._seeds[path[0]]
                edge = find_edge(self._policy, node)
                if edge is not None:
                    metadata["walk_edge"] = edge.type

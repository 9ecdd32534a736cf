"""The provenance of hits: how the walk reached each of them."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.values import SearchHit
from airw.values.hits import FACTS, add_facts, get_fact
from airw.walking.answers import find_edge
from airw.walking.policy import CommittedNodes, Policy, WalkPolicy
from airw.walking.record import BetterPath, WalkRecord

_PATH_DEPTH = 64  # deeper hits have no `walk_path`: in a chain of n nodes all paths have n * n / 2 ids


class Provenance:
    """The paths from the seeds to the committed nodes, as far as hits contain them."""

    def __init__(self, policy: WalkPolicy, record: WalkRecord) -> None:
        """Start without paths."""
        self._policy, self._record = policy, record
        self._has_edges = getattr(policy.edge_of, "__func__", None) is not Policy.edge_of
        # By the position of a committed node; beyond `_PATH_DEPTH` the seed alone.
        self._paths: dict[int, tuple[Hashable, ...]] = {-1: ()}
        self._seed_names: dict[Hashable, Any] = {}  # what hits call their seed, by its id

    def annotate(self, positions: Sequence[int], entries: CommittedNodes, hits: Sequence[SearchHit | None]) -> None:
        """Write into the metadata of hits how the walk reached them.

        The fields are `walk_depth`, `walk_parent`, `walk_path`, `walk_edge` and `seed`.

        Args:
            positions: The positions of the nodes of the hits.
            entries: The nodes.
            hits: One hit per node; `None` for a router.

        Raises:
            PolicyError: If one is not a hit.
        """
        for position, entry, hit in zip(positions, entries, hits, strict=True):
            # A float is checked fast.
            is_usable = isinstance(hit, SearchHit) and isinstance(hit.metadata, dict)
            if hit is not None and not (is_usable and (type(hit.score) is float or isinstance(hit.score, Real))):
                raise PolicyError(
                    f"{type(self._policy).__name__}.to_hits returned {short_repr(hit)}; "
                    "return SearchHit values with a metadata dict and a number as score, or None"
                )
            parent = self._record.parents[position]
            path = self._paths[parent]
            self._paths[position] = (*path, entry.id) if entry.depth <= _PATH_DEPTH else path[:1]
            if not entry.depth:
                # A hit calls its seed by the artifact. Among several corpora an id alone does not identify one, so the
                # seed keeps its whole key. An id that is no tuple is no key; numpy would compare it with each part.
                is_key = hit is None or (isinstance(entry.id, tuple) and entry.id == hit.key)
                self._seed_names[entry.id] = entry.id if hit is None or is_key else hit.artifact_id
            if hit is not None:
                edge = find_edge(self._policy, entry.node) if self._has_edges else None
                self._write(hit.metadata, entry.id, entry.depth, parent, None if edge is None else edge.type)

    def _write(self, metadata: dict[str, Any], id: Hashable, depth: int, parent: int, edge_type: str | None) -> None:
        # Where no field of the author is in the way, facts are fields themselves.
        facts, written = (metadata, metadata.get("seed")) if FACTS not in metadata else ({}, get_fact(metadata, "seed"))
        above = self._paths[parent]
        facts["walk_depth"] = depth
        facts["walk_parent"] = self._record.ids[parent] if depth else None
        if depth <= _PATH_DEPTH:
            facts["walk_path"] = [*above, id]
        if depth and written is None:  # a policy may have written a seed of its own
            facts["seed"] = self._seed_names[above[0]]
        if edge_type is not None:
            facts["walk_edge"] = edge_type
        if facts is not metadata:
            add_facts(metadata, facts)

    def improve(self, hit: SearchHit, position: int, better: BetterPath) -> SearchHit:
        """Return a copy of a hit that has the score of a better path, and that path."""
        record, fields = self._record, dict(hit.metadata)
        # A seed that the policy wrote stays.
        if record.depths[position] and get_fact(fields, "seed") == self._seed_names[self._paths[position][0]]:
            _forget(fields, "seed")
        _forget(fields, "walk_edge")
        depth = record.depths[better.parent] + 1
        self._write(fields, record.ids[position], depth, better.parent, better.edge_type)
        return replace(hit, score=better.score, metadata=fields)


def _forget(metadata: dict[str, Any], fact: str) -> None:
    """Remove a fact from the metadata of a hit; a field of the author stays."""
    if fact in metadata.get(FACTS, ()):
        add_facts(metadata, {fact: None})
    else:
        metadata.pop(fact, None)

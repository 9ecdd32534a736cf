"""The provenance of hits: how the walk reached each of them."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import repeat
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.values import HitBatch, SearchHit
from airw.values.hits import FACTS, add_facts, get_fact
from airw.walking.committed import CommittedNodes
from airw.walking.found_again import BetterPath
from airw.walking.policy import Policy, WalkPolicy
from airw.walking.record import WalkRecord
from airw.walking.slips import find_edge

_PATH_DEPTH = 64  # deeper hits have no `walk_path`: in a chain of n nodes all paths have n * n / 2 ids


Origin: TypeAlias = tuple[Hashable, int, int, Hashable | None, str | None]
"""How a walk reached a node: its id, its depth, the position and the id of its parent, the type of its edge."""


class Provenance:
    """The paths from the seeds to the committed nodes, as far as hits contain them."""

    def __init__(self, policy: WalkPolicy, record: WalkRecord) -> None:
        """Start without paths."""
        self._policy, self._record = policy, record
        self._paths: dict[int, tuple[Hashable, ...]] = {}  # by position; below `_PATH_DEPTH` the seed alone
        self._seed_names: dict[Hashable, Any] = {}  # what hits call their seed, by its id

    def annotate(
        self, committed: CommittedNodes, hits: Sequence[SearchHit | None], edge_types: Sequence[str | None] | None
    ) -> None:
        """Write into the metadata of hits how the walk reached them.

        The fields are `walk_depth`, `walk_parent`, `walk_path`, `walk_edge` and `seed`.

        Args:
            committed: The nodes of the hits.
            hits: One hit per node; `None` for a router.
            edge_types: The type of the edge that led to each node; `None` if `edge_of` of the policy has to be asked.

        Raises:
            PolicyError: If one is not a hit.
        """
        for hit in hits:
            if hit is not None and not _is_usable(hit):
                raise PolicyError(
                    f"{type(self._policy).__name__}.to_hits returned {short_repr(hit)}; "
                    "return SearchHit values with a metadata dict and a number as score, or None"
                )
        for row, id in self._seeds_of(committed):
            seed = hits[row]
            self._name_seed(id, None if seed is None else seed.key)
        asks_edge = edge_types is None and getattr(self._policy.edge_of, "__func__", None) is not Policy.edge_of
        nodes, rows = committed.nodes, [row for row, hit in enumerate(hits) if hit is not None]
        metadata = [hit.metadata for hit in hits if hit is not None]
        _Origins(self, self._record, committed, edge_types).write(rows, metadata)
        for row, fields in zip(rows, metadata, strict=True) if asks_edge else ():
            edge = find_edge(self._policy, nodes[row])
            if edge is not None:
                add_facts(fields, {"walk_edge": edge.type})

    def annotate_batch(
        self, committed: CommittedNodes, hits: HitBatch, edge_types: Sequence[str | None] | None
    ) -> HitBatch:
        """Return hits into whose metadata the same is written when they are looked at."""
        for row, id in self._seeds_of(committed):
            artifact_id = hits.artifact_ids[row]
            self._name_seed(id, None if artifact_id is None else (hits.source_of(row), artifact_id))
        return hits.add_metadata(_Origins(self, self._record, committed, edge_types).write)

    def improve(self, hit: SearchHit, position: int, better: BetterPath) -> SearchHit:
        """Return a copy of a hit that has the score of a better path, and that path."""
        record, fields = self._record, dict(hit.metadata)
        id, parent_id = record.ids_at(np.array([position, better.parent]))
        depth_above, old_depth = record.depths_at(np.array([better.parent, position])).tolist()
        # A seed that the policy wrote stays.
        if old_depth and get_fact(fields, "seed") == self.name_of_seed(self.path_to(position, id, old_depth)[0]):
            _forget(fields, "seed")
        _forget(fields, "walk_edge")
        self.write([(id, depth_above + 1, better.parent, parent_id, better.edge_type)], [fields])
        return replace(hit, score=better.score, metadata=fields)

    def _seeds_of(self, committed: CommittedNodes) -> list[tuple[int, Hashable]]:
        """Return the rows and the ids of those nodes that are seeds."""
        if np.minimum.reduce(committed.positions) >= self._record.seed_count:
            return []
        rows, ids = np.flatnonzero(committed.positions < self._record.seed_count).tolist(), committed.ids
        return [(row, ids[row]) for row in rows]

    def _name_seed(self, id: Hashable, key: tuple[str | None, str] | None) -> None:
        """Remember what hits call a seed: its artifact, if it is a hit.

        Among several corpora an id alone does not identify an artifact, so the seed keeps its whole key. An id that is
        no tuple is no key; numpy would compare it with each part of the key.
        """
        is_key = key is None or (isinstance(id, tuple) and key == id)
        self._seed_names[id] = id if key is None or is_key else key[1]

    def name_of_seed(self, id: Hashable) -> Any:
        """Return what hits call a seed."""
        return self._seed_names[id]

    def write(self, origins: Sequence[Origin], metadata: Sequence[dict[str, Any]]) -> None:
        """Write into the metadata of hits how the walk reached their nodes."""
        path_to, name_of_seed = self.path_to, self.name_of_seed
        for (id, depth, parent, parent_id, edge_type), fields in zip(origins, metadata, strict=True):
            path_above = path_to(parent, parent_id, depth - 1) if depth else ()
            facts: dict[str, Any] = {"walk_depth": depth, "walk_parent": parent_id}
            if depth <= _PATH_DEPTH:
                facts["walk_path"] = [*path_above, id]
            if depth and get_fact(fields, "seed") is None:  # a policy may have written a seed of its own
                facts["seed"] = name_of_seed(path_above[0])
            if edge_type is not None:
                facts["walk_edge"] = edge_type
            add_facts(fields, facts)

    def path_to(self, position: int, id: Hashable | None, depth: int) -> tuple[Hashable, ...]:
        """Return the ids from the seed to a node, or the seed alone if there are many.

        They are kept, for the nodes that were reached from this one.
        """
        path = self._paths.get(position)
        if path is None:
            above = self._paths.get(self._record.parent_at(position))
            if above is None:
                path = self._climb(position, depth)
            else:
                path = (*above, id) if depth <= _PATH_DEPTH else above[:1]
            self._paths[position] = path
        return path

    def _climb(self, position: int, depth: int) -> tuple[Hashable, ...]:
        """Return the path to a node from its parents."""
        climbed, top = [], position
        while top >= 0 and top not in self._paths:
            climbed.append(top)
            top = self._record.parent_at(top)
        path = (*self._paths.get(top, ()), *self._record.ids_at(np.array(climbed[::-1], np.intp)))
        return path if depth <= _PATH_DEPTH else path[:1]


def _forget(metadata: dict[str, Any], fact: str) -> None:
    """Remove a fact from the metadata of a hit; a field of the author stays."""
    if fact in metadata.get(FACTS, ()):
        add_facts(metadata, {fact: None})
    else:
        metadata.pop(fact, None)


def _is_usable(hit: object) -> bool:
    """Return whether a value is a hit whose metadata and score have the right types."""
    if not isinstance(hit, SearchHit):
        return False
    metadata, score = hit.metadata, hit.score
    return isinstance(metadata, dict) and (type(score) is float or isinstance(score, Real))  # a float is checked fast


class _Origins:
    """How the walk reached the nodes of one slice."""

    __slots__ = ("_committed", "_edge_types", "_provenance", "_record", "_rows")

    def __init__(
        self,
        provenance: Provenance,
        record: WalkRecord,
        committed: CommittedNodes,
        edge_types: Sequence[str | None] | None,
    ) -> None:
        self._provenance, self._record, self._committed = provenance, record, committed
        self._edge_types = edge_types
        self._rows: list[Origin] | None = None

    def write(self, rows: Sequence[int], metadata: Sequence[dict[str, Any]]) -> None:
        """Write how the walk reached the nodes of some rows into the metadata of their hits."""
        if self._rows is None:
            self._rows = self._read_rows()
        self._provenance.write([self._rows[row] for row in rows], metadata)

    def _read_rows(self) -> list[Origin]:
        nodes, record = self._committed, self._record
        parents, edge_types = record.parents_at(nodes.positions).tolist(), self._edge_types
        columns = (nodes.ids, nodes.depths.tolist(), parents, nodes.parents)
        return list(zip(*columns, repeat(None, len(parents)) if edge_types is None else edge_types, strict=True))

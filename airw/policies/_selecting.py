"""What the three strategies of graph-retriever share: how many to start from, to admit a step, and to select."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_count
from airw.policies._artifacts import ArtifactNode, best_of, cosines, verdict
from airw.policies._walker import ArtifactWalker
from airw.protocols import OpenCorpus
from airw.walking import Entry, Frontier, WalkState


@dataclass(frozen=True, kw_only=True)
class Selecting(ArtifactWalker):
    """Starts from a search, admits the nearest of what each step finds, and selects among the admitted.

    What was found and not admitted waits, with `edges`, for another way to it, and keeps the least depth at which it
    was found, as in graph-retriever; with links it is forgotten until then.
    """

    select_k: int | None = 5
    start_k: int = 4
    adjacent_k: int | None = 10
    max_traverse: int | None = None

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        super().__post_init__()
        for name in ("select_k", "start_k", "adjacent_k", "max_traverse"):
            value = getattr(self, name)
            if value is not None or name == "start_k":
                check_count(name, value)

    async def seed(self, state: WalkState, store: OpenCorpus) -> list[ArtifactNode]:
        """Search for the start; one search, and the roots."""
        return await self._start(state, store, self.start_k)

    async def expand(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[list[ArtifactNode]]:
        """Give the artifacts behind each one, as long as `max_traverse` lasts; one store call."""
        crossed = [entry for entry in committed if verdict(state, entry.id).cross]
        if self.max_traverse is not None:
            crossed = crossed[: self.max_traverse - state.cache.get("crossed", 0)]
            state.cache["crossed"] = state.cache.get("crossed", 0) + len(crossed)
        found = dict(zip((entry.id for entry in crossed), await super().expand(state, crossed, store), strict=True))
        return [found.get(entry.id, []) for entry in committed]

    def _admitted(self, state: WalkState, frontier: Frontier) -> NDArray[np.intp]:
        """Give the positions let in at this step: the whole start as it was found, then the `adjacent_k` nearest."""
        live = self._open(state, frontier)
        fresh = live[live >= frontier.fresh.start].tolist()
        if not state.visited:
            return np.array(fresh, np.intp)
        outside: dict[Any, int] = state.cache.setdefault("outside", {})
        found = state.cache.pop("found", {})
        new = {id: outside.pop(id) for id in found if id in outside} | {frontier.ids[at]: at for at in fresh}
        positions = np.array(sorted(new.values()), np.intp)
        ids = [frontier.ids[at] for at in positions.tolist()]
        order = np.argsort(-cosines(state, ids), kind="stable")
        room = self._room(state, found, new)
        rest = order[len(order) if room is None else room :].tolist()
        if self.edges is not None:
            outside.update((ids[at], int(positions[at])) for at in rest)
        elif self.keeps_frontier:
            frontier.drop(positions[rest].tolist())
        return positions[order[:room]]

    def _room(self, state: WalkState, found: Iterable[Any], new: Container[Any]) -> int | None:
        """Say how many of those found are let in; with `edges`, those known before take places too."""
        if self.adjacent_k is None or self.edges is None:
            return self.adjacent_k
        best = best_of(state)
        known = [id for id in found if id in best]
        ids = [id for id, is_out in zip(known, self._are_shut(state, known), strict=True) if not is_out]
        nearest = np.argsort(-cosines(state, ids), kind="stable")[: self.adjacent_k]
        return sum(ids[at] in new for at in nearest.tolist())

    def _rest(self, state: WalkState, frontier: Frontier) -> list[int]:
        """Choose nothing more: what was not let in waits no longer."""
        frontier.drop(state.cache.pop("outside", {}).values())
        return []

    def _expect(self, state: WalkState, chosen: Iterable[Any]) -> None:
        """Note how many hits are out when this step is."""
        best = best_of(state)
        due = sum(best[id][0] is not None and verdict(state, id).keep for id in chosen)
        state.cache["due"] = len(state.results) + due

    def _has_step(self, state: WalkState) -> bool:
        """Say whether `select_k` hits are out, and with them all hits of the step."""
        return self._has_enough(state) and len(state.results) >= state.cache["due"]

    def _has_enough(self, state: WalkState) -> bool:
        """Say whether `select_k` hits are out."""
        return self.select_k is not None and len(state.results) >= self.select_k

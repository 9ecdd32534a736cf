"""The links of many artifacts as columns of numbers, filtered and ordered by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import offload_if
from airw.links.inverses import FollowedLinks
from airw.protocols import EdgeLabel, Store, ask
from airw.values import Edge

Numbers: TypeAlias = NDArray[np.int64]

_MANY = 500  # links; turning more into columns, or sorting them by name, takes about a millisecond


@dataclass(frozen=True, slots=True, eq=False)
class LinkColumns:
    """Links of artifacts, as columns with one entry per link.

    Args:
        owners: The artifact whose links were read, `(n,) int64`; the links of one artifact stand in a row.
        ends: The artifact at the other end.
        labels: The position of the label of the link in the table of the reader.
    """

    owners: Numbers
    ends: Numbers
    labels: NDArray[np.int32]

    def select(self, which: NDArray[Any] | slice) -> "LinkColumns":
        """Return the links at these positions, or those that a mask selects."""
        return LinkColumns(self.owners[which], self.ends[which], self.labels[which])

    def select_in_rows(self, mask: NDArray[np.bool_], offsets: Numbers) -> "tuple[LinkColumns, Numbers]":
        """Return the links that a mask selects, and where the row of each artifact begins now."""
        return self.select(mask), np.concatenate([[0], np.cumsum(mask)])[offsets]

    def find_rows(self) -> NDArray[np.intp]:
        """Return the position at which the row of each link begins."""
        is_first = np.ones(len(self.owners), np.bool_)
        is_first[1:] = self.owners[1:] != self.owners[:-1]
        return np.maximum.accumulate(np.where(is_first, np.arange(len(self.owners)), 0))

    @classmethod
    def join(cls, parts: Sequence["LinkColumns"]) -> "LinkColumns":
        """Return the links of all parts, of which there is at least one, in a row."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*((part.owners, part.ends, part.labels) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))


class LinkColumnReader:
    """Reads the links of whole steps of a walk or a search.

    Links are filtered by the name that they have in the direction in which they are followed. Those of an artifact are
    ordered by this name, then by the artifact at the other end, out before in, then by origin.

    Artifacts are numbered when they are met.

    Args:
        store: The store to read from.
        links: The links to follow, and their names in each direction.
        node_key: A function that returns what artifacts are sorted by.

    Attributes:
        nodes: The artifacts, by number.

    Example:
        >>> import anyio
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     async with MemoryStore() as store:
        ...         reader = LinkColumnReader(store, FollowedLinks(), lambda id: id)
        ...         links, _ = await reader.read(reader.find_numbers(["a"]))
        ...         print(reader.nodes, links.ends.tolist())
        >>> anyio.run(main)
        ['a'] []
    """

    def __init__(self, store: Store, links: FollowedLinks, node_key: Callable[[Any], Any]) -> None:
        self._store, self._links, self._node_key = store, links, node_key
        self.nodes: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._label_table: list[EdgeLabel] = []
        self._label_numbers: dict[EdgeLabel, int] = {}
        # By direction, then by label: whether links are followed, their names, and whether these differ from the types.
        self._is_followed: dict[bool, NDArray[np.bool_]] = {}
        self._names: dict[bool, list[str]] = {}
        self._is_renamed: dict[bool, NDArray[np.bool_]] = {}

    def find_numbers(self, ids: Sequence[Any]) -> Numbers:
        """Return the numbers of artifacts."""
        return np.array([_find_number(id, self._numbers, self.nodes) for id in ids], np.int64)

    async def read(self, numbers: Numbers, *, is_backward: bool = False) -> tuple[LinkColumns, Numbers]:
        """Return the links that lead on from each artifact; one store call.

        With `is_backward`, these are the links that lead to it.

        Returns:
            The links, and where those of each artifact begin and end: `(len(numbers) + 1,) int64`.
        """
        ids = [self.nodes[number] for number in numbers.tolist()]
        edges = await ask(self._store, self._links.ask(ids, is_backward=is_backward))
        ends, labels = await offload_if(sum(map(len, edges)) > _MANY, self._to_columns, ids, edges)
        if is_backward not in self._names or len(self._names[is_backward]) < len(self._label_table):
            self._name_labels(is_backward=is_backward)
        offsets = np.cumsum([0, *map(len, edges)])
        links = LinkColumns(np.repeat(numbers, np.diff(offsets)), ends, labels)
        is_followed = self._is_followed[is_backward]
        if not is_followed.all():
            links, offsets = links.select_in_rows(is_followed[links.labels], offsets)
        # A store orders links by their types. Often these are the names.
        is_renamed = self._is_renamed[is_backward]
        if is_renamed.any() and is_renamed[links.labels].any():
            links = await offload_if(len(links.ends) > _MANY, self._sort, links, is_backward)
        return links, offsets

    def _to_columns(self, ids: Sequence[Any], edges: Sequence[Sequence[Edge]]) -> tuple[Numbers, NDArray[np.int32]]:
        """Return the other ends and the labels of edges as numbers."""
        ends, labels = list[int](), list[int]()
        for id, row in zip(ids, edges, strict=True):
            for edge in row:
                is_incoming = edge.source != id
                other = edge.source if is_incoming else edge.target
                # In one corpus ids are strings, and the artifacts of other corpora are pairs.
                label = EdgeLabel(edge.type, edge.origin, is_incoming, type(other) is not type(id), edge.weight)
                ends.append(_find_number(other, self._numbers, self.nodes))
                labels.append(_find_number(label, self._label_numbers, self._label_table))
        return np.array(ends, np.int64), np.array(labels, np.int32)

    def _name_labels(self, *, is_backward: bool) -> None:
        labels, follow = list(self._label_table), self._links
        names = [follow.name_of_type(label.type, is_against=label.is_incoming != is_backward) for label in labels]
        pairs = list(zip(names, labels, strict=True))
        # Links that lead out of the corpus are not followed.
        followed = [not label.is_foreign and follow.accepts_name(name, label.origin) for name, label in pairs]
        self._is_followed[is_backward] = np.array(followed, np.bool_)
        self._is_renamed[is_backward] = np.array([name != label.type for name, label in pairs], np.bool_)
        self._names[is_backward] = names

    def _sort(self, links: LinkColumns, is_backward: bool) -> LinkColumns:  # noqa: FBT001 - for `offload_if`
        """Return the links of each artifact in the order of their names."""
        names, keys = self._names[is_backward], []
        for row, end, number in zip(
            links.find_rows().tolist(), links.ends.tolist(), links.labels.tolist(), strict=True
        ):
            label = self._label_table[number]
            is_against = label.is_incoming != is_backward
            keys.append((row, names[number], self._node_key(self.nodes[end]), is_against, label.origin, label.type))
        return links.select(np.array(sorted(range(len(keys)), key=keys.__getitem__), np.intp))

    def find_types(self, links: LinkColumns, positions: NDArray[np.intp]) -> list[str]:
        """Return the types of the links at some positions."""
        return [self._label_table[label].type for label in links.labels[positions].tolist()]

    def make_edges(self, links: LinkColumns, positions: NDArray[np.intp]) -> list[Edge]:
        """Return the stored edges at some positions."""
        columns = (column[positions].tolist() for column in (links.owners, links.ends, links.labels))
        return [self._make_edge(*row) for row in zip(*columns, strict=True)]

    def _make_edge(self, owner: int, end: int, label: int) -> Edge:
        type, origin, is_incoming, _, weight = self._label_table[label]
        source, target = (end, owner) if is_incoming else (owner, end)
        return Edge(self.nodes[source], self.nodes[target], type, origin, weight)


def _find_number(item: Any, numbers: dict[Any, int], items: list[Any]) -> int:
    """Return the number of an item; a new one gets the next number."""
    number = numbers.setdefault(item, len(items))
    if number == len(items):
        items.append(item)
    return number

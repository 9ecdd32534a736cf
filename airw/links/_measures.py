"""What a graph's numbers are: how unequal, how near, how alike; sampled where all would be too much."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.concurrency import in_thread
from airw.errors import EmbedderMismatch
from airw.links._structure import EdgeTable, Ints, Slices
from airw.protocols import Store

__all__ = ["Cosines", "Surroundings", "cosines_of", "gini", "gold_linkage", "quantiles", "reach", "surroundings"]

_QUANTILES = {"min": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "max": 1.0}
_PAIRS = 1_000  # sampled of each kind: the error of the mean is then a thirtieth of the spread
_STARTS = 200
_AT_ONCE = 50  # pairs whose vectors are held together, as an artifact may have thousands
_TRIES = 10  # at pairs that are not linked, for each one wanted


class Surroundings(NamedTuple):
    """The neighbours of each artifact, whichever way links lead: all one after another, and the bounds of each."""

    flat: Ints
    bounds: Ints

    def of(self, place: int) -> Ints:
        """Give the neighbours of one artifact."""
        return self.flat[self.bounds[place] : self.bounds[place + 1]]

    def within_two(self, place: int) -> Ints:
        """Give what is one or two hops away, without the artifact itself."""
        near = self.of(place)
        found = np.unique(np.concatenate([near, *map(self.of, near.tolist())]))
        others: Ints = found[found != place]
        return others


class Cosines(NamedTuple):
    """How alike artifacts are, by their most alike records: linked ones, and random ones; in all `(n,) float64`."""

    linked: NDArray[np.float64]
    random: NDArray[np.float64]


def surroundings(table: EdgeTable) -> Surroundings:
    """Turn edges into neighbours, each once."""
    pairs = np.unique(
        np.stack([np.r_[table.sources, table.targets], np.r_[table.targets, table.sources]]).astype(np.int64), axis=1
    )
    bounds = np.searchsorted(pairs[0], np.arange(len(table.ids) + 1))
    return Surroundings(pairs[1].astype(np.int32), bounds.astype(np.int32))


def quantiles(degrees: NDArray[Any]) -> dict[str, float]:
    """Give the spread of degrees, by name; values that occur."""
    if not len(degrees):
        return dict.fromkeys(_QUANTILES, 0.0)
    values = np.quantile(degrees, list(_QUANTILES.values()), method="inverted_cdf")
    return dict(zip(_QUANTILES, values.astype(float).tolist(), strict=True))


def gini(counts: NDArray[Any]) -> float:
    """Give how unequal counts are: 0 where all are equal, nearly 1 where one has everything (Gini, 1912)."""
    total = int(counts.sum())
    if not total:
        return 0.0
    ranks = np.arange(1, len(counts) + 1)
    return float((2 * ranks - len(counts) - 1) @ np.sort(counts) / (len(counts) * total))


def reach(near: Surroundings, count: int, rng: np.random.Generator) -> Slices[float]:
    """Give the share of the other artifacts that are within two hops of a random one, on average."""
    if count < 2:
        return 0.0
    starts = rng.choice(count, min(count, _STARTS), replace=False)
    total = 0
    for start in starts.tolist():
        total += len(near.within_two(start))
        yield
    return total / (len(starts) * (count - 1))


def gold_linkage(near: Surroundings, gold: Sequence[Sequence[int]]) -> Slices[tuple[int, int, int]]:
    """Count the pairs in sets of artifacts: all, those that are linked, and those that are within two hops."""
    pairs = linked = close = 0
    for places in (np.unique(np.array(each, np.int32)) for each in gold):
        for at, one in enumerate(places.tolist()):
            others = places[at + 1 :]
            pairs += len(others)
            linked += int(np.isin(others, near.of(one)).sum())
            close += int(np.isin(others, near.within_two(one)).sum())
            yield
    return pairs, linked, close


async def cosines_of(store: Store, table: EdgeTable, rng: np.random.Generator) -> Cosines:
    """Compare linked artifacts with random ones; none of either where they have no vectors in common.

    Random pairs are made of the two ends of different links, so that both kinds are of equally large, equally linked
    artifacts: whoever has more records is more like anything.
    """
    linked, random = await in_thread(_samples, table, rng)
    try:
        return Cosines(await _compared(store, table.ids, linked), await _compared(store, table.ids, random))
    except EmbedderMismatch:  # of several corpora whose embedders differ
        return Cosines(np.empty(0), np.empty(0))


def _samples(table: EdgeTable, rng: np.random.Generator) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    count = len(table.sources)
    chosen = rng.choice(count, min(count, _PAIRS), replace=False)
    linked = list(zip(table.sources[chosen].tolist(), table.targets[chosen].tolist(), strict=True))
    ends = zip(*(rng.integers(count, size=len(linked) * _TRIES) for _ in "ab"), strict=True) if count else ()
    drawn = dict.fromkeys((int(table.sources[one]), int(table.targets[other])) for one, other in ends)
    known = _linked_among(table, drawn)
    return linked, [pair for pair in drawn if pair[0] != pair[1] and pair not in known][: len(linked)]


def _linked_among(table: EdgeTable, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Give those pairs that a link connects, one way or the other."""
    flat, bounds = table.rows()

    def leads(one: int, other: int) -> bool:
        row = flat[bounds[one] : bounds[one + 1]]
        at = int(np.searchsorted(row, other))
        return at < len(row) and row[at] == other

    return {(one, other) for one, other in pairs if leads(one, other) or leads(other, one)}


async def _compared(store: Store, ids: Sequence[Any], pairs: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    found: list[float] = []
    for at in range(0, len(pairs), _AT_ONCE):
        page = pairs[at : at + _AT_ONCE]
        places = list(dict.fromkeys(place for pair in page for place in pair))
        records, rows = await store.vectors_of([ids[place] for place in places])
        bounds = np.cumsum([0, *map(len, records)]).tolist()
        spans = dict(zip(places, pairwise(bounds), strict=True))
        found += await in_thread(_best_cosines, page, spans, rows)
    return np.array(found, np.float64)


def _best_cosines(pairs: Sequence[tuple[int, int]], spans: Mapping[int, tuple[int, int]], rows: Floats) -> list[float]:
    """Give the largest cosine of each pair; none for one where either has no vector but zeros."""
    best = []
    for pair in pairs:
        one, other = (rows[slice(*spans[place])] for place in pair)
        if one.any() and other.any():
            best.append(float((one @ other.T).max()))
    return best

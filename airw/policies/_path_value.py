"""The rule by which `PathCoverage` values paths and orders artifacts, in arrays."""

from dataclasses import dataclass

import numpy as np

from airw._base.arrays import NDArray

Values = NDArray[np.float64]


def share_of(held: NDArray[np.bool_], weights: Values) -> Values:
    """Return the share of a query's words that each path holds, `(n,)` from 0 to 1.

    Args:
        held: Which words the texts of each path hold together, `(n, words)`.
        weights: The weight of each word, `(words,)`.

    Example:
        >>> share_of(np.array([[True, False], [True, True]]), np.array([1.0, 3.0])).tolist()
        [0.25, 1.0]
    """
    total = weights.sum()
    shares: Values = held @ weights / total if total else np.zeros(len(held))
    return shares


def keep_order(values: Values) -> Values:
    """Return the values in falling order, for hits in the order of a search.

    The i-th hit gets the i-th largest value. So the hits keep their order, and still compete with paths on one scale.

    Example:
        >>> keep_order(np.array([0.4, 0.9, 0.6])).tolist()
        [0.9, 0.6, 0.4]
    """
    falling: Values = -np.sort(-values)
    return falling


@dataclass(frozen=True, slots=True, eq=False)
class PathPool:
    """The artifacts that compete, and the links between them.

    Args:
        scores: The score of each hit of the search, `(n,)`; `-inf` for an artifact that only links lead to.
        names: Which names of the query the text of each artifact holds, `(n, names) bool`.
        name_weights: What each name adds to the first artifact that holds it, `(names,)`.
        leads: The row of the artifact at the start of each link, `(m,) intp`.
        ends: The row of the artifact at its end.
        values: The value of the path that ends with it.
    """

    scores: Values
    names: NDArray[np.bool_]
    name_weights: Values
    leads: NDArray[np.intp]
    ends: NDArray[np.intp]
    values: Values

    def order(self, count: int | None = None) -> list[int]:
        """Return the rows in their final order; with `count`, the first of them only.

        This is greedy maximum coverage (Nemhauser, Wolsey and Fisher, 1978). The next artifact is always the one with
        the largest sum: its best score, and the weights of the names that none before it holds. The first path from a
        lead also gets half of what the lead added by its names, as the mean of its two ends. So if a query compares two
        things, what lies behind each of them finds a place. Ties are in the order of the rows.

        Example:
            >>> names = np.array([[True, False], [True, False], [False, True]])
            >>> none = np.empty(0, np.intp)
            >>> scores, weights = np.array([0.9, 0.8, 0.7]), np.array([0.2, 0.2])
            >>> PathPool(scores, names, weights, none, none, np.empty(0)).order()
            [0, 2, 1]
        """
        missing, brought = self.name_weights.copy(), np.zeros(len(self.scores))
        waits, was_followed = np.ones(len(self.scores), np.bool_), np.zeros(len(self.scores), np.bool_)
        rows: list[int] = []
        for _ in range(len(self.scores) if count is None else min(count, len(self.scores))):
            # 1. The best way to each artifact: as a hit of the search, or by a link.
            values = self.values + np.where(was_followed, 0.0, brought / 2)[self.leads]
            best = self.scores.copy()
            np.maximum.at(best, self.ends, values)
            # 2. Add the names that no artifact so far holds, and take the best.
            added = self.names @ missing
            row = int(np.argmax(np.where(waits, best + added, -np.inf)))
            if best[row] > self.scores[row]:
                link = int(np.flatnonzero((self.ends == row) & (values == best[row]))[0])
                was_followed[self.leads[link]] = True
            # 3. What it holds is no longer missing.
            brought[row] = added[row]
            missing[self.names[row]] = 0.0
            waits[row] = False
            rows.append(row)
        return rows

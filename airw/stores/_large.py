"""Vector search in a file too large for one matrix: rows found by indexes, scores computed from the file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from airw._base.arrays import Floats
from airw._base.vectors import exact_scores
from airw.protocols import ArtifactVectors, BestRecords
from airw.stores._matrix import checked_queries
from airw.stores._nearby import Nearby
from airw.stores._packing import unpacked
from airw.stores._segments import SHORTLIST
from airw.stores._sql_filter import Sql
from airw.stores._sql_links import keys_json, set_json
from airw.values import Ranking

if TYPE_CHECKING:
    import sqlite3

Row: TypeAlias = tuple[float, str, int, str]  # minus the score, artifact id, surface index, record id: as they sort

_BLOCK = 4096  # rows read at a time
_DEEPER = 8  # times as many candidates when too few passed the filter
_DEEPEST = 4096  # candidates; beyond that all rows are compared


@dataclass(frozen=True, slots=True)
class LargeIndex:
    """The vectors of one state of a file, asked as a `DenseIndex` is.

    Scores are exact, and what is found is nearly so: candidates come from `nearby` and are scored again. They are
    filtered then. Where too few pass, more are asked for, and in the end every row of the file is compared, so that a
    filter that keeps few rows, or none near the query, is answered exactly.
    """

    connection: "sqlite3.Connection"
    nearby: Nearby

    def search(
        self,
        queries: Floats,
        k: int,
        *,
        allowed: Sql | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Rank for each query the best `k` records, or artifacts; `allowed` is a condition on `record`."""
        queries = checked_queries(queries, self.nearby.dim)
        conditions = [each for each in (allowed, _of_kinds(surfaces)) if each]
        ranked = [self._rank(query, k, conditions, per_artifact=per_artifact) for query in queries]
        return [
            Ranking([row[3] for row in rows], [row[1] for row in rows], np.array([-row[0] for row in rows], np.float64))
            for rows in ranked
        ]

    def _rank(self, query: Floats, k: int, conditions: Sequence[Sql], *, per_artifact: bool) -> list[Row]:
        if k < 1:
            return []
        wanted = max(SHORTLIST, 4 * k)
        while wanted <= _DEEPEST:
            these = _one_of("record.rowid", json.dumps(self.nearby.nearest(query, wanted).tolist()))
            # Twice as many must pass: what lies just behind the cut is not certain to have been found.
            rows = self._best(query, 2 * k, [these, *conditions], per_artifact=per_artifact)
            if len(rows) == 2 * k:
                return rows[:k]
            wanted *= _DEEPER
        return self._best(query, k, conditions, per_artifact=per_artifact)

    def _best(self, query: Floats, k: int, conditions: Sequence[Sql], *, per_artifact: bool) -> list[Row]:
        """Compare all rows that satisfy the conditions."""
        where = " AND ".join(["1", *(f"({sql})" for sql, _ in conditions)])
        found = self.connection.execute(
            f"""SELECT artifact_id, idx, id, data, sum FROM record JOIN vector ON vector.rowid = record.rowid
            WHERE {where}""",
            [value for _, values in conditions for value in values],
        )
        best: list[Row] = []
        while block := found.fetchmany(_BLOCK):
            artifact_ids, indexes, ids, *stored = zip(*block, strict=True)
            scores = exact_scores(unpacked(*stored), query)
            best += zip((-scores).tolist(), artifact_ids, indexes, ids, strict=True)
            best.sort()
            best = (_first_of_each(best) if per_artifact else best)[:k]
        return best

    def similarities(self, query: Floats, ids: Sequence[str]) -> Floats:
        """Give the score of each record for `query` `(dim,)`: `(n,) float32`, NaN where there is no such record."""
        query = checked_queries(query[None], self.nearby.dim)[0]
        places, vectors = self._read(ids)
        scores = np.full(len(ids), np.nan, np.float32)
        scores[places] = exact_scores(vectors, query)
        return scores

    def best_of(self, query: Floats, artifact_ids: Sequence[str], surfaces: Sequence[str] | None = None) -> BestRecords:
        """Give for each artifact the id and score of its best record; `None` and NaN where it has none."""
        query = checked_queries(query[None], self.nearby.dim)[0]
        conditions = [_one_of("record.artifact_id", set_json(artifact_ids))]
        conditions += [each for each in (_of_kinds(surfaces),) if each]
        rows = self._best(query, len(artifact_ids), conditions, per_artifact=True)
        best = {artifact_id: (record_id, -score) for score, artifact_id, _, record_id in rows}
        found = [best.get(each, (None, np.nan)) for each in artifact_ids]
        scores = np.array([score for _, score in found], np.float32)
        return BestRecords([record_id for record_id, _ in found], scores)

    def vectors(self, ids: Sequence[str]) -> Floats:
        """Give the vector of each record: `(n, dim) float32`, a row of NaN where there is no such record."""
        places, vectors = self._read(ids)
        found = np.full((len(ids), self.nearby.dim or 0), np.nan, np.float32)
        found[places] = vectors
        return found

    def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Give the record ids of each artifact in plan order, and all their vectors in that order."""
        ids: list[list[str]] = [[] for _ in artifact_ids]
        rows = self.connection.execute(
            """SELECT asked.key, record.id, data, sum FROM json_each(?) AS asked
            JOIN record ON record.artifact_id = asked.value JOIN vector ON vector.rowid = record.rowid
            ORDER BY asked.key, record.rowid""",
            [keys_json(artifact_ids)],
        )
        blocks = [np.empty((0, self.nearby.dim or 0), np.float32)]
        while block := rows.fetchmany(_BLOCK):
            places, record_ids, *stored = zip(*block, strict=True)
            for place, record_id in zip(places, record_ids, strict=True):
                ids[place].append(record_id)
            blocks.append(unpacked(*stored))
        return ArtifactVectors(ids, np.concatenate(blocks))

    def _read(self, ids: Sequence[str]) -> tuple[list[int], Floats]:
        """Give the places, among those asked for, of the records that exist, and their vectors."""
        rows = self.connection.execute(
            """SELECT asked.key, data, sum FROM json_each(?) AS asked JOIN record ON record.id = asked.value
            JOIN vector ON vector.rowid = record.rowid""",
            [keys_json(ids)],
        ).fetchall()
        if not rows:
            return [], np.empty((0, self.nearby.dim or 0), np.float32)
        places, *stored = zip(*rows, strict=True)
        return list(places), unpacked(*stored)


def _one_of(column: str, values: str) -> Sql:
    return f"{column} IN (SELECT value FROM json_each(?))", [values]


def _of_kinds(surfaces: Sequence[str] | None) -> Sql | None:
    return None if surfaces is None else _one_of("record.kind", set_json(surfaces))


def _first_of_each(rows: Sequence[Row]) -> list[Row]:
    """Give the first row of each artifact."""
    firsts: dict[str, Row] = {}
    for row in rows:
        firsts.setdefault(row[1], row)
    return list(firsts.values())

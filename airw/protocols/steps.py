"""The protocol of stores that read all that a step of a walk needs in one call."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from airw._base.arrays import Floats
from airw.protocols.stores import ArtifactVectors, BestRecords, EdgeReader
from airw.values import Direction, Edge, Record


class StepAnswer(NamedTuple):
    """What a store has read for a step of a walk.

    Args:
        edges: The edges of each artifact, as `neighbors` returns them.
        artifact_ids: The artifacts that were compared with the query, without duplicates: those of `hit_ids`,
            then the ends.
        best: The best record of each of them and its cosine, as `best_of` returns them. Without a query this is the
            first record, and the score is NaN.
        records: These records; `None` for an artifact without one, and for an end that is not near enough.
        vectors: Their vectors, as `vectors_of` returns them; `None` if they were not asked for.
    """

    edges: list[list[Edge]]
    artifact_ids: list[str]
    best: BestRecords
    records: list[Record | None]
    vectors: ArtifactVectors | None


@runtime_checkable
class StepReader(EdgeReader, Protocol):
    """Reads all that a step of a walk needs in one call.

    If a store has this capability, a step of a walk costs one call instead of three: for edges, scores and records.
    That pays for a store on a server, where each call is a round trip. In a store on the same machine, the first hit
    would only wait for what is read with it.
    """

    async def read_step(
        self,
        ids: Sequence[str],
        query: Floats | None,
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
        hit_ids: Sequence[str] = (),
        known_ids: Sequence[str] = (),
        max_ends: int = 0,
        max_records: int = 0,
        with_vectors: bool = False,
    ) -> StepAnswer:
        """Return the edges of artifacts, and the best records of these and of the other ends.

        The ends are the artifacts of this corpus at the other ends of the edges, in the order of the edges. All numbers
        come from one state of the store.

        Args:
            ids: The artifacts whose edges to read.
            query: `(dim,) float32`; `None` for the first record of each artifact instead of the best one.
            direction: As in `neighbors`, like the next four.
            types: The edge types to include; `None` for all.
            exclude: The edge types to omit.
            origins: The origins to include; `None` for all.
            limit: The largest number of edges per artifact.
            hit_ids: Artifacts to compare with the query; their records are in the answer.
            known_ids: Artifacts that are not to be compared if they are ends.
            max_ends: The largest number of ends to compare.
            max_records: The largest number of records of ends per artifact of `ids`. Those of its nearest ends count;
                ties in the order of the edges. Without a query these are its first ends.
            with_vectors: Whether to return the vectors of all artifacts that are compared.

        Raises:
            ArgumentError: If the direction or an origin is unknown, or a limit is negative.
        """
        ...

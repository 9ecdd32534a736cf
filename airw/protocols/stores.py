"""What a store can do, one protocol a capability, and the corpus that ranking needs.

A consumer asks for the capabilities it uses and no more. Results are aligned with what was asked; `None` stands for
what is not there. Vectors are `(n, dim) float32` unit rows.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from airw._base.arrays import Floats
from airw.protocols.indexing import Embedder
from airw.values import ArtifactChange, Direction, Edge, LedgerEntry, LinkCount, NodeId, Ranking, Record, UnresolvedLink
from airw.values.filters import Filter


class BestRecords(NamedTuple):
    """The best record of each artifact asked for: its id and its cosine, `(n,) float32`; `None` and NaN for none."""

    record_ids: list[str | None]
    scores: Floats


class ArtifactVectors(NamedTuple):
    """The record ids of each artifact asked for, and the vectors of all these records, `(n, dim) float32`."""

    record_ids: list[list[str]]
    vectors: Floats


class RecordLookup(Protocol):
    """Gives records by their ids."""

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        """Give the record of each id."""
        ...


class RecordsByArtifact(Protocol):
    """Gives the records of artifacts."""

    async def records_of(
        self, artifact_ids: Sequence[str], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        """Give the records of each artifact in plan order, of these surface kinds; `None` for unknown artifacts.

        `limit` cuts each list.
        """
        ...


class VectorRanker(Protocol):
    """Ranks records by cosine to a query."""

    async def search_vectors(
        self,
        queries: Floats,
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Rank for each row of `queries` `(m, dim)` the best `k` records, or artifacts by their best record.

        Filter, surface kinds and the collapse to artifacts apply before the cut at `k`. Order: score descending, then
        `(artifact_id, surface_index)`. Records with score zero count.

        Raises:
            EmbedderMismatch: The queries are not as wide as the stored vectors.
        """
        ...


class BestRecordFinder(Protocol):
    """Scores artifacts by their best record."""

    async def best_of(
        self, query: Floats, artifact_ids: Sequence[str], *, surfaces: Sequence[str] | None = None
    ) -> BestRecords:
        """Give for each artifact the id and the cosine of its best record; `None` and NaN where it has none.

        Ties go to the lower surface index.
        """
        ...


class EdgeReader(Protocol):
    """Gives the edges of artifacts."""

    async def neighbors(
        self,
        ids: Sequence[str],
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[list[Edge]]:
        """Give the edges of each artifact as stored, ordered by type, then by the id at the other end.

        Only resolved links and links to other corpora are edges. `types` and `origins` keep, `exclude` (types) drops,
        `limit` cuts each list. An edge from an artifact to itself is left out. The same pair, type and origin appears
        once, `"out"` before `"in"` where both directions hold a pair of equal type.
        """
        ...


class RecordReader(RecordLookup, RecordsByArtifact, Protocol):
    """Reads records, the ledger and settings."""

    async def ledger(self, ids: Sequence[str] | None = None) -> list[LedgerEntry | None]:
        """Give the ledger entry of each artifact; of all, ordered by id, when no ids are given."""
        ...

    async def artifact_ids(self) -> list[str]:
        """Give the ids of all artifacts, sorted."""
        ...

    async def config(self) -> dict[str, Any]:
        """Give the settings the corpus was built with; empty before the first build."""
        ...

    async def calibration(self, key: str | None = None) -> dict[str, Any]:
        """Give the calibration stored under a key, or all of them by key; empty when there is none."""
        ...

    async def counts(self) -> dict[str, int]:
        """Count `artifacts`, `records`, and the links that are `resolved`, `dangling`, `ambiguous` and `foreign`."""
        ...


@runtime_checkable
class ChangeFinder(Protocol):
    """Finds what has changed without reading what has not; builds ask it before the ledger, where a store can tell."""

    async def find_changed(self, versions: Mapping[str, str], stamp: LedgerEntry) -> list[str]:
        """Give the artifacts whose ledger entry is not of this version or not like `stamp` in all but the records."""
        ...


class RecordWriter(Protocol):
    """Writes whole artifacts, each call in one transaction."""

    async def apply(self, puts: Sequence[ArtifactChange], *, removals: Sequence[str] = ()) -> None:
        """Put and remove whole artifacts with their records, vectors, ledger entries and links, all or nothing.

        A put replaces everything stored of that artifact. Links are resolved in the same transaction: those of the
        changed artifacts, and every stored link whose reference now means something else. Unknown removals are ignored.

        Raises:
            StoreError: A vector is not finite or of another width than the corpus, or the write failed; nothing of the
                call is stored then.
        """
        ...

    async def set_config(self, config: Mapping[str, Any]) -> None:
        """Replace the settings; values are JSON."""
        ...

    async def set_calibration(self, key: str, value: Mapping[str, Any]) -> None:
        """Replace the calibration stored under a key; values are JSON."""
        ...

    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Hold the store for one builder; a second one waits.

        Raises:
            StoreBusy: Another builder still held it after `timeout` seconds.
        """
        ...


class RunRows(NamedTuple):
    """The row of a run, and those of its parts by their numbers, ascending."""

    row: dict[str, Any]
    parts: dict[int, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class IngestRun:
    """Tells one run of writing in parts from all others.

    Args:
        name: What is written; a store keeps one run of a name, the one that was begun last.
        mark: Tells it from earlier runs of that name.
        settings: What the settings of the corpus must say for a part to be written.
    """

    name: str
    mark: str
    settings: Mapping[str, Any]

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Say whether the settings of a corpus are those that the run needs."""
        return all(name in config and config[name] == value for name, value in self.settings.items())


@runtime_checkable
class RunKeeper(Protocol):
    """Writes the parts of a run, each once, whoever tries and however often; ingests in partitions need it.

    A row of JSON says of each part what became of it. It comes in one transaction with what it tells of.
    """

    async def begin_run(self, run: IngestRun, row: Mapping[str, Any], *, removals: Sequence[str] = ()) -> None:
        """Keep a row for a run, in place of an earlier run of its name and all its parts, and remove artifacts."""
        ...

    async def read_run(self, run: IngestRun, parts: Sequence[int] | None = None) -> RunRows | None:
        """Give the row of a run and, ordered by number, those of these parts, or of all, where they are.

        `None` once the run was replaced or forgotten.
        """
        ...

    async def apply_part(
        self, run: IngestRun, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        """Put artifacts as `apply` does, and a row for the part; where one is already, put nothing, and give that one.

        `None`, and nothing is put, when the run was replaced or forgotten, or the settings are not what it needs.

        Raises:
            StoreError: As for `apply`, or the row is not JSON; nothing of the call is stored then.
        """
        ...

    async def forget_run(
        self, run: IngestRun, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()
    ) -> None:
        """Forget these parts of a run, or all of it, and remove artifacts; nothing, where the run was replaced."""
        ...


class VectorSearch(VectorRanker, BestRecordFinder, Protocol):
    """Ranks records by cosine."""

    async def similarities(self, query: Floats, record_ids: Sequence[str]) -> Floats:
        """Give the cosine of `query` `(dim,)` to each record: `(n,) float32`, NaN where there is no such record."""
        ...

    async def vectors(self, ids: Sequence[str]) -> Floats:
        """Give the vector of each record: `(n, dim) float32`, a row of NaN where there is no such record."""
        ...

    async def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Give the record ids of each artifact in plan order, and all their vectors in that order.

        `(n, dim) float32`, `n` the number of all those ids: an artifact asked for twice is there twice, one without
        records has an empty list and no row. Without any row, `dim` is that of the corpus; 0 if nothing is stored.
        """
        ...


class TextSearch(Protocol):
    """Ranks records by BM25."""

    async def search_text(
        self,
        queries: Sequence[str],
        k: int,
        *,
        filter: Filter | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Rank for each query the best `k` records, or artifacts, that hold at least one of its words.

        Words are cut as SQLite's unicode61 does; statistics are those of the whole corpus, whatever the filter; scores
        are positive. Order as in `search_vectors`. A query without words finds nothing.
        """
        ...


class LinkReader(EdgeReader, Protocol):
    """Reads edges, what references mean, who refers to what, and shared field values."""

    async def resolve(self, refs: Sequence[str]) -> list[list[str]]:
        """Give for each reference the ids, sorted, of the artifacts that carry it in the strongest tier where any does.

        None for a reference that dangles, several for one that is ambiguous.
        """
        ...

    async def referrers(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[list[str]]:
        """Give for each node the ids, sorted, of the artifacts that link to it, each once and never the node itself.

        A node is an artifact of this corpus, to which links lead by any of its names; or `(source, id)` of another
        corpus; or any other text: the links written so that dangle or are ambiguous. An id of this corpus is never read
        as such a text, and links that resolve count for the id they lead to alone. `types` keeps links of these types.
        """
        ...

    async def fan_in(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        """Count the referrers of each node."""
        ...

    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        """Count the referrers of the node, of any of the three kinds, that has most; 0 without links."""
        ...

    async def matching(self, wanted: Sequence[tuple[str, Any]], *, limit: int | None = None) -> list[list[str]]:
        """Give for each `(field, value)` the ids, sorted, of the artifacts whose filter field equals it or lists it.

        Fields are found as filters find them: a literal key before a dotted path. Values are compared as JSON, numbers
        as in Python. `limit` cuts each list.
        """
        ...

    async def unresolved_links(
        self, artifact_ids: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        """Give the links of these artifacts, or of all, that dangle or are ambiguous.

        Ordered by artifact id, then as they were extracted; `limit` cuts the list.
        """
        ...

    async def link_counts(self) -> list[LinkCount]:
        """Count all stored links by type, origin and state, in that order; what counts zero is left out."""
        ...


@runtime_checkable
class GraphStore(RecordsByArtifact, EdgeReader, Protocol):
    """What a graph must answer to be walked: what its nodes hold, and where they lead; batch-first.

    Every store is one, and so is a `CorpusGraph`.
    """


class WalkStore(RecordLookup, VectorRanker, BestRecordFinder, EdgeReader, Protocol):
    """What a walk asks of a store: a start by cosine, scores, edges, and the records of its hits.

    A policy that starts from words, goes on from shared fields or looks at all vectors asks for more, and says so.
    """


class SearchStore(RecordLookup, RecordsByArtifact, VectorRanker, TextSearch, Protocol):
    """What a search asks of a store: rankings by cosine and by words, and the records of its hits."""


class Store(RecordReader, RecordWriter, VectorSearch, TextSearch, LinkReader, Protocol):
    """All capabilities of a corpus's store."""

    async def aclose(self) -> None:
        """Release everything held; closing twice is harmless."""
        ...


if TYPE_CHECKING:  # a default of a type variable: for Python itself from 3.13 on
    from typing_extensions import TypeVar

    StoreT_co = TypeVar("StoreT_co", covariant=True, default=Store)
else:
    from typing import TypeVar

    StoreT_co = TypeVar("StoreT_co", covariant=True)


class OpenCorpus(Protocol[StoreT_co]):
    """Anything with a name, a store and an embedder; `OpenCorpus[WalkStore]` is one whose store can be walked."""

    @property
    def name(self) -> str:
        """Name the corpus; hits carry it as their source."""
        ...

    @property
    def store(self) -> StoreT_co:
        """Give its store."""
        ...

    @property
    def embedder(self) -> Embedder:
        """Give the embedder its vectors came from."""
        ...

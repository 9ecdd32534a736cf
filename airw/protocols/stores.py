"""Protocols of stores, one per capability, and of the corpus that searches and walks use.

Annotate a parameter with the smallest protocol whose methods you call. Methods that take ids
return one entry per id, in the same order. For an unknown id the entry is `None`, or as the method documents: NaN or an
empty list. Vectors are `(n, dim) float32`; each row is a unit vector or zero. Query vectors must be unit vectors, too,
or scores are not cosines.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from airw._base.arrays import Floats
from airw.protocols.indexing import Embedder
from airw.protocols.texts import TextSearch
from airw.values import (
    ArtifactChange,
    Direction,
    Edge,
    LedgerEntry,
    LinkCount,
    NodeId,
    Ranking,
    Record,
    UnresolvedLink,
)
from airw.values.filters import Filter


class BestRecords(NamedTuple):
    """The best record of each requested artifact.

    Args:
        record_ids: The id of the best record; `None` for an artifact without one.
        scores: `(n,) float32`, its cosine; NaN for an artifact without one.
    """

    record_ids: list[str | None]
    scores: Floats


class ArtifactVectors(NamedTuple):
    """The records of each requested artifact, with their vectors.

    Args:
        record_ids: Per artifact, the ids of its records in the order of their surface index.
        vectors: `(n, dim) float32`, the vectors of all these records in the same order.
    """

    record_ids: list[list[str]]
    vectors: Floats


class RecordLookup(Protocol):
    """Reads records by their ids."""

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        """Return the record of each id, or `None`.

        Searches and walks call this to fill their hits: rankings carry ids only.
        """
        ...


class RecordsByArtifact(Protocol):
    """Reads the records of artifacts."""

    async def records_of(
        self, artifact_ids: Sequence[str], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        """Return the records of each artifact, or `None` for an unknown artifact.

        They are in the order of their surface index.

        Neighbourhoods, policies and reranking of whole artifacts call this. An artifact without matching records has
        an empty list.

        Args:
            artifact_ids: The artifacts.
            kinds: The surface kinds to include; `None` for all.
            limit: The largest number of records per artifact; at least 0.

        Raises:
            ArgumentError: If the limit is negative.
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
        """Return the `k` nearest records of each query, best first.

        This is the dense channel of a search, and the seed of most walks. Scores are cosines, and records with score
        zero count. Ties are ordered by `(artifact_id, surface_index)`.

        Args:
            queries: `(m, dim) float32`, one query per row.
            k: The largest number of results per query. All conditions below apply before this cut.
            filter: A condition on the metadata of records.
            surfaces: The surface kinds to search; `None` for all.
            per_artifact: Whether to rank artifacts, each by its best record.

        Returns:
            One ranking per query.

        Raises:
            EmbedderMismatch: If the width of the queries differs from that of the stored vectors.
        """
        ...


class BestRecordFinder(Protocol):
    """Scores artifacts by their best record."""

    async def best_of(
        self, query: Floats, artifact_ids: Sequence[str], *, surfaces: Sequence[str] | None = None
    ) -> BestRecords:
        """Return the record of each artifact that is nearest to the query, with its cosine.

        Walks call this to score the frontier. It is one call per step, for any number of artifacts. If two records
        have the same cosine, the one with the lower surface index wins. An artifact without records has `None` and NaN.

        Args:
            query: `(dim,) float32`.
            artifact_ids: The artifacts.
            surfaces: The surface kinds to compare; `None` for all.
        """
        ...


class EdgeReader(Protocol):
    """Reads the edges of artifacts."""

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
        """Return the edges of each artifact in a fixed order.

        Walks call this to expand nodes. Resolved and foreign links are edges; dangling and ambiguous ones are not.
        Edges from an artifact to itself are omitted. Links with the same source, target, type and origin are one edge.

        Args:
            ids: The artifacts; an unknown one has no edges.
            direction: `"out"` for the links of the artifact, `"in"` for links to it, `"both"` for both.
            types: The edge types to include; `None` for all.
            exclude: The edge types to omit, even if `types` contains them.
            origins: The origins to include; `None` for all.
            limit: The largest number of edges per artifact; at least 0.

        Returns:
            Edges by type, then by the id at the other end, foreign links last. Of two opposite edges the outgoing one
            comes first.

        Raises:
            ArgumentError: If the direction or an origin is unknown, or the limit is negative.
        """
        ...


class RecordReader(RecordLookup, RecordsByArtifact, Protocol):
    """Reads records, ledger entries and settings."""

    async def ledger(self, ids: Sequence[str] | None = None) -> list[LedgerEntry | None]:
        """Return the ledger entry of each artifact; without ids, all entries, ordered by id.

        Builds compare the entries with the source to decide which artifacts to index again.
        """
        ...

    async def artifact_ids(self) -> list[str]:
        """Return the ids of all artifacts, sorted.

        Builds compare them with the ids of the source to prune removed artifacts.
        """
        ...

    async def config(self) -> dict[str, Any]:
        """Return the settings with which the corpus was built; empty before the first build.

        Opening a corpus reads its embedder from them.
        """
        ...

    async def calibration(self, key: str | None = None) -> dict[str, Any]:
        """Return the calibration stored under a key; without a key, all calibrations by key.

        Discovery reads its floors from them. The mapping is empty if nothing is stored.
        """
        ...

    async def counts(self) -> dict[str, int]:
        """Return the number of `artifacts`, of `records`, and of links in each state.

        The states are `resolved`, `dangling`, `ambiguous` and `foreign` (to another corpus).
        """
        ...


@runtime_checkable
class ChangeFinder(Protocol):
    """Compares change signals inside the store.

    If a store has this capability, builds use it to skip unchanged artifacts without reading their ledger entries.
    """

    async def find_changed(self, versions: Mapping[str, str], stamp: LedgerEntry) -> list[str]:
        """Return the artifacts to index again, in any order.

        Args:
            versions: The change signals, by artifact id.
            stamp: A ledger entry with the embedder, strategy, extractor and source of the present build.

        Returns:
            The artifacts without a ledger entry, those with another version, and those whose entry differs from
            `stamp` in one of these four fields. Names of sources are compared exactly; builds compare them again
            without case.
        """
        ...


@runtime_checkable
class SchemaReader(Protocol):
    """Reads which surface kinds and which fields the records have.

    If a store has this capability, a search that found nothing can report a kind or a field that no record has.
    """

    async def surface_kinds(self) -> list[str]:
        """Return the surface kinds of all records, sorted.

        A search that found nothing compares its `surfaces` with them.
        """
        ...

    async def has_fields(self, paths: Sequence[str]) -> list[bool]:
        """Return, for each path, whether the metadata of any record have this field.

        A search that found nothing asks for the fields of its filter. Paths are read as in filters.
        """
        ...

    async def field_names(self, *, limit: int = 10_000) -> list[str]:
        """Return the names of the fields in the metadata of the first `limit` records, sorted.

        Messages about a field that no record has name similar ones. Fields within fields are not included.
        """
        ...


class RecordWriter(Protocol):
    """Writes whole artifacts; each call is one transaction."""

    async def apply(self, puts: Sequence[ArtifactChange], *, removals: Sequence[str] = ()) -> None:
        """Write and remove whole artifacts: records, vectors, ledger entries, links and names.

        Builds and upserts call this once per batch. A put replaces all stored content of its artifact. The same
        transaction resolves the links of the changed artifacts again, and every stored link whose reference now has
        another meaning. Unknown removals are ignored. An artifact in both `puts` and `removals` is stored.

        Raises:
            StoreError: If `puts` contains an artifact twice, a text or vector that cannot be stored, or vectors of
                another width; or if the write fails. Nothing of the call is stored then.
        """
        ...

    async def set_config(self, config: Mapping[str, Any]) -> None:
        """Replace the settings of the corpus.

        Raises:
            StoreError: If a value is not JSON.
        """
        ...

    async def set_calibration(self, key: str, value: Mapping[str, Any]) -> None:
        """Replace the calibration stored under a key.

        Raises:
            StoreError: If a value is not JSON.
        """
        ...

    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Return a context manager that locks the store for one builder; another builder waits.

        Builds hold the lock for their whole duration, so that they do not undo each other's changes. Readers never
        wait.

        Raises:
            StoreBusy: If another builder still holds the lock after `timeout` seconds.
        """
        ...


class VectorSearch(VectorRanker, BestRecordFinder, Protocol):
    """Ranks records by cosine, and reads vectors."""

    async def similarities(self, query: Floats, record_ids: Sequence[str]) -> Floats:
        """Return the cosine between `query` `(dim,)` and each record.

        Walks over records, such as `CollapsedTree`, score their nodes with it.

        Returns:
            `(n,) float32`, NaN for an unknown record.
        """
        ...

    async def vectors(self, ids: Sequence[str]) -> Floats:
        """Return the vector of each record.

        Builds call this to reuse the vectors of unchanged texts.

        Returns:
            `(n, dim) float32`, a row of NaN for an unknown record.
        """
        ...

    async def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Return the record ids of each artifact, with all their vectors.

        They are in the order of their surface index.

        Policies that compare artifacts with each other call this, as does the diagnosis of links.

        Returns:
            Record ids per artifact, and vectors `(n, dim) float32`, where `n` is the number of all these ids. An
            artifact that is requested twice appears twice. An artifact without records has an empty list and no row.
            Without any row, `dim` is still that of the corpus, or 0 if nothing is stored.
        """
        ...


class LinkReader(EdgeReader, Protocol):
    """Reads edges, resolves references, lists referrers, and finds artifacts by field values."""

    async def resolve(self, refs: Sequence[str]) -> list[list[str]]:
        """Return the artifacts that each reference means, as sorted ids.

        Walks that start from named artifacts call this, and so does the command line for names typed by users. A
        reference means the artifacts that carry it as a name in the strongest tier in which any artifact does. The last
        tier has the folded names of artifacts with `Extraction.fold_case`, compared with the folded reference. The
        list is empty if the reference dangles, and has several ids if it is ambiguous.
        """
        ...

    async def referrers(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[list[str]]:
        """Return the artifacts that link to each node, as sorted ids without duplicates.

        `ReverseDependency` calls this to walk from a library to the artifacts that depend on it. A node is never its
        own referrer.

        Args:
            nodes: For an id of this corpus, all links that resolve to it count, by any of its names. For a pair
                `(source, id)`, the foreign links to that artifact count. For any other text, the dangling or ambiguous
                links with this reference count.
            types: The link types that count; `None` for all.
        """
        ...

    async def fan_in(self, nodes: Sequence[NodeId], *, types: Sequence[str] | None = None) -> list[int]:
        """Return the number of referrers of each node; see `referrers`.

        `PersonalizedPageRank` calls this to divide the weight of a named artifact by its fan-in.
        """
        ...

    async def max_fan_in(self, *, types: Sequence[str] | None = None) -> int:
        """Return the largest fan-in of all nodes, or 0 without links.

        `ReverseDependency` divides fan-ins by it, so that they lie between 0 and 1. All three kinds of nodes count; see
        `referrers`.
        """
        ...

    async def matching(self, wanted: Sequence[tuple[str, Any]], *, limit: int | None = None) -> list[list[str]]:
        """Return, for each pair of field and value, the artifacts that have it, as sorted ids.

        Walks along shared field values call this. An artifact matches if the field of any of its records equals the
        value, or is a list that contains it. Fields are looked up as filters do: a literal key wins over a dotted path.
        Values are compared as JSON, and numbers as in Python.

        Args:
            wanted: Pairs of field and value.
            limit: The largest number of ids per pair; at least 0.

        Raises:
            ArgumentError: If the limit is negative.
        """
        ...

    async def unresolved_links(
        self, artifact_ids: Sequence[str] | None = None, *, limit: int | None = None
    ) -> list[UnresolvedLink]:
        """Return the dangling and ambiguous links of these artifacts, or of all artifacts.

        The command line lists them for authors to correct. The order is by artifact id, then as extracted. `limit` is
        the largest number of links in the list.

        Raises:
            ArgumentError: If the limit is negative.
        """
        ...

    async def link_counts(self) -> list[LinkCount]:
        """Return the number of stored links per type, origin and state, sorted by these three.

        Combinations without links are omitted. The diagnosis of links and the command line report these numbers.
        """
        ...


@runtime_checkable
class GraphStore(RecordsByArtifact, EdgeReader, Protocol):
    """A graph that can be walked along its edges: nodes with records, and edges between them.

    Every store is a `GraphStore`, and so is a `CorpusGraph`.
    """


class WalkStore(RecordLookup, VectorRanker, BestRecordFinder, EdgeReader, Protocol):
    """The part of a store that most walks use: rankings, scores, edges and records.

    Seeds are ranked by cosine. Policies with lexical seeds, shared fields or vectors need more methods, and list them
    in their documentation.
    """


class SearchStore(RecordLookup, RecordsByArtifact, VectorRanker, TextSearch, Protocol):
    """The part of a store that a search uses: both rankings, and the records of hits."""


class Store(RecordReader, RecordWriter, VectorSearch, TextSearch, LinkReader, Protocol):
    """All capabilities of a corpus's store."""

    async def aclose(self) -> None:
        """Close the store and release its resources; closing twice is harmless."""
        ...


if TYPE_CHECKING:  # Python before 3.13 has no default for type variables
    from typing_extensions import TypeVar

    StoreT_co = TypeVar("StoreT_co", covariant=True, default=Store)
else:
    from typing import TypeVar

    StoreT_co = TypeVar("StoreT_co", covariant=True)


class OpenCorpus(Protocol[StoreT_co]):
    """A corpus: an object with a name, a store and an embedder.

    The type parameter is the part of the store in use: `OpenCorpus[WalkStore]` has a store that can be walked.
    """

    @property
    def name(self) -> str:
        """Return the name of the corpus, which its hits carry as `source`."""
        ...

    @property
    def store(self) -> StoreT_co:
        """Return the store of the corpus."""
        ...

    @property
    def embedder(self) -> Embedder:
        """Return the embedder of the stored vectors; queries must be embedded with it, too."""
        ...

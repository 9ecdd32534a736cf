"""What a store can be asked: requests, which are values, and chains of them.

A request says what it needs of a store, its capability, and what its answer is: `Records` is a `Request` of a list of
records. It checks its values when it is made. Requests are compared by identity, as a chain names the one it follows.

Requests that take ids are answered with one entry per id, in the same order. Vectors are `(n, dim) float32`; each row
is a unit vector or zero. Query vectors must be unit vectors, too, or scores are not cosines.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, filterfalse
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np

from airw._base.arrays import Floats
from airw._base.checks import check_choice, check_count, check_limit
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError
from airw.protocols.adjacency import EdgeRow
from airw.values import (
    DIRECTIONS,
    ArtifactChange,
    Contains,
    Direction,
    Edge,
    Language,
    LedgerEntry,
    LinkCount,
    LinkFilter,
    NodeIdLike,
    Ranking,
    Record,
    TermCounts,
    UnresolvedLink,
)
from airw.values.filters import Filter, parse_filter

A_co = TypeVar("A_co", covariant=True)

Capability: TypeAlias = Literal[
    "artifacts",
    "counts",
    "dense",
    "edges",
    "ledger",
    "lexical",
    "links",
    "matching",
    "names",
    "phrases",
    "records",
    "schema",
    "scores",
    "settings",
    "vectors",
    "words",
    "writing",
]
"""What a store may be able to do.

Each request needs one of these. `Rank` needs `"lexical"` for texts, `"dense"` for vectors, and only `"scores"` if it
names what to compare with a vector; and `"phrases"` as well if it says what documents must contain. `apply` and
`writing` need `"writing"`. Only a snapshot of a store offers `"artifacts"`.
"""

CAPABILITIES: Final[frozenset[Capability]] = frozenset(get_args(Capability)) - {"artifacts"}
"""What a whole store can do."""

SNAPSHOT_CAPABILITIES: Final[frozenset[Capability]] = frozenset(get_args(Capability)) - {"writing"}
"""What a snapshot of a whole store can do."""

ALL_LINKS: Final = LinkFilter()
_LISTS = {"among", "artifact_ids", "ids", "kinds", "nodes", "paths", "records", "refs", "surfaces", "wanted"}


class Request(Generic[A_co]):
    """A question to a store; the type parameter is that of the answer."""

    __slots__: tuple[str, ...] = ()
    _needs: ClassVar[Capability]

    @property
    def needs(self) -> Capability:
        """Return what a store must be able to do to answer."""
        return self._needs

    @property
    def all_needs(self) -> frozenset[Capability]:
        """Return `needs`, and the capabilities that some of the values need."""
        return frozenset([self.needs])

    def __post_init__(self) -> None:
        """Check lists and limits, by the names of their fields."""
        for name in self.__slots__:
            if name in _LISTS:
                value = getattr(self, name)
                # `None` is for fields of which it is the default.
                if value is not None or self.__dataclass_fields__[name].default is not None:  # type: ignore[attr-defined]
                    _check_list(name, value)
                    _check_items(name, value)
            elif name == "limit":
                check_limit(getattr(self, name))


# Records


@dataclass(frozen=True, slots=True, eq=False)
class Records(Request[list[Record | None]]):
    """The record of each id, or `None`.

    Searches and walks ask for the records of their hits, as rankings carry ids only.

    Args:
        ids: The ids of records.
    """

    _needs: ClassVar[Capability] = "records"
    ids: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class RecordsOf(Request[list[list[Record] | None]]):
    """The records of each artifact by surface index, or `None` for an unknown artifact.

    An artifact without matching records has an empty list.

    Args:
        artifact_ids: The artifacts.
        kinds: The surface kinds to include; `None` for all.
        limit: The largest number of records per artifact; at least 0.

    Raises:
        ArgumentError: If the limit is negative.
    """

    _needs: ClassVar[Capability] = "records"
    artifact_ids: Sequence[NodeIdLike]
    kinds: Sequence[str] | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Vectors(Request[Floats]):
    """The vector of each record: `(n, dim) float32`, a row of NaN for an unknown one.

    Builds ask for the vectors of unchanged texts.

    Args:
        ids: The ids of records.
    """

    _needs: ClassVar[Capability] = "vectors"
    ids: Sequence[str]


class ArtifactVectors(NamedTuple):
    """The records of each requested artifact, with their vectors.

    Args:
        record_ids: Per artifact, the ids of its records in the order of their surface index; none if it is unknown.
        vectors: `(n, dim) float32`, the vectors of all these records in the same order. An artifact that is requested
            twice appears twice. Without any row, `dim` is still that of the corpus, or 0 if nothing is stored.
    """

    record_ids: list[list[str]]
    vectors: Floats


@dataclass(frozen=True, slots=True, eq=False)
class VectorsOf(Request[ArtifactVectors]):
    """The record ids of each artifact, with all their vectors.

    Policies that compare artifacts with each other ask for them, as does the diagnosis of links.

    Args:
        artifact_ids: The artifacts.
    """

    _needs: ClassVar[Capability] = "vectors"
    artifact_ids: Sequence[NodeIdLike]


# Rankings


@dataclass(frozen=True, slots=True, eq=False)
class Rank(Request[list[Ranking]]):
    """The `k` best records of each query, best first.

    Ties are ordered by `(artifact_id, surface_index)`. Vectors are compared by cosine, and records with score zero
    count. Texts are compared by BM25: a ranking has the records with at least one word of the query, and all scores are
    positive. `airw.values.Analyser` splits texts and queries into words; a word that a query has several times counts
    as often. Word statistics are those of the whole corpus, whatever the conditions below. A query without words has an
    empty ranking.

    Args:
        queries: Vectors, `(m, dim) float32`, one query per row; or texts, in plain words.
        k: The largest number of results per query; `None` ranks all. All conditions apply before this cut.
        filter: A condition on the metadata of records.
        surfaces: The surface kinds to rank; `None` for all.
        per_artifact: Whether to rank artifacts, each by its best record. Of equal records it is the one with the lower
            surface index.
        among: The artifacts to rank, and no others; unknown ones are left out. A walk scores its frontier so.
        records: The records to rank, and no others.
        statistics: The word counts to compute BM25 with; `None` for those of this store. With the counts of several
            stores together, scores equal, to the last bit, those of one store with all records.
        contains: What the texts of an artifact must contain, and what not; `None` for anything. A text that contains a
            beginning of a word has a word of the query.

    Raises:
        ArgumentError: If a value cannot be used.

    Whoever answers raises `EmbedderMismatch` if the width of the vectors differs from that of the stored ones. It
    raises `ArgumentError` if the statistics are of another formula, or lack a word of the queries.
    """

    queries: Floats | Sequence[str]
    k: int | None = None
    filter: Filter | None = None
    surfaces: Sequence[str] | None = None
    per_artifact: bool = False
    among: Sequence[NodeIdLike] | None = None
    records: Sequence[str] | None = None
    statistics: TermCounts | None = None
    contains: Contains | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.queries, np.ndarray):
            _check_texts(self.queries)
        elif self.queries.dtype.kind not in "fiub":
            raise ArgumentError(f"queries must be vectors of numbers, not of {self.queries.dtype}")
        if self.k is not None:
            check_count("k", self.k)
        object.__setattr__(self, "filter", parse_filter(self.filter))
        Request.__post_init__(self)
        if self.statistics is not None and not isinstance(self.statistics, TermCounts):
            raise ArgumentError(f"statistics must be a TermCounts object, not {short_repr(self.statistics)}")
        if self.contains is not None and not isinstance(self.contains, Contains):
            raise ArgumentError(f"contains must be a Contains object, not {short_repr(self.contains)}")

    @property
    def all_needs(self) -> frozenset[Capability]:
        """Return `needs`, and `"phrases"` if there are conditions on the texts of artifacts."""
        return frozenset([self.needs] if self.contains is None else [self.needs, "phrases"])

    @property
    def needs(self) -> Capability:
        """Return `"lexical"` for texts; `"dense"` for vectors, or `"scores"` with what is named."""
        if not isinstance(self.queries, np.ndarray):
            return "lexical"
        return "dense" if self.among is None and self.records is None else "scores"


@dataclass(frozen=True, slots=True, eq=False)
class Words(Request[TermCounts]):
    """The counts behind the BM25 scores of some queries, for the whole corpus.

    They are the same for any filter and any surfaces. A word that no record contains has a frequency of 0. Words that
    do not count, such as stop words, have none. The `analyser` of the counts splits other texts likewise.

    Args:
        queries: The queries, in plain words.
    """

    _needs: ClassVar[Capability] = "words"
    queries: Sequence[str]

    def __post_init__(self) -> None:
        _check_texts(self.queries)


# Links


@dataclass(frozen=True, slots=True, eq=False)
class Edges(Request[Sequence[Sequence[Edge]]]):
    """The edges of each artifact in a fixed order.

    The stores of this library answer with an `EdgeRow` for each, which makes an edge when it is looked at.

    Resolved and foreign links are edges; dangling and ambiguous ones are not. Edges from an artifact to itself are
    omitted. Links with the same source, target, type and origin are one edge. The order is by type, then by the id at
    the other end, foreign links last. Of two opposite edges the outgoing one comes first.

    Args:
        ids: The artifacts; an unknown one has no edges.
        direction: `"out"` for the links of the artifact, `"in"` for links to it, `"both"` for both.
        links: The types and origins to include.
        limit: The largest number of edges per artifact; at least 0.

    Raises:
        ArgumentError: If the direction is unknown, or the limit is negative.
    """

    _needs: ClassVar[Capability] = "edges"
    ids: Sequence[NodeIdLike]
    direction: Direction = "out"
    links: LinkFilter = ALL_LINKS
    limit: int | None = None

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        check_choice("direction", self.direction, DIRECTIONS)


@dataclass(frozen=True, slots=True, eq=False)
class Referrers(Request[list[list[str]]]):
    """The artifacts that link to each node, as sorted ids without duplicates.

    A node is never its own referrer.

    Args:
        nodes: For an id of this corpus, all links that resolve to it count, by any of its names. For a pair
            `(source, id)`, the foreign links to that artifact count. For any other text, the dangling or ambiguous
            links with this reference count.
        types: The link types that count; `None` for all.
    """

    _needs: ClassVar[Capability] = "links"
    nodes: Sequence[NodeIdLike]
    types: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Names(Request[list[list[str]]]):
    """The artifacts that each reference means, as sorted ids.

    A reference means the artifacts that carry it as a name in the strongest tier in which any artifact does. The last
    tier has the folded names of artifacts with `Extraction.fold_case`, compared with the folded reference. The list is
    empty if the reference dangles, and has several ids if it is ambiguous.

    Args:
        refs: The references, such as names typed by users.
    """

    _needs: ClassVar[Capability] = "names"
    refs: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class MaxFanIn(Request[int]):
    """The largest number of referrers of any node, or 0 without links; see `Referrers`.

    Args:
        types: The link types that count; `None` for all.
    """

    _needs: ClassVar[Capability] = "links"
    types: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LinkCounts(Request[list[LinkCount]]):
    """The number of stored links per type, origin and state, sorted by these three."""

    _needs: ClassVar[Capability] = "links"


@dataclass(frozen=True, slots=True, eq=False)
class UnresolvedLinks(Request[list[UnresolvedLink]]):
    """The dangling and ambiguous links of artifacts, by artifact id, then as extracted.

    Args:
        artifact_ids: The artifacts; `None` for all.
        limit: The largest number of links in the list; at least 0.

    Raises:
        ArgumentError: If the limit is negative.
    """

    _needs: ClassVar[Capability] = "links"
    artifact_ids: Sequence[NodeIdLike] | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Matching(Request[list[list[str]]]):
    """For each pair of field and value, the artifacts that have it, as sorted ids.

    An artifact matches if the field of any of its records equals the value, or is a list that contains it. Fields are
    looked up and compared as filters do: a literal key wins over a dotted path, and one moment has many texts.

    Args:
        wanted: Pairs of field and value.
        limit: The largest number of ids per pair; at least 0.

    Raises:
        ArgumentError: If the limit is negative.
    """

    _needs: ClassVar[Capability] = "matching"
    wanted: Sequence[tuple[str, Any]]
    limit: int | None = None


# The ledger and the corpus as a whole


@dataclass(frozen=True, slots=True, eq=False)
class ArtifactIds(Request[list[str]]):
    """The ids of all artifacts, sorted."""

    _needs: ClassVar[Capability] = "ledger"


@dataclass(frozen=True, slots=True, eq=False)
class Ledger(Request[list[LedgerEntry | None]]):
    """The ledger entry of each artifact, or `None`.

    Args:
        ids: The artifacts; `None` for all, sorted.
    """

    _needs: ClassVar[Capability] = "ledger"
    ids: Sequence[NodeIdLike] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Artifacts(Request[list[ArtifactChange | None]]):
    """Each artifact as it was written, or `None`.

    It has its ledger entry, records, vectors, links and names. Copies ask a snapshot for them.

    Args:
        ids: The artifacts.
    """

    _needs: ClassVar[Capability] = "artifacts"
    ids: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class Stale(Request[list[str]]):
    """The artifacts to index again, in any order.

    These are the artifacts without a ledger entry, those with another version, and those whose entry differs from
    `stamp` in embedder, strategy, extractor or source. Names of sources are compared exactly; builds compare them again
    without case.

    Args:
        versions: The change signals, by artifact id.
        stamp: A ledger entry with the embedder, strategy, extractor and source of the present build.
    """

    _needs: ClassVar[Capability] = "ledger"
    versions: Mapping[str, str]
    stamp: LedgerEntry


@dataclass(frozen=True, slots=True, eq=False)
class Config(Request[dict[str, Any]]):
    """The settings with which the corpus was built; empty before the first build.

    Opening a corpus reads its embedder from them.
    """

    _needs: ClassVar[Capability] = "settings"


@dataclass(frozen=True, slots=True, eq=False)
class Calibrations(Request[dict[str, dict[str, Any]]]):
    """The calibrations of the corpus, by key; discovery reads its floors from them."""

    _needs: ClassVar[Capability] = "settings"


@dataclass(frozen=True, slots=True, eq=False)
class TextLanguage(Request[Language | None]):
    """The language of the texts; `None` for words as they are."""

    _needs: ClassVar[Capability] = "words"


@dataclass(frozen=True, slots=True, eq=False)
class Counts(Request[dict[str, int]]):
    """The number of `artifacts`, of `records`, and of links in each state.

    The states are `resolved`, `dangling`, `ambiguous` and `foreign` (to another corpus).
    """

    _needs: ClassVar[Capability] = "counts"


class Columns(NamedTuple):
    """What the records of a corpus have.

    Args:
        kinds: The surface kinds of all records, sorted.
        has_fields: For each path that was asked for, whether the metadata of any record have this field.
        fields: The names of the fields in the metadata of the first records, sorted, without fields within fields.
    """

    kinds: list[str]
    has_fields: list[bool]
    fields: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class Schema(Request[Columns]):
    """The surface kinds and the fields of all records.

    A search that found nothing reports a kind or a field that no record has, and names similar ones.

    Args:
        paths: The fields to look for, read as in filters.
        limit: The number of records whose field names are listed.
    """

    _needs: ClassVar[Capability] = "schema"
    paths: Sequence[str] = ()
    limit: int = 10_000

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        check_count("limit", self.limit)


# Chains


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """The artifacts of this corpus at the other ends of edges, without duplicates, in order.

    Args:
        of: The request for the edges.
        limit: The largest number of ends.
        without: Artifacts to leave out, as those whose edges these are.
    """

    of: Edges
    limit: int | None = None
    without: Iterable[NodeIdLike] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.of, Edges):
            raise ArgumentError(f"Ends must be those of Edges, not of {short_repr(self.of)}")
        check_limit(self.limit)

    def take(self, answer: Sequence[Sequence[Edge]]) -> list[NodeIdLike]:
        """Return the ends in the answer of `of`."""
        own, known = {*self.of.ids}, self.without if isinstance(self.without, dict | set) else {*self.without}
        rows = (EdgeRow.of(id, row).inside.ends for id, row in zip(self.of.ids, answer, strict=True))
        ends: dict[NodeIdLike, None] = {}
        for end in filterfalse(known.__contains__, chain.from_iterable(rows)):
            if len(ends) == self.limit:
                break
            if end not in own:
                ends[end] = None
        return list(ends)


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The records of rankings, best first and without duplicates.

    Args:
        of: The request for the rankings, or one that is fed with ids.
        limit: The largest number of records of each ranking.
    """

    of: "Rank | Fed[list[Ranking]]"
    limit: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.of.request if isinstance(self.of, Fed) else self.of, Rank):
            raise ArgumentError(f"Best must be the best of a Rank, not of {short_repr(self.of)}")
        check_limit(self.limit)

    def take(self, answer: Sequence[Ranking]) -> list[str]:
        """Return the record ids in the answer of `of`."""
        return [*dict.fromkeys(id for ranking in answer for id in ranking.record_ids[: self.limit])]


@dataclass(frozen=True, slots=True, eq=False)
class Fed(Request[A_co]):
    """A request about the ids that an earlier request of the same call finds.

    A step of a walk is one call so, also of a store on a server: its edges, the scores of the artifacts at their ends,
    and the records of the best ones.

    Args:
        request: The request, with any ids.
        by: What finds the ids.

    Raises:
        ArgumentError: If the request takes no such ids.

    Example:
        >>> edges = Edges(["a.md"])
        >>> scores = Fed(Rank(np.ones((1, 3), np.float32), per_artifact=True, among=()), Ends(edges, limit=100))
        >>> chain = (edges, scores, Fed(Records(()), Best(scores, limit=10)))
    """

    request: Request[A_co]
    by: Ends | Best

    def __post_init__(self) -> None:
        if (type(self.request), type(self.by)) not in _FED_FIELDS:
            raise ArgumentError(f"{type(self.request).__name__} cannot be fed by {type(self.by).__name__}")

    @property
    def needs(self) -> Capability:
        """Return what the request needs."""
        return self.request.needs

    @property
    def all_needs(self) -> frozenset[Capability]:
        """Return all that the request needs."""
        return self.request.all_needs

    def fill(self, answer: Any) -> Request[A_co]:
        """Return the request with the ids in the answer of the one that feeds it."""
        field = _FED_FIELDS[type(self.request), type(self.by)]
        filled: Any = replace(self.request, **{field: self.by.take(answer)})  # type: ignore[type-var]
        return filled  # type: ignore[no-any-return]


_FED_FIELDS: Mapping[tuple[type, type], str] = {
    (Records, Best): "ids",
    (RecordsOf, Ends): "artifact_ids",
    (VectorsOf, Ends): "artifact_ids",
    (Rank, Ends): "among",
    (Rank, Best): "records",
    (Edges, Ends): "ids",
}


# Writing


@dataclass(frozen=True, slots=True)
class Change:
    """What one transaction writes: whole artifacts and settings.

    A put replaces all stored content of its artifact. The same transaction resolves the links of the changed artifacts
    again, and every stored link whose reference now has another meaning. Unknown removals are ignored. An artifact in
    both `puts` and `removals` is stored.

    Args:
        puts: The artifacts to write: records, vectors, ledger entries, links and names.
        removals: The ids of the artifacts to remove.
        config: The settings, which replace all others; `None` leaves them.
        calibrations: Calibrations by key; each replaces the one under its key.
        language: The language for which all texts are indexed again; `"same"` leaves it.
    """

    puts: Sequence[ArtifactChange] = ()
    removals: Sequence[str] = ()
    config: Mapping[str, Any] | None = None
    calibrations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    language: Language | Literal["same"] | None = "same"


def _check_texts(queries: Sequence[Any]) -> None:
    _check_list("queries", queries)
    for query in queries:
        if not isinstance(query, str):
            raise ArgumentError(f"queries must be texts, or vectors in one array, not {short_repr(query)}")


def _check_list(name: str, values: object) -> None:
    """Check that a value is a list of something: a single id would be read as one per letter."""
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise ArgumentError(f"{name} must be a list, not {short_repr(values)}")


def _check_items(name: str, values: Any) -> None:
    """Check that ids are strings, or pairs of them.

    A store would look up others in vain, or fail.
    """
    if name != "wanted" and {*map(type, values)} <= {str}:
        return
    for item in values:
        is_pair = isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)
        if not (is_pair if name == "wanted" else isinstance(item, str) or (isinstance(item, tuple) and is_pair)):
            kind = "pairs of a field and a value" if name == "wanted" else "strings"
            raise ArgumentKindError(f"{name} must be a list of {kind}, not of {short_repr(item)}")

"""Split requests over several corpora, and join their answers as those of one store.

Nothing here does I/O. A store knows its artifacts by plain ids and its records by plain record ids. Outside it, an
artifact is an `ArtifactRef(source, id)`, and the id of a record is `source/id`.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from airw._base.arrays import Floats
from airw.errors import ArgumentError, EmbedderMismatch
from airw.protocols import (
    ArtifactIds,
    ArtifactVectors,
    Capability,
    Counts,
    EdgeLabel,
    EdgeRow,
    Edges,
    Ends,
    Fed,
    Ledger,
    LinkCounts,
    Matching,
    MaxFanIn,
    Names,
    Rank,
    Records,
    RecordsOf,
    Referrers,
    Request,
    Stale,
    TextLanguage,
    UnresolvedLinks,
    Vectors,
    VectorsOf,
    Words,
    fill,
)
from airw.retrieval.fusion import fuse_ranks
from airw.stores.own_store import find_changed
from airw.values import (
    ArtifactRef,
    LedgerEntry,
    LinkCount,
    LinkState,
    NodeIdLike,
    Ranking,
    Record,
    SearchHit,
    TermCounts,
    UnresolvedLink,
)

STACK: Final = "/"
"""In the place of a name: the small stores of this process, which are ranked together."""

# This takes a third of the time of `ArtifactRef(...)`, which matters because it runs once an edge.
_ref = partial(tuple.__new__, ArtifactRef)

_LINKED: Final = EdgeLabel("", "", is_incoming=True, is_foreign=True)
"""In the place of the label of an edge of which only the ends are known."""

# The fields of requests that name artifacts or records, and those with items that each corpus spells in its own way.
_ID_FIELDS: Final = ("ids", "artifact_ids", "among", "records")
_SPELLED_FIELDS: Final = ("nodes", "refs", "wanted")


class Reply(NamedTuple):
    """The answer of one corpus to its part of a request.

    Args:
        name: The corpus.
        asked: What it was asked.
        answer: Its answer.
    """

    name: str
    asked: Request[Any]
    answer: Any

    @property
    def ids(self) -> Sequence[str]:
        """The artifacts or records of the corpus that it was asked about."""
        return getattr(self.asked, field_of(self.asked) or "", ())


Parts: TypeAlias = Sequence[tuple[str, Request[Any]]]
"""What corpora are asked, each by its name."""
Plan: TypeAlias = Generator[Parts, Sequence[Reply], Any]
"""The way to an answer: in each round it yields what to ask, and gets the replies.

A corpus that is lost does not reply.
"""
_Edge: TypeAlias = tuple[ArtifactRef, ArtifactRef, EdgeLabel]
"""An artifact that was asked about, the other end of its edge, and the label."""
Found: TypeAlias = tuple[str, Sequence[str], Any]
"""The name of a corpus, the plain ids that it was asked about, and its answer."""


class Reading:
    """The requests of one call: how each is split over the corpora, and its answers joined.

    Most requests have one plan: `ask` splits them by the ids that they name, or asks all corpora the same, and a
    function for each kind makes one answer of the replies. Requests are told apart by `id`, as chains name them.

    Args:
        names: The corpora.
        able: Those that can do something, by what it is.
        stacked: Those that can be ranked together.
        requests: The requests.

    Attributes:
        plans: The plans that are not at their end, by request.
        answers: The answers of the others.
    """

    def __init__(
        self,
        names: Sequence[str],
        able: Mapping[Capability, Sequence[str]],
        stacked: AbstractSet[str],
        requests: Sequence[Request[Any]],
    ) -> None:
        self._names, self._able, self._stacked = names, able, stacked
        self._parts: dict[int, Parts] = {}  # what each plan asks in this round
        # Edges that may turn out to lead nowhere: what follows from them is read while it is not known.
        self._drafts: dict[int, Sequence[_Edge]] = {}
        self.answers: dict[int, Any] = {}
        self.plans: dict[int, Plan] = {id(request): self._plan(request) for request in requests}

    def advance(self, answers: Mapping[tuple[str, int], Any]) -> dict[str, list[Request[Any]]]:
        """Go on with the answers of the last round; return what to ask in the next one.

        Args:
            answers: The answers by corpus and by the `id` of what it was asked.

        Returns:
            What each corpus is asked.
        """
        asked: dict[str, list[Request[Any]]] = {}
        for key, plan in [*self.plans.items()]:
            replies: Any = [*_find_replies(self._parts[key], answers)] if key in self._parts else None
            try:
                self._parts[key] = plan.send(replies)
            except StopIteration as end:
                self.answers[key] = end.value
                del self.plans[key]
                self._parts.pop(key, None)
            for name, part in self._parts.get(key, ()):
                asked.setdefault(name, []).append(part)
        return asked

    def _plan(self, request: Request[Any], found: Sequence[Reply] = ()) -> Plan:
        """Return the plan of a request, of which some was read ahead."""
        match request:
            case Fed():
                return self.follow(request)
            case Edges():
                return self.find_edges(request)
            case MaxFanIn():
                return self.find_max_fan_in(request)
            case Rank():
                return self.rank(request, found)
            case Stale():
                return self.find_stale(request)
        return self.ask(request, found)

    def ask(self, request: Request[Any], found: Sequence[Reply] = ()) -> Plan:
        """Ask each corpus for its part, and join the answers.

        Args:
            request: The request.
            found: What was read ahead; no corpus is asked for it again.
        """
        if type(request) not in _JOINS:
            raise ArgumentError(f"several corpora together cannot answer {type(request).__name__}: ask one of them")
        parts = self._split(request, found)
        replies: Sequence[Reply] = [*found, *((yield parts) if parts else ())]
        if not replies and isinstance(request, Vectors | VectorsOf):
            # The vectors have the width of those that are stored, even if there are none, or their corpus is lost.
            replies = yield [(name, type(request)([])) for name in self._able["vectors"]]
        return _JOINS[type(request)](request, [(reply.name, reply.ids, reply.answer) for reply in replies])

    def _split(self, request: Any, found: Sequence[Reply] = ()) -> list[tuple[str, Request[Any]]]:
        """Return the parts of a request, in the order of the corpora that they concern."""
        names, field = self._able[request.needs], field_of(request)
        if field is None:
            is_joint = isinstance(request, Rank) and request.k is not None and not _has_own_scales(request)
            if self._stacked and (is_joint or isinstance(request, Words)):
                names = [STACK, *(name for name in names if name not in self._stacked)]
            return [(name, request) for name in names]
        own: Mapping[str, Any]
        if field in _SPELLED_FIELDS:
            items = getattr(request, field)
            own = {name: [*chain.from_iterable(spell(request, item, name) for item in items)] for name in names}
        else:
            known = {ref for reply in found for ref in refs_to(reply.name, reply.ids)}
            own = group_by_corpus([ref for ref in _refs_of(request) if ref not in known], names)
        return [(name, replace(request, **{field: own[name]})) for name in names if own.get(name)]

    # Requests with plans of their own

    def follow(self, fed: Fed[Any]) -> Plan:
        """Answer a request about what another one finds; meanwhile, the corpora read ahead."""
        feeder, found = id(fed.by.of), list[Reply]()
        while feeder in self._parts:
            found += yield self._read_ahead(fed, self._parts[feeder], found)
        return (yield from self._plan(fill(fed, self.answers), found))

    def _read_ahead(self, fed: Fed[Any], asked: Parts, found: Sequence[Reply]) -> Parts:
        """Return what each corpus reads ahead in a round.

        That is what its own part of the chain finds.

        Args:
            fed: The request, and what finds its ids.
            asked: What the corpora are asked in this round to find them.
            found: What was read ahead in earlier rounds.
        """
        request, by = fed.request, fed.by
        # The best of all are not the best of each, and the scores of texts need the words of all.
        is_joint = isinstance(request, Rank) and (request.k is not None or request.needs == "lexical")
        if is_joint or isinstance(request, Edges):
            return []
        if isinstance(by, Ends) and id(by.of) in self._drafts:
            return self._split(fed.fill(self._sort_edges(by.of, self._drafts[id(by.of)])), found)
        if isinstance(by, Ends):
            known = group_by_corpus(by.without, self._names)
            edges = [(name, part) for name, part in asked if isinstance(part, Edges)]
            return [(name, Fed(request, replace(by, of=part, without=known.get(name, ())))) for name, part in edges]
        ranks: list[tuple[str, Any]] = [pair for pair in asked if pair[0] != STACK and not isinstance(pair[1], Words)]
        return [(name, Fed(request, replace(by, of=part))) for name, part in ranks]

    def rank(self, request: Rank, found: Sequence[Reply]) -> Plan:
        """Rank in each corpus, and merge the rankings.

        BM25 depends on how often a word occurs, so the corpora first add up their counts: the scores are those of one
        corpus that contains all records. If a corpus cannot count words, or counts by another formula, the rankings are
        fused by rank instead, and the scores are RRF scores. The first hits of all corpora then come first, in the
        order of the corpora, then the second hits, and so on.
        """
        if request.among is not None and request.records is not None:
            raise ArgumentError("several corpora together rank artifacts or records, not both: leave out one of them")
        if _has_own_scales(request) and len(self._able["words"]) == len(self._names):
            counts = yield from self.ask(Words(cast("Sequence[str]", request.queries)))
            request = replace(request, statistics=counts if counts.formula else None)
        return (yield from self.ask(request, found))

    def find_max_fan_in(self, request: MaxFanIn) -> Plan:
        """Return the largest number of referrers of any node.

        A node that is not an artifact of any corpus is counted in each corpus separately. An artifact that links to
        itself by its pair counts as one of its own referrers: its store takes the pair for an artifact of another
        corpus.
        """
        replies = yield [*self._split(request), *((name, Counts()) for name in self._able["links"])]
        fan_ins = [reply.answer for reply in replies if isinstance(reply.asked, MaxFanIn)]
        # Only links between corpora can add referrers from several corpora to one artifact.
        if any(reply.answer["foreign"] for reply in replies if isinstance(reply.asked, Counts)):
            artifacts = yield from self.ask(ArtifactIds())
            fan_ins += map(len, (yield from self.ask(Referrers(artifacts, request.types))))
        return max(fan_ins, default=0)

    def find_stale(self, request: Stale) -> Plan:
        """Return the artifacts to index again; one of no corpus is among them."""
        entries = yield from self.ask(Ledger([*request.versions]))
        return find_changed(request.versions, request.stamp, entries)

    def find_edges(self, request: Edges) -> Plan:
        """Return the edges of each artifact, by type, then by corpus and id of the other end.

        A link to another corpus is an edge if that corpus is a member and contains the artifact. Duplicates, and edges
        of an artifact to itself, are left out.
        """
        pairs = [id for id in dict.fromkeys(request.ids) if request.direction != "out" and not isinstance(id, str)]
        asked = self._split(replace(request, limit=None))
        # A corpus knows the links of its own artifacts only, so links from other corpora are in the other stores.
        asked += [(name, Referrers(pairs, request.links.types)) for name in self._able["links"] if pairs]
        replies = yield asked
        edges = [edge for reply in replies if isinstance(reply.asked, Edges) for edge in _list_edges(reply)]
        linked = [
            (ArtifactRef(*pair), ref, _LINKED)
            for reply in replies
            if isinstance(reply.asked, Referrers)
            for pair, ids in zip(pairs, reply.answer, strict=True)
            for ref in refs_to(reply.name, ids)
        ]
        # A corpus cannot be asked for edges to an artifact of another one, but for those of the artifacts that link to
        # it. Nor does it know whether an artifact of another one exists.
        across = [edge for edge in edges if edge[2].is_foreign]
        targets = dict.fromkeys([*(end for _, end, _ in across), *(pair for pair, _, _ in linked)])
        existing = {ref for ref, _, _ in edges}.union(end for _, end, label in edges if not label.is_foreign)
        unsure = [ref for ref in targets if ref not in existing]
        missing = {*unsure}
        if unsure or linked:
            self._drafts[id(request)] = [*across, *linked]
            named, referrers = {pair for pair, _, _ in linked}, [*dict.fromkeys(ref for _, ref, _ in linked)]
            replies = yield [
                *self._split(RecordsOf(unsure, limit=0)),
                *self._split(replace(request, ids=referrers, direction="out", limit=None)),
            ]
            for reply in replies:
                if isinstance(reply.asked, Edges):
                    out = [edge for edge in _list_edges(reply) if edge[2].is_foreign and edge[1] in named]
                    edges += [(end, ref, label._replace(is_incoming=True)) for ref, end, label in out]
                else:
                    found = zip(refs_to(reply.name, reply.ids), reply.answer, strict=True)
                    missing.difference_update(ref for ref, records in found if records is not None)
        if missing:
            edges = [edge for edge in edges if edge[0 if edge[2].is_incoming else 1] not in missing]
        return self._sort_edges(request, edges)

    def _sort_edges(self, request: Edges, edges: Iterable[_Edge]) -> list[EdgeRow]:
        """Return the edges of each artifact in their order.

        Each stays with the artifact that was asked about. A corpus that knows no referrers must answer about one
        artifact as about many.
        """
        places = {name: place for place, name in enumerate(self._names)}
        rows: dict[NodeIdLike, dict[tuple[str, int, str, bool, str], float]] = {id: {} for id in request.ids}
        for ref, end, (kind, origin, is_incoming, _, weight) in edges:
            place = places.get(end.source)
            if place is not None and end != ref:
                # Several links can be one edge; the largest weight counts.
                row, key = rows[ref], (kind, place, end.id, is_incoming, origin)
                row[key] = max(weight, row.get(key, 0.0))
        return [self._make_row(id, sorted(rows[id].items())[: request.limit]) for id in request.ids]

    def _make_row(self, id: NodeIdLike, edges: Sequence[tuple[tuple[str, int, str, bool, str], float]]) -> EdgeRow:
        ends = [_ref((self._names[place], own)) for (_, place, own, _, _), _ in edges]
        labels = [
            EdgeLabel(kind, origin, is_incoming, is_foreign=False, weight=weight)
            for (kind, _, _, is_incoming, origin), weight in edges
        ]
        return EdgeRow(id, tuple(ends), tuple(labels))


def field_of(request: Request[Any]) -> str | None:
    """Return the field whose items split a request; `None` if all are asked the same."""
    return next((name for name in (*_ID_FIELDS, *_SPELLED_FIELDS) if getattr(request, name, None) is not None), None)


def _refs_of(request: Any) -> Sequence[Any]:
    """Return the artifacts or records that a request names, outside their corpus."""
    field = field_of(request)
    ids = getattr(request, field or "")
    return split_ids(ids) if field == "records" or isinstance(request, Records | Vectors) else [*ids]


def _find_replies(parts: Parts, answers: Mapping[tuple[str, int], Any]) -> Iterator[Reply]:
    """Yield the replies of the corpora that have answered."""
    for name, part in parts:
        if (name, id(part)) in answers:
            asked, answer = part, answers[name, id(part)]
            if isinstance(part, Fed):
                asked = part.fill(answers[name, id(part.by.of)])
            # Stores that rank together answer with the rankings of each.
            each = answer if name == STACK and isinstance(part, Rank) else {name: answer}
            yield from (Reply(source, asked, own) for source, own in each.items())


def _has_own_scales(request: Rank) -> bool:
    """Return whether each corpus would weigh words by its own counts."""
    return request.needs == "lexical" and request.statistics is None


# Ids inside a corpus and outside it


def split_ids(record_ids: Sequence[str]) -> list[ArtifactRef]:
    """Return the corpus of each record, and its id there."""
    return [_ref((source, id)) for source, _, id in (record_id.partition("/") for record_id in record_ids)]


def join_id(source: str, id: str) -> str:
    """Return the federated id of a record."""
    return f"{source}/{id}"


def refs_to(source: str, ids: Iterable[str]) -> list[ArtifactRef]:
    """Return references to artifacts of one corpus."""
    return [_ref((source, id)) for id in ids]


def ref_to(source: str, node: NodeIdLike) -> ArtifactRef:
    """Return a reference to a node of a store; a plain id is in the store's own corpus."""
    return _ref((source, node)) if isinstance(node, str) else _ref(node)


def spell(request: Names | Referrers | Matching, item: Any, source: str) -> list[Any]:
    """Return how an item of a request is spelled in one corpus: in no way, or in several.

    A text has the meaning that each corpus gives it. A pair is an artifact: its own corpus knows it by its plain id.
    Links from elsewhere name it by the pair, and so may those of its own corpus; in fields, a pair is a list.
    """
    value = item[1] if isinstance(request, Matching) else item
    if not isinstance(value, tuple):
        return [item]
    own = [value[1]] if value[0] == source else []
    match request:
        case Matching():
            return [(item[0], each) for each in (*own, [*value])]
        case Referrers():
            return [*own, ArtifactRef(*value)]
    return own


# Values of a store as federated values


@dataclass(frozen=True, slots=True)
class FederatedRecord(Record):
    """A record of one of several corpora.

    Its `id` is `source/id`; its `artifact_id` is the plain id in the corpus `source`.
    """

    source: str = field(kw_only=True)

    def as_hit(self, score: float, source: str | None) -> SearchHit:
        """Return the record as a new hit of its own corpus; the argument `source` is ignored."""
        return Record.as_hit(self, score, self.source)


def to_federated_record(source: str, record: Record) -> Record:
    """Return a record of one corpus as a federated one."""
    return FederatedRecord(
        join_id(source, record.id),
        record.artifact_id,
        record.surface_kind,
        record.surface_index,
        record.text,
        record.metadata,
        source=source,
    )


def _to_federated(source: str, value: Any) -> Any:
    """Return a value of one corpus as a federated one: an id, or what contains ids."""
    match value:
        case list():
            return [_to_federated(source, each) for each in value]
        case Record():
            return to_federated_record(source, value)
        case LedgerEntry():
            return replace(value, record_ids=tuple(join_id(source, id) for id in value.record_ids))
        case UnresolvedLink():
            candidates = tuple(ref_to(source, id) for id in value.candidates)
            return UnresolvedLink(ref_to(source, value.source), value.link, candidates)
    return ref_to(source, value)


# Splitting a request, and putting the answers back in order


def group_by_corpus(ids: Iterable[NodeIdLike], sources: Container[str]) -> dict[str, list[str]]:
    """Return, for each corpus, the plain ids of its artifacts or records, in their order.

    Ids that name no corpus, or another one, are left out.
    """
    ids_by_corpus: dict[str, list[str]] = {}
    for id in ids:
        if not isinstance(id, str) and id[0] in sources:
            ids_by_corpus.setdefault(id[0], []).append(id[1])
    return ids_by_corpus


def join_rows(
    refs: Sequence[Any], found: Iterable[Found], convert: Callable[[str, Any], Any] = lambda _, row: row
) -> list[Any]:
    """Return the row of each artifact or record, `None` for an unknown one.

    Args:
        refs: The artifacts or records.
        found: What the corpora have answered, a row for each id.
        convert: Returns a row as it is outside its corpus.
    """
    rows = {
        ref: convert(name, row)
        for name, ids, own in found
        for ref, row in zip(refs_to(name, ids), own, strict=True)
        if row is not None
    }
    return [rows.get(ref) for ref in refs]


def _list_all(request: Any, found: Sequence[Found]) -> list[Any]:
    """Return what all corpora list, corpus by corpus."""
    values = [_to_federated(name, value) for name, _, own in found for value in own]
    return values[: request.limit] if isinstance(request, UnresolvedLinks) else values


def _line_up(request: Any, found: Sequence[Found]) -> list[Any]:
    """Return what is known of each artifact or record; of all if none are named."""
    return (
        _list_all(request, found) if field_of(request) is None else join_rows(_refs_of(request), found, _to_federated)
    )


def _line_up_lists(request: Any, found: Sequence[Found]) -> list[list[Any]]:
    """Return the artifacts found for each item, corpus by corpus, sorted."""
    items: Sequence[Any] = getattr(request, field_of(request) or "")
    lists: list[list[Any]] = [[] for _ in items]
    for name, _, answer in found:
        left = iter(answer)
        for place, item in enumerate(items):
            spelled = islice(left, len(spell(request, item, name)))
            lists[place] += refs_to(name, sorted({*chain.from_iterable(spelled)}))
    if isinstance(request, Referrers):
        return [[ref for ref in own if ref != node] for own, node in zip(lists, items, strict=True)]
    return [own[: request.limit] for own in lists] if isinstance(request, Matching) else lists


def _sum_words(_: Words, found: Sequence[Found]) -> TermCounts:
    """Return the sum of the counts.

    Those of several formulas cannot be added up, so no word counts.
    """
    is_one = len({counts.formula for _, _, counts in found}) == 1
    return TermCounts.sum(counts for _, _, counts in found) if is_one else TermCounts("", 0, 0, {})


def _sum_links(_: LinkCounts, found: Sequence[Found]) -> list[LinkCount]:
    """Return the sums of link counts; links from corpus to corpus are foreign, too."""
    sums: Counter[tuple[str, str, LinkState]] = Counter()
    for each in chain.from_iterable(counts for _, _, counts in found):
        sums[each.type, each.origin, each.state] += each.count
    return [LinkCount(*key, total) for key, total in sorted(sums.items())]


def _find_language(_: TextLanguage, found: Sequence[Found]) -> Any:
    """Return the language of all corpora; `None` if they have several."""
    languages = {language for _, _, language in found}
    return languages.pop() if len(languages) == 1 else None


def _join_vectors(request: Vectors | VectorsOf, found: Sequence[Found]) -> Any:
    """Return the vectors of records, or those of artifacts with their record ids.

    An unknown record has a row of NaN.

    Raises:
        EmbedderMismatch: If the vectors have several widths.
    """
    lists: Sequence[Sequence[str]] = [request.ids] if isinstance(request, Vectors) else []
    columns: list[tuple[str, Iterable[str], Floats]] = [*found]
    if isinstance(request, VectorsOf):
        names = [
            (name, ids, [[join_id(name, id) for id in own] for own in each.record_ids]) for name, ids, each in found
        ]
        lists = [own or [] for own in join_rows(request.artifact_ids, names)]
        columns = [(name, chain.from_iterable(each.record_ids), each.vectors) for name, _, each in found]
    # A store without vectors answers with width 0, and would not fit the others.
    columns = [(name, ids, vectors) for name, ids, vectors in columns if vectors.shape[1]]
    widths = sorted({vectors.shape[1] for _, _, vectors in columns})
    if len(widths) > 1:
        raise EmbedderMismatch(f"the vectors of these corpora are {' and '.join(map(str, widths))} wide")
    rows = {join_id(name, id): row for name, ids, own in columns for id, row in zip(ids, own, strict=True)}
    width = sum(widths)
    unknown = np.full(width, np.nan, np.float32)
    wanted = [rows.get(id, unknown) for id in chain.from_iterable(lists)]
    vectors = np.array(wanted, np.float32).reshape(len(wanted), width)
    return vectors if isinstance(request, Vectors) else ArtifactVectors([[*own] for own in lists], vectors)


# Merging rankings


def _merge_rankings(request: Rank, found: Sequence[Found]) -> list[Ranking]:
    """Return the ranking of each query."""
    merge: Callable[..., Ranking] = merge_by_rank if _has_own_scales(request) else merge_by_score
    places = range(len(request.queries))
    rankings = [merge([(name, own[place]) for name, _, own in found], request.k) for place in places]
    return rankings if field_of(request) is None else [_keep_named(request, ranking) for ranking in rankings]


def merge_by_score(
    rankings: Iterable[tuple[str, Ranking]], k: int | None, record_key: Callable[[str, str], Any] = join_id
) -> Ranking:
    """Return the `k` best rows of rankings whose scores are on one scale.

    Ties are in the order of the artifact ids, then of the corpus names: as in one corpus that contains them all. The
    rows of each ranking keep their order: that of a function may tell more than its scores.

    Args:
        rankings: Rankings, each with the name of its corpus.
        k: The number of rows; `None` for all.
        record_key: Returns the id of a record outside its corpus.
    """
    every = [*rankings]
    rows_by_corpus = [
        [
            (-score, artifact_id, name, place, record_id)
            for place, (score, artifact_id, record_id) in enumerate(
                zip(own.scores.tolist(), own.artifact_ids, own.record_ids, strict=True)
            )
        ]
        for name, own in every
    ]
    rows = islice(heapq.merge(*rows_by_corpus), k)
    highest = [own.max_score for _, own in every if own.max_score is not None]
    return _to_ranking(
        [(record_key(name, record_id), _ref((name, id)), -score) for score, id, name, _, record_id in rows],
        max(highest) if highest and len(highest) == len(every) else None,
    )


def merge_by_rank(rankings: Iterable[tuple[str, Ranking]], k: int | None) -> Ranking:
    """Merge rankings of different scales by rank; the scores become RRF scores.

    Ties are in the order of the corpora, then in that of each ranking.
    """
    # Each corpus has records of its own, so no row is in two rankings.
    keys = [
        [*zip((join_id(name, id) for id in own.record_ids), refs_to(name, own.artifact_ids), strict=True)]
        for name, own in rankings
    ]
    return _to_ranking([(*key, score) for key, score in fuse_ranks(keys)[:k]])


def _keep_named(request: Rank, ranking: Ranking) -> Ranking:
    """Return the rows that a request names; others may have been read ahead."""
    rows = zip(ranking.record_ids, ranking.artifact_ids, ranking.scores.tolist(), strict=True)
    column, wanted = (0, request.records) if request.among is None else (1, request.among)
    kept = {*(wanted or ())}
    return _to_ranking([row for row in rows if row[column] in kept], ranking.max_score)


def _to_ranking(rows: Sequence[tuple[str, Any, float]], max_score: float | None = None) -> Ranking:
    """Return rows of records, their artifacts and scores as columns."""
    scores = np.array([score for _, _, score in rows], np.float64)
    return Ranking([id for id, _, _ in rows], [ref for _, ref, _ in rows], scores, max_score)


# Edges


def _list_edges(reply: Reply) -> Iterator[_Edge]:
    """Yield the edges that a corpus answers with."""
    for ref, edges in zip(refs_to(reply.name, reply.ids), reply.answer, strict=True):
        row = EdgeRow.of(ref.id, edges)
        for end, label in zip(row.ends, row.labels, strict=True):
            yield ref, ref_to(reply.name, end), label


_JOINS: Final[Mapping[type, Callable[[Any, Sequence[Found]], Any]]] = {
    ArtifactIds: _list_all,
    UnresolvedLinks: _list_all,
    Ledger: _line_up,
    Records: _line_up,
    RecordsOf: _line_up,
    Vectors: _join_vectors,
    VectorsOf: _join_vectors,
    Matching: _line_up_lists,
    Names: _line_up_lists,
    Referrers: _line_up_lists,
    Rank: _merge_rankings,
    Words: _sum_words,
    LinkCounts: _sum_links,
    TextLanguage: _find_language,
}

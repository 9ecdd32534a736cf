"""Split requests over several corpora, and join their answers as those of one store.

Nothing here does I/O. A store knows its artifacts by plain ids and its records by plain record ids. Outside it, an
artifact is an `ArtifactRef(source, id)`, and the id of a record is `source/id`.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Any, Final, TypeAlias, cast

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

Question: TypeAlias = Mapping[str, Request[Any]]
"""What corpora are asked, by their names."""
Reply: TypeAlias = tuple[str, Sequence[str], Any]
"""The name of a corpus, the plain ids that it was asked about, and its answer."""
Answers: TypeAlias = dict[Request[Any], dict[str, Any]]
"""The answers of one round: of each request, by the names of the corpora in their order."""
Plan: TypeAlias = Generator[Sequence[Question], Sequence[list[Reply]], Any]
"""The way to an answer: in each round it yields questions, and gets the replies to each.

A corpus that is lost does not reply.
"""
_Edge: TypeAlias = tuple[ArtifactRef, ArtifactRef, EdgeLabel]
"""An artifact that was asked about, the other end of its edge, and the label."""
_Row: TypeAlias = tuple[float, str, str, str]
"""A row of a ranking: minus its score, the artifact, the corpus, the record."""


@dataclass(slots=True, eq=False)
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

    names: Sequence[str]
    able: Mapping[Capability, Sequence[str]]
    stacked: AbstractSet[str]
    requests: InitVar[Sequence[Request[Any]]]
    plans: dict[int, Plan] = field(init=False)
    answers: dict[int, Any] = field(default_factory=dict, init=False)
    # What each plan asks in this round.
    _questions: dict[int, Sequence[Question]] = field(default_factory=dict, init=False)
    # Edges that may turn out to lead nowhere: what follows from them is read while it is not known.
    _drafts: dict[int, Sequence[_Edge]] = field(default_factory=dict, init=False)

    def __post_init__(self, requests: Sequence[Request[Any]]) -> None:
        """Begin a plan for each request."""
        self.plans = {id(request): self._plan(request) for request in requests}

    def advance(self, answers: Answers) -> dict[str, list[Request[Any]]]:
        """Go on with the answers of a round; return what to ask each corpus in the next one."""
        for key, plan in [*self.plans.items()]:
            replies: Any = None  # a plan begins with none
            if key in self._questions:
                replies = [_list_replies(question, answers) for question in self._questions.pop(key)]
            try:
                self._questions[key] = plan.send(replies)
            except StopIteration as end:
                self.answers[key] = end.value
                del self.plans[key]
        asked: dict[str, list[Request[Any]]] = {}
        for question in chain.from_iterable(self._questions.values()):
            for name, part in question.items():
                asked.setdefault(name, []).append(part)
        return asked

    def _plan(self, request: Request[Any], found: Sequence[Reply] = ()) -> Plan:
        """Return the plan of a request, of which some was read ahead."""
        plan: Callable[..., Plan] = _PLANS.get(type(request), Reading.ask)
        return plan(self, request, found)

    def ask(self, request: Request[Any], found: Sequence[Reply] = ()) -> Plan:
        """Ask each corpus for its part, and join the answers.

        Args:
            request: The request.
            found: What was read ahead; no corpus is asked for it again.
        """
        if type(request) not in _JOINS:
            raise ArgumentError(f"several corpora together cannot answer {type(request).__name__}: ask one of them")
        if question := self._split(request, found):
            [replies] = yield [question]
            found = [*found, *replies]
        if not found and isinstance(request, Vectors | VectorsOf):
            # The vectors have the width of those that are stored, even if there are none, or their corpus is lost.
            [found] = yield [dict.fromkeys(self.able["vectors"], type(request)([]))]
        return _JOINS[type(request)](request, found)

    def _split(self, request: Any, found: Sequence[Reply] = ()) -> Question:
        """Return the parts of a request, in the order of the corpora that they concern."""
        names, field = self.able[request.needs], field_of(request)
        if field is None:
            is_joint = isinstance(request, Words) or (isinstance(request, Rank) and not _has_own_scales(request))
            if self.stacked and is_joint:
                names = [STACK, *(name for name in names if name not in self.stacked)]
            return dict.fromkeys(names, request)
        own: Mapping[str, Any]
        if field in _SPELLED_FIELDS:
            items = getattr(request, field)
            own = {name: [*chain.from_iterable(spell(request, item, name) for item in items)] for name in names}
        else:
            known = {ref for name, ids, _ in found for ref in refs_to(name, ids)}
            own = group_by_corpus([ref for ref in _refs_of(request) if ref not in known], names)
        return {name: replace(request, **{field: own[name]}) for name in names if own.get(name)}

    # Requests with plans of their own

    def follow(self, fed: Fed[Any], _: Sequence[Reply]) -> Plan:
        """Answer a request about what another one finds; meanwhile, the corpora read ahead."""
        found: list[Reply] = []
        while id(fed.by.of) in self._questions:
            [replies] = yield [self._read_ahead(fed, found)]
            found += replies
        return (yield from self._plan(fill(fed, self.answers), found))

    def _read_ahead(self, fed: Fed[Any], found: Sequence[Reply]) -> Question:
        """Return what each corpus reads ahead in a round.

        That is what its own part of the chain finds.

        Args:
            fed: The request, and what finds its ids.
            found: What was read ahead in earlier rounds.
        """
        request, by = fed.request, fed.by
        # The best of all are not the best of each, and the scores of texts need the words of all.
        is_joint = isinstance(request, Rank) and (request.k is not None or request.needs == "lexical")
        if is_joint or isinstance(request, Edges):
            return {}
        if isinstance(by, Ends) and id(by.of) in self._drafts:
            return self._split(fed.fill(self._sort_edges(by.of, self._drafts[id(by.of)])), found)
        asked: Mapping[str, Any] = self._questions[id(by.of)][0]
        if isinstance(by, Ends):
            known = group_by_corpus(by.without, self.names)
            return {
                name: Fed(request, replace(by, of=part, without=known.get(name, ()))) for name, part in asked.items()
            }
        # What small stores rank together, or count, has no records.
        return {
            name: Fed(request, replace(by, of=part))
            for name, part in asked.items()
            if name != STACK and not isinstance(part, Words)
        }

    def rank(self, request: Rank, found: Sequence[Reply]) -> Plan:
        """Rank in each corpus, and merge the rankings.

        BM25 depends on how often a word occurs, so the corpora first add up their counts: the scores are those of one
        corpus that contains all records. If a corpus cannot count words, or counts by another formula, the rankings are
        fused by rank instead, and the scores are RRF scores. The first hits of all corpora then come first, in the
        order of the corpora, then the second hits, and so on.
        """
        if request.among is not None and request.records is not None:
            raise ArgumentError("several corpora together rank artifacts or records, not both: leave out one of them")
        if _has_own_scales(request) and len(self.able["words"]) == len(self.names):
            counts = yield from self.ask(Words(cast("Sequence[str]", request.queries)))
            request = replace(request, statistics=counts if counts.formula else None)
        return (yield from self.ask(request, found))

    def find_max_fan_in(self, request: MaxFanIn, _: Sequence[Reply]) -> Plan:
        """Return the largest number of referrers of any node.

        A node that is not an artifact of any corpus is counted in each corpus separately. An artifact that links to
        itself by its pair counts as one of its own referrers: its store takes the pair for an artifact of another
        corpus.
        """
        replies, counts = yield [self._split(request), dict.fromkeys(self.able["links"], Counts())]
        fan_ins = [fan_in for _, _, fan_in in replies]
        # Only links between corpora can add referrers from several corpora to one artifact.
        if any(count["foreign"] for _, _, count in counts):
            artifacts = yield from self.ask(ArtifactIds())
            fan_ins += map(len, (yield from self.ask(Referrers(artifacts, request.types))))
        return max(fan_ins, default=0)

    def find_stale(self, request: Stale, _: Sequence[Reply]) -> Plan:
        """Return the artifacts to index again; one of no corpus is among them."""
        entries = yield from self.ask(Ledger([*request.versions]))
        return find_changed(request.versions, request.stamp, entries)

    def find_edges(self, request: Edges, _: Sequence[Reply]) -> Plan:
        """Return the edges of each artifact, by type, then by corpus and id of the other end.

        A link to another corpus is an edge if that corpus is a member and contains the artifact. Duplicates, and edges
        of an artifact to itself, are left out.
        """
        # A corpus knows the links of its own artifacts only, so links from other corpora are in the other stores.
        pairs = [id for id in dict.fromkeys(request.ids) if request.direction != "out" and not isinstance(id, str)]
        referrers = dict.fromkeys(self.able["links"] if pairs else (), Referrers(pairs, request.links.types))
        replies, linked = yield [self._split(replace(request, limit=None)), referrers]
        edges = [*chain.from_iterable(map(_list_edges, replies))]
        across = [edge for edge in edges if edge[2].is_foreign]
        for name, nodes, answer in linked:
            rows = zip(nodes, answer, strict=True)
            across += [(ref_to(name, node), ref, _LINKED) for node, ids in rows for ref in refs_to(name, ids)]
        # A corpus cannot be asked for edges to an artifact of another one, but for those of the artifacts that link to
        # it. Nor does it know whether an artifact of another one exists.
        existing = {node for ref, end, label in edges for node in (ref, ref if label.is_foreign else end)}
        unsure = [ref for ref in dict.fromkeys(map(_end_across, across)) if ref not in existing]
        sources = [*dict.fromkeys(ref for _, ref, label in across if label is _LINKED)]
        if unsure or sources:
            self._drafts[id(request)], named = across, {*pairs}
            known, found = yield [
                self._split(RecordsOf(unsure, limit=0)),
                self._split(replace(request, ids=sources, direction="out", limit=None)),
            ]
            for ref, end, label in chain.from_iterable(map(_list_edges, found)):
                if label.is_foreign and end in named:
                    edges.append((end, ref, label._replace(is_incoming=True)))
            missing = {ref for ref, records in zip(unsure, join_rows(unsure, known), strict=True) if records is None}
            edges = [edge for edge in edges if _end_across(edge) not in missing]
        return self._sort_edges(request, edges)

    def _sort_edges(self, request: Edges, edges: Iterable[_Edge]) -> list[EdgeRow]:
        """Return the edges of each artifact in their order.

        Each stays with the artifact that was asked about. A corpus that knows no referrers must answer about one
        artifact as about many.
        """
        places = {name: place for place, name in enumerate(self.names)}
        rows: dict[NodeIdLike, dict[tuple[str, int, ArtifactRef, bool, str], EdgeLabel]] = {
            id: {} for id in request.ids
        }
        for ref, end, label in edges:
            if end != ref and end.source in places:
                row, key = rows[ref], (label.type, places[end.source], end, label.is_incoming, label.origin)
                # Several links can be one edge; the largest weight counts.
                if key not in row or label.weight > row[key].weight:
                    row[key] = label._replace(is_foreign=False) if label.is_foreign else label
        ordered = [(id, sorted(rows[id])[: request.limit]) for id in request.ids]
        return [
            EdgeRow(id, tuple(end for _, _, end, _, _ in keys), tuple(map(rows[id].__getitem__, keys)))
            for id, keys in ordered
        ]


_PLANS: Final[Mapping[type, Callable[..., Plan]]] = {
    Fed: Reading.follow,
    Edges: Reading.find_edges,
    MaxFanIn: Reading.find_max_fan_in,
    Rank: Reading.rank,
    Stale: Reading.find_stale,
}


def field_of(request: Request[Any]) -> str | None:
    """Return the field whose items split a request; `None` if all are asked the same."""
    return next((name for name in (*_ID_FIELDS, *_SPELLED_FIELDS) if getattr(request, name, None) is not None), None)


def items_of(request: Request[Any]) -> Sequence[Any]:
    """Return the items that split a request; none if all are asked the same."""
    return getattr(request, field_of(request) or "", ())


def _refs_of(request: Any) -> Sequence[Any]:
    """Return the artifacts or records that a request names, outside their corpus."""
    are_records = field_of(request) == "records" or isinstance(request, Records | Vectors)
    return split_ids(items_of(request)) if are_records else items_of(request)


def _list_replies(question: Question, answers: Answers) -> list[Reply]:
    """Return the replies of the corpora that have answered."""
    replies = list[Reply]()
    for part in dict.fromkeys(question.values()):
        ids = items_of(part)
        for name, answer in answers.get(part, {}).items():
            if isinstance(part, Fed):
                ids = items_of(part.fill(answers[part.by.of][name]))
            replies.append((name, ids, answer))
    return replies


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
    refs: Sequence[Any], replies: Iterable[Reply], convert: Callable[[str, Any], Any] = lambda _, row: row
) -> list[Any]:
    """Return the row of each artifact or record, `None` for an unknown one.

    Args:
        refs: The artifacts or records.
        replies: What the corpora have answered, a row for each id.
        convert: Returns a row as it is outside its corpus.
    """
    rows = {
        ref: convert(name, row)
        for name, ids, answer in replies
        for ref, row in zip(refs_to(name, ids), answer, strict=True)
        if row is not None
    }
    return [rows.get(ref) for ref in refs]


def _line_up(request: Any, replies: Sequence[Reply]) -> list[Any]:
    """Return what is known of each artifact or record; of all if none are named."""
    if field_of(request) is None:
        return _list_all(request, replies)
    return join_rows(_refs_of(request), replies, _to_federated)


def _list_all(request: Any, replies: Sequence[Reply]) -> list[Any]:
    """Return what all corpora list, corpus by corpus."""
    values = [_to_federated(name, value) for name, _, answer in replies for value in answer]
    return values[: request.limit] if isinstance(request, UnresolvedLinks) else values


def _line_up_lists(request: Any, replies: Sequence[Reply]) -> list[list[Any]]:
    """Return the artifacts found for each item, corpus by corpus, sorted."""
    lists = []
    rests = [(name, iter(answer)) for name, _, answer in replies]  # what is left of each answer
    for item in items_of(request):
        refs: list[Any] = []
        for name, rest in rests:
            spelled = islice(rest, len(spell(request, item, name)))
            refs += refs_to(name, sorted({*chain.from_iterable(spelled)}))
        # A node is never its own referrer.
        lists.append([ref for ref in refs if ref != item or not isinstance(request, Referrers)])
    return [refs[: request.limit] for refs in lists] if isinstance(request, Matching) else lists


def _sum_words(_: Words, replies: Sequence[Reply]) -> TermCounts:
    """Return the sum of the counts.

    Those of several formulas cannot be added up, so no word counts.
    """
    is_one = len({counts.formula for _, _, counts in replies}) == 1
    return TermCounts.sum(counts for _, _, counts in replies) if is_one else TermCounts("", 0, 0, {})


def _sum_links(_: LinkCounts, replies: Sequence[Reply]) -> list[LinkCount]:
    """Return the sums of link counts; links from corpus to corpus are foreign, too."""
    sums: Counter[tuple[str, str, LinkState]] = Counter()
    for each in chain.from_iterable(counts for _, _, counts in replies):
        sums[each.type, each.origin, each.state] += each.count
    return [LinkCount(*key, total) for key, total in sorted(sums.items())]


def _find_language(_: TextLanguage, replies: Sequence[Reply]) -> Any:
    """Return the language of all corpora; `None` if they have several."""
    languages = {language for _, _, language in replies}
    return languages.pop() if len(languages) == 1 else None


def _join_vectors(request: Vectors, replies: Sequence[Reply]) -> Floats:
    """Return the vectors of records; an unknown one has a row of NaN.

    Raises:
        EmbedderMismatch: If the vectors have several widths.
    """
    # A store without vectors answers with width 0, and would not fit the others.
    stored = [reply for reply in replies if reply[2].shape[1]]
    widths = sorted({vectors.shape[1] for _, _, vectors in stored})
    if len(widths) > 1:
        raise EmbedderMismatch(f"the vectors of these corpora are {' and '.join(map(str, widths))} wide")
    unknown = np.full(sum(widths), np.nan, np.float32)
    rows = [unknown if row is None else row for row in join_rows(split_ids(request.ids), stored)]
    return np.array(rows, np.float32).reshape(len(rows), len(unknown))


def _join_vectors_of(request: VectorsOf, replies: Sequence[Reply]) -> ArtifactVectors:
    """Return the record ids of artifacts, with their vectors."""
    names = [
        (name, ids, [[join_id(name, id) for id in own] for own in found.record_ids]) for name, ids, found in replies
    ]
    lists = [ids or [] for ids in join_rows(request.artifact_ids, names)]
    vectors = [(name, [*chain.from_iterable(found.record_ids)], found.vectors) for name, _, found in replies]
    return ArtifactVectors(lists, _join_vectors(Vectors([*chain.from_iterable(lists)]), vectors))


# Merging rankings


def _merge_rankings(request: Rank, replies: Sequence[Reply]) -> list[Ranking]:
    """Return the ranking of each query."""
    merge: Callable[..., Ranking] = merge_by_rank if _has_own_scales(request) else merge_by_score
    named = None if field_of(request) is None else {*_refs_of(request)}
    column = 1 if request.among is not None else 3

    def is_named(row: _Row) -> bool:
        # Others may have been read ahead.
        return named is None or (row[2], row[column]) in named

    places = range(len(request.queries))
    return [merge([(name, answer[at]) for name, _, answer in replies], request.k, keeps=is_named) for at in places]


def merge_by_score(
    rankings: Iterable[tuple[str, Ranking]],
    k: int | None,
    record_key: Callable[[str, str], Any] = join_id,
    *,
    keeps: Callable[[_Row], bool] | None = None,
    order: Callable[[_Row], Any] | None = None,
) -> Ranking:
    """Return the `k` best rows of rankings whose scores are on one scale.

    Ties are in the order of the artifact ids, then of the corpus names: as in one corpus that contains them all. The
    rows of each ranking keep their order: that of a function may tell more than its scores.

    Args:
        rankings: Rankings, each with the name of its corpus.
        k: The number of rows; `None` for all.
        record_key: Returns the id of a record outside its corpus.
        keeps: Returns whether a row counts; all do by default.
        order: Returns what rows of several rankings are compared by, if not by score, artifact and corpus.
    """
    every = [*rankings]
    columns = [
        zip((-own.scores).tolist(), own.artifact_ids, repeat(name, len(own)), own.record_ids, strict=True)
        for name, own in every
    ]
    merged: Iterable[_Row] = heapq.merge(*columns, key=order)
    rows = [*islice(filter(keeps, merged), k)]
    highest = [own.max_score for _, own in every if own.max_score is not None]
    return Ranking(
        [record_key(name, id) for _, _, name, id in rows],
        cast("list[str]", [_ref((name, id)) for _, id, name, _ in rows]),
        -np.array([score for score, *_ in rows], np.float64),
        max(highest) if highest and len(highest) == len(every) else None,
    )


def merge_by_rank(rankings: Iterable[tuple[str, Ranking]], k: int | None, **options: Any) -> Ranking:
    """Merge rankings of different scales by rank; the scores become RRF scores.

    Ties are in the order of the corpora. Each corpus has records of its own, so no row is in two rankings.
    """
    fused = []
    for name, own in rankings:
        scores = np.array([score for _, score in fuse_ranks([range(len(own))])], np.float64)
        fused.append((name, replace(own, scores=scores, max_score=None)))
    return merge_by_score(fused, k, order=itemgetter(0), **options)


# Edges


def _list_edges(reply: Reply) -> Iterator[_Edge]:
    """Yield the edges that a corpus answers with."""
    name, ids, answer = reply
    for ref, edges in zip(refs_to(name, ids), answer, strict=True):
        row = EdgeRow.of(ref.id, edges)
        for end, label in zip(row.ends, row.labels, strict=True):
            yield ref, ref_to(name, end), label


def _end_across(edge: _Edge) -> ArtifactRef:
    """Return the end of an edge between corpora that the other corpus may not contain."""
    ref, end, label = edge
    return ref if label.is_incoming else end


_JOINS: Final[Mapping[type, Callable[[Any, Sequence[Reply]], Any]]] = {
    ArtifactIds: _list_all,
    UnresolvedLinks: _list_all,
    Ledger: _line_up,
    Records: _line_up,
    RecordsOf: _line_up,
    Vectors: _join_vectors,
    VectorsOf: _join_vectors_of,
    Matching: _line_up_lists,
    Names: _line_up_lists,
    Referrers: _line_up_lists,
    Rank: _merge_rankings,
    Words: _sum_words,
    LinkCounts: _sum_links,
    TextLanguage: _find_language,
}

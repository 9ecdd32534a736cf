"""The store of several corpora: it splits requests over members, and joins answers."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence, Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from dataclasses import fields, replace
from itertools import chain, compress, islice
from typing import Any, Final, TypeAlias, cast

import numpy as np

from airw._base.concurrency import offload_if
from airw.discovery._federated_answers import (
    Found,
    field_spellings,
    group_by_corpus,
    join_rows,
    join_vectors,
    join_vectors_of,
    keep_only,
    merge_by_rank,
    merge_by_score,
    node_spellings,
    reference_spellings,
    refs_to,
    sort_edges,
    split_ids,
    sum_counts,
    to_federated_edge,
    to_federated_entry,
    to_federated_link,
    to_federated_record,
)
from airw.discovery._federated_calls import STACK, MemberCalls, NotTogether
from airw.errors import ArgumentError
from airw.protocols import (
    CAPABILITIES,
    ArtifactIds,
    Best,
    Capability,
    Change,
    Counts,
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
    check_able,
    fill,
)
from airw.values import ArtifactRef, Edge, NodeId, NodeIdLike, Ranking, TermCounts

# A search needs one member that can, as do links. Whoever asks about given artifacts needs an answer for each.
_BY_ONE: Final[frozenset[Capability]] = frozenset({"dense", "edges", "lexical", "links"})
_BY_ALL: Final[frozenset[Capability]] = frozenset(
    {"ledger", "matching", "names", "phrases", "records", "scores", "vectors", "words"}
)
_OFFLOAD_ABOVE = 1_000  # ids or rows: splitting and joining more of them takes longer than about a millisecond

Parts: TypeAlias = Mapping[str, Any]
"""A request for each member that it concerns; or the answers, which a member that is lost does not give."""
Plan: TypeAlias = Generator[Sequence[Parts], Sequence[Parts], Any]


class FederatedStore:
    """A read-only store that is answered by the stores of several corpora.

    Artifacts are `ArtifactRef(source, id)`, records are `source/id`. An artifact of a corpus that is not a member is
    unknown. So is a plain text, except in `Names` and `Referrers`. If answers are ranked together, ties are in the
    order of the artifact ids. A store that `calls` leaves out answers nothing, as if its corpus were empty.

    All requests of one call advance together, in rounds: a round is at most one call of each store. A store is asked
    only about its own artifacts. Most requests take one round. Texts are ranked in two, as the stores count words
    first. Edges take a second one if links lead from corpus to corpus. A chain takes no more rounds than its first
    request, as far as its parts lie in one corpus.

    Args:
        calls: The calls of the stores, by the name of their corpus; a name must not contain `/`.
    """

    def __init__(self, calls: MemberCalls) -> None:
        self.calls = calls
        stores = calls.stores
        self._able: Mapping[Capability, Sequence[str]] = {
            need: [name for name, store in stores.items() if need in store.capabilities] for need in CAPABILITIES
        }
        by_all = {need for need in _BY_ALL if len(self._able[need]) == len(stores)}
        self.capabilities: Collection[Capability] = by_all.union(need for need in _BY_ONE if self._able[need])

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request."""
        check_able(self, *requests)
        # Whoever counts words or ranks all that there is asks every store.
        asks_all = any(isinstance(request, Words) or _ranks_all(request) for request in requests)
        stacked = await self.calls.update_stack() if asks_all else frozenset[str]()
        try:
            return await self._read(requests, stacked)
        except NotTogether:
            return await self._read(requests, frozenset())

    async def _read(self, requests: Sequence[Request[Any]], stacked: AbstractSet[str]) -> list[Any]:
        """Return the answer of each request; `stacked` are the stores that are ranked together."""
        reading = _Reading([*self.calls.stores], self._able, stacked, requests)
        values = [getattr(request, item.name) for request in requests for item in fields(cast("Any", request))]
        while reading.plans:
            is_long = sum(map(_count_items, values)) > _OFFLOAD_ABOVE
            answers = await self.calls.read(await offload_if(is_long, reading.advance), stacked)
            reading.hear(answers)
            values = [answer for own in answers.values() for answer in own]
        return [reading.done[id(request)] for request in requests]

    async def apply(self, change: Change) -> None:
        """Refuse to write."""
        raise ArgumentError("several corpora are read together: write to one of them")

    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Refuse to write."""
        raise ArgumentError("several corpora are read together: write to one of them")

    async def aclose(self) -> None:
        """Close nothing: whoever opened the corpora closes them."""


def _count_items(value: object) -> int:
    """Return the number of items in a list and in the lists within."""
    if not isinstance(value, list | tuple):
        return len(value) if isinstance(value, np.ndarray) else 0
    return len(value) + sum(len(item) for item in value if isinstance(item, list | Ranking))


class _Reading:
    """The requests of one call: how each is split over the members, and its answers joined.

    A plan is a generator that answers one request. Each round it yields what to ask of the members, and gets their
    answers. Requests are told apart by `id`, as chains name them.

    Args:
        names: The members.
        able: Those that can do something, by what it is.
        stacked: Those that can be ranked together.
        requests: The requests.

    Attributes:
        plans: The plans that are not at their end.
        done: The answers of the others.
        asked: What each plan asks in this round.
        heard: What it has heard in the last one.
        far: What a request for edges has found at the ends of links between corpora; it asks once more then.
    """

    def __init__(
        self,
        names: Sequence[str],
        able: Mapping[Capability, Sequence[str]],
        stacked: AbstractSet[str],
        requests: Sequence[Request[Any]],
    ) -> None:
        self._names, self._able, self._stacked = names, able, stacked
        self.done: dict[int, Any] = {}
        self.asked: dict[int, Sequence[Parts]] = {}
        self.far: dict[int, Sequence[NodeId]] = {}
        self.plans = {id(request): self._plan(request) for request in requests}
        self.heard: dict[int, Any] = dict.fromkeys(self.plans)

    def _plan(self, request: Request[Any]) -> Plan:
        if type(request) not in _PLANS:
            raise ArgumentError(f"several corpora together cannot answer {type(request).__name__}: ask one of them")
        return _PLANS[type(request)](self, request)

    def advance(self) -> dict[str, list[Request[Any]]]:
        """Return what the plans ask of each member next; they read what they have heard first."""
        for key, plan in [*self.plans.items()]:
            try:
                self.asked[key] = plan.send(self.heard[key])
            except StopIteration as end:
                self.done[key] = end.value
                del self.plans[key]
                self.asked.pop(key, None)
        requests: dict[str, list[Request[Any]]] = {}
        for name, request in chain.from_iterable(parts.items() for asked in self.asked.values() for parts in asked):
            requests.setdefault(name, []).append(request)
        return requests

    def hear(self, answers: Mapping[str, Sequence[Any]]) -> None:
        """Hand the answers of each member, in the order of its requests, to those who asked."""
        left = {name: iter(own) for name, own in answers.items()}
        self.heard = {
            key: [{name: next(own) for name, own in left.items() if name in parts} for parts in asked]
            for key, asked in self.asked.items()
        }

    # Chains

    def follow(self, fed: Fed[Any]) -> Plan:
        """Answer a request about what another one finds; meanwhile, members read ahead."""
        feeder, found = id(fed.by.of), list[Found]()
        while feeder in self.asked:
            parts = self._read_ahead(fed, self.asked[feeder], found)
            [answers] = yield [parts]
            for name, answer in answers.items():
                part = parts[name]
                is_chain = isinstance(part, Fed)
                ids = part.by.take(self.heard[feeder][0][name]) if is_chain else getattr(part, _field_of(part))
                found.append((name, ids, answer))
        request: Any = fill(fed, self.done)
        plan = self.rank if isinstance(request, Rank) else self.read_rows
        return (yield from self.find_edges(request) if isinstance(request, Edges) else plan(request, found))

    def _read_ahead(self, fed: Fed[Any], asked: Sequence[Parts], found: Sequence[Found]) -> Parts:
        """Return what each member reads ahead in a round: what its own part of the chain finds.

        Args:
            fed: The request, and what finds its ids.
            asked: What the members are asked in this round to find them.
            found: What was read ahead in earlier rounds.
        """
        by, feeder = fed.by, id(fed.by.of)
        request: Any = fed.request
        # The best of all are not the best of each, and the scores of texts need the words of all.
        is_joint = isinstance(request, Rank) and (request.k is not None or request.needs == "lexical")
        if is_joint or isinstance(request, Edges):
            return {}
        if isinstance(by, Best):
            is_one = (name != STACK and not isinstance(part, Words) for name, part in asked[0].items())
            ranks = dict(compress(asked[0].items(), is_one))
            return {name: Fed(request, replace(by, of=part)) for name, part in ranks.items()}
        if feeder not in self.far:
            _, known = group_by_corpus([*by.without], self._names)
            ends = {name: replace(by, of=part, without=known.get(name, ())) for name, part in asked[0].items()}
            return {name: Fed(request, own) for name, own in ends.items()}
        skipped = {*by.without, *by.of.ids, *_list_refs(found)}
        _, far = group_by_corpus([ref for ref in self.far[feeder] if ref not in skipped][: by.limit], self._names)
        return {name: replace(request, **{_field_of(request, by): ids}) for name, ids in far.items()}

    # Requests about given artifacts or records

    def read_rows(self, request: Any, found: Sequence[Found] = ()) -> Plan:
        """Answer a request that has a row for each id."""
        if isinstance(request, Ledger) and request.ids is None:
            [answers] = yield [dict.fromkeys(self._names, request)]
            return [to_federated_entry(name, entry) for name, entries in answers.items() for entry in entries]
        refs, found = yield from self._ask_rest(request, found)
        match request:
            case Vectors() | VectorsOf():
                if not found:
                    # The vectors have the width of those that are stored, even if there are none.
                    [answers] = yield [dict.fromkeys(self._names, type(request)([]))]
                    found = [(name, (), answer) for name, answer in answers.items()]
                return join_vectors(refs, found) if isinstance(request, Vectors) else join_vectors_of(refs, found)
            case Records():
                return join_rows(refs, found, to_federated_record)
            case Ledger():
                return join_rows(refs, found, to_federated_entry)
        return join_rows(refs, found, lambda name, rows: [to_federated_record(name, record) for record in rows])

    def _ask_rest(
        self, request: Any, found: Sequence[Found]
    ) -> Generator[Sequence[Parts], Any, tuple[Sequence[Any], Sequence[Found]]]:
        """Ask each member about its own artifacts or records that are not found yet.

        Returns:
            What the request is about, and all that was found.
        """
        name_of_ids = _field_of(request)
        refs = getattr(request, name_of_ids)
        if name_of_ids == "records" or isinstance(request, Records | Vectors):
            refs = split_ids(refs)
        known = {*_list_refs(found)}
        _, rest = group_by_corpus([ref for ref in refs if ref not in known], self._able[request.needs])
        [answers] = yield [{name: replace(request, **{name_of_ids: ids}) for name, ids in rest.items()}]
        return refs, [*found, *((name, rest[name], answer) for name, answer in answers.items())]

    # Rankings

    def rank(self, request: Rank, ahead: Sequence[Found] = ()) -> Plan:
        """Rank in each member, and merge the rankings.

        BM25 depends on how often a word occurs, so the members first add up their counts: the scores are those of one
        corpus that contains all records. If a member cannot count words, or counts by another formula, the rankings are
        fused by rank instead, and the scores are RRF scores. The first hits of all members then come first, in the
        order of the members, then the second hits, and so on.
        """
        if request.among is not None and request.records is not None:
            raise ArgumentError("several corpora together rank artifacts or records, not both: leave out one of them")
        merge: Callable[..., Ranking] = merge_by_score
        if request.needs == "lexical" and request.statistics is None:
            counts = yield from self._pool_counts(request.queries)
            request = replace(request, statistics=counts)
            merge = merge_by_rank if counts is None else merge_by_score
        if _ranks_all(request):
            is_joint = merge is merge_by_score and request.k is not None
            [answers] = yield [self._for_all(self._able[request.needs], request, is_joint=is_joint)]
            answers = {**answers, **answers.get(STACK, {})}
            found: Sequence[Found] = [(name, (), answer) for name, answer in answers.items() if name != STACK]
        else:
            _, found = yield from self._ask_rest(request, ahead)
        rows = range(len(request.queries))
        rankings = [merge([(name, own[row]) for name, _, own in found], request.k) for row in rows]
        return [keep_only(ranking, request.among, request.records) for ranking in rankings] if ahead else rankings

    def _pool_counts(self, queries: Any) -> Generator[Sequence[Parts], Any, TermCounts | None]:
        """Return the word counts of all members together; `None` if they cannot be added up."""
        if len(self._able["words"]) < len(self._names):
            return None
        [answers] = yield [self._for_all(self._names, Words(queries))]
        is_one = len({counts.formula for counts in answers.values()}) == 1
        return TermCounts.sum(answers.values()) if is_one else None

    def _for_all(self, names: Sequence[str], request: Request[Any], *, is_joint: bool = True) -> Parts:
        """Return what is asked of all members; the small ones may answer together."""
        if not is_joint or not self._stacked:
            return dict.fromkeys(names, request)
        return {STACK: request, **{name: request for name in names if name not in self._stacked}}

    def count_words(self, request: Words) -> Plan:
        """Count words; if the members count by several formulas, no word counts."""
        return (yield from self._pool_counts(request.queries)) or TermCounts("", 0, 0, {})

    # Links

    def find_edges(self, request: Edges) -> Plan:
        """Return the edges of each artifact, by type, then by corpus and id of the other end.

        A link to another corpus is an edge if that corpus is a member and contains the artifact. Duplicates, and edges
        of an artifact to itself, are left out.
        """
        places, own = group_by_corpus(request.ids, self._able["edges"])
        is_inward = request.direction != "out"
        pairs = [ArtifactRef(*id) for id in dict.fromkeys(request.ids) if is_inward and not isinstance(id, str)]
        places_of: dict[NodeIdLike, list[int]] = {}
        for place, ref in enumerate(request.ids):
            places_of.setdefault(ref, []).append(place)
        # A member knows the links of its own artifacts only, so links from other corpora are in the other members.
        answers, lists = yield [
            {name: replace(request, ids=ids, limit=None) for name, ids in own.items()},
            dict.fromkeys(self._able["links"], Referrers(pairs, request.links.types)) if pairs else {},
        ]
        edges: list[tuple[int, Edge]] = []
        named: dict[NodeId, None] = {}  # the targets of links that name a corpus
        for name, rows in answers.items():
            for place, row in zip(places[name], rows, strict=True):
                edges += ((place, to_federated_edge(name, edge)) for edge in row)
                named.update((edge.target, None) for edge in row if edge.leads_out)
        named.update((pair, None) for at, pair in enumerate(pairs) if any(own[at] for own in lists.values()))
        # A member cannot be asked for edges to an artifact of another one, but for those of the artifacts that link to
        # it. Nor does it know whether an artifact of another one exists. What has edges in its own corpus does.
        existing = {request.ids[place] for place, _ in edges}
        unsure = [ref for ref in named if ref not in existing]
        _, targets = group_by_corpus(unsure, self._names)
        referrers = {name: ids for name, own in lists.items() if (ids := sorted({*chain.from_iterable(own)}))}
        found: list[Found] = []
        if targets or referrers:
            self.far[id(request)] = [*unsure, *_list_refs((name, ids, None) for name, ids in referrers.items())]
            answers, rows_of = yield [
                {name: replace(request, ids=ids, direction="out", limit=None) for name, ids in referrers.items()},
                {name: RecordsOf(ids, limit=0) for name, ids in targets.items()},
            ]
            found = [(name, targets[name], rows) for name, rows in rows_of.items()]
            for name, rows in answers.items():
                inward = [edge for row in rows for edge in row if edge.leads_out]
                edges += (
                    (place, to_federated_edge(name, edge))
                    for edge in inward
                    for place in places_of.get(edge.target, ())
                )
        missing = {ref for ref, row in zip(unsure, join_rows(unsure, found), strict=True) if row is None}
        order = {name: place for place, name in enumerate(self._names)}
        return sort_edges(request.ids, edges, missing, order, request.limit)

    def find_referrers(self, request: Referrers) -> Plan:
        """Return the artifacts that link to each node, member by member, sorted.

        For the pair of a member, the member itself counts links by any name of the artifact, and all members count
        links by the pair. A text has the meaning that each member gives it.
        """
        lists = yield from self._find_ids(request, "nodes", node_spellings)
        return [[ref for ref in refs if ref != node] for node, refs in zip(request.nodes, lists, strict=True)]

    def find_max_fan_in(self, request: MaxFanIn) -> Plan:
        """Return the largest number of referrers of any node.

        A node that is not an artifact of any member is counted in each member separately. An artifact that links to
        itself by its pair counts as one of its own referrers: its store takes the pair for an artifact of another
        corpus.
        """
        able = self._able["links"]
        maxima, counts = yield [dict.fromkeys(able, request), dict.fromkeys(able, Counts())]
        fan_ins = [*maxima.values()]
        # Only links between corpora can add referrers from several members to one artifact.
        if any(count["foreign"] for count in counts.values()):
            artifacts = yield from self.list_all(ArtifactIds())
            fan_ins += map(len, (yield from self.find_referrers(Referrers(artifacts, request.types))))
        return max(fan_ins, default=0)

    def count_links(self, request: LinkCounts) -> Plan:
        """Count links; each member counts its own: links to other members are foreign, too."""
        [answers] = yield [dict.fromkeys(self._names, request)]
        return sum_counts(answers)

    def list_unresolved(self, request: UnresolvedLinks) -> Plan:
        """List unresolved links, member by member.

        A link that is unresolved in its own corpus is unresolved here, even if another corpus contains an artifact of
        that name.
        """
        parts: Parts = dict.fromkeys(self._names, request)
        if request.artifact_ids is not None:
            _, own = group_by_corpus(request.artifact_ids, self._names)
            parts = {name: replace(request, artifact_ids=ids) for name, ids in own.items()}
        [answers] = yield [parts]
        return [to_federated_link(name, link) for name, links in answers.items() for link in links][: request.limit]

    # Names, fields and ids

    def find_names(self, request: Names) -> Plan:
        """Return the artifacts that each reference means, member by member, sorted.

        A text is resolved by every member, a pair by its own. Each resolves on its own: a match of a strong name tier
        in one corpus does not hide a match of a weak tier in another one.
        """
        return self._find_ids(request, "refs", reference_spellings)

    def find_matching(self, request: Matching) -> Plan:
        """Return the artifacts that have each field and value, member by member, sorted.

        A tuple as a value is an artifact, which a field contains as `[source, id]`, or as the plain id in its own
        corpus.
        """
        lists = yield from self._find_ids(request, "wanted", field_spellings)
        return [refs[: request.limit] for refs in lists]

    def _find_ids(self, request: Any, field: str, spell: Callable[[Any, str], list[Any]]) -> Plan:
        """Return the sorted artifacts that the members find for each item of a field.

        Args:
            request: The request.
            field: The name of the field.
            spell: Returns how an item is spelled in a member: in no way, or in several.
        """
        items = getattr(request, field)
        spelled = {name: [spell(item, name) for item in items] for name in self._able[request.needs]}
        flat = {name: [*chain.from_iterable(rows)] for name, rows in spelled.items()}
        [answers] = yield [{name: replace(request, **{field: own}) for name, own in flat.items() if own}]
        joined: list[list[ArtifactRef]] = [[] for _ in items]
        for name, lists in answers.items():
            left = iter(lists)
            for at, spellings in enumerate(spelled[name]):
                joined[at] += refs_to(name, sorted({*chain.from_iterable(islice(left, len(spellings)))}))
        return joined

    def find_stale(self, request: Stale) -> Plan:
        """Return the artifacts to index again; one of no member is among them."""
        versions = cast("Mapping[Any, str]", request.versions)
        _, own = group_by_corpus([*versions], self._names)
        parts = {name: {id: versions[name, id] for id in ids} for name, ids in own.items()}
        [answers] = yield [{name: replace(request, versions=part) for name, part in parts.items()}]
        current = {ref for name, part in parts.items() for ref in refs_to(name, {*part}.difference(answers[name]))}
        return [id for id in versions if id not in current]

    def find_language(self, request: TextLanguage) -> Plan:
        """Return the language of all members; `None` if they have several."""
        [answers] = yield [dict.fromkeys(self._names, request)]
        languages = {*answers.values()}
        return languages.pop() if len(languages) == 1 else None

    def list_all(self, request: ArtifactIds) -> Plan:
        """Return the ids of all artifacts, member by member, sorted."""
        [answers] = yield [dict.fromkeys(self._names, request)]
        return [ref for name, ids in answers.items() for ref in refs_to(name, ids)]


def _ranks_all(request: Request[Any]) -> bool:
    """Return whether a request ranks all records, not given ones."""
    return isinstance(request, Rank) and request.among is None and request.records is None


def _list_refs(found: Iterable[Found]) -> list[ArtifactRef]:
    """Return the artifacts or records that were found."""
    return [ref for name, ids, _ in found for ref in refs_to(name, ids)]


def _field_of(request: Request[Any], by: Ends | Best | None = None) -> str:
    """Return the field that names the artifacts or records that a request is about."""
    if isinstance(request, Rank):
        return "among" if isinstance(by, Ends) or request.among is not None else "records"
    return "artifact_ids" if isinstance(request, RecordsOf | VectorsOf) else "ids"


_PLANS: Final[Mapping[type, Callable[[Any, Any], Plan]]] = {
    Fed: _Reading.follow,
    Records: _Reading.read_rows,
    RecordsOf: _Reading.read_rows,
    Ledger: _Reading.read_rows,
    Vectors: _Reading.read_rows,
    VectorsOf: _Reading.read_rows,
    Rank: _Reading.rank,
    Words: _Reading.count_words,
    Edges: _Reading.find_edges,
    Referrers: _Reading.find_referrers,
    MaxFanIn: _Reading.find_max_fan_in,
    LinkCounts: _Reading.count_links,
    UnresolvedLinks: _Reading.list_unresolved,
    Names: _Reading.find_names,
    Matching: _Reading.find_matching,
    ArtifactIds: _Reading.list_all,
    Stale: _Reading.find_stale,
    TextLanguage: _Reading.find_language,
}

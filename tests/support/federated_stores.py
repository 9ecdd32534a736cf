"""The store of several corpora, asked as a store of one corpus with all artifacts."""

from contextlib import asynccontextmanager
from dataclasses import replace

from airw.corpora import Corpus
from airw.discovery import FederatedCorpus
from airw.embedders import MissingEmbedder
from airw.errors import EmbedderError
from airw.protocols import ArtifactVectors, Change, EdgeRow, Ends, Fed, Rank, Records, Stale, Vectors, check_able
from airw.stores import MemoryStore, Wrapper
from airw.values import ArtifactRef, Edge, LedgerEntry, Ranking, Record

EMBEDDER = MissingEmbedder("e", 4, EmbedderError("nothing embeds here"))
HALVES = ("first", "second")
ARTIFACTS = ("ids", "artifact_ids", "among", "nodes")  # fields of requests


class JoinedHalves(Wrapper):
    """Spells ids for the corpora, and their answers for one corpus.

    Args:
        store: The store of both corpora.
        homes: The corpus of each artifact and record.
        capabilities: What is asked of the store.
    """

    def __init__(self, store, homes, capabilities):
        super().__init__(store)
        self.homes, self.offered = homes, frozenset(capabilities)

    @property
    def capabilities(self):
        return self.offered & {*self.store.capabilities}

    async def read(self, *requests):
        check_able(self, *requests)
        spelled = {}
        for request in requests:
            spelled[id(request)] = self.spell(request, spelled)
        return [self.join(answer) for answer in await self.store.read(*spelled.values())]

    def ref(self, id):
        return ArtifactRef(self.homes.get(id, HALVES[0]), id)

    def spell(self, request, spelled):
        if isinstance(request, Fed):
            of = spelled.get(id(request.by.of), request.by.of)
            by = replace(request.by, of=of)
            if isinstance(by, Ends):
                by = replace(by, without=[*map(self.ref, by.without)])
            return Fed(self.spell(request.request, spelled), by)
        changes = {}
        if isinstance(request, Records | Vectors):
            changes["ids"] = ["/".join(self.ref(id)) for id in request.ids]
        elif isinstance(request, Rank) and request.records is not None:
            changes["records"] = ["/".join(self.ref(id)) for id in request.records]
        elif isinstance(request, Stale):
            changes["versions"] = {self.ref(id): version for id, version in request.versions.items()}
        for name in ARTIFACTS:
            if name not in changes and getattr(request, name, None) is not None:
                changes[name] = [id if isinstance(id, tuple) else self.ref(id) for id in getattr(request, name)]
        return replace(request, **changes) if changes else replace(request)

    def join(self, answer):
        match answer:
            case ArtifactRef(source, id):
                return id if source in HALVES else answer
            case Record(id, artifact_id, kind, index, text, metadata):
                return Record(plain(id), artifact_id, kind, index, text, metadata)
            case LedgerEntry(id, version, embedder, strategy, extractor, source, record_ids):
                return LedgerEntry(id, version, embedder, strategy, extractor, source, tuple(map(plain, record_ids)))
            case Ranking():
                ids = [*map(plain, answer.record_ids)]
                return Ranking(ids, self.join([*answer.artifact_ids]), answer.scores, answer.max_score)
            case ArtifactVectors(record_ids, vectors):
                return ArtifactVectors([[*map(plain, ids)] for ids in record_ids], vectors)
            case Edge(source, target, type, origin, weight):
                return Edge(self.join(source), self.join(target), type, origin, weight)
            case list() | EdgeRow():
                return [self.join(each) for each in answer]
        return answer


def plain(record_id):
    return record_id.partition("/")[2]


@asynccontextmanager
async def open_halves(content, capabilities):
    """Yield a store of two corpora with half of the artifacts each, in the order of their ids.

    A link from one half to an artifact of the other names its corpus.
    """
    ids = sorted(change.entry.artifact_id for change in content)
    homes = {id: HALVES[at >= len(ids) // 2] for at, id in enumerate(ids)}
    halves = {name: [] for name in HALVES}
    for change in content:
        home = homes[change.entry.artifact_id]
        links = [
            replace(link, target_source=homes[link.target_ref], or_ref=None)
            if link.target_source is None and homes.get(link.target_ref, home) != home
            else link
            for link in change.extraction.links
        ]
        halves[home].append(replace(change, extraction=replace(change.extraction, links=links)))
    homes |= {record.id: homes[record.artifact_id] for change in content for record in change.records}
    async with MemoryStore() as first, MemoryStore() as second:
        corpora = {name: Corpus(name, store, EMBEDDER) for name, store in zip(HALVES, (first, second), strict=True)}
        for name, changes in halves.items():
            await corpora[name].store.apply(Change(changes))
        yield JoinedHalves(FederatedCorpus(corpora).store, homes, capabilities)

"""Answers from the database of a corpus."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airw._base.lru import LruCache
from airw._base.overriding import override
from airw.protocols import SNAPSHOT_CAPABILITIES, Rank, Request, check_able, fill, requests as forms
from airw.stores.own_store import OwnStore
from airw.stores.postgres import _links, _records, _settings, _vectors, _words
from airw.stores.postgres._copying import read_artifacts
from airw.stores.postgres._errors import translate_errors
from airw.values import Contains, Language

if TYPE_CHECKING:
    from asyncpg import Connection

_ANSWERS: Mapping[type, "Callable[[Connection, Any], Awaitable[Any]]"] = {
    forms.Records: _records.get_records,
    forms.RecordsOf: _records.records_of,
    forms.Ledger: _records.ledger,
    forms.ArtifactIds: _records.artifact_ids,
    forms.Stale: _records.find_changed,
    forms.Counts: _records.counts,
    forms.Schema: _records.schema,
    forms.Matching: _records.matching,
    forms.Config: _settings.read_config,
    forms.Calibrations: _settings.read_calibrations,
    forms.Artifacts: read_artifacts,
    forms.Rank: _vectors.rank,
    forms.Vectors: _vectors.vectors,
    forms.VectorsOf: _vectors.vectors_of,
    forms.TextLanguage: _words.read_language,
    forms.Edges: _links.neighbors,
    forms.Names: _links.resolve,
    forms.Referrers: _links.referrers,
    forms.LinkCounts: _links.link_counts,
    forms.UnresolvedLinks: _links.list_unresolved,
}
"""The function that answers each kind of request, if it needs nothing but the database."""


class Answers:
    """What answers requests, and what it knows of its database without asking.

    Args:
        language: The language that the texts may have.
    """

    def __init__(self, language: Language | None) -> None:
        self.texts = _words.KnownTexts(language)
        self._max_fan_in = LruCache[Any, tuple[str | None, int]](32)

    async def read(self, c: "Connection", requests: Sequence[Request[Any]]) -> list[Any]:
        """Return the answer of each request, as one connection sees the database."""
        answers: dict[int, Any] = {}
        for request in requests:
            answers[id(request)] = await self._answer(c, fill(request, answers))
        return [answers[id(request)] for request in requests]

    async def _answer(self, c: "Connection", request: Request[Any]) -> Any:
        match request:
            case Rank(contains=Contains()):
                return await _words.rank_containing(c, self.texts, request)
            case Rank(needs="lexical"):
                return await _words.rank(c, self.texts, request)
            case forms.Words():
                return await _words.count_terms(c, self.texts, request.queries)
            case forms.MaxFanIn():
                return await _links.max_fan_in(c, self._max_fan_in, request)
        return await _ANSWERS[type(request)](c, request)


class Snapshot(OwnStore):
    """The content of a database at one moment.

    Args:
        c: A connection in a transaction.
        answers: What answers requests.
        place: The database, in words.
    """

    capabilities = SNAPSHOT_CAPABILITIES

    def __init__(self, c: "Connection", answers: Answers, place: str) -> None:
        self._c, self._answers, self._place = c, answers, place

    @override
    async def read(self, *requests: Request[Any]) -> list[Any]:
        check_able(self, *requests)
        with translate_errors(self._place):
            return await self._answers.read(self._c, requests)

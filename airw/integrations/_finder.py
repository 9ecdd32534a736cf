"""Corpora that stay open for the retrievers of frameworks, and their answers as documents."""

import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from airw._base.background import run, run_from_loop
from airw._base.checks import check_number
from airw._base.concurrency import map_bounded
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.corpora import locate, open_corpus
from airw.discovery import Disclosure, FederatedCorpus
from airw.errors import AirwError, ArgumentError
from airw.retrieval import check_corpus
from airw.stores import hide_password
from airw.sync import SyncCorpus
from airw.values import SearchHit
from airw.values.hits import FACTS as TAKEN, get_fact
from airw.walking import Walk, top_k

FACTS = "airw"
"""The key of the metadata under which a framework finds what airw knows about an answer."""

_BOUNDS = ("stop", "truncated", "left_out")  # of the summary of a walk
_MAX_OPENING = 16  # corpora opened at once

# What searches and walks write into the metadata of a hit; all else there is from the document.
_SEARCH_FACTS = (
    *("dense_score", "lexical_score", "lexical_share", "dense_weight", "lexical_weight"),
    *("retrieval_score", "fused_sources"),
)
_WALK_FACTS = (
    *("walk_depth", "walk_parent", "walk_path", "walk_edge", "seed", "rank_final"),
    *("path_added", "path_coverage", "path_cosine", "path_loss", "path_value"),
    *("ppr_lower", "ppr_upper", "mmr_score", "redundancy", "fan_in"),
)


class Facts(dict[str, Any]):
    """What airw knows about an answer, by name.

    Scores, ranks and paths depend on the question. Frameworks compare documents with all their metadata, so facts about
    one artifact are equal, whatever the question was: a document that two questions find is one document.
    """

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        """Return whether both are about the same artifact; compared with another dict, all counts."""
        if not isinstance(other, Facts):
            return dict.__eq__(self, other)
        return (self.get("id"), self.get("source")) == (other.get("id"), other.get("source"))


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """One answer to a framework: a text, the fields of its document, and the facts of airw.

    Args:
        id: The id of the artifact.
        source: The name of its corpus, if it has one.
        text: The text that matched, or the passage around it.
        score: The score of the hit.
        metadata: The fields of the document and, under `"airw"`, the facts; all are JSON values.
        surface: The kind and the position of the surface, if each artifact may have several answers.
    """

    id: str
    source: str | None
    text: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)
    surface: str = ""


Ask: TypeAlias = Callable[..., Awaitable[list[FoundDocument]]]
"""Asks open corpora a question, which is a query in most cases, with the options of one call."""


class Finder:
    """Asks one verb of airw, for frameworks with sync and async methods.

    Corpora by name are opened by the first question, on the background loop of airw. They stay open for all threads and
    event loops, until nothing refers to the finder.

    Args:
        corpora: One corpus, or several as a list or by name; each is open, or a name, path or address.
        ask: The function that asks them.
        label: What the finder does, for its `repr`.
        keeps_names: Whether `ask` can take the name of a corpus that cannot be opened.
    """

    def __init__(self, corpora: Any, ask: Ask, label: str, *, keeps_names: bool = False) -> None:
        for each in (members := _list_members(corpora)):
            if isinstance(each, str | os.PathLike):
                locate(each)
        self._corpora, self._ask, self._label, self._keeps_names = corpora, ask, label, keeps_names
        self._is_background = all(isinstance(each, str | os.PathLike | SyncCorpus) for each in members)
        self._opened: Any = None
        self._opening = anyio.Lock()

    def __repr__(self) -> str:
        return self._label

    def find(self, question: Any, **options: Any) -> list[FoundDocument]:
        """Ask from sync code, even while an event loop runs in this thread.

        Args:
            question: The question.
            options: Options of the verb for this call alone; they replace those of the retriever.

        Raises:
            ArgumentError: If a corpus was opened with `await`: it belongs to the event loop that opened it.
        """
        if not self._is_background:
            raise ArgumentError(
                f"{self._label} has a corpus that was opened with await, so only its async methods work; "
                "pass the name of the corpus, or open it with airw.sync"
            )
        return run(self._answer, question, options)

    async def find_async(self, question: Any, **options: Any) -> list[FoundDocument]:
        """Ask from an event loop of asyncio."""
        if self._is_background:
            return await run_from_loop(self._answer, question, options)
        return await self._ask(self._corpora, question, **options)

    async def _answer(self, question: Any, options: Mapping[str, Any]) -> list[FoundDocument]:
        return await self._ask(await self._open(), question, **options)

    async def _open(self) -> Any:
        if self._opened is None:
            async with self._opening:  # several questions at once open the corpora only once
                if self._opened is None:
                    self._opened = await self._open_all()
        return self._opened

    async def _open_all(self) -> Any:
        if isinstance(self._corpora, FederatedCorpus):
            return self._corpora  # its corpora are open
        members = await map_bounded(self._open_one, _list_members(self._corpora), limit=_MAX_OPENING)
        if isinstance(self._corpora, Mapping):
            return dict(zip(self._corpora, members, strict=True))
        return members if isinstance(self._corpora, list | tuple) else members[0]

    async def _open_one(self, corpus: Any) -> Any:
        if not isinstance(corpus, str | os.PathLike):
            return corpus
        try:
            return SyncCorpus(await open_corpus(corpus))
        except AirwError:
            if not self._keeps_names:
                raise
            return corpus  # a discovery reports the corpus that failed, and the others answer


def _list_members(corpora: Any) -> list[Any]:
    if isinstance(corpora, FederatedCorpus):
        corpora = corpora.members
    if isinstance(corpora, Mapping):
        return list(corpora.values())
    return list(corpora) if isinstance(corpora, list | tuple) else [corpora]


async def read_walk(walk: Walk, k: int, *, without: Collection[str] = ()) -> list[FoundDocument]:
    """Run a walk to its end, and return the first of its final ranking.

    Args:
        walk: The walk.
        k: How many to return at most.
        without: The ids of artifacts that are not returned.
    """
    hits = [hit for hit in await top_k(walk, k + len(without)) if hit.artifact_id not in without]
    summary = walk.summary
    bounds = {} if summary is None else {name: getattr(summary, name) for name in _BOUNDS}
    return [
        describe_hit(hit, rank, surface=hit.surface_kind, walk_path=walk.path(hit), **bounds)
        for rank, hit in enumerate(hits[:k], 1)
    ]


def check_single(corpus: Any) -> None:
    """Check that a value is one corpus, open or by name, path or address.

    Raises:
        ArgumentError: If it is something else.
    """
    if not isinstance(corpus, str | os.PathLike):
        check_corpus(corpus)


def check_timeout(timeout: float | None) -> float | None:
    """Return `timeout` if it is a number of seconds or `None`.

    Raises:
        ArgumentError: If it is something else.
    """
    return None if timeout is None else check_number("timeout", timeout, least=0)


def show_corpora(corpora: Any) -> str:
    """Return the names of corpora for a message, without passwords."""
    names: Sequence[Any] = list(corpora) if isinstance(corpora, Mapping) else _list_members(corpora)
    shown = (hide_password(each) if isinstance(each, str) else getattr(each, "name", each) for each in names)
    return ", ".join(map(short_repr, shown))


def describe_hit(hit: SearchHit, rank: int, **facts: Any) -> FoundDocument:
    """Return a hit as a document for a framework.

    Its metadata separate the facts of airw from the fields that the document has itself.
    """
    names = (*_SEARCH_FACTS, *_WALK_FACTS) if "walk_path" in facts else _SEARCH_FACTS
    fields = dict(hit.metadata)
    taken = fields.pop(TAKEN, {})
    noted = {name: get_fact(hit.metadata, name) for name in names if name in fields}
    fields = {name: value for name, value in fields.items() if name in taken or name not in noted}
    own = {"id": hit.artifact_id, "source": hit.source, "score": hit.score, "rank": rank, **noted, **facts}
    # A field of the author's that has this name stays.
    metadata = {FACTS: Facts(json_clean(own)), **json_clean(fields)}
    return FoundDocument(hit.artifact_id, hit.source, hit.text, float(hit.score), metadata)


def describe_disclosure(disclosure: Disclosure, rank: int, reason: str) -> FoundDocument:
    """Return a result of a discovery as a document for a framework."""
    text = disclosure.passage or disclosure.body or disclosure.summary
    metadata = dict(disclosure.metadata)
    hit = SearchHit(disclosure.artifact_id, "", disclosure.score, text, metadata, disclosure.source)
    return describe_hit(hit, rank, reason=reason)

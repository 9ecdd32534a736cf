"""A discovery after validation: what is asked of whom, and what becomes of the answers."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, Unpack, cast

import anyio

from airw._base.arrays import Floats
from airw._base.checks import check_choice, check_count, check_number, check_weight
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw.corpora import CorpusLike, existing_path, is_name
from airw.discovery.disclosure import LEVELS, Level, Loader, check_loading
from airw.discovery.federated import FederatedCorpus
from airw.discovery.selection import STRATEGIES, Strategy, select
from airw.errors import ArgumentError
from airw.protocols import Embedder, MaybeAwaitable, NeighborhoodPolicy, OpenCorpus, Selector, Store
from airw.reranking import is_anonymous
from airw.retrieval import Mode, Question, SearchTuning, ask, check_corpus
from airw.retrieval.fusion import Identity, fused
from airw.values import SearchHit
from airw.values.filters import Filter
from airw.walking import WalkPolicy

AUTO: Literal["auto"] = "auto"
Floor: TypeAlias = float | Literal["auto"] | None
Floors: TypeAlias = Floor | Mapping[str, Floor]


def floors_of(min_score: Floors, names: tuple[str, ...], *, many: bool) -> dict[str, Floor]:
    """Give the floor of each source, as it was asked for.

    Raises:
        ArgumentError: A floor cannot be used, or one number is to hold for several corpora, or a name is unknown.
    """
    if not many:
        if isinstance(min_score, Mapping):
            raise ArgumentError("min_score by name is for several corpora; for one give a number, 'auto' or None")
        return {names[0]: _check_floor(min_score, "min_score")}
    if isinstance(min_score, Mapping):
        unknown = [name for name in min_score if name not in names]
        if unknown:
            raise ArgumentError(f"min_score names {short_repr(unknown[0])}, which is not among {', '.join(names)}")
        return {name: _check_floor(min_score.get(name), f"min_score of {name!r}") for name in names}
    if min_score is not None and min_score != AUTO:
        raise ArgumentError(
            "one min_score cannot hold for several corpora, whose scores have scales of their own: "
            f"give {{name: number}} or 'auto', not {short_repr(min_score)}"
        )
    return dict.fromkeys(names, min_score)


def _check_floor(floor: Any, name: str) -> Floor:
    if floor is None or (isinstance(floor, str) and floor == AUTO):
        return floor
    return check_number(f"{name}, unless 'auto' or None,", floor)


async def calibrated_floor(corpus: OpenCorpus, question: Question) -> tuple[float | None, str | None]:
    """Give the floor that was calibrated for this way of searching a corpus; or none, and why there is none."""
    if question.rescaled:
        return None, f"{' and '.join(question.rescaled)} move scores off the scale that floors are calibrated on"
    key, tag = await in_thread(question.scale)
    if is_anonymous(tag):
        return None, "the reranker has no name of its own to know its floor by: give it an attribute `id`"
    return _usable(await corpus.store.calibration(key), key, question.mode, tag, corpus.embedder.id)


def _usable(
    record: Mapping[str, Any], key: str, mode: str, tag: str | None, embedder_id: str
) -> tuple[float | None, str | None]:
    if not record:
        return None, f"nothing is calibrated for {key!r}: calibrate_min_score(…, persist=True) does it"
    if record.get("mode") != mode or record.get("rerank") != tag:
        return None, f"what is stored under {key!r} was calibrated for another way of searching"
    if record.get("embedder_id") != embedder_id:
        return None, f"it was calibrated with the embedder {record.get('embedder_id')!r}, not {embedder_id!r}"
    floor = record.get("min_score")
    if floor is None:
        return None, f"calibrating found no floor: {record.get('reason', 'no reason stored')}"
    try:
        return check_number("it", floor), None
    except ArgumentError:
        return None, f"the floor stored under {key!r} is no finite number"


Corpora: TypeAlias = CorpusLike | Sequence[CorpusLike] | Mapping[str, CorpusLike] | FederatedCorpus
"""One corpus, or several as a list or by name: each open, or a name or path; or several as one graph."""


@dataclass(frozen=True, slots=True)
class Member:
    """One corpus of a discovery: what its hits are attributed to, and the corpus or how to open it."""

    name: str
    corpus: CorpusLike

    @property
    def parts(self) -> dict[str, CorpusLike]:
        """Give the corpora that hits may come from, by the source they name."""
        return dict(self.corpus.members) if isinstance(self.corpus, FederatedCorpus) else {self.name: self.corpus}


def members_of(corpus: Corpora) -> tuple[tuple[Member, ...], bool]:
    """Give the corpora that are meant, and whether they are several, even if only one is given.

    Raises:
        ArgumentError: There is none, or one without a name, or two of one name, or something else than corpora.
        CorpusNotFound: A name or path leads nowhere; nothing was opened then.
    """
    if isinstance(corpus, Mapping):
        members, many = [_member(name, each) for name, each in corpus.items()], True
    elif isinstance(corpus, list | tuple):
        members, many = [_member(None, each) for each in corpus], True
    else:
        members, many = [_member(None, cast("CorpusLike", corpus))], False
    if not members:
        raise ArgumentError("discover needs at least one corpus: a corpus, a name, or a list of them")
    _check_names(member.name for member in members)
    for member in members:
        if many and isinstance(member.corpus, FederatedCorpus):
            raise ArgumentError(f"{member.name!r} is several corpora itself: give those it is made of")
        if isinstance(member.corpus, str | os.PathLike):
            existing_path(member.corpus)
    return tuple(members), many


def _member(name: object, corpus: CorpusLike) -> Member:
    if not isinstance(corpus, str | os.PathLike):
        check_corpus(corpus)
    known = _name_of(corpus) if name is None else name
    if not isinstance(known, str) or not known.strip():
        raise ArgumentError(f"a corpus of a discovery needs a name, not {short_repr(known)}; pass {{name: corpus}}")
    return Member(known, corpus)


def _name_of(corpus: CorpusLike) -> str:
    if isinstance(corpus, str | os.PathLike):
        return os.fspath(corpus) if is_name(corpus) else Path(corpus).stem
    return corpus.name


def _check_names(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.casefold() in seen:
            raise ArgumentError(
                f"two corpora of a discovery are called {seen[name.casefold()]!r} and {name!r}; "
                "pass {name: corpus} to tell them apart"
            )
        seen[name.casefold()] = name


@dataclass(slots=True)
class _Flight:
    """A query on its way: whoever holds the lock embeds, the others take what came of it."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    row: Floats | None = None
    error: Exception | None = None


class SharedQueries:
    """Embeds each query once for all corpora of one discovery whose embedders have one id."""

    def __init__(self) -> None:
        self._flights: dict[tuple[str, str], _Flight] = {}

    def view(self, corpus: OpenCorpus) -> OpenCorpus:
        """Give the corpus with an embedder that shares its queries; one graph of several embeds them once anyway."""
        if isinstance(corpus, FederatedCorpus):
            return corpus
        return _View(corpus.name, corpus.store, _Shared(corpus.embedder, self))

    async def embed(self, embedder: Embedder, text: str) -> Floats:
        """Give `(dim,) float32`; one that was cancelled while it embedded is taken over by the next."""
        flight = self._flights.setdefault((embedder.id, text), _Flight())
        async with flight.lock:
            if flight.error is not None:
                raise flight.error
            if flight.row is None:
                try:
                    flight.row = await embedder.embed_query(text)
                except Exception as error:
                    flight.error = error
                    raise
        return flight.row


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """An embedder whose queries are embedded once."""

    embedder: Embedder
    queries: SharedQueries

    @property
    def id(self) -> str:
        return self.embedder.id

    @property
    def dim(self) -> int:
        return self.embedder.dim

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        return await self.embedder.embed_documents(texts)

    async def embed_query(self, text: str) -> Floats:
        return await self.queries.embed(self.embedder, text)


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """What ranking needs of a corpus."""

    name: str
    store: Store
    embedder: Embedder


Merge: TypeAlias = (
    Literal["rrf", "score"] | Callable[[Mapping[str, Sequence[SearchHit]]], MaybeAwaitable[Iterable[SearchHit]]]
)
MERGES = ("rrf", "score")

SKILLS = "skills"
"""The corpus whose artifacts often come in several copies, which `dedup_by="auto"` tells by their names."""


class DiscoverOptions(SearchTuning, total=False):
    """The keywords of `discover`, for those who pass them on."""

    k: int
    mode: Mode
    strategy: str | Selector
    disclose_level: Level
    filter: Mapping[str, Any] | Filter | None
    surfaces: Iterable[str] | None
    max_k: int
    rel: float
    gap_ratio: float
    min_score: Floors
    merge: Merge
    merge_weights: Mapping[str, float] | None
    merge_rrf_k: int | None
    loader: Loader | None
    store: Mapping[str, Any] | None
    expand: NeighborhoodPolicy | None
    roots: Sequence[str | PathLike[str]]
    dedup_by: str | None
    identity: Identity
    walk: WalkPolicy | None
    node_budget: int
    source_timeout: float | None
    timeout: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A validated discovery; its defaults are those of `discover`."""

    members: tuple[Member, ...]
    many: bool
    question: Question
    floors: Mapping[str, Floor]
    strategy: Strategy | Selector = "conservative"
    disclose_level: Level = "metadata"
    max_k: int = 3
    rel: float = 0.9
    gap_ratio: float = 0.5
    merge: Merge = "rrf"
    merge_weights: Mapping[str, float] | None = None
    merge_rrf_k: int | None = None
    loader: Loader | None = None
    store: Mapping[str, Any] | None = None
    expand: NeighborhoodPolicy | None = None
    roots: Sequence[str | PathLike[str]] = ()
    dedup_by: str | None = "auto"
    identity: Identity = None
    walk: WalkPolicy | None = None
    node_budget: int = 64
    source_timeout: float | None = 30.0
    timeout: float | None = None

    @classmethod
    def of(cls, corpus: Corpora, query: str, **options: Unpack[DiscoverOptions]) -> Self:
        """Check everything that can be checked before anything is asked.

        Raises:
            ArgumentError: A parameter's value cannot be used, or two do not go together.
            FilterError: The filter is malformed.
            CorpusNotFound: A name or path leads nowhere.
        """
        given: dict[str, Any] = dict(options)
        members, many = members_of(corpus)
        own = {name: given.pop(name) for name in cls.__dataclass_fields__ if name in given}
        floors = floors_of(given.pop("min_score", None), tuple(member.name for member in members), many=many)
        if own.get("walk") is not None:
            _check_walk(given, floors)
        elif isinstance(members[0].corpus, FederatedCorpus):
            raise ArgumentError("a FederatedCorpus is walked: give walk=policy, or search its corpora, as a list")
        if "per_artifact" in given:
            raise ArgumentError("discover commits to artifacts, so per_artifact has no meaning: leave it out")
        question = ask(query, **{"k": 10, "mode": "hybrid", **given})
        plan = cls(members=members, many=many, question=question, floors=floors, **own)
        _check_selection(plan, next(iter(floors.values())))
        _check_merge(plan, [name for name in ("merge", "merge_weights", "merge_rrf_k", "identity") if name in own])
        check_choice("disclose_level", plan.disclose_level, LEVELS)
        check_loading(plan.loader, plan.store)
        check_count("node_budget", plan.node_budget, least=1)
        for name in ("source_timeout", "timeout"):
            if getattr(plan, name) is not None:
                check_weight(name, getattr(plan, name))
        return plan

    @property
    def mode(self) -> str:
        """Name the way of finding."""
        return self.question.mode if self.walk is None else "walk"

    @property
    def rrf_k(self) -> int:
        """Give the rank constant between sources."""
        return 60 if self.merge_rrf_k is None else self.merge_rrf_k


_SEARCH_DEFAULTS = {"mode": "hybrid", "fusion": "rrf", "rrf_k": 60, "alpha": 0.5, "bm25_sat_k": 8.0}


def _check_walk(searching: Mapping[str, Any], floors: Mapping[str, Floor]) -> None:
    unused = [name for name, value in searching.items() if name != "k" and value != _SEARCH_DEFAULTS.get(name)]
    if unused:
        raise ArgumentError(f"walk replaces the search, so {unused[0]} has no meaning; the policy has its own settings")
    if "auto" in floors.values():
        raise ArgumentError("nothing is calibrated for walks: give min_score as a number, or leave it out")


def _check_selection(plan: Plan, floor: Floor) -> None:
    """Let the selection refuse what it cannot use, before anything is asked."""
    if plan.many and plan.strategy == "abs_threshold":
        raise ArgumentError(
            "abs_threshold cannot follow a fusion, whose scores only say the order: give min_score as {name: number}"
        )
    if not callable(plan.strategy):
        check_choice("strategy", plan.strategy, STRATEGIES)
        least = 0.0 if floor == "auto" else floor
        select([], strategy=plan.strategy, max_k=plan.max_k, rel=plan.rel, gap_ratio=plan.gap_ratio, min_score=least)


def _check_merge(plan: Plan, given: Sequence[str]) -> None:
    if not plan.many:
        unused = [name for name in given if getattr(plan, name) != Plan.__dataclass_fields__[name].default]
        if unused:
            raise ArgumentError(f"{unused[0]} is for several corpora: pass a list of them")
        return
    if not callable(plan.merge):
        check_choice("merge", plan.merge, MERGES)
    check_count("merge_rrf_k", plan.rrf_k)
    fused({}, identity=plan.identity)
    names = [member.name for member in plan.members]
    for name, weight in (plan.merge_weights or {}).items():
        check_weight(f"merge_weights of {name!r}", weight)
        if name not in names:
            raise ArgumentError(f"merge_weights names {short_repr(name)}, which is not among {', '.join(names)}")
    question = plan.question
    is_dense = plan.walk is None and question.mode == "dense" and not question.rerank and not question.rescaled
    if plan.merge == "score" and not is_dense:
        raise ArgumentError("merge='score' compares raw scores, which only a dense search has on one scale: use 'rrf'")

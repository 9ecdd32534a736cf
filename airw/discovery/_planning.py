"""A discovery after validation: what is asked of whom, and what becomes of the answers."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, cast

from airw._base.checks import check_choice, check_count, check_number, check_weight
from airw._base.messages import short_repr
from airw._base.signatures import check_option_names
from airw.corpora import CorpusLike, find_corpus_path, is_corpus_name
from airw.discovery.disclosure import LEVELS, Level, Loader, check_loading
from airw.discovery.federated import FederatedCorpus
from airw.discovery.selection import STRATEGIES, Strategy, select
from airw.errors import ArgumentError
from airw.protocols import MaybeAwaitable, NeighborhoodPolicy, SearchStore, Selector, WalkStore
from airw.retrieval import SEARCH_DEFAULTS, Mode, SearchOptions, SearchQuery, SearchTuning, check_corpus
from airw.retrieval.fusion import Identity, fuse_entries
from airw.values import SearchHit
from airw.values.filters import Filter
from airw.walking import WalkPolicy

AUTO: Literal["auto"] = "auto"
Floor: TypeAlias = float | Literal["auto"] | None
Floors: TypeAlias = Floor | Mapping[str, Floor]

Askable: TypeAlias = CorpusLike[SearchStore] | CorpusLike[WalkStore]
Corpora: TypeAlias = Askable | Sequence[Askable] | Mapping[str, Askable] | FederatedCorpus
"""One corpus, or several as a list or by name: each open, or a name or path; or several as one graph."""

Merge: TypeAlias = (
    Literal["rrf", "score"] | Callable[[Mapping[str, Sequence[SearchHit]]], MaybeAwaitable[Iterable[SearchHit]]]
)
MERGES = ("rrf", "score")

SKILLS = "skills"
"""The corpus whose artifacts often come in several copies, which `dedup_by="auto"` tells by their names."""


@dataclass(frozen=True, slots=True)
class Member:
    """One corpus of a discovery: what its hits are attributed to, and the corpus or how to open it."""

    name: str
    corpus: CorpusLike[Any]

    @property
    def parts(self) -> dict[str, CorpusLike[Any]]:
        """Give the corpora that hits may come from, by the source they name."""
        return dict(self.corpus.members) if isinstance(self.corpus, FederatedCorpus) else {self.name: self.corpus}


class DiscoverOptions(SearchTuning, total=False):
    """The options of `discover`, which says what they mean."""

    k: int
    mode: Mode
    strategy: Strategy | Selector
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
class DiscoveryPlan:
    """A validated discovery; the fields with a default are options of `discover`."""

    members: tuple[Member, ...]
    many: bool
    search: SearchQuery
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
    def prepare(cls, verb: str, corpus: Corpora, query: str, options: DiscoverOptions) -> Self:
        """Check everything that can be checked before anything is asked; `verb` is the function that was called.

        Raises:
            ArgumentError: A parameter's value cannot be used, or two do not go together.
            FilterError: The filter is malformed.
            CorpusNotFound: A name or path leads nowhere.
            TypeError: There is no such option.
        """
        if "per_artifact" in options:
            raise ArgumentError(f"{verb} commits to artifacts, so per_artifact has no meaning: leave it out")
        check_option_names(verb, options, DISCOVER_DEFAULTS)
        given: dict[str, Any] = {**options}
        own = {name: given.pop(name) for name in _PLAN_DEFAULTS if name in given}
        members, many = members_of(corpus)
        floors = floors_of(given.pop("min_score", None), tuple(member.name for member in members), many=many)
        if own.get("walk") is not None:
            _check_walk(given, floors)
        elif isinstance(members[0].corpus, FederatedCorpus):
            raise ArgumentError("a FederatedCorpus is walked: give walk=policy, or search its corpora, as a list")
        search = SearchQuery.parse(verb, query, cast("SearchOptions", {"mode": _MODE, **given}))
        plan = cls(members=members, many=many, search=search, floors=floors, **own)
        _check_selection(plan, next(iter(floors.values())))
        _check_merge(plan)
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
        return self.search.mode if self.walk is None else "walk"

    @property
    def rrf_k(self) -> int:
        """Return the rank constant between sources."""
        return 60 if self.merge_rrf_k is None else self.merge_rrf_k


_MODE: Mode = "hybrid"
_PLAN_DEFAULTS = {each.name: each.default for each in fields(DiscoveryPlan) if each.default is not MISSING}
_SEARCH_DEFAULTS = {name: value for name, value in SEARCH_DEFAULTS.items() if name != "per_artifact"}
DISCOVER_DEFAULTS: Mapping[str, Any] = {
    **_SEARCH_DEFAULTS,
    "mode": _MODE,
    "min_score": None,
    **_PLAN_DEFAULTS,
}
"""What each option of `discover` is when it is left out."""


def _check_walk(searching: Mapping[str, Any], floors: Mapping[str, Floor]) -> None:
    unused = [name for name, value in searching.items() if name != "k" and value != DISCOVER_DEFAULTS[name]]
    if unused:
        raise ArgumentError(f"walk replaces the search, so {unused[0]} has no meaning; the policy has its own settings")
    if AUTO in floors.values():
        raise ArgumentError("nothing is calibrated for walks: give min_score as a number, or leave it out")


def _check_selection(plan: DiscoveryPlan, floor: Floor) -> None:
    """Let the selection refuse what it cannot use, before anything is asked."""
    if plan.many and plan.strategy == "abs_threshold":
        raise ArgumentError(
            "abs_threshold cannot follow a fusion, whose scores only say the order: give min_score as {name: number}"
        )
    if not callable(plan.strategy):
        check_choice("strategy", plan.strategy, STRATEGIES)
        least = 0.0 if floor == AUTO else floor
        select([], strategy=plan.strategy, max_k=plan.max_k, rel=plan.rel, gap_ratio=plan.gap_ratio, min_score=least)


def _check_merge(plan: DiscoveryPlan) -> None:
    if not plan.many:
        options = ("merge", "merge_weights", "merge_rrf_k", "identity")
        unused = [name for name in options if getattr(plan, name) != _PLAN_DEFAULTS[name]]
        if unused:
            raise ArgumentError(f"{unused[0]} is for several corpora: pass a list of them")
        return
    if not callable(plan.merge):
        check_choice("merge", plan.merge, MERGES)
    check_count("merge_rrf_k", plan.rrf_k)
    fuse_entries({}, identity=plan.identity)
    names = [member.name for member in plan.members]
    for name, weight in (plan.merge_weights or {}).items():
        check_weight(f"merge_weights of {name!r}", weight)
        if name not in names:
            raise ArgumentError(f"merge_weights names {short_repr(name)}, which is not among {', '.join(names)}")
    search = plan.search
    is_dense = plan.walk is None and search.mode == "dense" and not search.rerank and not search.rescaling_options
    if plan.merge == "score" and not is_dense:
        raise ArgumentError("merge='score' compares raw scores, which only a dense search has on one scale: use 'rrf'")


def members_of(corpus: Corpora) -> tuple[tuple[Member, ...], bool]:
    """Return the corpora that are meant, and whether they are several, even if only one is given.

    Raises:
        ArgumentError: There is none, or one without a name, or two of one name, or something else than corpora.
        CorpusNotFound: A name or path leads nowhere; nothing was opened then.
    """
    if isinstance(corpus, Mapping):
        members, many = [_member(name, each) for name, each in corpus.items()], True
    elif isinstance(corpus, list | tuple):
        members, many = [_member(None, each) for each in corpus], True
    else:
        members, many = [_member(None, cast("CorpusLike[Any]", corpus))], False
    if not members:
        raise ArgumentError("discover needs at least one corpus: a corpus, a name, or a list of them")
    _check_names(member.name for member in members)
    for member in members:
        if many and isinstance(member.corpus, FederatedCorpus):
            raise ArgumentError(f"{member.name!r} is several corpora itself: give those it is made of")
        if isinstance(member.corpus, str | os.PathLike):
            find_corpus_path(member.corpus)
    return tuple(members), many


def _member(name: object, corpus: CorpusLike[Any]) -> Member:
    if not isinstance(corpus, str | os.PathLike):
        check_corpus(corpus)
    known = _name_of(corpus) if name is None else name
    if not isinstance(known, str) or not known.strip():
        raise ArgumentError(f"a corpus of a discovery needs a name, not {short_repr(known)}; pass {{name: corpus}}")
    return Member(known, corpus)


def _name_of(corpus: CorpusLike[Any]) -> str:
    if isinstance(corpus, str | os.PathLike):
        return os.fspath(corpus) if is_corpus_name(corpus) else Path(corpus).stem
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

"""The options of a discovery: their checks, their defaults, and the corpora they apply to."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from os import PathLike
from typing import Any, Literal, Self, TypeAlias, cast

from airw._base.checks import check_choice, check_count, check_number, check_query, check_weight
from airw._base.messages import short_repr
from airw._base.signatures import check_option_names
from airw.corpora import CorpusLike, find_location, is_corpus_name, locate
from airw.discovery.disclosure import LEVELS, Level, Loader, check_loading
from airw.discovery.federated import FederatedCorpus
from airw.discovery.selection import STRATEGIES, Strategy, select
from airw.errors import ArgumentError
from airw.protocols import MaybeAwaitable, NeighborhoodPolicy, Selector
from airw.retrieval import SEARCH_DEFAULTS, Mode, SearchOptions, SearchQuery, SearchTuning, check_corpus
from airw.retrieval.fusion import Identity, fuse_entries
from airw.retrieval.query import with_fusion
from airw.values import SearchHit
from airw.values.filters import Filter
from airw.walking import WalkPolicy

AUTO: Literal["auto"] = "auto"
Floor: TypeAlias = float | Literal["auto"] | None
Floors: TypeAlias = Floor | Mapping[str, Floor]

Askable: TypeAlias = CorpusLike
Corpora: TypeAlias = Askable | Sequence[Askable] | Mapping[str, Askable] | FederatedCorpus
"""One corpus, or several as a list or by name; each is open, or a name, path or address. Or a `FederatedCorpus`."""

Merge: TypeAlias = (
    Literal["rrf", "blend", "score", "rrf-by-source"]
    | Callable[[Mapping[str, Sequence[SearchHit]]], MaybeAwaitable[Iterable[SearchHit]]]
)
MERGES = ("rrf", "blend", "score", "rrf-by-source")

SKILLS = "skills"
"""The name of a corpus that often contains copies of its artifacts.

`dedup_by="auto"` compares their names there.
"""


@dataclass(frozen=True, slots=True)
class Member:
    """A corpus of a discovery, open or as a name or path, and the source of its hits."""

    name: str
    corpus: CorpusLike

    @property
    def corpora(self) -> dict[str, CorpusLike]:
        """Return the corpora that its hits come from, by source name."""
        return dict(self.corpus.members) if isinstance(self.corpus, FederatedCorpus) else {self.name: self.corpus}


class DiscoverOptions(SearchTuning, total=False):
    """The options of `discover`, which explains each of them."""

    k: int
    mode: Mode
    strategy: Strategy | Selector
    disclose_level: Level
    filter: Mapping[str, Any] | Filter | None
    surfaces: Iterable[str] | None
    operators: bool
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
    walk: WalkPolicy | bool | None
    node_budget: int
    source_timeout: float | None
    timeout: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryPlan:
    """A discovery whose options are checked.

    The fields with a default are options of `discover`. `is_multi_source` is true if the corpora were passed as a list
    or by name, even if there is only one. `is_floor_requested` is true if the caller has passed `min_score`.
    """

    members: tuple[Member, ...]
    is_multi_source: bool
    query: str
    search: SearchQuery
    floors: Mapping[str, Floor]
    is_floor_requested: bool
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
    walk: WalkPolicy | Literal[True] | None = None
    node_budget: int = 64
    source_timeout: float | None = 30.0
    timeout: float | None = None

    @classmethod
    def prepare(cls, verb: str, corpus: Corpora, query: str, options: DiscoverOptions) -> Self:
        """Check all options before any source is queried.

        `verb` is the function that the caller used: error messages name it.

        Raises:
            ArgumentError: If a value cannot be used, or two options contradict each other.
            FilterError: If the filter is malformed.
            CorpusNotFound: If there is no corpus of a name or path.
            TypeError: If there is no such option.
        """
        check_query(query)  # before the corpora: whoever swaps the two reads about the query
        if "per_artifact" in options:
            raise ArgumentError(f"per_artifact has no meaning for {verb}, which selects artifacts: leave it out")
        check_option_names(verb, options, DISCOVER_DEFAULTS)
        search_options: dict[str, Any] = {**options}
        given = {name: search_options.pop(name) for name in _PLAN_DEFAULTS if name in search_options}
        members, is_multi_source = members_of(corpus)
        is_floor_requested = "min_score" in search_options
        # This strategy applies its number to every hit; no other floor can take its place.
        default_floor = None if given.get("strategy") == "abs_threshold" else AUTO
        min_score = search_options.pop("min_score", default_floor)
        floors = floors_of(min_score, tuple(member.name for member in members), is_multi_source=is_multi_source)
        if given.get("walk") is False:
            del given["walk"]
        if given.get("walk") is not None:
            _check_walk(search_options, floors, is_floor_requested=is_floor_requested)
        else:
            _check_searchable(members)
        fusion = with_fusion(options, "ranks")["fusion"]
        search = SearchQuery.parse(verb, query, cast("SearchOptions", {"fusion": fusion, **search_options}))
        plan = cls(
            members=members,
            is_multi_source=is_multi_source,
            query=query,
            search=search,
            floors=floors,
            is_floor_requested=is_floor_requested,
            **given,
        )
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
    def only_source(self) -> str | None:
        """Return the name of the corpus; `None` if there are several."""
        return self.members[0].name if len(self.members) == 1 else None

    @property
    def mode(self) -> str:
        """Return the mode of the search, or `"walk"`."""
        return self.search.mode if self.walk is None else "walk"

    @property
    def rrf_k(self) -> int:
        """Return the rank constant of the fusion of several corpora."""
        union = self.union_search
        return union.rank_constant if self.searches_union else 60 if union.rrf_k is None else union.rrf_k

    @property
    def searches_union(self) -> bool:
        """Return whether several corpora are searched as one.

        If not, they are walked, or fused source by source.
        """
        is_union = not callable(self.merge) and self.merge != "rrf-by-source"
        return self.is_multi_source and self.walk is None and is_union

    @property
    def union_search(self) -> SearchQuery:
        """Return the search in the union of the corpora."""
        search = self.search
        fusion = "blend" if self.merge == "blend" else search.fusion
        return replace(search, fusion=fusion, rrf_k=search.rrf_k if self.merge_rrf_k is None else self.merge_rrf_k)


_PLAN_DEFAULTS = {item.name: item.default for item in fields(DiscoveryPlan) if item.default is not MISSING}
_SEARCH_DEFAULTS = {name: value for name, value in SEARCH_DEFAULTS.items() if name != "per_artifact"}
DISCOVER_DEFAULTS: Mapping[str, Any] = {
    **_SEARCH_DEFAULTS,
    "fusion": "ranks",
    "min_score": AUTO,
    **_PLAN_DEFAULTS,
}
"""The default of each option of `discover`."""


def _check_walk(search_options: Mapping[str, Any], floors: Mapping[str, Floor], *, is_floor_requested: bool) -> None:
    unused = [name for name, value in search_options.items() if name != "k" and value != DISCOVER_DEFAULTS[name]]
    if unused:
        raise ArgumentError(f"{unused[0]} has no meaning with walk, which replaces the search: set it in the policy")
    if is_floor_requested and AUTO in floors.values():
        raise ArgumentError("min_score cannot be 'auto' with walk, as walks are not calibrated: pass a number or None")


def _check_selection(plan: DiscoveryPlan, floor: Floor) -> None:
    """Check the options of the selection before any source is queried."""
    if plan.is_multi_source and plan.strategy == "abs_threshold":
        raise ArgumentError(
            "strategy cannot be 'abs_threshold' for several corpora, as fused scores only give the order: "
            "pass min_score={name: number} instead"
        )
    if not callable(plan.strategy):
        check_choice("strategy", plan.strategy, STRATEGIES)
        # A selection without hits checks its own parameters; a number stands in for a floor that is not loaded yet.
        min_score = 0.0 if floor == AUTO else floor
        select(
            [], strategy=plan.strategy, max_k=plan.max_k, rel=plan.rel, gap_ratio=plan.gap_ratio, min_score=min_score
        )


def _check_merge(plan: DiscoveryPlan) -> None:
    if not plan.is_multi_source:
        options = ("merge", "merge_weights", "merge_rrf_k", "identity")
        unused = [name for name in options if getattr(plan, name) != _PLAN_DEFAULTS[name]]
        if unused:
            raise ArgumentError(f"{unused[0]} is for several corpora: pass a list of them")
        return
    if not callable(plan.merge):
        check_choice("merge", plan.merge, MERGES)
    check_count("merge_rrf_k", plan.rrf_k)
    # A fusion without hits checks `identity`.
    fuse_entries({}, identity=plan.identity)
    names = [member.name for member in plan.members]
    if plan.merge_weights is not None and not isinstance(plan.merge_weights, Mapping):
        raise ArgumentError(f"merge_weights must map names to weights, not {short_repr(plan.merge_weights)}")
    for name, weight in (plan.merge_weights or {}).items():
        check_weight(f"merge_weights[{name!r}]", weight)
        if name not in names:
            raise ArgumentError(f"merge_weights contains {short_repr(name)}, but the corpora are {', '.join(names)}")
    search = plan.search
    is_dense = plan.walk is None and search.mode == "dense" and not search.rerank and not search.rescaling_options
    if plan.merge == "score" and not is_dense:
        raise ArgumentError("merge='score' needs mode='dense', whose raw scores can be compared: use 'rrf'")
    if plan.merge == "blend" and (plan.walk is not None or search.mode != "hybrid"):
        raise ArgumentError("merge='blend' needs mode='hybrid', as it adds up the scores of both channels: use 'rrf'")


def check_corpora(corpus: Corpora) -> None:
    """Check that a discovery can ask corpora; a corpus of a name need not exist yet.

    Raises:
        ArgumentError: If there is no corpus, a corpus has no name, two have the same name, one is not a corpus, or it
            is a `FederatedCorpus`.
    """
    _check_searchable(_read_members(corpus)[0])


def _check_searchable(members: Sequence[Member]) -> None:
    if isinstance(members[0].corpus, FederatedCorpus):
        raise ArgumentError(
            "corpus is a FederatedCorpus, which can only be walked: pass walk=True, walk=policy, or its corpora"
        )


def members_of(corpus: Corpora) -> tuple[tuple[Member, ...], bool]:
    """Return the corpora of a discovery, and whether they were passed as a list or by name.

    No corpus is opened.

    Raises:
        ArgumentError: If there is no corpus, a corpus has no name, two have the same name, or one is not a corpus.
        CorpusNotFound: If there is no corpus of a name or path.
    """
    members, is_multi_source = _read_members(corpus)
    for member in members:
        if isinstance(member.corpus, str | os.PathLike):
            find_location(member.corpus)
    return members, is_multi_source


def _read_members(corpus: Corpora) -> tuple[tuple[Member, ...], bool]:
    is_multi_source = isinstance(corpus, Mapping | list | tuple)
    if isinstance(corpus, Mapping):
        members = [_member(name, item) for name, item in corpus.items()]
    else:
        several = corpus if isinstance(corpus, list | tuple) else [cast("CorpusLike", corpus)]
        members = [_member(None, item) for item in several]
    if not members:
        raise ArgumentError("corpus must contain at least one corpus: pass a corpus, a name, or a list of them")
    # Corpus names are not case-sensitive, so `Notes` and `notes` would be the same source.
    names: dict[str, Member] = {}
    for member in members:
        known = names.setdefault(member.name.casefold(), member)
        if known is not member:
            raise ArgumentError(
                f"corpus names must differ, but two are {known.name!r} and {member.name!r}: pass {{name: corpus}}"
            )
        if is_multi_source and isinstance(member.corpus, FederatedCorpus):
            raise ArgumentError(f"corpus {member.name!r} is a FederatedCorpus itself: pass its corpora instead")
    return tuple(members), is_multi_source


def _member(name: object, corpus: CorpusLike) -> Member:
    if not isinstance(corpus, str | os.PathLike):
        default = check_corpus(corpus).name
    else:
        location = locate(corpus)
        # As the caller spells it: two spellings of one name are one source.
        default = os.fspath(corpus) if is_corpus_name(corpus) else location.default_name
    source = default if name is None else name
    if not isinstance(source, str) or not source.strip():
        raise ArgumentError(f"corpus needs a name that is a string, not {short_repr(source)}: pass {{name: corpus}}")
    return Member(source, corpus)


def floors_of(min_score: Floors, names: tuple[str, ...], *, is_multi_source: bool) -> dict[str, Floor]:
    """Return the requested floor of each source; `"auto"` floors are loaded later.

    Raises:
        ArgumentError: If a floor cannot be used, a name is unknown, or one number is passed for several corpora.
    """
    if not isinstance(min_score, Mapping):
        if is_multi_source and min_score is not None and min_score != AUTO:
            raise ArgumentError(
                f"min_score cannot be {short_repr(min_score)} for several corpora, whose scores are on different "
                "scales: pass {name: number} or 'auto'"
            )
        return dict.fromkeys(names, _check_floor(min_score, "min_score"))
    if not is_multi_source:
        raise ArgumentError("min_score by name is for several corpora: for one pass a number, 'auto' or None")
    unknown = [name for name in min_score if name not in names]
    if unknown:
        raise ArgumentError(f"min_score contains {short_repr(unknown[0])}, but the corpora are {', '.join(names)}")
    return {name: _check_floor(min_score.get(name), f"min_score[{name!r}]") for name in names}


def _check_floor(floor: Any, name: str) -> Floor:
    if floor is None or (isinstance(floor, str) and floor == AUTO):
        return floor
    return check_number(f"{name}, unless 'auto' or None,", floor)

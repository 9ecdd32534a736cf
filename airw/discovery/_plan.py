"""A discovery after validation: what is asked of whom, and what becomes of the answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, Self, TypeAlias, Unpack

from airw._base.checks import check_choice, check_count, check_weight
from airw._base.messages import short_repr
from airw.discovery._floors import Floor, Floors, floors_of
from airw.discovery._members import Corpora, Member, members_of
from airw.discovery.disclosure.disclosing import LEVELS, Level, Loader, check_loading
from airw.discovery.federated import FederatedCorpus
from airw.discovery.selection.rules import STRATEGIES, Strategy, select
from airw.errors import ArgumentError
from airw.protocols import MaybeAwaitable, NeighborhoodPolicy, Selector
from airw.retrieval import Mode, Question, SearchTuning, ask
from airw.retrieval.fusion import Identity, fused
from airw.values import SearchHit
from airw.values.filters import Filter
from airw.walking import WalkPolicy

__all__ = ["DiscoverOptions", "Merge", "Plan"]

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

"""A search before it runs: its options, what they may be, and what follows from them; pure."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Self, TypeAlias, TypedDict

from airw._base.checks import check_choice, check_count, check_number, check_query, check_strings, check_weight
from airw._base.messages import short_repr
from airw._base.signatures import check_option_names
from airw.errors import ArgumentError, ArgumentKindError
from airw.protocols import Formulator, OpenCorpus, Reranker
from airw.reranking import RERANK_TEXTS, calibration_key, rerank_tag, resolve_reranker
from airw.values import Record, SearchHit
from airw.values.filters import Filter, parse_filter

Mode: TypeAlias = Literal["dense", "lexical", "hybrid"]
Fusion: TypeAlias = Literal["rrf", "blend"]
Boost: TypeAlias = Callable[[SearchHit], float]
PassageReader: TypeAlias = Callable[[OpenCorpus[Any], Record], str | Awaitable[str]]

MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")
"""The ways to rank: by cosine, by BM25, by both fused."""

FUSIONS: tuple[Fusion, ...] = ("rrf", "blend")
"""The ways a hybrid search fuses: by reciprocal rank, or by a weighted sum of cosine and saturated BM25."""


class SearchTuning(TypedDict, total=False):
    """The options of `search` that say how to rank rather than what."""

    fusion: Fusion
    rrf_k: int
    alpha: float
    bm25_sat_k: float
    fetch_k: int | None
    rerank: Reranker | str | None
    rerank_text: Literal["surface", "artifact"] | PassageReader
    rerank_max_chars: int
    formulate: Formulator | None
    surface_weights: Mapping[str, float] | None
    boost: Boost | None


class SearchOptions(SearchTuning, total=False):
    """The options of `search`; `SearchQuery` has their defaults, `airw.search` says what they mean."""

    k: int
    mode: Mode
    filter: Mapping[str, Any] | Filter | None
    surfaces: Iterable[str] | None
    per_artifact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A search whose options were checked; the fields with a default are the options of `search`.

    `verb` is the function that was called, as errors name it. `rerank` is the function that a specification means, and
    `surface_weights` is `None` where all weights are 1.
    """

    verb: str
    text: str
    k: int = 10
    mode: Mode = "dense"
    filter: Filter | None = None
    surfaces: tuple[str, ...] | None = None
    per_artifact: bool = True
    fusion: Fusion = "rrf"
    rrf_k: int = 60
    alpha: float = 0.5
    bm25_sat_k: float = 8.0
    fetch_k: int | None = None
    rerank: Reranker | None = None
    rerank_text: str | PassageReader = "surface"
    rerank_max_chars: int = 2000
    formulate: Formulator | None = None
    surface_weights: Mapping[str, float] | None = None
    boost: Boost | None = None

    @classmethod
    def parse(cls, verb: str, query: str, options: SearchOptions) -> Self:
        """Check a query and the options that were given.

        Raises:
            ArgumentError: A value cannot be used.
            FilterError: The filter is malformed.
            RerankerUnavailable: What the reranker needs is not installed or not found.
            TypeError: There is no such option.

        Example:
            >>> SearchQuery.parse("search", "signing keys", {"mode": "hybrid"}).channels
            ('dense', 'lexical')
        """
        check_option_names(verb, options, SEARCH_DEFAULTS)
        text = check_query(query)
        return cls(verb=verb, text=text, **{name: _CHECKS[name](name, value) for name, value in options.items()})

    @property
    def depth(self) -> int:
        """Return how deep each channel is read where rankings are fused or moved."""
        return hybrid_depth(self.k) if self.fetch_k is None else self.fetch_k

    @property
    def channels(self) -> tuple[Mode, ...]:
        """Give the channels that its mode ranks in."""
        return channels_of(self.mode)

    @property
    def has_second_stage(self) -> bool:
        """Say whether anything may move what the channels ranked."""
        return self.rerank is not None or self.boost is not None or self.surface_weights is not None

    @property
    def ranks_artifacts(self) -> bool:
        """Say whether channels rank artifacts; weights act on surfaces, which are collapsed after them."""
        return self.per_artifact and self.surface_weights is None

    @property
    def rescaled(self) -> tuple[str, ...]:
        """Name the options that move scores off the scale of the mode, or of the reranker.

        Example:
            >>> options = {"surface_weights": {"title": 2}, "boost": lambda hit: 0.1}
            >>> SearchQuery.parse("search", "keys", options).rescaled
            ('surface_weights', 'boost')
        """
        masses = self.formulate is not None and self.rerank is None
        moved = {"surface_weights": self.surface_weights, "boost": self.boost, "formulate": masses or None}
        return tuple(name for name, value in moved.items() if value is not None)

    def scale(self) -> tuple[str, str | None]:
        """Give the key that a floor for its scores is kept under, and the tag of its reranker.

        A model in a folder is known by its weights, which are read for that: call it in a worker thread.
        """
        tag = rerank_tag(self.rerank, self.rerank_text, max_chars=self.rerank_max_chars)
        key = calibration_key(
            self.mode, tag, fusion=self.fusion, rrf_k=self.rrf_k, alpha=self.alpha, bm25_sat_k=self.bm25_sat_k
        )
        return key, tag

    def has_evidence(self, hits: Sequence[SearchHit]) -> bool:
        """Say whether anything speaks for any of its hits: a word in common, or a cosine that is not 0."""
        if self.mode == "hybrid":
            return any("lexical_score" in hit.metadata or hit.metadata.get("dense_score") for hit in hits)
        if self.mode == "dense":
            return any(hit.metadata.get("dense_score", hit.metadata.get("retrieval_score", hit.score)) for hit in hits)
        return bool(hits)


def channels_of(mode: object) -> tuple[Mode, ...]:
    """Give the channels that a mode ranks in.

    Raises:
        ArgumentError: There is no such mode.
    """
    checked = check_choice("mode", mode, MODES)
    return ("dense", "lexical") if checked == "hybrid" else (checked,)


def hybrid_depth(k: int) -> int:
    """Tell how deep a search for `k` reads each channel where it fuses, or moves what a channel ranked."""
    return max(5 * k, 50)


def _check_saturation(name: str, value: object) -> float:
    level = check_weight(name, value)
    if not level:
        raise ArgumentError(f"{name} must be a finite number above 0, not {short_repr(value)}")
    return level


def _check_weights(weights: object) -> Mapping[str, float] | None:
    """Give the weights that are not all 1 as a mapping of one's own."""
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise ArgumentKindError(f"surface_weights must map surface kinds to weights, not {short_repr(weights)}")
    kinds = check_strings("the kinds of surface_weights", weights)
    checked = {kind: check_weight(f"surface_weights[{kind!r}]", weights[kind]) for kind in kinds}
    return MappingProxyType(checked) if any(weight != 1 for weight in checked.values()) else None


def _check_function(name: str, value: object, of: str) -> object:
    if value is not None and not callable(value):
        raise ArgumentKindError(f"{name} must be a function of {of}, not {short_repr(value)}")
    return value


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "k": check_count,
    "mode": partial(check_choice, choices=MODES),
    "filter": lambda _, value: parse_filter(value),
    "surfaces": lambda name, value: None if value is None else check_strings(name, value),
    "per_artifact": lambda _, value: value,
    "fusion": partial(check_choice, choices=FUSIONS),
    "rrf_k": check_count,
    "alpha": partial(check_number, least=0, most=1),
    "bm25_sat_k": _check_saturation,
    "fetch_k": lambda name, value: None if value is None else check_count(name, value, least=1),
    "rerank": lambda _, value: resolve_reranker(value),
    "rerank_text": lambda name, value: value if callable(value) else check_choice(name, value, RERANK_TEXTS),
    "rerank_max_chars": partial(check_count, least=1),
    "formulate": partial(_check_function, of="a query"),
    "surface_weights": lambda _, value: _check_weights(value),
    "boost": partial(_check_function, of="a hit"),
}

SEARCH_DEFAULTS: Mapping[str, Any] = {each.name: each.default for each in fields(SearchQuery) if each.name in _CHECKS}
"""What each option of `search` is when it is left out."""


def queries_of(formulated: object) -> tuple[str, ...]:
    """Give what a formulator answered as queries, each once and in its order; none where all are blank.

    Raises:
        ArgumentKindError: It is neither a string nor a list of strings.
        ArgumentError: A query holds an unpaired surrogate.

    Example:
        >>> queries_of(["signing keys", " ", "key rotation", "signing keys"])
        ('signing keys', 'key rotation')
    """
    given = [formulated] if isinstance(formulated, str) else formulated
    if not isinstance(given, Sequence) or not all(isinstance(query, str) for query in given):
        raise ArgumentKindError(f"a formulator must give a string or a list of strings, not {short_repr(formulated)}")
    return tuple(check_query(query) for query in dict.fromkeys(given) if query.strip())

"""The options of a search: their checks and their defaults.

Nothing here does I/O. `airw.retrieval.searching` runs the search.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Self, TypeAlias, TypedDict

from airw._base.checks import (
    MAX_HITS,
    check_choice,
    check_count,
    check_flag,
    check_kind,
    check_number,
    check_query,
    check_strings,
    check_text_query,
    check_weight,
)
from airw._base.messages import short_repr
from airw._base.signatures import check_option_names
from airw.errors import ArgumentError, ArgumentKindError
from airw.protocols import Formulator, OpenCorpus, Reranker, Store
from airw.reranking import RERANK_TEXTS, calibration_key, rerank_tag, resolve_boost, resolve_reranker
from airw.values import Contains, Record, SearchHit, read_operators
from airw.values.filters import Filter, parse_filter
from airw.values.hits import get_fact

Mode: TypeAlias = Literal["dense", "lexical", "hybrid"]
Fusion: TypeAlias = Literal["scores", "ranks", "blend", "rrf"]
Boost: TypeAlias = Callable[[SearchHit], float]
PassageReader: TypeAlias = Callable[[OpenCorpus, Record], str | Awaitable[str]]

MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")
"""The search modes: rank by cosine, by BM25, or by both fused."""


FUSIONS: tuple[Fusion, ...] = ("scores", "ranks", "blend", "rrf")
"""The fusions of a hybrid search.

The first two weigh the channels anew for each query; see `airw.retrieval.merging`. `"scores"` adds the cosine and the
share that the BM25 score is of the highest possible one. `"ranks"` fuses by reciprocal rank, and weighs the ranks of a
channel by the spread of its scores. The other two have fixed weights: `"blend"` adds a cosine and a saturated
BM25 score, `"rrf"` fuses by reciprocal rank.
"""

_FIXED_FUSION: Mapping[Fusion, Fusion] = {"scores": "blend", "ranks": "rrf"}
_FIXED_OPTIONS = ("alpha", "rrf_k", "bm25_sat_k", "merge_rrf_k")

# The lists of a search are 50 long, and not 1,000 as those for which 60 was found. With 60, the last place of such a
# list is worth more than half of the first, and what both channels list wins over what one of them ranks first.
_RANKS_K = 10
_RRF_K = 60
_LEAST_LIST = 100  # hits of each channel whose scores are added

_ALPHA = 0.5
# Vectors of hashed words know no more than BM25 does, and know it less well: they only help to order what BM25 finds.
# `bench_alpha` prints what other values do.
_ALPHA_OF_HASHES = 0.1

_CHANNELS: Mapping[Mode, tuple[Mode, ...]] = {
    "dense": ("dense",),
    "lexical": ("lexical",),
    "hybrid": ("dense", "lexical"),
}


class SearchTuning(TypedDict, total=False):
    """The options of `search` that control how it ranks, not which records it ranks."""

    fusion: Fusion
    rrf_k: int | None
    alpha: float | None
    bm25_sat_k: float
    fetch_k: int | None
    rerank: Reranker | str | None
    rerank_text: Literal["surface", "artifact"] | PassageReader
    rerank_max_chars: int
    formulate: Formulator | None
    surface_weights: Mapping[str, float] | None
    boost: Boost | str | None


class SearchOptions(SearchTuning, total=False):
    """The options of `search`.

    `airw.search` explains each option; `SearchQuery` holds the defaults.
    """

    k: int
    mode: Mode
    filter: Mapping[str, Any] | Filter | None
    surfaces: Iterable[str] | None
    per_artifact: bool
    operators: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A search whose options are checked.

    The fields with a default are the options of `search`. `verb` is the function that the caller used: error messages
    name it. `contains` is what the operators of the query say. `rerank` is a function or `None`: a specification such
    as `"cross-encoder"` is resolved. `surface_weights` is `None` if all weights are 1. `alpha` is `None` until the
    embedder is known; `for_embedder` then sets it.
    """

    verb: str
    text: str
    k: int = 10
    mode: Mode = "hybrid"
    filter: Filter | None = None
    surfaces: tuple[str, ...] | None = None
    per_artifact: bool = True
    operators: bool = False
    contains: Contains | None = None
    fusion: Fusion = "scores"
    rrf_k: int | None = None
    alpha: float | None = None
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
        """Check a query and its options.

        Raises:
            ArgumentError: If a value cannot be used, or the query is blank.
            FilterError: If the filter is malformed.
            RerankerUnavailable: If a package or a model of the reranker is missing.
            TypeError: If there is no such option.

        Example:
            >>> SearchQuery.parse("search", "signing keys", {"mode": "hybrid"}).channels
            ('dense', 'lexical')
        """
        return cls.preset(verb, options).with_text(query)

    def with_text(self, query: str) -> Self:
        """Return the search for a query; with `operators`, they are read and taken out of it.

        Raises:
            ArgumentError: If the query is blank, or has only words to leave out.
        """
        text = check_text_query(query)
        return replace(self, **read_operators(text)._asdict()) if self.operators else replace(self, text=text)

    @classmethod
    def preset(cls, verb: str, options: SearchOptions) -> Self:
        """Check options whose query comes later; its text is empty.

        Raises:
            ArgumentError: If a value cannot be used.
            FilterError: If the filter is malformed.
            RerankerUnavailable: If a package or a model of the reranker is missing.
            TypeError: If there is no such option.
        """
        check_option_names(verb, options, SEARCH_DEFAULTS)
        values = with_fusion(options, "scores")
        for name, value in values.items():
            if value is not None or SEARCH_DEFAULTS[name] is not None:
                values[name] = _CHECKS[name](name, value)
        return cls(verb=verb, text="", **values)

    def for_embedder(self, embedder_id: str) -> Self:
        """Return the query with the default `alpha` of an embedder, unless the caller has set one.

        Example:
            >>> query = SearchQuery.parse("search", "signing keys", {})
            >>> query.for_embedder("hashing-v2-512").alpha, query.for_embedder("bert-384").alpha
            (0.1, 0.5)
        """
        return self if self.alpha is not None else replace(self, alpha=default_alpha(embedder_id))

    def for_store(self, store: Store) -> Self:
        """Return the query with a mode that a store can answer.

        Without one of the channels, a hybrid search is one in the other channel.
        """
        able = [channel for channel in self.channels if channel in store.capabilities]
        return replace(self, mode=able[0]) if len(able) == 1 else self

    @property
    def conditions(self) -> dict[str, Any]:
        """Return the conditions on what is ranked, by their names in `Rank`."""
        return {"filter": self.filter, "surfaces": self.surfaces, "contains": self.contains}

    @property
    def rank_constant(self) -> int:
        """Return the rank constant of a fusion by rank.

        Example:
            >>> SearchQuery.parse("search", "keys", {"fusion": "ranks"}).rank_constant
            10
        """
        if self.rrf_k is not None:
            return self.rrf_k
        return _RANKS_K if self.fusion == "ranks" else _RRF_K

    @property
    def adds_scores(self) -> bool:
        """Return whether the scores of the channels are added, rather than their ranks fused."""
        return self.mode == "hybrid" and self.fusion in ("scores", "blend")

    @property
    def depth(self) -> int:
        """Return how deep to read each channel if its ranking is fused or reordered."""
        return hybrid_depth(self.k) if self.fetch_k is None else self.fetch_k

    @property
    def list_depth(self) -> int:
        """Return how deep to read each channel for a fusion.

        What a channel does not list counts 0 there, so added scores need longer lists than ranks.

        Example:
            >>> [SearchQuery.parse("search", "keys", {"fusion": name}).list_depth for name in ("scores", "ranks")]
            [100, 50]
        """
        is_longer = self.fetch_k is None and self.mode == "hybrid" and self.fusion == "scores"
        return max(self.depth, _LEAST_LIST if is_longer else 0)

    def ranking_depth(self, n_rankings: int, *, has_later_stage: bool = False) -> int:
        """Return how deep to read each ranking.

        Args:
            n_rankings: The number of rankings, of all channels and queries. A lone one is not fused.
            has_later_stage: Whether the caller reorders the candidates.
        """
        is_final = n_rankings == 1 and not self.has_second_stage and not has_later_stage
        return self.k if is_final else self.list_depth

    @property
    def channels(self) -> tuple[Mode, ...]:
        """Return the channels of the mode."""
        return _CHANNELS[self.mode]

    @property
    def has_second_stage(self) -> bool:
        """Return whether a reranker, a boost or weights may reorder the rankings of the channels."""
        return self.rerank is not None or self.boost is not None or self.surface_weights is not None

    @property
    def ranks_artifacts(self) -> bool:
        """Return whether the channels rank artifacts rather than surfaces.

        Weights apply to surfaces, so a weighted search ranks surfaces and collapses them to artifacts afterwards.
        """
        return self.per_artifact and self.surface_weights is None

    @property
    def rescaling_options(self) -> tuple[str, ...]:
        """Return the options that move scores off the scale of the mode or the reranker.

        A floor that is calibrated on one scale means nothing on another one.

        Example:
            >>> options = {"surface_weights": {"title": 2}, "boost": lambda hit: 0.1}
            >>> SearchQuery.parse("search", "keys", options).rescaling_options
            ('surface_weights', 'boost')
        """
        # Several formulated queries are fused by rank, so scores are RRF scores; a reranker replaces them again.
        names = ("surface_weights", "boost", "formulate") if self.rerank is None else ("surface_weights", "boost")
        return tuple(name for name in names if getattr(self, name) is not None)

    def scale(self, embedder_id: str) -> tuple[str, str | None]:
        """Return the calibration key of the search's scores, and the tag of its reranker.

        A corpus stores the floor for these scores under that key. Call this in a worker thread: the tag of a model in a
        folder is a hash of its weights, and reading them takes time.

        Args:
            embedder_id: The id of the corpus's embedder.
        """
        tag = rerank_tag(self.rerank, self.rerank_text, max_chars=self.rerank_max_chars)
        is_usual = self.alpha in (None, default_alpha(embedder_id))
        # The key does not name the share that an embedder has by default, whatever it is.
        alpha = _ALPHA if is_usual or self.alpha is None else self.alpha
        key = calibration_key(
            self.mode, tag, fusion=self.fusion, rrf_k=self.rank_constant, alpha=alpha, bm25_sat_k=self.bm25_sat_k
        )
        if self.alpha == _ALPHA and not is_usual and self.mode == "hybrid" and tag is None:
            key += f"+alpha={_ALPHA}"
        return key, tag

    def has_evidence(self, hit: SearchHit) -> bool:
        """Return whether a hit has evidence: a word of the query, or a cosine that is not 0.

        A hit without evidence is no answer, whatever its score is.
        """
        if self.mode == "lexical" or get_fact(hit.metadata, "lexical_score") is not None:
            return True
        # A store with one channel has ranked alone, and the score is all that there is.
        score = get_fact(hit.metadata, "retrieval_score", hit.score)
        return bool(get_fact(hit.metadata, "dense_score", score))


def with_fusion(options: Mapping[str, Any], default: Fusion) -> Any:
    """Return options with the fusion that they mean.

    Without `fusion` it is the default, or its form with fixed weights if an option sets one of its numbers.

    Args:
        options: Options of `search` or `discover`.
        default: `"scores"` or `"ranks"`.

    Example:
        >>> with_fusion({"k": 5}, "scores"), with_fusion({"alpha": 0.3}, "scores")
        ({'fusion': 'scores', 'k': 5}, {'fusion': 'blend', 'alpha': 0.3})
    """
    fusion = default
    for name in _FIXED_OPTIONS:
        if options.get(name) is not None:
            fusion = _FIXED_FUSION[default]
    return {"fusion": fusion, **options}


def default_alpha(embedder_id: str) -> float:
    """Return the share of the dense channel in a hybrid search with an embedder.

    It is 0.5, and 0.1 for the `light` embedder, whose vectors know words but no meaning.
    """
    return _ALPHA_OF_HASHES if embedder_id.startswith("hashing-") else _ALPHA


def rank_weights(channels: Sequence[Mode], alpha: float) -> dict[Mode, float]:
    """Return the weight of each channel in a fusion by rank.

    A lone channel, and both channels at `alpha=0.5`, have weight 1.

    Example:
        >>> rank_weights(["dense", "lexical"], 0.1), rank_weights(["dense"], 0.1)
        ({'dense': 0.2, 'lexical': 1.8}, {'dense': 1.0})
    """
    if len(channels) < 2:
        return dict.fromkeys(channels, 1.0)
    return {"dense": 2 * alpha, "lexical": 2 * (1 - alpha)}


def channels_of(mode: object) -> tuple[Mode, ...]:
    """Return the channels of a mode.

    Raises:
        ArgumentError: If there is no such mode.
    """
    return _CHANNELS[check_choice("mode", mode, MODES)]


def hybrid_depth(k: int) -> int:
    """Return how deep a search for `k` hits reads each channel before it fuses or reorders.

    Reading deeper than `k` lets hits rise that one channel alone ranks low.
    """
    return max(5 * k, 50)


def _check_saturation(name: str, value: object) -> float:
    saturation = check_weight(name, value)
    if not saturation:
        raise ArgumentError(f"{name} must be a finite number above 0, not {short_repr(value)}")
    return saturation


def _check_weights(name: str, weights: Mapping[str, float]) -> Mapping[str, float] | None:
    """Return a read-only copy of the weights, or `None` if all of them are 1."""
    check_kind(name, weights, Mapping, "map surface kinds to weights")
    kinds = check_strings(f"the kinds of {name}", weights)
    checked = {kind: check_weight(f"{name}[{short_repr(kind)}]", weights[kind]) for kind in kinds}
    return None if {*checked.values()} <= {1.0} else MappingProxyType(checked)


# Each takes the name of the option and a value, and returns the value to use. `None` is not checked where it is the
# default.
_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "k": partial(check_count, most=MAX_HITS),
    "mode": partial(check_choice, choices=MODES),
    "filter": lambda _, value: parse_filter(value),
    "surfaces": check_strings,
    "per_artifact": check_flag,
    "operators": check_flag,
    "fusion": partial(check_choice, choices=FUSIONS),
    "rrf_k": check_count,
    "alpha": partial(check_number, least=0, most=1),
    "bm25_sat_k": _check_saturation,
    "fetch_k": partial(check_count, least=1, most=MAX_HITS),
    "rerank": lambda _, value: resolve_reranker(value),
    "rerank_text": lambda name, value: value if callable(value) else check_choice(name, value, RERANK_TEXTS),
    "rerank_max_chars": partial(check_count, least=1),
    "formulate": partial(check_kind, kind=Callable, what="be a function of a query"),
    "surface_weights": _check_weights,
    "boost": lambda _, value: resolve_boost(value),
}

SEARCH_DEFAULTS: Mapping[str, Any] = {
    option.name: option.default for option in fields(SearchQuery) if option.name in _CHECKS
}
"""The default of each option of `search`."""


def queries_of(formulated: object) -> tuple[str, ...]:
    """Return the queries in a formulator's answer, without duplicates and blank ones.

    Raises:
        ArgumentKindError: If the answer is neither a string nor a list of strings.
        ArgumentError: If a query contains an unpaired surrogate.

    Example:
        >>> queries_of(["signing keys", " ", "key rotation", "signing keys"])
        ('signing keys', 'key rotation')
    """
    queries = [formulated] if isinstance(formulated, str) else formulated
    if not isinstance(queries, Sequence) or not all(isinstance(query, str) for query in queries):
        raise ArgumentKindError(f"formulate must return a string or a list of strings, not {short_repr(formulated)}")
    return tuple(check_query(query) for query in dict.fromkeys(queries) if query.strip())

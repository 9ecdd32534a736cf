"""LlamaIndex's retrievers: one for each verb of airw; `docs/llama_index.md` has examples."""

from types import EllipsisType
from typing import TYPE_CHECKING, Any, Unpack

from airw._base.signatures import shows_options
from airw.corpora import CorpusLike
from airw.discovery import Corpora, DiscoverOptions
from airw.integrations._finder import DISCOVER_DEFAULTS, Finder, make_discovery, make_search, make_walk
from airw.protocols import SearchStore
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions
from airw.values import Limits
from airw.walking import WalkPolicy

if TYPE_CHECKING:
    from airw.integrations.llama_index.node_retriever import AirwNodeRetriever


@shows_options(SearchOptions, SEARCH_DEFAULTS)
def search_retriever(
    corpus: CorpusLike[SearchStore], *, timeout: float | None = None, **options: Unpack[SearchOptions]
) -> "AirwNodeRetriever":
    """Return a retriever of LlamaIndex that searches one corpus.

    A node has the text that matched, the fields of its artifact as `metadata`, and what airw knows about it under
    `metadata["airw"]`: `id`, `source`, `surface`, `score` and `rank`, and the scores of the channels. Language models
    do not read these. The source document of a node is its artifact.

    Args:
        corpus: A name, path or address: the first question opens the corpus, and it stays open as long as the
            retriever. Or a corpus of `airw.sync`. Of a corpus that was opened with `await`, only the async methods of
            the retriever work.
        timeout: Seconds for one search; `None` for any time.
        options: The options of `airw.search`.

    Raises:
        ArgumentError: If a value cannot be used, or llama-index-core is not installed.

    A question raises what `airw.search` raises, and a `TimeoutError` after `timeout` seconds.
    """
    return _make_retriever(make_search("search_retriever", corpus, timeout, options))


@shows_options(DiscoverOptions, DISCOVER_DEFAULTS)
def discover_retriever(corpora: Corpora, **options: Unpack[DiscoverOptions]) -> "AirwNodeRetriever":
    """Return a retriever of LlamaIndex that discovers: it finds few nodes, or none.

    A node has the passage around the match if `expand` is set, or else the body if `disclose_level` reads it, or
    else the text that matched. `metadata["airw"]` has `id`, `source`, `score`, `rank` and the `reason` of the
    selection.

    Args:
        corpora: One corpus or several, as for `airw.discover`; opened and kept as in `search_retriever`.
        options: The options of `airw.discover`.

    Raises:
        ArgumentError: If a name cannot be used, or llama-index-core is not installed.

    A question raises what `airw.discover` raises. Of several corpora, those that fail are left out.
    """
    return _make_retriever(make_discovery("discover_retriever", corpora, options))


def walk_retriever(
    corpus: Any,
    *,
    k: int = 10,
    policy: WalkPolicy | None = None,
    max_depth: int | EllipsisType | None = ...,
    node_budget: int = 64,
    timeout: float | None = None,
    limits: Limits | None = None,
) -> "AirwNodeRetriever":
    """Return a retriever of LlamaIndex that walks, for the first hits of the final ranking.

    `metadata["airw"]` has the facts of `search_retriever`, and those of a walk's hits such as `walk_path`, the ids from
    the seed. `stop` is why the walk ended, `truncated` whether it may have left anything out, and `left_out` how much,
    by limit.

    Args:
        corpus: A corpus, opened and kept as in `search_retriever`. Several, as a list or by name, are walked as one
            graph. Or what the policy understands, as for `airw.traverse`.
        k: The largest number of nodes.
        policy: The policy of each walk; `None` for the default of `airw.traverse`.
        max_depth: The depth cap; by default the policy's own.
        node_budget: The number of nodes to commit at most.
        timeout: Seconds for one walk; the nodes are then those found so far. `None` for any time.
        limits: The other limits.

    Raises:
        ArgumentError: If a value cannot be used, or llama-index-core is not installed.

    A question raises what `airw.traverse` raises.
    """
    return _make_retriever(
        make_walk(
            "walk_retriever",
            corpus,
            k=k,
            policy=policy,
            max_depth=max_depth,
            node_budget=node_budget,
            timeout=timeout,
            limits=limits,
        )
    )


def _make_retriever(finder: Finder) -> "AirwNodeRetriever":
    from airw.integrations.llama_index import AirwNodeRetriever  # the package names the extra that is missing

    return AirwNodeRetriever(finder)

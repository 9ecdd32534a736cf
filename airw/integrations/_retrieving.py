"""The verbs of airw as retrievers, for every framework."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from types import EllipsisType
from typing import Any, Unpack

import anyio

from airw._base.checks import check_count, check_strings
from airw._base.signatures import check_option_names, shows_options
from airw.corpora import CorpusLike, search
from airw.discovery import Corpora, DiscoverOptions, FederatedCorpus, check_corpora, discover
from airw.integrations._finder import (
    Finder,
    FoundDocument,
    check_single,
    check_timeout,
    describe_disclosure,
    describe_hit,
    read_walk,
    show_corpora,
)
from airw.policies import PathCoverage
from airw.retrieval import SEARCH_DEFAULTS, SearchOptions, SearchQuery
from airw.traversal import traverse
from airw.values import Limits
from airw.walking import WalkPolicy, start_walk

_DISCOVER_DEFAULTS: Mapping[str, Any] = {
    name: parameter.default
    for name, parameter in inspect.signature(discover).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}


@shows_options(SearchOptions, SEARCH_DEFAULTS)
def search_retriever(corpus: CorpusLike, *, timeout: float | None = None, **options: Unpack[SearchOptions]) -> Finder:
    """Return a retriever that searches one corpus.

    It finds documents of LangChain, or nodes of LlamaIndex. Each has the text that matched, the fields of its artifact
    as `metadata`, and what airw knows about it under `metadata["airw"]`: `id`, `source`, `surface`, `score` and `rank`,
    and the scores of the channels.

    Args:
        corpus: A name, path or address: the first question opens the corpus, and it stays open as long as the
            retriever. Or a corpus of `airw.sync`. Of a corpus that was opened with `await`, only the async methods of
            the retriever work.
        timeout: Seconds for one search; `None` for any time.
        options: The options of `airw.search`.

    Raises:
        ArgumentError: If a value cannot be used, or the framework is not installed.

    A question raises what `airw.search` raises, and a `TimeoutError` after `timeout` seconds.
    """
    check_single(corpus)
    label = f"search_retriever({show_corpora(corpus)})"

    def check(options: Mapping[str, Any]) -> tuple[float | None, dict[str, Any]]:
        names: Any = {name: value for name, value in options.items() if name != "timeout"}
        preset = SearchQuery.preset("search_retriever", names)
        # Keep the checked values, not the caller's: an iterator can be read only once, and a list may change later.
        kept = {name: value if value is None else getattr(preset, name) for name, value in names.items()}
        return check_timeout(options["timeout"]), kept

    kept = {"timeout": timeout, **check({"timeout": timeout, **options})[1]}

    async def ask(opened: Any, query: str, **changes: Any) -> list[FoundDocument]:
        seconds, own = check(kept | changes)
        with anyio.move_on_after(seconds):
            hits = await search(opened, query, **own)
            found = [describe_hit(hit, rank, surface=hit.surface_kind) for rank, hit in enumerate(hits, 1)]
            if own.get("per_artifact", True):
                return found
            names = [f"{hit.surface_kind}-{hit.surface_index}" for hit in hits]
            return [replace(each, surface=name) for each, name in zip(found, names, strict=True)]
        raise TimeoutError(f"{label} found no answer within {seconds:g} s; pass a larger timeout")

    return Finder(corpus, ask, label)


@shows_options(DiscoverOptions, _DISCOVER_DEFAULTS)
def discover_retriever(corpora: Corpora, **options: Unpack[DiscoverOptions]) -> Finder:
    """Return a retriever that discovers: it finds the few documents that answer, or none.

    Each has the passage around the match if `expand` is set, or else the body if `disclose_level` reads it, or else the
    text that matched. `metadata["airw"]` has `id`, `source`, `score`, `rank` and the `reason` of the selection.

    Args:
        corpora: One corpus or several, as for `airw.discover`; opened and kept as in `search_retriever`.
        options: The options of `airw.discover`.

    Raises:
        ArgumentError: If a value cannot be used, or the framework is not installed.
        TypeError: If there is no such option.

    A question raises what `airw.discover` raises. Of several corpora, those that fail are left out.
    """

    def check(options: Mapping[str, Any]) -> Any:
        check_option_names("discover_retriever", options, _DISCOVER_DEFAULTS)
        if options.get("walk") is None and isinstance(corpora, FederatedCorpus):
            check_corpora(corpora)
        if options.get("surfaces") is not None:
            options = {
                **options,
                "surfaces": check_strings("surfaces", options["surfaces"]),
            }  # each question reads them
        return options

    kept = check(options)

    async def ask(opened: Any, query: str, **changes: Any) -> list[FoundDocument]:
        result = await discover(opened, query, **check(kept | changes))
        return [describe_disclosure(each, rank, result.reason) for rank, each in enumerate(result.results, 1)]

    label = f"discover_retriever({show_corpora(corpora)})"
    return Finder(corpora, ask, label, keeps_names=isinstance(corpora, Mapping | list | tuple))


def walk_retriever(
    corpus: Any,
    *,
    k: int = 10,
    policy: WalkPolicy | None = None,
    max_depth: int | EllipsisType | None = ...,
    node_budget: int = 64,
    timeout: float | None = None,
    limits: Limits | None = None,
) -> Finder:
    """Return a retriever that walks, for the first hits of the final ranking.

    `metadata["airw"]` has the facts of `search_retriever`, and those of a walk's hits such as `walk_path`, the ids from
    the seed. `stop` is why the walk ended, `truncated` whether it may have left anything out, and `left_out` how much,
    by limit.

    Args:
        corpus: A corpus, opened and kept as in `search_retriever`. Several, as a list or by name, are walked as one
            graph. Or what the policy understands, as for `airw.traverse`.
        k: The largest number of documents.
        policy: The policy of each walk; `None` for the default of `airw.traverse`.
        max_depth: The depth cap; by default the policy's own.
        node_budget: The number of nodes to commit at most.
        timeout: Seconds for one walk; the documents are then those found so far. `None` for any time.
        limits: The other limits.

    Raises:
        ArgumentError: If a value cannot be used, or the framework is not installed.

    A question raises what `airw.traverse` raises.
    """
    kept = {
        "k": k,
        "policy": policy,
        "max_depth": max_depth,
        "node_budget": node_budget,
        "timeout": timeout,
        "limits": limits,
    }

    def check(options: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        check_option_names("walk_retriever", options, kept)
        count, walked = check_count("k", options["k"]), {**options, "timeout": check_timeout(options["timeout"])}
        del walked["k"]
        check_count("node_budget", walked["node_budget"], least=1)
        others = {name: walked[name] for name in ("max_depth", "node_budget", "limits")}
        start_walk("", None, PathCoverage() if walked["policy"] is None else walked["policy"], **others)  # none starts
        return count, walked

    check(kept)

    async def ask(opened: Any, query: str, **changes: Any) -> list[FoundDocument]:
        count, walked = check(kept | changes)
        store = FederatedCorpus(opened) if isinstance(opened, Mapping | list | tuple) else opened
        return await read_walk(traverse(query, store, **walked), count)

    return Finder(corpus, ask, f"walk_retriever({show_corpora(corpus)})")

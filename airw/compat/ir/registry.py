"""Corpora by name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from airw import corpora as of_airw
from airw.compat._missing import missing
from airw.compat._sync import run
from airw.compat.ir.embed import embedder_of
from airw.compat.ir.index import Corpus, extractor_of, facade
from airw.compat.ir.retrieve import as_retriever
from airw.compat.ir.store import CorpusStore
from airw.compat.ir.strategy import plain
from airw.corpora import PRESETS as PRESETS
from airw.corpora import Maintenance
from airw.errors import ArgumentError

PARAMETRIC_KINDS = ("files", "records")
_LOCAL = {"backend": "local"}


def register(
    name: str,
    kind: str,
    *,
    embedder: str = "default",
    strategy: Any = None,
    maintenance: Mapping[str, Any] | None = None,
    storage: Mapping[str, Any] | None = None,
    **params: Any,
) -> dict[str, Any]:
    """Register how a corpus is made, and return it; see `airw.register`.

    Raises:
        ArgumentError: A value cannot be used or kept; `storage` is another one than that of `ir`, which airw has not.
    """
    if storage is not None and dict(storage) != _LOCAL:
        raise ArgumentError(
            "storage is of ir: a corpus is a file in the home folder; for another place give build a store"
        )
    made = run(
        of_airw.register,
        name,
        kind,
        embedder=embedder,
        strategy=strategy if isinstance(strategy, Mapping) else plain(strategy),
        maintenance=_maintenance(maintenance),
        **params,
    )
    return made.to_dict()


def _maintenance(policy: Mapping[str, Any] | None) -> Maintenance | None:
    if policy is None:
        return None
    reindex, synopsis = policy.get("reindex") or {}, policy.get("synopsis") or {}
    if synopsis.get("enabled"):
        raise ArgumentError("synopses are a part of the strategy: register(…, strategy=with_synopsis(…))")
    return Maintenance(reindex.get("on", "source-change"), every_hours=reindex.get("every_hours"))


def registered() -> dict[str, dict[str, Any]]:
    """Return all that is registered, by name."""
    return {name: each.to_dict() for name, each in of_airw.list_corpora().items()}


corpora = registered
"""What is registered, as the package calls it."""


def get(name: str) -> dict[str, Any] | None:
    """Return what is registered under a name; `None` where nothing is."""
    return registered().get(name)


def unregister(name: str) -> None:
    """Forget how a corpus is made; what was built stays."""
    if name in registered():
        run(of_airw.unregister, name)


def build_corpus(
    name: str,
    *,
    store: CorpusStore | None = None,
    embedder: Any = None,
    full: bool = True,
    batch_size: int = 256,
    edge_extractor: Callable[..., Any] | None = None,
) -> Corpus:
    """Bring a registered corpus up to date and open it; see `airw.build_corpus`.

    Raises:
        CorpusNotFound: It is not registered, nor one of `PRESETS`.
    """
    options = {
        "store": None if store is None else store.target,
        "embedder": None if embedder is None else embedder_of(embedder),
        "edge_extractor": extractor_of(edge_extractor),
        "full": full,
        "batch_size": batch_size,
    }
    return facade(run(of_airw.build_corpus, name, **options), store)


def retriever_for(name: str, **search_defaults: Any) -> Callable[..., Any]:
    """Open a corpus that was built, and bind options to a function of a query.

    Raises:
        CorpusNotFound: There is none.
    """
    return as_retriever(name, **search_defaults)


class _Retrievers(Mapping[str, Callable[..., Any]]):
    def __init__(self, defaults: dict[str, Any]) -> None:
        self._defaults = defaults

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in registered():
            raise KeyError(name)
        return retriever_for(name, **self._defaults)

    def __iter__(self) -> Iterator[str]:
        return iter(registered())

    def __len__(self) -> int:
        return len(registered())


def retrievers(**search_defaults: Any) -> Mapping[str, Callable[..., Any]]:
    """Return a view of all that is registered as retrievers by name; each is opened when it is asked for."""
    return _Retrievers(search_defaults)


__getattr__ = missing(
    __name__,
    {
        "source_from_entry": "write airw.corpora.list_corpora()[name].source()",
        "source_for": "write airw.corpora.list_corpora()[name].source()",
        "policy_for": "write airw.corpora.list_corpora()[name].schedule",
    },
)

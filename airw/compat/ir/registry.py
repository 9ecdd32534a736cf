"""The registry of corpora by name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from airw import corpora as of_airw
from airw.compat._missing_names import explain_missing
from airw.compat._sync import run
from airw.compat.ir.embed import embedder_of
from airw.compat.ir.index import Corpus, extractor_of, to_ir
from airw.compat.ir.retrieve import as_retriever
from airw.compat.ir.store import CorpusStore
from airw.compat.ir.strategy import to_airw_strategy
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
    """Register the definition of a corpus and return it; see `airw.register`.

    Raises:
        ArgumentError: If a value is not valid or cannot be stored, or `storage` is not the default of `ir`.
    """
    if storage is not None and dict(storage) != _LOCAL:
        raise ArgumentError(
            "storage must be {'backend': 'local'}: airw keeps a corpus as a file in its home folder; for a server call "
            "airw.register(…, store='postgresql://…')"
        )
    definition = run(
        of_airw.register,
        name,
        kind,
        embedder=embedder,
        strategy=strategy if isinstance(strategy, Mapping) else to_airw_strategy(strategy),
        maintenance=_maintenance(maintenance),
        **params,
    )
    return definition.to_dict()


def _maintenance(policy: Mapping[str, Any] | None) -> Maintenance | None:
    if policy is None:
        return None
    reindex, synopsis = policy.get("reindex") or {}, policy.get("synopsis") or {}
    if synopsis.get("enabled"):
        raise ArgumentError(
            "maintenance cannot enable synopses, which are part of the strategy: register(…, strategy=with_synopsis(…))"
        )
    return Maintenance(reindex.get("on", "source-change"), every_hours=reindex.get("every_hours"))


def registered() -> dict[str, dict[str, Any]]:
    """Return all registered definitions by name."""
    return {name: definition.to_dict() for name, definition in of_airw.list_corpora().items()}


corpora = registered
"""The same function under the name that the package `ir` exports."""


def get(name: str) -> dict[str, Any] | None:
    """Return the definition of a name, or `None` if it is not registered."""
    return registered().get(name)


def unregister(name: str) -> None:
    """Remove a definition; a corpus that has been built stays."""
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
    """Update a registered corpus and open it; see `airw.build_corpus`.

    Raises:
        CorpusNotFound: If the name is neither registered nor in `PRESETS`.
    """
    options = {
        "store": None if store is None else store.build_target,
        "embedder": None if embedder is None else embedder_of(embedder),
        "edge_extractor": extractor_of(edge_extractor),
        "full": full,
        "batch_size": batch_size,
    }
    return to_ir(run(of_airw.build_corpus, name, **options), store)


def retriever_for(name: str, **search_defaults: Any) -> Callable[..., Any]:
    """Open a built corpus; return a function that searches it with these defaults.

    Raises:
        CorpusNotFound: If there is no corpus with that name.
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
    """Return a mapping of registered names to retrievers, which open their corpus on access."""
    return _Retrievers(search_defaults)


__getattr__: Final = explain_missing(
    __name__,
    {
        "source_from_entry": "call airw.corpora.list_corpora()[name].source()",
        "source_for": "call airw.corpora.list_corpora()[name].source()",
        "policy_for": "use airw.corpora.list_corpora()[name].schedule",
    },
)

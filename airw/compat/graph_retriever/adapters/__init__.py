"""Stores of nodes: in memory; a corpus of airw needs no adapter."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.compat.graph_retriever.adapters import in_memory as in_memory
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {"in_memory": []},
        instead={
            "Adapter": "pass a corpus of airw to traverse; for other data write a store, see airw.protocols.WalkStore"
        },
    )

__all__: list[str] = []

"""Where nodes are: in memory, or in a corpus of airw."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.compat.graph_retriever.adapters import in_memory as in_memory
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {"in_memory": []},
        instead={
            "Adapter": "traverse takes a corpus of airw; for what is elsewhere write a Store, airw.protocols.WalkStore"
        },
    )

__all__: list[str] = []

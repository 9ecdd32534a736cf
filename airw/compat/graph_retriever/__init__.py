"""The names of graph-retriever: `from airw.compat.graph_retriever import traverse`."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.compat.graph_retriever import adapters as adapters
    from airw.compat.graph_retriever import edges as edges
    from airw.compat.graph_retriever import strategies as strategies
    from airw.compat.graph_retriever.content import Content
    from airw.compat.graph_retriever.traversal import atraverse, traverse
    from airw.compat.graph_retriever.types import Node
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "adapters": [],
            "content": ["Content"],
            "edges": [],
            "strategies": [],
            "traversal": ["atraverse", "traverse"],
            "types": ["Node"],
        },
    )

__all__ = ["Content", "Node", "atraverse", "traverse"]

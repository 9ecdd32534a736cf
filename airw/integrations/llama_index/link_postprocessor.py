"""LlamaIndex's postprocessor that adds linked documents."""

import warnings
from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle

from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw.integrations._finder import FACTS, Finder, FoundDocument, check_single, check_timeout, read_walk
from airw.integrations.llama_index.node_retriever import to_nodes
from airw.policies import Eager, LinkWalk
from airw.protocols import RecordsOf, ask
from airw.traversal import traverse
from airw.values import Limits


class LinkPostprocessor(BaseNodePostprocessor):  # type: ignore[misc]
    """A postprocessor of LlamaIndex that adds the documents linked with those found.

    The nodes of any retriever keep their order. After them come up to `k` new ones: artifacts of a corpus that are
    linked with them in either direction, those with fewer links between first, then those nearer to the query. Their
    metadata are those of `walk_retriever`.

    A node from a corpus knows its artifact. For another node it is the id of its source document, or else its own id.
    A node without an artifact in this corpus leads nowhere. If that is true of all nodes, a warning names the first.

    Args:
        corpus: A corpus, opened and kept as in `search_retriever`.
        k: The largest number of nodes to add.
        max_depth: The largest number of links between a node and a new one.
        node_budget: The number of artifacts that a walk commits at most, those of the nodes included.
        timeout: Seconds for one walk; the new nodes are those found so far. `None` for any time.

    Raises:
        ArgumentError: If a value cannot be used.
    """

    _finder: Finder = PrivateAttr()

    def __init__(
        self, corpus: Any, *, k: int = 5, max_depth: int = 1, node_budget: int = 64, timeout: float | None = None
    ) -> None:
        super().__init__()
        check_single(corpus)
        check_count("k", k)
        check_count("max_depth", max_depth)
        check_count("node_budget", node_budget, least=1)
        seconds = check_timeout(timeout)

        async def find(opened: Any, question: tuple[str, list[tuple[str, str | None]]]) -> list[FoundDocument]:
            query, named = question
            ids = list(dict.fromkeys(id for id, source in named if source in (None, opened.name)))
            found = await ask(opened.store, RecordsOf(ids, limit=1))
            roots = [id for id, records in zip(ids, found, strict=True) if records]
            if not roots:
                if named:
                    warnings.warn(
                        f"LinkPostprocessor: corpus {short_repr(opened.name)} contains no artifact of the "
                        f"{len(named)} nodes, such as {short_repr(named[0][0])}; set the id of their source document",
                        stacklevel=2,
                    )
                return []
            walk = traverse(
                query,
                opened,
                # Without a query nothing can be compared with it, and the order of the links decides.
                policy=Eager(start_k=0, roots=roots, select_k=None) if query.strip() else LinkWalk(roots=roots),
                max_depth=max_depth,
                node_budget=node_budget,
                timeout=seconds,
                limits=Limits(max_hits=len(roots) + k),
            )
            return await read_walk(walk, k, without=roots)

        self._finder = Finder(corpus, find, f"LinkPostprocessor({short_repr(getattr(corpus, 'name', corpus))})")

    @classmethod
    @override
    def class_name(cls) -> str:
        """Return the name of the class, as LlamaIndex writes it into files."""
        return "LinkPostprocessor"

    @override
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes + to_nodes(self._finder.find(_make_question(nodes, query_bundle)))

    @override
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes + to_nodes(await self._finder.find_async(_make_question(nodes, query_bundle)))


def _make_question(
    nodes: Sequence[NodeWithScore], query_bundle: QueryBundle | None
) -> tuple[str, list[tuple[str, str | None]]]:
    """Return the query, and the artifact and the corpus of each node."""
    query = "" if query_bundle is None else query_bundle.query_str
    return query, [_find_artifact(scored.node) for scored in nodes]


def _find_artifact(node: BaseNode) -> tuple[str, str | None]:
    facts = node.metadata.get(FACTS)
    if isinstance(facts, dict) and isinstance(facts.get("id"), str):
        return facts["id"], facts.get("source")
    return node.ref_doc_id or node.node_id, None

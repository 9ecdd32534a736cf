"""The links of a corpus, read for one artifact at a time."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from airw import links
from airw._base.requirements import bare_name, requirement_name
from airw.compat._sync import run
from airw.compat.ir.base import Record
from airw.compat.ir.index import store_of
from airw.compat.ir.retrieve import records_for_artifact
from airw.compat.ir.store import CorpusStore
from airw.links import CHILD as CHILD
from airw.links import NEXT as NEXT
from airw.links import PARENT as PARENT
from airw.links import PREV as PREV
from airw.links import REF as REF
from airw.links import default_edge_extractor as default_edge_extractor
from airw.values import NodeId as NodeId

EdgeExtractor = Callable[[str, Mapping[str, Any]], Mapping[str, list[Any]]]


@runtime_checkable
class GraphStore(Protocol):
    """A graph that can be walked: the content and the neighbours of nodes."""

    def __getitem__(self, node_id: Any) -> Any:
        """Return the content of a node."""
        ...

    def neighbors(self, node_id: Any, *, edge_type: str | None = None) -> Iterable[Any]:
        """Return the neighbours of a node."""
        ...


class CorpusGraph:
    """The artifacts of a corpus and the links between them.

    Example:
        >>> from airw.compat import ir
        >>> needs = lambda id, _: {"deps": ["Lib>=1", "numpy"]}
        >>> texts = {"app": "an app", "lib": "a library"}
        >>> source = ir.CorpusSource.from_mapping(texts, name="apps", metadata_of=needs)
        >>> store = ir.CorpusStore.memory()
        >>> corpus = ir.build(source, store=store, embedder="light", edge_extractor=ir.default_edge_extractor)
        >>> graph = CorpusGraph(corpus)
        >>> graph.neighbors("app"), graph.reverse_neighbors("NumPy")
        (['lib', 'numpy'], ['app', 'lib'])
    """

    def __init__(self, store_or_corpus: Any) -> None:
        self.store: CorpusStore
        self.store, self._source = store_of(store_or_corpus)

    @property
    def source(self) -> str | None:
        """The name of the corpus; `None` if only a store was given."""
        return self._source

    def __getitem__(self, node_id: str) -> list[Record]:
        """Return the records of an artifact.

        Raises:
            NoLedgerEntry: If the corpus does not contain it.
        """
        return records_for_artifact(self.store, node_id)

    def neighbors(self, node_id: str, *, edge_type: str | None = None) -> list[Any]:
        """Return the link targets of an artifact without duplicates.

        They are ids, pairs for other corpora, and references that are not resolved.
        """
        by_type = self.store.get_links(node_id)
        targets = [target for type_, group in by_type.items() if edge_type in (None, type_) for target in group]
        unique = {tuple(target) if isinstance(target, list) else target: target for target in targets}
        return list(unique.values())

    def edge_types(self, node_id: str) -> list[str]:
        """Return the types of the links of an artifact."""
        return list(self.store.get_links(node_id))

    def reverse_neighbors(self, node_id: Any, *, edge_type: str = REF) -> list[str]:
        """Return the sorted ids of the artifacts that link to a node.

        References to a library count in any spelling of its name.
        """
        resolved = self.resolve(node_id, edge_type=edge_type)
        names = _spellings(node_id) if edge_type == REF and isinstance(node_id, str) else []
        nodes = list(dict.fromkeys([resolved, *names]))
        id_lists = run(self._graph.reverse_neighbors, nodes, types=[edge_type])
        return sorted({str(id) for ids in id_lists for id in ids})

    def fan_in(self, node_id: Any, *, edge_type: str = REF) -> int:
        """Return the number of artifacts that link to a node."""
        return len(self.reverse_neighbors(node_id, edge_type=edge_type))

    def max_fan_in(self, *, edge_type: str = REF) -> int:
        """Return the largest number of artifacts that link to the same node."""
        counts = Counter(
            key for _, by_type in self.store.link_items() for key in {*map(_library, by_type.get(edge_type, ()))}
        )
        return max(counts.values(), default=0)

    def resolve(self, node_id: Any, *, edge_type: str = REF) -> Any:
        """Return the artifact that a reference means, or the reference itself if there is none.

        Such a reference is returned in the form that links have.
        """
        node = tuple(node_id) if isinstance(node_id, list) else node_id
        if isinstance(node, tuple) and node[0] == self.source:
            node = node[1]
        if isinstance(node, tuple) or edge_type != REF:
            return run(self._graph.resolve, [node])[0]
        resolved_ids = run(self._graph.resolve, _spellings(node))
        artifact_ids = {entry["artifact_id"] for _, entry in self.store.ledger_items()}
        return next((id for id in resolved_ids if id in artifact_ids), requirement_name(node))

    @property
    def _graph(self) -> links.CorpusGraph:
        return links.CorpusGraph(self.store.opened)


def _library(target: Any) -> Any:
    return requirement_name(target) if isinstance(target, str) else tuple(target)


def _spellings(name: str) -> list[str]:
    """Return the spellings of a package name; the one passed in comes first."""
    bare = requirement_name(name)
    return list(dict.fromkeys([name, bare_name(name), *(bare.replace("-", mark) for mark in "-_.")]))


def canonical_node_id(target: Any, *, source: str | None) -> tuple[str | None, str]:
    """Return a node as a pair of source and id.

    Example:
        >>> canonical_node_id("dol", source="packages"), canonical_node_id(["skills", "deploy"], source="packages")
        (('packages', 'dol'), ('skills', 'deploy'))
    """
    if isinstance(target, list | tuple) and len(target) == 2:
        return target[0], target[1]
    return source, target


def normalize_dist_name(name: str) -> str:
    """Return the name of a package in its normal spelling.

    Example:
        >>> normalize_dist_name("Scikit_Learn[extra]>=1.2")
        'scikit-learn'
    """
    return requirement_name(str(name))

"""The links of a corpus, asked for one artifact at a time."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from airw import links
from airw._base.requirements import bare_name, requirement_name
from airw.compat._sync import run
from airw.compat.ir.base import Record
from airw.compat.ir.index import store_of
from airw.compat.ir.retrieve import records_for_artifact
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
    """What can be walked: what a node holds, and where it leads."""

    def __getitem__(self, node_id: Any) -> Any:
        """Return what a node holds."""
        ...

    def neighbors(self, node_id: Any, *, edge_type: str | None = None) -> Iterable[Any]:
        """Return where a node leads."""
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
        self.store, self._source = store_of(store_or_corpus)

    @property
    def source(self) -> str | None:
        """The name of the corpus; `None` for a bare store."""
        return self._source

    def __getitem__(self, node_id: str) -> list[Record]:
        """Return the records of an artifact.

        Raises:
            NoLedgerEntry: The corpus does not hold it.
        """
        return records_for_artifact(self.store, node_id)

    def neighbors(self, node_id: str, *, edge_type: str | None = None) -> list[Any]:
        """Return what an artifact links to, each once: ids, pairs of other corpora, and what is not there."""
        by_type = self.store.get_links(node_id)
        targets = [target for type_, found in by_type.items() if edge_type in (None, type_) for target in found]
        return list({tuple(each) if isinstance(each, list) else each: each for each in targets}.values())

    def edge_types(self, node_id: str) -> list[str]:
        """Return the types of the links of an artifact."""
        return list(self.store.get_links(node_id))

    def reverse_neighbors(self, node_id: Any, *, edge_type: str = REF) -> list[str]:
        """Return the ids, sorted, of the artifacts that link to a node; of a library in any spelling."""
        meant = self.resolve(node_id, edge_type=edge_type)
        names = _spellings(node_id) if edge_type == REF and isinstance(node_id, str) else []
        nodes = list(dict.fromkeys([meant, *names]))
        found = run(self._graph.reverse_neighbors, nodes, types=[edge_type])
        return sorted({str(id) for ids in found for id in ids})

    def fan_in(self, node_id: Any, *, edge_type: str = REF) -> int:
        """Count the artifacts that link to a node."""
        return len(self.reverse_neighbors(node_id, edge_type=edge_type))

    def max_fan_in(self, *, edge_type: str = REF) -> int:
        """Count the artifacts that link to the node to which most do."""
        counts = Counter(
            key for _, by_type in self.store.link_items() for key in {*map(_library, by_type.get(edge_type, ()))}
        )
        return max(counts.values(), default=0)

    def resolve(self, node_id: Any, *, edge_type: str = REF) -> Any:
        """Return the artifact that a reference means, and where it means none here, the reference as links have it."""
        node = tuple(node_id) if isinstance(node_id, list) else node_id
        if isinstance(node, tuple) and node[0] == self.source:
            node = node[1]
        if isinstance(node, tuple) or edge_type != REF:
            return run(self._graph.resolve, [node])[0]
        found = zip(names := _spellings(node), run(self._graph.resolve, names), strict=True)
        held = {entry["artifact_id"] for _, entry in self.store.ledger_items()}
        return next((id for _, id in found if id in held), requirement_name(node))

    @property
    def _graph(self) -> links.CorpusGraph:
        return links.CorpusGraph(self.store.opened)


def _library(target: Any) -> Any:
    return requirement_name(target) if isinstance(target, str) else tuple(target)


def _spellings(name: str) -> list[str]:
    """Return the ways to write the name of a package, the given one first."""
    bare = requirement_name(name)
    return list(dict.fromkeys([name, bare_name(name), *(bare.replace("-", mark) for mark in "-_.")]))


def canonical_node_id(target: Any, *, source: str | None) -> tuple[str | None, str]:
    """Return a node as a pair of its source and its id.

    Example:
        >>> canonical_node_id("dol", source="packages"), canonical_node_id(["skills", "deploy"], source="packages")
        (('packages', 'dol'), ('skills', 'deploy'))
    """
    if isinstance(target, list | tuple) and len(target) == 2:
        return target[0], target[1]
    return source, target


def normalize_dist_name(name: str) -> str:
    """Return the name of a package in the one spelling that stands for all.

    Example:
        >>> normalize_dist_name("Scikit_Learn[extra]>=1.2")
        'scikit-learn'
    """
    return requirement_name(str(name))

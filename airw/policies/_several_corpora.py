"""What differs where several corpora are walked as one; all other code of policies takes ids as they come."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, NoLedgerEntry
from airw.protocols import OpenCorpus
from airw.retrieval import check_corpus
from airw.values import ArtifactRef, Edge, NodeId, NodeIdLike, canonical_node_id

Id: TypeAlias = Any
"""An artifact as the store of the walked corpus knows it: its id or, of several corpora, an `ArtifactRef`."""


def check_nodes(name: str, given: object) -> tuple[NodeId, ...]:
    """Return the items of a list when each is an id or a pair of a corpus and an id there, which becomes a reference.

    Raises:
        ArgumentKindError: It is no list.
        ArgumentError: An item is neither.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentKindError(f"{name} must be a list of ids, not {short_repr(given)}; one is [{short_repr(given)}]")
    return tuple(_checked_node(name, each) for each in given)


def _checked_node(name: str, given: object) -> NodeId:
    match given:
        case str():
            return given
        case [str() as source, str() as id]:
            return ArtifactRef(source, id)
    raise ArgumentError(f"{name} must be ids or (source, id) pairs, not {short_repr(given)}")


def member_names(corpus: OpenCorpus[object]) -> Collection[str]:
    """Return the names of the corpora that an open corpus is made of, in order; none where it is a single one."""
    names: Collection[str] = getattr(corpus, "members", ())
    return names


def root_ids(roots: Sequence[NodeIdLike], corpus: OpenCorpus[object]) -> list[Id]:
    """Return roots as the store knows them: ids, where a pair may name the corpus itself; of several, references.

    Raises:
        NoLedgerEntry: One is of another corpus; or of several, and it does not say of which.
    """
    members = member_names(corpus)
    return [_root_id(root, check_corpus(corpus).name, members) for root in dict.fromkeys(roots)]


def _root_id(root: NodeIdLike, name: str, members: Collection[str]) -> NodeId:
    source, id = canonical_node_id(root, source=None)
    if source is not None and source in members:
        return ArtifactRef(source, id)
    if not members and source in (None, name):
        return id
    wanted = f"a (source, id) pair, the source one of {', '.join(map(repr, members))}" if members else "an id in it"
    raise NoLedgerEntry(f"corpus {name!r} holds no artifact {short_repr(root)}; a root is {wanted}")


def other_ends(id: Id, edges: Sequence[Edge]) -> tuple[Sequence[Id], Sequence[Edge]]:
    """Return the artifacts at the other ends of the edges of one, and these edges, aligned.

    Edges that lead out of what is walked are left out; of several corpora the store gives none.
    """
    if any(edge.leads_out for edge in edges):
        edges = [edge for edge in edges if not edge.leads_out]
    return [edge.target if edge.source == id else edge.source for edge in edges], edges


def places_of(corpus: OpenCorpus[object]) -> Mapping[str, int]:
    """Return the place of each corpus among several, by which their artifacts are ordered."""
    return {name: place for place, name in enumerate(member_names(corpus))}


def order_key(places: Mapping[str, int]) -> Callable[[Id], Any]:
    """Return the key that orders artifacts: ids before references, and these by the place of their corpus first."""

    def key(id: Id) -> Any:
        return (True, places.get(id.source, len(places)), id) if isinstance(id, ArtifactRef) else (False, 0, id)

    return key


def named_in_field(value: Any, home: Id, corpus: OpenCorpus[object]) -> Id:
    """Return the artifact that a field's value names; of several corpora, in that of `home` unless it names its own."""
    if not member_names(corpus):
        return str(value)
    match value:
        case [str() as source, str() as id]:
            return ArtifactRef(source, id)
    return ArtifactRef(home.source, str(value))

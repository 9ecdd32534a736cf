"""What policies ask of a corpus: what its store can do, and ids in one or several corpora.

Other policy code treats ids as opaque.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from airw._base.arrays import Floats
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, NoLedgerEntry
from airw.protocols import Capability, OpenCorpus
from airw.retrieval import check_corpus, embed_text
from airw.values import ArtifactRef, NodeId, NodeIdLike, canonical_node_id

Walkable: TypeAlias = OpenCorpus
"""A corpus whose store can answer what every walk over artifacts asks."""


async def embed(corpus: OpenCorpus, query: str) -> Floats:
    """Return the vector of a query, `(dim,) float32`."""
    vector: Floats = (await embed_text(check_corpus(corpus), query))[0]
    return vector


def require(corpus: OpenCorpus, capability: Capability, policy: str, setting: str) -> None:
    """Check that the store of a corpus can do what a policy, or a setting of it, needs.

    Raises:
        ArgumentError: If it cannot; the message names the policy, the setting and the capability.
    """
    store = check_corpus(corpus).store
    if capability not in store.capabilities:
        lack = f"which {type(store).__name__} does not offer"
        needs = f"{policy}({setting})" if setting else policy
        raise ArgumentError(f"{needs} needs a store with the capability {capability!r}, {lack}")


Id: TypeAlias = Any
"""The id of an artifact in the store of the walked corpus: a string or, in several corpora, an `ArtifactRef`."""


def check_nodes(name: str, nodes: object) -> tuple[NodeId, ...]:
    """Return a list of ids or `(source, id)` pairs, with pairs as references.

    Args:
        name: The name of the argument, for errors.
        nodes: The value of the argument.

    Raises:
        ArgumentKindError: If it is no list.
        ArgumentError: If an item is neither an id nor a pair.
    """
    if isinstance(nodes, str) or not isinstance(nodes, Iterable):
        raise ArgumentKindError(f"{name} must be a list of ids, not {short_repr(nodes)}; one is [{short_repr(nodes)}]")
    checked: list[NodeId] = []
    for node in nodes:
        match node:
            case str():
                checked.append(node)
            case [str() as source, str() as id]:
                checked.append(ArtifactRef(source, id))
            case _:
                raise ArgumentError(f"{name} must be ids or (source, id) pairs, not {short_repr(node)}")
    return tuple(checked)


def member_names(corpus: OpenCorpus) -> Collection[str]:
    """Return the names of the corpora in an open corpus; empty for a single corpus."""
    names: Collection[str] = getattr(corpus, "members", ())
    return names


def is_lost(id: Id, corpus: OpenCorpus) -> bool:
    """Return whether an artifact is in one of several corpora that failed in this walk."""
    return isinstance(id, ArtifactRef) and any(lost.name == id.source for lost in getattr(corpus, "lost", ()))


def root_ids(roots: Sequence[NodeIdLike], corpus: OpenCorpus) -> list[Id]:
    """Return roots as ids of the store, without duplicates.

    In a single corpus they are strings, and a pair may name the corpus itself. In several corpora they are references.

    Raises:
        NoLedgerEntry: If a root is in another corpus or, in several corpora, does not name its corpus.
    """
    name, members, ids = check_corpus(corpus).name, member_names(corpus), list[Id]()
    for root in dict.fromkeys(roots):
        node = canonical_node_id(root, source=None)
        if node[0] in (members or (None, name)):
            ids.append(node if members else node[1])
        else:
            usable = (
                f"(source, id) pairs, the source one of {', '.join(map(repr, members))}" if members else "ids in it"
            )
            raise NoLedgerEntry(f"corpus {name!r} contains no artifact {short_repr(root)}; pass roots as {usable}")
    return ids


def member_ranks(corpus: OpenCorpus) -> Mapping[str, int]:
    """Return the rank of each corpus among several; their artifacts are ordered by it."""
    return {name: rank for rank, name in enumerate(member_names(corpus))}


def order_key(ranks: Mapping[str, int]) -> Callable[[Id], Any]:
    """Return a sort key for artifacts: strings before references, then by corpus, then by id."""

    def key(id: Id) -> Any:
        return (True, ranks.get(id.source, len(ranks)), id) if isinstance(id, ArtifactRef) else (False, 0, id)

    return key


def id_from_field(value: Any, home: Id, corpus: OpenCorpus) -> Id:
    """Return the id of the artifact that the value of a field names.

    In several corpora a value may be a pair. Otherwise it names an artifact in the corpus of `home`.
    """
    if not member_names(corpus):
        return str(value)
    match value:
        case [str() as source, str() as id]:
            return ArtifactRef(source, id)
    return ArtifactRef(home.source, str(value))

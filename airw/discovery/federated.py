"""Several open corpora as one that policies walk: links from one to another lead on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from airw._base.arrays import Floats
from airw._base.messages import short_repr
from airw.discovery._member_store import MemberStore
from airw.errors import ArgumentError, EmbedderMismatch
from airw.protocols import Embedder, OpenCorpus
from airw.retrieval import check_corpus

OpenCorpora: TypeAlias = Sequence[OpenCorpus] | Mapping[str, OpenCorpus]


class FederatedCorpus:
    """Several open corpora as one graph: a walk from one crosses into another where a link names it.

    An artifact is `(source, artifact_id)`, also where a policy is given `roots` or `seeds`, and in `walk_path` and
    `walk_parent`; artifacts of one id in two corpora are two. A hit has the plain id, and its corpus as `source`.

    A link to `(source, id)` leads to that artifact where `source` is the name of one of these corpora and it holds the
    id; else it is no edge. One that names its own corpus is a link within. Shared fields lead from corpus to corpus
    too: `"$id"` stands for an artifact's id within its corpus and for `[source, id]` in the fields of others.

    The corpora need one embedder wherever a query is embedded. Where words are searched for, their rankings are fused
    by rank, as BM25 scores of several corpora are not on one scale. Each step asks the corpora at once, and an error of
    one ends the walk with that error and a note that names it. Ties are in the order in which the corpora are given.
    They are borrowed: whoever opened them closes them.

    Args:
        corpora: Open corpora of different names; or by name, where links and hits are to call them by other names than
            their own. No name holds a `/`.

    Raises:
        ArgumentError: There is none, or one is not open, or the names cannot be used.

    Example:
        >>> import airw, anyio
        >>> from airw.links import extractor_from
        >>> from airw.policies import LinkWalk
        >>> links = extractor_from(lambda _, fields: {"about": fields["about"]}, id="about")
        >>> def source(name, about):
        ...     return airw.from_mapping(
        ...         dict.fromkeys(about, "text"), name=name, embedder="light", edge_extractor=links,
        ...         metadata_of=lambda id, _: {"about": about[id]},
        ...     )
        >>> async def main():
        ...     notes = await airw.build(source("notes", {"n1": [["books", "b1"]]}), store=airw.stores.MemoryStore())
        ...     books = await airw.build(source("books", {"b1": ["b2"], "b2": []}), store=airw.stores.MemoryStore())
        ...     async with notes, books:
        ...         policy = LinkWalk(roots=[("notes", "n1")])
        ...         async for hit in airw.traverse("", FederatedCorpus([notes, books]), policy=policy):
        ...             print(hit.source, hit.artifact_id, hit.metadata["walk_parent"])
        >>> anyio.run(main)
        notes n1 None
        books b1 ('notes', 'n1')
        books b2 ('books', 'b1')
    """

    def __init__(self, corpora: OpenCorpora) -> None:
        self.members: Mapping[str, OpenCorpus] = _members(corpora)
        self.name = " + ".join(self.members)
        self.store = MemberStore({name: corpus.store for name, corpus in self.members.items()})
        embedders = [corpus.embedder for corpus in self.members.values()]
        ids = dict.fromkeys(embedder.id for embedder in embedders)
        self.embedder: Embedder = embedders[0] if len(ids) == 1 else _NoCommonEmbedder(tuple(ids))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.members)})"


@dataclass(frozen=True, slots=True)
class _NoCommonEmbedder:
    """Stands where corpora have different embedders: what needs no vector works, the rest is told why it cannot."""

    ids: tuple[str, ...]
    dim: int = 0

    @property
    def id(self) -> str:
        return " + ".join(self.ids)

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        raise self._mismatch()

    async def embed_query(self, text: str) -> Floats:
        raise self._mismatch()

    def _mismatch(self) -> EmbedderMismatch:
        ids = ", ".join(map(repr, self.ids))
        return EmbedderMismatch(
            f"these corpora have different embedders, {ids}: build them with one, or walk from given roots by LinkWalk"
        )


def _members(corpora: object) -> dict[str, OpenCorpus]:
    if isinstance(corpora, Mapping):
        named = [(name, check_corpus(corpus)) for name, corpus in corpora.items()]
    elif isinstance(corpora, list | tuple):
        named = [(check_corpus(corpus).name, corpus) for corpus in corpora]
    else:
        raise ArgumentError(
            f"corpora must be a list of open corpora, or open corpora by name, not {short_repr(corpora)}"
        )
    if not named:
        raise ArgumentError("corpora must hold at least one open corpus, not none")
    for name, corpus in named:
        if not isinstance(name, str) or not name or "/" in name:
            raise ArgumentError(f"a corpus among several needs a name without '/', not {short_repr(name)}")
        if isinstance(corpus, FederatedCorpus):
            raise ArgumentError(f"{name!r} is several corpora itself: give those it is made of")
    members = dict(named)
    if len(members) < len(named):
        names = [name for name, _ in named]
        twice = next(name for name in names if names.count(name) > 1)
        raise ArgumentError(f"two corpora are named {twice!r}; give them by name: {{'one': ..., 'other': ...}}")
    return members

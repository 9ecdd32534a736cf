"""Several open corpora that policies walk as one graph."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TypeAlias

from airw._base.checks import check_choice, check_number
from airw._base.messages import short_repr
from airw.discovery._federated_calls import FederatedStore, OnMemberError
from airw.embedders import MissingEmbedder, first_usable
from airw.errors import ArgumentError, EmbedderMismatch
from airw.protocols import Embedder, OpenCorpus
from airw.retrieval import check_corpus
from airw.walking import LostCorpus

OpenCorpora: TypeAlias = Sequence[OpenCorpus] | Mapping[str, OpenCorpus]


class FederatedCorpus:
    """Several open corpora as one graph.

    A walk crosses into another corpus if a link names it. An artifact is `(source, artifact_id)`: in the `roots` and
    `seeds` of a policy, in `walk_path` and in `walk_parent`. Artifacts with the same id in two corpora are different. A
    hit has the plain id, and its corpus as `source`.

    A link to `(source, id)` is an edge if `source` is the name of one of these corpora and this corpus contains the
    artifact. A link that names its own corpus is an internal link. Shared fields lead from corpus to corpus too:
    `"$id"` is the plain id of an artifact within its own corpus, and `[source, id]` in the fields of other corpora.

    If a query is embedded, all corpora must have the same embedder. Texts are ranked with the word counts of all
    corpora. Each step calls all corpora at once. Ties of a ranking are in the order of the artifact ids. The corpora
    stay open: their opener closes them.

    A corpus that fails, or takes too long, does not end a walk. From the next stage on, the walk goes on as if that
    corpus were empty: its artifacts that wait become routers, and links to it lead nowhere. `walk.summary.lost` names
    it and its error. If all corpora fail, the walk ends with a `DiscoveryError`. Outside of walks, an error of one
    corpus is raised, and a note names the corpus.

    Args:
        corpora: Open corpora with different names; or a mapping, if links and hits use other names than their own. A
            name must not contain `/`.
        on_error: `"skip"`: a walk goes on without a corpus that fails. `"raise"`: it ends with the error.
        member_timeout: How many seconds a corpus may take for one call of a walk; `None` for any time. In a walk with
            a `timeout`, it is at most half of that as soon as one corpus has answered, or twice the time of the first
            answer. A call that cannot be cancelled, such as one in a worker thread, is waited for.

    Raises:
        ArgumentError: If there is no corpus, one is not open, or an argument cannot be used.

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

    def __init__(
        self, corpora: OpenCorpora, *, on_error: OnMemberError = "skip", member_timeout: float | None = 30.0
    ) -> None:
        self.members: Mapping[str, OpenCorpus] = _check_corpora(corpora)
        self.name: str = " + ".join(self.members)
        self.on_error: OnMemberError = check_choice("on_error", on_error, ("skip", "raise"))
        if member_timeout is not None:
            member_timeout = check_number("member_timeout", member_timeout, least=0)
        self.member_timeout = member_timeout
        stores = {name: corpus.store for name, corpus in self.members.items()}
        self.store: FederatedStore = FederatedStore(stores)
        embedders = [corpus.embedder for corpus in self.members.values()]
        ids = dict.fromkeys(embedder.id for embedder in embedders)
        self.embedder: Embedder = first_usable(embedders)
        if len(ids) > 1:
            # Walks that need no vector work all the same.
            told = f"these corpora have different embedders, {', '.join(map(repr, ids))}"
            reason = EmbedderMismatch(f"{told}: build them with one, or use LinkWalk(roots=...)")
            self.embedder = MissingEmbedder(" + ".join(ids), 0, reason)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.members)})"

    def begin_walk(self, timeout: float = math.inf) -> "FederatedCorpus":
        """Return the same corpora for a walk of `timeout` seconds, with a record of failures."""
        walked = copy(self)
        walked.store = FederatedStore(
            self.store.stores,
            on_error=self.on_error,
            timeout=self.member_timeout,
            walk_timeout=timeout,
            stack=self.store.stack,
        )
        return walked

    @property
    def lost(self) -> tuple[LostCorpus, ...]:
        """The corpora that failed in this walk so far; empty outside of walks."""
        return self.store.lost

    def leave_out_lost(self) -> None:
        """Call the corpora that failed so far no more; a walk calls it between its stages."""
        self.store.leave_out_lost()


def _check_corpora(corpora: object) -> dict[str, OpenCorpus]:
    if isinstance(corpora, Mapping):
        named = [(name, check_corpus(corpus)) for name, corpus in corpora.items()]
    elif isinstance(corpora, list | tuple):
        named = [(check_corpus(corpus).name, corpus) for corpus in corpora]
    else:
        raise ArgumentError(
            f"corpora must be a list of open corpora, or a mapping of them by name, not {short_repr(corpora)}"
        )
    if not named:
        raise ArgumentError("corpora must contain at least one open corpus")
    members: dict[str, OpenCorpus] = {}
    for name, corpus in named:
        if not isinstance(name, str) or not name or "/" in name:
            raise ArgumentError(f"corpora must have names without '/', not {short_repr(name)}")
        if isinstance(corpus, FederatedCorpus):
            raise ArgumentError(f"corpora contains the FederatedCorpus {name!r}: pass its corpora instead")
        if name in members:
            advice = "pass them by name, {'one': ..., 'other': ...}"
            raise ArgumentError(f"corpora must have different names, but two are {name!r}: {advice}")
        members[name] = corpus
    return members

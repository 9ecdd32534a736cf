"""Several open corpora that policies walk as one graph."""

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from copy import copy
from typing import Any, Final, Literal, NoReturn, TypeAlias

import anyio
import numpy as np

from airw._base.checks import check_choice, check_number
from airw._base.concurrency import map_bounded, offload_if
from airw._base.messages import error_text, one_line, short_repr
from airw._base.notes import add_note
from airw.discovery._federated_reading import STACK, Answers, Reading, field_of, items_of
from airw.embedders import MissingEmbedder, first_usable
from airw.errors import (
    AirwError,
    ArgumentError,
    DiscoveryError,
    EmbedderMismatch,
    FilterError,
    RemoteError,
    StoreError,
)
from airw.protocols import (
    CAPABILITIES,
    Capability,
    Change,
    Embedder,
    OpenCorpus,
    Rank,
    Request,
    Store,
    Words,
    check_able,
)
from airw.retrieval import check_corpus
from airw.stores.memory.stack import Stack
from airw.values import Ranking
from airw.walking import LostCorpus

OpenCorpora: TypeAlias = Sequence[OpenCorpus] | Mapping[str, OpenCorpus]
OnMemberError: TypeAlias = Literal["skip", "raise"]

# A search needs one corpus that can, as do links. Whoever asks about given artifacts needs an answer for each.
_BY_ONE: Final[frozenset[Capability]] = frozenset({"dense", "edges", "lexical", "links"})
_BY_ALL: Final[frozenset[Capability]] = frozenset(
    {"ledger", "matching", "names", "phrases", "records", "scores", "vectors", "words"}
)
_READ_ONLY = "several corpora are read together: write to one of them"
_AT_ONCE = 16  # stores that are called at the same time
_OFFLOAD_ABOVE = 1_000  # ids or rows: splitting and joining more of them takes longer than about a millisecond


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
        self.stack: Stack = Stack()
        self.store: FederatedStore = FederatedStore(self)
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
        walked.store = FederatedStore(self, timeout)
        return walked

    @property
    def lost(self) -> tuple[LostCorpus, ...]:
        """The corpora that failed in this walk so far, in their order; empty outside of walks."""
        errors, late = self.store.errors, self.store.late
        return tuple(
            LostCorpus(name, "timeout" if name in late else "failed", error_text(errors[name]))
            for name in self.members
            if name in errors
        )

    def leave_out_lost(self) -> None:
        """Call the corpora that failed so far no more; a walk calls it between its stages."""
        self.store.left_out.update(self.store.errors)


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


class FederatedStore:
    """A read-only store that is answered by the stores of several corpora.

    Artifacts are `ArtifactRef(source, id)`, records are `source/id`. An artifact of a corpus that is not a member is
    unknown. So is a plain text, except in `Names` and `Referrers`. If answers are ranked together, ties are in the
    order of the artifact ids.

    All requests of one call advance together, in rounds: a round is at most one call of each store. A store is asked
    only about its own artifacts. Most requests take one round. Texts are ranked in two, as the stores count words
    first. Edges take a second one if links lead from corpus to corpus. A chain takes no more rounds than its first
    request, as far as its parts lie in one corpus.

    In a walk with `on_error="skip"`, a corpus that fails is left out: it answers nothing from then on, as if it were
    empty. A corpus that is too slow is left out at once, another one that fails from `leave_out_lost` on. The walk
    calls that between its stages. So the calls that a policy makes at the same time are the same, whichever of them
    fails first.

    Args:
        corpus: The corpora, whose names must not contain `/`.
        walk_timeout: The seconds of the walk; `None` outside of walks, where errors are raised. As soon as one corpus
            has answered, the others may take half of it, or twice the time of that answer.

    Attributes:
        errors: The errors of the corpora that failed so far, by name.
        late: Those that were too slow.
        left_out: Those that are called no more.
    """

    def __init__(self, corpus: FederatedCorpus, walk_timeout: float | None = None) -> None:
        self.stores: dict[str, Store] = {name: member.store for name, member in corpus.members.items()}
        self._stack = corpus.stack
        self._able: Mapping[Capability, Sequence[str]] = {
            need: [name for name, store in self.stores.items() if need in store.capabilities] for need in CAPABILITIES
        }
        self.capabilities: Collection[Capability] = {
            need
            for need, able in self._able.items()
            if (able if need in _BY_ONE else need in _BY_ALL and len(able) == len(self.stores))
        }
        self._skips_errors, self._timeout, self._half = False, math.inf, math.inf
        if walk_timeout is not None:
            # If there is one corpus only, nothing would be left.
            self._skips_errors = corpus.on_error == "skip" and len(self.stores) > 1
            if corpus.member_timeout is not None:
                self._timeout = corpus.member_timeout
                # Otherwise one corpus that hangs would take all the time of the walk, and the answers of the others.
                self._half = walk_timeout / 2 if self._skips_errors else math.inf
        self._longest = self._timeout  # that a call may take by now
        self._has_answer = False
        self._running: dict[anyio.CancelScope, float] = {}  # with the time at which each call began
        self.errors: dict[str, Exception] = {}
        self.late: set[str] = set()
        self.left_out: set[str] = set()

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request.

        Raises:
            ArgumentError: If the stores cannot answer one of them.
            DiscoveryError: If every corpus has failed.
        """
        check_able(self, *requests)
        stacked: frozenset[str] = frozenset()
        # Whoever counts words or ranks all that there is asks every store.
        if any(isinstance(request, Words | Rank) and field_of(request) is None for request in requests):
            # Part of the time of the walk must be left for the walk.
            with anyio.move_on_after(min(self._longest, self._half / 2)):
                stacked = await self._stack.update(self.stores)
        stacked = frozenset() if stacked & self.left_out else stacked
        reading = Reading([*self.stores], self._able, stacked, requests)
        answers, items = Answers(), [*map(items_of, requests)]
        while True:
            is_long = sum(map(_count_items, items)) > _OFFLOAD_ABOVE
            asked = await offload_if(is_long, reading.advance, answers)
            if not reading.plans:
                return [reading.answers[id(request)] for request in requests]
            answers = await self._call(reading, asked)
            items = [answer for own in answers.values() for answer in own.values()]

    async def apply(self, change: Change) -> None:
        """Refuse to write."""
        raise ArgumentError(_READ_ONLY)

    def writing(self, *, timeout: float = 30.0) -> AbstractAsyncContextManager[None]:
        """Refuse to write."""
        raise ArgumentError(_READ_ONLY)

    async def aclose(self) -> None:
        """Close nothing: whoever opened the corpora closes them."""

    async def _call(self, reading: Reading, asked: dict[str, list[Request[Any]]]) -> Answers:
        """Return the answers of one round.

        Args:
            reading: The requests of the caller.
            asked: What each store is asked. What `STACK` is asked is answered by small stores together.

        Raises:
            DiscoveryError: If every corpus has failed.
        """
        answers: Answers = {}
        if joint := asked.pop(STACK, ()):
            with anyio.move_on_after(self._longest), suppress(AirwError):  # such as of vectors of another width
                together = await self._stack.read(reading.stacked, joint) or ()
                for request, answer in zip(joint, together, strict=False):
                    answers[request] = answer if isinstance(request, Rank) else {STACK: answer}
            if not answers:
                # The small stores are asked one by one, so that a failure is that of its store.
                for name in reading.stacked:
                    asked.setdefault(name, []).extend(joint)
                reading.stacked = frozenset()
        names = [name for name in self.stores if name in asked and name not in self.left_out]
        pairs = await map_bounded(lambda name: self._call_store(name, asked[name]), names, limit=_AT_ONCE)
        for name, own in zip(names, pairs, strict=True):
            for request, answer in own:
                answers.setdefault(request, {})[name] = answer
        if len(self.errors) == len(self.stores):
            causes = {name: self.errors[name] for name in self.stores}
            raise no_answer("every corpus of the walk failed", causes)
        return answers

    async def _call_store(self, name: str, requests: Sequence[Request[Any]]) -> list[tuple[Request[Any], Any]]:
        """Return the requests with the answers of a store; none if it has failed and is skipped."""
        began = anyio.current_time()
        scope = anyio.CancelScope(deadline=began + self._longest)
        self._running[scope] = began
        try:
            with scope:
                answers = await self.stores[name].read(*requests)
                if not self._has_answer:
                    # One has answered: wait less for the others from now on.
                    self._has_answer, first = True, anyio.current_time() - began
                    self._longest = min(self._timeout, max(self._half, 2 * first))
                    for running, since in self._running.items():
                        running.deadline = since + self._longest
                return [*zip(requests, answers, strict=True)]
            self._give_up(name)
        except Exception as error:
            add_note(error, f"from corpus {name!r}")
            if not self._skips_errors or is_callers_fault(error):
                raise
            # Of several errors of one stage, timing decides which comes first; it must not decide which one counts.
            self.errors[name] = min(self.errors.get(name, error), error, key=error_text)
            return []
        finally:
            del self._running[scope]

    def _give_up(self, name: str) -> NoReturn:
        """Wait for a corpus no more, and never again."""
        self.late.add(name)
        self.left_out.add(name)
        is_own = self._longest == self._timeout
        limit = f"member_timeout={self._timeout:g} s" if is_own else f"{self._longest:.3g} s, and another one did"
        raise StoreError(f"corpus {name!r} did not answer within {limit}")


def _count_items(value: object) -> int:
    """Return the number of items in a list and in the lists within."""
    items = value if isinstance(value, list | tuple | np.ndarray) else ()
    return len(items) + sum(len(item) for item in items if isinstance(item, list | Ranking))


def is_callers_fault(error: Exception) -> bool:
    """Return whether an error is about an argument, and would come from each corpus.

    What a server refuses is not: it may have limits of its own, and must not end the work of others.
    """
    return isinstance(error, ArgumentError | FilterError) and not isinstance(error, RemoteError)


def no_answer(told: str, causes: Mapping[str, Exception]) -> DiscoveryError:
    """Return the error for a call that every corpus failed, with the error of each by name."""
    texts = one_line("; ".join(f"{name}: {error_text(error)}" for name, error in causes.items()), longest=600)
    failure = DiscoveryError(f"{told}: {texts}", causes)
    failure.__cause__ = ExceptionGroup(told, [*causes.values()])
    return failure

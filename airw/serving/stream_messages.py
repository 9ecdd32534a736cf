"""What a stream tells its client: the messages of a walk, and those of a discovery."""

from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from airw._base.concurrency import offload_if
from airw._base.json import json_clean
from airw.discovery import DiscoveryResult, SourceAnswered
from airw.discovery.discovery import DiscoveryStream
from airw.errors import StoreError
from airw.serving.best_hits import BestHits
from airw.serving.problems import WalkNotHeld
from airw.serving.stream_budgets import BudgetCount, StreamBudget
from airw.serving.walk_keeper import WalkKeeper
from airw.values import SearchHit
from airw.walking import Walk, WalkSummary
from airw.walking.events import EdgeFound, NodeCommitted, StepDone, WalkEnded, WalkEvent

_USUAL_TEXT = 4_000  # characters
_SENT_PER_HIT = 10  # of lists of the best, for each hit that was found
_LONG_RANKING = 20  # the weight of a summary of about a hundred hits, which are ranked in a millisecond


class Message(NamedTuple):
    """One message to a client.

    Args:
        kind: What it is, such as `"hit"`.
        make_data: Returns its JSON. It may take a while, so a worker thread may call it.
        is_last: Whether the stream ends with it.
        weight: How long its JSON takes to make, compared with that of a usual hit.
    """

    kind: str
    make_data: Callable[[], dict[str, Any]]
    is_last: bool = False
    weight: float = 1.0


class Messages(Protocol):
    """The messages of one stream; what they come from is closed with the block."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def read(self) -> list[Message]:
        """Return the messages that are ready, at least one."""
        ...

    @property
    def stop(self) -> str | None:
        """Why the walk ended; `None` if it goes on, or if there is none."""
        ...

    @property
    def earlier(self) -> int:
        """The number of messages that earlier streams of the same walk have sent."""
        ...


class WalkMessages:
    """The messages of a walk; nothing runs before the first request.

    Args:
        walk: A walk that was not read yet.
        edges: Send the edges, too.
        routers: Send the nodes without a hit, too.
        best: Send the best so many hits whenever they change, instead of each hit.
        budget: The budgets of the stream.
        keeper: Holds the walk when it has ended at a limit. The summary then has the token in `continue`.
    """

    def __init__(
        self,
        walk: Walk,
        *,
        edges: bool,
        routers: bool,
        best: int | None,
        budget: StreamBudget,
        keeper: WalkKeeper | None = None,
    ) -> None:
        self._walk, self._routers, self._keeper = walk, routers, keeper
        self._token: str | None = None
        self._stop: str | None = None
        self._is_further = False  # True until a walk that goes on has given its first message
        self._waiting = 0  # the nodes of the frontier when the last step ended
        self.earlier: int = 0
        self._read_count = 0  # without the summary, whose id is no number
        self._events = walk.events(edges=edges)
        self._best = None if best is None else BestHits(best)
        self._size = best or 0
        self._has_changed, self._allowed = False, 0  # `_allowed` hits may be sent in lists
        self._last_best: list[SearchHit] = []
        self._count = BudgetCount(budget)
        # The hits that were sent, by their identity as objects, each with its place and the id of its node.
        self._sent: dict[int, _SentHit] = {}
        self._by_surface: dict[Hashable, _SentHit] = {}
        self._indexed = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop is None:  # else it has ended, and may go on by now
            await self._walk.aclose()

    def go_on(self, **raised: Any) -> "WalkMessages":
        """Return the further messages of a walk that has ended, with larger limits.

        The limits are those of `Walk.extend`.

        Raises:
            ArgumentError: If a limit is lower than before.
            WalkNotExtendable: If the walk cannot go on.
        """
        self._walk.extend(**raised)
        if self._keeper is not None:
            self._keeper.note_raised(raised)
        further = copy(self)  # it goes on with the same records of what was sent
        further.begin_stream()
        return further

    def begin_stream(self) -> None:
        """Begin the next stream of the same walk."""
        self._token, self._stop, self._is_further, self.earlier = None, None, True, self._read_count

    async def read(self) -> list[Message]:
        """Return the messages that are ready, at least one; the summary is the last.

        Raises:
            WalkNotHeld: If the store of a walk that goes on fails at once: its corpus was closed or replaced.
        """
        try:
            messages = await self._read()
        except StoreError as error:
            if not self._is_further:
                raise
            raise WalkNotHeld(
                f"the walk cannot go on, as its corpus has failed ({error}); start another walk"
            ) from error
        self._is_further = False
        self._read_count += len(messages) - messages[-1].is_last
        return messages

    async def _read(self) -> list[Message]:
        while True:
            events = await self._events.read_batch()
            # Without an event, the walk was closed from outside.
            has_ended = not events or isinstance(events[-1], WalkEnded)
            messages = self._to_messages(events)
            if self._count.ended_by is not None:
                await self._walk.aclose()
                has_ended = True
            if has_ended:
                weight = 1 + 0.2 * len(self._sent)
                messages += await offload_if(weight > _LONG_RANKING, self._correct_best)
                self._note_end()
                messages.append(Message("summary", self._summarize, is_last=True, weight=weight))
            if messages:
                return messages

    @property
    def stop(self) -> str | None:
        """Why the walk ended."""
        summary = self._walk.summary
        return self._stop or (None if summary is None else summary.stop)

    def _note_end(self) -> None:
        summary = self._walk.summary
        assert summary is not None  # noqa: S101 - for the type checker
        self._stop = summary.stop
        if self._keeper is not None:
            self._token = self._keeper.keep(self, summary, waiting=self._waiting)

    def _to_messages(self, events: list[WalkEvent]) -> list[Message]:
        messages, hits = [], []
        for event in events:
            if isinstance(event, NodeCommitted) and event.hit is not None:
                fitting = self._count.fit(event.hit)
                if fitting is None:
                    break
                self._sent[id(event.hit)] = _SentHit(len(self._sent), event.id, event.hit)
                hits.append(event.hit)
                if self._best is None:
                    messages.append(_hit_message(event, fitting))
                if self._count.ended_by is not None:
                    break
            elif isinstance(event, StepDone):
                self._waiting = event.waiting
                messages.append(Message("progress", event.to_dict))
            elif isinstance(event, EdgeFound):
                messages.append(Message("edge", event.to_dict, weight=0.1))
            elif isinstance(event, NodeCommitted) and self._routers:
                messages.append(Message("router", event.to_dict))
        if self._best is not None:
            messages += self._send_best(self._best, hits)
        return messages

    def _send_best(self, best: BestHits, hits: list[SearchHit]) -> list[Message]:
        """Return the best hits if they changed.

        A long list waits until enough hits were found since the one before: else a walk of n hits would send n times
        the whole list.
        """
        self._has_changed |= best.add(hits)
        self._allowed += _SENT_PER_HIT * len(hits)
        if not self._has_changed or len(best.hits) > self._allowed:
            return []
        self._allowed -= len(best.hits)
        self._has_changed, self._last_best = False, best.hits
        return [_best_message(best.hits)]

    def _correct_best(self) -> list[Message]:
        """Return the best hits by the final ranking, if they are others than those sent last."""
        if self._best is None:
            return []
        best = [hit for hit in self._walk.ranking or [] if self._find(hit) is not None][: self._size]
        return [] if best == self._last_best else [_best_message(best)]

    def _find(self, hit: SearchHit) -> "_SentHit | None":
        """Return the hit that was sent for a hit of the ranking, perhaps a copy of it."""
        found = self._sent.get(id(hit))
        return found or self._index_surfaces().get(_surface_of(hit))

    def _index_surfaces(self) -> dict[Hashable, "_SentHit"]:
        for sent in islice(self._sent.values(), self._indexed, None):  # a walk that goes on has new ones
            self._by_surface.setdefault(_surface_of(sent.hit), sent)
        self._indexed = len(self._sent)
        return self._by_surface

    def _summarize(self) -> dict[str, Any]:
        """Return the summary of the walk, with the final order of the hits that were sent."""
        summary = self._walk.summary
        ranking = []
        for hit in self._walk.ranking or []:
            sent = self._find(hit)
            if sent is not None:
                ranking.append(_rank_entry(hit, sent))
        facts = {} if summary is None else self._count_unsent(summary).to_dict()
        facts["truncated"] = facts.get("truncated", False) or self._count.has_cut
        if self._keeper is not None:
            facts["continue"] = self._token
        return {"type": "summary", **facts, "hits": len(self._sent), "budget": self._count.ended_by, "ranking": ranking}

    def _count_unsent(self, summary: WalkSummary) -> WalkSummary:
        """Return the summary of the walk with what the budget of the stream left out."""
        name = self._count.ended_by
        if name is None:
            return summary
        unsent = summary.emitted - len(self._sent)
        is_closed = summary.stop == "closed"  # nobody knows what would have come
        if unsent:
            left_out = {**summary.left_out, name: unsent}
            return replace(summary, left_out=left_out, at_least=(*summary.at_least, *[name] * is_closed))
        return replace(summary, unknown=(*summary.unknown, *[name] * is_closed))


class _SentHit(NamedTuple):
    """A hit that was sent: its place among them, and the id of its node."""

    place: int
    node: Hashable
    hit: SearchHit


def _surface_of(hit: SearchHit) -> Hashable:
    return hit.source, hit.artifact_id, hit.surface_kind, hit.surface_index


def _best_message(hits: list[SearchHit]) -> Message:
    weight = sum(map(_weigh, hits))
    return Message("best", lambda: {"type": "best", "hits": [hit.to_dict() for hit in hits]}, weight=weight)


def _hit_message(event: NodeCommitted, sent: SearchHit) -> Message:
    """Return the message of a hit, of which perhaps only a part is sent."""
    if sent is event.hit:
        return Message("hit", event.to_dict, weight=_weigh(sent))
    cut = replace(event, hit=sent)
    return Message("hit", lambda: {**cut.to_dict(), "text_truncated": True}, weight=_weigh(sent))


def _weigh(hit: SearchHit) -> float:
    return 1 + len(hit.text) / _USUAL_TEXT


def _rank_entry(hit: SearchHit, sent: _SentHit) -> dict[str, Any]:
    """Return the entry of a hit in the final ranking: its identity, score and place.

    The ranking may have made another object of the hit that was sent. `metadata` then has the fields that differ; with
    more differences than these and the score, the hit is there as a whole.
    """
    entry = {
        "id": json_clean(sent.node),
        "source": hit.source,
        "artifact_id": hit.artifact_id,
        "surface_kind": hit.surface_kind,
        "surface_index": hit.surface_index,
        "score": json_clean(hit.score),
        "hit": sent.place,
    }
    before = sent.hit
    if hit is before:
        return entry
    if hit.text != before.text or before.metadata.keys() - hit.metadata.keys():
        return {**entry, "replaced": hit.to_dict()}
    new = {key: value for key, value in hit.metadata.items() if before.metadata.get(key, _MISSING) != value}
    return {**entry, "metadata": json_clean(new)} if new else entry


_MISSING: Any = object()


class DiscoveryMessages:
    """The messages of a discovery: a `source` for each answer, and the `result`.

    Args:
        stream: A stream that was not entered yet.
    """

    def __init__(self, stream: DiscoveryStream) -> None:
        self._stream = stream
        self.earlier: int = 0

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.__aexit__(kind, error, trace)

    async def read(self) -> list[Message]:
        """Return the next message; the result is the last."""
        update: SourceAnswered | DiscoveryResult = await anext(self._stream)
        if isinstance(update, DiscoveryResult):
            make_data = partial(_with_type, "result", update)
            return [Message("result", make_data, is_last=True, weight=1 + len(update.results))]
        weight = 1 + len(update.hits) + len(update.ranking)
        return [Message("source", partial(_with_type, "source", update), weight=weight)]

    @property
    def stop(self) -> None:
        """A discovery is no walk."""
        return


def _with_type(kind: str, update: SourceAnswered | DiscoveryResult) -> dict[str, Any]:
    return {"type": kind, **update.to_dict()}

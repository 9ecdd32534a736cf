"""A discovery as it goes: each source's answer when it comes, then the result."""

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self, Unpack

from airw.discovery._asking import Asking, ask_source, begin
from airw.discovery._finish import finish, ranked_so_far
from airw.discovery._members import Corpora, Member
from airw.discovery._plan import DiscoverOptions, Plan
from airw.discovery.results import Answer, DiscoveryResult, SourceAnswered
from airw.errors import ArgumentError
from airw.walking import merge
from airw.walking.streams import ReadAhead

__all__ = ["DiscoveryStream", "discover_stream"]


def discover_stream(corpus: Corpora, query: str, **options: Unpack[DiscoverOptions]) -> "DiscoveryStream":
    """Discover, and tell of each source as it answers.

    The sources are at work while the block is open, and only then; leaving it stops those that have not answered. (An
    async generator could not let them work on between two of its values without tasks that nobody owns.)

    Args:
        corpus: One corpus or several, and a query and options as for `discover`.
        query: What to look for.
        **options: Those of `discover`.

    Returns:
        An async context manager that gives itself: an async iterator of one `SourceAnswered` a source, in the order in
        which they answer, and at last the `DiscoveryResult`, which does not depend on that order.

    Raises:
        ArgumentError: As `discover`, by this call; `DiscoveryError` where the result would come.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     keys = from_mapping({"k": "rotate the signing keys"}, name="keys", embedder="light")
        ...     food = from_mapping({"f": "bake bread"}, name="food", embedder="light")
        ...     async with build(keys, store=MemoryStore()) as one, build(food, store=MemoryStore()) as other:
        ...         async with discover_stream([one, other], "signing keys") as updates:
        ...             async for update in updates:
        ...                 print(type(update).__name__)
        ...         print(update.ids)
        >>> anyio.run(main)
        SourceAnswered
        SourceAnswered
        DiscoveryResult
        ['k']
    """
    return DiscoveryStream(Plan.of(corpus, query, **options))


class DiscoveryStream:
    """A discovery at work while its block is open; made by `discover_stream`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._answers: dict[str, Answer] = {}
        self._coming: ReadAhead[tuple[AsyncGenerator[Answer, None], Answer]] | None = None
        self._result: DiscoveryResult | None = None

    @property
    def result(self) -> DiscoveryResult | None:
        """Give the result, once it has come."""
        return self._result

    async def __aenter__(self) -> Self:
        if self._coming is not None:
            raise ArgumentError("a discovery is entered once; discover_stream starts another one")
        asking = await begin(self._plan)
        self._coming = merge(*(_asked(member, asking) for member in self._plan.members), buffer=1)
        await self._coming.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._coming is not None:
            await self._coming.__aexit__(kind, error, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SourceAnswered | DiscoveryResult:
        if self._coming is None:
            raise ArgumentError("a discovery works inside a block: async with discover_stream(…) as updates")
        if self._result is not None:
            raise StopAsyncIteration
        try:
            _, answer = await anext(self._coming)
        except StopAsyncIteration:
            self._result = await finish(self._plan, self._answers)
            return self._result
        self._answers[answer.source] = answer
        return self._told(answer)

    def _told(self, answer: Answer) -> SourceAnswered:
        pending = tuple(member.name for member in self._plan.members if member.name not in self._answers)
        ranking = tuple(ranked_so_far(self._plan, self._answers))
        return SourceAnswered(answer.source, answer.report, answer.hits, ranking, pending)


async def _asked(member: Member, asking: Asking) -> AsyncGenerator[Answer, None]:
    yield await ask_source(member, asking)

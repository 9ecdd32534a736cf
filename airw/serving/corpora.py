"""The corpora of a server: by name, opened at their first use."""

import math
import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn, TypeAlias

import anyio
from anyio.abc import TaskGroup

from airw._base.checks import NAME_RULE, is_valid_name
from airw._base.concurrency import first_error, map_bounded
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw._base.sharing import SharedLock
from airw.corpora import Corpus, open_corpus
from airw.corpora.naming import list_similar_first
from airw.corpora.places import locate
from airw.errors import AirwError, ArgumentError, CorpusNotFound, StoreBusy, StoreError
from airw.protocols import CAPABILITIES, Capability, Embedder, OpenCorpus, Request
from airw.retrieval import check_corpus
from airw.serving.problems import ServerStopping
from airw.stores import OwnStore

LONGEST_WAIT = 1.0
"""The seconds that a change waits for others, before it is refused."""

Servable: TypeAlias = "OpenCorpus | str | os.PathLike[str]"
"""An open corpus, or the name, path or address of one."""

ServableCorpora: TypeAlias = "Sequence[Servable] | Mapping[str, Servable]"


class ServedCorpora:
    """The corpora of a server, by the names that clients use.

    Those that were named are opened at their first use. What they write waits for the disk, so that an acknowledged
    write survives a power failure. Inside the block of `running`, an opening goes on if whoever asked for it leaves.
    Open corpora stay open: their opener closes them.

    Args:
        corpora: Open corpora, or names, paths or addresses of corpora. A mapping gives them other names.

    Raises:
        ArgumentError: If there is none, two have the same name, or one is no corpus.
    """

    def __init__(self, corpora: ServableCorpora) -> None:
        self._places = _name_corpora(corpora)
        self._opened: dict[str, OpenCorpus] = {}
        self._openings: dict[str, _Opening] = {}
        self._tasks: TaskGroup | None = None
        # An application may be asked in several event loops, each in its thread.
        self._turns = {name: SharedLock(f"corpus {name!r}") for name in self._places}
        self._writers = {name: SharedLock(f"corpus {name!r}") for name in self._places}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all corpora, in the order of the operator."""
        return tuple(self._places)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open corpora in tasks of their own inside the block, and close them after it."""
        try:
            with first_error():
                async with anyio.create_task_group() as self._tasks:
                    yield
                    self._tasks.cancel_scope.cancel()
        finally:
            self._tasks = None
            await self._close_all()

    async def get(self, name: str, *, visible: Iterable[str]) -> OpenCorpus:
        """Return the corpus of a name, open; its `name` is this name.

        Args:
            name: The name.
            visible: The names that the caller may see, for the message.

        Raises:
            CorpusNotFound: If the caller may not see such a corpus, or it was removed.
            StoreError: If it cannot be opened.
            ServerStopping: If the server stops before it is open.
        """
        self.check_visible([name], visible)
        place = self._places[name]
        if not isinstance(place, str | os.PathLike):
            return _rename(place, name)
        if name not in self._opened:
            await self._open_once(name, place)
        return self._opened[name]

    async def _open_once(self, name: str, place: str | os.PathLike[str]) -> None:
        """Open a corpus, or wait for the opening that has begun."""
        if self._tasks is None:  # nobody has entered the lifespan, so only the caller can do it
            async with self._turns[name].hold():
                if name not in self._opened:
                    self._opened[name] = _rename(await _open(name, place), name)
            return
        opening = self._openings.get(name)
        if opening is None:
            opening = self._openings[name] = _Opening()
            self._tasks.start_soon(self._open_in_task, name, place, opening)
        await opening.is_over.wait()
        if opening.error is not None:
            raise copy(opening.error) from opening.error  # a new one, as one must not be raised in several tasks
        if name not in self._opened:
            raise ServerStopping(f"the server stops before corpus {name!r} is open; ask again")

    async def _open_in_task(self, name: str, place: str | os.PathLike[str], opening: "_Opening") -> None:
        try:
            self._opened[name] = _rename(await _open(name, place), name)
        except Exception as error:  # noqa: BLE001 - raised by all who wait for it
            opening.error = error
        finally:
            del self._openings[name]
            opening.is_over.set()

    async def get_all(
        self, names: Sequence[str], *, visible: Iterable[str], seconds: float = math.inf
    ) -> dict[str, OpenCorpus]:
        """Return corpora by name, open.

        If one cannot be opened, each call of its store raises the reason.

        Args:
            names: The names.
            visible: The names that the caller may see.
            seconds: How long to wait. The opening of a corpus that takes longer goes on, for a later call.

        Raises:
            CorpusNotFound: If the caller may not see one of them. None is opened then.
            StoreError: If none can be opened.
        """
        allowed = tuple(visible)
        self.check_visible(names, allowed)
        answers = await map_bounded(partial(self._try_get, visible=allowed, seconds=seconds), names, limit=len(names))
        opened = [answer for answer in answers if not isinstance(answer, AirwError)]
        if not opened:
            raise next(answer for answer in answers if isinstance(answer, AirwError))
        # Corpora of one walk must have one embedder: that of the others is as good as any.
        embedder = opened[0].embedder
        return {
            name: UnopenedCorpus(name, UnopenedStore(answer), embedder) if isinstance(answer, AirwError) else answer
            for name, answer in zip(names, answers, strict=True)
        }

    async def _try_get(self, name: str, *, visible: Iterable[str], seconds: float) -> OpenCorpus | AirwError:
        try:
            with anyio.move_on_after(seconds):
                return await self.get(name, visible=visible)
        except AirwError as error:
            return error
        return StoreError(f"corpus {name!r} was not open within {seconds:.3g} seconds; ask again")

    def check_visible(self, names: Iterable[str], visible: Iterable[str]) -> None:
        """Check that a caller may see corpora.

        Raises:
            CorpusNotFound: For the first that it may not see, as if there was none.
        """
        allowed = [each for each in visible if each in self._places]
        for name in names:
            if name not in allowed:
                known = f"; known: {list_similar_first(name, allowed)}" if allowed else ""
                raise CorpusNotFound(f"there is no corpus {short_repr(name)} here{known}")

    @asynccontextmanager
    async def changing(self, name: str) -> AsyncIterator[None]:
        """Hold a corpus for one change; another change waits, for at most a second.

        Raises:
            StoreBusy: If others change it for longer.
        """
        turn = self._writers[name]
        with anyio.move_on_after(LONGEST_WAIT) as scope:
            held = await turn.acquire()
        if scope.cancelled_caught:
            raise StoreBusy(f"corpus {name!r} is being changed by others; try again")
        try:
            yield
        finally:
            turn.release(held)

    async def _close_all(self) -> None:
        """Close the corpora that this object opened."""
        with anyio.CancelScope(shield=True):
            # All are closed, even if closing one of them fails.
            async with AsyncExitStack() as stack:
                for name in list(self._opened):
                    stack.push_async_callback(self._opened.pop(name).store.aclose)


@dataclass(slots=True, eq=False)
class _Opening:
    """The opening of a corpus, for which several requests may wait."""

    is_over: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None


@dataclass(frozen=True, slots=True, eq=False)
class UnopenedStore(OwnStore):
    """The store of a corpus that cannot be opened: each read raises the reason.

    Args:
        reason: The error of the opening.
    """

    reason: AirwError
    capabilities: Collection[Capability] = CAPABILITIES

    @override
    async def read(self, *requests: Request[Any]) -> NoReturn:
        """Raise the reason."""
        # A new error, as one must not be raised in several tasks.
        raise type(self.reason)(*self.reason.args)


@dataclass(frozen=True, slots=True, eq=False)
class UnopenedCorpus:
    """A corpus that cannot be opened, in the place of which others go on.

    Args:
        name: Its name.
        store: A store that raises the reason.
        embedder: The embedder of the others.
    """

    name: str
    store: UnopenedStore
    embedder: Embedder


async def _open(name: str, place: str | os.PathLike[str]) -> Corpus:
    """Open a corpus that was named.

    A file waits for the disk at each write; a server has its own settings.

    Raises:
        CorpusNotFound: If it was removed. The message has no other names.
        StoreError: If it cannot be opened.
    """
    is_file = isinstance(locate(place).place, os.PathLike)
    try:
        return await open_corpus(place, durability="full" if is_file else "normal")
    except CorpusNotFound as error:
        # Its own message names the folder and its neighbours.
        raise CorpusNotFound(f"corpus {name!r} is not there, though it is served; build it again") from error


def _rename(corpus: OpenCorpus, name: str) -> OpenCorpus:
    """Return a corpus with the name that clients use, which its hits carry as their source."""
    if corpus.name == name:
        return corpus
    if isinstance(corpus, Corpus):
        return replace(corpus, name=name, owns_store=False)
    return Corpus(name, corpus.store, corpus.embedder)


def _name_corpora(corpora: ServableCorpora) -> dict[str, Servable]:
    if isinstance(corpora, Mapping):
        pairs = list(corpora.items())
    elif isinstance(corpora, list | tuple):
        pairs = [(_name_of(corpus), corpus) for corpus in corpora]
    else:
        raise ArgumentError(
            f"corpora must be a list of corpora, or a mapping of them by name, not {short_repr(corpora)}"
        )
    if not pairs:
        raise ArgumentError("corpora must contain at least one corpus")
    named: dict[str, Servable] = {}
    for name, corpus in pairs:
        if not is_valid_name(name):
            raise ArgumentError(f"{short_repr(name)} cannot name a corpus: use {NAME_RULE}")
        if name.casefold() in map(str.casefold, named):
            raise ArgumentError(f"two corpora are named {name!r}; pass it once, or a mapping with other names")
        named[name] = corpus
    return named


def _name_of(corpus: Servable) -> str:
    if isinstance(corpus, str | os.PathLike):
        location = locate(corpus)
        return location.name or location.default_name
    return check_corpus(corpus).name

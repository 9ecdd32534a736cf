"""Long work in a thread that leaves most of Python's global lock to short work.

Only one thread at a time runs Python code. A thread that waits for its turn gets it after 5 ms, and a short call needs
several turns. So beside one long call, a hundred short ones would take as long as one each. Therefore long work pauses
now and then, for as long as it takes others to have their share.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_WORK = 0.001  # seconds of work between two pauses
_HANDOVER = 0.0001  # seconds in which a waiting thread wakes up
_MOST = 0.005  # seconds of work that one pause makes up for
_SHARE = 4  # a pause is so many times as long as the work before it
_TOGETHER = 0.005  # seconds; the steps of one call begin within this time of each other
_RECENT = 0.02  # seconds; work that began longer ago is long, or over


class _Work(threading.local):
    """What this thread does: whether it may pause, and its processor time at the last pause."""

    may_pause = False
    last_pause = 0.0
    last_handover = 0.0


_work = _Work()


@dataclass(slots=True, eq=False)
class _Piece:
    """A piece of work: when it began, and whether it is over."""

    begun: float
    is_over: bool = False


_begun: dict[int, _Piece] = {}  # the last piece of work of each thread, by the id of the thread


@contextmanager
def note_work() -> Iterator[None]:
    """Note that this thread begins a piece of work, for as long as the block runs."""
    piece = _begun[threading.get_ident()] = _Piece(time.monotonic())
    _work.may_pause, _work.last_pause = True, time.thread_time()
    try:
        yield
    finally:
        _work.may_pause, piece.is_over = False, True


@contextmanager
def without_pause() -> Iterator[None]:
    """Run the block without pauses, because others wait for it."""
    before, _work.may_pause = _work.may_pause, False
    try:
        yield
    finally:
        _work.may_pause = before


def give_way() -> None:
    """Pause if this thread has worked for some time, and others have begun work meanwhile.

    Nothing happens outside of `note_work`, so the event loop never pauses.
    """
    if not _work.may_pause:
        return
    worked = time.thread_time() - _work.last_pause
    if worked < _WORK:
        return
    own, recent = threading.get_ident(), time.monotonic() - _RECENT
    begun = _begun[own].begun
    others = [piece for thread, piece in list(_begun.items()) if thread != own and piece.begun > recent]
    # 1. The rankings of one search, which begin together, must not wait for each other.
    others = [piece for piece in others if abs(piece.begun - begun) > _TOGETHER]
    # 2. What was over before this work began may have been a step of the same caller, who waits by now.
    if any(piece.begun > begun or not piece.is_over for piece in others):
        time.sleep(_SHARE * min(worked, _MOST))
    _work.last_pause = time.thread_time()


def hand_over() -> None:
    """Leave the turn to a waiting thread, if this one has not done so for a while.

    For functions that a library calls thousands of times without the global lock between. Each call takes the lock for
    less than 5 ms, and then gives it back and takes it again before a waiting thread has woken up. So that thread, such
    as the event loop, would wait until all are over.
    """
    now = time.monotonic()
    if now - _work.last_handover > _WORK:
        time.sleep(_HANDOVER)
        _work.last_handover = time.monotonic()

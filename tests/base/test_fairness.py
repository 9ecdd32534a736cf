"""Long work in a thread leaves others their turn."""

import threading
import time

import pytest

from airw._base import fairness
from airw._base.fairness import give_way, note_work, without_pause


@pytest.fixture
def pauses(monkeypatch):
    seconds = []
    monkeypatch.setattr(fairness, "_begun", {})
    monkeypatch.setattr(fairness.time, "sleep", seconds.append)
    return seconds


def work(seconds=0.002):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def begin_elsewhere():
    """Begin and end a piece of work in another thread."""

    def run():
        with note_work():
            pass

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_long_work_pauses_for_longer_than_it_worked_while_others_have_short_work(pauses):
    with note_work():
        work(0.03)
        give_way()
        assert not pauses  # nobody else
        begin_elsewhere()
        work()
        give_way()
        give_way()  # too early
        assert len(pauses) == 1
        assert 0.004 < pauses[0] < 0.1
        with without_pause():
            work()
            give_way()
        assert len(pauses) == 1


def test_work_of_others_that_began_long_ago_is_no_reason_to_pause(pauses):
    begin_elsewhere()
    with note_work():
        work(0.03)
        give_way()
    assert not pauses


def test_steps_that_begin_together_never_wait_for_each_other(pauses):
    with note_work():
        begin_elsewhere()
        work(0.03)
        give_way()
    assert not pauses


def test_the_event_loop_never_pauses(pauses):
    begin_elsewhere()
    work()
    give_way()
    assert not pauses

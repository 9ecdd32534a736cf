"""Long work in a thread leaves others their turn."""

import sqlite3
import threading
import time

import pytest

from airw._base import fairness
from airw._base.fairness import give_way, hand_over, note_work, without_pause


class Clock:
    """The time of the machine and of each thread, in which only work takes time."""

    def __init__(self):
        self.now, self.pauses = 0.0, []
        self.sleep = self.pauses.append

    def monotonic(self):
        return self.now

    thread_time = monotonic

    def work(self, seconds=0.002):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(fairness, "_begun", {})
    monkeypatch.setattr(fairness, "_work", fairness._Work())
    monkeypatch.setattr(fairness, "time", clock)
    return clock


def begin_elsewhere():
    """Begin and end a piece of work in another thread."""

    def run():
        with note_work():
            pass

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_long_work_pauses_for_longer_than_it_worked_while_others_have_short_work(clock):
    with note_work():
        clock.work(0.03)
        give_way()
        assert not clock.pauses  # nobody else
        begin_elsewhere()
        clock.work()
        give_way()
        give_way()  # too early
        assert len(clock.pauses) == 1
        assert 0.004 < clock.pauses[0] < 0.1
        with without_pause():
            clock.work()
            give_way()
        assert len(clock.pauses) == 1


def test_work_of_others_that_began_long_ago_is_no_reason_to_pause(clock):
    begin_elsewhere()
    with note_work():
        clock.work(0.03)
        give_way()
    assert not clock.pauses


def test_steps_that_begin_together_never_wait_for_each_other(clock):
    with note_work():
        begin_elsewhere()
        clock.work(0.01)
        give_way()
    assert not clock.pauses


def test_the_event_loop_never_pauses(clock):
    begin_elsewhere()
    clock.work()
    give_way()
    assert not clock.pauses


@pytest.mark.slow
def test_a_function_that_a_database_calls_often_lets_another_thread_have_its_turn():
    ticks, is_over = [], threading.Event()

    def tick():
        while not is_over.is_set():
            time.sleep(0.001)
            ticks.append(1)

    def matches():
        hand_over()
        end = time.thread_time() + 0.0003
        while time.thread_time() < end:
            pass

    connection = sqlite3.connect(":memory:")
    connection.create_function("matches", 0, matches)
    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT matches() FROM n"
        connection.execute(query).fetchall()
    finally:
        is_over.set()
        ticker.join()
        connection.close()
    assert len(ticks) >= 10  # without it, one or two

"""Long work in a thread leaves others their turn."""

import sqlite3
import threading
import time

import pytest

from airw._base import fairness
from airw._base.fairness import give_way, hand_over, note_work, without_pause


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


def test_a_function_that_a_database_calls_often_lets_another_thread_have_its_turn():
    ticks, is_over = [], threading.Event()

    def tick():
        while not is_over.is_set():
            time.sleep(0.001)
            ticks.append(1)

    def matches():
        hand_over()
        work(0.0003)

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

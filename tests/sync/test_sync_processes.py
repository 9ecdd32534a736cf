"""`airw.sync` in processes that are interrupted, are forked, or end."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRELUDE = """
import logging, os, signal, sys, anyio, airw
from airw import from_mapping, sync
from airw.stores import MemoryStore
from airw.walking import Policy
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
logging.getLogger("asyncio").setLevel("ERROR")  # its debug mode warns if a callback is slow, as on a busy machine
source = from_mapping({"a": "signing keys", "b": "bread and keys"}, name="notes", embedder="light")

class Hanging(airw.policies.CollapsedTree):
    async def score(self, state, nodes, store):
        print("started", flush=True)
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
            print("cleaned up", flush=True)
"""

pytestmark = pytest.mark.slow


def start(code, home):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "AIRW_HOME": str(home)}
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", PRELUDE + textwrap.dedent(code)]
    return subprocess.Popen(
        command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(code, home):
    """Run code in another process; return its exit code, what it prints and its errors."""
    with start(code, home) as process:
        printed, complaints = process.communicate(timeout=60)
    return process.returncode, printed.split("\n")[:-1], complaints


def test_ctrl_c_stops_a_walk_and_the_corpus_can_be_used_again(tmp_path):
    code = """
    with sync.build(source, store="notes") as corpus:
        walk = sync.traverse("keys", corpus, policy=Hanging())
        try:
            next(walk)
        except KeyboardInterrupt:
            print("interrupted", walk.summary.stop, list(walk), len(corpus.search("keys")), flush=True)
    """
    with start(code, tmp_path) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        printed, complaints = process.communicate(timeout=60)
    assert (process.returncode, printed, complaints) == (0, "cleaned up\ninterrupted closed [] 2\n", "")


def test_ctrl_c_ends_a_script_at_once(tmp_path):
    code = """
    corpus = sync.build(source, store="notes")
    list(sync.traverse("keys", corpus, policy=Hanging()))
    """
    with start(code, tmp_path) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        printed, complaints = process.communicate(timeout=60)
    assert (process.returncode, printed) == (-signal.SIGINT, "cleaned up\n")
    assert complaints.endswith("KeyboardInterrupt\n")


def test_a_forked_process_is_told_to_open_its_own_corpus(tmp_path):
    code = """
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads, from Python 3.12 on
    corpus = sync.build(source, store="notes")
    walk, events = sync.traverse("keys", corpus), sync.traverse("keys", corpus).events()
    retrieve, ahead = sync.as_retriever("notes"), sync.prefetch(sync.traverse("keys", corpus))
    entered = sync.prefetch(sync.traverse("keys", corpus)).__enter__()
    child = os.fork()
    if child == 0:
        search = lambda: corpus.search("keys")
        for use in (
            search, lambda: sync.search(corpus, "keys"), corpus.close, lambda: retrieve("keys"), retrieve.close,
            lambda: next(walk), walk.close, lambda: next(events),
            ahead.__enter__, lambda: next(entered), lambda: entered.__exit__(None, None, None),
        ):
            try:
                use()
            except Exception as error:
                print(type(error).__name__, error, flush=True)
        print(len(sync.search("notes", "keys")), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(len(corpus.search("keys")), len(list(walk)), len(list(events)) > 2, len(list(entered)), len(retrieve("keys")))
    """
    corpus = "StoreError corpus 'notes' was opened before this process was forked; open it again here"
    retriever = "StoreError this retriever was created before this process was forked; create another one here"
    walk = "StoreError this walk was started before this process was forked; start another one here"
    block = "StoreError this block was made before this process was forked; make another one here"
    told = [corpus] * 3 + [retriever] * 2 + [walk] * 3 + [block] * 3
    assert run(code, tmp_path) == (0, [*told, "2", "2 2 True 2 2"], "")


def test_a_corpus_that_is_dropped_at_the_end_of_a_script_is_closed_to_the_end(tmp_path):
    code = """
    corpus = sync.build(source, store="notes")
    close = corpus.store.aclose

    async def take_time():
        await anyio.sleep(0.2)
        await close()
        print("closed", flush=True)

    corpus.store.aclose = take_time
    print(len(corpus.search("keys")), flush=True)
    del corpus
    """
    assert run(code, tmp_path) == (0, ["2", "closed"], "")


def test_a_script_may_leave_everything_open(tmp_path):
    code = """
    corpus = sync.build(source, store="notes")
    retrieve = sync.as_retriever("notes")
    walk = sync.traverse("keys", corpus)
    updates = sync.discover_stream(["notes"], "keys").__enter__()
    ahead = sync.prefetch(sync.traverse("bread", corpus)).__enter__()
    print(len(retrieve("keys")), next(walk).artifact_id, next(ahead).artifact_id, type(next(updates)).__name__)
    raise SystemExit(3)
    """
    assert run(code, tmp_path) == (3, ["2 a b SourceAnswered"], "")


def test_threads_may_go_on_after_the_last_line_of_a_script(tmp_path):
    code = """
    import threading, time
    corpus = sync.build(source, store="notes")

    def work():
        threading.main_thread().join()
        print(len(corpus.search("keys")), len(sync.search("notes", "keys")))
        threading.Thread(target=lambda: print(corpus.upsert({"c": "cake"}).added)).start()

    threading.Thread(target=work).start()
    """
    assert run(code, tmp_path) == (0, ["2 2", "1"], "")


def test_what_a_daemon_thread_opened_is_closed_at_the_end(tmp_path):
    code = """
    import atexit, threading
    opened = []
    thread = threading.Thread(target=lambda: opened.append(sync.build(source, store="notes.airw")), daemon=True)
    thread.start()
    thread.join()
    print(os.path.exists("notes.airw-wal"))
    atexit.register(lambda: print(os.path.exists("notes.airw-wal")))
    """
    assert run(code, tmp_path) == (0, ["True", "False"], "")


def test_after_the_end_of_a_program_a_call_is_an_error_and_closing_does_nothing(tmp_path):
    code = """
    import atexit
    corpus = sync.build(source, store="notes")
    walks = [sync.traverse("keys", corpus)]

    def use_all():
        for use in (walks[0].close, walks.clear, corpus.close, lambda: corpus.search("keys")):
            try:
                use()
            except RuntimeError as error:
                print(error)

    atexit.register(use_all)
    """
    late = "search was called after the end of the program; call it in threads that are not daemons"
    assert run(code, tmp_path) == (0, [late], "")


def test_a_call_from_another_loop_ends_with_the_program(tmp_path):
    code = """
    import asyncio, atexit, threading
    from airw._base.background import run_from_loop
    started, ended = threading.Event(), threading.Event()

    async def wait_forever():
        started.set()
        await asyncio.sleep(3600)

    def work():
        try:
            asyncio.run(run_from_loop(wait_forever))
        except RuntimeError as error:
            print("in flight:", error, flush=True)
        ended.set()

    def call_late():
        ended.wait(30)
        try:
            asyncio.run(run_from_loop(wait_forever))
        except RuntimeError as error:
            print("late:", error, flush=True)

    atexit.register(call_late)
    threading.Thread(target=work, daemon=True).start()
    started.wait(30)
    """
    advice = "wait_forever was called after the end of the program; call it in threads that are not daemons"
    assert run(code, tmp_path) == (0, [f"in flight: {advice}", f"late: {advice}"], "")

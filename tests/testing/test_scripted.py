"""Tools for tests: a store with scripted delays and failures, and a virtual clock."""

import math
import sys
import threading
import time
from dataclasses import replace

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from airw import build, from_mapping, traverse
from airw.errors import ArgumentError, StoreError
from airw.links import extractor_from
from airw.policies import Eager
from airw.protocols import ArtifactIds, Best, Change, Config, Counts, Edges, Fed, Rank, Records, ask, ask_all
from airw.stores import MemoryStore, SqliteStore
from airw.testing import CAPABILITIES, ScriptedStore, StoreSuite, run_on_virtual_clock
from tests.support.waiting import PATIENCE

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


async def time_call(call):
    """Return the answer of a call, or its error, and its duration in seconds."""
    start = anyio.current_time()
    try:
        answer = await call
    except Exception as error:  # noqa: BLE001 - whatever comes is the answer
        answer = error
    return answer, anyio.current_time() - start


def time_calls(store, *asked):
    """Return the duration of each call on a virtual clock, in seconds."""

    async def main():
        calls = [store.apply(each) if isinstance(each, Change) else ask(store, each) for each in asked]
        return [(await time_call(call))[1] for call in calls]

    return run_on_virtual_clock(main)


class TestScriptedStore:
    @pytest.mark.slow
    @pytest.mark.asyncio_only
    async def test_without_a_script_it_passes_the_whole_exam_of_stores(self, tmp_path):
        """Every call is passed on with all of its arguments."""

        class Closing(ScriptedStore):
            async def __aenter__(self):
                return self

            async def __aexit__(self, *_):
                await self.aclose()

        suite = StoreSuite(
            lambda folder: Closing(MemoryStore()), capabilities=CAPABILITIES - {"persistent", "shared", "runs"}
        )
        report = await suite.run()
        assert report.passed, str(report)

    async def test_requests_are_counted_by_kind_and_logged_in_order(self):
        store = ScriptedStore(MemoryStore())
        edges, config, change = Edges(["a"], "both"), Config(), Change(removals=["a"])
        await ask_all(store, edges, config)
        await store.apply(change)
        await ask(store, Edges(["b"]))
        assert store.calls == {Edges: 2, Config: 1, Change: 1}
        assert store.log[:3] == [edges, config, change]
        assert store.log[3].ids == ["b"]
        assert store.reads == 2

    async def test_requests_of_a_chain_count_as_those_that_are_fed(self):
        store = ScriptedStore(MemoryStore())
        rank = Rank(["keys"], 3)
        records = Records(())
        assert (await ask_all(store, rank, Fed(records, Best(rank))))[1] == []
        assert store.calls == {Rank: 1, Records: 1}
        assert (store.log, store.reads) == ([rank, records], 1)

    def test_a_call_takes_as_long_as_the_slowest_of_its_requests(self):
        store = ScriptedStore(MemoryStore(), delays={Counts: [1, 4], Config: 3})

        async def main():
            return [(await time_call(ask_all(store, Counts(), Config())))[1] for _ in range(2)]

        assert run_on_virtual_clock(main) == [3, 4]

    def test_a_number_delays_every_call_but_closing(self):
        store = ScriptedStore(MemoryStore(), delays=2)
        assert time_calls(store, Config(), Counts(), Config(), Change()) == [2, 2, 2, 2]
        assert run_on_virtual_clock(lambda: time_call(store.aclose())) == (None, 0)

    def test_a_mapping_delays_the_kinds_it_names(self):
        store = ScriptedStore(MemoryStore(), delays={Counts: 2, Change: 3})
        assert time_calls(store, Config(), Counts(), Change()) == [0, 2, 3]

    def test_each_item_of_a_sequence_delays_one_call(self):
        store = ScriptedStore(MemoryStore(), delays={Config: [1, 0.5], Counts: (4,)})
        assert time_calls(store, Config(), Counts(), Config(), Config(), Counts()) == [1, 4, 0.5, 0, 0]

    def test_a_function_returns_the_delay_when_a_call_begins(self):
        store = ScriptedStore(MemoryStore(), delays=iter([3, 1, 2]).__next__)
        assert time_calls(store, Config(), Counts(), ArtifactIds()) == [3, 1, 2]

    async def test_a_failure_is_raised_at_its_call_as_the_same_object(self):
        error = StoreError("gone")
        store = ScriptedStore(MemoryStore(), failures={Counts: [None, error]})
        answers = [(await time_call(ask(store, Counts())))[0] for _ in range(3)]
        assert answers[1] is error
        assert answers[0] == answers[2] == await ask(MemoryStore(), Counts())
        assert store.calls[Counts] == 3

    async def test_a_single_failure_is_raised_by_every_call(self):
        error = StoreError("gone")
        store = ScriptedStore(MemoryStore(), failures={Counts: error})
        assert [(await time_call(ask(store, Counts())))[0] for _ in range(3)] == [error] * 3

    def test_a_failure_is_raised_after_the_delay_and_the_store_is_not_called(self):
        inner = ScriptedStore(MemoryStore())
        store = ScriptedStore(inner, delays={Counts: 5}, failures={Counts: StoreError("gone")})

        async def main():
            return await time_call(ask(store, Counts()))

        error, seconds = run_on_virtual_clock(main)
        assert (str(error), seconds, inner.calls) == ("gone", 5, {})

    def test_running_calls_and_their_maximum_are_counted(self):
        store = ScriptedStore(MemoryStore(), delays={Counts: [1, 2, 3], Config: 10})
        seen = []

        async def main():
            async with anyio.create_task_group() as group:
                for request in (Counts(), Counts(), Counts(), Config()):
                    group.start_soon(ask, store, request)
                for at in (0.5, 1.5, 2.5, 3.5):
                    await anyio.sleep_until(at)
                    seen.append((store.running, store.most_running))
            return store.running

        assert run_on_virtual_clock(main) == 0
        assert seen == [(4, 4), (3, 4), (2, 4), (1, 4)]

    @BACKENDS
    def test_a_cancelled_or_failed_call_no_longer_counts_as_running(self, backend):
        store = ScriptedStore(MemoryStore(), delays={Counts: math.inf}, failures={Config: StoreError("gone")})

        async def main():
            with anyio.move_on_after(7) as scope:
                await ask(store, Counts())
            await time_call(ask(store, Config()))
            return scope.cancelled_caught, anyio.current_time(), store.running, store.most_running

        assert run_on_virtual_clock(main, backend=backend) == (True, 7, 0, 1)

    async def test_writing_is_not_a_running_call_and_takes_the_lock_of_the_store(self):
        inner = MemoryStore()
        store = ScriptedStore(inner)
        async with store.writing():
            assert (store.calls, store.running, store.most_running) == ({}, 0, 0)
            with pytest.raises(StoreError, match="builder"):
                async with inner.writing(timeout=0):
                    pass
        async with inner.writing(timeout=0):
            pass

    async def test_a_corpus_is_built_and_walked_over_it(self):
        inner = ScriptedStore(MemoryStore())
        async with build(
            from_mapping({"a": "keys", "b": "cake"}, name="notes", embedder="light"), store=inner
        ) as corpus:
            assert inner.calls[Change] >= 1
            store = ScriptedStore(corpus.store)
            async with traverse("keys", replace(corpus, store=store), policy=Eager(seeding="dense")) as walk:
                assert [hit.artifact_id async for hit in walk] == ["a", "b"]
        assert (store.calls[Edges], store.most_running) == (1, 1)
        assert [kind for kind in map(type, store.log) if kind in (Rank, Edges)][:2] == [Rank, Edges]

    @pytest.mark.parametrize(
        ("script", "said"),
        [
            ({"delays": {"counts": 1}}, "'counts' is no kind of request"),
            ({"failures": {Fed: StoreError()}}, "Fed"),
            ({"failures": {MemoryStore: StoreError()}}, "MemoryStore"),
            ({"delays": -1}, "-1"),
            ({"delays": {Config: [0, math.nan]}}, "nan"),
            ({"delays": {Config: ["1"]}}, "'1'"),
            ({"failures": {Config: ["gone"]}}, "'gone'"),
        ],
    )
    def test_an_invalid_script_is_refused_on_construction(self, script, said):
        with pytest.raises(ArgumentError, match=said) as caught:
            ScriptedStore(MemoryStore(), **script)
        assert "\n" not in str(caught.value)


@BACKENDS
class TestVirtualClock:
    def test_an_hour_of_sleep_takes_no_real_time(self, backend):
        async def main():
            for _ in range(60):
                await anyio.sleep(60)
            return anyio.current_time()

        start = time.perf_counter()
        assert run_on_virtual_clock(main, backend=backend) == 3600
        assert time.perf_counter() - start < PATIENCE

    def test_weeks_take_no_longer_than_hours(self, backend):
        async def main():
            await anyio.sleep(21 * 24 * 3600)
            return anyio.current_time()

        assert run_on_virtual_clock(main, backend=backend) == 21 * 24 * 3600

    def test_sleepers_wake_in_the_order_of_their_times(self, backend):
        woken = []

        async def sleep(seconds):
            await anyio.sleep(seconds)
            woken.append((seconds, anyio.current_time()))

        async def main():
            async with anyio.create_task_group() as group:
                for seconds in (3, 0.25, 100, 1, 0.5):
                    group.start_soon(sleep, seconds)

        run_on_virtual_clock(main, backend=backend)
        assert woken == [(seconds, seconds) for seconds in (0.25, 0.5, 1, 3, 100)]

    def test_timeouts_are_exact(self, backend):
        async def times_out(patience, seconds):
            with anyio.move_on_after(patience) as scope:
                await anyio.sleep(seconds)
            return scope.cancelled_caught

        async def main():
            outcomes = [await times_out(1, 1.0000001), await times_out(1, 0.9999999), await times_out(0, 1e-6)]
            with pytest.raises(TimeoutError):
                with anyio.fail_after(0.5):
                    await anyio.sleep(0.75)
            return outcomes, round(anyio.current_time(), 7)

        assert run_on_virtual_clock(main, backend=backend) == ([True, False, True], 2.4999999)

    def test_the_clock_stands_still_while_code_runs(self, backend):
        async def main():
            with anyio.move_on_after(0.001) as scope:
                time.sleep(0.01)  # noqa: ASYNC251 - it holds up the loop on purpose
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
            return scope.cancelled_caught, anyio.current_time()

        assert run_on_virtual_clock(main, backend=backend) == (False, 0)

    def test_a_worker_thread_takes_no_time(self, backend):
        async def main():
            with anyio.move_on_after(0.01) as scope:
                await anyio.to_thread.run_sync(time.sleep, 0.1)
                woken = anyio.current_time()
                await anyio.sleep(0.004)
            return scope.cancelled_caught, woken, anyio.current_time()

        assert run_on_virtual_clock(main, backend=backend) == (False, 0, 0.004)

    def test_an_idle_worker_thread_delays_nothing(self, backend):
        async def main():
            await anyio.to_thread.run_sync(int)
            start = time.perf_counter()
            for _ in range(1_000):
                await anyio.sleep(60)
            return time.perf_counter() - start

        assert run_on_virtual_clock(main, backend=backend) < PATIENCE

    def test_threads_of_others_delay_nothing(self, backend):
        async def main():
            start = time.perf_counter()
            for _ in range(1_000):
                await anyio.sleep(60)
            return time.perf_counter() - start

        times_out = threading.Event()
        thread = threading.Thread(target=times_out.wait)
        thread.start()
        try:
            assert run_on_virtual_clock(main, backend=backend) < PATIENCE
        finally:
            times_out.set()
            thread.join()

    @pytest.mark.slow
    def test_the_clock_does_not_wait_for_ever_for_a_thread_that_waits_for_the_loop(self, backend):
        async def main():
            await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(anyio.sleep, 3600))
            return anyio.current_time()

        assert run_on_virtual_clock(main, backend=backend) == 3600

    def test_another_thread_has_a_few_milliseconds_to_wake_the_loop(self, backend):
        async def main():
            done = anyio.Event()

            def work():
                time.sleep(0.002)
                portal.call(done.set)

            async with anyio.from_thread.BlockingPortal() as portal:
                with anyio.move_on_after(60) as scope:
                    thread = threading.Thread(target=work)
                    thread.start()
                    await done.wait()
            thread.join()
            return scope.cancelled_caught

        assert run_on_virtual_clock(main, backend=backend) is False

    def test_arguments_are_passed_and_errors_are_raised_unchanged(self, backend):
        async def divide(one, two):
            return one / two

        assert run_on_virtual_clock(divide, 6, 3, backend=backend) == 2
        with pytest.raises(ZeroDivisionError):
            run_on_virtual_clock(divide, 6, 0, backend=backend)

    def test_a_walk_with_a_timeout_yields_the_layers_complete_by_then(self, backend):
        """Each request for edges takes 3 seconds of the 10; the fourth would be answered at 12."""
        ring = {"a": "0", "b": "0", "c": "0", "d": "0"}

        async def main():
            links = extractor_from(lambda name, _: {"NEXT": [chr(ord(name) + 1)]}, id="next")
            source = from_mapping(ring, name="ring", embedder="light", edge_extractor=links)
            async with build(source, store=MemoryStore()) as corpus:
                store = ScriptedStore(corpus.store, delays={Edges: 3})
                policy = Eager(start_k=0, roots=["a"], select_k=None)
                async with traverse("0", replace(corpus, store=store), policy=policy, timeout=10) as walk:
                    times = [(hit.artifact_id, anyio.current_time()) async for hit in walk]
            return times, walk.summary.stop, walk.summary.seconds, store.running

        times, *end = run_on_virtual_clock(main, backend=backend)
        assert [id for id, _ in times] == [*ring][: len(times)]
        assert {9} <= {at for _, at in times} <= {0, 3, 6, 9}
        assert end == ["timeout", 10, 0]


def test_a_store_on_threads_of_its_own_is_waited_for(tmp_path):
    async def main():
        async with await SqliteStore.open(tmp_path / "corpus", create=True) as store:
            with anyio.move_on_after(60) as scope:
                await store.apply(Change(config={"a": 1}))
                config = await ask(store, Config())
            return config, scope.cancelled_caught

    assert run_on_virtual_clock(main) == ({"a": 1}, False)


def test_another_backend_is_refused():
    with pytest.raises(ArgumentError, match="'asyncio', 'trio'"):
        run_on_virtual_clock(anyio.sleep, 1, backend="curio")


def test_a_missing_trio_is_an_error_that_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "trio.testing", None)
    with pytest.raises(ArgumentError, match="pip install trio"):
        run_on_virtual_clock(anyio.sleep, 1, backend="trio")

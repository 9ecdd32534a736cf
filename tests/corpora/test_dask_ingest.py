"""An engine without knowledge of airw runs an ingest.

Dask runs three worker processes, one of which is killed midway.
"""

import logging
import os
import signal
from contextlib import contextmanager

import anyio
import psutil
import pytest

from airw.corpora import build, finish_ingest, prepare_ingest
from airw.stores import MemoryStore, SqliteStore
from tests.support import partitions_work as work
from tests.support.stored import content_of
from tests.support.waiting import wait_until

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


@contextmanager
def cluster(folder):
    """Yield the client of three processes on this machine that run one task at a time."""
    local = distributed.LocalCluster(
        n_workers=3,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        local_directory=str(folder),
        silence_logs=logging.CRITICAL,
    )
    with local, distributed.Client(local) as client:
        yield client


async def read_partitions(plan):
    """Return the numbers of the partitions in the corpus."""
    async with await SqliteStore.open(plan.store) as store:
        return list((await store.read_run(plan.run))[1])


async def finish_and_check(plan):
    async with finish_ingest(plan, partitions=work.PARTS) as corpus:
        one = await build(work.source(whole=True), store=MemoryStore())
        ours, theirs = corpus.report, one.report
        assert (ours.added, ours.updated, ours.unchanged) == (theirs.added, theirs.updated, theirs.unchanged)
        assert ours.problems == theirs.problems
        assert await content_of(corpus.store) == await content_of(one.store)


def test_dask_with_one_of_three_workers_killed_midway_leaves_the_corpus_of_one_build(tmp_path):
    source, store = work.source(), tmp_path / "notes.airw"
    plan = anyio.run(lambda: prepare_ingest(source, store=store))
    with cluster(tmp_path / "dask") as client:
        workers = client.run(os.getpid)
        assert len({*workers.values(), os.getpid()}) == 4
        go_on = tmp_path / "go on"
        calls = zip(*[(plan, number, go_on) for number in range(work.PARTS)], strict=True)
        parts = client.map(work.ingest_in_halves, *calls, pure=False)
        wait_until(lambda: len(anyio.run(read_partitions, plan)) >= 6)
        os.kill(next(iter(workers.values())), signal.SIGKILL)
        go_on.touch()
        reports = client.gather(parts)
        later = wait_until(lambda: set(client.run(os.getpid).values()) - set(workers.values()))  # in its place
    assert [report.number for report in reports] == list(range(work.PARTS))
    assert sum(report.added for report in reports) == work.PARTS * work.SIZE
    anyio.run(finish_and_check, plan)
    assert not any(map(psutil.pid_exists, [*workers.values(), *later]))

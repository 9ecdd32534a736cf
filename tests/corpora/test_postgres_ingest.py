"""An ingest by workers that share nothing but a PostgreSQL server.

Three processes of Dask, each with a working folder, a home of airw and an environment of its own. One is killed midway.
"""

import logging
import os
import pickle
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from airw.corpora import CorpusAddress, build, finish_ingest, home, ingest_partition, open_store, prepare_ingest
from airw.errors import PartitionsMissing, SourceError
from airw.protocols import ArtifactIds, ask
from airw.stores import MemoryStore, PostgresStore
from tests.support import partitions_work as work
from tests.support.postgres import PostgresServer, drop_corpus, fresh_name, get_server, server_dsn
from tests.support.stored import content_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PASSWORD = "s3cret"


@pytest.fixture(scope="module")
def address():
    """The address of a server that asks for a password, which only the environment has."""
    with PostgresServer(listens=True) as server:
        for statement in (
            f"CREATE ROLE ada LOGIN PASSWORD '{PASSWORD}'",
            "GRANT CREATE ON DATABASE postgres TO ada",
            "CREATE EXTENSION vector",
        ):
            anyio.run(server.execute, statement)
        yield server.tcp_dsn("ada", password="$KB_PASSWORD")


@contextmanager
def start_workers(scheduler, folder, count=3):
    """Start workers of Dask, each in a folder of its own, and kill them at the end."""
    with ExitStack() as stack:
        workers = []
        for number in range(count):
            place = folder / f"machine{number}"
            (place / "home").mkdir(parents=True)
            environment = os.environ | {
                "AIRW_HOME": str(place / "home"),
                "HOME": str(place),
                "KB_PASSWORD": PASSWORD,
                "PYTHONPATH": str(work.ROOT),
            }
            command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--nthreads=1", "--no-nanny"]
            command += ["--no-dashboard", f"--local-directory={place}", f"--name=machine{number}"]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            worker = stack.enter_context(subprocess.Popen(command, env=environment, cwd=place, **quiet))
            stack.callback(worker.kill)
            workers.append(worker)
        yield workers


async def read_partitions(plan):
    async with await open_store(plan.store) as store:
        return list((await store.read_run(plan.run))[1])


async def finish_and_check(plan):
    async with finish_ingest(plan, partitions=work.PARTS) as corpus:
        one = await build(work.source(whole=True), store=MemoryStore())
        ours, theirs = corpus.report, one.report
        assert (ours.added, ours.updated, ours.unchanged) == (theirs.added, theirs.updated, theirs.unchanged)
        assert ours.problems == theirs.problems
        assert await content_of(corpus.store) == await content_of(one.store)


def test_workers_of_other_machines_with_one_killed_midway_leave_the_corpus_of_one_build(address, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("KB_PASSWORD", PASSWORD)
    plan = anyio.run(lambda: prepare_ingest(work.source(), store=address))
    assert plan.store == CorpusAddress(address, "notes")
    assert PASSWORD.encode() not in pickle.dumps(plan)
    local = distributed.LocalCluster(
        n_workers=0, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
    )
    with local, distributed.Client(local) as client, start_workers(local.scheduler_address, tmp_path, 3) as workers:
        client.wait_for_workers(3, timeout=60)
        folders = client.run(Path.cwd)
        assert len({*folders.values(), Path.cwd()}) == 4
        go_on = tmp_path / "go on"
        calls = zip(*[(plan, number, go_on) for number in range(work.PARTS)], strict=True)
        parts = client.map(work.ingest_in_halves, *calls, pure=False)
        wait_until(lambda: len(anyio.run(read_partitions, plan)) >= 6)
        workers[0].send_signal(signal.SIGKILL)
        go_on.touch()
        reports = client.gather(parts)
    assert [report.number for report in reports] == list(range(work.PARTS))
    assert sum(report.added for report in reports) == work.PARTS * work.SIZE
    anyio.run(finish_and_check, plan)
    assert not any(psutil.pid_exists(worker.pid) for worker in workers)
    # Nothing of the corpus is in the home of any machine.
    assert not list(tmp_path.rglob("*.airw*"))
    assert not (home() / "corpora").exists()


@pytest.mark.asyncio_only
class TestOneProcess:
    """The same calls without an engine: repeats, ends and errors."""

    @pytest.fixture
    async def store(self):
        name = fresh_name("ingest")
        yield f"{server_dsn()}#{name}"
        await drop_corpus(server_dsn(), name)

    async def test_a_partition_is_written_once_and_missing_ones_are_named(self, store):
        plan = pickle.loads(pickle.dumps(await prepare_ingest(work.source(), store=store)))
        first = await ingest_partition(plan, 1, work.part(1))
        assert first == await ingest_partition(plan, 1, work.part(1))
        with pytest.raises(PartitionsMissing) as caught:
            await finish_ingest(plan, partitions=3)
        assert caught.value.partitions == (0, 2)
        for number in (0, 2):
            await ingest_partition(plan, number, work.part(number))
        async with finish_ingest(plan, partitions=3) as corpus:
            assert corpus.report.added == 3 * work.SIZE
            assert isinstance(corpus.store, PostgresStore)
        with pytest.raises(SourceError, match="has ended"):
            await ingest_partition(plan, 1, work.part(1))

    async def test_a_later_ingest_embeds_only_what_changed_and_prunes_the_rest(self, store):
        plan = await prepare_ingest(work.source(), store=store)
        for number in range(2):
            await ingest_partition(plan, number, work.part(number))
        await (await finish_ingest(plan, partitions=2)).aclose()
        plan = await prepare_ingest(work.source(), store=store)
        report = await ingest_partition(plan, 0, work.part(0) | {"0000": "new text"})
        assert (report.updated, report.unchanged) == (1, work.SIZE - 1)
        async with finish_ingest(plan, partitions=1) as corpus:
            assert corpus.report.removed == work.SIZE
            assert await ask(corpus.store, ArtifactIds()) == sorted(work.part(0))

    async def test_workers_write_at_the_same_time(self, store):
        plan = await prepare_ingest(work.source(), store=store)
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(ingest_partition, plan, number, work.part(number))
                group.start_soon(ingest_partition, plan, number, work.part(number))
        async with finish_ingest(plan, partitions=8) as corpus:
            assert corpus.report.added == 8 * work.SIZE

    async def test_the_tables_are_settled_once_at_the_end(self, store):
        plan, size = await prepare_ingest(work.source(), store=store), 600
        name = store.partition("#")[2]

        async def read_visible():
            [row] = await get_server().fetch(
                "SELECT reltuples, relallvisible FROM pg_class WHERE oid = to_regclass($1)", f"airw_{name}.record"
            )
            return tuple(row)

        for number in range(2):
            await ingest_partition(plan, number, {f"{number * size + at}": "signing keys" for at in range(size)})
        assert await read_visible() == (-1, 0)  # nobody has counted the rows
        async with finish_ingest(plan, partitions=2):
            count, pages = await read_visible()
        assert count == 2 * size
        assert pages > 0

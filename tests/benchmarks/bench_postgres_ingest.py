"""An ingest by Dask into a PostgreSQL server, with one worker and two, beside one build.

There are 20,000 records of 60 words, with the light embedder, in partitions of 1,000. The workers run before the clock
starts, and read their items from a file. Also: what one more worker and one more partition cost.
"""

import json
import sys
import time
from contextlib import contextmanager

import anyio
import cloudpickle
from distributed import Client, LocalCluster

from airw.corpora import build, finish_ingest, ingest_partition, prepare_ingest
from airw.sources import CorpusSource, from_mapping
from airw.values import Artifact
from tests.benchmarks.results import run_in_turn
from tests.support.postgres import PostgresServer, drop_corpus

QUESTION = "What does one more worker cost?"
RECORDS, PER_PARTITION, ROUNDS, FEW = 20_000, 1_000, 2, 10


def ingest(plan, number, file):
    """Read and ingest one partition in a worker."""
    return anyio.run(ingest_partition, plan, number, json.loads(file.read_text()))


@contextmanager
def start_cluster(workers, folder):
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", local_directory=str(folder)
        ) as local,
        Client(local) as client,
    ):
        client.wait_for_workers(workers)
        client.run(__import__, "airw.stores.postgres.store")
        yield local, client


def prepare(dsn):
    return anyio.run(lambda: prepare_ingest(from_mapping({}, name="many", embedder="light"), store=dsn))


async def run_build(dsn, files):
    def pages():
        for file in files:
            yield [Artifact(name, text) for name, text in json.loads(file.read_text()).items()]

    async with build(CorpusSource("many", pages, embedder="light"), store=dsn) as corpus:
        assert corpus.report.added == RECORDS


def run_ingest(dsn, files, client):
    plan = prepare(dsn)
    client.gather(client.map(ingest, [plan] * len(files), range(len(files)), files, pure=False))

    async def finish():
        async with finish_ingest(plan, partitions=len(files)) as corpus:
            assert corpus.report.added == RECORDS

    anyio.run(finish)


def test_workers_beside_one_build(make_texts, results, tmp_path):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not find this file
    texts, files = make_texts(RECORDS), []
    for first in range(0, RECORDS, PER_PARTITION):
        files.append(tmp_path / f"{first}.json")
        part = {str(first + at): text for at, text in enumerate(texts[first : first + PER_PARTITION])}
        files[-1].write_text(json.dumps(part))
    with (
        PostgresServer(settings={"shared_buffers": "256MB"}) as server,
        start_cluster(1, tmp_path / "one") as (_, one),
        start_cluster(2, tmp_path / "two") as (two_workers, two),
    ):
        dsn = server.dsn()

        def fresh(run):
            def measure():
                anyio.run(drop_corpus, dsn, "many")
                start = time.perf_counter()
                run()
                return time.perf_counter() - start

            return measure

        rounds = run_in_turn(
            {
                "airw": fresh(lambda: run_ingest(dsn, files, two)),
                "1 worker": fresh(lambda: run_ingest(dsn, files, one)),
                "one build": fresh(lambda: anyio.run(run_build, dsn, files)),
            },
            rounds=ROUNDS,
            scale=1,
        )
        work = f"ingest {RECORDS:,} records with 2 workers on 2 cores"
        results.compare(QUESTION, work, rounds, {"1 worker": None, "one build": None}, unit="s")
        more = start_more(two_workers, two)
        results.amount(QUESTION, "one more worker, until it has imported airw", more, goal=None, unit="s")
        results.amount(QUESTION, "one more partition, of one record", ingest_few(dsn), goal=None, unit="ms")


def start_more(local, client):
    """Return the seconds until another worker has joined and imported what it needs."""
    seconds = []
    for workers in range(3, 3 + ROUNDS):
        start = time.perf_counter()
        local.scale(workers)
        client.wait_for_workers(workers)
        client.run(__import__, "airw.stores.postgres.store")
        seconds.append(time.perf_counter() - start)
    return seconds


def ingest_few(dsn):
    """Return the milliseconds of each of some partitions of one record, in this process."""
    anyio.run(drop_corpus, dsn, "many")
    plan, times = prepare(dsn), []
    for number in range(FEW):
        start = time.perf_counter()
        anyio.run(ingest_partition, plan, number, {f"n{number}": "signing keys"})
        times.append((time.perf_counter() - start) * 1e3)
    return times[1:]

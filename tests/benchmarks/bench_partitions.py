"""A build compared with an ingest in partitions by Dask, with one worker process and two.

There are 100,000 records of 60 words, with the light embedder. All read the same files, one per partition. Each run
starts with workers that have imported what they need, as in an existing cluster. Two workers can win at most the work
of both cores, since a build already embeds in one thread while it writes in another.
"""

import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import anyio
import cloudpickle
from distributed import Client, LocalCluster

from airw.corpora import build, finish_ingest, ingest_partition, prepare_ingest
from airw.sources import CorpusSource, from_mapping
from airw.values import Artifact

RECORDS, PER_PARTITION, RUNS = 100_000, 2_000, 2
PARTIES = ("build", "partitions, no engine", "1 worker", "2 workers")


def read(file: Path) -> dict[str, str]:
    return json.loads(file.read_text())


def ingest(plan, number: int, file: Path):
    """Read and ingest one partition in a worker."""
    return anyio.run(ingest_partition, plan, number, read(file))


@contextmanager
def client_of(workers: int, folder: Path):
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", local_directory=str(folder)
        ) as local,
        Client(local) as client,
    ):
        client.run(__import__, "airw")
        yield client


def run_build(store: Path, files: list[Path]) -> int:
    def pages():
        for file in files:
            yield [Artifact(name, text) for name, text in read(file).items()]

    async def main():
        async with build(CorpusSource("many", pages, embedder="light"), store=store) as corpus:
            return corpus.report.added

    return anyio.run(main)


def ingest_files(store: Path, files: list[Path], run) -> int:
    """Ingest all files; `run` calls `ingest` with the plan and each number and file."""

    async def finish():
        async with finish_ingest(plan, partitions=len(files)) as corpus:
            return corpus.report.added

    plan = anyio.run(lambda: prepare_ingest(from_mapping({}, name="many", embedder="light"), store=store))
    run(plan, files)
    return anyio.run(finish)


def in_turn(plan, files: list[Path]) -> None:
    for number, file in enumerate(files):
        ingest(plan, number, file)


def by(client: Client):
    return lambda plan, files: client.gather(
        client.map(ingest, [plan] * len(files), range(len(files)), files, pure=False)
    )


def test_partitions_beside_one_build(make_texts, times, tmp_path):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not find this file
    texts, files = make_texts(RECORDS), []
    for start in range(0, RECORDS, PER_PARTITION):
        files.append(tmp_path / f"{start}.json")
        files[-1].write_text(
            json.dumps({str(start + at): t for at, t in enumerate(texts[start : start + PER_PARTITION])})
        )
    with client_of(1, tmp_path / "one") as one, client_of(2, tmp_path / "two") as two:
        ways = (
            lambda store: run_build(store, files),
            lambda store: ingest_files(store, files, in_turn),
            lambda store: ingest_files(store, files, by(one)),
            lambda store: ingest_files(store, files, by(two)),
        )
        for run in range(RUNS):
            for who, way in zip(PARTIES, ways, strict=True):
                store = tmp_path / f"{who} {run}.airw"
                start = time.perf_counter()
                assert way(store) == RECORDS
                times.note("ingest", who, start)
                store.unlink()
    first = times.typical("ingest", PARTIES[0])
    print(f"\n{RECORDS:,} records in {len(files)} partitions{'seconds':>12}{'records/s':>12}{'against build':>16}")
    for who in PARTIES:
        took = times.typical("ingest", who)
        print(f"{who:38}{took / 1000:12.2f}{RECORDS / took * 1000:12,.0f}{first / took:16.2f}")

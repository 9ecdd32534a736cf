"""Build a corpus on a PostgreSQL server with Dask: postgres_ingest.py [WORKERS].

AIRW_STORE is the address of a database, such as postgresql://ada:$KB_PASSWORD@db.example/kb, where KB_PASSWORD is an
environment variable that the workers have, too. They need no common files, so they may run on any machine.
"""

import os
import sys
from pathlib import Path

import anyio

from airw import Artifact, from_mapping
from airw.corpora import IngestPlan, PartitionReport, finish_ingest, ingest_partition, prepare_ingest
from airw.protocols import Counts, ask

PER_PARTITION = 32
NOTES = sorted((Path(__file__).parent / "data" / "eips").glob("*.md"))


def ingest(plan: IngestPlan, number: int, items: list[Artifact]) -> PartitionReport:
    """Index one partition. Dask may run this on any machine, and may run it again."""
    return anyio.run(ingest_partition, plan, number, items)


async def prepare(store: str) -> IngestPlan:
    """Return the plan that each partition needs; it contains no password."""
    return await prepare_ingest(from_mapping({}, name="eips"), store=store, embedder="light")


async def finish(plan: IngestPlan, partitions: int) -> None:
    """Check that no partition is missing, then search the corpus."""
    async with finish_ingest(plan, partitions=partitions) as corpus:
        counts = await ask(corpus.store, Counts())
        print(f"{counts['artifacts']} artifacts in {partitions} partitions on {plan.store}")
        for hit in await corpus.search("sign typed structured data", k=3, mode="lexical"):
            print(f"{hit.score:.3f}  {hit.artifact_id}")


def main(workers: int) -> None:
    """Ingest the partitions; for a Dask cluster that exists, pass its address to `Client`."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        print("this example needs Dask: pip install 'airw[dask,postgres]'")
        return
    plan = anyio.run(prepare, os.environ["AIRW_STORE"])
    items = [Artifact(file.name, file.read_text(encoding="utf-8")) for file in NOTES]
    parts = [items[first : first + PER_PARTITION] for first in range(0, len(items), PER_PARTITION)]
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        for report in client.gather(client.map(ingest, [plan] * len(parts), range(len(parts)), parts, pure=False)):
            print(f"partition {report.number}: {report.added} added")
    anyio.run(finish, plan, len(parts))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)

"""Build a corpus with several processes and Dask: dask_ingest.py [WORKERS]."""

import sys
import tempfile
from pathlib import Path

import anyio

from airw import Artifact, from_mapping
from airw.corpora import IngestPlan, PartitionReport, finish_ingest, ingest_partition, prepare_ingest
from airw.protocols import Counts, ask

PER_PARTITION = 32
NOTES = sorted((Path(__file__).parent / "data" / "eips").glob("*.md"))


def ingest(plan: IngestPlan, number: int) -> PartitionReport:
    """Read and index one partition. Dask may run this in any process, and may run it again."""
    files = NOTES[number * PER_PARTITION : (number + 1) * PER_PARTITION]
    items = [Artifact(file.name, file.read_text(encoding="utf-8")) for file in files]
    return anyio.run(ingest_partition, plan, number, items)


async def prepare(store: Path) -> IngestPlan:
    """Return the plan that each partition needs: how to index, and the path of the store."""
    return await prepare_ingest(from_mapping({}, name="eips"), store=store, embedder="light")


async def finish(plan: IngestPlan, partitions: int) -> None:
    """Check that no partition is missing, then search the corpus."""
    async with finish_ingest(plan, partitions=partitions) as corpus:
        counts = await ask(corpus.store, Counts())
        print(f"{counts['artifacts']} artifacts in {partitions} partitions")
        for hit in await corpus.search("sign typed structured data", k=3, mode="lexical"):
            print(f"{hit.score:.3f}  {hit.artifact_id}")


def main(workers: int) -> None:
    """Ingest the partitions in the workers of a local Dask cluster."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        print("this example needs Dask: pip install 'airw[dask]'")
        return
    numbers = range(len(NOTES[::PER_PARTITION]))
    with tempfile.TemporaryDirectory() as folder:
        plan = anyio.run(prepare, Path(folder, "eips.airw"))
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", local_directory=folder
            ) as cluster,
            Client(cluster) as client,
        ):
            for report in client.gather(client.map(ingest, [plan] * len(numbers), numbers, pure=False)):
                print(f"partition {report.number}: {report.added} added")
        anyio.run(finish, plan, len(numbers))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)

"""Ingest linked notes in partitions, with the light embedder, in worker processes."""

import os
import pickle
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio

from airw.corpora import ingest_partition
from airw.embedders import HashingEmbedder
from airw.links import extractor_from
from airw.sources import from_mapping
from tests.support.waiting import wait_until

PARTS, SIZE = 30, 20
ROOT = Path(__file__).parents[2]


def ring(name, _):
    return {"NEXT": [f"{(int(name) + 1) % (PARTS * SIZE):04}", "missing"]}


def word(name, text):
    return {"word": text.split()[0], "tens": int(name) // 10}


def part(number):
    """Return the items of one partition."""
    return {
        f"{position:04}": f"alpha {position}" + " filler" * 20 for position in range(number * SIZE, (number + 1) * SIZE)
    }


def source(*, whole=False):
    """Return a source of all items, or of none, with the indexing settings."""
    items = {name: text for number in range(PARTS) for name, text in part(number).items()} if whole else {}
    return from_mapping(
        items, name="notes", embedder="light", edge_extractor=extractor_from(ring, id="ring"), metadata_of=word
    )


def ingest(plan, number):
    """Ingest a partition in a process without an event loop."""
    return anyio.run(ingest_partition, plan, number, part(number))


def ingest_in_halves(plan, number, go_on):
    """Ingest a partition; those of the second half wait until the file `go_on` exists."""
    if number >= PARTS // 2:
        wait_until(Path(go_on).exists)
    return ingest(plan, number)


class Counting:
    """The light embedder, recording the texts that it embeds."""

    def __init__(self):
        self.embedder, self.texts = HashingEmbedder(), []
        self.id, self.dim, self.embed_query = self.embedder.id, self.embedder.dim, self.embedder.embed_query

    async def embed_documents(self, texts):
        self.texts += texts
        return await self.embedder.embed_documents(texts)


class Waiting(Counting):
    """An embedder that waits for `go`."""

    def __init__(self):
        super().__init__()
        self.asked, self.go = anyio.Event(), anyio.Event()

    async def embed_documents(self, texts):
        self.asked.set()
        await self.go.wait()
        return await super().embed_documents(texts)


@contextmanager
def start_workers(plan, first, workers=2):
    """Start processes that each ingest three partitions of a pickled plan.

    They begin with the partition `first` and others far from it. They never end by themselves, and are killed.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with ExitStack() as stack:
        running = []
        for number in range(workers):
            command = [sys.executable, __file__, str(plan), str(first + number * PARTS // workers)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            worker = subprocess.Popen(command, env=environment, text=True, **pipes)
            stack.enter_context(worker)
            stack.callback(worker.kill)
            running.append(worker)
        yield running


if __name__ == "__main__":
    PLAN = pickle.loads(Path(sys.argv[1]).read_bytes())
    for step in range(3):
        ingest(PLAN, (int(sys.argv[2]) + step) % PARTS)
        print(step, flush=True)
    sys.stdin.read()

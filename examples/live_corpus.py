"""A memory that changes while others search it: python examples/live_corpus.py."""

import tempfile
from pathlib import Path

import anyio

import airw

EVENTS = [
    ("put", {"deploy": "the deploy runs on Fridays", "keys": "signing keys live in the vault"}),
    ("put", {"deploy": "the deploy runs on Mondays now"}),
    ("put", {"oncall": "Ada is on call until the next deploy"}),
    ("drop", ["keys"]),
]


async def write(memory: airw.Corpus, written: anyio.Event) -> None:
    """Change the corpus, event by event."""
    for kind, change in EVENTS:
        if isinstance(change, dict):
            report = await memory.upsert(change)
            print(f"{kind}: {report.added} added, {report.updated} updated")
        else:
            print(f"{kind}: {await memory.delete(change)} removed")
        await anyio.sleep(0.05)
    written.set()


async def watch(path: Path, written: anyio.Event) -> None:
    """Search through a connection of its own, and say what has become of the answer."""
    async with airw.open_corpus(path) as memory:
        told = None
        while not written.is_set():
            hits = await memory.search("when is the deploy", mode="lexical", k=1)
            now = hits[0].text if hits else "nothing"
            if now != told:
                print(f"  the reader finds: {now}")
                told = now
            await anyio.sleep(0.01)


async def main() -> None:
    """Build an empty corpus, then read it and write to it at once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.airw")
        written = anyio.Event()
        empty = airw.from_mapping({}, name="memory", embedder="light")
        async with airw.build(empty, store=path) as memory, anyio.create_task_group() as group:
            group.start_soon(watch, path, written)
            group.start_soon(write, memory, written)


if __name__ == "__main__":
    anyio.run(main)

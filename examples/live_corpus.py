"""A corpus that changes while another connection searches it: live_corpus.py."""

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


async def write(memory: airw.Corpus, finished: anyio.Event) -> None:
    """Apply the events to the corpus one by one."""
    for kind, change in EVENTS:
        if isinstance(change, dict):
            report = await memory.upsert(change)
            print(f"{kind}: {report.added} added, {report.updated} updated")
        else:
            print(f"{kind}: {await memory.delete(change)} removed")
        await anyio.sleep(0.05)
    finished.set()


async def watch(path: Path, finished: anyio.Event) -> None:
    """Search in a loop through a second connection; print the answer when it changes."""
    async with airw.open_corpus(path) as memory:
        last_answer = None
        while not finished.is_set():
            hits = await memory.search("when is the deploy", mode="lexical", k=1)
            answer = hits[0].text if hits else "nothing"
            if answer != last_answer:
                print(f"  the reader finds: {answer}")
                last_answer = answer
            await anyio.sleep(0.01)


async def main() -> None:
    """Build an empty corpus, then read and write it at the same time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.airw")
        finished = anyio.Event()
        empty = airw.from_mapping({}, name="memory", embedder="light")
        async with airw.build(empty, store=path) as memory, anyio.create_task_group() as group:
            group.start_soon(watch, path, finished)
            group.start_soon(write, memory, finished)


if __name__ == "__main__":
    anyio.run(main)

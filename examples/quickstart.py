"""Index a folder of linked notes and stream a walk over them: quickstart.py [QUESTION]."""

import sys
from pathlib import Path

import anyio

import airw

NOTES = Path(__file__).parent / "data" / "eips"


async def main(question: str) -> None:
    """Print each hit as soon as it is committed, with its path; then why the walk stopped."""
    source = airw.from_notes(NOTES, embedder="light")
    async with (
        airw.build(source, store=airw.stores.MemoryStore()) as corpus,
        airw.traverse(question, corpus, node_budget=8, timeout=30) as walk,
    ):
        async for hit in walk:
            print(f"{hit.score:.3f}  {' > '.join(hit.metadata['walk_path'])}  {hit.metadata['title']}")
    print(f"stopped: {walk.summary.stop if walk.summary else 'never started'}")


if __name__ == "__main__":
    anyio.run(main, " ".join(sys.argv[1:]) or "how do wallets sign typed structured data")

"""Show the links around a note and a path to another: linked_notes.py [FROM TO]."""

import sys
import tempfile
from pathlib import Path

import anyio

import airw
from airw.views import TreeReader, TreeTextWriter, describe, path_text, tree_page, walk_links

NOTES = Path(__file__).parent / "data" / "eips"


async def main(start: str, end: str) -> None:
    """Print the links around a note while walking, then a path to another; write a page."""
    source = airw.from_notes(NOTES, embedder="light")
    async with airw.build(source, store=airw.stores.MemoryStore()) as corpus:
        writer, reader = TreeTextWriter(), TreeReader(direction="out", max_hops=2)
        async with walk_links(corpus, [start], direction="out", max_hops=2) as walk:
            async for event in walk.events():
                reader.add(event)
                for line in writer.add(event):
                    print(line, flush=True)

        path = await airw.CorpusGraph(corpus).path(start, end)
        print()
        print(path_text(path, await describe(corpus, path.nodes)))

    page = Path(tempfile.gettempdir()) / "linked_notes.html"
    await anyio.Path(page).write_text(tree_page(reader.tree()), encoding="utf-8")
    print(f"\n{page} draws the walk; open it in a browser")


if __name__ == "__main__":
    anyio.run(main, *(sys.argv[1:3] if len(sys.argv) > 2 else ("eip-712.md", "eip-4337.md")))

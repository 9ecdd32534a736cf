"""Search three corpora at once; one is slow, one fails: many_corpora.py [QUESTION]."""

import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio

import airw

NOTES = Path(__file__).parent / "data" / "eips"
LIGHT = airw.embedders.HashingEmbedder()
TICKETS = {"t-1": "the wallet shows typed data as hex", "t-2": "signing fails on a hardware wallet"}
CHATS = {"c-1": "who knows how wallets sign typed structured data", "c-2": "lunch at noon"}


class Remote:
    """An embedder that behaves like a remote model: it is slow or fails."""

    def __init__(self, name: str, seconds: float, error: airw.errors.EmbedderError | None = None) -> None:
        self.id, self.dim, self.seconds, self.error = name, LIGHT.dim, seconds, error

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        """Embed without delay, so that the build is fast."""
        return await LIGHT.embed_documents(texts)

    async def embed_query(self, text: str) -> Any:
        """Embed a query after a delay, or raise the error."""
        await anyio.sleep(self.seconds)
        if self.error:
            raise self.error
        return await LIGHT.embed_query(text)


async def main(question: str) -> None:
    """Print each corpus as it answers, with the hits final by then; then what was chosen."""
    broken = Remote("broken", 0.1, airw.errors.EmbedderError("the model's server refuses connections"))
    sources = [
        airw.from_notes(NOTES, name="eips", embedder="light"),
        airw.from_mapping(TICKETS, name="tickets", embedder=Remote("slow", 0.4)),
        airw.from_mapping(CHATS, name="chats", embedder=broken),
    ]
    async with AsyncExitStack() as stack:
        builds = [airw.build(source, store=airw.stores.MemoryStore()) for source in sources]
        corpora = [await stack.enter_async_context(build) for build in builds]
        async with airw.discover_stream(corpora, question, source_timeout=30) as updates:
            async for update in updates:
                if isinstance(update, airw.discovery.SourceAnswered):
                    final = [hit.artifact_id for hit in update.final]
                    print(f"{update.source}: {update.report['error'] or len(update.hits)}; final so far: {final}")
                else:
                    print(f"committed to {update.ids}: {update.reason}")


if __name__ == "__main__":
    anyio.run(main, " ".join(sys.argv[1:]) or "how do wallets sign typed structured data")

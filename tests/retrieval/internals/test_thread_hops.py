"""A search switches threads as often as its parts must, and no more."""

import anyio.to_thread
import numpy as np
import pytest

import airw
from airw.corpora import build
from airw.embedders import HashingEmbedder, embedder_from
from airw.sources import from_mapping
from airw.stores import MemoryStore, SqliteStore
from airw.stores.sqlite._connection import Connection

pytestmark = pytest.mark.asyncio_only

TEXTS = {f"{at}": f"rotate the keys {at}" for at in range(20)}


@pytest.fixture
def hops(monkeypatch):
    """Collect the switches to a worker thread, and to the thread of a connection."""
    seen, run_sync, submit = [], anyio.to_thread.run_sync, Connection._submit

    def note_worker(*args, **options):
        seen.append("worker")
        return run_sync(*args, **options)

    def note_connection(*args, **options):
        seen.append("connection")
        return submit(*args, **options)

    monkeypatch.setattr(anyio.to_thread, "run_sync", note_worker)
    monkeypatch.setattr(Connection, "_submit", note_connection)
    return seen


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
@pytest.mark.parametrize("embedder", ["light", "function"])
async def test_a_search_switches_threads_only_for_records_of_a_file_and_for_a_function_that_embeds(
    kind, embedder, hops, tmp_path
):
    """Few vectors, and words asked for before, are ranked without a switch."""
    light = HashingEmbedder()
    given = embedder_from(lambda texts: np.ones((len(texts), 4)), id="ones", dim=4)
    store = kind(tmp_path / "notes.airw") if kind is SqliteStore else kind()
    chosen = light if embedder == "light" else given
    async with store, build(from_mapping(TEXTS, name="notes"), store=store, embedder=chosen) as corpus:
        for _ in range(2):  # the first search reads the vectors, the second one begins to watch the file
            await airw.search(corpus, "keys", k=5)
        for mode in ("dense", "lexical", "hybrid"):
            hops.clear()
            assert len(await airw.search(corpus, "keys", k=5, mode=mode)) == 5
            records = ["connection"] if kind is SqliteStore else []
            embedding = ["worker"] if embedder == "function" and mode != "lexical" else []
            assert sorted(hops) == [*records, *embedding]

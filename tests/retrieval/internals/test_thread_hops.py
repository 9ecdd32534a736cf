"""A search switches threads as often as its parts must, and no more."""

import anyio.to_thread
import numpy as np
import pytest

import airw
from airw.corpora import build
from airw.embedders import HashingEmbedder, embedder_from
from airw.sources import from_mapping
from airw.stores import MemoryStore, SqliteStore

pytestmark = pytest.mark.asyncio_only

TEXTS = {f"{at}": f"rotate the keys {at}" for at in range(20)}


@pytest.fixture
def hops(monkeypatch):
    """Collect the switches to a worker thread."""
    seen, run_sync = [], anyio.to_thread.run_sync

    def note(function, *args, **options):
        seen.append(function)
        return run_sync(function, *args, **options)

    monkeypatch.setattr(anyio.to_thread, "run_sync", note)
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
            is_read, is_embedded = kind is SqliteStore, embedder == "function" and mode != "lexical"
            assert len(hops) == is_read + is_embedded

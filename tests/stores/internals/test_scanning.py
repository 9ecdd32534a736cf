"""The search that reads all vectors of a file once."""

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.stores import SqliteStore
from airw.stores.sqlite import _scanning
from airw.values import ArtifactChange, LedgerEntry, Record


def make_changes(sizes, rng):
    for number, size in enumerate(sizes):
        name = f"artifact {number}"
        records = [Record(Record.make_id(name, "chunk", at), name, "chunk", at, "text") for at in range(size)]
        rows = rng.standard_normal((size, 8)).astype(np.float32)
        yield ArtifactChange(
            LedgerEntry(name, "1", "e", "s"), records, rows / np.linalg.norm(rows, axis=1, keepdims=True)
        )


@settings(max_examples=8, deadline=None)
@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=30), k=st.integers(1, 4), seed=st.integers(0, 9))
def test_a_scan_finds_the_artifacts_that_the_index_finds(sizes, k, seed, tmp_path_factory):
    async def compare():
        rng = np.random.default_rng(seed)
        async with SqliteStore(tmp_path_factory.mktemp("scan") / "a.airw") as store:
            await store.apply(list(make_changes(sizes, rng)))
            queries = rng.standard_normal((5, 8)).astype(np.float32)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_scanning, "_BLOCK", 7)
                scanned = await store.scan_vectors(queries, k)
            found = await store.search_vectors(queries, k, per_artifact=True)
        for one, other in zip(scanned, found, strict=True):
            assert one.artifact_ids == other.artifact_ids
            assert one.record_ids == other.record_ids
            np.testing.assert_array_equal(one.scores, other.scores)

    anyio.run(compare)

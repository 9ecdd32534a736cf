"""The store of several corpora compared with one store that contains them all."""

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.discovery import _federated_store
from airw.values import Edge
from tests.support.artifact_corpora import EIGHTHS
from tests.support.drawing import examples
from tests.support.federations import Federation, part, split_of


@pytest.mark.slow
@pytest.mark.parametrize("many", [1000, 0])
@given(number=st.integers(0, 2**32))
@settings(max_examples=examples(10))
def test_the_federated_store_answers_like_one_store_of_all_records(many, number):
    """Also if a merge is so large that a worker thread does it."""
    split = split_of(number)
    ids, query = sorted(split.graph.items), split.graph.query
    nodes = [*ids, "none"]

    async def main():
        async with part(split.graph.items) as one, Federation(split.parts) as several:
            far = several.store
            pairs = [split.pair(id) if id in split.home else ("zoo", "none") for id in nodes]
            row = np.array(await EIGHTHS.embed_query(query), np.float32)
            for direction in ("out", "in", "both"):
                here = await one.store.neighbors(nodes, direction=direction, limit=3)
                there = await far.neighbors(pairs, direction=direction, limit=3)
                named = [
                    [Edge(split.pair(each.source), split.pair(each.target), each.type, each.origin) for each in edges]
                    for edges in here
                ]
                assert there == named
            lists = await one.store.referrers(ids, types=["x"])
            assert await far.referrers(pairs[:-1], types=["x"]) == [[split.pair(id) for id in each] for each in lists]
            assert await far.fan_in(pairs[:-1]) == await one.store.fan_in(ids)
            records = await one.store.records_of(nodes)
            assert [each and [record.text for record in each] for each in await far.records_of(pairs)] == [
                each and [record.text for record in each] for each in records
            ]
            best, cosines = await far.best_of(row, pairs)
            expected = await one.store.best_of(row, nodes)
            assert np.array_equal(cosines, expected[1], equal_nan=True)
            read = await far.get_records([id for id in best if id])
            assert [record.text for record in read] == [
                record.text for record in await one.store.get_records([id for id in expected[0] if id])
            ]
            owned, rows = await far.vectors_of(pairs)
            assert np.array_equal(rows, (await one.store.vectors_of(nodes))[1])
            flat = [id for each in owned for id in each]
            assert np.array_equal(await far.vectors(flat), rows)
            assert np.array_equal(await far.similarities(row, flat), rows @ row)
            assert await far.artifact_ids() == [split.pair(id) for id in ids]
            assert [entry.record_ids for entry in await far.ledger()] == [
                entry.record_ids for entry in await far.ledger(pairs[:-1])
            ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_federated_store, "_OFFLOAD_ABOVE", many)
        anyio.run(main)

"""The store of several corpora compared with one store that contains them all."""

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.discovery import federated
from airw.protocols import ArtifactIds, Edges, Ledger, Rank, Records, RecordsOf, Referrers, Vectors, VectorsOf, ask
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
                here = await ask(one.store, Edges(nodes, direction, limit=3))
                there = await ask(far, Edges(pairs, direction, limit=3))
                named = [
                    [Edge(split.pair(each.source), split.pair(each.target), each.type, each.origin) for each in edges]
                    for edges in here
                ]
                assert there == named
            lists = await ask(one.store, Referrers(ids, types=["x"]))
            assert await ask(far, Referrers(pairs[:-1], types=["x"])) == [
                [split.pair(id) for id in each] for each in lists
            ]
            assert [len(ids) for ids in await ask(far, Referrers(pairs[:-1]))] == [
                len(ids) for ids in await ask(one.store, Referrers(ids))
            ]
            records = await ask(one.store, RecordsOf(nodes))
            assert [each and [record.text for record in each] for each in await ask(far, RecordsOf(pairs))] == [
                each and [record.text for record in each] for each in records
            ]
            [best] = await ask(far, Rank(row[None], among=pairs, per_artifact=True))
            [expected] = await ask(one.store, Rank(row[None], among=nodes, per_artifact=True))
            assert best.artifact_ids == [split.pair(id) for id in expected.artifact_ids]
            assert np.array_equal(best.scores, expected.scores)
            texts = [
                [record.text for record in await ask(store, Records(ranking.record_ids))]
                for store, ranking in ((far, best), (one.store, expected))
            ]
            assert texts[0] == texts[1]
            owned, rows = await ask(far, VectorsOf(pairs))
            assert np.array_equal(rows, (await ask(one.store, VectorsOf(nodes)))[1])
            flat = [id for each in owned for id in each]
            assert np.array_equal(await ask(far, Vectors(flat)), rows)
            [compared] = await ask(far, Rank(row[None], records=flat))
            assert np.array_equal(compared.scores, np.sort(rows @ row)[::-1])
            assert await ask(far, ArtifactIds()) == [split.pair(id) for id in ids]
            assert [entry.record_ids for entry in await ask(far, Ledger())] == [
                entry.record_ids for entry in await ask(far, Ledger(pairs[:-1]))
            ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(federated, "_OFFLOAD_ABOVE", many)
        anyio.run(main)

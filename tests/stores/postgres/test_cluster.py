"""A corpus on three servers: the same exam, the same walks, and a server that dies."""

import pytest

from airw import traverse
from airw.errors import StoreError
from airw.policies import (
    Beam,
    CollapsedTree,
    Eager,
    LinkWalk,
    Mmr,
    PathCoverage,
    PersonalizedPageRank,
    ReverseDependency,
    Scored,
)
from airw.stores import MemoryStore, PostgresStore
from airw.testing import CAPABILITIES, StoreSuite
from airw.testing.changes import put
from tests.support.artifact_corpora import EIGHTHS, corpus_of, graph_of, item, walk_all
from tests.support.postgres_cluster import get_cluster

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]


def open_store(corpus):
    return PostgresStore(get_cluster().dsn, corpus, sharding="rows")


SUITE = StoreSuite(lambda folder: open_store(folder.name), capabilities=CAPABILITIES.keys() - {"adjacency"})


@pytest.mark.parametrize("case", SUITE.cases, ids=str)
async def test_it_passes_the_exam_of_stores(case):
    await SUITE.check(case)


async def by_rank(node):
    return node.metadata["rank"]


FIELDS = [("tags", "tags")]
POLICIES = {  # `None` is the default
    "beam": Beam(seed_k=2),
    "collapsed tree": CollapsedTree(leaf_kinds=("chunk",)),
    "default": None,
    "eager": Eager(select_k=None),
    "eager by fields": Eager(select_k=None, edges=FIELDS),
    "link walk": LinkWalk(start_k=2),
    "mmr": Mmr(select_k=8),
    "page rank": PersonalizedPageRank(seed_k=3),
    "path coverage": PathCoverage(seed_k=4),
    "reverse dependency": ReverseDependency(seeds=["n00", "n01"], edge_type="x"),
    "scored": Scored(select_k=None, scorer=by_rank),
}


@pytest.mark.parametrize("name", POLICIES)
async def test_a_walk_is_that_over_a_store_in_memory(name):
    for number in (2, 5, 8):
        graph = graph_of(number)
        async with corpus_of(graph.items, embedder=EIGHTHS) as corpus:
            expected, walk = await walk_all(corpus, POLICIES[name], graph.query)
        async with open_store(f"{name} {number}") as store, corpus_of(graph.items, store, EIGHTHS) as corpus:
            found, other = await walk_all(corpus, POLICIES[name], graph.query)
        assert list(map(content_of, found)) == list(map(content_of, expected))
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)
        assert (other.summary.stop, other.summary.edges) == (walk.summary.stop, walk.summary.edges)


def content_of(hit):
    return hit.artifact_id, hit.surface_index, hit.text


def chain(count):
    """Return artifacts of which each links to the next."""
    return {f"{at:03}": item(f"0.{at:03}", to=[f"{at + 1:03}"] if at + 1 < count else []) for at in range(count)}


def count_rows(table):
    return [int(node.execute(f"SELECT count(*) FROM {table}")) for node in get_cluster().nodes]


async def test_the_rows_of_all_tables_are_spread_over_all_servers():
    async with open_store("spread") as store, corpus_of(chain(60), store):
        counts = {table: count_rows(f"airw_spread.{table}") for table in ("artifact", "record", "embedding", "link")}
        assert all(min(counts[table]) > 0 for table in counts)
        assert [sum(each) for each in counts.values()] == [60, 60, 60, 59]
        assert counts["record"] == counts["artifact"] == counts["embedding"]
        assert sum(count_rows("airw_spread.posting")) > 0


async def test_a_server_that_dies_in_a_walk_is_an_error_until_it_is_back():
    node = get_cluster().nodes[1]
    policy = Eager(start_k=1, select_k=None)
    async with open_store("mortal") as store, corpus_of(chain(60), store) as corpus:
        expected, _ = await walk_all(corpus, policy)
        try:
            async with traverse("0", corpus, policy=policy) as walk:
                await anext(walk)
                node.kill()
                with pytest.raises(StoreError) as caught:
                    _ = [hit async for hit in walk]
            assert "\n" not in str(caught.value)
            assert walk.summary.stop == "failed"
            with pytest.raises(StoreError):
                await store.apply([put(f"new {number}") for number in range(9)])
        finally:
            node.start()
        assert [hit.artifact_id for hit in (await walk_all(corpus, policy))[0]] == [hit.artifact_id for hit in expected]
        assert len(await store.artifact_ids()) == 60
        await store.apply([put(f"new {number}") for number in range(9)])
        assert len(await store.artifact_ids()) == 69


BREAK_COMMIT = """
CREATE FUNCTION airw_broken.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON airw_broken.record
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION airw_broken.refuse();
"""


async def test_a_server_that_fails_at_the_commit_leaves_a_part_which_the_same_write_completes():
    """PostgreSQL's foreign tables have no commit in two phases."""
    node, (old, new) = get_cluster().nodes[1], [[put(f"{at}", f"text {v} {at}") for at in range(30)] for v in "ab"]
    async with open_store("broken") as store, MemoryStore() as expected:
        await store.apply(old)
        await expected.apply(new)
        node.execute(BREAK_COMMIT)
        with pytest.raises(StoreError):
            await store.apply(new)
        texts = {records[0].text for records in await store.records_of([str(at) for at in range(30)])}
        assert {text[:6] for text in texts} == {"text a", "text b"}
        node.execute("DROP FUNCTION airw_broken.refuse CASCADE")
        await store.apply(new)
        names = await expected.artifact_ids()
        assert await store.records_of(names) == await expected.records_of(names)
        # Words of the lost version remain in the counts until all texts are indexed again.
        for language in (None, "en"):
            await store.set_language(language)
        assert await store.term_statistics(["text a b 7"]) == await expected.term_statistics(["text a b 7"])

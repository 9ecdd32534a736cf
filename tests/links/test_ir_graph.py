"""The graph of a corpus answers as that of `ir`, for packages and what depends on them."""

import ir
import pytest

from airw.indexing import Package
from airw.links import CorpusGraph
from tests.support.ir_twins import our_corpus, their_corpus

PACKAGES = {
    "pipes": {"name": "pipes", "description": "Pipes", "readme": "Join steps.", "deps": ["Scikit_Learn>=1", "flow"]},
    "flow": {"name": "flow", "description": "Flows", "readme": "Run steps.", "deps": ["scikit-learn", "numpy"]},
    "cake": {"name": "cake", "description": "Cakes", "readme": "Bake.", "deps": ["pipes"]},
}


@pytest.fixture
async def graphs():
    """The graph of `ir` and that of airw."""
    options = {"name": "packages", "edge_extractor": ir.default_edge_extractor}
    theirs = ir.CorpusGraph(their_corpus(PACKAGES, strategy=ir.Package(), **options))
    async with our_corpus(PACKAGES, strategy=Package(), **options) as corpus:
        yield theirs, CorpusGraph(corpus)


@pytest.mark.parametrize("id", [*PACKAGES, "unknown"])
async def test_neighbours_and_types_are_those_of_ir(graphs, id):
    theirs, ours = graphs
    [edges], unresolved = await ours.neighbors([id], types=["REF"]), await ours.unresolved_links([id])
    targets = [*(edge.target for edge in edges), *(each.link.target_ref for each in unresolved)]
    assert sorted(name.replace("_", "-") for name in targets) == sorted(
        name.replace("_", "-") for name in theirs.neighbors(id, edge_type="REF")
    )
    if edges:
        assert await ours.edge_types([id]) == [theirs.edge_types(id)]


@pytest.mark.parametrize("id", ["pipes", "Flow", "numpy", "cake", "nothing"])
async def test_dependents_are_those_of_ir(graphs, id):
    theirs, ours = graphs
    [node] = await ours.resolve([id.lower()])
    assert await ours.reverse_neighbors([node], types=["REF"]) == [sorted(theirs.reverse_neighbors(id))]
    assert await ours.fan_in([node], types=["REF"]) == [theirs.fan_in(id)]


@pytest.mark.parametrize("id", ["pipes", ("packages", "pipes"), ("other", "pipes")])
async def test_references_mean_what_they_mean_in_ir(graphs, id):
    theirs, ours = graphs
    assert await ours.resolve([id]) == [theirs.resolve(id)]

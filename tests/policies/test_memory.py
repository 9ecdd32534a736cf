"""The memory of a walk, and what policies need of a store."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import airw
from airw.errors import ArgumentError
from airw.policies import (
    Beam,
    CollapsedTree,
    Eager,
    LinkWalk,
    Mmr,
    PersonalizedPageRank,
    ReverseDependency,
    Scope,
    Scored,
    Strategy,
)
from airw.protocols import check_able
from airw.stores import Wrapper
from airw.views.links import walk_links
from tests.support.artifact_corpora import corpus_of, item

ROOT = Path(airw.__file__).parent
GRAPH = {
    "a": item("10", to=["b", "c"], tag="x"),
    "b": item("20", to=["c", "d"], tag="x"),
    "c": item("30", to=["a"], tag="y"),
    "d": item("40", tag="y"),
}
FIELDS = [("tag", "tag")]


class Nearest(Strategy):
    def iteration(self, nodes, tracker):
        tracker.select_and_traverse(sorted(nodes, key=lambda node: -node.similarity_score))


POLICIES = {
    "eager": Eager(start_k=1),
    "eager over fields": Eager(start_k=1, edges=FIELDS),
    "scored": Scored(start_k=1),
    "scored by a scorer": Scored(start_k=1, scorer=lambda node: len(node.content)),
    "mmr": Mmr(start_k=1, max_traverse=2),
    "beam": Beam(seed_k=1, edges=FIELDS),
    "pagerank": PersonalizedPageRank(seed_k=1, title_weight=1, scope=Scope(keep={"tag": "x"})),
    "collapsed tree": CollapsedTree(summary_kinds=("chunk",), leaf_kinds=("part",)),
    "link walk": LinkWalk(roots=["a"], weighted=True),
    "reverse dependency": ReverseDependency(seeds=["c"], fan_in_weight=1),
    "strategy": Nearest(start_k=1),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_a_walk_stores_nothing_in_the_cache(policy):
    async with corpus_of(GRAPH) as corpus, airw.traverse("0", corpus, policy=policy) as walk:
        assert [hit async for hit in walk]
        assert walk.ranking
        assert walk._stages.state.cache == {}
        assert walk._stages.state.memory is not None


async def test_a_walk_along_each_edge_once_stores_nothing_in_the_cache():
    async with corpus_of(GRAPH) as corpus, walk_links(corpus, ["a"]) as walk:
        assert len([hit async for hit in walk]) == 4
        assert walk._stages.state.cache == {}


@pytest.mark.parametrize("package", ["policies", "views", "discovery", "walking"])
def test_no_policy_of_airw_uses_the_cache(package):
    for path in (ROOT / package).rglob("*.py"):
        assert not re.search(r"\.cache\b[.\[]|state\.cache\s*=", path.read_text(encoding="utf-8")), path


def test_each_walk_of_a_policy_has_its_own_memory():
    policy = Eager()
    one, other = (airw.traverse("0", None, policy=policy)._stages.state for _ in range(2))
    assert policy.begin(one) is not policy.begin(other)
    assert policy.begin(one).best_surfaces is not policy.begin(other).best_surfaces


class FourAbilities(Wrapper):
    """A store that can be walked and can do nothing else."""

    capabilities = frozenset({"dense", "edges", "records", "scores"})

    async def read(self, *requests):
        check_able(self, *requests)
        return await super().read(*requests)


@dataclass
class Walked:
    """A corpus by its three parts."""

    name: str
    store: Any
    embedder: Any


@pytest.mark.parametrize(
    "policy",
    [
        Eager(start_k=1),
        Eager(start_k=0, roots=["a"], scope=Scope(keep={"tag": "x"})),
        Scored(start_k=1),
        Beam(seed_k=1),
        PersonalizedPageRank(seed_k=1),
    ],
    ids=["eager", "scoped", "scored", "beam", "pagerank"],
)
async def test_a_store_with_four_abilities_can_be_walked(policy):
    async with corpus_of(GRAPH) as corpus:
        # The store cannot search texts, so the walk starts from a dense search.
        dense = replace(policy, seeding="dense")
        whole = [hit async for hit in airw.traverse("0", corpus, policy=dense)]
        small = Walked(corpus.name, FourAbilities(corpus.store), corpus.embedder)
        assert [hit async for hit in airw.traverse("0", small, policy=policy)] == whole != []


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Eager(edges=FIELDS), r"Eager\(edges=\.\.\.\) needs .* 'matching', which FourAbilities does not offer"),
        (PersonalizedPageRank(edges=FIELDS), r"PersonalizedPageRank\(edges=\.\.\.\) .* 'matching'"),
        (Eager(seeding="hybrid"), "Rank needs .* 'lexical'; FourAbilities offers dense, edges"),
        (Beam(seeding="titles"), r"Beam\(seeding='titles'\) .* 'names'"),
        (PersonalizedPageRank(title_weight=1), r"PersonalizedPageRank\(title_weight=\.\.\.\) .* 'names'"),
        (Mmr(), r"Mmr needs .* 'vectors'"),
        (Scored(scorer=lambda node: 1), r"Scored\(scorer=\.\.\.\) .* 'vectors'"),
        (Nearest(), r"Nearest needs .* 'vectors'"),
        (ReverseDependency(seeds=["a"]), "Names needs .* 'names'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_missing_capability_for_a_setting_is_an_error_before_the_first_hit(policy, says):
    async with corpus_of(GRAPH) as corpus:
        walk = airw.traverse("0", Walked(corpus.name, FourAbilities(corpus.store), corpus.embedder), policy=policy)
        with pytest.raises(ArgumentError, match=f"^{says}"):
            await anext(walk)

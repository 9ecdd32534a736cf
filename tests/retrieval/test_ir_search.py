"""A search returns the same hits as `ir`, in the same order and with the same scores.

`ir` is the published package, used as an oracle. Both sides have the same artifacts, surfaces and embedder, in memory.
Dense searches are compared whole. BM25 has other constants and statistics here. So the steps after a lexical channel
are compared with the fusion functions of `ir`, called with our channels. Cases where the two differ on purpose are
left out:

- a hybrid search whose lexical channel is empty: one scale per mode here, plain cosines there (F8);
- one artifact that fills the candidates with its surfaces (F25);
- hybrid searches per artifact: here each channel ranks artifacts, there each ranks surfaces and collapses them later;
- searches per artifact with a reranker or boost that distinguishes surfaces of one artifact: here it receives the
  best surface of each artifact; there it receives all surfaces, and the best by its score counts;
- several formulated queries: fused by rank here, the best raw score there (F32);
- `fetch_k` of a lone channel with nothing after it: here such a search is cut at `k` alone;
- scores of a reranker that are no numbers (F47), `bm25` constants, and the name of `boost`, `dep_boost` there.
"""

import zlib
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import anyio
import ir
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from ir import retrieve as their_own
from ir.store import CorpusStore

from airw.corpora import build
from airw.embedders import embedder_from
from airw.protocols import Schema, ask
from airw.reranking import dependency_evidence_boost
from airw.retrieval import retrieve
from airw.retrieval.fusion import fuse_ranks
from airw.sources import from_mapping
from airw.stores import MemoryStore
from airw.values import IndexPlan, Surface
from tests.support.drawing import examples

pytestmark = pytest.mark.slow  # a quick run compares the golden rows of searches

NAME = "notes"
WORDS = ["keys", "bread", "locks", "error", "disk", "rotate", "sign"]
KINDS = ["description", "chunk", "title"]
LIBS = ["anyio", "Num_Py", "networkx>=3", "scikit.learn"]
SEEDS = st.integers(0, 2**32)


DEFAULTS = {"mode": "dense", "fusion": "rrf", "alpha": 0.5}  # of `ir`


def embed(texts):
    """Embed without meaning: no two texts are equally near to a third."""
    return [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(8) for text in texts]


@dataclass(frozen=True)
class Surfaces:
    """Decompose a mapping of `fields` and of `surfaces`, `(kind, text)` pairs."""

    id: str = "surfaces"

    def decompose(self, artifact):
        plan = [Surface(artifact.id, kind, text) for kind, text in artifact.raw["surfaces"]]
        return IndexPlan(artifact.raw["fields"], plan)


class TheirSurfaces:
    """The same strategy for `ir`."""

    def decompose(self, artifact_id, raw, metadata=None):
        plan = [ir.Surface(artifact_id, kind, text) for kind, text in raw["surfaces"]]
        return ir.IndexPlan(dict(raw["fields"]), plan)


def their_corpus(items):
    source = ir.CorpusSource.from_mapping(items, name=NAME, strategy=TheirSurfaces(), embedder=embed)
    return ir.build(source, store=CorpusStore.memory())


def our_corpus(items):
    source = from_mapping(items, name=NAME, strategy=Surfaces(), embedder=embedder_from(embed, id="random", dim=8))
    return build(source, store=MemoryStore())


def items_of(chance, *, most=4):
    """Draw artifacts in random order, with one to `most` surfaces; all texts differ."""
    ids = [f"n{at:02}" for at in range(chance.randint(2, 10))]
    chance.shuffle(ids)
    return {
        id: {
            "fields": {"year": chance.randint(2020, 2024), "deps": chance.sample(LIBS, chance.randint(0, 3))},
            "surfaces": [
                (chance.choice(KINDS), " ".join([*chance.choices(WORDS, k=3), f"{id}x{at}"]))
                for at in range(chance.randint(1, most))
            ],
        }
        for id in ids
    }


def describe(hits):
    """Return the fields of each hit that both sides have, except the score."""
    return [(hit.artifact_id, hit.surface_kind, hit.surface_index, hit.text, hit.source) for hit in hits]


def scores(hits):
    return [hit.score for hit in hits]


def query_of(chance):
    return " ".join(chance.choices(WORDS, k=2))


def scope_of(chance):
    """Draw options that mean the same on both sides."""
    options = {"k": chance.choice([1, 3, 10]), "per_artifact": chance.random() < 0.5}
    if chance.random() < 0.4:
        options["filter"] = chance.choice([{"year": {"$gte": 2022}}, {"$or": [{"year": 2020}, {"year": 2023}]}])
    if chance.random() < 0.4:
        options["surfaces"] = chance.sample(KINDS, 2)
    return options


def weights_of(chance):
    """Draw weights that are not all 1: with such weights this library does not read `fetch_k`."""
    first, *others = chance.sample(KINDS, chance.randint(1, 3))
    return {first: chance.choice([0, 0.5, 2, 3.5])} | {kind: chance.choice([0, 1, 2]) for kind in others}


def by_letters(query, texts):
    """Return a score for each text that depends on its letters; a reranker for both sides."""
    plain = [text["text"] if isinstance(text, dict) else text for text in texts]
    return [zlib.crc32(f"{query}|{text}".encode()) / 2**32 for text in plain]


async def find(corpus, query, **options):
    """Return the hits; none for surfaces of kinds that no record has, as in `ir`."""
    kinds = (await ask(corpus.store, Schema())).kinds
    wanted = options.get("surfaces")
    return [] if wanted and set(wanted).isdisjoint(kinds) else await retrieve(corpus, query, **options)


@dataclass
class SearchComparison:
    """A corpus and its searches, which run on both sides."""

    items: dict
    searches: list = field(default_factory=list)

    def search(self, query, *, theirs=None, **options):
        """Add a search; `theirs` are the options of the other side if their names differ there."""
        self.searches.append((query, options, options if theirs is None else theirs))

    def compare(self):
        """Compare all searches, and return the number of hits."""

        async def ours():
            async with our_corpus(self.items) as corpus:
                return [await find(corpus, query, **DEFAULTS | options) for query, options, _ in self.searches]

        other, count = their_corpus(self.items), 0
        for hits, (query, _, options) in zip(anyio.run(ours), self.searches, strict=True):
            expected = ir.search(other, query, **options)
            assert describe(hits) == describe(expected)
            assert scores(hits) == pytest.approx(scores(expected), abs=1e-6)
            count += len(hits)
        return count


@given(SEEDS)
@settings(max_examples=examples(25))
def test_a_dense_search_returns_the_same_hits_with_the_same_scores(number):
    chance = Random(number)
    both = SearchComparison(items_of(chance))
    for _ in range(6):
        both.search(query_of(chance), **scope_of(chance))
    both.compare()


@given(SEEDS)
@settings(max_examples=examples(25))
def test_weights_move_surfaces_in_the_same_way(number):
    chance = Random(number)
    both = SearchComparison(items_of(chance))
    for _ in range(6):
        both.search(query_of(chance), surface_weights=weights_of(chance), **scope_of(chance))
        pinned = scope_of(chance) | {"per_artifact": False, "fetch_k": chance.randint(1, 5)}
        both.search(query_of(chance), surface_weights=weights_of(chance), **pinned)
    both.compare()


@given(SEEDS)
@settings(max_examples=examples(25))
def test_a_reranker_sees_the_same_candidates_and_its_scores_count_the_same(number):
    chance = Random(number)
    both = SearchComparison(items_of(chance))
    for _ in range(3):
        surfaces = scope_of(chance) | {"per_artifact": False, "rerank": by_letters, "fetch_k": chance.randint(1, 12)}
        both.search(query_of(chance), **surfaces)
        both.search(query_of(chance), **surfaces, rerank_text="artifact", rerank_max_chars=chance.randint(1, 60))
        both.search(query_of(chance), **surfaces, surface_weights=weights_of(chance))
        artifacts = scope_of(chance) | {"per_artifact": True, "rerank": by_letters, "rerank_text": "artifact"}
        both.search(query_of(chance), **artifacts)
        mine = surfaces | {"rerank_text": lambda corpus, record: f"{corpus.name} {record.surface_kind}"}
        theirs = surfaces | {"rerank_text": lambda corpus, meta: f"{corpus.name} {meta['surface_kind']}"}
        both.search("keys", theirs=theirs, **mine)
    both.compare()


@given(SEEDS)
@settings(max_examples=examples(25))
def test_a_boost_is_added_in_the_same_way(number):
    chance = Random(number)
    both = SearchComparison(items_of(chance))
    libs = chance.sample(LIBS, 2)
    for _ in range(4):
        options = {"weight": chance.choice([0.0, 0.1, -0.3, 2.0]), "saturate": chance.randint(1, 3)}
        mine, other = dependency_evidence_boost(libs, **options), ir.dependency_evidence_boost(libs, **options)
        scope = scope_of(chance)
        both.search("keys", theirs={**scope, "dep_boost": other}, **scope, boost=mine)
        surfaces = scope_of(chance) | {"per_artifact": False, "rerank": by_letters}
        both.search("keys", theirs={**surfaces, "dep_boost": other}, **surfaces, boost=mine)
    both.compare()


@given(SEEDS)
@settings(max_examples=examples(15))
def test_one_formulated_query_is_searched_like_a_query_of_the_caller(number):
    chance = Random(number)
    both = SearchComparison(items_of(chance))
    for give in (lambda query: f"{query} sign", lambda query: [f"{query} sign"], lambda _: [], lambda _: [" "]):
        both.search(query_of(chance), **scope_of(chance), formulate=give)
        both.search(query_of(chance), per_artifact=False, formulate=give, rerank=by_letters)
    both.compare()


@pytest.mark.slow
def test_the_random_searches_find_something_to_compare():
    """Without hits the comparisons above would prove nothing."""
    found = 0
    for number in range(20):
        chance = Random(number)
        both = SearchComparison(items_of(chance))
        for _ in range(6):
            both.search(query_of(chance), **scope_of(chance))
        found += both.compare()
    assert found > 200


# --- steps after a lexical channel -----------------------------------------------------------------------------------


def are_apart(values):
    return all(abs(one - other) > 1e-9 for one, other in pairwise(sorted(values)))


def key(hit):
    return hit.artifact_id, hit.surface_index


def to_ranking(hits):
    """Return the ranking of a channel in the form that their functions take."""
    return [(key(hit), hit.score) for hit in hits]


async def search_channels(corpus, query, depth, **options):
    """Return the hits of both channels and of the hybrid search over surfaces."""
    scope = {"per_artifact": False}
    dense = await retrieve(corpus, query, k=depth, mode="dense", **scope)
    lexical = await retrieve(corpus, query, k=depth, mode="lexical", **scope)
    return (
        dense,
        lexical,
        await retrieve(corpus, query, fetch_k=depth, **scope, **DEFAULTS | {"mode": "hybrid"} | options),
    )


@given(SEEDS, st.sampled_from(["rrf", "blend"]), st.booleans())
@settings(max_examples=examples(25))
def test_a_hybrid_search_of_surfaces_equals_their_fusion_of_our_channels(number, fusion, weighted):
    chance = Random(number)
    items, depth = items_of(chance), chance.choice([2, 5, 50])
    constants = {"rrf_k": chance.choice([0, 60]), "alpha": chance.choice([0.0, 0.3, 1.0]), "bm25_sat_k": 4.0}
    if fusion == "rrf":
        constants["alpha"] = 0.5  # `ir` does not weigh ranks
    options = constants | {"fusion": fusion, "surface_weights": weights_of(chance) if weighted else None, "k": 99}

    async def main():
        async with our_corpus(items) as corpus:
            return await search_channels(corpus, query_of(chance), depth, **options)

    dense, lexical, hits = anyio.run(main)
    assume(lexical)
    one, other = to_ranking(dense), to_ranking(lexical)
    if fusion == "rrf":
        expected = their_own._rrf_fuse(one, other, constants["rrf_k"], None)
    else:
        expected = their_own._blend_fuse(one, other, constants["alpha"], 4.0, None)
    if options["surface_weights"]:
        kinds = {key(hit): {"surface_kind": hit.surface_kind} for hit in [*dense, *lexical]}
        expected = their_own._weight_surfaces(expected, kinds, options["surface_weights"])[:depth]
    assert [key(hit) for hit in hits] == [each for each, _ in expected]
    assert scores(hits) == pytest.approx([score for _, score in expected])


# --- improvements over `ir` ------------------------------------------------------------------------------------------


def of_texts(**texts):
    return {
        id: {"fields": {}, "surfaces": [("chunk", text) for text in ([given] if isinstance(given, str) else given)]}
        for id, given in texts.items()
    }


def both_sides(items, query, *, theirs=None, **options):
    async def main():
        async with our_corpus(items) as corpus:
            return await retrieve(corpus, query, **DEFAULTS | options)

    return ir.search(their_corpus(items), query, **(options if theirs is None else theirs)), anyio.run(main)


@pytest.mark.parametrize("fusion", ["rrf", "blend"])
def test_a_hybrid_search_keeps_its_scale_if_no_word_matches(fusion):
    """F8: `ir` returns plain cosines, which exceed any floor for fused or blended scores."""
    items = of_texts(a="signing keys", b="bread")
    theirs, ours = both_sides(items, "zebra", mode="hybrid", fusion=fusion)
    dense, _ = both_sides(items, "zebra")
    assert scores(theirs) == pytest.approx(scores(dense))
    expected = [1 / 61, 1 / 62] if fusion == "rrf" else [0.5 * hit.score for hit in dense]
    assert scores(ours) == pytest.approx(expected)


def test_weights_do_not_let_one_artifact_crowd_out_the_others():
    """F25: of 21 artifacts, ten come back here; there 200 surfaces of one fill all places."""
    near, *_ = embed(["query"])
    vectors = {"query": near} | {f"c{at}": near + at / 1e6 for at in range(200)} | {f"s{at}": -near for at in range(20)}
    items = of_texts(long=[f"c{at}" for at in range(200)], **{f"s{at}": f"s{at}" for at in range(20)})

    def look_up(texts):
        return [vectors[text] for text in texts]

    source = ir.CorpusSource.from_mapping(items, name=NAME, strategy=TheirSurfaces(), embedder=look_up)
    theirs = ir.search(ir.build(source, store=CorpusStore.memory()), "query", surface_weights={"chunk": 2})

    async def main():
        own = from_mapping(items, name=NAME, strategy=Surfaces(), embedder=embedder_from(look_up, id="given", dim=8))
        async with build(own, store=MemoryStore()) as corpus:
            return await retrieve(corpus, "query", surface_weights={"chunk": 2}, **DEFAULTS)

    assert [hit.artifact_id for hit in theirs] == ["long"]
    ours = anyio.run(main)
    assert [hit.artifact_id for hit in ours] == ["long", "s0", "s1", "s10", "s11", "s12", "s13", "s14", "s15", "s16"]
    assert scores(ours) == pytest.approx([2] + [-2] * 9, abs=1e-4)


def test_two_formulated_queries_return_each_surface_once_fused_by_rank():
    """F32: `ir` returns each hit twice, ordered by its best cosine."""
    items = of_texts(a="signing keys", b="bread", c=["locks", "disk"])
    queries = ["keys", "bread"]
    options = {"formulate": lambda _: queries, "per_artifact": False}
    theirs, ours = both_sides(items, "any", **options)
    assert len(theirs) == 8
    lists = [[key(hit) for hit in both_sides(items, query, per_artifact=False)[1]] for query in queries]
    expected = [(each, mass / 2) for each, mass in fuse_ranks(lists)]
    assert [(key(hit), hit.score) for hit in ours] == expected
    assert len(ours) == 4


def test_reranked_candidates_are_artifacts_so_that_one_with_many_surfaces_cannot_fill_them():
    """F25: four candidates are four artifacts here; there they are four surfaces of one."""
    near, *_ = embed(["query"])
    far = {f"s{at}": -near for at in range(3)}
    vectors = {"query": near} | {f"c{at}": near * (at + 1) for at in range(4)} | far
    items = of_texts(long=[f"c{at}" for at in range(4)], **{text: text for text in far})
    shown = []

    def rerank(_, texts):
        shown.append([text["text"] if isinstance(text, dict) else text for text in texts])
        return [0.0] * len(texts)

    def look_up(texts):
        return [vectors[text] for text in texts]

    source = ir.CorpusSource.from_mapping(items, name=NAME, strategy=TheirSurfaces(), embedder=look_up)
    ir.search(ir.build(source, store=CorpusStore.memory()), "query", rerank=rerank, fetch_k=4)

    async def main():
        own = from_mapping(items, name=NAME, strategy=Surfaces(), embedder=embedder_from(look_up, id="given", dim=8))
        async with build(own, store=MemoryStore()) as corpus:
            return await retrieve(corpus, "query", rerank=rerank, fetch_k=4, **DEFAULTS)

    assert len(anyio.run(main)) == 4
    theirs, ours = shown
    assert sorted(theirs) == ["c0", "c1", "c2", "c3"]
    assert ours == ["c0", "s0", "s1", "s2"]

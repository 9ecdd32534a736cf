"""Stages of a search: blending, weights, reranking, boosting and formulated queries."""

import math
import threading
import zlib
from functools import partial
from random import Random

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.corpora import build
from airw.embedders import embedder_from
from airw.errors import ArgumentError, ArgumentKindError, EmbedderError, RerankerError, RerankerUnavailable
from airw.indexing import Chunked
from airw.protocols import Change, Records, RecordsOf
from airw.retrieval import FUSIONS, MODES, SearchQuery, formulate_queries, retrieve, run_search
from airw.retrieval.fusion import fuse_ranks
from airw.retrieval.merging import append_artifacts
from airw.sources import from_mapping
from airw.stores import MemoryStore, Wrapper
from airw.values import IndexPlan, Ranking, Surface
from tests.support.asked import Asked
from tests.support.drawing import examples

TEXTS = {
    "keys": "rotate the signing keys every quarter",
    "bread": "bake a loaf of bread with rye",
    "locks": "change the locks and hand out keys",
    "error": "error code QZX9917 means the disk is full",
}
NEUTRAL = {"surface_weights": {"chunk": 1, "other": 1.0}, "boost": lambda hit: 0, "formulate": lambda query: query}


class Kinds:
    """Decompose `{kind: text}`; a text may be a list of them."""

    id = "kinds"

    def decompose(self, artifact):
        pairs = [(kind, text) for kind, texts in artifact.raw.items() for text in ([texts], texts)[type(texts) is list]]
        return IndexPlan({}, [Surface(artifact.id, kind, text) for kind, text in pairs])


def corpus_of(items, *, embedder="light", store=None, **source):
    return build(from_mapping(items, name="notes", **source), store=store or MemoryStore(), embedder=embedder)


def kinds_of(items, **options):
    return corpus_of(items, strategy=Kinds(), **options)


def axes(table):
    """Return an embedder that looks up the vector of each text in a table."""
    return embedder_from(lambda texts: [table[text] for text in texts], id="axes-v1", dim=2)


def embed(texts):
    """Embed without meaning: no two texts are equally near to a third."""
    return [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(8) for text in texts]


RANDOM = embedder_from(embed, id="random", dim=8)


def ids(hits):
    return [hit.artifact_id for hit in hits]


def scores(hits):
    return [hit.score for hit in hits]


def key(hit):
    return hit.artifact_id, hit.surface_index


def length(query, texts):
    return [len(text) for text in texts]


class Reader:
    """A reranker that records its calls and returns the same score for every text."""

    def __init__(self):
        self.asked = []

    def __call__(self, query, texts):
        self.asked.append((query, list(texts)))
        return [0.5] * len(texts)


# Options


@pytest.mark.parametrize("k", [0, 5])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fusion": "mean"}, "'blend', 'rrf'"),
        ({"alpha": 1.5}, "alpha must be a finite number from 0 to 1"),
        ({"alpha": True}, "alpha must be"),
        ({"alpha": math.nan}, "alpha must be"),
        ({"bm25_sat_k": 0}, "bm25_sat_k must be a finite number above 0"),
        ({"bm25_sat_k": math.inf}, "bm25_sat_k must be"),
        ({"bm25_sat_k": "8"}, "bm25_sat_k must be"),
        ({"rerank": "bm25"}, "cross-encoder"),
        ({"rerank": 7}, "cross-encoder"),
        ({"rerank_text": "whole"}, "'surface', 'artifact'"),
        ({"rerank_max_chars": 0}, "rerank_max_chars must be"),
        ({"formulate": "rewrite"}, "formulate must be a function of a query"),
        ({"boost": 0.1}, "boost must be a function of a hit"),
        ({"surface_weights": {"chunk": -1}}, r"surface_weights\['chunk'\] must be a finite number of at least 0"),
        ({"surface_weights": {"chunk": math.nan}}, r"surface_weights\['chunk'\]"),
        ({"surface_weights": {"chunk": math.inf}}, r"surface_weights\['chunk'\]"),
        ({"surface_weights": {"chunk": True}}, r"surface_weights\['chunk'\]"),
        ({"surface_weights": {"chunk": np.bool_(1)}}, r"surface_weights\['chunk'\]"),
        ({"surface_weights": {1: 2}}, "the kinds of surface_weights"),
        ({"surface_weights": ["chunk"]}, "surface_weights must map"),
    ],
)
async def test_an_invalid_option_is_an_error_before_any_search(options, message, k):
    async with corpus_of({}) as corpus:
        with pytest.raises(ArgumentError, match=message) as caught:
            await retrieve(corpus, "keys", k=k, **options)
    assert "\n" not in str(caught.value)


def ask(query, **options):
    return SearchQuery.parse("search", query, options)


def test_a_missing_reranker_library_is_reported_when_the_query_is_parsed(monkeypatch):
    monkeypatch.setattr("airw._base.hub_models.find_spec", lambda name: None)
    with pytest.raises(RerankerUnavailable, match="pip install"):
        ask("keys", k=0, rerank="cross-encoder")


def test_a_search_query_keeps_its_options_if_the_caller_changes_them_later():
    weights, surfaces = {"chunk": np.float32(2)}, iter(["chunk"])
    question = ask("keys", k=20, surface_weights=weights, surfaces=surfaces)
    weights["chunk"] = -1
    assert question.surface_weights == {"chunk": 2.0}
    assert question.surfaces == ("chunk",)
    assert question.depth == 100
    with pytest.raises(TypeError):
        question.surface_weights["chunk"] = 1
    assert ask("keys", surface_weights={"chunk": 1}) == ask("keys", surface_weights={}) == ask("keys")


def test_a_search_query_lists_the_options_that_rescale_its_scores():
    assert ask("keys", mode="hybrid", fusion="blend", rerank=length).rescaling_options == ()
    assert ask("keys", formulate=str.upper).rescaling_options == ("formulate",)
    assert ask("keys", formulate=str.upper, rerank=length).rescaling_options == ()
    every = {"formulate": str.upper, "surface_weights": {"chunk": 2}, "boost": lambda hit: 0}
    assert ask("keys", **every).rescaling_options == ("surface_weights", "boost", "formulate")


async def test_with_k_zero_no_function_is_called():
    def never(*_):
        raise AssertionError

    async with corpus_of(TEXTS) as corpus:
        assert await retrieve(corpus, "keys", k=0, rerank=never, formulate=never, boost=never) == []


# Blending


WORDS = st.lists(st.sampled_from(["keys", "bread", "locks", "error", "disk"]), min_size=1, max_size=6).map(" ".join)
ITEMS = st.dictionaries(st.sampled_from("abcdefgh"), WORDS, min_size=1)
CHUNKS = Chunked(chunk_size=12, overlap=0)


@settings(max_examples=examples(25))
@given(ITEMS, st.sampled_from(["keys", "bread disk", "zebra"]), st.booleans(), st.floats(0, 1), st.floats(0.1, 99))
def test_a_blend_is_the_weighted_sum_of_the_cosine_and_the_saturated_lexical_score(
    items, query, per_artifact, alpha, level
):
    async def main():
        async with corpus_of(items, strategy=CHUNKS, embedder=RANDOM) as corpus:
            every = {"k": 50, "per_artifact": per_artifact}
            blend = {"mode": "hybrid", "fusion": "blend", "alpha": alpha, "bm25_sat_k": level}
            return [
                await retrieve(corpus, query, **every, **each)
                for each in ({"mode": "dense"}, {"mode": "lexical"}, blend)
            ]

    def name_of(hit):
        return hit.artifact_id if per_artifact else key(hit)

    dense, lexical, hits = anyio.run(main)
    cosines, words = ({name_of(hit): hit.score for hit in channel} for channel in (dense, lexical))
    expected = {
        each: alpha * cosines.get(each, 0) + (1 - alpha) * (words.get(each, 0) / (words.get(each, 0) + level))
        for each in [*cosines, *words]
    }
    ordered = sorted(expected, key=lambda each: -expected[each])
    assert [(name_of(hit), hit.score) for hit in hits] == [(each, expected[each]) for each in ordered]
    for hit in hits:
        told = {name: hit.metadata.get(name) for name in ("dense_score", "lexical_score")}
        assert told == {"dense_score": cosines.get(name_of(hit)), "lexical_score": words.get(name_of(hit))}


@pytest.mark.parametrize("fusion", FUSIONS)
async def test_ties_of_a_fused_search_go_by_the_dense_ranking(fusion):
    table = {"b": [1, 0], "a": [1, 0], "needle": [1, 0], "needle ": [0.6, 0.8]}
    items = {text: text for text in ("b", "a", "needle")}
    async with corpus_of(items, embedder=axes(table)) as corpus:
        hits = await retrieve(corpus, "needle ", mode="hybrid", fusion=fusion, alpha=1.0 if fusion == "blend" else 0.5)
        if fusion == "blend":
            assert scores(hits) == pytest.approx([0.6] * 3)
            assert ids(hits) == ids(await retrieve(corpus, "needle ", mode="dense")) == ["a", "b", "needle"]
        else:
            assert ids(hits) == ["needle", "a", "b"]


async def test_a_hybrid_hit_has_the_score_of_each_channel_that_ranked_it():
    async with corpus_of(TEXTS) as corpus:
        dense = {hit.artifact_id: hit.score for hit in await retrieve(corpus, "keys", mode="dense")}
        lexical = {hit.artifact_id: hit.score for hit in await retrieve(corpus, "keys", mode="lexical")}
        for hit in await retrieve(corpus, "keys", mode="hybrid"):
            assert hit.metadata["dense_score"] == dense[hit.artifact_id]
            assert hit.metadata.get("lexical_score") == lexical.get(hit.artifact_id)
        assert not any("score" in name for hit in await retrieve(corpus, "keys", mode="dense") for name in hit.metadata)


# Weights


async def test_a_weight_multiplies_the_scores_of_its_kind_and_the_best_surface_counts_for_the_artifact():
    items = {"a": {"title": "one", "body": "two"}, "b": {"body": "three"}}
    table = {"one": [0.5, 0.75**0.5], "two": [0.8, 0.6], "three": [0.9, 0.19**0.5], "query": [1, 0]}
    async with kinds_of(items, embedder=axes(table)) as corpus:
        plain = await retrieve(corpus, "query", mode="dense")
        hits = await retrieve(corpus, "query", mode="dense", surface_weights={"title": np.int64(2), "unknown": 9})
        down = await retrieve(corpus, "query", mode="dense", surface_weights={"body": np.float32(0.5), "title": 0})
    assert [(hit.artifact_id, hit.surface_kind) for hit in plain] == [("b", "body"), ("a", "body")]
    assert [(hit.artifact_id, hit.surface_kind) for hit in hits] == [("a", "title"), ("b", "body")]
    assert scores(hits) == pytest.approx([1.0, 0.9])
    assert scores(down) == pytest.approx([0.45, 0.4])


async def test_a_negative_cosine_moves_down_under_a_weight_above_one():
    items = {"a": {"title": "one"}, "b": {"body": "two"}}
    table = {"one": [-0.6, 0.8], "two": [-0.8, 0.6], "query": [1, 0]}
    async with kinds_of(items, embedder=axes(table)) as corpus:
        assert ids(await retrieve(corpus, "query", mode="dense")) == ["a", "b"]
        hits = await retrieve(corpus, "query", mode="dense", surface_weights={"title": 2})
    assert ids(hits) == ["b", "a"]
    assert scores(hits) == pytest.approx([-0.8, -1.2])


async def test_weights_act_on_the_whole_union_of_both_channels_before_the_cut():
    items = {f"n{at}": {"body": f"body {at}"} for at in range(3)} | {"late": {"title": "needle"}}
    table = {f"body {at}": [1, at / 9] for at in range(3)} | {"needle": [-1, 0], "needle ": [1, 0]}
    async with kinds_of(items, embedder=axes(table)) as corpus:
        options = {
            "mode": "hybrid",
            "fusion": "rrf",
            "alpha": 0.5,
            "fetch_k": 1,
            "rrf_k": 0,
            "surface_weights": {"title": 1.5},
        }
        assert ids(await retrieve(corpus, "needle ", **options)) == ["late"]
        assert ids(await retrieve(corpus, "needle ", **options | {"surface_weights": {"title": 0.5}})) == ["n0"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("together", [{}, {"rerank": length}, {"boost": lambda hit: 0.5}])
async def test_no_artifact_crowds_out_the_others_with_any_other_option(mode, together):
    items = {"long": "\n\n".join(f"signing keys, part {number}" for number in range(200))}
    items |= {f"short{number:02}": f"signing keys and matter {number}" for number in range(20)}
    async with corpus_of(items, strategy=Chunked(chunk_size=30, overlap=0)) as corpus:
        for weights in (None, {"chunk": 2}):
            hits = await retrieve(corpus, "signing keys", mode=mode, surface_weights=weights, **together)
            assert len(set(ids(hits))) == len(hits) == 10


async def test_if_one_of_several_queries_is_crowded_more_artifacts_are_read():
    items = {"long": {"body": [f"l{at}" for at in range(5)]}, "a": {"title": "a"}, "b": {"title": "b"}}
    table = {f"l{at}": [1, at / 99] for at in range(5)} | {"a": [0.8, 0.6], "b": [0, 1], "?x": [1, 0], "?y": [0, 1]}
    async with kinds_of(items, embedder=axes(table)) as corpus:
        options = {"k": 2, "fetch_k": 3, "rrf_k": 0, "surface_weights": {"title": 2}}
        hits = await retrieve(corpus, "any", formulate=lambda _: ["?y", "?x"], **options)
    assert [(hit.artifact_id, hit.score) for hit in hits] == [("b", 1), ("a", 1 / 2 + 1 / 4)]


def ranking(*ids):
    return Ranking(list(ids), [id[0] for id in ids], np.arange(len(ids), 0, -1.0))


def test_artifacts_that_a_ranking_of_surfaces_lacks_are_appended():
    longer = append_artifacts(ranking("a0", "b0", "a1"), ranking("a0", "b0", "c0", "d0"))
    assert (longer.record_ids, longer.artifact_ids) == (["a0", "b0", "a1", "c0", "d0"], ["a", "b", "a", "c", "d"])
    assert longer.scores.tolist() == [3, 2, 1, 2, 1]


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(
    ITEMS,
    st.sampled_from(["keys", "bread disk"]),
    st.integers(1, 8),
    st.sampled_from([0, 0.5, 3]),
    st.sampled_from(MODES),
)
def test_if_all_surfaces_are_candidates_each_artifact_has_its_best_weighted_surface(items, query, k, by, mode):
    weights = {"chunk": by}

    async def main():
        async with corpus_of(items, strategy=CHUNKS, embedder=RANDOM) as corpus:
            every = {"mode": mode, "surface_weights": weights, "fetch_k": 99}
            surfaces = await retrieve(corpus, query, k=99, per_artifact=False, **every)
            plain = await retrieve(corpus, query, k=99, per_artifact=False, mode=mode, fetch_k=99)
            return plain, surfaces, await retrieve(corpus, query, k=k, **every)

    plain, surfaces, artifacts = anyio.run(main)
    assert [(key(hit), hit.score) for hit in surfaces] == [(key(hit), hit.score * by) for hit in plain]
    best = {}
    for hit in surfaces:
        best.setdefault(hit.artifact_id, hit)
    assert artifacts == list(best.values())[:k]


# Reranking


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("per_artifact", [True, False])
async def test_a_reranker_decides_order_and_scores_in_every_mode(mode, per_artifact):
    async with corpus_of(TEXTS) as corpus:
        scope = {"mode": mode, "per_artifact": per_artifact}
        before = {hit.artifact_id: hit.score for hit in await retrieve(corpus, "the keys error", **scope)}
        hits = await retrieve(corpus, "the keys error", rerank=length, **scope)
    assert len(hits) == (3 if mode == "lexical" else 4)
    assert scores(hits) == sorted((len(hit.text) for hit in hits), reverse=True)
    assert {hit.artifact_id: hit.metadata["retrieval_score"] for hit in hits} == before
    assert all(("dense_score" in hit.metadata) == (mode == "hybrid") for hit in hits)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "offered"), [({}, 50), ({"k": 12}, 60), ({"fetch_k": 7}, 7), ({"fetch_k": 2}, 2)])
@pytest.mark.parametrize("mode", MODES)
async def test_a_reranker_receives_fetch_k_candidates_and_k_hits_are_returned(mode, options, offered):
    async with corpus_of({f"n{at:02}": f"keys {at}" for at in range(70)}) as corpus:
        reader = Reader()
        hits = await retrieve(corpus, "keys", mode=mode, rerank=reader, **options)
        first = await retrieve(corpus, "keys", **{"mode": mode, "fetch_k": offered, **options})
    [(query, texts)] = reader.asked
    assert (query, len(texts)) == ("keys", offered)
    assert ids(hits) == ids(first)[: len(hits)]
    assert len(hits) == min(options.get("k", 10), offered)


async def test_ties_of_a_reranker_keep_their_order():
    given = {"keys": -3.0, "bread": 0.0, "locks": 0.5, "error": 0.5}
    texts = {text: given[name] for name, text in TEXTS.items()}

    async def rerank(query, asked):
        await anyio.lowlevel.checkpoint()
        return [texts[text] for text in asked]

    async with corpus_of(TEXTS) as corpus:
        query = "rotate the signing keys, bread, disk"
        plain = ids(await retrieve(corpus, query))
        hits = await retrieve(corpus, query, rerank=rerank)
        boosted = await retrieve(corpus, query, rerank=rerank, boost=lambda hit: 9)
    assert plain[0] == "keys"
    tied = [name for name in plain if name in ("locks", "error")]
    assert ids(hits) == ids(boosted) == [*tied, "bread", "keys"]


@pytest.mark.parametrize("answer", [[], [1.0], ["high"] * 4, None, [1, math.nan, 1, 1], [math.inf] * 4])
async def test_a_reranker_that_returns_invalid_scores_is_a_reranker_error(answer):
    async with corpus_of(TEXTS) as corpus:
        with pytest.raises(RerankerError):
            await retrieve(corpus, "keys", rerank=lambda query, texts: answer)


@pytest.mark.parametrize("text", ["surface", "artifact", lambda corpus, record: record.artifact_id[0]])
async def test_equal_texts_are_scored_once_and_keep_their_order(text):
    items = {name: {"title": "same"} for name in ("a1", "a2", "b")}
    async with kinds_of(items) as corpus:
        reader = Reader()
        hits = await retrieve(corpus, "same", rerank=reader, rerank_text=text)
    assert reader.asked == [("same", ["a", "b"] if callable(text) else ["same"])]
    assert [(hit.artifact_id, hit.score) for hit in hits] == [("a1", 0.5), ("a2", 0.5), ("b", 0.5)]


async def test_a_reranker_reads_the_matching_surface_or_the_whole_artifact_once_and_cut():
    text = "signing keys rotate every quarter of the year"
    items = {"long": text, "short": "bread"}
    async with corpus_of(items, strategy=Chunked(chunk_size=20, overlap=8)) as corpus:
        records = (await corpus.store.read(RecordsOf(["long"])))[0][0]
        counting = Asked(corpus.store)
        every = {"rerank_text": "artifact", "per_artifact": False}
        read = {}
        for name, options in {"surface": {}, "artifact": every, "cut": every | {"rerank_max_chars": 4}}.items():
            reader = Reader()
            await retrieve(Opened(counting, corpus.embedder), "keys, bread", rerank=reader, **options)
            [(_, read[name])] = reader.asked
    assert len(records) > 1
    assert sum(len(record.text) for record in records) > len(text)
    assert min(read["surface"]) == "bread"
    assert sorted(read["artifact"]) == ["bread", text]
    assert sorted(read["cut"]) == ["brea", "sign"]
    assert counting.calls.count("RecordsOf") == 2


class Opened:
    """A corpus with this store and this embedder."""

    name = "notes"

    def __init__(self, store, embedder):
        self.store, self.embedder = store, embedder


class Forgetful(Wrapper):
    """A store whose artifact "a" is removed when its records are read for the reranker."""

    async def read(self, *requests):
        if any(isinstance(request, RecordsOf) for request in requests):
            await self.apply(Change(removals=["a"]))
        return await super().read(*requests)


async def test_for_a_removed_artifact_the_reranker_reads_the_matching_surface():
    items = {"a": {"title": "keys", "body": "locks"}, "b": {"title": "bread", "body": "rye"}}
    async with kinds_of(items, store=Forgetful(MemoryStore())) as corpus:
        reader = Reader()
        await retrieve(corpus, "keys, bread", rerank=reader, rerank_text="artifact")
    assert reader.asked == [("keys, bread", ["keys", "bread\n\nrye"])]


async def test_the_text_of_an_artifact_has_no_blank_surfaces():
    async with kinds_of({"a": {"title": "", "body": ["keys", " ", "", "rye"]}, "b": {"title": ""}}) as corpus:
        reader = Reader()
        await retrieve(corpus, "keys", mode="dense", rerank=reader, rerank_text="artifact")
    assert sorted(reader.asked[0][1]) == ["", "keys\n\n \n\nrye"]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function_may_choose_the_text_that_a_reranker_reads(kind):
    def read(corpus, record):
        return f"{corpus.name}: {record.artifact_id}"

    async def read_async(corpus, record):
        await anyio.lowlevel.checkpoint()
        return read(corpus, record)

    async with corpus_of(TEXTS) as corpus:
        reader = Reader()
        hits = await retrieve(corpus, "keys", rerank=reader, rerank_text=read if kind == "sync" else read_async)
        assert reader.asked == [("keys", [f"notes: {name}" for name in ids(hits)])]
        with pytest.raises(ArgumentKindError, match="rerank_text must return a string"):
            await retrieve(corpus, "keys", rerank=reader, rerank_text=lambda corpus, record: record)


async def test_a_search_that_waits_for_a_reranker_can_be_cancelled():
    async def sleep(query, texts):
        await anyio.sleep_forever()

    async with corpus_of(TEXTS) as corpus:
        with anyio.move_on_after(0.05) as scope:
            await retrieve(corpus, "keys", rerank=sleep)
        assert scope.cancelled_caught
        assert ids(await retrieve(corpus, "keys", k=1)) == ["keys"]


# Boosting


@pytest.mark.parametrize("rerank", [None, length])
async def test_a_boost_is_added_to_every_candidate_at_the_end_and_off_the_event_loop(rerank):
    threads = set()

    def boost(hit):
        threads.add(threading.get_ident())
        return np.float64(100) if hit.artifact_id == "bread" else 0

    async with corpus_of(TEXTS) as corpus:
        plain = await retrieve(corpus, "signing keys, bread", rerank=rerank)
        hits = await retrieve(corpus, "signing keys, bread", rerank=rerank, boost=boost, k=2)
    lifted = next(hit for hit in plain if hit.artifact_id == "bread")
    assert ids(hits) == ["bread", next(name for name in ids(plain) if name != "bread")]
    assert hits[0].score == lifted.score + 100
    assert type(hits[0].score) is float
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("extra", [math.nan, math.inf, True, "much", None])
async def test_a_boost_that_is_not_finite_is_an_error_that_names_the_hit(extra):
    async with corpus_of({"keys": "keys"}) as corpus:
        with pytest.raises(ArgumentError, match="boost of 'keys' must be a finite number"):
            await retrieve(corpus, "keys", boost=lambda hit: extra)


# Formulated queries


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("give", ["bread", ["bread"], ["bread", " ", "bread"]])
async def test_one_formulated_query_is_searched_like_a_query_of_the_caller(mode, give):
    async def formulate(query):
        await anyio.lowlevel.checkpoint()
        return give

    async with corpus_of(TEXTS) as corpus:
        hits = await retrieve(corpus, "keys", mode=mode, formulate=formulate)
        assert hits == await retrieve(corpus, "bread", mode=mode)
    assert ids(hits)[0] == "bread"


@pytest.mark.parametrize("give", ["", " ", [], ["", "\n"]])
async def test_without_a_formulated_query_the_original_one_is_searched(give):
    async with corpus_of(TEXTS) as corpus:
        assert await retrieve(corpus, "keys", formulate=lambda query: give) == await retrieve(corpus, "keys")


@pytest.mark.parametrize("give", [None, 7, {"keys"}, {"a": 1}, ["keys", None], [b"keys"], b"keys"])
async def test_an_invalid_formulated_query_is_refused(give):
    async with corpus_of(TEXTS) as corpus:
        with pytest.raises(ArgumentKindError, match="formulate must return a string or a list of strings"):
            await retrieve(corpus, "keys", formulate=lambda query: give)
        with pytest.raises(ArgumentError, match="unpaired surrogate"):
            await retrieve(corpus, "keys", formulate=lambda query: ["half \ud800"])


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(
    ITEMS,
    st.lists(st.sampled_from(["keys", "bread disk", "zebra", "locks"]), min_size=2, max_size=4, unique=True),
    st.sampled_from(MODES),
    st.sampled_from(["scores", "blend", "rrf"]),
    st.booleans(),
)
def test_several_queries_are_fused_by_the_mean_of_their_fused_scores(items, queries, mode, fusion, per_artifact):
    scope = {"per_artifact": per_artifact, "k": 50}
    blends = mode == "hybrid" and fusion in ("scores", "blend")

    def name_of(hit):
        return hit.artifact_id if per_artifact else key(hit)

    async def main():
        async with corpus_of(items, strategy=CHUNKS, embedder=RANDOM) as corpus:
            channels = [{"mode": "hybrid", "fusion": fusion}] if blends else [{"mode": each} for each in MODES[:2]]
            channels = channels if mode == "hybrid" else [{"mode": mode}]
            found = [await retrieve(corpus, query, **each, **scope) for query in queries for each in channels]
            ask_all = {"mode": mode, "fusion": fusion, "formulate": lambda _: queries}
            return found, await retrieve(corpus, "anything", **ask_all, **scope)

    found, hits = anyio.run(main)
    masses = fuse_ranks([[name_of(hit) for hit in each] for each in found])
    assert [(name_of(hit), hit.score) for hit in hits] == [(each, mass / len(queries)) for each, mass in masses]
    assert len({key(hit) for hit in hits}) == len(hits)


async def test_several_queries_need_one_call_per_channel_and_are_embedded_concurrently():
    waiting = []
    all_there = anyio.Event()

    async def embed_slowly(texts):
        if len(texts) == 1 and texts[0].startswith("?"):
            waiting.extend(texts)
            if len(waiting) == 3:
                all_there.set()
            await all_there.wait()
        return [[1.0, len(text)] for text in texts]

    queries = ["?keys", "?bread", "?locks"]
    async with corpus_of(TEXTS, embedder=embedder_from(embed_slowly, id="slow", dim=2)) as corpus:
        counting = Asked(corpus.store)
        with anyio.fail_after(60):
            opened = Opened(counting, corpus.embedder)
            hits = await retrieve(opened, "?any", mode="hybrid", formulate=lambda _: queries)
    assert sorted(counting.calls) == ["Records", "dense", "lexical"]
    assert len(hits) == len(TEXTS)
    assert "lexical_score" in hits[0].metadata


async def test_several_queries_read_more_than_k_candidates_and_report_the_best_score_per_channel():
    table = {"x": [1, 0], "y": [0, 1], "both": [0.8, 0.6], "?x": [1, 0], "?y": [0, 1]}
    async with corpus_of({name: name for name in ("x", "y", "both")}, embedder=axes(table)) as corpus:
        [hit] = await retrieve(corpus, "any", k=1, formulate=lambda _: ["?x", "?y"], rrf_k=0)
        turned = await retrieve(corpus, "any", k=3, formulate=lambda _: ["?y", "?x"], rrf_k=0, fetch_k=1)
    assert (hit.artifact_id, hit.score) == ("x", (1 + 1 / 3) / 2)
    assert hit.metadata["dense_score"] == pytest.approx(1)
    assert [(hit.artifact_id, hit.score) for hit in turned] == [("y", 0.5), ("x", 0.5)]
    assert [hit.metadata["dense_score"] for hit in turned] == pytest.approx([1, 1])


async def test_a_reranker_is_called_once_with_the_original_query_for_all_formulated_ones():
    async with corpus_of(TEXTS) as corpus:
        reader = Reader()
        hits = await retrieve(corpus, "asked", formulate=lambda _: ["keys", "bread"], rerank=reader, mode="lexical")
        one = await retrieve(corpus, "asked", formulate=lambda _: "keys", rerank=reader, mode="lexical")
    assert [query for query, _ in reader.asked] == ["asked", "asked"]
    assert sorted(ids(hits)) == ["bread", "keys", "locks"]
    assert sorted(ids(one)) == ["keys", "locks"]


async def test_weights_apply_after_the_fusion_of_several_queries():
    items = {"a": {"title": "keys"}, "b": {"body": "keys and bread"}}
    async with kinds_of(items) as corpus:
        options = {"formulate": lambda _: ["keys", "bread"], "mode": "lexical"}
        plain = await retrieve(corpus, "any", **options)
        hits = await retrieve(corpus, "any", surface_weights={"title": 4}, **options)
    assert [(hit.artifact_id, hit.score) for hit in plain] == [("b", (1 / 62 + 1 / 61) / 2), ("a", 1 / 61 / 2)]
    assert [(hit.artifact_id, hit.score) for hit in hits] == [("a", 4 / 61 / 2), ("b", (1 / 62 + 1 / 61) / 2)]


async def test_queries_may_be_formulated_once_for_several_corpora():
    asked = []

    def formulate(query):
        asked.append(query)
        return ["keys", "bread"]

    question = ask("any", formulate=formulate)
    queries = await formulate_queries(question)
    assert queries == ("keys", "bread")
    async with corpus_of(TEXTS) as one, corpus_of({"c": "bread"}) as other:
        answers = [await run_search(corpus, question, queries) for corpus in (one, other)]
        assert asked == ["any"]
        assert answers == [await run_search(corpus, question) for corpus in (one, other)]


async def test_queries_of_several_widths_are_an_embedder_error():
    def embed_each(texts):
        return [[1.0] * (3 if text == "long" else 2) for text in texts]

    class Uneven:
        id, dim = "uneven", 2

        async def embed_query(self, text):
            return embed_each([text])[0]

    async with corpus_of(TEXTS, embedder=embedder_from(embed_each, id="uneven", dim=2)) as corpus:
        with pytest.raises(EmbedderError, match="several"):
            await retrieve(Opened(corpus.store, Uneven()), "any", formulate=lambda _: ["keys", "long"])


class Shrinking(Wrapper):
    """A store whose best artifact is removed once between ranking and reading."""

    times = 1

    async def read(self, *requests):
        for request in requests:
            if isinstance(request, Records) and self.times:
                self.times -= 1
                [[first]] = await self.store.read(Records(request.ids[:1]))
                await self.apply(Change(removals=[first.artifact_id]))
        return await super().read(*requests)


@pytest.mark.parametrize("stage", [{"surface_weights": {"document": 2}}, {"rerank": length}, {"boost": lambda hit: 0}])
@pytest.mark.parametrize("mode", MODES)
async def test_a_record_removed_during_a_search_is_replaced_without_formulating_again(mode, stage):
    items, asked = {f"a{number}": "keys " * (5 - number) for number in range(5)}, []

    def formulate(query):
        asked.append(query)
        return ["keys", "keys keys"]

    options = {"mode": mode, "k": 3, **stage, "formulate": formulate}
    async with corpus_of(items, store=Shrinking(MemoryStore())) as corpus:
        hits = await retrieve(corpus, "any", **options)
        assert asked == ["any"]
        assert hits == await retrieve(corpus, "any", **options)
    assert len(hits) == 3


# Laws


OPTIONS = st.fixed_dictionaries(
    {"mode": st.sampled_from(MODES), "fusion": st.sampled_from(FUSIONS), "per_artifact": st.booleans()},
    optional={"filter": st.just({"name": {"$gt": "b"}}), "fetch_k": st.integers(10, 20)},
)
MOVING = st.fixed_dictionaries(
    {},
    optional={
        "surface_weights": st.just({"chunk": 0.5}),
        "boost": st.just(lambda hit: len(hit.text) / 9),
        "formulate": st.just(lambda query: [query, "locks", "disk"]),
        "rerank": st.just(length),
    },
)


async def search_many(items, query, *many, store=None):
    """Return the hits of each of several searches."""
    fields = {"strategy": CHUNKS, "metadata_of": lambda name, _: {"name": name}, "embedder": RANDOM}
    async with corpus_of(items, store=store, **fields) as corpus:
        return [await retrieve(corpus, query, **options) for options in many]


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(ITEMS, WORDS, OPTIONS, st.integers(1, 10))
def test_neutral_options_change_nothing(items, query, options, k):
    neutral = [{name: value} for name, value in NEUTRAL.items()] + [NEUTRAL]
    plain, *others = anyio.run(
        partial(search_many, items, query, *({**options, "k": k, **each} for each in [{}, *neutral]))
    )
    assert all(hits == plain for hits in others)


@settings(max_examples=examples(25))
@given(ITEMS, WORDS, OPTIONS, st.integers(0, 10))
def test_a_search_with_a_smaller_k_returns_the_first_hits_of_one_with_a_larger_k(items, query, options, k):
    """This is true if channels are read equally deep.

    Fused channels are, for `k` up to 10 or with `fetch_k`.
    """
    few, many = anyio.run(search_many, items, query, {**options, "k": k}, {**options, "k": 10})
    assert few == many[:k]


@settings(max_examples=examples(25))
@given(ITEMS, WORDS, OPTIONS, MOVING)
def test_no_hit_comes_twice_and_the_best_come_first(items, query, options, moving):
    [hits] = anyio.run(search_many, items, query, options | moving)
    named = [hit.artifact_id if options["per_artifact"] else key(hit) for hit in hits]
    assert len(set(named)) == len(named)
    assert scores(hits) == sorted(scores(hits), reverse=True)


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_memory_and_file_stores_return_the_same_hits(tmp_path):
    chance = Random(1)
    words = ["keys", "bread", "locks", "error", "disk"]
    items = {f"n{at}": " ".join(chance.choices(words, k=chance.randint(1, 8))) for at in range(12)}
    stages = [{}, {"surface_weights": {"chunk": 0.5}}, {"rerank": length, "rerank_text": "artifact"}]
    stages += [{"boost": lambda hit: len(hit.text) / 9}, {"formulate": lambda query: [query, "locks", "disk"]}]
    many = [
        {"mode": mode, "fusion": fusion, "per_artifact": per_artifact, "fetch_k": 8, "k": 5, **stage}
        for mode in MODES
        for fusion in FUSIONS
        for per_artifact in (True, False)
        for stage in stages
    ]
    mine = await search_many(items, "keys disk", *many)
    other = await search_many(items, "keys disk", *many, store=tmp_path / "notes.airw")
    for one, another in zip(mine, other, strict=True):
        assert [key(hit) for hit in one] == [key(hit) for hit in another]
        assert scores(one) == pytest.approx(scores(another), abs=1e-6)
    assert len({tuple(map(key, hits)) for hits in mine}) > 10

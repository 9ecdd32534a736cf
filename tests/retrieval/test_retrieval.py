"""Searches of one open corpus in the three modes."""

from dataclasses import replace

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw.corpora import build
from airw.embedders import embedder_from
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, FilterError
from airw.indexing import Chunked
from airw.protocols import ArtifactIds, Change, Counts, Records, Words, ask
from airw.retrieval import FUSIONS, MODES, SEARCH_DEFAULTS, SearchQuery, retrieve
from airw.retrieval.fusion import fuse_ranks
from airw.sources import from_mapping
from airw.stores import MemoryStore, Wrapper
from tests.support.drawing import examples

RRF = {"mode": "hybrid", "fusion": "rrf", "alpha": 0.5}
TEXTS = {
    "keys": "rotate the signing keys every quarter",
    "bread": "bake a loaf of bread with rye",
    "locks": "change the locks and hand out keys",
    "error": "error code QZX9917 means the disk is full",
}


def corpus_of(items, *, embedder="light", store=None, **source):
    return build(from_mapping(items, name="notes", **source), store=store or MemoryStore(), embedder=embedder)


def axes(table, dim=4, id="axes-v1"):
    """Return an embedder that looks up the vector of each text in a table."""
    return embedder_from(lambda texts: [table[text] for text in texts], id=id, dim=dim)


def ids(hits):
    return [hit.artifact_id for hit in hits]


async def test_dense_ranks_every_record_and_counts_zero_scores():
    async with corpus_of(TEXTS) as corpus:
        hits = await retrieve(corpus, "bread", mode="dense")
    assert hits[0].artifact_id == "bread"
    assert len(hits) == len(TEXTS)
    assert 0 < hits[0].score <= 1
    assert sorted((hit.score for hit in hits), reverse=True) == [hit.score for hit in hits]


async def test_lexical_leaves_out_records_without_a_word_of_the_query():
    async with corpus_of(TEXTS) as corpus:
        hits = await retrieve(corpus, "keys", mode="lexical")
        nothing = await retrieve(corpus, "zebra", mode="lexical")
    assert set(ids(hits)) == {"keys", "locks"}
    assert all(hit.score > 0 for hit in hits)
    assert nothing == []


async def test_hybrid_scores_are_fused_ranks_even_if_no_word_matches():
    table = {text: [1, at] for at, text in enumerate(TEXTS.values())} | {"bread": [1, 1], "zebra": [1, 0]}
    async with corpus_of(TEXTS, embedder=axes(table, dim=2)) as corpus:
        both = await retrieve(corpus, "bread", **RRF)
        one = await retrieve(corpus, "zebra", **RRF)
    assert both[0].score == pytest.approx(2 / 61)
    assert [hit.score for hit in one] == pytest.approx([1 / (60 + rank) for rank in range(1, len(TEXTS) + 1)])


@pytest.mark.parametrize("per_artifact", [True, False])
@pytest.mark.parametrize("fusion", FUSIONS)
async def test_a_hybrid_hit_has_a_word_of_the_query_or_a_cosine_that_is_not_zero(fusion, per_artifact):
    table = {"near": [1, 0], "far": [-1, 0], "across": [0, 1], "needle": [0, 1], "needle ": [1, 0], "zebra": [1, 0]}
    items = {name: name for name in ("near", "far", "across", "needle")}
    later = {"boost": lambda hit: 9, "rerank": lambda query, texts: [len(text) for text in texts]}
    later |= {"surface_weights": {"document": 2}, "formulate": lambda query: [query, "zebra"]}
    async with corpus_of(items, embedder=axes(table, dim=2)) as corpus:
        for options in ({}, *({name: value} for name, value in later.items())):
            options |= {"per_artifact": per_artifact, "fusion": fusion}
            assert {*ids(await retrieve(corpus, "needle ", **options))} == {"near", "far", "needle"}
            assert {*ids(await retrieve(corpus, "needle ", mode="dense", **options))} == {*items}
            assert ids(await retrieve(corpus, "needle ", mode="lexical", **options)) == ["needle"]
        assert await retrieve(corpus, "needle ", filter={"no": {"$exists": True}}, fusion=fusion) == []


async def test_hits_with_evidence_fill_k_whatever_ranks_before_them():
    items = {f"a{at:02}": "bread" for at in range(60)} | {f"b{at:02}": "needle" for at in range(20)}
    table = {"bread": [0, 1], "needle": [0, 1], "needle ": [1, 0]}
    async with corpus_of(items, embedder=axes(table, dim=2)) as corpus:
        for options in ({}, {"fetch_k": 20}, {"fusion": "rrf", "alpha": 1.0}, {"surface_weights": {"document": 2}}):
            hits = await retrieve(corpus, "needle ", k=15, **options)
            assert ids(hits) == [f"b{at:02}" for at in range(15)]


async def test_hybrid_lifts_a_rare_identifier_that_dense_ranks_last():
    vectors = {"keys": [1, 0], "bread": [0.9, 0.1], "locks": [0.8, 0.2], "error": [-1, 0]}
    table = {TEXTS[name]: vector for name, vector in vectors.items()} | {"QZX9917": [1, 0]}
    async with corpus_of(TEXTS, embedder=axes(table, dim=2)) as corpus:
        dense = await retrieve(corpus, "QZX9917", mode="dense")
        lexical = await retrieve(corpus, "QZX9917", mode="lexical")
        hybrid = await retrieve(corpus, "QZX9917", **RRF)
    assert ids(dense)[-1] == "error"
    assert ids(lexical) == ["error"]
    assert ids(hybrid)[0] == "error"


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_an_artifact_of_200_matching_chunks_does_not_crowd_out_the_others(mode):
    items = {"long": "\n\n".join(f"signing keys, part {number}" for number in range(200))}
    items |= {f"short{number:02}": f"signing keys and matter {number}" for number in range(20)}
    chunks = Chunked(chunk_size=30, overlap=0)
    async with corpus_of(items, strategy=chunks) as corpus:
        counts = await ask(corpus.store, Counts())
        hits = await retrieve(corpus, "signing keys", mode=mode)
        surfaces = await retrieve(corpus, "signing keys part", mode=mode, per_artifact=False, k=20)
    assert counts["records"] >= 200
    assert len(set(ids(hits))) == len(hits) == 10
    assert len({(hit.artifact_id, hit.surface_index) for hit in surfaces}) == len(surfaces) == 20
    assert len(set(ids(surfaces))) < 20


async def test_a_hybrid_hit_has_the_surface_of_the_channel_that_ranks_it_best_and_of_dense_on_a_tie():
    items = {"a": "alpha\n\nneedle", "b": "beta", "c": "gamma\n\nthread"}
    table = {"alpha": [0.8, 0.6], "needle": [0, 1], "beta": [1, 0], "gamma": [0.6, 0.8], "thread": [0, 1]}
    chunks = Chunked(chunk_size=8, overlap=0)
    queries = {"needle ": [1, 0], "thread ": [0.6, 0.8]}
    async with corpus_of(items, strategy=chunks, embedder=axes(table | queries, dim=2)) as corpus:
        assert [hit.text for hit in await retrieve(corpus, "needle ", mode="dense")] == ["beta", "alpha", "gamma"]
        better, *_ = await retrieve(corpus, "needle ", **RRF)
        tied, *_ = await retrieve(corpus, "thread ", **RRF)
    assert (better.artifact_id, better.text) == ("a", "needle")
    assert (tied.artifact_id, tied.text, tied.score) == ("c", "gamma", 2 / 61)


async def test_a_hybrid_search_reads_more_candidates_than_it_returns():
    items = {"meaning": "unrelated", "word": "needle", "both": "needle and more words that lower its weight"}
    items |= {f"far{number}": f"unrelated {number}" for number in range(9)}
    table = {text: [0, 1] for text in items.values()} | {items["meaning"]: [1, 0], "needle ": [1, 0]}
    table |= {items["both"]: [0.9, 0.1], items["word"]: [-1, 0]}
    async with corpus_of(items, embedder=axes(table, dim=2)) as corpus:
        assert ids(await retrieve(corpus, "needle ", k=1, mode="dense")) == ["meaning"]
        assert ids(await retrieve(corpus, "needle ", k=1, mode="lexical")) == ["word"]
        assert ids(await retrieve(corpus, "needle ", k=1, **RRF)) == ["both"]


@pytest.mark.parametrize("mode", MODES)
async def test_only_records_that_satisfy_the_filter_are_ranked(mode):
    items = {name: {"text": text, "year": 2020 + at} for at, (name, text) in enumerate(TEXTS.items())}
    async with corpus_of(items, metadata_of=lambda _, raw: {"year": raw["year"]}) as corpus:
        hits = await retrieve(corpus, "keys", mode=mode, filter={"year": {"$gte": 2022}})
    assert set(ids(hits)) == ({"locks", "error"} if mode == "dense" else {"locks"})
    assert {hit.metadata["year"] for hit in hits} <= {2022, 2023}


@pytest.mark.parametrize("k", [0, 5])
@pytest.mark.parametrize("mode", MODES)
async def test_a_malformed_filter_is_an_error_in_an_empty_corpus_too(mode, k):
    async with corpus_of({}) as corpus:
        with pytest.raises(FilterError, match="regex"):
            await retrieve(corpus, "keys", k=k, mode=mode, filter={"n": {"$regex": "1"}})


@pytest.mark.parametrize("mode", MODES)
async def test_only_the_given_kinds_of_surfaces_are_ranked(mode):
    async with corpus_of(TEXTS) as corpus:
        assert ids(await retrieve(corpus, "bread", mode=mode, surfaces=iter(["document", "other"])))[0] == "bread"
        assert await retrieve(corpus, "bread", mode=mode, surfaces=[]) == []


@pytest.mark.parametrize("mode", MODES)
async def test_an_empty_corpus_has_no_hits(mode):
    async with corpus_of({}) as corpus:
        assert await retrieve(corpus, "anything", mode=mode) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fuzzy"}, "'dense', 'lexical', 'hybrid'"),
        ({"mode": ["dense"]}, "'dense', 'lexical', 'hybrid'"),
        ({"surfaces": "document"}, r"\['document'\]"),
        ({"surfaces": [1]}, "a list of strings"),
        ({"k": -1}, "k must be"),
        ({"k": 2.5}, "k must be"),
        ({"fetch_k": 0}, "fetch_k must be"),
        ({"rrf_k": -1}, "rrf_k must be"),
        ({"k": 10**9}, "k must be at most 1,000,000, not 1000000000"),
        ({"k": 10**5_000}, "k must be at most 1,000,000, not a number of about"),
        ({"fetch_k": 10**9}, "fetch_k must be at most 1,000,000"),
        ({"rrf_k": 10**19}, "rrf_k must be at most"),
        ({"rerank_max_chars": 10**19}, "rerank_max_chars must be at most"),
        ({"query": None}, "query must be a string"),
        ({"query": ""}, "query is blank; write what to search for"),
        ({"query": " \n\u3000"}, "query is blank"),
        ({"query": "half \ud800"}, "unpaired surrogate"),
    ],
)
async def test_an_invalid_argument_is_an_error_with_a_remedy(options, message):
    async with corpus_of({}) as corpus:
        with pytest.raises(ArgumentError, match=message):
            await retrieve(corpus, **{"query": "keys", **options})


async def test_k_limits_the_hits_and_zero_returns_none():
    async with corpus_of(TEXTS) as corpus:
        for mode in MODES:
            assert len(await retrieve(corpus, "the keys", k=1, mode=mode)) == 1
            assert await retrieve(corpus, "the keys", k=0, mode=mode) == []


async def test_fetch_k_is_the_number_of_candidates_per_channel_of_a_hybrid_search():
    async with corpus_of(TEXTS) as corpus:
        query = f"{TEXTS['bread']}, keys, disk"
        assert len(await retrieve(corpus, query, fetch_k=1, **RRF)) == 1
        assert len(await retrieve(corpus, query, **RRF)) == len(TEXTS)


async def test_a_hit_names_its_source_and_its_metadata_belongs_to_the_caller():
    items = {"a": {"text": "keys", "tags": ["x"]}}
    async with corpus_of(items, metadata_of=lambda _, raw: {"tags": raw["tags"]}) as corpus:
        (hit,) = await retrieve(corpus, "keys")
        assert (hit.source, hit.surface_kind, hit.surface_index, hit.text) == ("notes", "document", 0, "keys")
        hit.metadata["tags"].append("mine")
        hit.metadata["new"] = 1
        (again,) = await retrieve(corpus, "keys")
    assert again.metadata["tags"] == ["x"]
    assert "new" not in again.metadata


@pytest.mark.parametrize(("mode", "times"), [("dense", 1), ("lexical", 0), ("hybrid", 1)])
async def test_a_query_is_embedded_at_most_once_and_never_for_a_lexical_search(mode, times):
    asked = []

    def embed(texts):
        asked.extend(texts)
        return [[1.0, 0.0]] * len(texts)

    async with corpus_of(TEXTS, embedder=embedder_from(embed, id="count-v1", dim=2)) as corpus:
        asked.clear()
        await retrieve(corpus, "keys", mode=mode)
    assert asked == ["keys"] * times


class MeetingStore(Wrapper):
    """A store whose lexical search waits until the dense channel embeds its query."""

    def __init__(self, store):
        super().__init__(store)
        self.embedding, self.searching = anyio.Event(), anyio.Event()

    async def read(self, *requests):
        if any(request.needs == "lexical" for request in requests):
            self.searching.set()
            await self.embedding.wait()
        return await super().read(*requests)


async def test_the_two_channels_of_a_hybrid_search_run_concurrently():
    store = MeetingStore(MemoryStore())

    async def embed(texts):
        if texts == ["keys"]:
            store.embedding.set()
            await store.searching.wait()
        return [[1.0, 0.0]] * len(texts)

    with anyio.fail_after(60):
        async with corpus_of(TEXTS, store=store, embedder=embedder_from(embed, id="meet-v1", dim=2)) as corpus:
            assert len(await retrieve(corpus, "keys", **RRF)) == len(TEXTS)


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
@pytest.mark.parametrize("answer", [[[float("nan"), 0.0]], [[1.0, 0.0, 0.0]], "raise"])
async def test_a_failing_embedder_is_one_embedder_error_in_every_mode_that_embeds(mode, answer):
    def embed(texts):
        if "keys?" not in texts:
            return [[1.0, 0.0]] * len(texts)
        if answer == "raise":
            raise OSError("connection lost")
        return answer

    async with corpus_of(TEXTS, embedder=embedder_from(embed, id="bad-v1", dim=2)) as corpus:
        with pytest.raises(EmbedderError, match="bad-v1"):
            await retrieve(corpus, "keys?", mode=mode)
        assert len(await retrieve(corpus, "keys?", mode="lexical")) == 2


async def test_a_query_vector_of_another_width_is_an_embedder_mismatch():
    class Reopened:
        name = "notes"

    async with corpus_of(TEXTS) as corpus:
        other = Reopened()
        other.store, other.embedder = corpus.store, embedder_from(lambda texts: [[1.0]], id="other", dim=1)
        with pytest.raises(EmbedderMismatch):
            await retrieve(other, "keys")


class ShrinkingStore(Wrapper):
    """A store whose best artifact is removed between ranking and reading, `times` times."""

    def __init__(self, times):
        super().__init__(MemoryStore())
        self.times = times

    async def read(self, *requests):
        for request in requests:
            if isinstance(request, Records) and self.times:
                self.times -= 1
                [first] = await ask(self.store, Records(request.ids[:1]))
                await self.apply(Change(removals=[first.artifact_id]))
        return await super().read(*requests)


@pytest.mark.parametrize("mode", MODES)
async def test_a_record_removed_during_a_search_is_replaced_by_the_next(mode):
    items, asked = {f"a{number}": "keys " * (5 - number) for number in range(5)}, []

    def embed(texts):
        asked.extend(texts)
        return [[1.0, len(text)] for text in texts]

    embedder = embedder_from(embed, id="count-v1", dim=2)
    async with corpus_of(items, store=ShrinkingStore(1), embedder=embedder) as corpus:
        hits = await retrieve(corpus, "keys", k=3, mode=mode)
        assert asked.count("keys") == (mode != "lexical")
        assert ids(hits) == ids(await retrieve(corpus, "keys", k=3, mode=mode))
    assert len(hits) == 3


async def test_a_writer_that_never_rests_costs_only_what_it_removed():
    items = {f"a{number}": "keys" for number in range(6)}
    async with corpus_of(items, store=ShrinkingStore(100)) as corpus:
        hits = await retrieve(corpus, "keys", k=3, mode="lexical")
        assert set(ids(hits)) <= set(await ask(corpus.store, ArtifactIds()))
    assert len(hits) == 2


WORDS = st.lists(st.sampled_from(["keys", "bread", "locks", "error", "disk"]), min_size=1, max_size=6).map(" ".join)


@settings(max_examples=examples(25))
@given(st.dictionaries(st.sampled_from("abcdefgh"), WORDS, min_size=1), WORDS, st.booleans(), st.integers(1, 8))
def test_hybrid_is_the_reciprocal_rank_fusion_of_the_two_channels(items, query, per_artifact, k):
    async def main():
        async with corpus_of(items, strategy=Chunked(chunk_size=12, overlap=0)) as corpus:
            options = {"per_artifact": per_artifact}
            dense = await retrieve(corpus, query, k=50, **options, mode="dense")
            lexical = await retrieve(corpus, query, k=50, mode="lexical", **options)
            return dense, lexical, await retrieve(corpus, query, k=k, **RRF, **options)

    def key(hit):
        return hit.artifact_id if per_artifact else (hit.artifact_id, hit.surface_index)

    dense, lexical, hybrid = anyio.run(main)
    fused = fuse_ranks([list(map(key, dense)), list(map(key, lexical))])
    evident = {key(hit) for hit in (*dense, *lexical) if hit.score}
    assert [(key(hit), hit.score) for hit in hybrid] == [pair for pair in fused if pair[0] in evident][:k]
    for hit in hybrid:  # it has the surface of the channel that ranks it best, and of the dense one on a tie
        places = [
            (rank, channel, found.surface_index)
            for channel, hits in enumerate((dense, lexical))
            for rank, found in enumerate(hits)
            if key(found) == key(hit)
        ]
        assert hit.surface_index == min(places)[2]


async def test_the_default_is_a_hybrid_search_that_adds_the_scores_of_both_channels():
    async with corpus_of(TEXTS) as corpus:
        plain = await retrieve(corpus, "signing keys")
        added = await retrieve(corpus, "signing keys", mode="hybrid", fusion="scores")
    assert plain == added
    assert {"dense_score", "lexical_score"} <= plain[0].metadata.keys()


@pytest.mark.parametrize(("embedder_id", "alpha"), [("hashing-v1-512", 0.1), ("bert-384@abc", 0.5)])
async def test_the_share_of_the_cosine_depends_on_the_embedder_unless_it_is_given(embedder_id, alpha):
    table = {text: [1, place] for place, text in enumerate(TEXTS.values())} | {"keys ": [0, 1]}
    async with corpus_of(TEXTS, embedder=axes(table, dim=2)) as corpus:
        known = replace(corpus, embedder=Renamed(corpus.embedder, embedder_id))
        for fusion in FUSIONS:
            own = await retrieve(known, "keys ", fusion=fusion)
            assert own == await retrieve(corpus, "keys ", alpha=alpha, fusion=fusion)


async def test_a_number_of_a_fusion_chooses_its_form_with_fixed_weights():
    async with corpus_of(TEXTS) as corpus:
        for options in ({"alpha": 0.3}, {"bm25_sat_k": 8.0}):
            fixed = await retrieve(corpus, "signing keys", **options)
            assert fixed == await retrieve(corpus, "signing keys", fusion="blend", **options)


async def test_the_default_adds_half_the_cosine_and_half_the_share_of_the_highest_possible_score():
    texts = {"both": "signing keys", "one": "signing", "none": "bread"}
    table = {"signing keys": [1, 0], "signing": [0, 1], "bread": [3, 4]}
    async with corpus_of(texts, embedder=axes(table, dim=2)) as corpus:
        hits = {hit.artifact_id: hit for hit in await retrieve(corpus, "signing keys")}
        # A word that no text has does not count: there is no text that could contain it.
        unknown = await retrieve(corpus, "signing zebra", mode="lexical")
        counts = await ask(corpus.store, Words(["signing keys"]))
    highest = counts.max_score(counts)
    for hit in hits.values():
        share = hit.metadata.get("lexical_score", 0.0) / highest
        assert hit.metadata.get("lexical_share", 0.0) == pytest.approx(share)
        assert hit.score == pytest.approx(hit.metadata["dense_score"] / 2 + share / 2)
    assert 0 < hits["one"].metadata["lexical_share"] < hits["both"].metadata["lexical_share"] < 1
    assert len(unknown) == 2


class Renamed:
    """An embedder under another id."""

    def __init__(self, embedder, id):
        self.embed_query, self.id, self.dim = embedder.embed_query, id, embedder.dim


@pytest.mark.parametrize(
    ("embedder_id", "options", "key"),
    [
        ("hashing-v1-512", {}, "hybrid+scores"),
        ("hashing-v1-512", {"fusion": "ranks"}, "hybrid+ranks"),
        ("hashing-v1-512", {"fusion": "blend"}, "hybrid+blend"),
        ("hashing-v1-512", {"alpha": 0.1, "fusion": "rrf"}, "hybrid"),
        ("hashing-v1-512", {"alpha": 0.5, "fusion": "rrf"}, "hybrid+alpha=0.5"),
        ("bert-384@abc", {"alpha": 0.5, "fusion": "rrf"}, "hybrid"),
        ("bert-384@abc", {"alpha": 0.1, "fusion": "rrf"}, "hybrid+alpha=0.1"),
        ("hashing-v1-512", {"alpha": 0.5, "mode": "dense"}, "dense"),
    ],
)
def test_the_key_of_a_floor_names_no_share_that_is_the_default_of_the_embedder(embedder_id, options, key):
    assert SearchQuery.parse("search", "keys", options).scale(embedder_id) == (key, None)


def test_each_default_of_a_search_can_be_passed_and_changes_nothing():
    """None is the default of many options, and then a value that can be passed."""
    assert SearchQuery.parse("search", "keys", dict(SEARCH_DEFAULTS)) == SearchQuery.parse("search", "keys", {})
    for name, default in SEARCH_DEFAULTS.items():
        if default is not None:
            with pytest.raises(ArgumentError, match=name):
                SearchQuery.parse("search", "keys", {name: None})

"""Faults of `ir` 0.1.61 in its searches, which airw lacks.

The docstring of a test begins with the number of the fault.
"""

import json
import unicodedata

import numpy as np
import pytest

from airw.embedders import embedder_from
from airw.errors import EmbedderError, StoreError
from airw.indexing import Chunked
from airw.protocols import Change, Counts, ask
from airw.values import ArtifactChange, LedgerEntry, Record, SearchHit
from tests.support.small_corpora import Kinds, in_memory


async def test_nan_is_never_stored_searched_or_printed():
    """F24: builds and queries refuse vectors with NaN; JSON of hits has numbers or null."""
    nan = embedder_from(lambda texts: [[float("nan"), 1.0] for _ in texts], id="nan", dim=2)
    with pytest.raises(EmbedderError, match="not finite"):
        await in_memory({"a": "text"}, embedder=nan)
    asked = []

    def turning(texts):
        asked.extend(texts)
        return [[float("nan") if len(asked) > 1 else 1.0, 1.0] for _ in texts]

    corpus = await in_memory({"a": "text"}, embedder=embedder_from(turning, id="turning", dim=2))
    for mode in ("dense", "hybrid"):
        with pytest.raises(EmbedderError, match="not finite"):
            await corpus.search("text", mode=mode)
    record = Record(Record.make_id("b", "document", 0), "b", "document", 0, "text")
    change = ArtifactChange(LedgerEntry("b", "1", "e", "s"), [record], np.full((1, 2), np.nan, np.float32))
    with pytest.raises(StoreError, match="NaN"):
        await corpus.store.apply(Change([change]))
    hit = SearchHit("a", "document", float("nan"), "text", {"x": float("inf")})
    assert json.loads(json.dumps(hit.to_dict(), allow_nan=False))["score"] is None


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_an_artifact_of_many_chunks_does_not_crowd_out_the_others(mode):
    """F25: `k` counts artifacts, not surfaces: a search with k=10 returns 10 of 21."""
    items = {"big": "\n\n".join(f"keys keys keys {number}" for number in range(200))}
    items |= {f"small-{number}": f"keys and more words {number}" for number in range(20)}
    corpus = await in_memory(items, strategy=Chunked(chunk_size=20, overlap=0))
    assert (await ask(corpus.store, Counts()))["records"] > 200
    hits = await corpus.search("keys keys keys 1", k=10, mode=mode)
    assert len({hit.artifact_id for hit in hits}) == len(hits) == 10


FORMS = ("NFC", "NFD")


@pytest.mark.parametrize("asked", FORMS)
@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (mode, text)
        for mode in ("lexical", "dense")
        for text in ("café crème", "йод ёлка", "한국어", "ガラス", "tiếng Việt")
    ],
)
async def test_composed_and_decomposed_accents_are_the_same_words(mode, text, asked):
    """F41: a query finds a text in either form of accents, and both forms score the same."""
    written = {form: unicodedata.normalize(form, text) for form in FORMS}
    assert written["NFC"] != written["NFD"]
    corpus = await in_memory(written | dict.fromkeys("xyz", "tea"))
    hits = await corpus.search(written[asked], mode=mode, k=2)
    assert [hit.artifact_id for hit in hits] == sorted(FORMS)
    assert hits[0].score == pytest.approx(hits[1].score)
    assert hits[0].score > 0


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
async def test_a_word_inside_a_text_without_spaces_is_found(mode):
    """F41: the built-in embedder treats each Han or kana character as a word."""
    corpus = await in_memory({"tokyo": "東京都庁舎の案内", "kyoto": "金閣寺への道", "x": "bread"})
    best, *_ = await corpus.search("案内", mode=mode)
    assert best.artifact_id == "tokyo"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_ties_are_in_order_of_id_for_every_k(mode):
    """F42: 2,000 equal scores come in order of id, whatever order they were stored in."""
    ids = [f"{at:04}" for at in range(2000)]
    shuffled = [ids[at] for at in np.random.default_rng(1).permutation(2000)]
    corpus = await in_memory(dict.fromkeys(shuffled, "the same words"))
    for k in (1, 7, 100):
        assert [hit.artifact_id for hit in await corpus.search("same words", k=k, mode=mode)] == ids[:k]


async def test_no_two_surfaces_share_an_id_whatever_characters_their_names_contain():
    """F43: an id separates its parts by their length, not by a character they may contain."""
    names = ["a", "a\u241fb", "a:1", "1:a", "a\n", ""]
    made = {Record.make_id(id, kind, index) for id in names for kind in names for index in (0, 1, 11)}
    assert len(made) == len(names) ** 2 * 3
    corpus = await in_memory({"a\u241fb": [("c", "first")], "a": [("b\u241fc", "second")]}, strategy=Kinds())
    assert {hit.text for hit in await corpus.search("x", mode="dense")} == {"first", "second"}

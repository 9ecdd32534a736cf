"""The hashing embedder: the properties that a user may rely on."""

import hashlib
import math
import os
import re
import subprocess
import sys
import unicodedata

import anyio
import anyio.lowlevel
import numpy as np
import pytest
from hypothesis import given, strategies as st

from airw._base.folding import UNSPACED
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError, EmbedderError
from airw.values import Analyser

WORDS = [f"w{number}" for number in range(300)]
LONG = " ".join(WORDS * 40)  # about 56,000 characters


def digest(rows):
    return hashlib.sha256(rows.tobytes()).hexdigest()


def embed(texts, dim=512, **options):
    return anyio.run(HashingEmbedder(dim, **options).embed_documents, texts)


def embed_each(texts, dim):
    async def each():
        return [await HashingEmbedder(dim).embed_query(text) for text in texts]

    return anyio.run(each)


def cosine(one, other, dim=4096):
    rows = embed([one, other], dim)
    return float(rows[0] @ rows[1])


# --- HashingEmbedder ------------------------------------------------------------------------------------------------


async def test_hashing_returns_one_unit_row_per_text_in_their_order():
    texts = ["rotate the keys", "bake bread", LONG]
    rows = await HashingEmbedder().embed_documents(texts)
    assert rows.shape == (3, 512)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    for row, text in zip(rows, texts, strict=True):
        assert (row == await HashingEmbedder().embed_query(text)).all()


async def test_hashing_accepts_an_empty_list():
    assert (await HashingEmbedder(8).embed_documents([])).shape == (0, 8)


@pytest.mark.parametrize("text", ["", " \n\t", "…!?-", "\ud800", "❤️", "\u0301"])
def test_a_text_without_words_is_the_zero_vector(text):
    assert not embed([text]).any()


texts = st.text(st.characters(), max_size=40)
phrases = st.lists(
    st.sampled_from(["key", "keys", "Straße", "é", "日本語", "हिन्दी", "_x1", "-", "\n"]), max_size=12
).map(" ".join)


@given(st.lists(texts | phrases, max_size=8), st.lists(texts | phrases, max_size=3), st.sampled_from([1, 7, 512]))
def test_a_vector_depends_only_on_its_text(some, others, dim):
    """It is equal bit for bit with any other texts in the batch."""
    alone = embed_each(some, dim)
    together = embed([*others, *some, *others], dim)[len(others) : len(others) + len(some)]
    assert all((one == same).all() for one, same in zip(alone, together, strict=True))


def test_a_vector_does_not_depend_on_the_size_of_the_batch():
    """It is equal bit for bit over several slices, inline or in a worker thread."""
    texts = [" ".join(WORDS[number % 250 : number % 250 + 50]) for number in range(5_000)]
    texts[17] = LONG * 6  # longer than a slice
    rows = embed(texts, 64)
    for position in (0, 16, 17, 18, 2_500, 4_999):
        assert (rows[position] == embed([texts[position]], 64)[0]).all()


@pytest.mark.slow
def test_vectors_are_the_same_in_another_process_and_release():
    """Another value would mean that all corpora of that version must be rebuilt.

    So the id must change, too.
    """
    texts = ["Rotate the signing keys; rotate them often.", "Crème brûlée 東京 \ud800 हिन्दी"]
    digests = {version: digest(embed(texts, version=version)) for version in ("v1", "v2")}
    assert {version: value[:16] for version, value in digests.items()} == {
        "v1": "e9cd503e53d4b1fc",
        "v2": "80196669c7be77c3",
    }
    code = (
        "import sys, anyio, hashlib; from airw.embedders import HashingEmbedder as H;"
        f"print(hashlib.sha256(anyio.run(H().embed_documents, {texts!r}).tobytes()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digests["v2"]


ODD_TEXTS = [
    "İstanbul ﬁle \uff21\uff11 l\u00b4ete _x1 a_\u0301b",
    "\u0301x か\u3099 カ・キ ー々 한국어 ไทยที่ हिन्दी शेर",
    "ΑΣ ς ß ẞ ü u\u0308 ½ ² № ™ e\u20e3 \ud800 😀\u200d😀 ❤\ufe0f",
    "漢\u0301字 -\u0308a \u0660\u0661 \U0003fffd\U0003fffe \u2028 \x85",
]


def test_vectors_of_the_first_version_are_as_they_were():
    assert digest(embed(ODD_TEXTS, version="v1"))[:16] == "5c53a63a45fd4dd7"
    assert digest(embed(ODD_TEXTS, version="v2"))[:16] == "007645e9a631b807"


@given(st.text(st.characters(max_codepoint=127)))
def test_both_versions_agree_on_plain_text(text):
    text = text.replace("_", "-")
    assert (embed([text], version="v1") == embed([text])).all()


@given(texts)
def test_words_are_those_of_a_lexical_search(text):
    words = [word for word in Analyser(None).terms(text) if len(word) == 1 or not re.match(UNSPACED, word)]
    assert (embed([text]) == embed([" ".join(words)])).all()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Rotate KEYS", "rotate keys"),
        ("caf\u00e9", "cafe\u0301"),
        ("\ufb01le \uff21\uff11", "file a1"),
        ("keys, rotate!", "keys -- rotate"),
        ("İstanbul", "I\u0307stanbul"),
        ("l\u00b4ete", "l \u0301ete"),
    ],
)
def test_case_punctuation_and_spelling_of_characters_do_not_matter(one, other):
    assert (embed([one]) == embed([other])).all()


@given(texts)
def test_composed_and_decomposed_text_agree(text):
    composed, decomposed = embed([unicodedata.normalize(form, text) for form in ("NFC", "NFD")])
    assert (composed == decomposed).all()


def test_word_order_counts_through_word_pairs():
    assert 0.5 < cosine("dog bites man", "man bites dog") < 0.95
    assert cosine("dog bites man", "dog bites man") == pytest.approx(1)


def test_shared_words_rank_above_none():
    near, far = cosine("how to rotate signing keys", "rotate the keys"), cosine("how to rotate signing keys", "bread")
    assert near > 0.25
    assert abs(far) < 0.05


def test_a_repeated_word_weighs_one_plus_the_logarithm_of_its_count():
    """`a b a b a`: a x3, b x2, `a b` x2, `b a` x2; against `b` alone."""
    weights = [1 + math.log(count) for count in (3, 2, 2, 2)]
    assert cosine("a b a b a", "b", 1 << 16) == pytest.approx(weights[1] / math.hypot(*weights), abs=1e-4)


def test_part_of_a_chinese_or_japanese_text_is_found():
    assert cosine("東京都の天気予報", "天気") > 0.3
    assert abs(cosine("東京都の天気予報", "音楽")) < 0.05


def test_combining_marks_stay_with_their_letters():
    """A vowel sign does not split a Hindi word; so words that share only a letter differ."""
    assert abs(cosine("हिन्दी", "हानि")) < 0.05


def test_words_at_the_border_of_two_texts_are_not_a_pair():
    apart, pair = embed(["rotate", "keys"]), embed(["rotate keys"])[0]
    assert abs(float((apart[0] + apart[1]) @ pair)) == pytest.approx(2 / math.sqrt(3), abs=1e-3)
    assert np.count_nonzero(apart) == 2


@pytest.mark.slow
def test_words_spread_evenly_over_cells_and_signs():
    """20,000 alike words in 512 cells: chi-square within five deviations, signs too."""
    rows = embed([f"item{number:05d}" for number in range(20_000)])
    assert (np.count_nonzero(rows, axis=1) == 1).all()
    cells = np.bincount(np.nonzero(rows)[1], minlength=512)
    expected = 20_000 / 512
    chi = float(((cells - expected) ** 2 / expected).sum())
    assert abs(chi - 511) < 5 * math.sqrt(2 * 511)
    assert abs(float(rows.sum())) < 5 * math.sqrt(20_000)


def test_cosines_of_unrelated_texts_centre_on_zero():
    texts = [" ".join(f"{letter}{number}" for number in range(40)) for letter in "abcdefghijklmnopqrstuvwxyz"]
    rows = embed(texts)
    off = (rows @ rows.T)[~np.eye(26, dtype=bool)]
    assert abs(float(off.mean())) < 0.01
    assert float(off.std()) < 2 / math.sqrt(512)


@pytest.mark.parametrize("bad", ["one string", ["fine", b"bytes"], [None], ["fine", 3]])
async def test_hashing_refuses_what_is_not_a_list_of_strings(bad):
    with pytest.raises(EmbedderError, match="hashing-v2-512 takes") as caught:
        await HashingEmbedder().embed_documents(bad)
    assert "\n" not in str(caught.value)


async def test_a_query_that_is_not_a_string_is_refused():
    with pytest.raises(EmbedderError, match=r"takes strings, not \[.text.\]"):
        await HashingEmbedder().embed_query(["text"])


@pytest.mark.parametrize("dim", [0, -1, 2.0, True, "512"])
def test_hashing_refuses_an_invalid_width(dim):
    with pytest.raises(ArgumentError, match="dim"):
        HashingEmbedder(dim)


def test_the_id_of_hashing_contains_its_width_and_embedders_compare_by_value():
    assert HashingEmbedder().id == "hashing-v2-512"
    assert HashingEmbedder(64).id == "hashing-v2-64"
    assert HashingEmbedder(64, version="v1").id == "hashing-v1-64"
    assert HashingEmbedder(version="v1") != HashingEmbedder()
    with pytest.raises(ArgumentError, match="version must be one of 'v1', 'v2', not 1"):
        HashingEmbedder(version=1)
    assert HashingEmbedder(64) == HashingEmbedder(dim=64)


@pytest.mark.slow
async def test_the_loop_runs_other_tasks_while_texts_are_hashed():
    """They run between any two slices; this input has more than 50 slices."""
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await HashingEmbedder().embed_documents([" ".join(WORDS[:60])] * 10_000)
        group.cancel_scope.cancel()
    assert ticks > 50


async def test_cancelling_takes_effect_between_slices():
    texts = [LONG] * 400  # about a second of work
    with anyio.move_on_after(0.05) as scope:
        await HashingEmbedder().embed_documents(texts)
    assert scope.cancelled_caught


async def test_short_texts_run_a_checkpoint():
    with anyio.CancelScope() as scope:
        scope.cancel()
        await HashingEmbedder().embed_query("short")
    assert scope.cancelled_caught

"""`discover` selects the same hits as `ir`, with the same reasons and numbers.

`ir` is the published package, used as an oracle with the same artifacts and embedder. Searches are dense, because
there both have the same scale. Cases where the two differ on purpose are left out:

- a query without any evidence (every cosine exactly 0), which abstains here;
- a floor beside a strategy other than `"conservative"` and `"abs_threshold"`: ignored there for a single corpus;
- a reranked search of artifacts with several surfaces: here the reranker reads the best surface of each;
- warnings, because here `signals` has the same facts.
"""

import math
from contextlib import AsyncExitStack

import anyio
import ir
import pytest
from hypothesis import given, settings, strategies as st
from ir.store import CorpusStore

from airw import build, embedder_from, from_mapping
from airw.discovery import discover
from airw.stores import MemoryStore
from tests.support.drawing import examples

STEPS = 300


def embed(texts):
    """Embed a number as a unit vector: `STEPS` numbers make a half turn.

    No two numbers are equally far from x.25.
    """
    angles = [float(text) / STEPS * math.pi for text in texts]
    return [[math.cos(angle), math.sin(angle)] for angle in angles]


def their_embed(texts, *, input_type=None):
    return embed(texts)


def theirs(corpora, query, **options):
    built = [
        ir.build(ir.CorpusSource.from_mapping(items, name=name, embedder=their_embed), store=CorpusStore.memory())
        for name, items in corpora.items()
    ]
    return ir.discover(built if options.pop("many") else built[0], query, **options).to_dict()


async def ours(corpora, query, **options):
    async with AsyncExitStack() as stack:
        built = []
        for name, items in corpora.items():
            source = from_mapping(items, name=name, embedder=embedder_from(embed, id="angles", dim=2))
            built.append(await stack.enter_async_context(build(source, store=MemoryStore())))
        return (await discover(built if options.pop("many") else built[0], query, **options)).to_dict()


def comparable(result):
    """Return the fields that both results have, with rounded numbers."""
    signals = dict(result["signals"])
    per_source = {
        name: {key: round_off(report[key]) for key in ("n_retrieved", "top_score", "floor", "abstained")}
        for name, report in signals.pop("per_source", {}).items()
    }
    results = [
        {
            "name": (each["artifact_id"], each["source"], each["name"], each["summary"], each["level"]),
            "score": round_off(each["score"]),
            "metadata": {key: round_off(value) for key, value in each["metadata"].items()},
        }
        for each in result["results"]
    ]
    signals = {key: round_off(value) for key, value in signals.items() if value is not None}
    signals = {key: value for key, value in signals.items() if key not in ("floor", "floor_kind", "explanation")}
    if signals.get("merge") == "rrf-by-source":
        signals["merge"] = "rrf"
    plain = {
        key: result[key] for key in ("query", "mode", "strategy", "abstained", "reason", "n_retrieved", "n_selected")
    }
    return plain, results, signals, per_source


def round_off(value):
    return round(value, 5) if isinstance(value, float) else value


NUMBERS = st.lists(st.integers(0, STEPS - 1).map(str), unique=True, max_size=6)
SELECTION = st.fixed_dictionaries(
    {
        "max_k": st.integers(1, 4),
        "rel": st.sampled_from([0.5, 0.9, 0.99]),
        "gap_ratio": st.sampled_from([0.3, 0.5, 0.9]),
        "k": st.integers(1, 7),
    }
)
FLOORS = st.sampled_from([None, -0.5, 0.25, 0.9, 0.999])


def corpora_of(numbers):
    return {f"n{at}": {f"d{number}": number for number in each} for at, each in enumerate(numbers)}


@pytest.mark.slow
@given(NUMBERS, SELECTION, FLOORS, st.sampled_from(["conservative", "top_k", "rel_threshold", "score_gap"]))
@settings(max_examples=examples(120))
def test_hits_of_one_corpus_are_selected_like_in_ir(numbers, options, floor, strategy):
    if strategy == "conservative":
        options["min_score"] = floor
    options |= {"mode": "dense", "strategy": strategy, "many": False}
    corpora = corpora_of([numbers])
    mine, other = anyio.run(lambda: ours(corpora, "10.25", **options)), theirs(corpora, "10.25", **options)
    assert comparable(mine) == comparable(other)


NAMES = st.sampled_from(["n0", "n1", "n2", "n3"])
FEDERATION = st.fixed_dictionaries(
    {
        "min_score": st.dictionaries(NAMES, FLOORS, max_size=4),
        "merge": st.sampled_from(["rrf", "score"]),
        "merge_weights": st.dictionaries(NAMES, st.sampled_from([0.5, 1.0, 2.0]), max_size=4),
        "strategy": st.sampled_from(["conservative", "top_k", "rel_threshold", "score_gap"]),
    }
)


@pytest.mark.slow
@given(st.lists(NUMBERS, min_size=1, max_size=4), SELECTION, FEDERATION)
@settings(max_examples=examples(120))
def test_hits_of_several_corpora_are_fused_and_selected_like_in_ir(lists, options, federation):
    corpora = corpora_of(lists)
    for key in ("min_score", "merge_weights"):
        federation[key] = {name: value for name, value in federation[key].items() if name in corpora}
    options |= {"mode": "dense", "many": True, **federation}
    # `ir` fuses source by source.
    mine_options = options | ({"merge": "rrf-by-source"} if options["merge"] == "rrf" else {})
    mine, other = anyio.run(lambda: ours(corpora, "10.25", **mine_options)), theirs(corpora, "10.25", **options)
    assert comparable(mine) == comparable(other)

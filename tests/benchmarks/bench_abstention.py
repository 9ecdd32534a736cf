"""Signals of abstention: which of them separate questions with an answer from others.

A fifth of the questions loses all documents that answer it: these are questions about the subject of the corpus, and
the hard case. Where there are many questions for each document, a fifth of the documents goes. It is drawn several
times. Foreign questions, those of sets of another kind, are the easy case, which users have most.

`AIRW_DATA` names the folder of the sets, and `AIRW_VECTORS` a file that keeps the vectors between runs. Run it with
`AIRW_DATA=… AIRW_VECTORS=… pytest tests/benchmarks/bench_abstention.py -s`; `-k cacm` for one set.

The columns: the area under the ROC curve for removed answers with its 95 % interval (bootstrap over questions), and for
foreign questions; of the removed answers, the mean risk of the first hit, and its accuracy at coverages of 0.5 and 0.8.
"""

import gzip
import json
import os
import random
from dataclasses import dataclass
from functools import partial

import anyio
import numpy as np
import pytest

from airw import build, from_mapping
from airw.corpora.floors import load_built_floor
from airw.embedders import CachedEmbedder, OnnxEmbedder
from airw.evaluation import DiscoveryCase, FlatSearch, area_under_roc, evaluate, measure_risk
from airw.retrieval.evidence import evidence_weights, find_evidence
from airw.stores import MemoryStore

KINDS = {
    "metatool": "tools",
    "skills": "tools",
    "cacm": "cacm",
    "cisi": "cisi",
    "cranfield": "cranfield",
    "scifact": "scifact",
    "2wiki-101": "encyclopaedia",
    "hotpotqa-100": "encyclopaedia",
    "musique-100": "encyclopaedia",
    "2wiki-200": "encyclopaedia",
    "hotpotqa-200": "encyclopaedia",
    "musique-200": "encyclopaedia",
}
SEARCHES = {
    "best cosine": {"mode": "dense"},
    "best BM25": {"mode": "lexical"},
    "best RRF": {"mode": "hybrid", "fusion": "rrf"},
    "best blend": {"mode": "hybrid", "fusion": "blend"},
}
QUESTIONS, FOREIGN_EACH, REMOVALS, DRAWS = 300, 20, 3, 200


@dataclass(frozen=True)
class Asked:
    """The signals of questions, and what is right for each."""

    signals: dict[str, np.ndarray]
    has_answer: np.ndarray
    is_right: np.ndarray


def read_rows(path):
    path = path if path.exists() else path.with_name(path.name + ".gz")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [json.loads(line) for line in file if line.strip()]


def read_cases(folder):
    rows = [row for row in read_rows(folder / "queries.jsonl") if row["gold"]]
    step = max(1, len(rows) // QUESTIONS)
    return [DiscoveryCase(row["text"], tuple(row["gold"])) for row in rows[::step]]


def read_texts(folder):
    rows = read_rows(folder / "corpus.jsonl")
    return {row["id"]: f"{row.get('title') or ''}\n{row['text']}".strip() for row in rows}


def choose_removed(texts, cases, seed):
    draw = random.Random(seed)
    if len(cases) > len(texts):
        return set(draw.sample(sorted(texts), len(texts) // 5))
    return {id for case in draw.sample(cases, max(1, len(cases) // 5)) for id in case.gold}


async def ask(corpus, cases):
    """Return all signals of the cases, and whether the first hit of a search is right."""
    signals = {}
    for name, options in SEARCHES.items():
        found = await evaluate(corpus, cases, FlatSearch(options))
        signals[name] = [row.top_score if row.top_score is not None else -np.inf for row in found.rows]
    for mode in ("dense", "lexical", "hybrid"):
        weights = evidence_weights(mode, corpus.embedder.id)
        evidence = [await find_evidence(corpus, case.query, mode) for case in cases]
        signals[f"evidence, {mode}"] = [each.weigh(weights) for each in evidence]
    floor = await load_built_floor(corpus, "hybrid")
    if floor.min_evidence is not None:
        signals["evidence of a built floor"] = [floor.weigh(each) for each in evidence]
    found = await evaluate(corpus, cases, FlatSearch())
    return Asked(
        {name: np.array(values, float) for name, values in signals.items()},
        np.array([not row.case.gold_is_none for row in found.rows]),
        np.array([bool(set(row.ranking[:1]) & set(row.case.gold)) for row in found.rows]),
    )


def resample(values, has_answer, chance):
    """Return one draw of the area; both kinds of questions are drawn apart."""
    groups = (values[has_answer], values[~has_answer])
    return area_under_roc(*(group[chance.integers(len(group), size=len(group))] for group in groups))


def describe(name, trials, own, foreign):
    pairs = [(asked.signals[name], asked) for asked in trials if name in asked.signals]
    if not pairs or name not in own.signals:
        return "-"
    areas = [area_under_roc(values[asked.has_answer], values[~asked.has_answer]) for values, asked in pairs]
    chance = np.random.default_rng(0)
    draws = [np.mean([resample(values, asked.has_answer, chance) for values, asked in pairs]) for _ in range(DRAWS)]
    low, high = np.quantile(draws, [0.025, 0.975])
    curves = [measure_risk(values.tolist(), asked.is_right.tolist()) for values, asked in pairs]
    at = [np.mean([1 - np.interp(share, curve.coverage, curve.risk) for curve in curves]) for share in (0.5, 0.8)]
    far = area_under_roc(own.signals[name], foreign.signals[name])
    risk = np.mean([curve.area for curve in curves])
    return f"{np.mean(areas):.3f} [{low:.2f}, {high:.2f}]  {far:.3f}  {risk:.3f}  {at[0]:.2f}  {at[1]:.2f}"


async def measure(data, name, embedder):
    texts, cases, others = read_texts(data / name), read_cases(data / name), []
    for other, kind in KINDS.items():
        if kind != KINDS[name]:
            asked = read_cases(data / other)
            others += random.Random(other).sample(asked, min(FOREIGN_EACH, len(asked)))
    foreign = [DiscoveryCase(case.query) for case in others]
    async with build(from_mapping(texts, name=name, embedder=embedder), store=MemoryStore()) as corpus:
        own, far = await ask(corpus, cases), await ask(corpus, foreign)
    trials = []
    for seed in range(REMOVALS):
        gone = choose_removed(texts, cases, seed)
        kept = {id: text for id, text in texts.items() if id not in gone}
        left = [DiscoveryCase(case.query, tuple(id for id in case.gold if id not in gone)) for case in cases]
        async with build(from_mapping(kept, name=name, embedder=embedder), store=MemoryStore()) as corpus:
            trials.append(await ask(corpus, left))
    lost = np.mean([np.sum(~asked.has_answer) for asked in trials])
    print(f"\n{name}: {len(cases)} questions, {lost:.0f} of them without an answer; {len(foreign)} foreign ones")
    print(f"{'':26} removed              foreign  risk  at .5  at .8")
    for signal in own.signals:
        print(f"{signal:26} {describe(signal, trials, own, far)}")


@pytest.mark.parametrize("name", KINDS)
def test_signals(data, name, minilm_export, tmp_path):
    vectors = os.environ.get("AIRW_VECTORS") or tmp_path / "vectors"
    embedder = CachedEmbedder(OnnxEmbedder(minilm_export), path=vectors)
    anyio.run(partial(measure, data, name, embedder))

"""Discoveries of three tool and text sets with and without the floors that builds measure.

Questions are foreign to a set if they belong to the two others, or are everyday questions. `AIRW_DATA` names the folder
of the sets. Run it with `AIRW_DATA=… pytest tests/benchmarks/bench_floors.py -s`. With the MiniLM model it takes a few
minutes.

The columns: of the questions with an answer, the share that lost its answer by the floor, and the share whose right
answer was committed without and with the floor. Of the foreign questions, the share that got an answer all the same
(a false commit), with the floor; without it, nearly all do.
"""

import gzip
import json
import time
from dataclasses import dataclass
from functools import partial

import anyio
import pytest

from airw import build, discover, from_mapping
from airw.corpora.floors import measure_floors
from airw.embedders import CachedEmbedder, HashingEmbedder, OnnxEmbedder
from airw.stores import MemoryStore

SETS = ("metatool", "skills", "scifact")
QUESTIONS, DOCUMENTS = 100, 1_000
EVERYDAY = (
    "sourdough bread recipe",
    "capital of Mongolia",
    "how to prune roses in winter",
    "who won the world cup in 1998",
    "best way to remove red wine stains",
    "symptoms of a cold in cats",
    "how tall is Mount Everest",
    "what time does the museum open on Sunday",
    "easy guitar chords for beginners",
    "train from Vienna to Budapest",
    "how long to boil an egg",
    "what is the population of Brazil",
    "tips for training a puppy",
    "when was the Eiffel Tower built",
    "how do I change a flat tyre",
    "history of the Roman empire",
    "cheap hotels in Lisbon",
    "which planet has the most moons",
    "how to knit a scarf",
    "who wrote Pride and Prejudice",
)


@dataclass(frozen=True)
class Question:
    text: str
    gold: frozenset[str]


def read_rows(path):
    path = path if path.exists() else path.with_name(path.name + ".gz")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [json.loads(line) for line in file if line.strip()]


def read_questions(folder):
    rows = [row for row in read_rows(folder / "queries.jsonl") if row["gold"]]
    step = max(1, len(rows) // QUESTIONS)
    return [Question(row["text"], frozenset(row["gold"])) for row in rows[::step][:QUESTIONS]]


def read_texts(folder):
    """Return at most 1,000 documents, those that answer a question first."""
    rows = read_rows(folder / "corpus.jsonl")
    gold = frozenset().union(*(question.gold for question in read_questions(folder)))
    rows.sort(key=lambda row: row["id"] not in gold)
    return {row["id"]: f"{row.get('title') or ''}\n{row['text']}".strip() for row in rows[:DOCUMENTS]}


@pytest.fixture(params=["light", "minilm"])
def embedder(request, tmp_path):
    if request.param == "light":
        return HashingEmbedder()
    # Each question is asked several times, and the model is slow.
    return CachedEmbedder(OnnxEmbedder(request.getfixturevalue("minilm_export")), path=tmp_path / "vectors")


async def commit(corpus, texts, **options):
    """Return the committed ids of each question."""
    return [set((await discover(corpus, text, source_timeout=None, **options)).ids) for text in texts]


async def measure(data, name, embedder):
    questions = read_questions(data / name)
    foreign = {other: [each.text for each in read_questions(data / other)] for other in SETS if other != name}
    foreign["everyday"] = list(EVERYDAY)
    start = time.perf_counter()
    async with build(
        from_mapping(read_texts(data / name), name=name, embedder=embedder), store=MemoryStore()
    ) as corpus:
        built = time.perf_counter() - start
        start = time.perf_counter()
        await measure_floors(corpus)
        seconds = time.perf_counter() - start
        print(f"{name}: {corpus.report.added} documents, built in {built:.1f} s, {seconds:.2f} s of it for the floors")
        for mode in ("hybrid", "dense"):
            floor = corpus.report.floors[mode]
            asked = [question.text for question in questions]
            before = await commit(corpus, asked, mode=mode, min_score=None)
            after = await commit(corpus, asked, mode=mode)
            lost = sum(bool(old) and not new for old, new in zip(before, after, strict=True)) / len(asked)
            right = [
                sum(bool(ids & question.gold) for ids, question in zip(found, questions, strict=True)) / len(asked)
                for found in (before, after)
            ]
            false = []
            for kind, texts in foreign.items():
                without = sum(map(bool, await commit(corpus, texts, mode=mode, min_score=None))) / len(texts)
                with_floor = sum(map(bool, await commit(corpus, texts, mode=mode))) / len(texts)
                false.append(f"{kind} {without:.2f} -> {with_floor:.2f}")
            told = floor.reason if floor.min_evidence is None else f"{floor.min_evidence:.2f}"
            print(
                f"  {mode:7} floor {told:12} lost {lost:.2f}, right {right[0]:.2f} -> {right[1]:.2f}; "
                f"false commits: {', '.join(false)}"
            )


def test_false_commits_and_lost_answers(data, embedder):
    print(f"\n{embedder.id}")
    for name in SETS:
        anyio.run(partial(measure, data, name, embedder))

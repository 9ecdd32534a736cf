"""Signals that tell questions with an answer from those without, and floors."""

import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from airw.discovery import discover
from airw.evaluation import (
    DataSet,
    DiscoveryCase,
    Evaluation,
    area_under_roc,
    calibrate_min_score,
    evaluate,
    measure_abstention,
    score_margin,
    top_score,
)
from tests.benchmarks.quality.corpora import Library, cases_of, read
from tests.benchmarks.quality.systems import BLEND, DENSE, LEXICAL, RRF, SEARCH
from tests.benchmarks.quality.tables import Table, show

NAMES = ("metatool", "skills", "scifact", "cranfield", "hotpotqa-200", "musique-200")
SYSTEMS = (DENSE, LEXICAL, RRF, BLEND, SEARCH)
DRAWS = 500
TITLES = ("AUC", "Mean risk", "Share of questions answered at a risk of 0.1")


async def measure(library: Library, names: Sequence[str] = NAMES) -> list[Table]:
    """Return a table for each measure of signals, and one of the floors."""
    sizes, signals, floors = [], [], []
    for name in names:
        data = take_answers_away(read(name), cases_of(name))
        corpus = await library.build(data)
        found = {system.label: await evaluate(corpus, data.cases, system) for system in SYSTEMS}
        base = found[SEARCH.label]
        sizes.append(f"{name} ({base.n_gold} + {base.n_abstention})")
        signals.append({label: measure_signal(base, values) for label, values in signals_of(found).items()})
        floors += [[name, *row] for row in await measure_floors(corpus, data.cases)]
    tables = [
        tabulate(f"{title} (questions with an answer + without)", sizes, signals, at) for at, title in enumerate(TITLES)
    ]
    head = ["set", "floor", "abstains where nothing answers", "answers where something does", "with a right one"]
    return [*tables, Table("Floors of `discover`", head, floors)]


def tabulate(title: str, sizes: Sequence[str], signals: Sequence[Mapping[str, Sequence[Any]]], at: int) -> Table:
    """Return the table of one measure: a row for each signal, a column for each set."""
    rows = []
    for label in signals[0]:
        values = [each[label][at] for each in signals]
        cells = [value if isinstance(value, tuple) else (value, "") for value in values]
        mean = show(float(np.mean([value for value, _ in cells])))
        rows.append([label, *(f"{show(value)}{interval}" for value, interval in cells), mean])
    return Table(title, ["signal", *sizes, "mean"], rows)


def take_answers_away(data: DataSet, cases: Sequence[DiscoveryCase]) -> DataSet:
    """Return the data without the documents that answer a fifth of the questions.

    Where there are many questions for each document, a fifth of the documents goes.
    """
    if len(cases) > 2 * len(data.documents):
        gone = {id for id in data.documents if is_fifth(id)}
    else:
        gone = {id for case in cases if is_fifth(case.query) for id in case.gold}
    left = {id: row for id, row in data.documents.items() if id not in gone}
    asked = [replace(case, gold=tuple(id for id in case.gold if id in left)) for case in cases]
    return DataSet(data.name, left, tuple(asked))


def is_fifth(text: str) -> bool:
    """Return True for a fifth of all texts, always the same ones."""
    return zlib.crc32(text.encode()) % 5 == 0


def signals_of(found: Mapping[str, Evaluation]) -> dict[str, list[float]]:
    """Return the values of each signal, in the order of the questions."""
    dense, lexical = (found[system.label].rows for system in (DENSE, LEXICAL))
    tops = {f"best score, {label}": [top_score(row) for row in each.rows] for label, each in found.items()}
    common = [float(len(set(a.ranking[:10]) & set(b.ranking[:10]))) for a, b in zip(dense, lexical, strict=True)]
    return {
        **tops,
        "margin of the best cosine": [score_margin(row) for row in dense],
        "common hits of both channels": common,
    }


def measure_signal(evaluation: Evaluation, values: Sequence[float]) -> tuple[tuple[float, str], float, float]:
    """Return the AUC with its interval, the mean risk, and the coverage at a risk of 0.1."""
    by_query = dict(zip((row.case.query for row in evaluation.rows), values, strict=True))
    report = measure_abstention(evaluation, signal=lambda row: by_query[row.case.query])
    low, high = auc_interval(
        [value for row, value in zip(evaluation.rows, values, strict=True) if not row.case.gold_is_none],
        [value for row, value in zip(evaluation.rows, values, strict=True) if row.case.gold_is_none],
    )
    return (report.auc or 0.0, f" [{show(low)}, {show(high)}]"), report.curve.area, report.curve.coverage_at(0.1)


def auc_interval(positives: Sequence[float], negatives: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of an AUC by the bootstrap; both kinds are drawn apart."""
    draw = random.Random(0)
    areas = [
        area_under_roc(draw.choices(positives, k=len(positives)), draw.choices(negatives, k=len(negatives)))
        for _ in range(DRAWS)
    ]
    low, high = np.quantile(areas, [0.025, 0.975])
    return float(low), float(high)


async def measure_floors(corpus, cases: Sequence[DiscoveryCase]) -> list[list[str]]:
    """Return how often `discover` abstains with each kind of floor.

    A floor is calibrated on every other question, and all floors are measured on the others.
    """
    asked = cases[1::2]
    rows = [["none", *await count_answers(corpus, asked, min_score=None)]]
    rows.append(["measured by the build", *await count_answers(corpus, asked)])
    await calibrate_min_score(corpus, cases[::2], persist=True)
    return [*rows, ["calibrated", *await count_answers(corpus, asked)]]


async def count_answers(corpus, cases: Sequence[DiscoveryCase], **options) -> list[str]:
    """Return the shares of questions rightly left out, answered, and answered rightly."""
    ask = partial(discover, corpus, **options)
    found = [(case, set((await ask(case.query)).ids)) for case in cases]
    without = [not ids for case, ids in found if case.gold_is_none]
    answered = [bool(ids) for case, ids in found if not case.gold_is_none]
    right = [not ids.isdisjoint(case.gold) for case, ids in found if not case.gold_is_none]
    return [show(float(np.mean(each))) if each else "-" for each in (without, answered, right)]

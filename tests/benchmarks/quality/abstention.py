"""Signals that tell questions with an answer from those without, and floors.

Two kinds of questions have no answer: those whose documents are taken away, and foreign ones, which were written for
other data sets.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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
    measure_evidence,
    score_margin,
    top_score,
)
from tests.benchmarks.quality.corpora import FLAT, MULTI_HOP, Library, cases_of, read
from tests.benchmarks.quality.systems import DENSE, LEXICAL, RRF, SEARCH
from tests.benchmarks.quality.tables import Table, show

SYSTEMS = (DENSE, LEXICAL, RRF, SEARCH)
EVIDENCE = "evidence"
BASE = f"best score, {DENSE.label}"  # what the evidence is compared with
FOREIGN = 5  # questions from each other data set
DRAWS = 500

Signals = Mapping[str, Mapping[str, float]]
"""The value of each signal for each question."""


@dataclass(frozen=True)
class Asked:
    """What was measured on a data set.

    Args:
        name: The data set, with its numbers of questions.
        found: The results of the default search for its own questions.
        foreign: The questions of other data sets.
        signals: The values of each signal for all of them.
        floors: The shares of questions that `discover` answers, as they are printed.
    """

    name: str
    found: Evaluation
    foreign: Sequence[str]
    signals: Signals
    floors: Sequence[str]


async def measure(library: Library, names: Sequence[str] = (*FLAT, *MULTI_HOP)) -> list[Table]:
    """Return a table for each measure of signals, and one of the floors."""
    asked = [await ask(library, name, foreign_cases(name, names)) for name in names]
    labels = list(asked[0].signals)
    areas = [[measure_areas(each, label) for label in labels] for each in asked]
    means = np.mean(areas, axis=0)
    rows = [[each.name, *map(show_areas, row), compare_areas(each)] for each, row in zip(asked, areas, strict=True)]
    head = ["set", *labels, f"{EVIDENCE} - {BASE}"]
    tables = [Table("AUC: without an answer / foreign", head, [*rows, ["mean", *map(show_areas, means), ""]])]
    for title, read_report in RISKS.items():
        values = [[read_report(report_on(each, label)) for label in labels] for each in asked]
        rows = [[each.name, *map(show, row)] for each, row in zip(asked, values, strict=True)]
        tables.append(Table(title, ["set", *labels], [*rows, ["mean", *map(show, np.mean(values, axis=0))]]))
    floors = [[each.name, *each.floors] for each in asked]
    return [*tables, Table("Floors of `discover`", ["set", *FLOOR_HEAD], floors)]


RISKS: Mapping[str, Callable] = {
    "Mean risk": lambda report: report.curve.area,
    "Share of questions answered at a risk of 0.1": lambda report: report.curve.coverage_at(0.1),
}
FLOOR_HEAD = (
    "no floor: right",
    "measured by the build: right",
    "abstains without an answer",
    "abstains if foreign",
    "calibrated: right",
    "abstains without an answer",
    "abstains if foreign",
)


def foreign_cases(name: str, names: Sequence[str]) -> list[DiscoveryCase]:
    """Return questions of the other data sets, from all parts of each."""
    found = []
    for other in names:
        cases = cases_of(other)
        if other != name:
            found += [DiscoveryCase(cases[len(cases) * at // FOREIGN].query) for at in range(FOREIGN)]
    return found


async def ask(library: Library, name: str, foreign: Sequence[DiscoveryCase]) -> Asked:
    """Return what signals and floors do for the questions of a data set."""
    data = take_answers_away(read(name), cases_of(name))
    corpus = await library.build(data)
    cases = [*data.cases, *foreign]
    found = {system.label: await evaluate(corpus, cases, system) for system in SYSTEMS}
    signals = {**signals_of(found), EVIDENCE: (await measure_evidence(corpus, cases)).by_query}
    own = replace(found[SEARCH.label], rows=found[SEARCH.label].rows[: len(data.cases)])
    floors = await measure_floors(corpus, data.cases, foreign)
    return Asked(f"{name} ({own.n_gold} + {own.n_abstention})", own, [case.query for case in foreign], signals, floors)


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


def signals_of(found: Mapping[str, Evaluation]) -> Signals:
    """Return the signals that need nothing but the hits of searches."""
    dense, lexical = (found[system.label].rows for system in (DENSE, LEXICAL))
    tops = {
        f"best score, {label}": {row.case.query: top_score(row) for row in each.rows} for label, each in found.items()
    }
    common = {
        a.case.query: float(len(set(a.ranking).intersection(b.ranking))) for a, b in zip(dense, lexical, strict=True)
    }
    margins = {row.case.query: score_margin(row) for row in dense}
    return {**tops, "margin of the best cosine": margins, "common hits of both channels": common}


def report_on(asked: Asked, label: str):
    """Return the report of a signal on the questions of the set."""
    return measure_abstention(asked.found, signal=lambda row: asked.signals[label][row.case.query])


def split(asked: Asked, label: str) -> tuple[list[float], list[float], list[float]]:
    """Return the values of questions with an answer, without one, and foreign ones."""
    values, rows = asked.signals[label], asked.found.rows
    kinds = [[values[row.case.query] for row in rows if row.case.gold_is_none is kind] for kind in (False, True)]
    return kinds[0], kinds[1], [values[query] for query in asked.foreign]


def measure_areas(asked: Asked, label: str) -> list[float]:
    """Return both AUCs of a signal; 0.5 without questions of a kind."""
    right, *others = split(asked, label)
    return [area_under_roc(right, wrong) if wrong and right else 0.5 for wrong in others]


def show_areas(areas: Sequence[float]) -> str:
    """Return both AUCs as they are printed."""
    return " / ".join(map(show, areas))


def compare_areas(asked: Asked) -> str:
    """Return how much better the AUC of the evidence is than that of the best cosine."""
    pairs = zip(split(asked, EVIDENCE), split(asked, BASE), strict=True)
    right, wrong, _ = (np.array(pair) for pair in pairs)  # each of the shape (2, questions)
    if not right.size or not wrong.size:
        return "-"
    draw = np.random.default_rng(0)
    differences = []
    for _ in range(DRAWS):
        high = right[:, draw.integers(0, right.shape[1], right.shape[1])]
        low = wrong[:, draw.integers(0, wrong.shape[1], wrong.shape[1])]
        differences.append(area_under_roc(high[0], low[0]) - area_under_roc(high[1], low[1]))
    ends = np.quantile(differences, [0.025, 0.975])
    mean = area_under_roc(right[0], wrong[0]) - area_under_roc(right[1], wrong[1])
    return f"{mean:+.3f} [{ends[0]:+.3f}, {ends[1]:+.3f}]"


async def measure_floors(corpus, cases: Sequence[DiscoveryCase], foreign: Sequence[DiscoveryCase]) -> list[str]:
    """Return what `discover` does with each kind of floor.

    A floor is calibrated on every other question, and all floors are measured on the others.
    """
    asked = cases[1::2]
    right, *_ = await count_answers(corpus, asked, [], min_score=None)
    measured = await count_answers(corpus, asked, foreign)
    await calibrate_min_score(corpus, cases[::2], persist=True)
    return [right, *measured, *await count_answers(corpus, asked, foreign)]


async def count_answers(corpus, cases: Sequence[DiscoveryCase], foreign: Sequence[DiscoveryCase], **options):
    """Return the shares of questions answered rightly, and of those left out by kind."""
    found = [(case, (await discover(corpus, case.query, **options)).ids) for case in (*cases, *foreign)]
    own, others = found[: len(cases)], found[len(cases) :]
    right = [not set(ids).isdisjoint(case.gold) for case, ids in own if not case.gold_is_none]
    without = [not ids for case, ids in own if case.gold_is_none]
    return [show(float(np.mean(each))) if each else "-" for each in (right, without, [not ids for _, ids in others])]

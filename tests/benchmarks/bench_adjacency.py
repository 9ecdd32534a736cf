"""The neighbours of three hops, out of a SQLite corpus, beside the bare queries that find the same."""

import json
import sqlite3
from collections.abc import Callable
from functools import partial

import pytest

from airw import Corpus
from tests.benchmarks.bench_links import QUESTION, SIZES, name, notes_file, open_notes
from tests.benchmarks.results import run_in_turn

ROUNDS, COLD_ROUNDS, HOPS, STRIDE = 15, 25, 3, 37
BARE = "SELECT artifact_id, type, origin, target FROM link WHERE artifact_id IN (SELECT value FROM json_each(?))"


def steps_from(plain: sqlite3.Connection, root: str) -> list[list[str]]:
    """Return the ids whose links each hop follows."""
    steps, reached = [[root]], {root}
    while len(steps) < HOPS:
        found = dict.fromkeys(row[-1] for row in ask(plain, steps[-1:])[0])
        steps.append([id for id in found if id not in reached])
        reached.update(steps[-1])
    return steps


def ask(plain: sqlite3.Connection, steps: list[list[str]]) -> list[list[tuple[str, ...]]]:
    return [plain.execute(BARE, [json.dumps(ids)]).fetchall() for ids in steps]


async def read_edges(corpus: Corpus, steps: list[list[str]]) -> list[list[list[object]]]:
    return [await corpus.store.neighbors(ids) for ids in steps]


async def read_columns(corpus: Corpus, steps: list[object]) -> list[object]:
    return [await corpus.store.neighbor_columns(numbers) for numbers in steps]


async def number_steps(corpus: Corpus, steps: list[list[str]]) -> list[object]:
    return [await corpus.store.artifact_numbers(ids) for ids in steps]


def pairs_in(edges: list[list[list[object]]]) -> list[set[tuple[object, object]]]:
    return [{(edge.source, edge.target) for row in step for edge in row} for step in edges]


@pytest.mark.parametrize("count", SIZES)
def test_neighbors_beside_one_query_a_hop(count, tmp_path, results):
    with open_notes(notes_file(tmp_path, count), count) as (timed, corpus, plain):
        steps, edges, numbers, columns = steps_from(plain, name(7)), [], [], []
        timed(partial(number_steps, corpus, steps), numbers)
        figures = run_in_turn(
            {
                "sqlite3": partial(ask, plain, steps),
                "airw": partial(timed, partial(read_edges, corpus, steps), edges),
                "columns": lambda: timed(partial(read_columns, corpus, numbers[0]), columns),
            },
            rounds=ROUNDS,
        )
        bare = [{(row[0], row[-1]) for row in rows if row[0] != row[-1]} for rows in ask(plain, steps)]
        assert pairs_in(edges[0]) == bare
        assert [[step.nodes[end] for end in step.ends] for step in columns[0]] == [
            [edge.target for row in step for edge in row] for step in edges[0]
        ]
        compare(results, f"neighbors, 3 hops, {count:,} notes", figures, "airw")
        compare(results, f"neighbors as columns, 3 hops, {count:,} notes", figures, "columns")
        figures = time_new_roots(timed, corpus, plain, count)
        results.compare(QUESTION, f"neighbors never asked before, 3 hops, {count:,} notes", figures, {"sqlite3": None})


def compare(results: object, work: str, figures: dict[str, list[float]], way: str) -> None:
    rounds = {"airw": figures[way], "sqlite3": figures["sqlite3"]}
    results.compare(QUESTION, work, rounds, {"sqlite3": 1.5})


def time_new_roots(
    timed: Callable[..., float], corpus: Corpus, plain: sqlite3.Connection, count: int
) -> dict[str, list[float]]:
    """Return the times of both, each round from another note whose links airw has not read before."""
    figures = {"airw": [], "sqlite3": []}
    for number in range(COLD_ROUNDS):
        steps, edges = steps_from(plain, name((1_000 + number * STRIDE) % count)), []
        for way, figure in run_in_turn(
            {
                "airw": partial(timed, partial(read_edges, corpus, steps), edges),
                "sqlite3": partial(ask, plain, steps),
            },
            rounds=1,
        ).items():
            figures[way] += figure
    return figures

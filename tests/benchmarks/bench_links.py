"""Walks and paths along links, beside `sqlite3` and networkx; links read from markdown.

Notes have ten random links each. `AIRW_BENCH_NOTES` sets other sizes, as in `10000,100000,1000000`: a million takes
several minutes and 3 GB of disk. `AIRW_BENCH_FOLDER` keeps the corpora for the next run. `AIRW_DATA` adds its markdown
collections to the made-up ones.
"""

import gc
import json
import os
import random
import sqlite3
import tarfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from anyio.from_thread import start_blocking_portal

from airw import Artifact, Corpus, traverse
from airw.embedders import HashingEmbedder
from airw.links import CorpusGraph, MarkdownLinks
from airw.policies import LinkWalk
from airw.protocols import Change, Edges, ask
from airw.stores import SqliteStore
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record
from airw.views import read_tree, walk_links
from tests.benchmarks.results import run_in_turn

SIZES = [int(size) for size in os.environ.get("AIRW_BENCH_NOTES", "10000,100000").split(",")]
LINKS, PAGE, RUNS, WORDS = 10, 5_000, 3, 300
ROOTS, PAIRS, ROUNDS = 3, 10, 7
MOST_FROM_ONE_END = 10_000  # notes; with more, a path takes seconds
QUESTION = "How fast are walks and paths along links?"
UNLIMITED = 1_000_000
PATHS = {
    "path": {},
    "path, outgoing links": {"direction": "out"},
    "cheapest path": {"weighted": True},
    "cheapest path from one end": {"weighted": True, "max_nodes": UNLIMITED},  # a limit makes the search one-sided
}


NEIGHBOR_ROUNDS, COLD_ROUNDS, HOPS, STRIDE = 15, 25, 3, 37
BARE = "SELECT artifact_id, type, origin, target FROM link WHERE artifact_id IN (SELECT value FROM json_each(?))"


def name(number: int) -> str:
    return f"notes/n{number:07}.md"


def note(number: int, count: int, draw: random.Random) -> ArtifactChange:
    id, record_id = name(number), Record.make_id(name(number), "chunk", 0)
    fields = {"title": f"Note {number}", "path": f"/{id}", "tags": ["a", "b"]}
    links = [Link(name(draw.randrange(count)), file=id, line=line) for line in range(1, LINKS + 1)]
    return ArtifactChange(
        LedgerEntry(id, "1", "e", "s", record_ids=(record_id,)),
        [Record(record_id, id, "chunk", 0, f"text of note {number}", fields)],
        np.zeros((1, 16), np.float32),
        Extraction(links, [[id], [f"n{number:07}"], [f"Note {number}"]]),
    )


async def fill(file: Path, count: int) -> None:
    draw = random.Random(7)
    async with SqliteStore(file) as store:
        for start in range(0, count, PAGE):
            await store.apply(Change([note(number, count, draw) for number in range(start, min(count, start + PAGE))]))


@contextmanager
def open_notes(file: Path, count: int) -> Iterator[tuple[Callable[..., float], Corpus, sqlite3.Connection]]:
    """Yield a function that times work in an event loop, the corpus, and a connection."""
    with start_blocking_portal() as portal:
        if not file.exists():
            portal.call(fill, file, count)
        store = portal.call(SqliteStore.open, file)
        with portal.wrap_async_context_manager(store), closing(sqlite3.connect(file)) as plain:
            yield partial(portal.call, seconds_of), Corpus("notes", store, HashingEmbedder()), plain


async def seconds_of(work: Callable[..., Awaitable[object]], answers: list[object]) -> float:
    """Return the seconds that work takes in an event loop, and store its answer."""
    start = time.perf_counter()
    answer = await work()
    seconds = time.perf_counter() - start
    answers[:] = [answer]
    return seconds


def roots_of(count: int) -> list[str]:
    return [name(number % count) for number in range(0, 7 * ROOTS, 7)]


async def walk_notes(corpus: Corpus, roots: list[str], **options) -> list[dict[str, object]]:
    """Return for each root the text and metadata of what a walk of three hops finds, by id."""
    found = []
    for root in roots:
        policy = LinkWalk(roots=[root], max_depth=3, **options)
        async with traverse("", corpus, policy=policy, node_budget=UNLIMITED) as walk:
            found.append({hit.artifact_id: (hit.text, hit.metadata["title"]) async for hit in walk})
    return found


def walk_by_hand(plain: sqlite3.Connection, roots: list[str]) -> list[dict[str, object]]:
    """Return the same: links hop by hop, then text and metadata of what was found."""
    found = []
    for root in roots:
        reached, frontier = {root: None}, [root]
        for _ in range(3):
            rows = plain.execute(
                "SELECT DISTINCT target FROM link WHERE artifact_id IN (SELECT value FROM json_each(?))"
                " AND target IS NOT NULL",
                [json.dumps(frontier)],
            )
            frontier = [id for (id,) in rows if id not in reached]
            reached.update(dict.fromkeys(frontier))
        rows = plain.execute(
            "SELECT artifact_id, text, metadata FROM record WHERE artifact_id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(reached))],
        )
        found.append({id: (text, json.loads(metadata)["title"]) for id, text, metadata in rows})
    return found


async def read_trees(corpus: Corpus, roots: list[str], **options) -> list[tuple[int, int, int]]:
    """Read trees as `airw link tree` does; return nodes, edges, and how many lie beyond."""
    trees = [await read_tree(walk_links(corpus, [root], max_nodes=UNLIMITED, **options)) for root in roots]
    return [(len(tree.nodes), len(tree.edges), tree.left_out["max_hops"]) for tree in trees]


async def find_paths(corpus: Corpus, pairs: list[tuple[str, str]], **options) -> list[int]:
    """Return the hops of the path between the notes of each pair."""
    graph = CorpusGraph(corpus)
    return [len((await graph.path(*pair, **options)).edges) for pair in pairs]


def run(timed: Callable[..., float], each: int, work: Callable[[], Awaitable[object]], answers: list[object]) -> float:
    return timed(work, answers) / each


@pytest.mark.parametrize("count", SIZES)
def test_walks_and_trees(count, tmp_path, results):
    roots, title = roots_of(count), f"3 hops of {count:,} notes with {LINKS} links"
    with open_notes(notes_file(tmp_path, count), count) as (timed, corpus, plain):
        ours, theirs, tree = [], [], []

        def by_hand() -> float:
            start = time.perf_counter()
            theirs[:] = [walk_by_hand(plain, roots)]
            return (time.perf_counter() - start) / ROOTS

        walk = partial(walk_notes, corpus, roots, direction="out")
        ways = {"airw": partial(run, timed, ROOTS, walk, ours), "sqlite3 by hand": by_hand}
        results.compare(
            QUESTION,
            f"walk out, text and metadata, {title}",
            run_in_turn(ways, rounds=ROUNDS),
            {"sqlite3 by hand": 1.3},
        )
        assert ours == theirs
        for direction, goal in (("out", 20), ("both", None)):
            work = partial(read_trees, corpus, roots, direction=direction)
            rounds = run_in_turn({"airw": partial(run, timed, ROOTS, work, tree)}, rounds=ROUNDS)["airw"]
            results.amount(QUESTION, f"tree {direction}, {title}", rounds, goal=goal, unit="ms")
            assert all(all(counts) for counts in tree[0])


@pytest.mark.parametrize("count", SIZES)
def test_paths(count, tmp_path, results):
    draw = random.Random(1)
    pairs = [(name(draw.randrange(count)), name(draw.randrange(count))) for _ in range(PAIRS)]
    with open_notes(notes_file(tmp_path, count), count) as (timed, corpus, plain):
        directed = nx.DiGraph(plain.execute("SELECT artifact_id, target FROM link WHERE target <> artifact_id"))
        graphs = {"path": directed.to_undirected(), "path, outgoing links": directed}
        gc.collect()
        gc.freeze()  # else each collection during a path of airw would visit the objects of the graph in memory
        for work, options in PATHS.items():
            ours, theirs = [], []
            ways = {"airw": partial(run, timed, PAIRS, partial(find_paths, corpus, pairs, **options), ours)}
            graph = graphs.get(work)
            if "max_nodes" in options and count > MOST_FROM_ONE_END:
                continue

            def in_memory(graph=graph, theirs=theirs) -> float:
                start = time.perf_counter()
                theirs[:] = [len(nx.bidirectional_shortest_path(graph, *pair)) - 1 for pair in pairs]
                return (time.perf_counter() - start) / PAIRS

            title = f"{work} between two of {count:,} notes"
            if graph is None:
                results.amount(QUESTION, title, run_in_turn(ways, rounds=RUNS)["airw"], goal=None, unit="ms")
            else:
                rounds = run_in_turn(ways | {"networkx in memory": in_memory}, rounds=ROUNDS)
                results.compare(QUESTION, title, rounds, {"networkx in memory": 3})
                assert ours == [theirs]
        gc.unfreeze()


def notes_file(folder: Path, count: int) -> Path:
    """Return the file of the notes."""
    return Path(os.environ.get("AIRW_BENCH_FOLDER", folder)) / f"notes-{count}.airw"


def steps_from(plain: sqlite3.Connection, root: str) -> list[list[str]]:
    """Return the ids whose links each hop follows."""
    steps, reached = [[root]], {root}
    while len(steps) < HOPS:
        found = dict.fromkeys(row[-1] for row in read_plain(plain, steps[-1:])[0])
        steps.append([id for id in found if id not in reached])
        reached.update(steps[-1])
    return steps


def read_plain(plain: sqlite3.Connection, steps: list[list[str]]) -> list[list[tuple[str, ...]]]:
    return [plain.execute(BARE, [json.dumps(ids)]).fetchall() for ids in steps]


async def read_edges(corpus: Corpus, steps: list[list[str]]) -> list[list[list[object]]]:
    return [await ask(corpus.store, Edges(ids)) for ids in steps]


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
                "sqlite3": partial(read_plain, plain, steps),
                "airw": partial(timed, partial(read_edges, corpus, steps), edges),
                "columns": lambda: timed(partial(read_columns, corpus, numbers[0]), columns),
            },
            rounds=NEIGHBOR_ROUNDS,
        )
        bare = [{(row[0], row[-1]) for row in rows if row[0] != row[-1]} for rows in read_plain(plain, steps)]
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
    """Return the times of both, each round from a note whose links are new to airw."""
    figures = {"airw": [], "sqlite3": []}
    for number in range(COLD_ROUNDS):
        steps, edges = steps_from(plain, name((1_000 + number * STRIDE) % count)), []
        for way, figure in run_in_turn(
            {
                "airw": partial(timed, partial(read_edges, corpus, steps), edges),
                "sqlite3": partial(read_plain, plain, steps),
            },
            rounds=1,
        ).items():
            figures[way] += figure
    return figures


def make_notes(make_texts) -> dict[str, str]:
    """Return a thousand notes of headings, lists, code, wiki links and markdown links."""
    texts = make_texts(1_000, words=WORDS)
    return {f"{at % 20}/n{at}.md": markdown(at, text.split()) for at, text in enumerate(texts)}


def markdown(at: int, words: list[str]) -> str:
    links = [f"[[n{(at * 7 + step) % 1_000}|{words[step]}]]" for step in range(5)]
    links += [f"[{words[step]}](../{(at + step) % 20}/n{at + step}.md#part)" for step in range(5)]
    parts = [" ".join([*words[step : step + 30], link]) for step, link in zip(range(0, WORDS, 30), links, strict=True)]
    return f"---\ntitle: Note {at}\ntags: [a, b]\n---\n# {words[0]}\n\n" + "\n\n## More\n\n- ".join(parts) + "\n"


def collections(make_texts) -> dict[str, dict[str, str]]:
    found = {"made up": make_notes(make_texts)}
    for path in sorted(Path(os.environ.get("AIRW_DATA", "/nowhere")).glob("md-*/*.tar.gz")):
        with tarfile.open(path) as archive:
            files = [each for each in archive if each.isfile() and each.name.endswith(".md")]
            found[path.parent.name] = {each.name: archive.extractfile(each).read().decode() for each in files}
    return found


def test_links_of_markdown(make_texts):
    print("\nlinks of markdown, one core     files      MB     links     MB/s   files/s")
    for collection, notes in collections(make_texts).items():
        seconds, size = [], sum(len(text.encode()) for text in notes.values()) / 1e6
        for _ in range(RUNS):
            start = time.perf_counter()
            links = sum(len(MarkdownLinks().extract(Artifact(id, text), {}).links) for id, text in notes.items())
            seconds.append(time.perf_counter() - start)
        speed = f"{size / min(seconds):9.1f}{len(notes) / min(seconds):10,.0f}"
        print(f"  {collection:26}{len(notes):9,}{size:8.1f}{links:10,}{speed}")
        assert links > 0

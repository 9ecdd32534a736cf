"""Walks and paths along links in a SQLite corpus, and reading links from markdown.

Notes have ten random links each. `AIRW_BENCH_NOTES` sets other sizes, as in `10000,100000,1000000`: a million takes
several minutes and 3 GB of disk. `AIRW_DATA` adds its markdown collections to the made-up ones.
"""

import os
import random
import statistics
import tarfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import numpy as np
import pytest

from airw import Artifact, Corpus, Limits, traverse
from airw.embedders import HashingEmbedder
from airw.links import CorpusGraph, MarkdownLinks
from airw.policies import LinkWalk
from airw.stores import SqliteStore
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record
from airw.views import read_tree, walk_links
from airw.walking import EdgeFound

SIZES = [int(size) for size in os.environ.get("AIRW_BENCH_NOTES", "10000,100000").split(",")]
LINKS, PAGE, ROOTS, RUNS, PATHS, WORDS = 10, 5_000, 3, 3, 10, 300
WALKS = {
    "walk out": {"direction": "out"},
    "walk out, without the count": {"direction": "out", "count_beyond_limits": False},
    "walk both": {"direction": "both"},
    "walk both, without the count": {"direction": "both", "count_beyond_limits": False},
}
PATHS_BETWEEN = {
    "path between two": {},
    "cheapest path": {"weighted": True},
    "cheapest, from one end": {"weighted": True, "max_nodes": 1_000_000},  # a limit makes the search one-sided
}


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


async def fill(store: SqliteStore, count: int) -> None:
    draw = random.Random(7)
    for start in range(0, count, PAGE):
        await store.apply([note(number, count, draw) for number in range(start, min(count, start + PAGE))])


async def time_walk(corpus: Corpus, root: int, *, count_beyond_limits: bool = True, **options):
    """Walk three hops and read the events; return milliseconds, nodes and edges."""
    policy = LinkWalk(roots=[name(root)], max_depth=3, **options)
    start = time.perf_counter()
    walk = traverse(
        "", corpus, policy=policy, node_budget=1_000_000, limits=Limits(count_beyond_limits=count_beyond_limits)
    )
    edges = sum([isinstance(event, EdgeFound) async for event in walk.events()])
    return (time.perf_counter() - start) * 1e3, walk.summary.committed, edges


async def time_tree(corpus: Corpus, root: int, direction: str):
    """Read a tree of three hops as `airw link tree` does; return milliseconds, nodes, edges."""
    start = time.perf_counter()
    tree = await read_tree(walk_links(corpus, [name(root)], direction=direction, max_nodes=1_000_000))
    return (time.perf_counter() - start) * 1e3, len(tree.nodes), len(tree.edges)


async def medians(run: Callable[[int], Awaitable[tuple[float, int, int]]]) -> tuple[float, float, float]:
    """Return the medians over the roots; each root counts its fastest run."""
    runs = [min([await run(root) for _ in range(RUNS)]) for root in range(0, 7 * ROOTS, 7)]
    return tuple(statistics.median(column) for column in zip(*runs, strict=True))


async def paths(corpus: Corpus, count: int, **options) -> tuple[float, float]:
    """Return the median milliseconds and hops of paths between random notes."""
    draw, graph, runs = random.Random(1), CorpusGraph(corpus), []
    for _ in range(PATHS):
        ends = [name(draw.randrange(count)) for _ in range(2)]
        start = time.perf_counter()
        path = await graph.path(*ends, **options)
        runs.append(((time.perf_counter() - start) * 1e3, len(path.edges)))
    return tuple(statistics.median(column) for column in zip(*runs, strict=True))


@pytest.mark.parametrize("count", SIZES)
def test_trees_and_paths(count, tmp_path):
    file = tmp_path / "notes.airw"

    async def main():
        async with SqliteStore(file) as store:
            await fill(store, count)
        size = (await anyio.Path(file).stat()).st_size
        async with await SqliteStore.open(file) as store:
            corpus = Corpus("notes", store, HashingEmbedder())
            print(f"\n{count:,} notes of {LINKS} links, {size / 1e6:,.0f} MB")
            print("  three hops                   ms     nodes     edges   ms per 1,000 nodes")
            runs = {way: partial(time_walk, corpus, **options) for way, options in WALKS.items()}
            runs |= {
                f"tree {direction}": partial(time_tree, corpus, direction=direction) for direction in ("out", "both")
            }
            for way, run in runs.items():
                ms, nodes, edges = await medians(run)
                print(f"  {way:24}{ms:9.1f}{nodes:10,.0f}{edges:10,.0f}{ms / nodes * 1000:15.1f}")
                assert nodes > 1_000
            for title, options in PATHS_BETWEEN.items():
                ms, hops = await paths(corpus, count, **options)
                print(f"  {title:24}{ms:9.1f}{hops:10,.0f} hops")

    anyio.run(main)


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

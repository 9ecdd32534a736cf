"""The programs that both editions run: each prepares corpora and yields rows.

They use public verbs only, and each edition builds its own corpora. Where a call differs between the editions, it is
made by a function under "Calls that may differ", which learns the edition from its `Setting`.
"""

import gzip
import http.client
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import airw
from airw.policies import Beam, Eager, LinkWalk, PersonalizedPageRank
from tests.benchmarks.editions.material import Digraph, make_ids, make_links, make_notes, question_of

MODES = ("dense", "lexical", "hybrid")
NEW, FIRST, IR = "new", "first", "ir"
"""The names of the editions, and of the peer that some programs run, too."""


@dataclass(frozen=True)
class Setting:
    """Where a program runs.

    Args:
        edition: The edition whose library is imported: `NEW` or `FIRST`; or `IR`.
        folder: A folder of the edition, for its files.
        scale: A factor for the sizes of all corpora, for a quick look.
    """

    edition: str
    folder: Path
    scale: float = 1.0

    def size(self, count: int) -> int:
        """Return the size of a corpus that has `count` artifacts in a full run."""
        return max(20, round(count * self.scale))


@dataclass(frozen=True)
class Row:
    """One thing to measure.

    `run` takes the number of a turn. It returns ids, or `Measured` if it has measured itself.
    """

    name: str
    run: Callable[[int], Awaitable[Any]]
    unit: str = "s"


@dataclass(frozen=True)
class Measured:
    """A figure that a turn measured itself, in the unit of its row, and its answer."""

    figure: float
    answer: Any


@dataclass(frozen=True)
class Program:
    """A few rows that share what is prepared for them.

    Args:
        prepare: The program: a context manager of the rows.
        peers: The peers that have the same rows, in addition to the editions.
        data_set: The folder of `AIRW_DATA` that it reads; empty for none.
    """

    prepare: Callable[[Setting], AbstractAsyncContextManager[list[Row]]]
    peers: tuple[str, ...] = ()
    data_set: str = ""


# Calls that may differ between the editions


def memory_store(setting: Setting) -> Any:
    """Return a new store in memory."""
    from airw.stores import MemoryStore

    return MemoryStore()


def small_embedder(setting: Setting) -> Any:
    """Return an embedder for corpora in which only links matter."""
    from airw.embedders import HashingEmbedder

    return HashingEmbedder(dim=8)


def source_of(setting: Setting, texts: dict[str, str], name: str, *, links: Any = None, embedder: Any = "light") -> Any:
    """Return a source of texts by id, with the ids to which each of them links."""
    from airw.links import extractor_from

    extractor = None if links is None else extractor_from(lambda note, _: {"related": links[note]}, id="links")
    return airw.from_mapping(texts, name=name, embedder=embedder, edge_extractor=extractor)


async def read_link_tree(setting: Setting, corpus: Any, root: str, count: int) -> int:
    """Read the tree of links below a note as text; return the number of its lines."""
    from airw.views import read_tree, tree_text, walk_links

    walk = walk_links(corpus, [root], direction="out", max_hops=None, max_nodes=count, max_edges=count)
    return tree_text(await read_tree(walk)).count("\n")


def list_policy(setting: Setting, graph: Digraph, width: int) -> Any:
    """Return a policy of lists, with one matrix product a step, that commits the `width` best."""

    class Batched(airw.Policy):
        async def seed(self, state, store):
            return graph.seeds

        async def score(self, state, nodes, store):
            return graph.vectors[nodes] @ graph.query

        def select(self, state, frontier):
            return frontier.best_first(width)

        async def expand(self, state, committed, store):
            return [graph.neighbours[entry.id] for entry in committed]

        def node_id(self, node):
            return node

        async def to_hits(self, state, committed, store):
            return [airw.SearchHit(str(entry.id), "node", entry.score, "") for entry in committed]

    return Batched()


# Corpora that several programs use


def notes(setting: Setting) -> Any:
    """Return the source of 10,000 notes of 60 words and ten links."""
    texts = make_notes(setting.size(10_000))
    return source_of(setting, texts, "notes", links=make_links(list(texts)))


async def file_of_notes(setting: Setting) -> Path:
    """Return the file of the notes; whoever needs it first builds it."""
    file = setting.folder / "notes.airw"
    if not file.exists():
        async with airw.build(notes(setting), store=file):
            pass
    return file


@asynccontextmanager
async def open_notes(setting: Setting) -> AsyncIterator[dict[str, Any]]:
    """Yield the notes in memory and on file."""
    file = await file_of_notes(setting)
    async with airw.build(notes(setting), store=memory_store(setting)) as memory, airw.open_corpus(file) as opened:
        yield {"in memory": memory, "on file": opened}


async def search_ids(corpus: Any, mode: str, turn: int) -> list[str]:
    """Return the ids of a search."""
    return [hit.artifact_id for hit in await airw.search(corpus, question_of(turn), mode=mode)]


async def walk_ids(corpus: Any, turn: int, **options: Any) -> list[str]:
    """Return the ids of a walk."""
    async with airw.traverse(question_of(turn), corpus, **options) as walk:
        return [hit.artifact_id async for hit in walk]


# The programs


@asynccontextmanager
async def search(setting: Setting) -> AsyncIterator[list[Row]]:
    """Search notes in each mode."""
    size = setting.size(10_000)
    async with open_notes(setting) as corpora:
        yield [
            Row(f"search, {mode}, {size:,} {place}", partial(search_ids, corpus, mode))
            for place, corpus in corpora.items()
            for mode in MODES
        ]


@asynccontextmanager
async def walk(setting: Setting) -> AsyncIterator[list[Row]]:
    """Walk from note to note."""
    ways = {
        "default walk": {},
        "Eager of 64": {"policy": Eager(select_k=None), "node_budget": 64},
        "Eager of 1,000": {"policy": Eager(select_k=None, adjacent_k=None), "node_budget": 1_000},
        "LinkWalk of 64": {"policy": LinkWalk(), "node_budget": 64},
    }
    size = setting.size(10_000)
    async with open_notes(setting) as corpora:
        yield [
            Row(f"{name}, {size:,} {place}", partial(walk_ids, corpus, **options))
            for place, corpus in corpora.items()
            for name, options in ways.items()
        ]


@asynccontextmanager
async def build(setting: Setting) -> AsyncIterator[list[Row]]:
    """Build notes; in memory up to the first answer, to which a build might leave work."""
    size, source = setting.size(10_000), notes(setting)

    async def build_in_memory(turn: int) -> list[str]:
        async with airw.build(source, store=memory_store(setting)) as corpus:
            return await search_ids(corpus, "hybrid", turn)

    async def build_on_file(turn: int) -> Measured:
        with TemporaryDirectory(dir=setting.folder) as folder:
            start = time.perf_counter()
            async with airw.build(source, store=Path(folder) / "built.airw") as corpus:
                seconds = time.perf_counter() - start
                return Measured(seconds, await search_ids(corpus, "hybrid", turn))

    yield [
        Row(f"build and first search, {size:,} in memory", build_in_memory),
        Row(f"build, {size:,} on file", build_on_file),
    ]


# Programs for new processes: they print a line of JSON when they have an answer.

FIRST_ANSWER = """
import json, sys
import anyio, airw
async def main(file, mode, query):
    async with airw.open_corpus(file) as corpus:
        print(json.dumps([hit.artifact_id for hit in await airw.search(corpus, query, mode=mode)]), flush=True)
anyio.run(main, *sys.argv[1:])
"""
MEMORY = """
import gc, json, sys
from pathlib import Path
import anyio, airw
from tests.benchmarks.editions.rows import Setting, memory_store, notes
def memory():
    gc.collect()
    lines = [line.split() for line in Path("/proc/self/smaps_rollup").read_text().splitlines()]
    return next(int(fields[1]) for fields in lines if fields[0] == "Rss:") / 1e3
async def main(edition, folder, scale, place, query):
    setting = Setting(edition, Path(folder), float(scale))
    source = notes(setting) if place == "in memory" else None
    before = memory()
    opening = airw.open_corpus(setting.folder / "notes.airw") if source is None else (
        airw.build(source, store=memory_store(setting)))
    async with opening as corpus:
        hits = await airw.search(corpus, query)
        print(json.dumps([memory() - before, [hit.artifact_id for hit in hits]]), flush=True)
anyio.run(main, *sys.argv[1:])
"""


def ask_new_process(program: str, *arguments: object) -> tuple[float, Any]:
    """Return the seconds from the start of a process to its line, and what that line holds."""
    command, start = [sys.executable, "-c", program, *map(str, arguments)], time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        seconds = time.perf_counter() - start
    return seconds, json.loads(line)


@asynccontextmanager
async def first_answer(setting: Setting) -> AsyncIterator[list[Row]]:
    """Start a process that opens a file of notes and searches once."""
    file, size = await file_of_notes(setting), setting.size(10_000)

    async def ask(mode: str, turn: int) -> Measured:
        return Measured(*ask_new_process(FIRST_ANSWER, file, mode, question_of(turn)))

    yield [
        Row(f"first answer of a process, {mode}, {size:,} on file", partial(ask, mode))
        for mode in ("lexical", "hybrid")
    ]


@asynccontextmanager
async def memory(setting: Setting) -> AsyncIterator[list[Row]]:
    """Measure how much a process grows that opens notes, or builds them, and searches."""
    await file_of_notes(setting)

    async def measure(place: str, turn: int) -> Measured:
        arguments = setting.edition, setting.folder, setting.scale, place, question_of(turn)
        return Measured(*ask_new_process(MEMORY, *arguments)[1])

    size = setting.size(10_000)
    places = ("in memory", "on file")
    yield [Row(f"memory of an open corpus, {size:,} {place}", partial(measure, place), "MB") for place in places]


@asynccontextmanager
async def discover(setting: Setting) -> AsyncIterator[list[Row]]:
    """Discover notes in several corpora; of one hundred, each is small."""
    plans = {
        "8 corpora of 500 on file": (8, 500, True),
        "100 corpora of 20 on file": (100, 20, True),
        "100 corpora of 20 in memory": (100, 20, False),
    }

    async def ask(corpora: list[Any], turn: int) -> list[tuple[str, str]]:
        result = await airw.discover(corpora, question_of(turn), min_score=None)
        return [(each.source, each.artifact_id) for each in result.results]

    async with AsyncExitStack() as stack:
        rows = []
        for name, (count, size, is_file) in plans.items():
            corpora = []
            for at in range(max(2, round(count * min(1.0, setting.scale)))):
                source = source_of(setting, make_notes(size, seed=at), f"c{at:03}")
                file = setting.folder / f"{count}-{at}.airw"
                opening = airw.build(source, store=file if is_file else memory_store(setting))
                corpora.append(await stack.enter_async_context(opening))
            rows.append(Row(f"discover, {name}", partial(ask, corpora)))
        yield rows


@asynccontextmanager
async def tree(setting: Setting) -> AsyncIterator[list[Row]]:
    """Read a tree of notes that link to ten each, as `airw link tree` does."""
    ids = make_ids(setting.size(100_000))
    links = {id: ids[10 * at + 1 : 10 * at + 11] for at, id in enumerate(ids)}
    source = source_of(setting, dict.fromkeys(ids, "note"), "tree", links=links, embedder=small_embedder(setting))
    async with airw.build(source, store=memory_store(setting)) as corpus:
        yield [
            Row(f"link tree of {len(ids):,}", lambda _: read_link_tree(setting, corpus, ids[0], len(ids))),
        ]


@asynccontextmanager
async def hub(setting: Setting) -> AsyncIterator[list[Row]]:
    """Walk from a note with 20,000 neighbours: within the default fan-out, and all."""
    ids = make_ids(setting.size(20_000) + 1)
    links = {id: ids[1:] if id == ids[0] else [] for id in ids}
    texts = make_notes(len(ids), words=4)
    source = source_of(setting, texts, "hub", links=links, embedder=small_embedder(setting))
    policy = Eager(roots=[ids[0]], start_k=0, select_k=None, adjacent_k=None)
    every = airw.Limits(max_fanout=len(ids), max_edges=2 * len(ids))
    async with airw.build(source, store=memory_store(setting)) as corpus:
        name = f"hub of {len(ids) - 1:,} neighbours, Eager of 64"
        yield [
            Row(f"{name}, fan-out 1,000", partial(walk_ids, corpus, policy=policy)),
            Row(f"{name}, all", partial(walk_ids, corpus, policy=policy, limits=every)),
        ]


@contextmanager
def serve(file: Path) -> Any:
    """Yield a connection to `airw serve` in a process of its own."""
    command = [sys.executable, "-m", "airw", "serve", str(file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            port = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())[1]
            connection = http.client.HTTPConnection("127.0.0.1", int(port))
            yield connection
            connection.close()
        finally:
            process.terminate()


@asynccontextmanager
async def over_http(setting: Setting) -> AsyncIterator[list[Row]]:
    """Walk over HTTP, from note to note on a file."""
    eager = {"name": "eager", "params": {"select_k": None, "adjacent_k": None}}
    with serve(await file_of_notes(setting)) as connection:

        async def ask(fields: dict[str, Any], turn: int) -> list[str]:
            body = json.dumps({"corpus": "notes", "query": question_of(turn), **fields})
            connection.request("POST", "/traverse", body, {"content-type": "application/json"})
            events = connection.getresponse().read().decode()
            return re.findall(r'^event: hit\ndata: .*?"artifact_id": ?"([^"]+)"', events, re.MULTILINE)

        yield [
            Row("default walk over HTTP", partial(ask, {})),
            Row("Eager of 1,000 over HTTP", partial(ask, {"policy": eager, "node_budget": 1_000})),
        ]


@asynccontextmanager
async def beside_ir(setting: Setting) -> AsyncIterator[list[Row]]:
    """Walk a random graph with a policy of lists, 64 nodes a step, as `ir` can, too."""
    graphs = {size: Digraph(setting.size(size)) for size in (10_000, 100_000)}
    run = walk_of_ir if setting.edition == IR else partial(walk_of_lists, setting)
    budgets = (1, 8, 64, 1_000, 10_000)
    yield [
        Row(f"walk of {budget:,}, policy of lists", partial(run, graphs[100_000 if budget > 1_000 else 10_000], budget))
        for budget in budgets
    ]


async def walk_of_lists(setting: Setting, graph: Digraph, budget: int, turn: int) -> list[str]:
    """Return the ids of a walk of airw, sorted: the order of `ir` may be another one."""
    options = {"policy": list_policy(setting, graph, 64), "max_depth": None, "node_budget": budget}
    return sorted([hit.artifact_id async for hit in airw.traverse("query", None, **options)])


async def walk_of_ir(graph: Digraph, budget: int, turn: int) -> list[str]:
    """Return the ids of the same walk of `ir`, which scores and expands node by node."""
    import ir

    class OneByOne:
        def seed(self, state, store):
            return graph.seeds

        def score(self, state, node, store):
            return float(graph.vectors[node] @ graph.query)

        def select(self, state, scored):
            return sorted({triple[0]: triple for triple in scored}.values(), key=itemgetter(2), reverse=True)[:64]

        def expand(self, state, node, store):
            return graph.neighbours[node]

        def node_id(self, node):
            return node

        def stop(self, state):
            return False

        def to_hit(self, state, node, score, depth):
            return ir.SearchHit(str(node), "node", score, "", {})

    hits = ir.traverse("query", None, policy=OneByOne(), max_depth=10**6, node_budget=budget, k=budget)
    return sorted(hit.artifact_id for hit in hits)


@asynccontextmanager
async def wikispeedia(setting: Setting) -> AsyncIterator[list[Row]]:
    """Walk a dense graph of real pages."""
    folder = Path(os.environ["AIRW_DATA"]) / "wikispeedia"
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        pages = [json.loads(line) for line in islice(lines, setting.size(5_000))]
    questions = [json.loads(line)["text"] for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    random.Random(4).shuffle(questions)
    links = {page["id"]: page.get("links", []) for page in pages}
    # Walks are about links: one record a page, of the beginning of its text.
    texts = {page["id"]: page["text"][:400] for page in pages}
    ways = {
        "Eager 500": {"policy": Eager(select_k=None, adjacent_k=None), "node_budget": 500},
        "Beam 400": {"policy": Beam(width=20, max_depth=None), "node_budget": 400},
        "PageRank 64": {"policy": PersonalizedPageRank(), "node_budget": 64},
    }

    async def walk_pages(options: dict[str, Any], turn: int) -> list[str]:
        async with airw.traverse(questions[turn % len(questions)], corpus, **options) as walk:
            return [hit.artifact_id async for hit in walk]

    async with airw.build(source_of(setting, texts, "pages", links=links), store=memory_store(setting)) as corpus:
        yield [Row(f"{name}, wikispeedia", partial(walk_pages, options)) for name, options in ways.items()]


PROGRAMS = {
    "search": Program(search),
    "walk": Program(walk),
    "ir": Program(beside_ir, peers=(IR,)),
    "build": Program(build),
    "start": Program(first_answer),
    "memory": Program(memory),
    "discover": Program(discover),
    "tree": Program(tree),
    "hub": Program(hub),
    "http": Program(over_http),
    "wikispeedia": Program(wikispeedia, data_set="wikispeedia"),
}
"""The programs by their names in `--rows`, in the order of the table."""

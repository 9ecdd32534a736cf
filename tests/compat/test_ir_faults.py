"""Tests that this library lacks the faults that an inventory found in `ir` 0.1.61.

The docstring of a test begins with the number of the fault. Tests use the public interface. Tests of the file of a
corpus run on asyncio alone.
"""

import json
import socket
import sqlite3
import sys
import threading
import unicodedata
from contextlib import closing
from dataclasses import dataclass
from datetime import date

import anyio
import numpy as np
import pytest

import airw
from airw._base.http import calls
from airw.cli import main
from airw.corpora import build, corpus_names, open_corpus, records_for_artifact, search
from airw.embedders import embedder_from
from airw.errors import (
    ArgumentError,
    ChatUnavailable,
    CorpusNotFound,
    EmbedderError,
    EmbedderMismatch,
    EmbedderUnavailable,
    NoLedgerEntry,
    SourceError,
    StoreCorrupt,
    StoreError,
)
from airw.indexing import Chunked, WholeText, identity
from airw.links import extractor_from
from airw.policies import CollapsedTree
from airw.sources import from_files, from_jsonl, from_mapping, from_notes
from airw.stores import MemoryStore
from airw.traversal import traverse
from airw.values import Artifact, ArtifactChange, IndexPlan, LedgerEntry, Limits, Record, SearchHit, Surface
from tests.support.corpora import assert_same, content, reference_content, run, source

EMBEDDER = source().embedder


def notes(items, **options):
    return from_mapping(items, **{"name": "notes", "embedder": "light", **options})


async def in_memory(items, **options):
    return await build(notes(items, **options), store=MemoryStore())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.airw"


# Walks


@dataclass
class Graph:
    """A per-node policy whose neighbours come from a function; it counts the nodes it scores."""

    edges: object
    seeds: object = (0,)
    scored: int = 0

    def seed(self, state, store):
        return self.seeds

    def score(self, state, node, store):
        self.scored += 1
        return 0.5

    def expand(self, state, node, store):
        return self.edges(node)

    def node_id(self, node):
        return node

    def to_hit(self, state, node, score, depth):
        return SearchHit(str(node), "node", score, "", {"depth": depth})


async def test_a_hit_has_the_depth_and_score_of_the_walk_whatever_select_returns():
    """F5: a `select` that returns `(node, -5, 9.0)` cannot change depths or scores."""

    class Liar(Graph):
        def select(self, state, scored):
            return [(node, -5, 9.0) for node, _, _ in scored]

    walk = traverse("query", None, policy=airw.policies.per_node(Liar(lambda node: [node + 1])), max_depth=1)
    assert [(hit.artifact_id, hit.metadata["depth"], hit.score) async for hit in walk] == [("0", 0, 0.5), ("1", 1, 0.5)]


class Net(airw.Policy):
    """A policy like `Graph` that handles a whole step at a time."""

    def __init__(self, edges, seeds=(0,)):
        self.edges, self.seeds, self.scored = edges, seeds, []

    async def seed(self, state, store):
        return self.seeds

    async def score(self, state, nodes, store):
        self.scored += nodes
        return [0.0] * len(nodes)

    async def expand(self, state, committed, store):
        return [self.edges(entry.id) for entry in committed]

    def node_id(self, node):
        return node

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.id), "node", entry.score, "") for entry in committed]


async def test_a_walk_scores_no_more_nodes_than_its_limits_allow():
    """F6: it scores `max_frontier` of 100,000 seeds, and `max_fanout` of 5,000 neighbours."""
    policy = Net(lambda _: (), seeds=range(100_000))
    walk = traverse("query", None, policy=policy, node_budget=1, limits=Limits(max_frontier=10))
    assert len([hit async for hit in walk]) == 1
    assert len(policy.scored) == 10
    hub = Net(lambda node: range(1, 5001) if node == 0 else ())
    assert len([hit async for hit in traverse("query", None, policy=hub, limits=Limits(max_fanout=100))]) == 64
    assert len(hub.scored) == 101


async def test_a_node_with_many_parents_is_scored_once():
    """F6: 50 parents in one step and 50 in the next lead to one node."""
    edges = {0: range(1, 51), 1000: range(51, 101)} | {parent: [1000] for parent in range(1, 51)}
    policy = Net(lambda node: edges.get(node, [1000, *range(1, 51)]))
    assert len([hit async for hit in traverse("query", None, policy=policy, node_budget=500)]) == 102
    assert len(policy.scored) == len(set(policy.scored)) == 102


# Rebuilds


async def test_a_change_of_metadata_alone_is_indexed(tmp_path):
    """F10: not only the text counts, with fields from a function and from a file."""
    store = MemoryStore()
    for owner in ("ada", "bob"):
        corpus = await build(notes({"a": "text"}, metadata_of=lambda *_, to=owner: {"owner": to}), store=store)
        assert [hit.metadata["owner"] for hit in await corpus.search("text")] == [owner]
    lines, store = tmp_path / "lines.jsonl", MemoryStore()
    for body in ("first", "second"):
        lines.write_text(json.dumps({"id": "a", "text": "same", "body": body}))
        corpus = await build(from_jsonl(lines, text_key="body", embedder="light"), store=store)
        assert [hit.text for hit in await corpus.search(body)] == [body]


def of_width(dim, id):
    return embedder_from(lambda texts: np.eye(dim)[[len(text) % dim for text in texts]], id=id, dim=dim)


async def test_an_embedder_with_another_id_embeds_everything_again():
    """F11: a callable needs an id, and another width under the same id is refused."""
    with pytest.raises(TypeError, match="id"):
        embedder_from(len, dim=2)
    with pytest.raises(ArgumentError, match="id must name the model"):
        embedder_from(len, id=" ", dim=2)
    store, items = MemoryStore(), {"a": "alpha", "b": "beta"}
    await build(notes(items, embedder=of_width(4, "one")), store=store)
    corpus = await build(notes(items, embedder=of_width(6, "two")), store=store)
    assert corpus.report.updated == 2
    assert len(await corpus.search("alpha")) == 2
    assert (await store.vectors([Record.make_id("a", "document", 0)])).shape == (1, 6)
    with pytest.raises(EmbedderError, match=r"'two'.* 6"):
        await build(notes(items | {"c": "more"}, embedder=of_width(4, "two")), store=store)
    assert len(await corpus.search("alpha")) == 2


@pytest.mark.asyncio_only
async def test_a_corpus_with_a_custom_embedder_is_never_searched_with_another():
    """F11: a search by vectors needs its embedder, and a different one is refused."""
    async with build(notes({"a": "alpha"}, embedder=of_width(512, "mine"))):
        pass
    with pytest.raises(EmbedderUnavailable, match=r"'mine'.*embedder="):
        await search("notes", "alpha")
    for other in ("light", of_width(512, "other"), of_width(4, "mine")):
        with pytest.raises(EmbedderMismatch):
            await open_corpus("notes", embedder=other)
    async with open_corpus("notes", embedder=of_width(512, "mine")) as corpus:
        assert len(await corpus.search("alpha")) == 1


@pytest.mark.asyncio_only
async def test_a_failed_write_leaves_the_artifact_unchanged(path):
    """F12: ledger and records change in one transaction.

    So the ledger never reports an artifact as unchanged whose records were removed.
    """
    async with build(notes({"a": "first", "b": "beta"}), store=path):
        pass
    with closing(sqlite3.connect(path)) as connection, connection:  # the file itself refuses one record
        connection.execute("CREATE UNIQUE INDEX refuse ON record ((1)) WHERE text <> 'first'")
    with pytest.raises(StoreError):
        await build(notes({"a": "second", "b": "beta"}), store=path)
    async with build(notes({"a": "first", "b": "beta"}), store=path) as corpus:
        assert corpus.report.unchanged == 2
        assert [hit.artifact_id for hit in await corpus.search("first", k=1)] == ["a"]


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_after_a_crash_an_artifact_that_left_the_source_is_removed(path):
    """F13: the ledger lists all that a killed build stored, so the next build can remove it."""
    code = """
        def progress(counts):
            if counts.done == 6:
                os.kill(os.getpid(), signal.SIGKILL)
        pid = os.fork()
        if pid == 0:
            anyio.run(lambda: build(source(), store=path, batch_size=3, progress=progress))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """
    assert run(code, path) == "-9\n"
    async with open_corpus(path, embedder=EMBEDDER) as corpus:
        served = {hit.artifact_id for hit in await corpus.search("alpha 1", k=99)}
        assert "000" in served == {entry.artifact_id for entry in await corpus.store.ledger()}
        assert all([await records_for_artifact(corpus, each) for each in served])
    rest = source()
    items = {key: text for key, text in rest.scope.items() if key != "000"}
    async with build(notes(items, embedder=EMBEDDER), store=path) as corpus:
        assert "000" not in {hit.artifact_id for hit in await corpus.search("alpha 0", k=99)}
        with pytest.raises(NoLedgerEntry):
            await records_for_artifact(corpus, "000")


@pytest.mark.parametrize(("flags", "kept"), [([], 1), (["--no-prune"], 2)])
def test_the_command_line_removes_missing_documents_except_with_no_prune(tmp_path, capsys, flags, kept):
    """F14: the flag is named after its effect."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.md").write_text(f"text of {name}")
    assert main(["build", str(folder), "--embedder", "light"]) == 0
    (folder / "b.md").unlink()
    assert main(["build", str(folder), *flags]) == 0
    assert f"contains {kept} documents" in capsys.readouterr().out


@pytest.mark.parametrize("read", [from_files, from_notes])
async def test_an_empty_or_mistyped_source_removes_nothing_without_force(tmp_path, read):
    """F15: a missing root is an error, and so is a source without artifacts."""
    store, folder = MemoryStore(), tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("alpha")
    await build(read(folder, embedder="light"), store=store)
    for wrong in (tmp_path / "note", folder / "a.md"):
        with pytest.raises(SourceError):
            await build(read(wrong, name="notes", embedder="light"), store=store)
    with pytest.raises(SourceError, match="force=True"):
        await build(notes({}), store=store)
    assert await store.artifact_ids() == ["a.md"]
    await build(notes({}), store=store, force=True)
    assert await store.artifact_ids() == []


# Names


@pytest.mark.asyncio_only
async def test_two_names_are_two_corpora_and_invalid_names_are_refused(home):
    """F16: no two names share a file, and no name leaves the home folder."""
    for name in ("a_b", "a.b", "a-b"):
        async with build(notes({name: "text"}, name=name)):
            pass
    for name in ("..", ".", "a b", "", "a:b", "-x", ".hidden", "a\0b", "x" * 101):
        with pytest.raises(ArgumentError, match="name"):
            await build(notes({"x": "text"}), store=name)
    assert corpus_names() == ["a-b", "a.b", "a_b"]
    for name in corpus_names():
        async with open_corpus(name) as corpus:
            assert await corpus.store.artifact_ids() == [name]
    assert sorted(each.name for each in home.iterdir()) == ["corpora"]


@pytest.mark.asyncio_only
async def test_an_unknown_name_is_an_error_and_leaves_no_trace(home, capsys):
    """F17: this is true for searching, opening and reading records."""
    for attempt in (search("nope", "x"), open_corpus("nope"), records_for_artifact("nope", "a")):
        with pytest.raises(CorpusNotFound, match="there is no corpus 'nope'"):
            await attempt
    assert not home.exists()


@pytest.mark.parametrize("command", ["search", "traverse"])
def test_an_unknown_name_on_the_command_line_is_exit_code_2(home, capsys, command):
    """F17: an error, not an empty answer."""
    assert main([command, "nope", "words"]) == 2
    assert "there is no corpus 'nope'" in capsys.readouterr().err
    assert not home.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["search", "nope", "x", "--mode", "zzz"],
        ["discover", "nope", "x", "--min-score", "abc"],
        ["calibrate", "nope", "missing.jsonl"],
        ["register", "nope", "nokind"],
        ["register", "nope", "interval", "--every-hours", "abc"],
        ["maintain", "nope"],
        ["coverage", "nope"],
    ],
)
def test_invalid_arguments_on_the_command_line_are_one_line_and_exit_code_2(home, capsys, words):
    """F45: never a traceback."""
    try:
        code = main(words)
    except SystemExit as left:  # argparse exits like this
        code = left.code
    message = capsys.readouterr().err
    assert (code, message.count("\n"), message.startswith("airw: ")) == (2, 1, True)
    assert not home.exists()


STRANGE = ["../../evil", "a", "a/b", "x" * 300, ".hidden", "con", "a\u241fb", "%00", " "]


@pytest.mark.asyncio_only
async def test_any_id_can_have_incoming_and_outgoing_links(path):
    """F18: ids are never file names; a hidden one counts as a dependent like any other."""
    extractor = extractor_from(lambda one, _: {"REF": [other for other in STRANGE if other != one]}, id="all")
    async with build(notes(dict.fromkeys(STRANGE, "text"), edge_extractor=extractor), store=path) as corpus:
        incoming = await corpus.store.neighbors(STRANGE, direction="in")
        outgoing = await corpus.store.neighbors(STRANGE)
    for at, id in enumerate(STRANGE):
        assert {edge.source for edge in incoming[at]} == {edge.target for edge in outgoing[at]} == {*STRANGE} - {id}
    with pytest.raises(SourceError, match="non-empty"):
        await build(notes({"": "text"}), store=MemoryStore())


# Readers beside writers


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_an_open_corpus_sees_a_rebuild_at_its_next_search(path, mode):
    """F19: through the same handle or another one, after a rebuild in this process or another."""
    async with build(source(), store=path) as mine, open_corpus(path, embedder=EMBEDDER) as other:
        for each in (mine, other):
            assert len(await each.search("alpha 1", mode=mode, k=99)) == 24
        async with build(source("beta", count=3), store=path):
            pass
        for each in (mine, other):
            assert {hit.text.split()[0] for hit in await each.search("beta 1", mode=mode, k=99)} == {"beta"}
        run("anyio.run(build_corpus, path, 'alpha')", path)
        for each in (mine, other):
            assert len(await each.search("alpha 1", mode=mode, k=99)) == 24


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_a_reader_never_sees_fewer_artifacts_while_another_process_rebuilds_them_all(path):
    """F20: 300 documents stay 300 documents, each wholly old or wholly new."""
    async with build(source(count=300, size=0), store=path):
        pass
    process = threading.Thread(
        target=run, args=["anyio.run(lambda: build_corpus(path, 'beta', count=300, size=0))", path]
    )
    process.start()
    async with open_corpus(path, embedder=EMBEDDER) as corpus:
        words = set()
        while process.is_alive():
            hits = await corpus.search("alpha 1", k=999)
            entries = await corpus.store.ledger()
            assert len({hit.artifact_id for hit in hits}) == len(hits) == len(entries) == 300
            words |= {hit.text.split()[0] for hit in hits}
            await anyio.sleep(0.01)
        assert {hit.text.split()[0] for hit in await corpus.search("x", k=999)} == {"beta"}
    process.join()
    assert "alpha" in words


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_two_concurrent_builds_of_one_name_leave_the_result_of_one():
    """F21: the result is never a mixture, and no build removes records of the other."""
    words = ("alpha", "beta")

    def build_in_new_loop(word):
        async def one():
            async with build(source(word, pause=0.001), batch_size=2):
                pass

        anyio.run(one)

    async with anyio.create_task_group() as group:
        for word in words:
            group.start_soon(anyio.to_thread.run_sync, build_in_new_loop, word)
    async with open_corpus("notes", embedder=EMBEDDER) as corpus:
        found = await content(corpus.store)
    word = found[0]["records"][0][0].text.split()[0]
    assert_same(found, await reference_content(word))


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("table", ["setting", "record"])
async def test_damage_inside_the_file_is_a_typed_error_and_a_build_with_repair_heals_it(path, table):
    """F22: settings and metadata that are not JSON are reported as damage.

    The corpus can be built again in the same place.
    """
    async with build(source(), store=path):
        pass
    column = {"setting": "value", "record": "metadata"}[table]
    await anyio.sleep(0.01)  # as file times are only so exact
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = '[' || {column} WHERE rowid = 1" if table == "record" else
                           f"UPDATE {table} SET {column} = '[' || {column}")  # fmt: skip
    with pytest.raises(StoreCorrupt, match=r"is damaged.* check its disk, then build it with repair=True"):
        async with open_corpus(path, embedder=EMBEDDER) as corpus:
            await corpus.search("alpha 0", k=99)
    with pytest.raises(StoreCorrupt, match="repair=True"):
        await build(source(), store=path)
    async with build(source(), store=path, repair=True) as corpus:
        assert_same(await content(corpus.store), await reference_content())


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_no_corpus_is_lost_if_many_are_built_concurrently():
    """F23: 4 threads build 20 named corpora each and list them; all exist and open."""

    def make(thread):
        async def one():
            for number in range(20):
                name = f"c{thread}-{number}"
                async with build(notes({name: "text"}, name=name)):
                    pass
                assert name in corpus_names()

        anyio.run(one)

    async with anyio.create_task_group() as group:
        for thread in range(4):
            group.start_soon(anyio.to_thread.run_sync, make, thread)
    names = sorted(f"c{thread}-{number}" for thread in range(4) for number in range(20))
    assert corpus_names() == names
    for name in names:
        async with open_corpus(name) as corpus:
            assert await corpus.store.artifact_ids() == [name]


# Searching


async def test_nan_is_never_stored_searched_or_printed():
    """F24: builds and queries refuse vectors with NaN; JSON of hits has numbers or null."""
    nan = embedder_from(lambda texts: [[float("nan"), 1.0] for _ in texts], id="nan", dim=2)
    with pytest.raises(EmbedderError, match="not finite"):
        await in_memory({"a": "text"}, embedder=nan)
    asked = []

    def turning(texts):
        asked.extend(texts)
        return [[float("nan") if len(asked) > 1 else 1.0, 1.0] for _ in texts]

    corpus = await in_memory({"a": "text"}, embedder=embedder_from(turning, id="turning", dim=2))
    for mode in ("dense", "hybrid"):
        with pytest.raises(EmbedderError, match="not finite"):
            await corpus.search("text", mode=mode)
    record = Record(Record.make_id("b", "document", 0), "b", "document", 0, "text")
    change = ArtifactChange(LedgerEntry("b", "1", "e", "s"), [record], np.full((1, 2), np.nan, np.float32))
    with pytest.raises(StoreError, match="NaN"):
        await corpus.store.apply([change])
    hit = SearchHit("a", "document", float("nan"), "text", {"x": float("inf")})
    assert json.loads(json.dumps(hit.to_dict(), allow_nan=False))["score"] is None


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_an_artifact_of_many_chunks_does_not_crowd_out_the_others(mode):
    """F25: `k` counts artifacts, not surfaces: a search with k=10 returns 10 of 21."""
    items = {"big": "\n\n".join(f"keys keys keys {number}" for number in range(200))}
    items |= {f"small-{number}": f"keys and more words {number}" for number in range(20)}
    corpus = await in_memory(items, strategy=Chunked(chunk_size=20, overlap=0))
    assert (await corpus.store.counts())["records"] > 200
    hits = await corpus.search("keys keys keys 1", k=10, mode=mode)
    assert len({hit.artifact_id for hit in hits}) == len(hits) == 10


class Kinds:
    """A strategy that makes one surface from each `(kind, text)`."""

    id = "kinds"

    def decompose(self, artifact):
        return IndexPlan({}, [Surface(artifact.id, kind, text) for kind, text in artifact.raw])


COUNTED = Limits(count_beyond_limits=True)


@pytest.mark.parametrize(("budget", "hits", "left"), [(5, 0, 7), (10, 0, 2), (12, 0, 12), (15, 3, 9), (24, 12, None)])
async def test_a_walk_summary_counts_routers_and_the_nodes_left_out(budget, hits, left):
    """F26: 12 routers come first; the summary counts them separately."""
    items = {f"{at:02}": [("description", f"about {at}"), ("chunk", f"part {at}")] for at in range(12)}
    corpus = await in_memory(items, strategy=Kinds())
    walk = traverse("about", corpus, policy=CollapsedTree(seed_k=12), node_budget=budget, limits=COUNTED)
    found = [hit async for hit in walk]
    summary = walk.summary
    assert (len(found), summary.emitted, summary.routed) == (hits, hits, budget - hits)
    assert (summary.truncated, summary.left_out) == ((True, {"node_budget": left}) if left else (False, {}))


async def test_a_walk_over_summaries_returns_the_matching_surface():
    """F27: the description matches word for word; the synopsis before it does not match."""
    items = {"a": [("synopsis", "unrelated words"), ("description", "rotate the keys")], "b": [("synopsis", "bread")]}
    corpus = await in_memory(items, strategy=Kinds())
    best, *_ = await airw.top_k(traverse("rotate the keys", corpus, policy=CollapsedTree()), k=5)
    assert (best.artifact_id, best.surface_kind, best.score) == ("a", "description", pytest.approx(1.0))


async def test_every_edge_leads_to_an_artifact_of_the_corpus():
    """F28: a reference in any spelling of a package name is a link in both directions."""
    needs = extractor_from(lambda _, fields: {"REF": fields["needs"]}, id="needs")
    items = {"PyYAML": [], "app": ["pyyaml", "ruamel-yaml"], "ruamel.yaml": ["pyyaml", "gone"]}
    corpus = await in_memory(
        dict.fromkeys(items, "text"), metadata_of=lambda name, _: {"needs": items[name]}, edge_extractor=needs
    )
    (out,) = await corpus.store.neighbors(["app"])
    assert [edge.target for edge in out] == ["PyYAML", "ruamel.yaml"]
    assert None not in await corpus.store.ledger([edge.target for edge in out])
    ((first, second),) = await corpus.store.neighbors(["PyYAML"], direction="in")
    assert {first.source, second.source} == {"app", "ruamel.yaml"}
    assert (await corpus.store.counts())["dangling"] == 1


# Strategies and ids


def test_chunks_keep_their_size_contain_all_text_and_are_never_inside_another():
    """F33: no useless last chunk, and none beyond the size; invalid windows are refused."""
    for text in ("x" * 2200, "word " * 440, "one\n\n" * 300):
        plan = Chunked(chunk_size=1200, overlap=200).decompose(Artifact("a", text))
        cuts = [(surface.metadata["start"], surface.metadata["end"]) for surface in plan.surfaces]
        assert len(cuts) == 2
        assert all(end - start <= 1200 for start, end in cuts)
        assert cuts[0][1] < cuts[1][1]
        covered = "".join(
            text[max(start, done) : end] for (start, end), done in zip(cuts, (0, cuts[0][1]), strict=True)
        )
        assert "".join(covered.split()) == "".join(text.split())
    for chunk_size, overlap in ((0, 0), (100, 100), (100, -1), (-5, 0)):
        with pytest.raises(ArgumentError):
            Chunked(chunk_size=chunk_size, overlap=overlap)


class Shouting:
    """A custom strategy with slots; its id contains the version of its function."""

    __slots__ = ("change", "version")

    def __init__(self, change, version):
        self.change, self.version = change, version

    @property
    def id(self):
        return f"shouting-{self.version}"

    def decompose(self, artifact):
        return WholeText().decompose(Artifact(artifact.id, self.change(artifact.raw)))


async def test_a_strategy_with_another_id_indexes_again_and_one_without_an_id_is_refused():
    """F35: settings are in the id; attributes are not compared, so slots are allowed."""
    assert Chunked().id != Chunked(overlap=100).id != Chunked(overlap=100, kind="part").id
    store, items = MemoryStore(), {"a": "Text"}
    for strategy, text in ((Shouting(str.upper, 1), "TEXT"), (Shouting(str.lower, 2), "text"), (WholeText(), "Text")):
        corpus = await build(notes(items, strategy=strategy), store=store)
        assert corpus.report.unchanged == 0
        assert [hit.text for hit in await corpus.search("text")] == [text]

    class Nameless:
        def decompose(self, artifact):
            return IndexPlan()

    with pytest.raises(ArgumentError, match="id"):
        await build(notes(items, strategy=Nameless()), store=MemoryStore())


class Slotted:
    """A strategy with a function in a slot; `identity` derives its id from the slots."""

    __slots__ = ("change",)
    id = property(identity)

    def __init__(self, change):
        self.change = change

    def decompose(self, artifact):
        return IndexPlan({}, [Surface(artifact.id, "document", self.change(artifact.raw))])


async def test_a_strategy_with_slots_whose_function_changed_indexes_again():
    """F35: an id from `identity` depends on the function; the same function has the same id."""
    store = MemoryStore()
    for change, updated in ((str.upper, 0), (str.upper, 0), (str.lower, 1), (lambda text: text.lower(), 1)):
        corpus = await build(notes({"a": "Text"}, strategy=Slotted(change)), store=store)
        assert corpus.report.updated == updated


@pytest.mark.parametrize(
    "make",
    [
        airw.retrieval.make_llm_formulator,
        airw.indexing.make_llm_synthesizer,
        lambda: airw.discovery.make_llm_selector("query"),
    ],
)
def test_without_a_chat_model_functions_that_need_one_cannot_be_created(make):
    """F29: creating them raises one error that names the variable to set, not an import error."""
    with pytest.raises(ChatUnavailable, match="set the environment variable AIRW_CHAT") as caught:
        make()
    assert "\n" not in str(caught.value)


async def test_if_the_model_does_not_answer_the_fallback_is_used(free_url, monkeypatch):
    """F29: the fallbacks are the original query, the rule of `select`, and no synopsis.

    The build report contains the missing synopsis.
    """
    monkeypatch.setattr(calls, "FIRST_PAUSE", 0.001)
    chat = airw.chat.ChatClient(free_url, "m", retries=1)
    assert await airw.retrieval.make_llm_formulator(model=chat)("keys") == "keys"
    hits = [SearchHit(name, "document", score, name) for name, score in (("a", 1.0), ("b", 0.1))]
    assert await airw.discovery.make_llm_selector("keys", model=chat)(hits) == airw.select(hits).selected
    synopses = airw.indexing.with_synopsis(WholeText(), synthesize=airw.indexing.make_llm_synthesizer(model=chat))
    corpus = await in_memory({"a": "text"}, strategy=synopses)
    assert [hit.text for hit in await corpus.search("text")] == ["text"]
    [problem] = corpus.report.problems
    assert (problem.item, problem.lost) == ("a", False)
    assert "no synopsis: " in problem.reason


@pytest.fixture
def free_url():
    with closing(socket.socket()) as silent_socket:
        silent_socket.bind(("127.0.0.1", 0))  # bound and not listening: connecting is refused
        yield f"http://127.0.0.1:{silent_socket.getsockname()[1]}/v1"


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_the_presets_work_on_a_machine_with_only_this_library(home, tmp_path, monkeypatch):
    """F46: skills come from the folder of agents, packages from Python; reports need a folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(SourceError, match=r"no SKILL\.md below '~/\.claude/skills'"):
        await airw.build_corpus("skills", embedder="light")
    with pytest.raises(ArgumentError, match=r"projects_root .* AIRW_PROJECTS"):
        await airw.build_corpus("reports", embedder="light")
    assert not home.exists()
    folder = tmp_path / ".claude" / "skills" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Merge PDF files\n---\n")
    async with airw.build_corpus("skills", embedder="light") as skills:
        assert await skills.store.artifact_ids() == ["pdf"]
    async with airw.build_corpus("packages", embedder="light", on_error="skip") as packages:
        assert {"airw", "numpy", "anyio"} <= set(await packages.store.artifact_ids())


@pytest.mark.asyncio_only
async def test_a_registry_file_alone_imports_no_module(home, tmp_path, monkeypatch):
    """F48: a fetcher is called only if the environment lists its module."""
    (tmp_path / "intruder.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    home.mkdir()
    entry = {"kind": "records", "params": {"fetcher": "intruder:records"}, "embedder": "light"}
    (home / "registry.json").write_text(json.dumps({"version": 1, "corpora": {"mine": entry}}))
    assert list(airw.corpora.list_corpora()) == ["mine"]
    with pytest.raises(ArgumentError, match="AIRW_FETCHERS"):
        await airw.build_corpus("mine")
    [failed] = (await airw.maintain()).failed
    assert "AIRW_FETCHERS" in failed.reason
    assert "intruder" not in sys.modules


@dataclass
class Given:
    """A custom source that yields these artifacts."""

    artifacts: list
    name: str = "given"
    embedder: str = "light"
    edge_extractor: object = None
    indexing_strategy: object = WholeText()

    def change_signal(self, artifact):
        return str(artifact.raw)

    async def items(self):
        for artifact in self.artifacts:
            yield artifact


async def test_a_repeated_id_is_refused_or_reported_and_zero_is_a_valid_id(tmp_path):
    """F36: no artifact is overwritten silently; the number 0 and the text "0" are the same id."""
    lines = tmp_path / "lines.jsonl"
    rows = [{"id": 0, "text": "zero"}, {"id": "a", "text": "one"}, {"id": "a", "text": "two"}, {"id": "0", "text": "0"}]
    lines.write_text("\n".join(map(json.dumps, rows)))
    given = Given([Artifact("a", "one"), Artifact("a", "two"), Artifact("0", "zero")])
    for repeating, problems in ((from_jsonl(lines, embedder="light"), 2), (given, 1)):
        with pytest.raises(SourceError, match=r"already on line 2|yields this id twice"):
            await build(repeating, store=MemoryStore())
        corpus = await build(repeating, store=MemoryStore(), on_error="skip")
        assert len(corpus.report.problems) == problems
        assert {hit.artifact_id: hit.text for hit in await corpus.search("x")} == {"0": "zero", "a": "one"}


async def test_one_bad_item_does_not_affect_the_others(tmp_path):
    """F37: an item that cannot be read or stored is reported and skipped; the rest is indexed.

    Dates and numbers are accepted.
    """
    (tmp_path / "good.md").write_text("alpha")
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    corpus = await build(from_files(tmp_path, name="files", embedder="light"), store=MemoryStore(), on_error="skip")
    assert [problem.item for problem in corpus.report.problems] == ["latin.md"]
    assert await corpus.store.artifact_ids() == ["good.md"]
    items = {"half": "\ud800", "list": ["x"], 7: "number", "dated": "text", "fields": {"title": "words", "n": 1}}
    dated = notes(items, metadata_of=lambda *_: {"on": date(2026, 1, 2)})
    with pytest.raises(SourceError, match="half"):
        await build(dated, store=MemoryStore())
    store = MemoryStore()
    corpus = await build(dated, store=store, on_error="skip")
    assert [problem.item for problem in corpus.report.problems] == ["half", "7", "list"]
    assert {hit.artifact_id: hit.metadata["on"] for hit in await corpus.search("x")} == {
        "dated": "2026-01-02", "fields": "2026-01-02",
    }  # fmt: skip
    assert (await store.counts())["records"] == 2


FORMS = ("NFC", "NFD")


@pytest.mark.parametrize("asked", FORMS)
@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (mode, text)
        for mode in ("lexical", "dense")
        for text in ("café crème", "йод ёлка", "한국어", "ガラス", "tiếng Việt")
    ],
)
async def test_composed_and_decomposed_accents_are_the_same_words(mode, text, asked):
    """F41: a query finds a text in either form of accents, and both forms score the same."""
    written = {form: unicodedata.normalize(form, text) for form in FORMS}
    assert written["NFC"] != written["NFD"]
    corpus = await in_memory(written | dict.fromkeys("xyz", "tea"))
    hits = await corpus.search(written[asked], mode=mode, k=2)
    assert [hit.artifact_id for hit in hits] == sorted(FORMS)
    assert hits[0].score == pytest.approx(hits[1].score)
    assert hits[0].score > 0


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
async def test_a_word_inside_a_text_without_spaces_is_found(mode):
    """F41: the built-in embedder treats each Han or kana character as a word."""
    corpus = await in_memory({"tokyo": "東京都庁舎の案内", "kyoto": "金閣寺への道", "x": "bread"})
    best, *_ = await corpus.search("案内", mode=mode)
    assert best.artifact_id == "tokyo"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_ties_are_in_order_of_id_for_every_k(mode):
    """F42: 2,000 equal scores come in order of id, whatever order they were stored in."""
    ids = [f"{at:04}" for at in range(2000)]
    shuffled = [ids[at] for at in np.random.default_rng(1).permutation(2000)]
    corpus = await in_memory(dict.fromkeys(shuffled, "the same words"))
    for k in (1, 7, 100):
        assert [hit.artifact_id for hit in await corpus.search("same words", k=k, mode=mode)] == ids[:k]


async def test_no_two_surfaces_share_an_id_whatever_characters_their_names_contain():
    """F43: an id separates its parts by their length, not by a character they may contain."""
    names = ["a", "a\u241fb", "a:1", "1:a", "a\n", ""]
    made = {Record.make_id(id, kind, index) for id in names for kind in names for index in (0, 1, 11)}
    assert len(made) == len(names) ** 2 * 3
    corpus = await in_memory({"a\u241fb": [("c", "first")], "a": [("b\u241fc", "second")]}, strategy=Kinds())
    assert {hit.text for hit in await corpus.search("x")} == {"first", "second"}

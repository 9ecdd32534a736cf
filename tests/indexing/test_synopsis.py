"""Synopses: surface, gate, ids, and builds with a real chat server."""

import os
import subprocess
import sys
import threading
from dataclasses import FrozenInstanceError, dataclass
from itertools import count

import anyio
import anyio.to_thread
import ir
import pytest

from airw import build, from_mapping, maintain, open_corpus, register, traverse
from airw.chat import ChatClient
from airw.errors import ArgumentError, ChatError, SourceError
from airw.indexing import (
    Chunked,
    Package,
    Skill,
    ThinDescription,
    WholeText,
    make_llm_synthesizer,
    with_synopsis,
)
from airw.indexing.synopsis import MAX_CHARS
from airw.policies import CollapsedTree
from airw.protocols import ArtifactIds, RecordsOf, ask
from airw.stores import MemoryStore, SqliteStore
from airw.values import Artifact, IndexPlan
from tests.support.chat_server import ChatServer
from tests.support.embedding_server import alone, later, status
from tests.support.waiting import PATIENCE


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    alone(monkeypatch)


def about(prompt: str) -> str:
    """Return a synopsis of the text in a prompt."""
    return f"About {prompt.rsplit('Text:', maxsplit=1)[-1].split(maxsplit=1)[0]}"


@pytest.fixture
def server():
    with ChatServer(about) as running:
        yield running


@pytest.fixture
def chat(server) -> ChatClient:
    return ChatClient(server.url, "m", timeout=30, retries=0)


NOTE = Artifact("a", "some text", {"year": 2026})


def texts(plan):
    return [(surface.kind, surface.text) for surface in plan.surfaces]


def with_constant_synopsis(text):
    """Return a strategy whose synthesizer always returns this text."""
    return with_synopsis(WholeText(), synthesize=lambda artifact: text, synthesizer_id="s")


# --- the surface ----------------------------------------------------------------------------------------------------


async def test_the_synopsis_is_the_first_surface_and_contains_the_synthesizer_id():
    strategy = with_synopsis(Chunked(), synthesize=lambda artifact: f" on {artifact.id}\n", synthesizer_id="mine")
    plan = await strategy.decompose(NOTE)
    first, chunk = plan.surfaces
    assert (first.kind, first.text, first.granularity) == ("synopsis", "on a", "document")
    assert (first.artifact_id, first.metadata) == ("a", {"synthesizer_id": "mine"})
    assert [chunk] == Chunked().decompose(NOTE).surfaces
    assert (plan.filter_fields, plan.problems) == ({"year": 2026}, ())


async def test_its_kind_can_be_another_one():
    plan = await with_synopsis(WholeText(), synthesize=lambda _: "s", synopsis_kind="gist").decompose(NOTE)
    assert texts(plan) == [("gist", "s"), ("document", "some text")]


@pytest.mark.parametrize("blank", ["", " \n "])
async def test_a_blank_synopsis_is_no_surface_and_no_problem(blank):
    assert await with_constant_synopsis(blank).decompose(NOTE) == WholeText().decompose(NOTE)


@pytest.mark.parametrize("answer", [None, 3, b"bytes", ["a"], "half \ud800"])
async def test_a_synopsis_that_is_no_text_is_a_problem_and_the_rest_is_kept(answer):
    plan = await with_constant_synopsis(answer).decompose(NOTE)
    assert texts(plan) == [("document", "some text")]
    (problem,) = plan.problems
    assert problem.startswith("no synopsis: ")
    assert "\n" not in problem


async def test_a_synthesizer_that_fails_is_a_problem_and_the_problems_of_others_are_kept():
    class Partly:
        id = "partly"

        async def decompose(self, artifact):
            await anyio.lowlevel.checkpoint()
            return IndexPlan(problems=["no deps"])

    def broken(artifact):
        raise OSError("connection\nlost")

    plan = await with_synopsis(Partly(), synthesize=broken).decompose(NOTE)
    assert plan.problems == ["no deps", "no synopsis: OSError: connection lost"]


async def test_errors_of_the_inner_strategy_and_the_gate_are_raised():
    def broken(artifact):
        raise OSError("gate")

    with pytest.raises(OSError, match="gate"):
        await with_synopsis(WholeText(), synthesize=str, synthesizer_id="s", when=broken).decompose(NOTE)
    with pytest.raises(SourceError, match="reads a string"):
        await with_constant_synopsis("s").decompose(Artifact("a", 3))


async def test_cancelling_a_synthesizer_is_no_problem_of_the_artifact():
    async def forever(artifact):
        await anyio.sleep_forever()

    with anyio.move_on_after(0.02) as scope:
        await with_synopsis(WholeText(), synthesize=forever).decompose(NOTE)
    assert scope.cancelled_caught


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_the_synthesizer_is_not_called_if_the_gate_returns_false(kind):
    asked = []

    async def async_gate(artifact):
        await anyio.lowlevel.checkpoint()
        return artifact.id == "b"

    gate = async_gate if kind == "async" else lambda artifact: artifact.id == "b"
    strategy = with_synopsis(WholeText(), synthesize=asked.append, synthesizer_id="s", when=gate, when_id="b")
    assert await strategy.decompose(NOTE) == WholeText().decompose(NOTE)
    assert asked == []
    assert (await strategy.decompose(Artifact("b", "t"))).problems
    assert [artifact.id for artifact in asked] == ["b"]


@pytest.mark.parametrize(
    "raw",
    [
        {"description": "x" * 39},
        {"description": " " + "x" * 39 + "\n"},
        {"description": None},
        {"description": "", "readme": "x" * 99},
        {},
        "x" * 39,
        {"description": "x" * 40},
        {"description": "x" * 99},
        "x" * 40,
    ],
)
def test_a_description_of_less_than_40_characters_is_thin_as_in_ir(raw):
    thin = ThinDescription()(Artifact("a", raw))
    assert thin == ir.synopsis.thin_description_predicate(ir.Artifact("a", raw))
    assert thin == (len(raw if isinstance(raw, str) else (raw.get("description") or "").strip()) < 40)


def test_another_threshold_or_field_has_another_id():
    assert ThinDescription(min_chars=3, field="about")(Artifact("a", {"about": "ab"}))
    assert len({each.id for each in (ThinDescription(), ThinDescription(min_chars=3), ThinDescription(field="a"))}) == 3
    for options in ({"min_chars": -1}, {"field": ""}, {"field": 3}):
        with pytest.raises(ArgumentError):
            ThinDescription(**options)


# --- the text for a model -------------------------------------------------------------------------------------------


async def collect_texts(strategy, raw):
    """Return the texts of an artifact that the summarizer receives."""
    received = []
    await with_synopsis(
        strategy, synthesize=make_llm_synthesizer(summarize=received.append, synthesizer_id="s")
    ).decompose(Artifact("a", raw))
    return received


RECORD = {
    "path": "/home/me/secret",
    "name": "walker",
    "readme": "Long text.",
    "description": " Walks graphs. ",
    "deps": ["numpy"],
    "owner": "me",
}


@pytest.mark.parametrize("strategy", [Package(embed_deps=True), Skill(), with_synopsis(Package(), synthesize=str)])
async def test_only_name_description_and_readme_of_a_package_or_skill_reach_the_model(strategy):
    assert await collect_texts(strategy, RECORD) == ["walker\n\nWalks graphs.\n\nLong text."]
    assert await collect_texts(strategy, {"name": "walker", "path": "/p", "readme": None}) == ["walker"]


@pytest.mark.parametrize("strategy", [Chunked(text_key="body"), WholeText(text_key="body")])
async def test_the_indexed_field_is_the_summarized_one(strategy):
    assert await collect_texts(strategy, {"title": "t", "body": "b"}) == ["b"]
    assert await collect_texts(type(strategy)(), {"title": "t", "body": "b"}) == ["t\nb"]
    assert await collect_texts(type(strategy)(), "text") == ["text"]


async def test_fields_of_the_caller_take_precedence_over_those_of_the_strategy():
    for options, text in (({"text_key": "path"}, "/home/me/secret"), ({"text_fields": ["deps2", "owner"]}, "me")):
        got = []
        synthesize = make_llm_synthesizer(summarize=got.append, synthesizer_id="s", **options)
        await with_synopsis(Package(), synthesize=synthesize).decompose(Artifact("a", RECORD))
        assert got == [text]


@pytest.mark.parametrize("raw", ["", " \n", {"text": ""}, {}])
async def test_an_empty_text_never_reaches_the_model(raw):
    assert await collect_texts(WholeText(), raw) == []


async def test_a_long_text_is_cut_and_marked_as_cut():
    assert await collect_texts(WholeText(), "x" * MAX_CHARS) == ["x" * MAX_CHARS]
    assert await collect_texts(WholeText(), "x" * (MAX_CHARS + 1)) == ["x" * MAX_CHARS + "\n[the text goes on]"]


async def test_the_prompt_is_filled_in_correctly_if_the_text_contains_braces(server, chat):
    synthesize = make_llm_synthesizer(model=chat, prompt="Sum up {{text}} {x}")
    assert await synthesize(Artifact("a", "{text} {0} {"))
    assert server.prompts == ["Sum up {{text} {0} {} {x}"]


# --- ids ------------------------------------------------------------------------------------------------------------


def plain(artifact):
    return artifact.id


@dataclass(frozen=True)
class Named:
    id: str = "named"

    def __call__(self, artifact):
        return ""


def variants(chat):
    made = {"strategy": WholeText(), "synthesize": make_llm_synthesizer(model=chat)}
    other = ChatClient("http://localhost:1/v1", "other")
    yield made
    yield made | {"strategy": WholeText(kind="page")}
    yield made | {"strategy": Package()}
    yield made | {"synthesize": make_llm_synthesizer(model=chat, prompt="{text}?")}
    yield made | {"synthesize": make_llm_synthesizer(model=other)}
    yield made | {"synthesize": make_llm_synthesizer(model=chat, text_key="a")}
    yield made | {"synthesize": make_llm_synthesizer(model=chat, text_fields=["a", "b"])}
    yield made | {"synthesize": make_llm_synthesizer(model=chat, text_fields=["b", "a"])}
    yield made | {"synthesize": make_llm_synthesizer(summarize=plain)}
    yield made | {"synthesize": plain}
    yield made | {"synthesize": Named()}
    yield made | {"synthesizer_id": "another"}
    yield made | {"synopsis_kind": "gist"}
    yield made | {"when": plain}
    yield made | {"when": plain, "when_id": "another"}
    yield made | {"when": ThinDescription()}
    yield made | {"when": ThinDescription(min_chars=3)}


def test_exactly_the_settings_that_change_a_synopsis_change_the_id(chat):
    ids = [with_synopsis(**options).id for options in variants(chat)]
    assert len(set(ids)) == len(ids)
    assert ids == [with_synopsis(**options).id for options in variants(chat)]
    elsewhere = ChatClient("http://localhost:2/v1", "m", token_budget=3, max_tokens=9)
    assert ids == [with_synopsis(**options).id for options in variants(elsewhere)]


def test_ids_of_the_caller_take_precedence_over_those_of_a_function():
    class Old:
        synthesizer_id = "old"

        def __call__(self, artifact):
            return ""

    assert with_synopsis(WholeText(), synthesize=Old()).synthesizer_id == "old"
    assert with_synopsis(WholeText(), synthesize=Named()).synthesizer_id == "named"
    assert with_synopsis(WholeText(), synthesize=Named(), synthesizer_id="mine").synthesizer_id == "mine"
    assert with_synopsis(WholeText(), synthesize=str, synthesizer_id="s", when=Named()).when_id == "named"


@pytest.mark.slow
def test_an_id_is_the_same_in_another_process(chat):
    code = (
        "from airw.indexing import *\nfrom airw.chat import ChatClient\n"
        "synthesize = make_llm_synthesizer(model=ChatClient('http://localhost/v1', 'm'))\n"
        "print(with_synopsis(Package(), synthesize=synthesize, when=ThinDescription()).id)"
    )
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    synthesize = make_llm_synthesizer(model=chat)
    here = with_synopsis(Package(), synthesize=synthesize, when=ThinDescription())
    assert done.stdout.strip() == here.id


def test_a_function_without_a_stable_identity_is_refused_unless_it_is_named():
    lock = threading.Lock()

    def anonymous(text):
        return str(lock)

    with pytest.raises(ArgumentError, match="pass synthesizer_id=") as caught:
        with_synopsis(WholeText(), synthesize=anonymous)
    assert "\n" not in str(caught.value)
    assert with_synopsis(WholeText(), synthesize=anonymous, synthesizer_id="s").synthesizer_id == "s"
    with pytest.raises(ArgumentError, match="pass when_id="):
        with_synopsis(WholeText(), synthesize=plain, when=anonymous)
    summarize = make_llm_synthesizer(summarize=anonymous)
    with pytest.raises(ArgumentError, match="pass synthesizer_id="):
        with_synopsis(WholeText(), synthesize=summarize)


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": None},
        {"strategy": WholeText},
        {"strategy": Named()},
        {"strategy": type("Unnamed", (), {"decompose": plain})()},
        {"synthesize": "a text"},
        {"synthesizer_id": " "},
        {"synthesizer_id": 3},
        {"synopsis_kind": ""},
        {"when": "always"},
        {"when_id": "without a gate"},
        {"when": plain, "when_id": ""},
    ],
)
def test_unusable_options_are_refused_on_construction(options):
    with pytest.raises(ArgumentError):
        with_synopsis(**{"strategy": WholeText(), "synthesize": plain, **options})


@pytest.mark.parametrize(
    "options", [{"text_key": "a", "text_fields": ["a"]}, {"text_key": ""}, {"text_fields": "a"}, {"synthesizer_id": ""}]
)
def test_a_synthesizer_checks_its_options(options):
    with pytest.raises(ArgumentError):
        make_llm_synthesizer(summarize=plain, **options)


def test_it_is_a_frozen_value(chat):
    strategy = with_synopsis(WholeText(), synthesize=plain)
    assert strategy == with_synopsis(WholeText(), synthesize=plain)
    with pytest.raises(FrozenInstanceError):
        strategy.synopsis_kind = "x"


# --- builds ---------------------------------------------------------------------------------------------------------

DOCS = {f"n{at}": f"word{at} and more text" for at in range(20)}


def notes(docs, chat, strategy=None, **options):
    strategy = strategy or Chunked()
    strategy = with_synopsis(strategy, synthesize=make_llm_synthesizer(model=chat), **options)
    return from_mapping(docs, name="notes", strategy=strategy, embedder="light")


async def build_synopses(docs, chat, store, **options):
    """Build, and return the numbers of the report and the reasons of its problems."""
    report = (await build(notes(docs, chat, **options), store=store)).report
    return report.added, report.updated, report.unchanged, [problem.reason for problem in report.problems]


async def synopses(store):
    records = await ask(store, RecordsOf(sorted(await ask(store, ArtifactIds()))))
    return {group[0].artifact_id: group[0].text for group in records if group and group[0].surface_kind == "synopsis"}


EXPECTED = {name: f"About {text.split(maxsplit=1)[0]}" for name, text in DOCS.items()}


@pytest.mark.slow
async def test_a_build_sends_one_request_per_artifact_and_several_at_a_time(server, chat):
    server.always = later(0.01)
    store = MemoryStore()
    assert await build_synopses(DOCS, chat, store) == (20, 0, 0, [])
    assert await synopses(store) == EXPECTED
    assert len(server.requests) == 20
    assert 4 <= server.most_busy <= 8


@pytest.mark.slow
async def test_only_new_and_changed_artifacts_are_summarized_again(server, chat):
    store = MemoryStore()
    await build_synopses(DOCS, chat, store)
    assert await build_synopses(DOCS, chat, store) == (0, 0, 20, [])
    assert len(server.requests) == 20
    assert await build_synopses({**DOCS, "n3": "changed", "n20": "new"}, chat, store) == (1, 1, 19, [])
    assert len(server.requests) == 22
    assert await synopses(store) == EXPECTED | {"n3": "About changed", "n20": "About new"}


async def test_another_model_prompt_strategy_or_gate_renews_all_synopses(server, chat):
    store, docs = MemoryStore(), {"a": "alpha", "b": "beta"}
    await build_synopses(docs, chat, store)
    other = ChatClient(server.url, "m2")
    for turn, (model, options) in enumerate(
        [(other, {}), (chat, {"strategy": WholeText()}), (chat, {"synopsis_kind": "gist"}), (chat, {"when": plain})], 2
    ):
        assert await build_synopses(docs, model, store, **options) == (0, 2, 0, [])
        assert len(server.requests) == 2 * turn


async def test_a_synopsis_is_removed_if_the_gate_no_longer_admits_its_artifact(server, chat):
    store, docs = MemoryStore(), {"a": "short", "b": "long " * 20}
    await build_synopses(docs, chat, store)
    await build_synopses(docs, chat, store, when=ThinDescription())
    assert await synopses(store) == {"a": "About short"}
    assert len(server.requests) == 3


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_failed_synopses_are_reported_and_written_by_the_next_build(server, chat, tmp_path):
    async with SqliteStore(tmp_path / "notes.airw") as store:
        server.always = status(500, {"error": "out of memory"})
        added, _, _, problems = await build_synopses(DOCS, chat, store)
        assert (added, len(problems)) == (20, 20)
        assert problems[0] == f"no synopsis: the model 'm' at {server.url} answered 500: out of memory (1 attempts)"
        assert await synopses(store) == {}
        assert len(await ask(store, ArtifactIds())) == 20
        server.always = None
        assert await build_synopses(DOCS, chat, store) == (0, 20, 0, [])
        assert await synopses(store) == EXPECTED
        assert await build_synopses(DOCS, chat, store) == (0, 0, 20, [])
        assert len(server.requests) == 40


@pytest.mark.asyncio_only
async def test_a_registered_corpus_gets_its_synopses_from_the_model_of_the_environment(server, monkeypatch, tmp_path):
    monkeypatch.setenv("AIRW_CHAT", server.spec)
    for name in ("a", "b"):
        (tmp_path / f"{name}.md").write_text(f"{name}-word and more text")
    strategy = with_synopsis(WholeText())
    await register("memo", "files", root=tmp_path, embedder="light", strategy=strategy)
    for _ in range(2):
        assert (await maintain()).ok
        assert len(server.requests) == 2
    async with open_corpus("memo") as corpus:
        await corpus.upsert({"c.md": "c-word and more text"})
        assert await synopses(corpus.store) == {f"{name}.md": f"About {name}-word" for name in "abc"}
    monkeypatch.setenv("AIRW_CHAT", f"{server.spec}-2")
    async with open_corpus("memo") as corpus:
        with pytest.raises(ArgumentError, match="cannot be made from its settings"):
            await corpus.upsert({"d.md": "d-word and more text"})
    assert len(server.requests) == 3
    monkeypatch.delenv("AIRW_CHAT")
    [failed] = (await maintain()).failed
    assert failed.reason.startswith("no chat model is set")


@pytest.mark.slow
async def test_a_failed_synopsis_does_not_block_others(server, chat):
    store = MemoryStore()
    server.plan(status(404))
    *_, problems = await build_synopses(DOCS, chat, store)
    assert len(problems) == 1
    assert len(await synopses(store)) == 19
    assert await build_synopses(DOCS, chat, store) == (0, 1, 19, [])
    assert len(server.requests) == 21


@pytest.mark.slow
async def test_a_budget_spent_midway_is_reported_and_a_later_build_completes_the_rest(server):
    server.tokens = 90
    store = MemoryStore()
    small = ChatClient(server.url, "m", max_tokens=100, token_budget=1000)
    added, _, _, problems = await build_synopses(DOCS, small, store)
    written = len(await synopses(store))
    assert (added, written + len(problems), small.tokens_used) == (20, 20, 90 * written)
    assert 5 <= written < 12
    assert all("token_budget=1,000" in problem for problem in problems)
    assert len(server.requests) == written
    larger = ChatClient(server.url, "m", max_tokens=100)
    assert await build_synopses(DOCS, larger, store) == (0, 20 - written, written, [])
    assert await synopses(store) == EXPECTED
    assert len(server.requests) == 20


@pytest.mark.slow
async def test_cancelling_a_build_closes_its_connections_to_the_server(server, chat):
    server.always = later(600)
    store = MemoryStore()
    async with chat, anyio.create_task_group() as group:
        group.start_soon(build_synopses, DOCS, chat, store)
        for _ in range(8):
            assert await anyio.to_thread.run_sync(lambda: server.arrived.acquire(timeout=PATIENCE))
        group.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(server.hung_up.wait, PATIENCE)
    assert len(server.requests) == 8
    server.always = None
    assert await build_synopses(DOCS, chat, store) == (20, 0, 0, [])


async def test_a_walk_finds_chunks_by_the_synopsis_that_flat_search_ranks_low(server, chat):
    filler = {f"filler{at}": f"the key {at}" for at in range(6)}
    docs = {"deep": "alpha one\n\nbeta two\n\ngamma three", **filler}
    numbers = count()
    server.reply = lambda prompt: "key rotation" if "alpha" in prompt else f"other {next(numbers)}"
    source = notes(docs, chat, Chunked(chunk_size=12, overlap=0))
    async with build(source, store=MemoryStore()) as corpus:
        walk = traverse("key rotation", corpus, policy=CollapsedTree(seed_k=1))
        found = [(hit.artifact_id, hit.surface_kind, hit.text) async for hit in walk]
        flat = await corpus.search("key rotation", k=3, surfaces=["chunk"])
    assert sorted(found) == [("deep", "chunk", text) for text in ("alpha one", "beta two", "gamma three")]
    assert "deep" not in {hit.artifact_id for hit in flat}


async def test_a_synthesizer_raises_the_errors_of_its_model(server, chat):
    server.always = status(404)
    with pytest.raises(ChatError, match="404"):
        await make_llm_synthesizer(model=chat)(NOTE)

"""Formulators and selectors with a real chat server: prompts, answers and fallbacks."""

import re

import anyio
import pytest

from airw import Artifact, build, from_mapping, search
from airw.chat import ChatClient
from airw.discovery import make_llm_selector, select
from airw.errors import ArgumentError, ChatUnavailable
from airw.indexing import WholeText, make_llm_synthesizer, with_synopsis
from airw.retrieval import make_llm_formulator
from airw.stores import MemoryStore
from airw.values import SearchHit
from tests.support.chat_server import ChatServer, choice, message
from tests.support.embedding_server import alone, cut, half, later, status
from tests.support.waiting import PATIENCE, cancel_once

BRACES = "rotate {query} {n} {candidates} {0} {{keys}} %s"


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    alone(monkeypatch)


@pytest.fixture
def server():
    with ChatServer() as running:
        yield running


@pytest.fixture
def chat(server) -> ChatClient:
    return ChatClient(server.url, "m", timeout=30, retries=0)


HITS = [SearchHit(name, "document", score, f"text of {name}") for name, score in [("a", 1.0), ("b", 0.95), ("c", 0.1)]]


def names(hits):
    return [hit.artifact_id for hit in hits]


# --- prompts and answers --------------------------------------------------------------------------------------------


async def test_a_model_writes_n_queries_in_other_words(server, chat):
    server.reply = lambda prompt: "1. sign keys\n2. key rotation\n3. renew keys"
    formulate = make_llm_formulator(model=chat, n=2)
    assert await formulate(BRACES) == ("sign keys", "key rotation")
    (prompt,) = server.prompts
    assert f"Query: {BRACES}\n" in prompt
    assert "Write 2 other queries" in prompt


async def test_a_custom_prompt_is_sent_unchanged_except_for_its_placeholders(server, chat):
    await make_llm_formulator(model=chat, prompt='{"hyde": "{query}", "{x}": {}}')(BRACES)
    await make_llm_selector(BRACES, model=chat, prompt="{candidates} for {query} as {n}")(HITS[:1])
    assert server.prompts == [f'{{"hyde": "{BRACES}", "{{x}}": {{}}}}', f"a: text of a for {BRACES} as {{n}}"]


async def test_a_search_uses_the_words_of_the_model(server, chat):
    server.reply = lambda prompt: "sourdough"
    source = from_mapping({"keys": "rotate the signing keys", "bread": "sourdough loaf"}, name="notes")
    async with build(source, store=MemoryStore(), embedder="light") as corpus:
        hits = await search(corpus, "rotate", k=1, mode="lexical", formulate=make_llm_formulator(model=chat))
    assert names(hits) == ["bread"]


async def test_a_model_sees_the_candidates_and_its_choice_is_the_order(server, chat):
    server.reply = lambda prompt: "```\n1. c: text of c\n2. `a`\n```"
    assert names(await make_llm_selector(BRACES, model=chat)(HITS)) == ["c", "a"]
    (prompt,) = server.prompts
    assert f"\n{BRACES}\n" in prompt
    assert "\na: text of a\nb: text of b\nc: text of c\n" in prompt


@pytest.mark.parametrize("answer", ["none", "None of the candidates helps.", "- None", "[]"])
async def test_a_model_that_selects_no_candidate_abstains(server, chat, answer):
    """F30."""
    server.reply = lambda prompt: answer
    chosen = await make_llm_selector("q", model=chat, fallback=lambda hits: hits)(HITS)
    assert chosen == []
    assert select(HITS, strategy=lambda _: chosen).reason == "abstain:custom"


async def test_the_environment_names_the_model_for_all_three(server, monkeypatch):
    monkeypatch.setenv("AIRW_CHAT", server.spec)
    server.reply = lambda prompt: "b"
    assert await make_llm_formulator()("q") == ("b",)
    assert names(await make_llm_selector("q")(HITS)) == ["b"]
    plan = await with_synopsis(WholeText()).decompose(Artifact("x", "some text"))
    assert [surface.text for surface in plan.surfaces] == ["b", "some text"]


# --- the fallback ---------------------------------------------------------------------------------------------------

FAULTS = {
    "500": status(500),
    "refused": status(404),
    "key": status(401),
    "cut": cut,
    "half": half,
    "HTML": status(200, "<p>Welcome"),
    "no text": message(content=None),
    "cut off": choice(finish_reason="length"),
    "blank": message(content=" \n"),
    "fences": message(content="```\n```"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_the_fallback_answers_after_any_fault_of_a_model(server, chat, fault):
    server.always = fault
    assert await make_llm_formulator(model=chat)("keys") == "keys"
    assert await make_llm_formulator(model=chat, fallback=lambda query: [query, "more"])("keys") == ["keys", "more"]
    assert names(await make_llm_selector("keys", model=chat)(HITS)) == ["a", "b"]
    assert names(await make_llm_selector("keys", model=chat, fallback=lambda hits: hits[2:])(HITS)) == ["c"]
    assert len(server.requests) == 4


async def test_the_fallback_answers_if_the_server_is_silent(server):
    server.always = later(600)
    chat = ChatClient(server.url, "m", timeout=0.2, retries=0)
    assert await make_llm_formulator(model=chat)("keys") == "keys"
    assert names(await make_llm_selector("keys", model=chat)(HITS)) == ["a", "b"]


@pytest.mark.parametrize("answer", ["I would take the first one.", "z", "1"])
async def test_the_fallback_selects_if_the_model_returns_prose_instead_of_labels(server, chat, answer):
    server.reply = lambda prompt: answer
    assert names(await make_llm_selector("keys", model=chat)(HITS)) == ["a", "b"]


async def test_the_fallback_answers_if_the_server_is_down_or_the_budget_is_spent(server):
    with ChatServer() as gone:
        down = ChatClient(gone.url, "m", retries=0)
    for chat in (down, ChatClient(server.url, "m", token_budget=100)):
        assert await make_llm_formulator(model=chat)("keys") == "keys"
        assert names(await make_llm_selector("keys", model=chat)(HITS)) == ["a", "b"]
    assert server.requests == []


async def test_the_fallback_answers_if_the_key_is_not_set(server):
    chat = ChatClient(server.url, "m", api_key_env="MY_KEY")
    assert await make_llm_formulator(model=chat)("keys") == "keys"
    assert server.requests == []


@pytest.mark.parametrize(
    "seam",
    [
        lambda chat, fall: make_llm_formulator(model=chat, fallback=fall)("q"),
        lambda chat, fall: make_llm_selector("q", model=chat, fallback=fall)(HITS),
    ],
)
async def test_cancelling_does_not_call_the_fallback(server, seam):
    server.always = later(600)
    fallen = []
    await cancel_once(lambda: server.requests, seam, ChatClient(server.url, "m"), fallen.append)
    assert fallen == []
    assert await anyio.to_thread.run_sync(server.hung_up.wait, PATIENCE)


# --- construction ---------------------------------------------------------------------------------------------------

MAKERS = {
    "rewriter": make_llm_formulator,
    "chooser": lambda **options: make_llm_selector("q", **options),
    "summarize": make_llm_synthesizer,
}
each = pytest.mark.parametrize(("function", "make"), MAKERS.items(), ids=MAKERS)


@each
def test_neither_a_function_nor_a_model_is_an_error_at_once(function, make):
    """F29."""
    for options in ({}, {function: None}):
        with pytest.raises(ChatUnavailable, match="pass model=, or set the environment variable AIRW_CHAT") as caught:
            make(**options)
        assert "\n" not in str(caught.value)


@each
@pytest.mark.parametrize("also", [{"model": "http://localhost:8080/v1#m"}, {"prompt": "{query}{candidates}{text}"}])
def test_a_function_cannot_be_combined_with_a_model_or_a_prompt(function, make, also):
    with pytest.raises(ArgumentError, match=f"{function} cannot be combined with model or prompt"):
        make(**{function: str.upper}, **also)
    assert make(**{function: str.upper}) == make(**{function: str.upper})


@each
@pytest.mark.parametrize("prompt", ["", "nothing to fill in", "{ query } {QUERY} {candidate} {txt}", 3])
def test_a_prompt_without_its_placeholder_is_refused(function, make, prompt):
    wanted = {"rewriter": "query", "chooser": "query", "summarize": "text"}[function]
    with pytest.raises(ArgumentError, match=re.escape(f"prompt must contain {{{wanted}}}, not be")):
        make(prompt=prompt, model="http://localhost:8080/v1#m")


def test_the_prompt_of_a_selector_needs_both_placeholders():
    with pytest.raises(ArgumentError, match=r"prompt must contain \{candidates\}"):
        make_llm_selector("q", prompt="{query}", model="http://localhost:8080/v1#m")


@each
@pytest.mark.parametrize("options", [{"model": "gpt"}, {"model": 3}, {"model": ""}])
def test_a_value_that_names_no_model_is_refused(function, make, options):
    with pytest.raises(ArgumentError, match="a chat model"):
        make(**options)


@each
def test_construction_sends_nothing(server, function, make):
    make(model=server.spec)
    make(model=ChatClient(server.url, "m"))
    assert server.connections == 0

"""The chat client against a real local server, its token budget, and lists of models.

The behaviour of all clients is tested in tests/base/test_http_clients.py.
"""

import json
from functools import partial

import anyio
import anyio.to_thread
import httpx
import pytest
from hypothesis import given, strategies as st

from airw.chat import ChatClient, ChatModel, resolve_chat
from airw.chat.questions import ChatPrompt, fill_template, list_items, strip_bullet
from airw.errors import ArgumentError, ArgumentKindError, ChatBudgetSpent, ChatError, ChatUnavailable
from tests.support.chat_server import ChatServer, choice, message, usage
from tests.support.embedding_server import alone, alter, dripping, flooding, later, status
from tests.support.waiting import PATIENCE, cancel_once, skip_time

URL = "http://localhost:8080/v1"
SECRET = "sk-S3cret/4711"


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    alone(monkeypatch)


@pytest.fixture
def server():
    with ChatServer() as running:
        yield running


@pytest.fixture
def chat(server) -> ChatClient:
    return ChatClient(server.url, "m", timeout=30)


async def failure(awaitable, kind=ChatError) -> str:
    """Return the message of the error and check that it is one line."""
    with pytest.raises(kind) as caught:
        await awaitable
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return str(caught.value)


async def arrival(server, requests=1):
    """Wait until the server has received this number of further requests."""
    for _ in range(requests):
        assert await anyio.to_thread.run_sync(partial(server.arrived.acquire, timeout=PATIENCE))


async def complete_all(chat, prompts):
    """Send all prompts at once; return the answer or the type of error of each."""
    outcomes = {}

    async def ask(prompt):
        try:
            outcomes[prompt] = await chat.complete(prompt)
        except ChatError as error:
            outcomes[prompt] = type(error)

    async with anyio.create_task_group() as group:
        for prompt in prompts:
            group.start_soon(ask, prompt)
    return outcomes


# --- answers --------------------------------------------------------------------------------------------------------


async def test_a_prompt_is_a_new_conversation_with_all_settings_that_change_the_answer(server, chat):
    assert await chat.complete("Straße 東京 {x}") == "STRASSE 東京 {X}"
    (asked,) = server.requests
    assert asked.path == "/v1/chat/completions"
    assert asked.payload == {
        "model": "m",
        "messages": [{"role": "user", "content": "Straße 東京 {x}"}],
        "max_tokens": 512,
        "temperature": 0.0,
        "stream": False,
    }
    assert "Authorization" not in asked.headers


async def test_a_server_may_choose_the_temperature(server):
    await ChatClient(server.url, "m", temperature=None, max_tokens=7).complete("a")
    assert "temperature" not in server.requests[0].payload
    assert server.requests[0].payload["max_tokens"] == 7


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (" a\nb \n", "a\nb"),
        ("", ""),
        ("<think>perhaps\n\nor not</think>\n\nyes", "yes"),
        ("a <think>b</think>", "a <think>b</think>"),
        ("<think>without end", "<think>without end"),
    ],
)
async def test_an_answer_has_no_white_space_around_it_and_no_thoughts_before_it(server, chat, content, text):
    server.plan(message(content=content))
    assert await chat.complete("a") == text


UNUSABLE = {
    "cut off": (choice(finish_reason="length"), "was cut off in the middle of its answer; raise max_tokens"),
    "filtered": (choice(finish_reason="content_filter"), "content filter"),
    "refused": (message(content=None, refusal="I can't help\nwith that"), "refused to answer: .*can't help"),
    "a tool": (message(content=None, tool_calls=[{"id": "1"}]), "without text, but with tool calls"),
    "null": (message(content=None), "without text, but with the content None"),
    "parts": (message(content=[{"type": "text", "text": "a"}]), "without text, but with the content "),
    "half a character": (message(content="a\ud800"), "an unpaired surrogate"),
    "no message": (choice(message=None), "without a message"),
    "choice no object": (alter(lambda a: {"choices": ["a"]}), "without a message"),
    "no choices": (alter(lambda a: {"choices": []}), "without a message"),
    "choices no list": (alter(lambda a: {"choices": {"0": 1}}), "without a message"),
    "an error": (alter(lambda a: {"error": {"message": "model not\nloaded"}}), "without a message: model not loaded"),
    "a list": (alter(lambda a: [1]), "without a message"),
    "half of it": (alter(lambda a: '{"choices": ['), "half an answer, not JSON"),
    "HTML": (status(200, "<!doctype html>\n<p>Welcome"), "an HTML page, not JSON"),
    "missing": (status(404, {"error": "no such model"}), "answered 404: no such model; check the URL and the model"),
    "too long": (status(400, {"error": "maximum context length is 2048"}), "by itself .*maximum context length"),
}


@pytest.mark.parametrize(("fault", "why"), UNUSABLE.values(), ids=UNUSABLE)
async def test_an_incomplete_answer_is_an_error_with_the_reason_and_is_not_requested_again(server, chat, fault, why):
    server.plan(fault)
    with pytest.raises(ChatError, match=why) as caught:
        await chat.complete("a")
    assert f"the model 'm' at {server.url}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 1


async def test_a_server_that_is_down_is_an_error(server):
    with ChatServer() as gone:
        url = gone.url
    assert "is it running?" in await failure(ChatClient(url, "m", retries=0).complete("a"))


@pytest.mark.parametrize("prompt", [None, 3, b"a", ["a"]])
async def test_a_prompt_that_is_no_text_is_refused_before_anything_is_sent(server, chat, prompt):
    await failure(chat.complete(prompt), ArgumentKindError)
    assert server.requests == []
    assert chat.tokens_used == 0


async def test_several_requests_run_at_once_but_no_more_than_allowed(server):
    server.always = later(0.05)
    await complete_all(ChatClient(server.url, "m", max_concurrency=3), [f"p{at}" for at in range(9)])
    assert (len(server.requests), server.most_busy) == (9, 3)


async def test_the_limit_is_sent_to_openai_by_its_new_name():
    """Only OpenAI has that address, so a transport of this test answers the request."""
    told = []

    def answer(request):
        told.append(json.loads(request.content))
        return httpx.Response(200, json={"choices": [{"message": {"content": "yes"}}]})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        for url in ("https://api.openai.com/v1", "https://openai.example.com/v1"):
            await ChatClient(url, "m", max_tokens=7, client=client).complete("a")
    assert [(each.get("max_completion_tokens"), each.get("max_tokens")) for each in told] == [(7, None), (None, 7)]


# --- keys, connections, cancellation --------------------------------------------------------------------------------


async def test_another_variable_may_contain_the_key_and_must_then_be_set(server, monkeypatch):
    chat = ChatClient(server.url, "m", api_key_env="MY_SERVER_KEY", token_budget=1000)
    said = await failure(chat.complete("a"), ChatUnavailable)
    assert "set the environment variable MY_SERVER_KEY" in said
    assert chat.tokens_used == 0
    monkeypatch.setenv("MY_SERVER_KEY", SECRET)
    assert await chat.complete("a") == "A"


async def test_cancelling_closes_the_connection_to_the_server(server):
    server.always = later(600)
    chat = ChatClient(server.url, "m", token_budget=10_000)
    await cancel_once(lambda: server.requests, chat.complete, "abcd")
    assert await anyio.to_thread.run_sync(server.hung_up.wait, PATIENCE)
    assert chat.tokens_used == 513  # the server may have worked on it


# --- the budget -----------------------------------------------------------------------------------------------------


async def test_the_usage_reported_by_the_server_is_charged_or_else_the_estimate(server):
    chat = ChatClient(server.url, "m", max_tokens=100)
    server.plan(usage({"total_tokens": 31}), usage(None), usage({"total_tokens": "7"}), usage({"total_tokens": -7}))
    used = []
    for _ in range(4):
        await chat.complete("12345")
        used.append(chat.tokens_used)
    assert used == [31, 31 + 102, 31 + 204, 31 + 306]


async def test_an_answer_that_cannot_be_used_is_also_charged(server):
    for fault, used in [(choice(finish_reason="length"), 10), (status(200, "<p>Hello"), 101)]:
        chat = ChatClient(server.url, "m", max_tokens=100)
        server.plan(fault)
        await failure(chat.complete("1234"))
        assert chat.tokens_used == used


async def test_an_answer_that_does_not_come_in_time_is_also_charged(server):
    chat = ChatClient(server.url, "m", max_tokens=100, retries=0, timeout=600)
    server.plan(dripping(0.02))
    async with anyio.create_task_group() as group:
        group.start_soon(failure, chat.complete("1234"))
        await arrival(server)
        skip_time(2_000)
    assert chat.tokens_used == 101


async def test_an_answer_that_is_too_large_or_compressed_is_also_charged(server, monkeypatch):
    monkeypatch.setattr("airw._base.http.calls.LARGEST_ITEM", 1_000)
    for fault in (flooding, status(200, "x", Content_Encoding="gzip")):
        chat = ChatClient(server.url, "m", max_tokens=100)
        server.plan(fault)
        await failure(chat.complete("1234"))
        assert chat.tokens_used == 101


async def test_a_request_that_was_refused_or_never_arrived_costs_nothing(server):
    with ChatServer() as gone:
        url = gone.url
    chats = [ChatClient(at, "m", retries=0, token_budget=600) for at in (url, server.url)]
    server.plan(status(500), status(404), status(429))
    for chat in [chats[0], *[chats[1]] * 3]:
        await failure(chat.complete("a"))
        assert chat.tokens_used == 0
    assert await chats[1].complete("a") == "A"


async def test_a_request_that_does_not_fit_is_not_sent(server):
    chat = ChatClient(server.url, "m", max_tokens=100, token_budget=115)
    for text in "ab":
        await chat.complete(text)
    said = await failure(chat.complete("b" * 100), ChatBudgetSpent)
    assert "token_budget=115 has 95 tokens left, but a request to the model 'm' at " in said
    assert len(server.requests) == 2 == chat.tokens_used / 10
    assert issubclass(ChatBudgetSpent, ChatError)


async def test_requests_at_the_same_time_cannot_overspend(server):
    server.tokens = 90
    server.always = later(0.05)
    chat = ChatClient(server.url, "m", max_tokens=99, token_budget=500)
    outcomes = await complete_all(chat, [f"p{at:02}" for at in range(30)])
    assert chat.tokens_used == 450
    assert len(server.requests) == 5
    assert sum(outcome is ChatBudgetSpent for outcome in outcomes.values()) == 25


async def test_a_request_waits_if_running_ones_may_leave_enough_budget_for_it(server):
    """Requests that fit one after another also fit at once.

    Estimates are high: without waiting, most of a budget would stay unused.
    """
    server.always = later(0.05)
    chat = ChatClient(server.url, "m", max_tokens=99, token_budget=250)
    outcomes = await complete_all(chat, [f"p{at:02}" for at in range(12)])
    assert ChatBudgetSpent not in outcomes.values()
    assert chat.tokens_used == 120
    assert server.most_busy == 2


async def test_one_budget_applies_to_all_event_loops(server):
    chat = ChatClient(server.url, "m", max_tokens=99, token_budget=125)
    for backend in ("asyncio", "trio"):
        await anyio.to_thread.run_sync(lambda on=backend: anyio.run(chat.complete, "abcd", backend=on))
    assert chat.tokens_used == 20
    await chat.complete("abcd")
    await failure(chat.complete("abcd"), ChatBudgetSpent)


async def test_without_a_budget_tokens_are_only_counted(server, chat):
    server.tokens = 10**9
    for _ in range(2):
        await chat.complete("a")
    assert chat.tokens_used == 2 * 10**9


# --- ids and specifications -----------------------------------------------------------------------------------------


def test_its_id_contains_the_model_and_settings_that_change_answers_but_not_the_server():
    assert ChatClient(URL, "org/m").id == ChatClient("https://other.org", "org/m", max_tokens=9).id
    ids = {ChatClient(URL, "m", temperature=heat).id for heat in (None, 0, 0.0, 1, 0.25)}
    assert ids == {"api:m", "api:m temperature=0.0", "api:m temperature=1.0", "api:m temperature=0.25"}
    assert ChatClient(URL, "n").id != ChatClient(URL, "m").id


def test_a_client_equals_only_itself_because_its_budget_is_its_own():
    clients = [ChatClient(URL, "m") for _ in range(2)]
    assert len({*clients, *clients}) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"model": ""},
        {"model": 3},
        {"temperature": -1},
        {"temperature": "0"},
        {"temperature": float("nan")},
        {"max_tokens": 0},
        {"token_budget": -1},
        {"token_budget": True},
        {"max_concurrency": 0},
        {"timeout": 0},
        {"retries": -1},
        {"api_key_env": "sk-not-a-name"},
        {"client": object()},
        {"url": "http://me:S3cret@host/v1"},
        {"url": "http://host/v1/chat/completions"},
    ],
)
def test_unusable_options_are_refused_on_construction(options):
    with pytest.raises(ArgumentError, match=next(iter(options))) as caught:
        ChatClient(**{"url": URL, "model": "m", **options})
    assert "sk-not" not in str(caught.value)
    assert "S3cret" not in str(caught.value)


class Parrot:
    """A chat model of a third party."""

    id = "parrot"

    async def complete(self, prompt):
        return prompt


def test_a_chat_model_is_a_url_with_a_model_or_an_object():
    chat = resolve_chat(f"{URL}/#m")
    assert (repr(chat), isinstance(chat, ChatModel)) == (f"ChatClient({URL!r}, 'm')", True)
    parrot = Parrot()
    assert resolve_chat(parrot) is parrot


def test_without_a_name_it_is_the_model_of_the_environment_or_an_error_with_the_fix(monkeypatch):
    for unset in (None, " "):
        if unset:
            monkeypatch.setenv("AIRW_CHAT", unset)
        with pytest.raises(ChatUnavailable, match=r"pass model=, or set the environment variable AIRW_CHAT.*#model"):
            resolve_chat(None)
    monkeypatch.setenv("AIRW_CHAT", f" {URL}#m ")
    assert repr(resolve_chat(None)) == f"ChatClient({URL!r}, 'm')"
    monkeypatch.setenv("AIRW_CHAT", "gpt")
    with pytest.raises(ArgumentError, match="the environment variable AIRW_CHAT must be the URL"):
        resolve_chat(None)


@pytest.mark.parametrize("spec", ["", "gpt", URL, f"{URL}# ", "http://me:S3cret@host/v1#m", 3, Parrot, object()])
def test_a_value_that_names_no_chat_model_is_refused(spec):
    with pytest.raises(ArgumentError) as caught:
        resolve_chat(spec)
    assert "\n" not in str(caught.value)
    assert "S3cret" not in str(caught.value)


# --- prompts and lists ----------------------------------------------------------------------------------------------


@given(st.text(), st.text())
def test_braces_in_values_stay_as_they_are(query, text):
    assert fill_template("{query}{{query}}{other}{text}", {"query": query, "text": text}) == (
        f"{query}{{{query}}}{{other}}{text}"
    )


async def test_the_id_of_a_question_contains_its_model_and_its_prompt():
    one = ChatPrompt(Parrot(), "{a}!")
    assert await one(a="{a}") == "{a}!"
    assert one.id == ChatPrompt(Parrot(), "{a}!").id != ChatPrompt(Parrot(), "{a}?").id
    assert one.id.startswith("parrot ")


async def test_a_synchronous_model_works_and_one_that_returns_no_text_is_an_error():
    class Blocking:
        id = "blocking"

        def complete(self, prompt):
            return prompt.upper() if prompt == "a" else None

    assert await ChatPrompt(Blocking(), "{x}")(x="a") == "A"
    with pytest.raises(ArgumentError, match=r"complete\(\) of a chat model returned None"):
        await ChatPrompt(Blocking(), "{x}")(x="b")


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ("a\n\n b \n", ["a", "b"]),
        ("```\na\nb\n```", ["a", "b"]),
        ('```json\n[\n "a", "b c"\n]\n```', ["a", "b c"]),
        ("Sure, here they are:\na\nb:", ["a", "b:"]),
        ("a:", ["a:"]),
        ('["a", 3]', ['["a", 3]']),
        ("[a] in brackets", ["[a] in brackets"]),
        ("[" * 5000, ["[" * 5000]),
        ("", []),
    ],
)
def test_a_list_is_read_despite_text_around_it(answer, lines):
    assert list_items(answer) == lines


@pytest.mark.parametrize(
    ("line", "item"),
    [
        ("1. a", "a"),
        ("12) a b", "a b"),
        ("(3) a", "a"),
        ("- a", "a"),
        ("• “a b”", "a b"),
        ("* **a**", "a"),
        ('"a"', "a"),
        ("`a` and `b`", "`a` and `b`"),
        ("3.5 mm", "3.5 mm"),
        ("2024 report", "2024 report"),
        ("-flag", "-flag"),
        ("it's", "it's"),
        ('"', '"'),
        ("", ""),
    ],
)
def test_an_item_has_no_number_bullet_or_quotes(line, item):
    assert strip_bullet(line) == item


@given(st.text())
def test_any_text_is_read_as_a_list(answer):
    for line in list_items(answer):
        assert line.strip()
        assert strip_bullet(line) in line

"""Faults of `ir` 0.1.61 in calls of language models, which airw lacks.

The docstring of a test begins with the number of the fault.
"""

import socket
from contextlib import closing

import pytest

import airw
from airw._base.http import calls
from airw.errors import ChatUnavailable
from airw.indexing import WholeText
from airw.values import SearchHit
from tests.support.small_corpora import in_memory


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

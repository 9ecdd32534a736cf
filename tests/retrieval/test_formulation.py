"""Formulators of queries: the one that calls a rewriter, and its fallback."""

import threading

import anyio
import pytest

from airw.errors import ArgumentError, ArgumentKindError
from airw.retrieval import make_llm_formulator
from airw.retrieval.formulation import queries_in, queries_of


def test_queries_keep_their_order_without_duplicates_and_blank_ones():
    assert queries_of("keys") == ("keys",)
    assert queries_of(["b", "a", " ", "b", "", "c", "a "]) == ("b", "a", "c", "a ")
    assert queries_of(()) == queries_of(" ") == queries_of("") == ()


@pytest.mark.parametrize("given", [None, 7, {"a"}, {"a": 1}, iter(["a"]), ["a", 7], b"a"])
def test_only_a_string_or_a_list_of_strings_is_accepted(given):
    with pytest.raises(ArgumentKindError, match="a string or a list of strings"):
        queries_of(given)


@pytest.mark.parametrize("answer", ["sign keys", ["sign keys", "key rotation"]])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_rewriter_returns_the_queries_and_does_not_block_the_event_loop(kind, answer):
    threads = []

    def rewrite(query):
        threads.append(threading.get_ident())
        return answer

    async def rewrite_async(query):
        await anyio.lowlevel.checkpoint()
        return answer

    formulate = make_llm_formulator(rewriter=rewrite if kind == "sync" else rewrite_async)
    assert await formulate("keys") == queries_of(answer)
    assert threading.get_ident() not in threads


async def test_at_most_n_queries_are_used():
    formulate = make_llm_formulator(rewriter=lambda query: [" ", *"aabcdef"], n=2)
    assert await formulate("keys") == ("a", "b")
    assert await make_llm_formulator(rewriter=lambda query: "abcdef")("keys") == ("abcdef",)
    assert await make_llm_formulator(rewriter=lambda query: [*"abcdef"])("keys") == ("a", "b", "c")


def broken(query):
    raise OSError("connection lost")


async def broken_later(query):
    await anyio.lowlevel.checkpoint()
    broken(query)


@pytest.mark.parametrize(
    "rewriter",
    [broken, broken_later, lambda _: [], lambda _: " ", lambda _: None, lambda _: [1, 2], lambda _: ["\ud800"]],
)
async def test_if_a_rewriter_fails_or_returns_nothing_the_fallback_is_used(rewriter):
    assert await make_llm_formulator(rewriter=rewriter)("keys") == "keys"

    async def fallback(query):
        return [query, f"{query}!"]

    assert await make_llm_formulator(rewriter=rewriter, fallback=fallback)("keys") == ["keys", "keys!"]
    with pytest.raises(OSError, match="connection lost"):
        await make_llm_formulator(rewriter=rewriter, fallback=broken)("keys")


async def test_if_a_rewriter_is_cancelled_the_fallback_is_not_used():
    fallen = []

    async def sleep(query):
        await anyio.sleep_forever()

    with anyio.move_on_after(0.02) as scope:
        await make_llm_formulator(rewriter=sleep, fallback=fallen.append)("keys")
    assert scope.cancelled_caught
    assert fallen == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rewriter": "gpt"}, "rewriter must be a function"),
        ({"fallback": "identity"}, "fallback must be a function"),
        ({"n": 0}, "n must be a whole number of at least 1"),
        ({"n": True}, "n must be"),
    ],
)
def test_invalid_arguments_are_refused_when_a_formulator_is_created(options, message):
    with pytest.raises(ArgumentError, match=message):
        make_llm_formulator(**{"rewriter": str.upper, **options})


def test_formulators_compare_by_value_and_have_a_readable_repr():
    formulate = make_llm_formulator(rewriter=str.upper, n=2)
    assert formulate == make_llm_formulator(rewriter=str.upper, n=2) != make_llm_formulator(rewriter=str.upper)
    assert repr(formulate).startswith(f"LlmFormulator(rewriter={str.upper!r}, n=2, fallback=<func")


@pytest.mark.parametrize(
    ("answer", "queries"),
    [
        ("sign keys\nkey rotation", ["sign keys", "key rotation"]),
        ("Here are 2 queries:\n\n1. sign keys\n2) `key rotation`", ["sign keys", "key rotation"]),
        ('```json\n["sign keys", "key rotation"]\n```', ["sign keys", "key rotation"]),
        ("- “sign keys”\n- 3.5 mm jack", ["sign keys", "3.5 mm jack"]),
        (" \n", []),
    ],
)
def test_the_answer_of_a_model_is_read_as_a_list_of_queries(answer, queries):
    assert queries_in(answer) == queries

"""Cases written by a model: names are hidden, failures are reported."""

import pytest

from airw.errors import ArgumentError, ChatUnavailable
from airw.evaluation import (
    contains_name,
    generate_abstention_cases,
    generate_case_set,
    generate_cases,
    make_query_writer,
    mask_name,
    sign_corpus,
)
from airw.sources import from_mapping
from tests.support.chat_server import ChatServer

SOURCE = from_mapping(
    {
        "keys.md": {"name": "key-vault", "description": "The key vault rotates the signing keys."},
        "short.md": "Too short.",
        "bread.md": "Bake the bread for an hour in the oven.",
    },
    name="notes",
)


class TestAMaskedName:
    @pytest.mark.parametrize("text", ["key-vault", "KEY VAULT", "key_vault", "keyvault", "key  vault"])
    def test_is_found_in_any_spelling(self, text):
        assert mask_name(f"the {text}, now", "key-vault") == "the this capability, now"
        assert contains_name(f"the {text}, now", "key-vault")

    def test_is_a_whole_word_and_never_one_letter(self):
        assert mask_name("specific", "ci") == "specific"
        assert mask_name("a b c", "a-") == "a b c"
        assert not contains_name("a b", "a")

    def test_is_replaced_by_other_words_if_the_placeholder_contains_it(self):
        assert mask_name("a capability", "capability") == "a the tool"

    def test_leaks_if_all_its_words_are_used(self):
        assert contains_name("the vault of a key", "key-vault")
        assert not contains_name("the vault", "key-vault")

    def test_may_contain_anything(self):
        assert mask_name("use c++ (new)", "c++ (new)") == "use this capability"
        assert contains_name("use c++ now", "c++")
        assert mask_name(r"a \1 b", "b2") == r"a \1 b"


class TestGeneration:
    async def test_asks_for_each_artifact_and_reports_the_rest(self):
        async def write(description, n):
            if "bread" in description:
                raise RuntimeError("no idea")
            return [f"{n} {description}", "the vault of my key", " "]

        found = await generate_cases(SOURCE, k=2, writer=write, corpus_name="notes")
        assert [case.query for case in found.cases] == ["2 The this capability rotates the signing keys."]
        assert (found.cases[0].gold, found.cases[0].corpus) == (("keys.md",), "notes")
        assert (found.short, found.dropped) == (("short.md",), 1)
        assert "no idea" in found.failed["bread.md"]

    async def test_adds_a_share_of_queries_without_an_answer(self):
        def invent(n, theme):
            return [f"{theme} {number}" for number in range(n)]

        for share, count in ((0, 0), (0.5, 2), (0.2, 1)):
            found = await generate_case_set(
                SOURCE,
                writer=lambda _, n: ["how?"],
                abstention_writer=invent,
                abstention_share=share,
            )
            assert sum(case.gold_is_none for case in found.cases) == count
        with pytest.raises(ArgumentError, match="abstention_share must be below 1"):
            await generate_case_set(SOURCE, abstention_share=1.0)

    async def test_keeps_its_cases_if_no_query_without_an_answer_can_be_written(self):
        def refuse(n, theme):
            raise RuntimeError("no idea")

        found = await generate_case_set(SOURCE, writer=lambda _, n: ["how?"], abstention_writer=refuse)
        assert [case.query for case in found.cases] == ["how?", "how?"]
        assert found.abstention_error == "RuntimeError: no idea"
        with pytest.raises(ChatUnavailable):  # before the first query is written
            await generate_case_set(SOURCE, writer=lambda _, n: pytest.fail("asked"))

    async def test_asks_a_chat_model(self):
        def reply(prompt):
            assert "Vault" not in prompt
            return "Here they are:\n1. how do I rotate keys?\n- who signs?" if "hidden" in prompt else "weather"

        with ChatServer(reply) as server:
            found = await generate_case_set(SOURCE, k=2, model=server.spec, max_artifacts=2)
        assert [case.query for case in found.cases] == ["how do I rotate keys?", "who signs?"] * 2 + ["weather"]
        assert found.failed == {}

    async def test_needs_a_writer_or_a_model(self):
        with pytest.raises(ChatUnavailable):
            await generate_cases(SOURCE)
        with pytest.raises(ArgumentError, match="cannot be combined"):
            await generate_cases(SOURCE, writer=lambda _, n: [], model="http://localhost:1/v1#m")
        with pytest.raises(ArgumentError, match=r"must contain \{n\}"):
            make_query_writer(prompt="{description}", model="http://localhost:1/v1#m")
        assert await generate_abstention_cases(0) == []


def test_a_signature_does_not_depend_on_the_order():
    assert sign_corpus(["b", "a"]) == sign_corpus(["a", "b"]) != sign_corpus(["a"])

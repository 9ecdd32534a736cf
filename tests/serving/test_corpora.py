"""`GET /corpora`, and which corpora a caller sees."""

from contextlib import AsyncExitStack

import pytest

from airw.errors import ArgumentError
from airw.protocols import CAPABILITIES
from airw.serving import Token, app
from tests.support.served import client, notes, serve_notes

ADA = Token(value="correct-horse-battery", read=["notes"], label="ada")
BOB = Token(value="wrong-horse-staple-16", read=["*"], write=["drafts"], label="bob")


def bearer(token):
    return {"Authorization": f"Bearer {token.value}"}


async def test_the_catalogue_says_what_is_served_and_what_can_be_asked():
    async with serve_notes() as asking:
        answer = (await asking.get("/corpora")).json()
    [corpus] = answer["corpora"]
    assert (answer["api"], corpus["name"], corpus["dim"], corpus["writable"]) == ([1], "notes", 512, False)
    assert corpus["embedder_id"] == "hashing-v2-512"
    assert corpus["counts"]["artifacts"] == 3
    assert {*corpus["capabilities"]} == CAPABILITIES - {"writing"}
    assert answer["limits"]["max_k"] == 1_000


async def test_a_caller_sees_its_own_corpora_only_and_no_name_of_another():
    async with AsyncExitStack() as stack:
        corpora = [await stack.enter_async_context(notes(name=name)) for name in ("notes", "drafts")]
        async with client(app(corpora, tokens=[ADA, BOB])) as asking:
            seen = {
                token.label: [
                    each["name"] for each in (await asking.get("/corpora", headers=bearer(token))).json()["corpora"]
                ]
                for token in (ADA, BOB)
            }
            assert seen == {"ada": ["notes"], "bob": ["notes", "drafts"]}
            for name in ("drafts", "draft", "notez"):
                answer = await asking.post("/search", json={"corpus": name, "query": "keys"}, headers=bearer(ADA))
                assert answer.status_code == 404
                assert answer.json()["detail"] == f"there is no corpus {name!r} here; known: notes"


async def test_each_member_of_a_federation_is_checked_before_any_is_opened(tmp_path):
    async with notes() as one:
        absent = tmp_path / "secret.airw"  # opening it would fail
        async with client(app({"notes": one, "secret": absent}, tokens=[ADA])) as asking:
            body = {"corpora": ["notes", "secret"], "query": "keys"}
            answer = await asking.post("/discover", json=body, headers=bearer(ADA))
            assert answer.status_code == 404
            assert answer.json()["detail"] == "there is no corpus 'secret' here; known: notes"


async def test_a_corpus_that_is_gone_names_no_folder_and_no_neighbour(tmp_path):
    async with client(app({"gone": tmp_path / "gone.airw"})) as asking:
        answer = await asking.post("/search", json={"corpus": "gone", "query": "keys"})
        assert answer.status_code == 404
        assert str(tmp_path) not in answer.text
        listed = await asking.get("/corpora")
        assert listed.json()["corpora"][0]["error"] == "CorpusNotFound"


@pytest.mark.parametrize("corpora", [[], {}, "notes", {"a/b": "notes"}, ["notes", "Notes"], [1]])
def test_corpora_that_cannot_be_served_are_refused_at_once(corpora):
    with pytest.raises(ArgumentError):
        app(corpora)

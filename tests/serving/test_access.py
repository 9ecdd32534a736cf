"""Tokens and rights: who may read and change which corpus, by each request there is."""

import hmac
from contextlib import nullcontext, suppress

import pytest
from hypothesis import given, strategies as st

from airw.errors import ArgumentError, CorpusNotFound
from airw.serving import Token, app
from airw.serving.access import Access
from airw.serving.problems import AccessDenied
from tests.support.served import client, notes

ADA = Token(value="correct-horse-battery", label="ada", read=["notes"])
BOB = Token(value="staple-of-the-battery", label="bob", read=["notes"], write=["drafts"])
EVE = Token(value="nothing-may-be-read-by", label="eve", read=[])

# One request of each kind; "?" stands for the corpus.
REQUESTS = [
    ("POST", "/search", {"corpus": "?", "query": "keys"}),
    ("POST", "/discover", {"corpora": ["notes", "?"], "query": "keys"}),
    ("POST", "/traverse", {"corpus": "?", "query": "keys"}),
    ("POST", "/traverse", {"corpora": ["notes", "?"], "query": "keys"}),
    ("GET", "/traverse", {"corpus": "?", "query": "keys"}),
    ("GET", "/artifact", {"corpus": "?", "id": "keys.md"}),
    ("PUT", "/artifact", {"corpus": "?", "id": "keys.md", "value": "text"}),
    ("DELETE", "/artifact", {"corpus": "?", "id": "keys.md"}),
    ("GET", "/tree", {"corpus": "?", "roots": "keys.md"}),
    ("GET", "/path", {"corpus": "?", "start": "keys.md", "end": "rotation.md"}),
    ("POST", "/store/describe", {"corpus": "?"}),
    ("POST", "/store/read", {"corpus": "?", "requests": [{"ask": "ArtifactIds"}]}),
    ("POST", "/embed", {"corpus": "?", "texts": ["keys"]}),
]
each_request = pytest.mark.parametrize(
    ("method", "path", "body"), REQUESTS, ids=[f"{method} {path} {len(body)}" for method, path, body in REQUESTS]
)
pytestmark = pytest.mark.asyncio_only  # rights are decided without waiting


@pytest.fixture(scope="module")
async def corpus(anyio_backend):
    async with notes() as opened:
        yield opened


@pytest.fixture
def application(corpus, tmp_path):
    """A server of notes, and of two files that are no corpora: to open them fails."""
    files = {name: tmp_path / f"{name}.airw" for name in ("drafts", "secret")}
    for file in files.values():
        file.write_bytes(b"no corpus " * 1000)
    return app({"notes": corpus, **files}, tokens=[ADA, BOB, EVE])


def fill(value, name):
    """Return a body with the name of a corpus in it."""
    if isinstance(value, dict):
        return {key: fill(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [fill(each, name) for each in value]
    return name if value == "?" else value


async def ask(application, token, request, name):
    method, path, body = request
    headers = {} if token is None else {"Authorization": f"Bearer {token.value}"}
    filled = fill(body, name)
    sent = {"params": filled} if method in ("GET", "DELETE") else {"json": filled}
    async with client(application) as asking:
        return await asking.request(method, path, headers=headers, **sent)


@each_request
async def test_a_corpus_that_a_token_may_not_read_does_not_exist(application, method, path, body):
    """The answer is that for a name that is not served, and the corpus is not even opened."""
    answer = await ask(application, ADA, (method, path, body), "secret")
    absent = await ask(application, ADA, (method, path, body), "absent")
    assert (answer.status_code, answer.json()["error"]) == (404, "CorpusNotFound")
    assert answer.text.replace("secret", "?") == absent.text.replace("absent", "?")
    assert "drafts" not in answer.text


@each_request
async def test_each_request_needs_a_token(application, method, path, body):
    for token in (None, Token(value="guessed-by-a-stranger")):
        answer = await ask(application, token, (method, path, body), "notes")
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_token_that_may_read_may_not_write(application, method):
    body = {"corpus": "?", "id": "keys.md"} | ({"value": "text"} if method == "PUT" else {})
    assert (await ask(application, BOB, (method, "/artifact", body), "notes")).status_code == 403
    # It may write the other corpus, which cannot be opened.
    assert (await ask(application, BOB, (method, "/artifact", body), "drafts")).status_code == 503


async def test_the_list_of_corpora_has_those_that_a_token_may_read(application):
    names = {}
    for token in (ADA, BOB, EVE):
        answer = await ask(application, token, ("GET", "/corpora", {}), "")
        names[token.label] = [each["name"] for each in answer.json()["corpora"]]
    assert names == {"ada": ["notes"], "bob": ["notes", "drafts"], "eve": []}


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        ADA.value,
        f"Basic {ADA.value}",
        f"Bearer {ADA.value}x",
        f"Bearer {ADA.value[:-1]}",
        f"Bearer {ADA.value.upper()}",
        f"Bearer {ADA.value} {BOB.value}",
        "Bearer \ud800",
    ],
)
def test_what_is_no_token_is_refused_without_repeating_it(header):
    with pytest.raises(AccessDenied) as caught:
        Access(["notes", "drafts"], [ADA, BOB]).identify(header)
    assert caught.value.status == 401
    assert "battery" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_of_a_token_may_be_written_in_any_case(scheme):
    assert Access(["notes"], [ADA]).identify(f"{scheme} {ADA.value}").label == "ada"


def test_each_token_is_compared_whichever_is_sent(monkeypatch):
    """The time tells neither which token is right nor how much of it."""
    compared = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or compare(a, b))
    access = Access(["notes"], [ADA, Token(value="x" * 500), EVE])
    for value in (ADA.value, EVE.value, "x", "y" * 10_000):
        compared.clear()
        with suppress(AccessDenied):
            access.identify(f"Bearer {value}")
        assert compared == [(32, 32)] * 3


@given(
    st.lists(st.sampled_from(["a", "b", "*"]), max_size=2),
    st.lists(st.sampled_from(["a", "b", "*"]), max_size=2),
    st.sampled_from("abc"),
)
def test_a_right_is_what_the_token_says(read, write, name):
    """To write includes to read, and no token reaches what is not served."""
    token = Token(value=ADA.value, read=read, write=write)
    caller = Access(["a", "b"], [token]).identify(f"Bearer {ADA.value}")
    may_write = name != "c" and bool({name, "*"} & {*write})
    may_read = may_write or (name != "c" and bool({name, "*"} & {*read}))
    with nullcontext() if may_read else pytest.raises(CorpusNotFound):
        caller.require_read([name])
    with nullcontext() if may_write else pytest.raises(AccessDenied if may_read else CorpusNotFound):
        caller.require_write(name)


@pytest.mark.parametrize(
    "options",
    [
        {"value": "short"},
        {"value": "with a space in the middle"},
        {"value": "tab\tin-the-middle-of-it"},
        {"value": "é" * 20},
        {"value": ADA.value, "read": "notes"},
        {"value": ADA.value, "write": [1]},
        {"value": ADA.value, "label": None},
    ],
)
def test_tokens_that_cannot_be_used_are_refused_without_their_value(options):
    with pytest.raises(ArgumentError) as caught:
        Token(**options)
    assert options["value"] not in str(caught.value)


def test_rights_on_a_corpus_that_is_not_served_are_refused():
    with pytest.raises(ArgumentError, match="there is no corpus 'drafts' to give rights to; served: notes"):
        Access(["notes"], [BOB])


def test_two_tokens_with_one_value_are_refused():
    with pytest.raises(ArgumentError, match="two tokens have the same value"):
        Access(["notes"], [ADA, Token(value=ADA.value)])


def test_a_token_is_not_in_its_repr():
    assert "battery" not in f"{ADA!r} {ADA} {[ADA]}"

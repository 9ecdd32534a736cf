"""A caller without rights learns nothing, and hostile texts stay texts in every answer."""

import json
import re

import anyio
import httpx
import pytest

from airw import build, from_mapping
from airw.serving import Token, app
from tests.support.event_streams import parse_events
from tests.support.malformed import ENDPOINTS, encode, query_of
from tests.support.served_corpora import make_corpus
from tests.support.serving import exchange, request_bytes, serve

ADA, EVE = "a-token-of-ada-0123456789", "e-token-of-eve-0123456789"
SECRET = "midnight-ledger"  # the name of a corpus that Eve must not learn
HOSTILE = (
    "keys\n\nevent: summary\nid: end\ndata: {}\n\n<script>alert(1)</script><img src=x onerror=alert(2)>"
    "\u2028\u2029\x1b[2J\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\x00\u202e</textarea>"
)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Two corpora: one that Eve may read, and a file that nobody has opened yet."""
    path = tmp_path_factory.mktemp("isolation") / f"{SECRET}.airw"

    async def make():
        texts = {f"hidden{at}": "the vault opens at midnight" for at in range(37)}
        async with build(from_mapping(texts, name=SECRET, embedder="light"), store=path):
            pass

    anyio.run(make)
    return {"notes": make_corpus({"a": "signing keys [[b]]", "b": "cake"}), SECRET: path}


@pytest.fixture(scope="module")
def server(corpora):
    tokens = [Token(value=ADA, read=["*"], write=["*"], label="ada"), Token(value=EVE, read=["notes"], label="eve")]
    with serve(app(corpora, tokens=tokens)) as running:
        yield running
    assert running.tasks_left == []


def ask(server, method, path, fields, *, token=EVE, **headers):
    """Return the raw answer to a request with these fields, as one string too."""
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    if method in ("GET", "DELETE"):
        request = request_bytes(method, f"{path}?{query_of(fields)}" if fields else path, **headers)
    else:
        request = request_bytes(method, path, encode(fields), **headers)
    answer = exchange(server.port, request)
    return answer, repr(answer)


def in_another_corpus(fields, name):
    return {key: name if key == "corpus" else [name] if key == "corpora" else value for key, value in fields.items()}


CORPUS_ENDPOINTS = [each for each in ENDPOINTS if {"corpus", "corpora"} & each[2].keys()]


@pytest.mark.parametrize(("method", "path", "fields"), CORPUS_ENDPOINTS, ids=lambda value: str(value)[:20])
def test_a_corpus_without_right_is_answered_as_one_that_does_not_exist(server, method, path, fields):
    hidden, text = ask(server, method, path, in_another_corpus(fields, SECRET))
    absent, _ = ask(server, method, path, in_another_corpus(fields, "midnight-nothing"))
    assert hidden.status == absent.status == 404
    assert hidden.body.replace(SECRET.encode(), b"") == absent.body.replace(b"midnight-nothing", b"")
    assert "vault" not in text
    assert "hidden" not in text


@pytest.mark.parametrize("path", ["/discover", "/traverse"])
def test_a_federation_with_one_corpus_without_right_is_refused_as_a_whole(server, path):
    answer, text = ask(server, "POST", path, {"corpora": ["notes", SECRET], "query": "vault"})
    absent, _ = ask(server, "POST", path, {"corpora": ["notes", "midnight-nothing"], "query": "vault"})
    assert answer.status == absent.status == 404
    assert answer.body.replace(SECRET.encode(), b"") == absent.body.replace(b"midnight-nothing", b"")
    assert "signing" not in text


@pytest.mark.parametrize("token", [EVE, None, "a-token-of-nobody-012345"])
def test_no_answer_names_or_counts_a_corpus_without_right(server, token):
    """A close name, too, gets no suggestion."""
    requests = [
        *((method, path, fields) for method, path, fields in ENDPOINTS),
        ("POST", "/search", {"corpus": SECRET[:-1], "query": "vault"}),
        ("GET", "/artifact", {"corpus": SECRET.upper(), "id": "hidden1"}),
        ("POST", "/search", {"corpus": "notes", "query": SECRET[:5], "rerank": "x"}),
        ("GET", "/no/such/path", {}),
    ]
    for method, path, fields in requests:
        answer, text = ask(server, method, path, fields, token=token)
        assert SECRET not in text.replace(SECRET.upper(), ""), (method, path)
        if path in ("/corpora", "/readyz") or answer.status >= 400:
            assert re.search(rb"\b37\b", answer.body) is None, (method, path)
        if token != EVE and path not in ("/", "/healthz", "/readyz", "/openapi.json"):
            assert answer.status in (401, 404), (method, path, answer.status)
        assert answer.status < 500


def test_readiness_tells_a_stranger_neither_names_nor_numbers(server):
    answer, _ = ask(server, "GET", "/readyz", {}, token=None)
    assert {key: value for key, value in answer.json.items() if value} == {"status": "ok"}


def test_the_right_to_read_is_no_right_to_write(server):
    answer, text = ask(server, "PUT", "/artifact", {"corpus": "notes", "id": "a", "value": "mine"})
    assert answer.status == 403
    answer, _ = ask(server, "DELETE", "/artifact", {"corpus": "notes", "id": "a"})
    assert answer.status == 403
    assert "midnight" not in text
    answer, text = ask(server, "GET", "/artifact", {"corpus": "notes", "id": "a"})
    assert "signing keys" in text


@pytest.mark.slow
def test_a_refused_request_opens_no_file(corpora, server):
    """Not even a damaged one: what it would say depends on its content."""
    damaged = {"notes": corpora["notes"], "broken": corpora[SECRET].parent / "broken.airw"}
    damaged["broken"].write_bytes(b"SQLite format 3\0" + b"damage" * 1_000)
    tokens = [Token(value=EVE, read=["notes"], label="eve")]
    with serve(app(damaged, tokens=tokens)) as other:
        broken, _ = ask(other, "POST", "/search", {"corpus": "broken", "query": "keys"})
        absent, _ = ask(other, "POST", "/search", {"corpus": "absent", "query": "keys"})
    assert broken.status == 404
    assert broken.body.replace(b"broken", b"") == absent.body.replace(b"absent", b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "evil.example:80@127.0.0.1"},
        {"host": ""},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1.evil.example"},
        {"origin": "http://localhost@evil.example"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"},
    ],
    ids=str,
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/search"), ("PUT", "/artifact"), ("GET", "/corpora")])
def test_pages_of_others_reach_nothing(open_server, method, path, headers):
    """DNS rebinding, and requests across sites that a browser sends without asking first."""
    fields = {"corpus": "notes", "query": "keys"} if path == "/search" else {}
    fields = {"corpus": "notes", "id": "mine", "value": "keys"} if path == "/artifact" else fields
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
        answer, text = ask(open_server, method, path, fields, token=None, content_type=content_type, **headers)
        assert answer.status in (400, 403, 415, 421), answer
        assert "signing" not in text
        assert "access-control-allow-origin" not in answer.headers


@pytest.fixture(scope="module")
def open_server():
    """A server without tokens, of documents whose ids, texts and fields are hostile."""
    texts = {
        "a": "signing keys",
        "h": {"text": HOSTILE, "title": HOSTILE, "path": "/etc/secret/notes/h.md"},
        "id\u2028<b>\x1b[0m": "keys of doors",
    }
    with serve(app([make_corpus(texts)], writable=["notes"])) as running:
        yield running


def test_hostile_texts_stay_texts(open_server):
    """In JSON they are one string, in streams one line, and never a header or a frame."""
    requests = [
        ("POST", "/search", {"corpus": "notes", "query": "keys"}),
        ("POST", "/discover", {"corpora": ["notes"], "query": "keys " + HOSTILE}),
        ("GET", "/artifact", {"corpus": "notes", "id": "h"}),
        ("GET", "/artifact", {"corpus": HOSTILE, "id": HOSTILE}),
        ("GET", "/tree", {"corpus": "notes", "roots": HOSTILE}),
        ("POST", "/search", {"corpus": HOSTILE, "query": HOSTILE}),
        ("POST", "/search", {"corpus": "notes", "query": "keys", "mode": HOSTILE}),
        ("POST", "/search", {HOSTILE: 1, "corpus": "notes", "query": "keys"}),
        ("POST", "/traverse", {"corpus": "notes", "query": "keys", "policy": HOSTILE}),
    ]
    for method, path, fields in requests:
        answer, text = ask(open_server, method, path, fields, token=None)
        assert answer.status in (200, 400, 404), (path, answer)
        assert answer.headers["content-type"].partition(";")[0] in ("application/json", "application/problem+json")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "/etc/secret" not in text
        assert isinstance(json.loads(answer.body), dict)
        for raw in (b"\n\nevent", b"\x1b", b"\x00", "\u2028".encode()):
            assert raw not in answer.body, (path, raw)


@pytest.mark.slow
def test_hostile_texts_begin_no_frame_of_a_stream(open_server):
    for fields in ({}, {"edges": True}, {"best": 2}):
        body = {"corpus": "notes", "query": "keys", **fields}
        answer = httpx.post(f"{open_server.url}/traverse", json=body)
        assert answer.status_code == 200
        events = parse_events(answer.content)  # each frame has one line of JSON
        assert [event.id for event in events if event.kind == "summary"] == ["end"]
        assert "/etc/secret" not in answer.text
        assert len(answer.text.splitlines()) == answer.text.count("\n")  # no other character ends a line
        assert "\x1b" not in answer.text
        assert "alert(1)" in answer.text or "best" in fields


def test_hostile_values_write_no_headers(open_server):
    hostile = "notes\r\nSet-Cookie: a=b"
    for method, path, fields in ENDPOINTS:
        answer, _ = ask(open_server, method, path, {**fields, "corpus": hostile, "id": hostile}, token=None)
        assert "set-cookie" not in answer.headers
        assert hostile not in str(answer.headers)


HIDDEN = "/etc/secret/notes/h.md"
GUESSES = [
    {"path": HIDDEN},
    {"path": {"$ne": HIDDEN}},
    {"path": {"$in": ["a", HIDDEN]}},
    {"path": {"$contains": "secret"}},
    {"path": {"$gte": "/e"}},
    {"path": {"$lt": "0"}},
    {"more.path": {"$contains": "s"}},
    {"source": {"$contains": "secret"}},
    {"source": "/etc/secret/a.md"},
    {"more.path": {"$eq": [HIDDEN]}},
    {"more": {"$eq": {"path": HIDDEN}}},
    {"image": {"$lt": "/etc/t"}},
    {"$or": [{"a": 1}, {"$not": {"path": {"$contains": "s"}}}]},
]


@pytest.mark.parametrize("filter", GUESSES, ids=str)
def test_no_filter_tells_whether_a_guess_of_a_hidden_path_is_right(open_server, filter):
    searching = {"corpus": "notes", "query": "keys", "filter": filter}
    scoped = {"name": "path-coverage", "params": {"scope": {"keep": filter}}}
    asked = {"ask": "Rank", "queries": ["keys"], "k": 5, "filter": filter}
    edges, ends = {"ask": "Edges", "ids": []}, {"take": "Ends", "of": 0}
    requests = [
        ("/search", searching),
        ("/discover", searching),
        ("/discover", {"corpus": "notes", "query": "keys", "walk": scoped}),
        ("/traverse", {"corpus": "notes", "query": "keys", "policy": scoped}),
        ("/store/read", {"corpus": "notes", "requests": [asked]}),
        ("/store/read", {"corpus": "notes", "requests": [edges, {"ask": "Fed", "request": asked, "by": ends}]}),
    ]
    for path, fields in requests:
        answer, _ = ask(open_server, "POST", path, fields, token=None)
        assert (answer.status, answer.json["error"]) == (400, "FilterError"), (path, answer)
        assert "hide" in answer.json["detail"] or "hidden" in answer.json["detail"]


def test_fields_with_paths_are_compared_by_what_answers_show(open_server):
    for filter in ({"path": "h.md"}, {"path": {"$exists": True}}, {"title": {"$contains": "/2026"}}):
        fields = {"corpus": "notes", "query": "keys", "filter": filter}
        answer, _ = ask(open_server, "POST", "/search", fields, token=None)
        assert answer.status == 200, answer
    matching = {"ask": "Matching", "wanted": [["path", HIDDEN], ["title", HOSTILE]]}
    fields = {"corpus": "notes", "requests": [matching]}
    answer, _ = ask(open_server, "POST", "/store/read", fields, token=None)
    assert answer.json == {"answers": [[[], ["h"]]]}

"""The border of a server: hosts, origins and headers, asked as browsers ask."""

import httpx
import pytest
from hypothesis import given, strategies as st
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Mount, Route

from airw import build, from_mapping
from airw.errors import ArgumentError
from airw.serving import Token, app
from airw.serving.hosts import Border, HostRule, OriginRule
from airw.stores import MemoryStore

pytestmark = pytest.mark.asyncio_only  # the border starts no task

SECRET = "correct-horse-battery"
EVIL, KB = "https://evil.example", "https://kb.example"


@pytest.fixture(scope="module")
async def notes(anyio_backend):
    source = from_mapping({"a": "rotate the signing keys"}, name="notes", embedder="light")
    async with build(source, store=MemoryStore()) as corpus:
        yield corpus


def client_of(application, host="127.0.0.1:8000", **headers):
    transport = httpx.ASGITransport(application)
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)


async def ask(application, host="127.0.0.1:8000", method="POST", **headers):
    async with client_of(application, host) as client:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await client.request(method, "/search", json={"corpus": "notes", "query": "keys"}, headers=named)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:1", "localhost:8000", "LocalHost", "[::1]:80", "192.168.1.7"])
async def test_a_server_answers_to_addresses_and_to_localhost(notes, host):
    assert (await ask(app([notes]), host)).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "kb"])
async def test_a_site_that_points_its_name_to_this_machine_gets_nothing(notes, host):
    answer = await ask(app([notes]), host)
    assert (answer.status_code, answer.json()["status"]) == (421, 421)
    assert f"does not answer to the host '{host}'" in answer.json()["detail"]


@pytest.mark.parametrize("value", ["", "a b", "user@127.0.0.1", "127.0.0.1:x", "127.0.0.1/", "[::1", "\x00", "é"])
async def test_what_is_no_host_is_refused(notes, value):
    assert (await ask(app([notes], hosts=["kb.example"]), Host=value.encode())).status_code == 421


async def test_a_server_answers_to_the_names_that_its_operator_adds(notes):
    application = app([notes], hosts=["kb.example"])
    assert (await ask(application, "KB.example:8443")).status_code == 200
    assert (await ask(application, "127.0.0.1")).status_code == 200
    assert (await ask(application, "other.example")).status_code == 421
    assert (await ask(app([notes], hosts=["*"]), "other.example")).status_code == 200


async def test_a_server_with_tokens_answers_to_any_name_unless_told_otherwise(notes):
    """A site that points its name to this machine has no token."""
    token = Token(value=SECRET)
    assert (await ask(app([notes], tokens=[token]), "kb.example")).status_code == 401
    bearer = {"Authorization": f"Bearer {SECRET}"}
    assert (await ask(app([notes], tokens=[token]), "kb.example", **bearer)).status_code == 200
    assert (await ask(app([notes], tokens=[token], hosts=["api.example"]), "kb.example", **bearer)).status_code == 421


async def test_an_application_inside_another_answers_to_its_names(notes):
    site = Starlette(routes=[Mount("/kb", app([notes], hosts=["site.example"]))])
    async with client_of(site, "site.example") as client:
        answer = await client.post("/kb/search", json={"corpus": "notes", "query": "keys"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "origin", [EVIL, "null", "http://127.0.0.1:8001", "file://", "https://kb.example.evil.example", ""]
)
async def test_pages_of_other_origins_get_nothing(notes, origin):
    answer = await ask(app([notes], origins=[KB]), Origin=origin)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8000", "https://127.0.0.1:8000"])
async def test_the_page_of_the_server_itself_may_ask(notes, origin):
    answer = await ask(app([notes]), Origin=origin)
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


async def test_pages_of_an_origin_that_the_operator_allows_may_ask_and_read(notes):
    answer = await ask(app([notes], origins=[KB]), Origin=KB)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == KB
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["vary"] == "Origin"
    anyone = await ask(app([notes], origins=["*"]), Origin=EVIL)
    assert anyone.headers["access-control-allow-origin"] == EVIL


async def test_a_browser_may_ask_first_and_needs_no_token_for_that(notes):
    application = app([notes], tokens=[Token(value=SECRET)], origins=[KB])
    asked = {"Access_Control_Request_Method": "PUT", "Access_Control_Request_Headers": "authorization"}
    answer = await ask(application, method="OPTIONS", Origin=KB, **asked)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == KB
    assert "PUT" in answer.headers["access-control-allow-methods"]
    allowed = answer.headers["access-control-allow-headers"].split(", ")
    assert {"Authorization", "Last-Event-ID", "X-Vercel-AI-UI-Message-Stream"} <= set(allowed)
    assert (await ask(application, method="OPTIONS", Origin=EVIL, **asked)).status_code == 403


@pytest.mark.parametrize(
    ("site", "mode", "status"),
    [
        ("cross-site", "no-cors", 403),
        ("same-site", "no-cors", 403),
        ("cross-site", "navigate", 200),
        ("same-origin", "cors", 200),
        ("none", "navigate", 200),
    ],
)
async def test_pages_of_other_sites_cannot_embed_an_answer(notes, site, mode, status):
    """An image or a script of another page sends no origin."""
    assert (await ask(app([notes]), Sec_Fetch_Site=site, Sec_Fetch_Mode=mode)).status_code == status


@pytest.mark.parametrize("path", ["/search", "/nothing", "/metrics"])
@pytest.mark.parametrize("host", ["127.0.0.1", "evil.example"])
async def test_every_answer_has_the_headers_that_keep_it_apart(notes, path, host):
    async with client_of(app([notes]), host) as client:
        answer = await client.get(path)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_a_header_that_an_answer_sets_itself_stays():
    async def endpoint(_):
        return StreamingResponse(iter("ab"), headers={"Content-Security-Policy": "default-src 'self'"})

    inside = Starlette(routes=[Route("/", endpoint)])
    async with client_of(Border(inside, HostRule(), OriginRule())) as client:
        answer = await client.get("/")
    assert answer.headers["content-security-policy"] == "default-src 'self'"
    assert answer.text == "ab"


async def test_each_piece_of_a_stream_passes_at_once():
    sent = []

    async def application(_, __, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"a", b"b"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            assert sent[-1]["body"] == piece

    async def send(message):
        sent.append(message)

    border = Border(application, HostRule(), OriginRule())
    await border({"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}, None, send)
    assert len(sent) == 3


@pytest.mark.parametrize("hosts", ["kb.example", ["https://kb.example"], ["kb.example:80"], ["a b"], [1], [""]])
def test_hosts_that_are_none_are_refused(hosts):
    with pytest.raises(ArgumentError, match="hosts must"):
        app(["notes"], hosts=hosts)


@pytest.mark.parametrize("origins", [KB, [f"{KB}/"], ["kb.example"], ["null"], [1], ["https://"]])
def test_origins_that_are_none_are_refused(origins):
    with pytest.raises(ArgumentError, match="origins must"):
        app(["notes"], origins=origins)


@given(st.text(st.characters(codec="latin-1"), max_size=30))
def test_no_text_but_an_address_or_localhost_is_a_host_of_this_machine(text):
    name = text.casefold().rpartition(":")[0] or text.casefold()
    looks_local = name.strip("[]") == "localhost" or all(char in "0123456789abcdef:.[]%" for char in name)
    assert not HostRule().allows(text) or looks_local or "%" in text

"""The log of a server: a line for each request, without what somebody searched for."""

import logging
import re
import subprocess
import sys

import httpx
import pytest
from hypothesis import given, strategies as st

from airw import build, from_mapping
from airw.serving import Token, app
from airw.serving.logs import RequestRecord, record_of
from airw.stores import MemoryStore

SECRET = "correct-horse-battery"


@pytest.fixture
async def notes():
    source = from_mapping({"a": "rotate the signing keys"}, name="notes", embedder="light")
    async with build(source, store=MemoryStore()) as corpus:
        yield corpus


def client_of(application):
    return httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost")


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="airw.serving")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "airw.serving"]


async def test_a_request_is_one_line_without_query_and_token(notes, lines):
    token = Token(value=SECRET, label="ada")
    async with client_of(app([notes], tokens=[token])) as client:
        bearer = {"Authorization": f"Bearer {SECRET}"}
        await client.post("/search?query=private", json={"corpus": "notes", "query": "private"}, headers=bearer)
        await client.post("/search", headers={"Authorization": "Bearer guessed-token-value"})
    assert [re.sub(r"[\d.]+ ms", "N ms", line) for line in lines()] == [
        "POST /search 200 N ms ada",
        "POST /search 401 N ms -",
    ]


async def test_the_path_of_a_stranger_acts_on_no_terminal(notes, lines):
    async with client_of(app([notes])) as client:
        await client.get("/%1b%5b2J%0a127.0.0.1%20POST%20/admin%20200%E2%80%AE" + "x" * 500)
    [line] = lines()
    assert line.isprintable()
    assert len(line) < 200
    assert line.startswith(r"GET /\u001b[2J")


@given(*[st.text(max_size=300)] * 4)
def test_a_line_is_one_short_line_whatever_a_stranger_sends(method, path, label, stop):
    record = RequestRecord(method, path, label=label, status=200, hits=2, stop=stop)
    line = record.to_line(0.5)
    assert len(line.splitlines()) == 1
    assert len(line) < 350
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u202e\ud800-\udfff]", line)


def test_a_record_counts_the_hits_of_a_walk():
    record = record_of({"type": "http", "method": "GET", "path": "/traverse"})
    assert record.first_hit is None
    record.count_hit()
    first = record.first_hit
    record.count_hit()
    record.stop = "exhausted"
    assert first is not None
    assert (record.first_hit, record.hits, record.stop) == (first, 2, "exhausted")


@pytest.mark.slow
def test_importing_a_server_configures_no_logging():
    code = (
        "import logging, airw.serving.running; print(logging.root.handlers, logging.getLogger('airw.serving').handlers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"

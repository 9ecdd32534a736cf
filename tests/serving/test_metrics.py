"""Metrics: the text format of Prometheus, bounded labels, and a real server's numbers."""

import re

import httpx
import pytest
from hypothesis import given, strategies as st

from airw import build, from_mapping
from airw.serving import Token, app
from airw.serving.metrics import Histogram, Metrics
from airw.serving.shared_metrics import add_metrics, publish_metrics, read_metrics
from airw.stores import MemoryStore

SAMPLE = re.compile(r'[a-z_]+(\{[a-z]+="[^"\\\n]*"(,[a-z]+="[^"\\\n]*")*\})? (\d+(\.\d+)?(e-?\d+)?)')


def numbers_of(text):
    """Return the numbers of a text by their names with labels, once each line is checked."""
    lines = text.splitlines()
    samples = [line for line in lines if not line.startswith("# ")]
    assert [line for line in samples if not SAMPLE.fullmatch(line)] == []
    heads = [line.split()[1:3] for line in lines if line.startswith("# ")]
    assert all(kind in ("HELP", "TYPE") for kind, _ in heads)
    assert len({tuple(head) for head in heads}) == len(heads)
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in samples}


@pytest.fixture
async def notes():
    source = from_mapping({"a": "rotate the signing keys"}, name="notes", embedder="light")
    async with build(source, store=MemoryStore()) as corpus:
        yield corpus


def client_of(application, **options):
    return httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost", **options)


async def test_a_server_counts_its_requests_by_endpoint_and_status(notes):
    async with client_of(app([notes])) as client:
        for body in ({"corpus": "notes", "query": "keys"}, {"corpus": "notes", "query": "vault"}, {"corpus": "other"}):
            await client.post("/search", json=body)
        for path in ("/nothing", "/nothing/else", "/search/x"):
            await client.get(path)
        await client.request("BREW", "/search")
        answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    numbers = numbers_of(answer.text)
    assert numbers['airw_requests_total{endpoint="/search",method="POST",status="200"}'] == 2
    assert numbers['airw_requests_total{endpoint="/search",method="POST",status="400"}'] == 1
    assert numbers['airw_requests_total{endpoint="/search",method="other",status="405"}'] == 1
    assert numbers['airw_requests_total{endpoint="other",method="GET",status="404"}'] == 2
    assert numbers['airw_request_seconds_count{endpoint="/search"}'] == 5
    assert numbers["airw_requests_running"] == numbers["airw_requests_waiting"] == numbers["airw_streams_open"] == 0


async def test_a_client_cannot_add_series(notes):
    async with client_of(app([notes])) as client:
        for number in range(50):
            await client.request(f"METHOD{number}", f"/path{number}", headers={"X-Name": str(number)})
        before = numbers_of((await client.get("/metrics")).text)
        after = numbers_of((await client.get("/metrics")).text)
    assert len([name for name in before if name.startswith("airw_requests_total")]) == 1
    assert set(after) - set(before) <= {name for name in after if 'endpoint="/metrics"' in name}


async def test_with_tokens_the_numbers_need_one(notes):
    token = Token(value="correct-horse-battery", read=[])
    async with client_of(app([notes], tokens=[token])) as client:
        assert (await client.get("/metrics")).status_code == 401
        bearer = {"Authorization": "Bearer correct-horse-battery"}
        assert "airw_requests_total" in (await client.get("/metrics", headers=bearer)).text


def test_walks_are_counted_by_why_they_ended():
    metrics = Metrics()
    metrics.count_walk("exhausted", 3, 0.02)
    metrics.count_walk("exhausted", 2, 0.2)
    metrics.count_walk("disconnected", 0, None)
    metrics.count_walk('made"up\n', 0, None)
    metrics.count_refusal("queue")
    numbers = numbers_of(metrics.to_text())
    assert numbers['airw_walks_total{stop="exhausted"}'] == 2
    assert numbers['airw_walks_total{stop="disconnected"}'] == numbers['airw_walks_total{stop="other"}'] == 1
    assert numbers["airw_hits_total"] == 5
    assert numbers["airw_first_hit_seconds_count"] == 2
    assert numbers['airw_first_hit_seconds_bucket{le="0.025"}'] == 1
    assert numbers['airw_refused_total{reason="queue"}'] == 1


@given(st.lists(st.floats(0, 100)), st.lists(st.floats(0, 100), unique=True, max_size=6).map(sorted))
def test_a_bucket_counts_the_values_up_to_its_bound(values, bounds):
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    counts = [count for _, count in histogram.buckets()]
    assert counts == [*(sum(value <= bound for value in values) for bound in bounds), len(values)]
    assert histogram.sum == pytest.approx(sum(values))


def test_the_numbers_of_several_processes_are_added(tmp_path):
    one, two = Metrics(), Metrics()
    for metrics, running in ((one, 2), (two, 3)):
        metrics.add_gauge("airw_requests_running", "Requests that work now.", lambda running=running: running)
        metrics.count_walk("exhausted", 2, 0.3)
    one.count_request("/search", "POST", 200, 0.02)
    two.count_request("/search", "POST", 200, 0.2)
    two.count_request("/search", "POST", 400, 0.2)
    numbers = numbers_of(add_metrics([(one.to_text(), True), (two.to_text(), False)]))
    assert numbers['airw_requests_total{endpoint="/search",method="POST",status="200"}'] == 2
    assert numbers['airw_requests_total{endpoint="/search",method="POST",status="400"}'] == 1
    assert numbers['airw_request_seconds_bucket{endpoint="/search",le="0.025"}'] == 1
    assert numbers['airw_request_seconds_count{endpoint="/search"}'] == 3
    assert numbers["airw_hits_total"] == 4
    assert numbers["airw_requests_running"] == 2  # the other process has ended
    publish_metrics(tmp_path, one.to_text())
    publish_metrics(tmp_path, one.to_text())
    assert numbers_of(read_metrics(tmp_path)) == numbers_of(one.to_text())

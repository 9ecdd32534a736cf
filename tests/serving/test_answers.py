"""Long answers: sent in pieces, and bounded in memory when clients do not read them."""

import functools
import json

import anyio
import anyio.lowlevel
import pytest

from airw.corpora import Corpus
from airw.errors import StoreError
from airw.protocols import CAPABILITIES
from airw.serving import ServingLimits, app
from airw.serving.answers import PIECE, JsonAnswer, UnsentAnswers, encode_pieces
from airw.serving.problems import AnswerTooLarge
from airw.stores import OwnStore
from airw.testing import run_on_virtual_clock
from tests.support.event_streams import StreamClient
from tests.support.heartbeat import least_lag, slow_down
from tests.support.served import notes, serve_notes
from tests.support.served_corpora import make_corpus
from tests.support.serving import MEGABYTE, Wire, exchange, memory_of, request_bytes, serve
from tests.support.waiting import wait_until

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
LONG = {"texts": ["x" * 1_000] * 100}
LIMITS = ServingLimits(max_unsent=300_000, max_unsent_per_client=200_000)


def answer_of(unsent, client, *, value=LONG, max_stall=60.0):
    pieces = encode_pieces(value, most=10 * MEGABYTE)
    return JsonAnswer(pieces, client=client, unsent=unsent, max_stall=max_stall)


def test_pieces_are_short_and_bounded():
    pieces = encode_pieces(LONG, most=200_000)
    assert json.loads(b"".join(pieces)) == LONG
    assert all(PIECE <= len(piece) < 2 * PIECE for piece in pieces[:-1])
    with pytest.raises(AnswerTooLarge, match="the answer has more than 90,000 bytes"):
        encode_pieces(LONG, most=90_000)


async def test_an_answer_arrives_whole_and_is_no_longer_counted():
    unsent = UnsentAnswers(LIMITS)
    client = await StreamClient().call(answer_of(unsent, "ada"))
    assert json.loads(client.body) == LONG
    assert client.headers["content-length"] == str(len(client.body))
    assert max(len(data) for _, data in client.sends) < 2 * PIECE
    assert unsent.size == 0


@BACKENDS
def test_an_answer_that_is_not_read_is_cut(backend):
    async def main():
        unsent = UnsentAnswers(LIMITS)
        client = await StreamClient(stalls_after=2).call(answer_of(unsent, "ada", max_stall=7))
        return client, unsent.size, anyio.current_time() - client.sends[-1][0]

    client, size, waited = run_on_virtual_clock(main, backend=backend)
    assert (client.is_complete, size, waited) == (False, 0, pytest.approx(7, abs=0.01))


@BACKENDS
def test_a_client_that_reads_slowly_gets_its_answer(backend):
    async def main():
        return await StreamClient(pause=5).call(answer_of(UnsentAnswers(LIMITS), "ada", max_stall=7))

    assert run_on_virtual_clock(main, backend=backend).is_complete


@BACKENDS
def test_a_client_that_does_not_read_has_no_room_for_more(backend):
    """Its second answer is refused at once; later, its first one is cut for it."""

    async def main():
        unsent, first, statuses = UnsentAnswers(LIMITS), StreamClient(stalls_after=0), []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first.call, answer_of(unsent, "ada"))
            await anyio.sleep(0.5)
            for client in ("ada", "bob", "ada"):
                statuses.append((await StreamClient().call(answer_of(unsent, client))).status)
                await anyio.sleep(0.3)
                assert unsent.size <= LIMITS.max_unsent_per_client
        return statuses, first.is_complete

    assert run_on_virtual_clock(main, backend=backend) == ([429, 200, 200], False)


@BACKENDS
def test_many_clients_that_do_not_read_keep_nobody_waiting(backend):
    async def main():
        unsent, sizes = UnsentAnswers(LIMITS), []
        async with anyio.create_task_group() as tasks:
            for at in range(30):
                tasks.start_soon(StreamClient(stalls_after=0).call, answer_of(unsent, f"client {at}"))
                await anyio.sleep(0.1)
                sizes.append(unsent.size)
            await anyio.sleep(1.5)
            statuses = [(await StreamClient().call(answer_of(unsent, "ada"))).status for _ in range(20)]
            tasks.cancel_scope.cancel()
        return max(sizes), statuses, unsent.size

    largest, statuses, left = run_on_virtual_clock(main, backend=backend)
    assert largest <= LIMITS.max_unsent
    assert set(statuses) == {200}
    assert left == 0


async def test_a_single_answer_may_be_larger_than_the_room():
    unsent = UnsentAnswers(ServingLimits(max_unsent=10, max_unsent_per_client=10))
    assert (await StreamClient().call(answer_of(unsent, "ada"))).is_complete


async def test_an_answer_beyond_the_limit_is_refused_by_name():
    async with serve_notes(limits=ServingLimits(max_answer=300)) as asking:
        answer = await asking.post("/search", json={"corpus": "notes", "query": "keys"})
        assert (answer.status_code, answer.json()["error"]) == (413, "ArgumentError")
        assert answer.json()["detail"] == "the answer has more than 300 bytes; ask for less at once"


class Holding(OwnStore):
    """A store that answers nothing until it is told to."""

    capabilities = CAPABILITIES

    def __init__(self):
        self.may_answer = anyio.Event()

    async def read(self, *requests):
        await self.may_answer.wait()
        raise StoreError("nothing is here")


@pytest.mark.asyncio_only
async def test_a_body_that_waits_for_its_turn_stays_bytes():
    """It is parsed once its request runs: what is wrong with it is told then, and not before."""
    async with notes() as corpus, anyio.create_task_group() as tasks:
        store = Holding()
        application = app([Corpus("notes", store, corpus.embedder)], limits=ServingLimits(max_requests=1))
        first = JsonClient("/search", {"corpus": "notes", "query": "keys"})
        second = JsonClient("/search", b"{not JSON")
        tasks.start_soon(first.call, application)
        tasks.start_soon(second.call, application)
        while "airw_requests_waiting 1" not in (await StreamClient(path="/metrics").call(application)).body.decode():
            await anyio.lowlevel.checkpoint()
        assert (first.status, second.status) == (None, None)
        store.may_answer.set()
    assert (first.status, second.status) == (503, 400)
    assert b"the body must be JSON" in second.body


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_a_long_answer_leaves_the_loop_free():
    texts = {f"n{at}": "signing keys é " * 1_000 for at in range(500)}
    async with notes(texts) as corpus:
        request = {"corpus": "notes", "query": "keys", "k": 500}
        application = app([corpus])

        async def ask():
            client = await JsonClient("/search", request).call(application)
            assert len(client.body) > 5 * MEGABYTE

        goal = slow_down(0.06)
        assert await least_lag(ask, goal) <= goal


class JsonClient(StreamClient):
    """A client that sends a JSON body."""

    def __init__(self, path, body, **options):
        super().__init__({"Content-Type": "application/json"}, method="POST", path=path, **options)
        self._body = json.dumps(body).encode() if not isinstance(body, bytes) else body

    async def _receive(self):
        if self._body is None:
            return await super()._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


@pytest.mark.slow
def test_clients_that_read_nothing_hold_little_memory_and_nobody_up():
    """Real sockets: twenty clients ask for 12 MB each and read nothing."""
    corpus = make_corpus({f"n{at}": "keys " * 20_000 for at in range(120)})
    limits = ServingLimits(max_unsent=40 * MEGABYTE, max_unsent_per_client=40 * MEGABYTE, max_stall=3)
    many = request_bytes("POST", "/search", {"corpus": "notes", "query": "keys", "k": 120})
    one = request_bytes("POST", "/search", {"corpus": "notes", "query": "keys", "k": 10})
    with serve(app([corpus], limits=limits), max_stall=3) as server:
        assert len(exchange(server.port, many).body) > 11 * MEGABYTE
        before = memory_of()
        wires = [Wire(server.port, receive_bytes=4_096, source=f"127.0.0.{at + 2}") for at in range(20)]
        for wire in wires:
            wire.send(many)
            answer = wait_until(functools.partial(_answer_if_fine, server, one))
            assert len(answer.body) > 1_000_000
        assert memory_of() - before < 120 * MEGABYTE  # without a bound it would be 240
        wait_until(lambda: server.connections == 0)
        for wire in wires:
            wire.socket.close()
    assert server.tasks_left == []


def _answer_if_fine(server, request):
    answer = exchange(server.port, request)
    assert answer.status in (200, 429)
    return answer if answer.status == 200 else None

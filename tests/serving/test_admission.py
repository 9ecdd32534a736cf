"""Admission: how many requests run and wait, and that one client cannot take all places."""

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

from airw.serving import ServingLimits, app
from airw.serving.access import Caller, client_of
from airw.serving.admission import Admission
from airw.serving.problems import TooManyRequests
from tests.support.waiting import PATIENCE


class Crowd:
    """Requests of several clients, in the order in which they got a place."""

    def __init__(self, admission, tasks):
        self.admission = admission
        self.tasks = tasks
        self.admitted = []
        self.refused = []
        self.ends = {}

    async def send(self, client, name=None):
        """Send a request that runs until it is ended."""
        name = name or f"{client}{len(self.ends)}"
        self.ends[name] = anyio.Event()
        self.tasks.start_soon(self._run, client, name)
        await self.settle()

    async def end(self, name):
        self.ends[name].set()
        await self.settle()

    async def settle(self):
        for _ in range(6):
            await checkpoint()

    async def _run(self, client, name):
        try:
            async with self.admission.request(client):
                self.admitted.append(name)
                await self.ends[name].wait()
        except TooManyRequests as error:
            self.refused.append((name, str(error)))


@pytest.fixture
async def crowd():
    """Return a function that makes a crowd before a server with these limits."""
    async with anyio.create_task_group() as tasks:
        yield lambda **limits: Crowd(Admission(ServingLimits(**limits)), tasks)
        tasks.cancel_scope.cancel()


async def test_requests_beyond_the_places_wait_in_turn(crowd):
    server = crowd(max_requests=2)
    for name in ("a", "b", "c", "d"):
        await server.send("ada", name)
    assert (server.admitted, server.admission.running, server.admission.waiting) == (["a", "b"], 2, 2)
    await server.end("b")
    assert (server.admitted, server.admission.waiting) == (["a", "b", "c"], 1)
    for name in ("a", "c", "d"):
        await server.end(name)
    assert (server.admitted, server.admission.running, server.admission.waiting) == (["a", "b", "c", "d"], 0, 0)


async def test_one_client_cannot_take_all_places(crowd):
    server = crowd(max_requests=4, max_requests_per_client=3)
    for name in ("a", "b", "c", "d"):
        await server.send("greedy", name)
    assert server.admitted == ["a", "b", "c"]
    await server.send("ada", "e")
    assert server.admitted == ["a", "b", "c", "e"]


async def test_a_free_place_goes_to_the_client_with_the_fewest(crowd):
    server = crowd(max_requests=2)
    for name in ("g1", "g2", "g3", "g4"):
        await server.send("greedy", name)
    await server.send("ada", "a1")
    await server.send("bob", "b1")
    await server.end("g1")
    await server.end("g2")
    assert server.admitted == ["g1", "g2", "a1", "b1"]


async def test_one_client_cannot_take_the_whole_queue(crowd):
    server = crowd(max_requests=1, max_waiting=3)
    for name in ("g1", "g2", "g3", "g4"):
        await server.send("greedy", name)
    await server.send("ada", "a1")
    assert [name for name, _ in server.refused] == ["g4"]
    assert "others wait for fewer" in server.refused[0][1]
    await server.send("greedy", "g5")
    assert server.refused[1][0] == "g5"
    await server.end("g1")
    assert server.admitted == ["g1", "a1"]
    assert server.admission.waiting == 2


async def test_a_wait_has_an_end(crowd):
    server = crowd(max_requests=1, max_wait=0.01)
    await server.send("ada", "a")
    with pytest.raises(TooManyRequests, match=r"busy for 0\.01 seconds; try again later") as caught:
        async with server.admission.request("bob"):
            pass
    assert caught.value.retry_after == 1
    assert server.admission.waiting == 0
    await server.end("a")
    async with server.admission.request("bob"):
        assert server.admission.running == 1


async def test_a_request_that_is_cancelled_while_it_waits_leaves_the_queue(crowd):
    server = crowd(max_requests=1)
    await server.send("ada", "a")
    with anyio.move_on_after(0.01):
        async with server.admission.request("bob"):
            pytest.fail("there is no place")
    assert (server.admission.running, server.admission.waiting) == (1, 0)


async def test_a_place_that_comes_together_with_a_cancellation_is_not_lost(crowd):
    server = crowd(max_requests=1)
    await server.send("ada", "a")
    with anyio.CancelScope() as scope:

        async def cancel_when_admitted():
            server.ends["a"].set()
            await checkpoint()
            await checkpoint()
            scope.cancel()

        server.tasks.start_soon(cancel_when_admitted)
        async with server.admission.request("bob"):
            await anyio.sleep_forever()
    await server.settle()
    assert (server.admission.running, server.admission.waiting) == (0, 0)


def test_streams_are_bounded_for_each_client_and_in_all():
    admission = Admission(ServingLimits(max_streams=3, max_streams_per_client=2))
    with admission.stream("ada"), admission.stream("ada"):
        with pytest.raises(TooManyRequests, match="you have 2 streams already"), admission.stream("ada"):
            pass
        bob, eve = admission.stream("bob"), admission.stream("eve")
        with bob, pytest.raises(TooManyRequests, match="3 streams run already"), eve:
            pass
        assert admission.streams.total() == 2
    assert admission.streams == {}


def test_bodies_that_arrive_are_bounded():
    admission = Admission(ServingLimits(max_waiting=2, max_requests_per_client=1))
    with admission.arrival("ada"):
        with pytest.raises(TooManyRequests), admission.arrival("ada"):
            pass
        with admission.arrival("bob"), pytest.raises(TooManyRequests), admission.arrival("eve"):
            pass
    with admission.arrival("ada"):
        pass


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_no_place_is_lost_and_no_limit_exceeded(steps, places, own, waiting):
    """Whatever comes and ends in whatever order, each request runs or is refused in the end."""

    async def run():
        limits = ServingLimits(max_requests=places, max_requests_per_client=own, max_waiting=waiting)
        async with anyio.create_task_group() as tasks:
            server = Crowd(Admission(limits), tasks)
            open_names = []
            for client, is_new in steps:
                if is_new:
                    await server.send(client)
                    open_names.append(list(server.ends)[-1])
                elif open_names:
                    await server.end(open_names.pop(0))
                assert server.admission.running <= places
                assert server.admission.waiting <= waiting
            for name in open_names:
                await server.end(name)
            await server.settle()
        assert (server.admission.running, server.admission.waiting) == (0, 0)
        assert server.admission._last_served == {}  # clients do not add up
        assert sorted([*server.admitted, *(name for name, _ in server.refused)]) == sorted(server.ends)

    anyio.run(run)


def test_a_client_is_its_token_or_its_address():
    nobody = Caller("", (), frozenset())
    ada = Caller("ada", (), frozenset(), key="token 1")
    addresses = ["10.0.0.1", "2001:db8::1", "2001:db8::2:3", "2001:db8:0:1::1", "::ffff:10.0.0.1"]
    keys = [client_of(nobody, {"client": (address, 1)}) for address in addresses]
    assert keys == ["10.0.0.1", "2001:db8::/64", "2001:db8::/64", "2001:db8:0:1::/64", "10.0.0.1"]
    assert {client_of(ada, {"client": (address, 1)}) for address in addresses} == {"token 1"}
    assert client_of(nobody, {"client": None}) == client_of(nobody, {}) == ""


class Client:
    """A client of an application that sends one request, and can leave."""

    def __init__(self, application):
        self.application = application
        self.sent = []
        self.has_left = anyio.Event()
        self._messages = [{"type": "http.request", "body": b'{"corpus": "notes", "query": "keys"}'}]

    async def ask(self):
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/search",
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
            "client": ("10.0.0.1", 1),
        }
        await self.application(scope, self._receive, self._send)

    async def _receive(self):
        if self._messages:
            return self._messages.pop()
        await self.has_left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        self.sent.append(message)


async def test_a_request_whose_client_leaves_while_it_waits_is_dropped():
    application = app(["notes"], limits=ServingLimits(max_requests=1))
    admission, client = application.state.service.admission, Client(application)
    async with admission.request("ada"), anyio.create_task_group() as tasks:
        tasks.start_soon(client.ask)
        with anyio.fail_after(PATIENCE):
            while not admission.waiting:
                await checkpoint()
        client.has_left.set()
        with anyio.fail_after(PATIENCE):
            while admission.waiting:
                await checkpoint()
    assert admission.running == 0


async def test_a_busy_server_says_when_to_try_again():
    application = app(["notes"], limits=ServingLimits(max_requests=1, max_wait=0.01))
    client = Client(application)
    async with application.state.service.admission.request("ada"):
        await client.ask()
    headers = dict(client.sent[0]["headers"])
    assert (client.sent[0]["status"], headers[b"retry-after"]) == (429, b"1")

"""`/healthz` and `/readyz`: whether the process runs, and whether each corpus answers."""

import anyio
import pytest

from airw import build, from_mapping, open_corpus
from airw.corpora import Corpus
from airw.serving import ServingLimits, Token, app
from airw.stores import OwnStore
from tests.support.served import client, notes, serve_notes
from tests.support.waiting import PATIENCE

TOKEN = Token(value="correct-horse-battery", read=["notes"])


class Hanging(OwnStore):
    """A store that never answers."""

    capabilities = frozenset({"records"})

    def __init__(self):
        self.calls = 0

    async def records(self, request):
        self.calls += 1
        await anyio.sleep_forever()


async def test_a_server_is_alive_and_ready_without_a_token():
    async with serve_notes(tokens=[TOKEN]) as asking:
        alive, ready = await asking.get("/healthz"), await asking.get("/readyz")
        assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
        assert (ready.status_code, ready.json()) == (200, {"status": "ok", "corpora": {}})
        mine = await asking.get("/readyz", headers={"Authorization": f"Bearer {TOKEN.value}"})
        assert mine.json()["corpora"] == {"notes": {"status": "ok"}}


@pytest.mark.asyncio_only
async def test_a_damaged_corpus_fails_readiness_but_not_liveness_and_is_named(tmp_path):
    file = tmp_path / "broken.airw"
    file.write_bytes(b"no corpus at all" * 100)
    async with notes() as one, client(app({"notes": one, "broken": file})) as asking:
        ready = await asking.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["corpora"]["notes"] == {"status": "ok"}
        assert ready.json()["corpora"]["broken"]["error"] == "StoreCorrupt"
        assert str(tmp_path) not in ready.text
        assert (await asking.get("/healthz")).status_code == 200


async def test_a_busy_server_is_alive_all_the_same():
    limits = ServingLimits(max_requests=1, max_waiting=1, max_wait=0.01)
    async with notes() as one, client(application := app([one], limits=limits)) as asking:
        async with application.state.service.admission.request("somebody else"):
            assert (await asking.post("/search", json={"corpus": "notes", "query": "keys"})).status_code == 429
            assert (await asking.get("/healthz")).status_code == 200
        assert (await asking.post("/search", json={"corpus": "notes", "query": "keys"})).status_code == 200


class Breaking(OwnStore):
    """A store that fails in its own way."""

    capabilities = frozenset({"records"})

    async def records(self, request):
        raise OSError(f"the disk at /dev/secret is gone, and with it {len(request.ids)} records")


async def test_a_store_with_errors_of_its_own_is_not_ready_and_the_others_are_listed():
    async with notes() as one, client(app([one, Corpus("broken", Breaking(), one.embedder)])) as asking:
        ready, listed = await asking.get("/readyz"), await asking.get("/corpora")
        states = {name: state["status"] for name, state in ready.json()["corpora"].items()}
        assert (ready.status_code, states) == (503, {"notes": "ok", "broken": "failed"})
        assert "secret" not in ready.text
        assert (listed.status_code, len(listed.json()["corpora"])) == (200, 2)


async def test_a_corpus_that_hangs_is_not_ready_and_is_asked_once_by_many(monkeypatch):
    monkeypatch.setattr("airw.serving.health._LONGEST_CHECK", 0.05)
    store = Hanging()
    async with notes() as one, client(app([Corpus("slow", store, one.embedder)])) as asking:
        answers = []

        async def ask():
            answers.append(await asking.get("/readyz"))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(ask)
        assert [answer.status_code for answer in answers] == [503] * 20
        assert answers[0].json()["corpora"]["slow"]["status"] == "timeout"
        assert store.calls <= 2


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_a_corpus_is_ready_once_it_is_built(tmp_path):
    file = tmp_path / "notes.airw"
    async with client(app({"notes": file})) as asking:
        assert (await asking.get("/readyz")).status_code == 503
        async with build(from_mapping({"a": "keys"}, name="notes", embedder="light"), store=file):
            pass
        with anyio.fail_after(PATIENCE):
            while (await asking.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - a check counts for a second
                await anyio.sleep(0.05)


@pytest.mark.asyncio_only
async def test_a_corpus_that_opens_slowly_becomes_ready_though_each_check_gives_up(tmp_path, monkeypatch):
    file, may_open, openings = tmp_path / "notes.airw", anyio.Event(), []

    async def open_late(name, place):
        openings.append(name)
        await may_open.wait()
        return await open_corpus(place)

    monkeypatch.setattr("airw.serving.corpora._open", open_late)
    monkeypatch.setattr("airw.serving.health._LONGEST_CHECK", 0.01)
    monkeypatch.setattr("airw.serving.health._FRESH", 0.0)
    async with build(from_mapping({"a": "keys"}, name="notes", embedder="light"), store=file):
        pass
    async with client(app({"notes": file})) as asking:
        for _ in range(3):
            answer = await asking.get("/readyz")
            assert (answer.status_code, answer.json()["corpora"]["notes"]["status"]) == (503, "timeout")
        may_open.set()
        assert (await asking.post("/search", json={"corpus": "notes", "query": "keys"})).status_code == 200
        monkeypatch.setattr("airw.serving.health._LONGEST_CHECK", 60.0)
        assert (await asking.get("/readyz")).status_code == 200
    assert openings == ["notes"]


async def test_a_server_that_stops_leaves_no_opening(tmp_path, monkeypatch):
    begun, ended = anyio.Event(), []

    async def open_never(name, place):
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(name)

    monkeypatch.setattr("airw.serving.corpora._open", open_never)
    answers = []

    async def search(asking):
        answers.append(await asking.post("/search", json={"corpus": "notes", "query": "keys"}))

    async with anyio.create_task_group() as tasks:
        async with client(app({"notes": tmp_path / "notes.airw"})) as asking:
            tasks.start_soon(search, asking)
            await begun.wait()
        assert ended == ["notes"]
    assert (answers[0].status_code, answers[0].json()["error"]) == (503, "AirwError")

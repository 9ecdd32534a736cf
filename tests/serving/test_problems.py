"""Errors as answers: what a client learns, and what stays in the log."""

import logging

import anyio
import pytest

from airw import errors
from airw.corpora import Corpus
from airw.protocols import CAPABILITIES
from airw.serving import app
from airw.serving.problems import describe_problem, status_of
from airw.stores import OwnStore
from tests.support.served import client, notes, serve_notes
from tests.support.virtual_time import on_virtual_clock

OF_NO_REQUEST = {"AirwError", "ChatBudgetSpent", "ChatError", "ChatUnavailable", "UnknownFieldWarning"}


@pytest.mark.parametrize("name", sorted(set(errors.__all__) - OF_NO_REQUEST))
def test_each_error_of_the_library_has_a_status_and_its_name(name):
    problem = describe_problem(getattr(errors, name)("why\nand\x1b[2J how"))
    assert problem["status"] != 500
    assert problem["error"] == name
    assert problem["detail"] == r"why and\u001b[2J how"


def test_a_message_is_bounded():
    assert len(describe_problem(errors.ArgumentError("x" * 10_000))["detail"]) == 500


def test_an_unexpected_error_has_no_details():
    assert describe_problem(ZeroDivisionError("secret")) == {
        "error": "AirwError",
        "status": 500,
        "detail": "the server failed; its log says why",
    }
    assert status_of(errors.AirwError("secret")) == 500


class Failing(OwnStore):
    """A store that fails as no store should."""

    capabilities = CAPABILITIES

    async def read(self, *requests):
        raise ZeroDivisionError("a secret")


async def test_an_unexpected_error_is_logged_once_with_its_traceback(caplog):
    async with notes() as one, client(app([Corpus("broken", Failing(), one.embedder)])) as asking:
        with caplog.at_level(logging.ERROR, logger="airw.serving"):
            answer = await asking.post("/search", json={"corpus": "broken", "query": "keys"})
        assert answer.status_code == 500
        assert "secret" not in answer.text
        [record] = [each for each in caplog.records if each.name == "airw.serving"]
        assert record.exc_info[0] is ZeroDivisionError


async def test_a_request_of_a_client_is_no_error_of_the_log(caplog):
    async with serve_notes() as asking:
        with caplog.at_level(logging.ERROR, logger="airw.serving"):
            assert (await asking.post("/search", json={"corpus": "other", "query": "keys"})).status_code == 404
            assert (await asking.post("/search", json={"corpus": "notes", "query": ""})).status_code == 400
        assert caplog.records == []


class Waiting(OwnStore):
    """A store that never answers, and counts the calls that were stopped."""

    capabilities = CAPABILITIES
    stopped = 0

    async def read(self, *requests):
        try:
            await anyio.sleep_forever()
        finally:
            self.stopped += 1


@pytest.mark.parametrize(
    ("method", "path", "fields"),
    [("POST", "/search", {"query": "keys", "mode": "lexical"}), ("GET", "/artifact", {"id": "a"})],
)
@on_virtual_clock
async def test_a_deadline_stops_the_work_and_is_answered_504(method, path, fields):
    store = Waiting()
    async with notes() as one, client(app([Corpus("slow", store, one.embedder)])) as asking:
        fields = {"corpus": "slow", "timeout": 0.02, **fields}
        sent = {"params": fields} if method == "GET" else {"json": fields}
        answer = await asking.request(method, path, **sent)
        assert (answer.status_code, store.stopped) == (504, 1)
        assert answer.json()["detail"].startswith("the request took longer than 0.02 seconds")

"""The OpenAPI document: complete, true, and without anything of the operator."""

import json
import re

import anyio
import pytest
from jsonschema import Draft202012Validator
from starlette.routing import Route

from airw import errors
from airw.serving import ServingLimits, Token, app
from airw.serving.openapi import OPERATIONS
from airw.serving.problems import status_of
from tests.support.event_streams import parse_events
from tests.support.served import client, notes, serve_notes

pytestmark = pytest.mark.asyncio_only  # what a document says does not depend on the event loop

JSON, EVENTS = "application/json", "text/event-stream"
LABELS = [f"{operation.method.upper()} {operation.path}" for operation in OPERATIONS]
WALK = {"corpus": "notes", "query": "signing keys", "node_budget": 1}
TOKEN = "correct-horse-battery"


async def read_document(**options):
    async with serve_notes(**options) as asking:
        return (await asking.get("/openapi.json")).json()


@pytest.fixture(scope="module")
def document():
    return anyio.run(read_document)


def operations_of(document):
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_each_operation_has_an_id_of_its_own(document):
    names = [operation["operationId"] for operation in operations_of(document).values()]
    assert len({*names}) == len(names)


def test_each_reference_leads_somewhere(document):
    names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert names <= document["components"]["schemas"].keys()
    assert '"#/$defs' not in json.dumps(document)


def test_the_document_has_each_endpoint_and_no_others(document):
    routes = [route for route in app(["notes"]).routes if isinstance(route, Route)]
    served = {
        f"{method} {route.path}" for route in routes for method in route.methods - {"HEAD"} if route.path[1:5] != "page"
    }
    assert operations_of(document).keys() == served - {"GET /"}


def test_each_error_of_the_library_has_a_status_in_the_document(document):
    described = {status for operation in operations_of(document).values() for status in operation["responses"]}
    statuses = {status_of(getattr(errors, name)("no")) for name in errors.__all__ if not name.endswith("Warning")}
    assert {str(status) for status in statuses} <= described


def test_fields_have_words_and_requests_have_examples(document):
    for label, operation in operations_of(document).items():
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description") or parameter["in"] == "path", label
        for body in operation.get("requestBody", {"content": {}})["content"].values():
            assert body["example"], label
            assert all("description" in field for field in body["schema"]["properties"].values()), label


async def test_the_document_names_no_corpus_and_no_folder(tmp_path):
    async with notes(name="salaries") as corpus, client(app([corpus], roots=[tmp_path])) as asking:
        text = (await asking.get("/openapi.json")).text
    assert "salaries" not in text
    assert str(tmp_path) not in text


async def test_a_server_with_tokens_says_so_and_shows_the_document_to_everybody():
    tokens = [Token(value=TOKEN)]
    async with notes() as corpus, client(app([corpus], tokens=tokens)) as asking:
        document = (await asking.get("/openapi.json")).json()
        assert (await asking.post("/search", json={})).status_code == 401
    assert document["security"] == [{"token": []}]
    assert document["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}
    assert "401" in operations_of(document)["POST /search"]["responses"]
    assert operations_of(document)["GET /healthz"]["security"] == []
    assert TOKEN not in json.dumps(document)


async def test_each_request_needs_a_token_as_described():
    async with notes() as corpus, client(app([corpus], tokens=[Token(value=TOKEN)])) as asking:
        document = (await asking.get("/openapi.json")).json()
        for label, operation in operations_of(document).items():
            method, path = label.split()
            answer = await asking.request(method, path.format(method="ledger"), json={})
            needs_token = operation.get("security", document["security"]) != []
            assert (answer.status_code == 401, "401" in operation["responses"]) == (needs_token, needs_token), label


async def test_a_server_without_tokens_asks_for_none():
    document = await read_document()
    assert document["security"] == []
    assert "401" not in operations_of(document)["POST /search"]["responses"]


async def test_the_bounds_are_those_of_the_server():
    document = await read_document(limits=ServingLimits(max_k=7))
    body = operations_of(document)["POST /search"]["requestBody"]["content"][JSON]
    assert body["schema"]["properties"]["k"]["maximum"] == 7


def validate(value, schema, document):
    Draft202012Validator({**schema, "components": document["components"]}).validate(value)


@pytest.mark.parametrize("label", LABELS)
async def test_each_example_is_answered_as_described(label, document):
    method, path = label.split()
    operation = operations_of(document)[label]
    body = operation.get("requestBody", {}).get("content", {}).get(JSON, {}).get("example")
    query = {each["name"]: each["example"] for each in operation.get("parameters", ()) if "example" in each}
    async with serve_notes(writable=["notes"]) as asking:
        if body and "continue" in body:
            walk = await asking.post("/traverse", json={**WALK, "hold": True})
            body["continue"] = parse_events(walk.content)[-1].data["continue"]
        answer = await asking.request(method, path.format(method="ledger"), json=body, params=query)
    assert answer.status_code == 200, answer.text
    media_type = answer.headers["content-type"].partition(";")[0]
    described = operation["responses"]["200"]["content"][media_type]["schema"]
    if media_type == JSON:
        validate(answer.json(), described, document)
    elif media_type == EVENTS:
        events = [
            dict(line.split(": ", 1) for line in frame.split("\n")) for frame in answer.text.strip().split("\n\n")
        ]
        for event in events:
            validate(event, described, document)
        validate(json.loads(events[-1]["data"]), document["components"]["schemas"]["WalkSummary"], document)


@pytest.mark.parametrize("label", LABELS)
async def test_an_error_is_answered_as_described(label, document):
    method, path = label.split()
    operation = operations_of(document)[label]
    async with serve_notes(writable=["notes"]) as asking:
        if "400" in operation["responses"]:
            answer = await asking.request(method, path.format(method="ledger"), json={"no": 1}, params={"no": "1"})
            assert answer.status_code == 400
        else:
            answer = await asking.request("PATCH", path)
            assert answer.status_code == 405
    content = operation["responses"][str(answer.status_code)]["content"]
    ((media_type, described),) = content.items()
    assert answer.headers["content-type"] == media_type
    validate(answer.json(), described["schema"], document)

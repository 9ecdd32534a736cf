"""schemathesis asks a real server what its document allows, and what it forbids."""

import copy
from collections import Counter
from contextlib import suppress
from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from airw.serving import app
from airw.serving.openapi import OPERATIONS
from tests.support.served import NOTES, notes
from tests.support.serving import serve
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::airw.errors.UnknownFieldWarning")]

LABELS = [(operation.method.upper(), operation.path) for operation in OPERATIONS]
EXAMPLES = 20
# All but one of the checks of an answer: a valid request may be refused, because it names what is not there.
CHECKED = (
    "content_type_conformance",
    "negative_data_rejection",
    "not_a_server_error",
    "response_headers_conformance",
    "response_schema_conformance",
    "status_code_conformance",
    "unsupported_method",
)


async def build():
    async with notes() as corpus:  # in memory: closing it changes nothing
        return corpus


@pytest.fixture(scope="module")
def server():
    with serve(app([anyio.run(build)], writable=["notes"])) as server:
        yield server


@pytest.fixture(scope="module")
def schema(server):
    import schemathesis

    document = httpx.get(f"{server.url}/openapi.json").json()
    schemathesis.openapi.from_dict(copy.deepcopy(document)).validate()
    choose(document, ("corpus", "corpora"), ["notes"])
    choose(document, ("id", "start", "end", "roots"), sorted(NOTES), of=("get",))
    choose(document, ("query",), ["keys", "bread"], of=("get",))
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=server.url)
    return schema


def choose(document, names, values, of=("get", "post", "put", "delete")):
    """Allow a few values of fields only; else requests seldom get to what is behind them."""
    for methods in document["paths"].values():
        for operation in [methods[method] for method in of if method in methods]:
            fields = {each["name"]: each["schema"] for each in operation.get("parameters", ())}
            for body in operation.get("requestBody", {"content": {}})["content"].values():
                fields |= body["schema"]["properties"]
            for name in fields.keys() & {*names}:
                fields[name].get("items", fields[name])["enum"] = values


def is_short(seconds):
    """Return whether a client asks for an answer in less time than a busy machine may need."""
    with suppress(TypeError, ValueError):
        return seconds is not None and float(seconds) < PATIENCE
    return False


def ask(operation, mode, checks, count):
    """Send requests, check the answers, and count their statuses."""
    statuses = Counter()

    @settings(max_examples=count, phases=[Phase.generate], database=None, suppress_health_check=[*HealthCheck])
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case):
        answer = case.call()
        statuses[answer.status_code] += 1
        fields = dict(parse_qsl(urlsplit(answer.request.url).query))
        fields |= case.body if isinstance(case.body, dict) else {}
        if not any(is_short(fields.get(name)) for name in ("timeout", "source_timeout")):
            case.validate_response(answer, checks=checks)
        assert answer.status_code != 500

    run()
    return statuses


@pytest.mark.parametrize(("method", "path"), LABELS)
def test_a_server_keeps_to_its_document(schema, method, path):
    from schemathesis import GenerationMode
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    checks, operation = [CHECKS.get_one(name) for name in CHECKED], schema[path][method]
    has_fields = bool(operation.body or operation.query)
    expected = 200 if path != "/traverse/continue" else 410  # no token is drawn
    allowed = ask(operation, GenerationMode.POSITIVE, checks, EXAMPLES if has_fields else 3)
    # Of the values that the document allows, few fit each other: of the walks that are drawn, one in ten begins.
    for _ in range(9):
        if not allowed[expected]:
            allowed += ask(operation, GenerationMode.POSITIVE, checks, EXAMPLES)
    assert allowed[expected] > 0, allowed
    if has_fields:
        forbidden = ask(operation, GenerationMode.NEGATIVE, checks, EXAMPLES)
        assert forbidden[400] > 0, forbidden

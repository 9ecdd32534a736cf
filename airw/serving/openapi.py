"""The endpoint `GET /openapi.json`: all requests and answers of a server, for programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from types import NoneType
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from airw._base.json import dump_json
from airw.protocols.wire import EVENT_STREAM, JSON_TYPE
from airw.serving import artifacts, catalogue, finding, links, store_calls, walks
from airw.serving.api_schemas import ApiSchema, describe_answers, describe_fields, refer_to
from airw.serving.bodies import FieldKinds
from airw.serving.event_streams import END, MOST_DIGITS
from airw.serving.problems import MEDIA_TYPE
from airw.serving.service import Service

_TYPES: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    NoneType: "null",
}
_ERRORS: Mapping[int, str] = {
    400: "The request is malformed, or beyond a limit of the server.",
    401: "A valid token is needed.",
    403: "The token, or the site that asks, is not allowed to do this.",
    404: "There is no such corpus or artifact, or the caller may not see it.",
    405: "The path has no such method.",
    408: "The body did not arrive in time.",
    409: "Another writer is busy; try again.",
    410: "The server does not hold this walk, or no longer; start another one with the larger limits.",
    413: "The body or the answer is too large.",
    421: "The server does not answer under this host name.",
    429: "The server has too much to do; try again later.",
    500: "The server failed; its log says why.",
    502: "An embedder, a reranker or all corpora failed.",
    503: "A store, a model or the server itself is not there.",
    504: "The request took too long.",
}
_LAST_EVENT: ApiSchema = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last event that was received; the answer goes on after it.",
    "schema": {"type": "string", "pattern": f"^({END}|[0-9]{{0,{MOST_DIGITS}}})$"},
}
_EVENTS_TEXT = (
    "The last event is `summary`, whose data is a `WalkSummary`, or `error`, whose data is a `Problem`. "
    "With the header `x-vercel-ai-ui-message-stream: v1`, the events are those of that protocol."
)
_RETRY: ApiSchema = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 0}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOperation:
    """A request and its answer, for the document.

    Args:
        method: The method.
        path: The path.
        summary: What it does, on one line.
        fields: The fields and their types.
        required: The fields that must be there.
        answers: The names of schemas of the answer, by media type. `""` is no schema.
        example: The fields of an example.
        is_open: True if it needs no token.
        writes: True if it changes a corpus.
        one_of: Fields of which exactly one must be there.
        others: Other statuses with their descriptions; their answers are as those of 200.
        is_stream: True if it answers with events, and takes the header `Last-Event-ID`.
        goes_on: True if it goes on with a walk that the server holds.
    """

    method: str
    path: str
    summary: str
    fields: FieldKinds
    required: tuple[str, ...] = ()
    answers: Mapping[str, str]
    example: Mapping[str, Any] | None = None
    is_open: bool = False
    writes: bool = False
    one_of: tuple[str, ...] = ()
    others: Mapping[int, str] | None = None
    is_stream: bool = False
    goes_on: bool = False


_CORPUS = {"corpus": "notes"}
_WALK = {**_CORPUS, "query": "rotate the signing keys", "policy": "path-coverage", "node_budget": 32}
_SEARCH = {**_CORPUS, "query": "rotate the signing keys", "k": 5}
_ARTIFACT = {**_CORPUS, "id": "keys.md"}

OPERATIONS: tuple[ApiOperation, ...] = (
    ApiOperation(
        method="post",
        path="/search",
        summary="Search a corpus; the hits come best first.",
        fields=finding.SEARCH_FIELDS,
        required=("corpus", "query"),
        answers={JSON_TYPE: "SearchAnswer"},
        example=_SEARCH,
    ),
    ApiOperation(
        method="post",
        path="/discover",
        summary="Find the few artifacts of one or several corpora that answer a query, or abstain.",
        fields=finding.DISCOVER_FIELDS,
        required=("query",),
        one_of=("corpus", "corpora"),
        answers={JSON_TYPE: "Discovery", EVENT_STREAM: "DiscoveryEvent"},
        example={"corpora": ["notes"], "query": "rotate the signing keys"},
    ),
    ApiOperation(
        method="post",
        path="/traverse",
        summary="Walk a corpus; each hit is sent as soon as it is found, as a server-sent event.",
        fields=walks.TRAVERSE_FIELDS,
        required=("query",),
        one_of=("corpus", "corpora"),
        answers={EVENT_STREAM: "WalkEvent"},
        example=_WALK,
        is_stream=True,
    ),
    ApiOperation(
        method="get",
        path="/traverse",
        summary="Walk a corpus, as `POST /traverse` does, for an `EventSource`.",
        fields=walks.TRAVERSE_FIELDS,
        required=("query",),
        answers={EVENT_STREAM: "WalkEvent"},
        example=_WALK,
        is_stream=True,
    ),
    ApiOperation(
        method="post",
        path="/traverse/continue",
        summary="Go on with a walk that ended at a limit, with larger limits; only the further events are sent.",
        fields=walks.CONTINUE_FIELDS,
        required=("continue",),
        answers={EVENT_STREAM: "WalkEvent"},
        example={"continue": "the-token-of-the-summary", "node_budget": 64},
        is_stream=True,
        goes_on=True,
    ),
    ApiOperation(
        method="get",
        path="/artifact",
        summary="Read an artifact: its records, its ledger entry and its links.",
        fields=artifacts.READ_FIELDS,
        required=("corpus", "id"),
        answers={JSON_TYPE: "Artifact"},
        example=_ARTIFACT,
    ),
    ApiOperation(
        method="put",
        path="/artifact",
        summary="Insert an artifact, or replace the one with this id.",
        fields=artifacts.PUT_FIELDS,
        required=("corpus", "id", "value"),
        answers={JSON_TYPE: "Change"},
        example={**_ARTIFACT, "value": "Rotate the signing keys every month."},
        writes=True,
    ),
    ApiOperation(
        method="delete",
        path="/artifact",
        summary="Delete an artifact, if it is there.",
        fields=artifacts.DELETE_FIELDS,
        required=("corpus", "id"),
        answers={JSON_TYPE: "Deletion"},
        example=_ARTIFACT,
        writes=True,
    ),
    ApiOperation(
        method="get",
        path="/tree",
        summary="Walk along links from some artifacts.",
        fields=links.TREE_FIELDS,
        required=("corpus", "roots"),
        answers={JSON_TYPE: "Tree"},
        example={**_CORPUS, "roots": ["keys.md"], "max_hops": 2},
    ),
    ApiOperation(
        method="get",
        path="/path",
        summary="Find the shortest path along links between two artifacts.",
        fields=links.PATH_FIELDS,
        required=("corpus", "start", "end"),
        answers={JSON_TYPE: "Path"},
        example={**_CORPUS, "start": "keys.md", "end": "bread.md"},
    ),
    ApiOperation(
        method="get",
        path="/corpora",
        summary="List the corpora that the caller may read, the policies and the limits.",
        fields=catalogue.CORPORA_FIELDS,
        answers={JSON_TYPE: "Catalogue"},
    ),
    ApiOperation(
        method="post",
        path="/store/describe",
        summary="Describe a corpus to a program that will call its store.",
        fields=store_calls.DESCRIBE_FIELDS,
        required=("corpus",),
        answers={JSON_TYPE: "StoreDescription"},
        example=_CORPUS,
    ),
    ApiOperation(
        method="post",
        path="/store/read",
        summary="Ask the store of a corpus several requests at once, as `airw.remote` does.",
        fields=store_calls.READ_FIELDS,
        required=("corpus", "requests"),
        answers={JSON_TYPE: "StoreAnswers"},
        example={**_CORPUS, "requests": [{"ask": "RecordsOf", "artifact_ids": ["keys.md"]}]},
    ),
    ApiOperation(
        method="post",
        path="/stores/read",
        summary="Ask the stores of several corpora at once.",
        fields=store_calls.STORES_FIELDS,
        required=("messages",),
        answers={JSON_TYPE: "StoresAnswers"},
        example={"messages": [{**_CORPUS, "requests": [{"ask": "Counts"}]}]},
    ),
    ApiOperation(
        method="post",
        path="/embed",
        summary="Embed a query, or texts, with the embedder of a corpus.",
        fields=store_calls.EMBED_FIELDS,
        required=("corpus",),
        one_of=("query", "texts"),
        answers={JSON_TYPE: "Embedding"},
        example={**_CORPUS, "query": "rotate the signing keys"},
    ),
    ApiOperation(
        method="get",
        path="/healthz",
        summary="Report that the process runs.",
        fields={},
        answers={JSON_TYPE: "Alive"},
        is_open=True,
    ),
    ApiOperation(
        method="get",
        path="/readyz",
        summary="Report whether each corpus opens and answers a read.",
        fields={},
        answers={JSON_TYPE: "Ready"},
        is_open=True,
        others={503: "At least one corpus does not."},
    ),
    ApiOperation(
        method="get",
        path="/metrics",
        summary="Return the numbers of the server in the text format of Prometheus.",
        fields={},
        answers={"text/plain": ""},
    ),
    ApiOperation(
        method="get",
        path="/openapi.json",
        summary="Return this document.",
        fields={},
        answers={JSON_TYPE: ""},
        is_open=True,
    ),
)
"""All requests that a server answers, its page left out."""


def openapi_route(service: Service) -> Route:
    """Return the route of `GET /openapi.json`, which needs no token."""
    encode = cache(lambda: dump_json(describe_api(service)).encode())

    async def answer(_: Request) -> Response:
        return Response(encode(), media_type=JSON_TYPE)

    return Route("/openapi.json", answer, methods=["GET"])


def describe_api(service: Service) -> ApiSchema:
    """Return the OpenAPI document of a server, with its own limits."""
    fields = describe_fields(service.limits)
    paths: dict[str, ApiSchema] = {}
    for operation in OPERATIONS:
        describe = partial(_describe_operation, operation, fields, service)
        paths.setdefault(operation.path, {})[operation.method] = describe()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "airw",
            "version": version("airw"),
            "description": "Search, discover and walk corpora. An error is a problem in JSON, with its class.",
        },
        "paths": paths,
        "components": {
            "schemas": describe_answers(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}] if service.access.needs_token else [],
    }


def _describe_operation(operation: ApiOperation, fields: Mapping[str, ApiSchema], service: Service) -> ApiSchema:
    described: ApiSchema = {
        "operationId": _name_operation(operation),
        "summary": operation.summary,
        "responses": _describe_responses(operation, needs_token=service.access.needs_token),
    }
    if operation.is_open:
        described["security"] = []
    if operation.is_stream:
        described["description"] = _EVENTS_TEXT
    described["parameters"] = _describe_parameters(operation, fields)
    if operation.method in ("post", "put"):
        described["requestBody"] = {"required": True, "content": {JSON_TYPE: _describe_body(operation, fields)}}
    return described


def _describe_parameters(operation: ApiOperation, fields: Mapping[str, ApiSchema]) -> list[ApiSchema]:
    parameters = [_LAST_EVENT] if operation.is_stream else []
    if operation.method in ("get", "delete"):
        for name, kinds in operation.fields.items():
            schema = _schema_of(kinds, fields.get(name, {}), is_text=True)
            parameters.append(_describe_parameter(operation, name, schema))
    return parameters


def _name_operation(operation: ApiOperation) -> str:
    """Return an id such as `getArtifact`, after which generators of clients name functions."""
    words = "".join(part.capitalize() for part in operation.path.replace(".", "/").split("/") if part.isalpha())
    return f"{operation.method}{words}"


def _describe_body(operation: ApiOperation, fields: Mapping[str, ApiSchema]) -> ApiSchema:
    schema: ApiSchema = {
        "type": "object",
        "properties": {name: _schema_of(kinds, fields.get(name, {})) for name, kinds in operation.fields.items()},
        "required": list(operation.required),
        "additionalProperties": False,
    }
    if operation.one_of:
        schema["oneOf"] = [{"required": [name]} for name in operation.one_of]
    return {"schema": schema, "example": dict(operation.example or {})}


def _describe_parameter(operation: ApiOperation, name: str, schema: ApiSchema) -> ApiSchema:
    parameter: ApiSchema = {"name": name, "in": "query", "required": name in operation.required}
    if "description" in schema:
        parameter["description"] = schema.pop("description")
    if operation.example and name in operation.example:
        parameter["example"] = operation.example[name]
    return {**parameter, "schema": schema}


def _schema_of(kinds: type | tuple[type, ...], words: ApiSchema, *, is_text: bool = False) -> ApiSchema:
    """Return the schema of a field.

    Args:
        kinds: Its types.
        words: Its words and bounds.
        is_text: Whether it is in a query string, which has no null, and an object only as JSON.
    """
    every = kinds if isinstance(kinds, tuple) else (kinds,)
    if is_text:
        words = {key: value for key, value in words.items() if key not in _OF_OBJECTS}
        every = tuple(kind for kind in every if kind not in (dict, NoneType)) or (str,)
    types = [_TYPES[kind] for kind in every]
    schema = {**words, "type": types[0] if len(types) == 1 else types}
    if "enum" in words and NoneType in every:
        schema["enum"] = [*words["enum"], None]
    return schema


_OF_OBJECTS = {"anyOf", "examples", "properties", "additionalProperties"}


def _describe_responses(operation: ApiOperation, *, needs_token: bool) -> ApiSchema:
    content = {kind: {"schema": refer_to(name) if name else {}} for kind, name in operation.answers.items()}
    for kind, name in operation.answers.items():
        if not name:
            content[kind] = {"schema": {"type": "object" if kind == JSON_TYPE else "string"}}
    responses: ApiSchema = {"200": {"description": "The answer.", "content": content}}
    for status, description in (operation.others or {}).items():
        responses[str(status)] = {"description": description, "content": content}
    if operation.is_stream:
        responses["204"] = {"description": "The client has read this walk to its end (`Last-Event-ID: end`)."}
    problem = {MEDIA_TYPE: {"schema": refer_to("Problem")}}
    for status in _errors_of(operation, needs_token=needs_token):
        headers = {"headers": _RETRY} if status in (409, 429) else {}
        responses.setdefault(str(status), {"description": _ERRORS[status], **headers, "content": problem})
    return responses


def _errors_of(operation: ApiOperation, *, needs_token: bool) -> list[int]:
    """Return the statuses of the errors that a request may get."""
    statuses = {403, 405, 421}
    if needs_token and not operation.is_open:
        statuses.add(401)
    if operation.fields == {}:  # it ignores all fields, and waits for no other request
        return sorted(statuses)
    statuses |= {400, 404, 413, 429, 500, 502, 503, 504}
    if operation.method in ("post", "put"):
        statuses.add(408)
    if operation.writes:
        statuses.add(409)
    if operation.goes_on:
        statuses.add(410)
    return sorted(statuses)

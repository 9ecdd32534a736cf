"""HTTP: what each route answers, its streams, rights and limits, and its description.

A row is a request. Its value has the status, the media type and the JSON, or of a wrong request the class of the error
and the name that its message must contain.
"""

import json
import re
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import httpx
from sniffio import current_async_library

from airw import build, from_jsonl, from_notes
from airw.serving import ServingLimits, Token, app
from airw.stores import MemoryStore
from tests.support.dozen import write_library
from tests.support.event_streams import parse_events
from tests.support.plain_answers import brief, find_name, plain
from tests.support.served import client
from tests.support.served_corpora import make_chain
from tests.support.serving import serve

PARTS = ("access", "held", "limits", "openapi", "requests", "store", "streams", "wrong")
WAYS = ("asyncio", "trio")

KEYS = "rotate signing keys"
NOTES = {"corpus": "notes", "query": KEYS}
BOTH = {"corpora": ["notes", "manuals"], "query": KEYS}
EVENTS = {"accept": "text/event-stream"}
UI_MESSAGES = {"x-vercel-ai-ui-message-stream": "v1"}
HEADERS = (
    "retry-after",
    "www-authenticate",
    "allow",
    "location",
    "access-control-allow-origin",
    "access-control-allow-methods",
)

REQUESTS = [
    ("POST /search", {**NOTES, "k": 3}),
    *(("POST /search", {**NOTES, "k": 3, "mode": mode}) for mode in ("dense", "lexical")),
    *(("POST /search", {**NOTES, "k": 3, "fusion": fusion}) for fusion in ("ranks", "blend", "rrf")),
    ("POST /search", {**NOTES, "k": 3, "fusion": "blend", "alpha": 0.2}),
    ("POST /search", {**NOTES, "k": 3, "filter": {"status": "Final"}}),
    ("POST /search", {**NOTES, "k": 3, "surfaces": ["chunk"]}),
    ("POST /search", {**NOTES, "k": 4, "mode": "dense", "per_artifact": False}),
    ("POST /search", {**NOTES, "k": 0}),
    ("POST /search", {"corpus": "manuals", "query": "zzz", "mode": "lexical"}),
    ("POST /discover", NOTES),
    ("POST /discover", {**NOTES, "strategy": "top_k", "max_k": 3}),
    ("POST /discover", {**NOTES, "min_score": 0.9}),
    ("POST /discover", {**NOTES, "max_k": 1, "disclose_level": "body"}),
    ("POST /discover", {**NOTES, "max_k": 1, "walk": True}),
    ("POST /discover", {**NOTES, "mode": "lexical", "query": "zzz"}),
    ("POST /discover", BOTH),
    ("POST /discover", {**BOTH, "merge": "rrf", "strategy": "top_k", "max_k": 4}),
    ("GET /artifact?corpus=notes&id=keys.md", None),
    ("GET /artifact?corpus=notes&id=keys.md&level=metadata", None),
    ("GET /artifact?corpus=notes&id=keys.md&level=body", None),
    ("GET /artifact?corpus=notes&id=keys.md&level=bundled", None),
    ("GET /artifact?corpus=manuals&id=m1", None),
    ("HEAD /artifact?corpus=manuals&id=m1", None),
    ("GET /tree?corpus=notes&roots=index.md&max_hops=1", None),
    ("GET /tree?corpus=notes&roots=keys.md&direction=out&types=supports&types=related", None),
    ("GET /tree?corpus=notes&roots=lone.md&roots=food/soup.md&direction=out", None),
    ("GET /tree?corpus=notes&roots=index.md&max_nodes=2", None),
    ("GET /tree?corpus=notes&roots=keys.md&origins=typed&weighted=true", None),
    ("GET /path?corpus=notes&start=index.md&end=food/soup.md", None),
    ("GET /path?corpus=notes&start=index.md&end=vault.md&direction=out&max_hops=1", None),
    ("GET /path?corpus=notes&start=index.md&end=lone.md", None),
    ("GET /corpora", None),
    ("GET /healthz", None),
    ("GET /readyz", None),
    ("PUT /artifact", {"corpus": "manuals", "id": "m5", "value": "Manual of the kettle."}),
    ("PUT /artifact", {"corpus": "manuals", "id": "m5", "value": "Manual of the kettle."}),
    ("PUT /artifact", {"corpus": "manuals", "id": "m5", "value": {"text": "Manual of the pot.", "year": 2024}}),
    ("POST /search", {"corpus": "manuals", "query": "pot", "k": 1}),
    ("DELETE /artifact?corpus=manuals&id=m5", None),
    ("DELETE /artifact?corpus=manuals&id=m5", None),
]

# A wrong request, and what the message of its answer must name.
WRONG = [
    ("POST /search", {}, "corpus"),
    ("POST /search", {"corpus": "notes"}, "query"),
    ("POST /search", {"corpus": "nots", "query": "keys"}, "nots"),
    ("POST /search", {**NOTES, "kk": 3}, "kk"),
    ("POST /search", {**NOTES, "k": "ten"}, "k"),
    ("POST /search", {**NOTES, "k": -1}, "k"),
    ("POST /search", {**NOTES, "k": 2000}, "k"),
    ("POST /search", {**NOTES, "mode": "fuzzy"}, "mode"),
    ("POST /search", {**NOTES, "fusion": "sum"}, "fusion"),
    ("POST /search", {**NOTES, "alpha": 2}, "alpha"),
    ("POST /search", {**NOTES, "filter": {"a": {"$near": 1}}}, "$near"),
    ("POST /search", {**NOTES, "filter": [1]}, "filter"),
    ("POST /search", {**NOTES, "filter": {"path": "/etc"}}, "path"),
    ("POST /search", {**NOTES, "surfaces": ["tables"]}, "tables"),
    ("POST /search", {**NOTES, "rerank": "bm25"}, "rerank"),
    ("POST /search", {**NOTES, "timeout": -1}, "timeout"),
    ("POST /search", {**NOTES, "query": " "}, "query"),
    ("POST /search", {**NOTES, "query": "x" * 10_001}, "query"),
    ("POST /search", "{", "JSON"),
    ("POST /search", "[]", "object"),
    ("POST /search", '{"k": 1, "k": 2}', "k"),
    ("POST /search", '{"k": NaN}', "NaN"),
    ("POST /search", '{"corpus": "notes", "query": "\\ud83d"}', "query"),
    ("POST /discover", {"query": "keys"}, "corpora"),
    ("POST /discover", {**NOTES, "corpora": ["notes"]}, "corpora"),
    ("POST /discover", {"corpora": ["notes", "nots"], "query": "keys"}, "nots"),
    ("POST /discover", {**NOTES, "strategy": "best"}, "strategy"),
    ("POST /discover", {**NOTES, "max_k": -1}, "max_k"),
    ("POST /discover", {**NOTES, "rel": 2}, "rel"),
    ("POST /discover", {**NOTES, "min_score": "high"}, "min_score"),
    ("POST /discover", {**NOTES, "disclose_level": "all"}, "disclose_level"),
    ("POST /discover", {**BOTH, "merge": "sum"}, "merge"),
    ("POST /discover", {**NOTES, "walk": "nope"}, "nope"),
    ("POST /traverse", {"corpus": "notes"}, "query"),
    ("POST /traverse", {**NOTES, "policy": "nope"}, "nope"),
    ("POST /traverse", {**NOTES, "policy": {"name": "beam", "params": {"width": 0}}}, "width"),
    ("POST /traverse", {**NOTES, "policy": {"name": "beam", "params": {"height": 1}}}, "height"),
    ("POST /traverse", {**NOTES, "node_budget": 20_000}, "node_budget"),
    ("POST /traverse", {**NOTES, "node_budget": -1}, "node_budget"),
    ("POST /traverse", {**NOTES, "max_depth": 1_000}, "max_depth"),
    ("POST /traverse", {**NOTES, "limits": {"max_speed": 1}}, "max_speed"),
    ("POST /traverse", {**NOTES, "limits": {"max_fanout": -1}}, "max_fanout"),
    ("POST /traverse", {**NOTES, "best": 0}, "best"),
    ("POST /traverse", {**NOTES, "max_hits": 0}, "max_hits"),
    ("GET /traverse?corpus=notes&query=keys&node_budget=many", None, "node_budget"),
    ("GET /traverse?corpus=notes&query=keys&query=more", None, "query"),
    ("GET /traverse?corpus=nots&query=keys", None, "nots"),
    ("GET /artifact?corpus=notes", None, "id"),
    ("GET /artifact?corpus=notes&id=nope.md", None, "nope.md"),
    ("GET /artifact?corpus=notes&id=keys.md&level=all", None, "level"),
    ("PUT /artifact", {"corpus": "notes", "id": "x", "value": "x"}, "notes"),
    ("PUT /artifact", {"corpus": "manuals", "id": "x"}, "value"),
    ("PUT /artifact", {"corpus": "manuals", "value": "x"}, "id"),
    ("PUT /artifact", {"corpus": "manuals", "id": "x", "value": 7}, "value"),
    ("DELETE /artifact?corpus=manuals", None, "id"),
    ("GET /tree?corpus=notes", None, "roots"),
    ("GET /tree?corpus=notes&roots=nope.md", None, "nope.md"),
    ("GET /tree?corpus=notes&roots=keys.md&direction=up", None, "direction"),
    ("GET /tree?corpus=notes&roots=keys.md&max_hops=1000", None, "max_hops"),
    ("GET /tree?corpus=notes&roots=keys.md&origins=guessed", None, "origins"),
    ("GET /path?corpus=notes&start=keys.md", None, "end"),
    ("GET /path?corpus=notes&start=keys.md&end=nope.md", None, "nope.md"),
    ("GET /corpora?name=notes", None, "name"),
    ("POST /embed", {"corpus": "notes"}, "texts"),
    ("POST /store/describe", {}, "corpus"),
    ("POST /store/fly", {"corpus": "notes"}, None),
    ("POST /store/read", {"corpus": "notes"}, "requests"),
    ("POST /stores/read", {"messages": []}, "messages"),
    ("POST /store/read", {"corpus": "notes", "requests": [{"ask": "Fly"}]}, "Fly"),
    ("POST /store/read", {"corpus": "notes", "requests": [{"ask": "Ledger"}]}, "ids"),
    ("POST /store/read", {"corpus": "notes", "requests": [{"ask": "Rank", "queries": ["keys"], "k": -1}]}, "k"),
    ("GET /search", None, None),
    ("POST /corpora", {}, None),
    ("GET /nothing", None, None),
    ("GET /search/", None, None),
]

STREAMS = [
    ({**NOTES, "node_budget": 4}, {}),
    ({**NOTES, "node_budget": 3, "edges": True}, {}),
    ({**NOTES, "node_budget": 4, "policy": "collapsed-tree", "routers": True}, {}),
    ({**NOTES, "node_budget": 4, "policy": {"name": "beam", "params": {"width": 2}}}, {}),
    ({**NOTES, "node_budget": 4, "best": 2}, {}),
    ({**NOTES, "max_hits": 2}, {}),
    ({**NOTES, "max_chars": 200}, {}),
    ({**NOTES, "max_tokens": 60}, {}),
    ({**NOTES, "max_depth": 0, "limits": {"max_frontier": 2}}, {}),
    ({**NOTES, "node_budget": 4, "limits": {"max_fanout": 0}}, {}),
    ({**BOTH, "node_budget": 5}, {}),
    ({**NOTES, "node_budget": 4}, {"last-event-id": "3"}),
    ({**NOTES, "node_budget": 4}, {"last-event-id": "end"}),
    ({**NOTES, "node_budget": 3}, UI_MESSAGES),
    ({**NOTES, "node_budget": 3}, {"accept": "text/event-stream; format=ui-messages"}),
    ({**NOTES, "policy": {"name": "personalized-page-rank", "params": {"roots": ["nope.md"]}}}, {}),
]
DISCOVERIES = [(NOTES, EVENTS), ({**BOTH, "strategy": "top_k", "max_k": 2}, EVENTS)]

STORE = [
    [{"ask": "Records", "ids": ["none"]}],
    [{"ask": "RecordsOf", "artifact_ids": ["keys.md", "none"], "limit": 1}],
    [{"ask": "ArtifactIds"}],
    [{"ask": "Counts"}],
    [{"ask": "TextLanguage"}],
    [{"ask": "Schema", "paths": ["status", "none"]}],
    [{"ask": "Rank", "queries": [KEYS], "k": 2}],
    [{"ask": "Words", "queries": [KEYS]}],
    [{"ask": "Edges", "ids": ["keys.md"], "direction": "out"}],
    [{"ask": "Edges", "ids": ["keys.md"], "links": {"exclude": ["related"]}, "limit": 1}],
    [{"ask": "Names", "refs": ["Signing keys", "log", "none"]}],
    [{"ask": "Referrers", "nodes": ["keys.md"]}],
    [{"ask": "MaxFanIn"}],
    [{"ask": "Matching", "wanted": [["status", "Final"]]}],
    [{"ask": "UnresolvedLinks"}],
    [{"ask": "LinkCounts"}],
    [
        {"ask": "Edges", "ids": ["keys.md"]},
        {"ask": "Fed", "request": {"ask": "RecordsOf", "artifact_ids": []}, "by": {"take": "Ends", "of": 0}},
        {"ask": "Rank", "queries": [KEYS], "k": 1},
        {"ask": "Fed", "request": {"ask": "Records", "ids": []}, "by": {"take": "Best", "of": 2, "limit": 1}},
    ],
    [],
]

ADA, BOT = "ada-0123456789abc", "bot-0123456789abc"
TOKENS = [
    Token(value=ADA, label="ada", read=["notes"], write=["manuals"]),
    Token(value=BOT, label="bot", read=["notes"]),
]
ACCESS = [
    ("nobody", "GET /corpora", None, {}),
    ("a wrong token", "GET /corpora", None, {"authorization": "Bearer wrong-0123456789"}),
    ("another scheme", "GET /corpora", None, {"authorization": "Basic YTpi"}),
    ("bot", "GET /corpora", None, {}),
    ("ada", "GET /corpora", None, {}),
    ("nobody", "GET /healthz", None, {}),
    ("nobody", "GET /readyz", None, {}),
    ("nobody", "GET /metrics", None, {}),
    ("nobody", "GET /openapi.json", None, {}),
    ("nobody", "POST /search", NOTES, {}),
    ("bot", "POST /search", {**NOTES, "k": 1}, {}),
    ("bot", "POST /search", {**NOTES, "corpus": "manuals"}, {}),
    ("bot", "POST /discover", BOTH, {}),
    ("bot", "POST /traverse", BOTH, {}),
    ("bot", "PUT /artifact", {"corpus": "notes", "id": "x", "value": "x"}, {}),
    ("bot", "PUT /artifact", {"corpus": "manuals", "id": "x", "value": "x"}, {}),
    ("ada", "PUT /artifact", {"corpus": "notes", "id": "x", "value": "x"}, {}),
    ("ada", "PUT /artifact", {"corpus": "manuals", "id": "x", "value": "x"}, {}),
    ("bot", "DELETE /artifact?corpus=manuals&id=x", None, {}),
    ("ada", "DELETE /artifact?corpus=manuals&id=x", None, {}),
    ("bot", "POST /store/read", {"corpus": "manuals", "requests": [{"ask": "Counts"}]}, {}),
    ("ada", "GET /corpora", None, {"origin": "https://app.example"}),
    ("ada", "GET /corpora", None, {"origin": "https://evil.example"}),
    ("ada", "GET /corpora", None, {"host": "kb.example"}),
]
HOSTS = [
    ({}, "GET /healthz"),
    ({"host": "kb.example"}, "GET /healthz"),
    ({"host": "evil.example"}, "GET /healthz"),
    ({"origin": "https://evil.example"}, "GET /healthz"),
    ({"origin": "https://app.example"}, "OPTIONS /search"),
    ({"origin": "https://app.example", "access-control-request-method": "POST"}, "OPTIONS /search"),
    ({"origin": "https://evil.example", "access-control-request-method": "POST"}, "OPTIONS /search"),
]

SMALL = ServingLimits(
    max_body=200, max_answer=2_000, max_nesting=4, max_query_chars=30, max_k=5, max_ids=2, max_conditions=2,
    max_node_budget=6, max_hops=2, max_corpora=1,
)  # fmt: skip
LIMITS = [
    ("POST /search", {**NOTES, "filter": {"status": "x" * 200}}, "200"),
    ("POST /search", {**NOTES, "k": 5}, "2,000"),
    ("POST /search", {**NOTES, "filter": {"$and": [{"a": {"$in": [1]}}]}}, "4"),
    ("POST /search", {**NOTES, "query": "x" * 31}, "query"),
    ("POST /search", {**NOTES, "k": 6}, "k"),
    ("POST /search", {**NOTES, "filter": {"a": {"$in": [1, 2, 3]}}}, "filter"),
    ("GET /tree?corpus=notes&roots=a&roots=b&roots=c", None, "roots"),
    ("POST /traverse", {**NOTES, "node_budget": 7}, "node_budget"),
    ("POST /traverse", {**NOTES, "max_depth": 3}, "max_depth"),
    ("GET /path?corpus=notes&start=keys.md&end=vault.md&max_hops=3", None, "max_hops"),
    ("POST /discover", BOTH, "corpora"),
    ("POST /store/read", {"corpus": "notes", "requests": [{"ask": "Ledger", "ids": ["a", "b", "c"]}]}, "2"),
]


def record(part, way, folder):
    write_library(folder)
    # httpx warns on trio of a body that the server refuses to read.
    loop = "asyncio" if part == "limits" else way
    return anyio.run(globals()[f"record_{part}"], folder, backend=loop)


@asynccontextmanager
async def serving(folder, *, over_sockets=False, **options):
    """Yield a client of a server of `notes` and `manuals`, with or without real sockets."""
    async with AsyncExitStack() as stack:
        sources = [
            from_notes(folder / "notes", embedder="light"),
            from_jsonl(folder / "manuals.jsonl", embedder="light"),
        ]
        corpora = [await stack.enter_async_context(build(source, store=MemoryStore())) for source in sources]
        application = app(corpora, **options)
        if over_sockets:
            server = stack.enter_context(serve(application))
            yield await stack.enter_async_context(httpx.AsyncClient(base_url=server.url, timeout=60))
        else:
            yield await stack.enter_async_context(client(application))


async def ask(asking, line, body=None, headers=None):
    """Send the request of a row."""
    method, _, path = line.partition(" ")
    content = body if isinstance(body, str | None) else json.dumps(body)
    fields = {"content-type": "application/json", **(headers or {})} if content else headers
    return await asking.request(method, path, content=content, headers=fields)


def name_of(line, body, headers=None):
    """Return the name of a row."""
    text = "" if body is None else f" {body if isinstance(body, str) else json.dumps(body)}"
    more = "".join(f" | {name}: {value}" for name, value in (headers or {}).items())
    return re.sub(r"x{20,}", lambda found: f"x*{len(found[0])}", f"{line}{text}{more}")


def find_free_name(name, rows):
    """Return the name of a further row of the same request, after `rows`."""
    return name if name not in rows else find_free_name(f"{name} again", rows)


def answer_row(answer, folder):
    """Return the status of an answer, its media type, the headers that matter, and its JSON."""
    row = {"status": answer.status_code, "type": answer.headers.get("content-type")}
    row |= headers_of(answer)
    if answer.content and "json" in (row["type"] or ""):
        row["json"] = plain(answer.json(), folder)
    return row


def problem_row(answer, culprit):
    """Return the status of a wrong request, its error, and the name if the message has it."""
    if answer.status_code < 300:
        return {"status": answer.status_code, "type": answer.headers["content-type"]}
    problem = answer.json()
    assert problem["status"] == answer.status_code, problem
    row = {"status": answer.status_code, "type": answer.headers["content-type"], "error": problem["error"]}
    row |= headers_of(answer)
    return row if culprit is None else {**row, "names": find_name(culprit, problem["detail"])}


def headers_of(answer):
    """Return the headers that matter; the methods in `Allow` come in any order."""
    headers = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
    return headers | {name: sorted(headers[name].split(", ")) for name in ("allow",) if name in headers}


async def record_requests(folder):
    rows = {}
    async with serving(folder, writable=["manuals"], roots=[folder / "notes"]) as asking:
        for line, body in REQUESTS:
            answer = await ask(asking, line, body)
            rows[find_free_name(name_of(line, body), rows)] = answer_row(answer, folder)
        for line in ("GET /", "GET /page/page.js", "GET /page/page.css", "GET /metrics", "GET /openapi.json"):
            rows[line] = answer_row(await ask(asking, line), folder) | {"json": "not here"}
        for line in ("GET /", "GET /corpora"):
            headers = (await ask(asking, line)).headers
            rows[f"headers of {line}"] = {name: headers[name] for name in sorted(headers) if name != "content-length"}
        metrics = (await ask(asking, "GET /metrics")).text
        rows["names in GET /metrics"] = sorted(re.findall(r"(?m)^# TYPE (.+)$", metrics))
    return rows


async def record_wrong(folder):
    async with serving(folder, writable=["manuals"]) as asking:
        return {
            name_of(line, body): problem_row(await ask(asking, line, body), culprit) for line, body, culprit in WRONG
        }


async def record_streams(folder):
    """Return the events of streams; over a real server if it can run on this loop."""
    rows = {}
    over_sockets = current_async_library() == "asyncio"
    async with serving(folder, over_sockets=over_sockets) as asking:
        for line, requests in (("POST /traverse", STREAMS), ("POST /discover", DISCOVERIES)):
            for body, headers in requests:
                rows[name_of(line, body, headers)] = stream_row(await ask(asking, line, body, headers), folder)
        line = "GET /traverse?corpus=notes&query=vault&policy=%7B%22name%22%3A%22eager%22%7D&node_budget=2"
        rows[line] = stream_row(await ask(asking, line), folder)
    return rows


def stream_row(answer, folder):
    """Return the status of a stream, and its events with their ids."""
    kind = answer.headers.get("content-type", "")
    if not kind.startswith("text/event-stream"):
        return answer_row(answer, folder)
    if "x-vercel-ai-ui-message-stream" in answer.headers:
        lines = [line.removeprefix("data: ") for line in answer.text.split("\n") if line.startswith("data: ")]
        parts = [line if line == "[DONE]" else json.loads(line) for line in lines]
        return {"status": answer.status_code, "type": kind, "parts": brief([ui_part(part) for part in parts], folder)}
    events = parse_events(answer.content)
    places = [f"{event.id} {event.kind}" for event in events]
    data = [best_of(event) if event.kind == "best" else event.data for event in events if event.kind != "source"]
    return {"status": answer.status_code, "type": kind, "events": places, "data": brief(data, folder)}


def best_of(event):
    """Return the hits of an event by their ids and scores."""
    return {"best": [[hit["artifact_id"], hit["score"]] for hit in event.data["hits"]], "fields": sorted(event.data)}


def ui_part(part):
    """Return a part of a message without the id of the message."""
    return {**part, "messageId": "*"} if isinstance(part, dict) and "messageId" in part else part


async def record_held(folder):
    """Return the rows of walks that wait, which `POST /traverse/continue` goes on with."""
    rows = {}
    async with serving(folder) as asking:
        first = await ask(asking, "POST /traverse", {**NOTES, "node_budget": 2, "hold": True})
        rows["POST /traverse hold, node_budget=2"], token = row_and_token(first, folder)
        for budget in (1, 4, 100):
            body = {"continue": token, "node_budget": budget}
            answer = await ask(asking, "POST /traverse/continue", body)
            rows[f"POST /traverse/continue node_budget={budget}"], further = row_and_token(answer, folder)
            token = further or token
        for body, culprit in [({"continue": "none"}, None), ({}, "continue"), ({"continue": token, "k": 1}, "k")]:
            name = f"POST /traverse/continue {sorted(body)}"
            rows[name] = problem_row(await ask(asking, "POST /traverse/continue", body), culprit)
    return rows


def row_and_token(answer, folder):
    """Return the row of a walk that waits, and its token."""
    row = stream_row(answer, folder)
    if answer.status_code != 200:
        return problem_row(answer, "node_budget"), None
    token = parse_events(answer.content)[-1].data["continue"]
    row["data"][-1]["continue"] = "*" if token else None
    return row, token


async def record_store(folder):
    """Return the calls that a client of a corpus on another machine makes."""
    async with serving(folder) as asking:
        answer = await ask(asking, "POST /store/describe", {"corpus": "notes"})
        rows = {"POST /store/describe {}": answer_row(answer, folder)}
        for requests in STORE:
            answer = await ask(asking, "POST /store/read", {"corpus": "notes", "requests": requests})
            rows[f"POST /store/read {json.dumps(requests)}"] = answer_row(answer, folder)
        answer = (await ask(asking, "POST /embed", {"corpus": "notes", "texts": ["a", "b"]})).json()
        rows["POST /embed of two texts"] = [answer["embedder_id"], sorted(answer), answer["vectors"]["shape"]]
    return rows


async def record_access(folder):
    rows = {}
    words = {"ada": ADA, "bot": BOT}
    async with serving(folder, tokens=TOKENS, origins=["https://app.example"]) as asking:
        for who, line, body, more in ACCESS:
            headers = {"authorization": f"Bearer {words[who]}", **more} if who in words else more
            answer = await ask(asking, line, body, headers)
            shown = {name: value for name, value in more.items() if name != "authorization"}
            row = answer_row(answer, folder)
            if line in ("GET /corpora", "GET /openapi.json") and answer.status_code == 200:
                row["json"] = [each["name"] for each in answer.json().get("corpora", [])]
            rows[f"{who}: {name_of(line, body, shown)}"] = row
    async with serving(folder, hosts=["kb.example"], origins=["https://app.example"]) as asking:
        for headers, line in HOSTS:
            rows[f"hosts: {name_of(line, None, headers)}"] = answer_row(await ask(asking, line, None, headers), folder)
    return rows


async def record_limits(folder):
    async with serving(folder, limits=SMALL) as asking:
        rows = {name_of(line, body): problem_row(await ask(asking, line, body), name) for line, body, name in LIMITS}
    rows["a second stream where one may be"] = await anyio.to_thread.run_sync(ask_for_two_streams)
    return rows


def ask_for_two_streams():
    """Return how a real server refuses a second stream while the first one is open."""
    body = {"corpus": "chain", "query": "keys"}
    limits = ServingLimits(max_streams=1)
    with (
        serve(app([make_chain(50, seconds=0.2)], limits=limits)) as server,
        httpx.Client(timeout=60) as asking,
        asking.stream("POST", f"{server.url}/traverse", json=body) as stream,
    ):
        assert stream.status_code == 200
        return problem_row(asking.post(f"{server.url}/traverse", json=body), None)


async def record_openapi(folder):
    """Return each operation of the OpenAPI document and each of its schemas."""
    async with serving(folder, writable=["manuals"]) as asking:
        document = (await ask(asking, "GET /openapi.json")).json()
    rows = {"document": [document["openapi"], sorted(document["components"]), document["security"]]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            rows[name] = {
                "id": operation["operationId"],
                "answers": {
                    status: sorted(answer.get("content", {})) for status, answer in operation["responses"].items()
                },
            }
            rows[f"{name}: fields"] = fields_of(operation)
    for name, schema in document["components"]["schemas"].items():
        rows[f"schema {name}"] = {
            "required": schema.get("required"),
            "properties": sorted(schema.get("properties", {})),
        }
    return rows


def fields_of(operation):
    """Return the fields of an operation: of the query string and headers, and of the body."""
    fields = {
        each["name"]: [each["in"], each["required"], of_schema(each["schema"])] for each in operation["parameters"]
    }
    body = operation.get("requestBody", {"content": {}})["content"].get("application/json", {"schema": {}})["schema"]
    for name, schema in body.get("properties", {}).items():
        fields[name] = ["body", name in body.get("required", []), of_schema(schema)]
    return fields


def of_schema(schema):
    """Return what a schema allows, without its words."""
    return {name: value for name, value in schema.items() if name in ("type", "enum", "minimum", "maximum", "default")}

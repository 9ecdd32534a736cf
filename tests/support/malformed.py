"""Requests that no honest client sends: bytes for the socket of a server, drawn at random.

`draw_request(random)` returns a name of the kind, and the pieces that a connection sends one after the other.
"""

import json
import random as randomness
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

from tests.support.serving import Wire, exchange, request_bytes

SEARCH = {"corpus": "notes", "query": "signing keys", "k": 3}
WALK = {"corpus": "notes", "query": "signing keys", "node_budget": 5}
# A correct request of each endpoint: method, path, fields. GET and DELETE take them from the query string.
ENDPOINTS = [
    ("POST", "/search", SEARCH),
    ("POST", "/discover", {"corpora": ["notes"], "query": "signing keys", "k": 3}),
    ("POST", "/traverse", WALK),
    ("GET", "/traverse", WALK),
    ("GET", "/artifact", {"corpus": "notes", "id": "a"}),
    ("PUT", "/artifact", {"corpus": "notes", "id": "a", "value": "text"}),
    ("DELETE", "/artifact", {"corpus": "notes", "id": "zzz"}),
    ("GET", "/tree", {"corpus": "notes", "roots": "a", "max_hops": 2}),
    ("GET", "/path", {"corpus": "notes", "start": "a", "end": "b"}),
    ("GET", "/corpora", {}),
    ("GET", "/healthz", {}),
    ("GET", "/readyz", {}),
    ("GET", "/metrics", {}),
    ("GET", "/openapi.json", {}),
    ("GET", "/", {}),
    ("POST", "/stores/read", {"messages": [{"corpus": "notes", "requests": [{"ask": "Edges", "ids": ["a"]}]}] * 2}),
    *(
        ("POST", "/store/read", {"corpus": "notes", "requests": requests})
        for requests in (
            [{"ask": "Rank", "queries": {"shape": [1, 2], "dtype": "<f4", "base64": "AAAAAAAAAAA="}, "k": 3}],
            [{"ask": "Rank", "queries": ["keys"], "k": 3}, {"ask": "Words", "queries": ["keys"]}],
            [
                {"ask": "Edges", "ids": ["a"]},
                {
                    "ask": "Fed",
                    "request": {"ask": "RecordsOf", "artifact_ids": []},
                    "by": {"take": "Ends", "of": 0, "limit": 9},
                },
            ],
            [{"ask": "Records", "ids": ["a#document/0"]}, {"ask": "Ledger", "ids": ["a"]}, {"ask": "Counts"}],
        )
    ),
]
CORRECT = request_bytes("POST", "/search", SEARCH)
_THREADS = 16
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_NEVER = b"\x00never\x00"  # a mark that no answer contains


class Raw(str):
    """Text that goes into a body as it is, in place of a JSON value."""

    __slots__ = ()


_NAMES = ["corpus", "corpora", "query", "k", "mode", "filter", "surfaces", "fusion", "alpha", "rrf_k", "fetch_k"]
_NAMES += ["rerank", "surface_weights", "timeout", "policy", "node_budget", "max_depth", "limits", "id", "ids", "value"]
_NAMES += [
    "edges",
    "ranking",
    "best",
    "max_hits",
    "max_chars",
    "max_tokens",
    "level",
    "start",
    "end",
    "roots",
    "direction",
]
_NAMES += [
    "requests",
    "ask",
    "by",
    "per_artifact",
    "max_hops",
    "types",
    "rerank",
    "max_nodes",
    "merge",
    "weighted",
    "query_count",
    "__class__",
    "self",
    "",
    "corpus\u0000",
    "cörpus",
    "a" * 5000,
]


def _values(random):
    """Return a hostile JSON value."""
    return random.choice(
        [
            lambda: Raw("9" * random.choice([20, 309, 400, 401, 4300, 4301, 50_000])),
            lambda: Raw("-" + "9" * random.choice([19, 20, 5000])),
            lambda: Raw("0." + "1" * random.choice([300, 5000])),
            lambda: Raw(
                random.choice(["1e999", "-1e999", "1e-999999999", "NaN", "Infinity", "-Infinity", "1E400", "00"])
            ),
            lambda: Raw("[" * random.choice([61, 200, 100_000])),
            lambda: Raw("[" * 200 + "]" * 200),
            lambda: Raw('{"a":' * 500 + "1" + "}" * 500),
            lambda: Raw('"\\ud800"'),
            lambda: Raw('"\\udfff and \\u0000"'),
            lambda: Raw('"\\u2028 \\r\\n\\r\\ndata: x\\n\\n"'),
            lambda: Raw('"' + "\\u00e9" * 20_000 + '"'),
            lambda: random.choice([None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 1.5, -0.0, 1e300, 5e-324]),
            lambda: random.choice(
                ["", " ", "\x00", "\x1b[2J", "../../etc/passwd", "/etc/passwd", "file:///etc/passwd"]
            ),
            lambda: random.choice(["http://127.0.0.1:1/", "postgresql://x@127.0.0.1/db#notes", "\u202e", "é" * 3000]),
            lambda: random.choice(["path-coverage", "beam", "airw.policies:Eager", "os:system", "__import__", "notes"]),
            list,
            dict,
            lambda: [[]] * random.choice([1, 3000]),
            lambda: list(range(random.choice([3, 20_000]))),
            lambda: ["a"] * random.choice([2, 20_000]),
            lambda: {"$and": [{"$or": [{"n": {"$gt": 1}}]}] * random.choice([1, 2000])},
            lambda: {"$in": list(range(5000))},
            lambda: {"n": {"$in": [[1], {"a": 1}, None]}},
            lambda: {"n": {"$regex": "(a+)+$"}},
            lambda: {"$where": "1"},
            lambda: {"": {"": ""}},
            lambda: {"name": "beam", "params": {"width": 10**9}},
            lambda: {"name": "beam", "params": {"width": "x", "__init__": 1}},
            lambda: {"name": ["beam"], "params": []},
            lambda: {"shape": [10**12], "dtype": "<f4", "base64": "AAAA"},
            lambda: {"shape": [-1, 3], "dtype": "O", "base64": "AAAA"},
            lambda: {"shape": [1], "dtype": "<f4", "base64": "AADAfw=="},  # NaN
            lambda: {"shape": [[]], "dtype": {}, "base64": 5},
            lambda: {"max_hits": -1, "max_edges": 10**30},
            lambda: {f"f{at}": at for at in range(3000)},
        ]
    )()


def encode(fields):
    """Return a JSON body; a `Raw` value stays as it is, and pairs may repeat a name."""
    pairs = fields.items() if isinstance(fields, dict) else fields
    parts = (f"{json.dumps(name)}:{value if isinstance(value, Raw) else json.dumps(value)}" for name, value in pairs)
    return ("{" + ",".join(parts) + "}").encode()


def query_of(fields):
    """Return fields as a query string."""
    pairs = fields.items() if isinstance(fields, dict) else fields
    texts = ((name, value if isinstance(value, str) else json.dumps(value)) for name, value in pairs)
    return "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in texts)[:60_000]


def _wrong_fields(random):
    """Return a request of an endpoint with one to three fields changed, left out or added."""
    method, path, fields = random.choice(ENDPOINTS)
    pairs = list(fields.items())
    if "requests" in fields and random.random() < 0.8:
        requests = [Raw(encode(request).decode()) for request in fields["requests"]]
        at = random.randrange(len(requests))
        inner = list(fields["requests"][at].items())
        _spoil(random, inner)
        requests[at] = Raw(encode(inner).decode())
        pairs[-1] = ("requests", Raw(f"[{','.join(requests)}]"))
    else:
        _spoil(random, pairs)
    if method in ("GET", "DELETE"):
        return [request_bytes(method, f"{path}?{query_of(pairs)}")]
    return [request_bytes(method, path, encode(pairs))]


def _spoil(random, pairs):
    """Change, leave out or add one to three fields."""
    for _ in range(random.choice([1, 1, 2, 3])):
        act = random.choice(["change", "change", "change", "add", "drop", "double"])
        if act == "add" or not pairs:
            pairs.append((random.choice(_NAMES), _values(random)))
        elif act == "change":
            at = random.randrange(len(pairs))
            pairs[at] = (pairs[at][0], _values(random))
        elif act == "drop":
            pairs.pop(random.randrange(len(pairs)))
        else:
            pairs.append((random.choice(pairs)[0], _values(random)))


def _wrong_body(random):
    """Return a request whose body is no object in UTF-8."""
    method, path, fields = random.choice([each for each in ENDPOINTS if each[0] in ("POST", "PUT")])
    good = encode(fields)
    flipped = bytearray(good)
    for _ in range(random.randint(1, 4)):
        flipped[random.randrange(len(flipped))] = random.randrange(256)
    body = random.choice(
        [
            bytes(flipped),
            good[: random.randrange(len(good))],
            good + random.choice([b"x", b"}", good, b"\x00"]),
            b"\xff\xfe" + good.decode().encode("utf-16-le"),
            b"\xef\xbb\xbf" + good,
            good.replace(b'"', b"'"),
            b'{"query": "\xc3\x28"}',
            b'{"query": "\xed\xa0\x80"}',
            random.randbytes(random.choice([1, 100, 5000])),
            b"[]",
            b"null",
            b'"text"',
            b"[" * 100_000,
            b'{"a":' * 50_000,
            b"9" * 50_000,
            b'{"k":' + b"9" * 50_000 + b"}",
            b" " * 10_000,
            b'{"query":"' + b"a" * 900_000 + b'"}',
            b'{"query":"' + b"a" * 1_200_000 + b'"}',
            b"a=1&b=2",
            b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--\r\n",
        ]
    )
    return [request_bytes(method, path, body)]


def _wrong_length(random):
    """Return a request whose length of the body is wrong, absent or said twice."""
    body = encode(SEARCH)
    length = random.choice(
        [
            str(len(body) + random.choice([1, 1000])),
            str(random.randrange(len(body))),
            str(-len(body)),
            "0",
            "9" * random.choice([19, 30, 5000]),
            "1e3",
            "0x20",
            "twenty",
            "",
            f"{len(body)}, {len(body) + 1}",
            f"{len(body)}\r\nContent-Length: {len(body) + 1}",
            f"{len(body)}\r\nContent-Length: {len(body)}",
            f"+{len(body)}",
            f"{len(body)}\r\nTransfer-Encoding: chunked",
            "5000000",
        ]
    )
    return [request_bytes("POST", "/search", body, content_length=length)]


def _wrong_chunks(random):
    """Return a request with a body in chunks that break the rules, or have no end."""
    body = encode(SEARCH)
    size = f"{len(body):x}".encode()
    chunks = random.choice(
        [
            b"zz\r\n" + body + b"\r\n0\r\n\r\n",
            size + b"\r\n" + body + b"0\r\n\r\n",
            b"-5\r\n" + body + b"\r\n0\r\n\r\n",
            b"ffffffffffffffffff\r\n" + body,
            b"f" * 5000 + b"\r\n" + body,
            size + b";" + b"a" * 100_000 + b"\r\n" + body + b"\r\n0\r\n\r\n",
            size + b"\n" + body + b"\n0\n\n",
            size + b"\r\n" + body + b"\r\n",
            size + b"\r\n" + body[:5],
            size + b"\r\n" + body + b"\r\n0\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
            b"1\r\n{\r\n" * 2000 + b"0\r\n\r\n",
            (b"2710\r\n" + b" " * 10_000 + b"\r\n") * 120 + b"0\r\n\r\n",
            b"",
        ]
    )
    coding = random.choice(
        ["chunked", "chunked", "chunked", "gzip, chunked", "chunked, chunked", "identity", "xchunked"]
    )
    return [request_bytes("POST", "/search", transfer_encoding=coding, content_type="application/json"), chunks]


def _cut(random):
    """Return a request that ends too early, in one piece or byte by byte."""
    method, path, fields = random.choice(ENDPOINTS)
    whole = request_bytes(method, path, encode(fields) if fields else b"")
    part = whole[: random.randrange(1, len(whole))]
    return [part] if random.random() < 0.8 else [part[at : at + 1] for at in range(min(len(part), 30))]


def _wrong_headers(random):
    """Return a request with too large, wrong, doubled or hostile headers."""
    line = random.choice(
        [
            b"X-A: " + b"a" * random.choice([10_000, 70_000, 300_000]),
            b"\r\n".join(b"X-%d: 1" % at for at in range(random.choice([100, 5000]))),
            b"Host: other",
            b"No colon",
            b": empty",
            b"Sp ace: 1",
            b"X-A: 1\r\n folded",
            b"X-A: \x00",
            b"X-A: \xff\xfe",
            b"X-A: 1\nX-B: 2",
            b"X-A: 1\rX-B: 2",
            b"Authorization: Bearer " + b"a" * 20_000,
            b"Authorization: Bearer \xff\xfe\xfd",
            b"Authorization: " + random.randbytes(20).replace(b"\n", b"").replace(b"\r", b""),
            b"Authorization: Basic !!!",
            b"Authorization: Bearer a\r\nAuthorization: Bearer b",
            b"Origin: https://evil.example",
            b"Origin: null",
            b"Accept: " + b"text/event-stream;q=x," * 500,
            b"Accept: text/event-stream;q=nan;;=,",
            b"Last-Event-ID: " + b"9" * 5000,
            b"Last-Event-ID: -1",
            b"Last-Event-ID: \xe2\x80\xa8",
            b"Expect: 100-continue",
            b"Expect: 999-wonder",
            b"Content-Encoding: gzip",
            b"Content-Type: text/plain; charset=utf-7",
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAA\r\nSec-WebSocket-Version: 13",
            b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
            b"X-Forwarded-For: " + b"1.2.3.4, " * 2000,
            b"Range: bytes=99999999999999999999-",
            b"If-None-Match: " + b'"a",' * 5000,
            b"Cookie: " + b"a=b; " * 5000,
            b"Access-Control-Request-Method: PUT\r\nOrigin: https://evil.example",
            b"traceparent: 00-" + b"f" * 400,
        ]
    )
    method, path, fields = random.choice(ENDPOINTS)
    whole = request_bytes(method, path, encode(fields) if fields else b"")
    first, rest = whole.split(b"\r\n", 1)
    return [first + b"\r\n" + line + b"\r\n" + rest]


def _wrong_target(random):
    """Return a request of a path that does not exist or climbs out, or of another method."""
    climb = random.choice(["../", "..%2f", "%2e%2e/", "..\\", "..%5c", "%c0%ae%c0%ae/", "....//", "..;/"])
    climb *= random.choice([1, 8])
    target = random.choice(
        [
            f"/{climb}etc/passwd",
            f"/page/{climb}etc/passwd",
            f"/page/{climb}{climb}airw/serving/access.py",
            f"/store/{climb}search",
            "/store/__class__",
            "/store/_run",
            "/store/aclose",
            "/store/writing",
            "/store/apply",
            "/store/" + "a" * 50_000,
            "//etc/passwd",
            "/search/",
            "/SEARCH",
            "/search%00",
            "/search;a=b",
            "/search%0d%0aSet-Cookie:%20a=b",
            "/%",
            "/%zz",
            "/%ff%fe",
            "/" + "a/" * 10_000,
            "/" + "%41" * 15_000,
            "*",
            "http://evil.example/corpora",
            "http://evil.example:99999/corpora",
            "/corpora?" + "a=b&" * 15_000,
            "/corpora?" + "%ff" * 5000,
            "/traverse?corpus=notes&query=" + "a" * 50_000,
            "/traverse?corpus=notes&corpus=notes&query=a&query=b",
            "/traverse?corpus=notes&query=keys&node_budget=" + "9" * 5000,
            "/traverse?corpus=notes&query=keys&policy=" + quote('{"name": "beam", "params": ' + "[" * 5000),
            "/artifact?corpus=notes&id=" + climb,
            "/artifact?corpus=" + climb + "&id=a",
            "/tree?corpus=notes&roots=a&max_hops=-1",
            "/path?corpus=notes&start=a&end=" + "%00",
            "/?q=<script>alert(1)</script>",
            "/metrics?" + "é",
            "/corpora#x",
            "corpora",
            "",
        ]
    )
    methods = ["GET", "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW", "get"]
    method = random.choice([*methods, "A" * 5000, "PRI", "G\x00T", "GET\tX", ""])
    return [request_bytes(method, target)]


def _no_request(random):
    """Return bytes that are no request of HTTP/1.1."""
    return [
        random.choice(
            [
                random.randbytes(random.choice([1, 30, 3000, 100_000])),
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + random.randbytes(300),
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"GET /\r\n\r\n",
                b"GET / HTTP/9.9\r\n\r\n",
                b"GET / HTTP/1.0\r\n\r\n",
                b"GET  /  HTTP/1.1\r\n\r\n",
                b"GET / HTTP/1.1 \r\n\r\n",
                b"\r\n" * 5000,
                b"\n\n\n",
                b"\x00" * 1000,
                b"GET / HTTP/1.1\r\n" * 1000,
                b"GET / HTTP/1.1\nHost: a\n\n",
                b"EHLO evil\r\n",
                b"*1\r\n$4\r\nPING\r\n",
                request_bytes("GET", "/healthz") * 300,  # pipelined, after `Connection: close`
                request_bytes("GET", "/healthz", connection="keep-alive") * 50,
            ]
        )
    ]


KINDS = {
    "fields": _wrong_fields,
    "body": _wrong_body,
    "length": _wrong_length,
    "chunks": _wrong_chunks,
    "cut": _cut,
    "headers": _wrong_headers,
    "target": _wrong_target,
    "no request": _no_request,
}
_SHARES = {"fields": 10, "body": 4, "length": 2, "chunks": 2, "cut": 3, "headers": 4, "target": 4, "no request": 2}


def draw_request(random: randomness.Random):
    """Return the kind and the pieces of a malformed request."""
    [kind] = random.choices(list(_SHARES), list(_SHARES.values()))
    return kind, KINDS[kind](random)


def send_malformed(port, pieces, random, *, seconds):
    """Send a malformed request, and return the statuses of all answers.

    A connection on which nothing comes for `seconds` ends, in good order or with a reset.
    """
    data = b""
    with suppress(OSError), Wire(port, seconds=seconds) as wire:
        for piece in pieces:
            wire.send(piece)
        data = wire.read_until(_NEVER)
        if random.random() < 0.3:
            wire.abort()
            return _statuses(data)
        wire.finish()
        data += wire.read_until(_NEVER)
    return _statuses(data)


def _statuses(data):
    return [int(status) for status in _STATUS.findall(data)]


@dataclass
class Answers:
    """The answers to many malformed requests, and to the correct ones among them.

    Attributes:
        statuses: The number of answers to malformed requests, by their status.
        failures: Those that are errors of the server, each with its request.
        correct: The number of answers to correct requests, by their status.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    failures: list = field(default_factory=list)
    correct: Counter[int] = field(default_factory=Counter)

    def add(self, other):
        self.statuses += other.statuses
        self.failures += other.failures
        self.correct += other.correct


def attack(port, start, end):
    """Send malformed requests with 16 threads; return the `Answers`.

    The requests have the numbers from `start` to `end`. After each tenth, the same thread sends a correct one.
    """
    answers = Answers()
    with ThreadPoolExecutor(_THREADS) as threads:
        for some in threads.map(lambda first: _attack_alone(port, first, end), range(start, start + _THREADS)):
            answers.add(some)
    return answers


def _attack_alone(port, start, end):
    """Send every sixteenth of the requests."""
    random, answers = randomness.Random(f"malformed {start}"), Answers()
    for at in range(start, end, _THREADS):
        kind, pieces = draw_request(random)
        statuses = send_malformed(port, pieces, random, seconds=0.02 if kind == "cut" else 0.3)
        answers.statuses.update(statuses)
        answers.failures += [(status, kind, b"".join(pieces)[:500]) for status in statuses if status >= 500]
        if at % 10 == 0:
            answers.correct[exchange(port, CORRECT).status] += 1
    return answers

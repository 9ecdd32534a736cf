"""A made-up software manual, and questions about it and about other things."""

import random

from airw.sources import from_mapping

THINGS = [
    "server",
    "client",
    "certificate",
    "keyring",
    "cache",
    "request",
    "scheduler",
    "socket",
    "daemon",
    "cluster",
    "replica",
    "shard",
    "queue",
    "worker",
    "token",
    "password",
    "session",
    "cookie",
    "proxy",
    "gateway",
    "router",
    "firewall",
    "backup",
    "snapshot",
    "volume",
    "disk",
    "kernel",
    "driver",
    "plugin",
    "module",
    "package",
    "release",
    "branch",
    "commit",
    "pipeline",
    "container",
    "image",
    "registry",
    "endpoint",
    "schema",
    "index",
    "cursor",
    "transaction",
    "lock",
    "thread",
    "buffer",
    "stream",
    "packet",
    "header",
    "payload",
    "checksum",
    "log",
    "metric",
    "alert",
    "dashboard",
]


ACTS = [
    "rotates",
    "rejects",
    "renews",
    "stores",
    "restarts",
    "encrypts",
    "forwards",
    "compresses",
    "validates",
    "truncates",
    "mounts",
    "flushes",
    "retries",
    "signs",
    "evicts",
    "migrates",
    "throttles",
    "exports",
    "decodes",
    "polls",
]


WHEN = """
after a timeout; at midnight; on every deployment; before the handshake; if memory is low; during startup;
when the quota is exceeded; in read-only mode; behind a proxy; over an encrypted connection
""".strip().split(";")


OWN = ("which certificate does the gateway renew?", "client signs a request", "why does the daemon compress its log?")


FOREIGN = ("sourdough bread recipe", "What is the capital of Mongolia?", "who painted the girl with the pearl earring")


def manual(count=60):
    """Return a source of a software manual: each page has four sentences about one thing."""
    chance = random.Random(3)

    def sentence(subject):
        return f"The {subject} {chance.choice(ACTS)} the {chance.choice(THINGS)} {chance.choice(WHEN).strip()}."

    pages = {}
    for number in range(count):
        subject = THINGS[number % len(THINGS)]
        pages[f"page{number:03}"] = " ".join(sentence(subject) for _ in range(4))
    return from_mapping(pages, name="manual", embedder="light")

"""Wrong calls of servers and integrations.

Their libraries are large, so they are compared in the slow run.
"""

from importlib import import_module
from pathlib import Path

from tests.golden import mistakes

PARTS = ["doors"]
WAYS = ["asyncio"]
QUICK = []

CALLS = Path(__file__).with_suffix(".txt")
PACKAGES = {
    "serving": "airw.serving",
    "mcp": "airw.mcp",
    "langchain": "airw.integrations.langchain",
    "llama_index": "airw.integrations.llama_index",
}


def record(part, way, folder):
    return mistakes.rows_of(CALLS, way, {name: import_module(package) for name, package in PACKAGES.items()})

"""Programs that search once in a process of their own."""

import os
import subprocess
import sys

SEARCH = """
import json, sys
import anyio
from airw import embedder_from, open_corpus, search

async def main(file, mode, text, vector):
    embedder = embedder_from(lambda texts: [vector], id="given", dim=len(vector))
    async with open_corpus(file, embedder=embedder) as corpus:
        print(*(hit.artifact_id for hit in await search(corpus, text, mode=mode, k=10)))

anyio.run(main, *sys.argv[1:4], json.loads(sys.argv[4]))
"""
"""Searches a file with a given vector; its arguments are the file, the mode, the query and the vector as JSON."""


def run_process(program: str, file, mode: str, text: str, vector: str) -> set[str]:
    """Return the ids that a new process prints."""
    command = [sys.executable, "-c", program, str(file), mode, text, vector]
    # Compiled modules are kept, as an installation keeps them.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return set(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.split())

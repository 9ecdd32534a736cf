"""`run_stdio` over a chain whose store hangs once a walk follows links.

    python -m tests.support.hanging_tools

Each call prints to standard output, as careless libraries do. Standard error gets "pid", the number of the process, and
"cancelled" for each call that was cancelled.
"""

import math
import os
import sys
from dataclasses import replace

import anyio

from airw.mcp import run_stdio
from airw.protocols import Edges
from airw.testing import ScriptedStore
from tests.support.served_corpora import make_chain


class TellingStore(ScriptedStore):
    """A store that tells on standard error which of its calls are cancelled."""

    async def read(self, *requests):
        print(f"a library speaks of {requests}")
        try:
            return await super().read(*requests)
        except anyio.get_cancelled_exc_class():
            print("cancelled", file=sys.stderr, flush=True)
            raise


def main():
    corpus = make_chain(100)
    store = TellingStore(corpus.store, delays={Edges: math.inf})
    hanging = replace(corpus, store=store)
    print("pid", os.getpid(), file=sys.stderr, flush=True)
    anyio.run(run_stdio, [hanging])


if __name__ == "__main__":
    main()

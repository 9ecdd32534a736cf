"""Corpora that are served and used over HTTP in one process, without a socket."""

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import httpx

from airw.remote import RemoteCorpus
from airw.serving import app


@dataclass
class Requests:
    """The paths of the requests that were sent."""

    paths: list[str] = field(default_factory=list)

    async def add(self, request):
        self.paths.append(request.url.path)

    def take(self):
        taken, self.paths[:] = list(self.paths), []
        return taken


@asynccontextmanager
async def use_remotely(*corpora, holds_walks=False, **options):
    """Serve each corpus by a server of its own; yield the remote corpora and their requests.

    With `holds_walks`, the servers run, so that they hold walks that have ended.
    """
    requests = Requests()
    async with AsyncExitStack() as stack:
        opened = []
        for corpus in corpora:
            application = app([corpus], **options)
            if holds_walks:
                await stack.enter_async_context(application.router.lifespan_context(application))
            transport = httpx.ASGITransport(application)
            client = httpx.AsyncClient(transport=transport, event_hooks={"request": [requests.add]})
            await stack.enter_async_context(client)
            remote = RemoteCorpus("http://localhost", corpus.name, client=client)
            opened.append(await stack.enter_async_context(remote))
        requests.take()
        yield opened, requests

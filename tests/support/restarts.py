"""A server that is restarted under load: clients that ask and write, and the restart."""

import signal

import anyio
import httpx

from tests.support.waiting import PATIENCE, wait_for

BODY = {"corpus": "notes", "query": "signing keys"}


class Load:
    """Clients that search and write until `is_over`.

    Attributes:
        answers: The number of requests that were answered.
        written: The ids of the artifacts whose writes were acknowledged.
        failures: The requests that were lost, and the answers that were errors.
    """

    def __init__(self, url):
        self.url = url
        self.answers = 0
        self.written = []
        self.failures = []
        self.is_over = False

    async def search_with_new_connections(self):
        while not self.is_over:
            async with httpx.AsyncClient(timeout=PATIENCE) as client:
                await self._send(client.post(f"{self.url}search", json=BODY))

    async def search_with_one_connection(self):
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            while not self.is_over:
                await self._send(client.post(f"{self.url}search", json=BODY))

    async def write(self, name):
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            number = 0
            while not self.is_over:
                number += 1
                body = {"corpus": "notes", "id": f"{name}-{number}.md", "value": f"Note {number} of {name}."}
                if await self._send(client.put(f"{self.url}artifact", json=body)):
                    self.written.append(body["id"])
                await anyio.sleep(0.05)

    async def _send(self, request):
        try:
            answer = await request
        except httpx.HTTPError as error:
            self.failures.append(repr(error))
            return False
        if answer.status_code != 200:
            self.failures.append(answer.text)
        self.answers += 1
        return answer.status_code == 200


async def restart(server):
    """Replace all workers, and return once that is done."""
    done = sum("replaced 2 workers" in line for line in server.lines)
    server.process.send_signal(signal.SIGHUP)
    await wait_for(lambda: sum("replaced 2 workers" in line for line in server.lines) > done)

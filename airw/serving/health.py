"""The endpoints for whoever runs the server: `GET /healthz` and `GET /readyz`.

They need no token, and do not count as requests: a busy server is still alive.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from airw._base.concurrency import map_bounded
from airw._base.sharing import SharedLock
from airw.protocols import Counts, Records, ask
from airw.serving.problems import AccessDenied, describe_problem
from airw.serving.service import Service, log_failure

_LONGEST_CHECK = 3.0  # seconds; an orchestrator gives up soon after
_FRESH = 1.0  # seconds for which the result of a check counts
_AT_ONCE = 8  # corpora that are checked at the same time
_NO_STORE = {"Cache-Control": "no-store"}


async def answer_alive(_: Request) -> Response:
    """Answer `GET /healthz`: the process runs."""
    return JSONResponse({"status": "ok"}, headers=_NO_STORE)


class Readiness:
    """The answers of `GET /readyz`: each is shared by all that ask while it is looked up.

    Args:
        service: The server.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turn = SharedLock("the answer of /readyz")
        self._faults: Mapping[str, dict[str, Any]] = {}
        self._checked_at = -math.inf

    async def answer(self, request: Request) -> Response:
        """Answer `GET /readyz`: 200 if each corpus answers a read within three seconds, else 503.

        The answer has the state of each corpus that the caller may read, and of no other.
        """
        asked_at = anyio.current_time()
        async with self._turn.hold():
            # Nobody can make the server read more by asking more: a check counts for all that wait, and for a while.
            if self._checked_at < asked_at - _FRESH:
                now = anyio.current_time()
                self._faults = await _check_all(self._service)
                self._checked_at = now
            faults = self._faults
        states = {name: faults.get(name, {"status": "ok"}) for name in _list_visible(self._service, request)}
        answer = {"status": "failed" if faults else "ok", "corpora": states}
        return JSONResponse(answer, status_code=503 if faults else 200, headers=_NO_STORE)


async def _check_all(service: Service) -> dict[str, dict[str, Any]]:
    """Return why corpora are not ready, by name; those that are ready are left out."""
    names = service.corpora.names
    states = await map_bounded(partial(_check, service), names, limit=_AT_ONCE)
    return {name: state for name, state in zip(names, states, strict=True) if state is not None}


def _list_visible(service: Service, request: Request) -> tuple[str, ...]:
    try:
        return service.access.identify(request.headers.get("authorization")).readable
    except AccessDenied:
        return ()


async def _check(service: Service, name: str) -> dict[str, Any] | None:
    """Return why a corpus is not ready; `None` if it is."""
    try:
        with anyio.move_on_after(_LONGEST_CHECK):
            corpus = await service.corpora.get(name, visible=[name])
            # Reads of the tables of records and links, which opening does not read.
            if "counts" in corpus.store.capabilities:
                await ask(corpus.store, Counts())
            await ask(corpus.store, Records(["-"]))
            return None
    except Exception as error:  # noqa: BLE001 - a store of anyone may raise anything, and this is one corpus of many
        log_failure(error)
        problem = describe_problem(error)
        return {"status": "failed", "error": problem["error"], "detail": problem["detail"]}
    return {"status": "timeout", "error": "StoreError", "detail": f"no answer within {_LONGEST_CHECK:g} seconds"}

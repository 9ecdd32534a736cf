"""Several processes behind one port: started, watched, and replaced one after another.

They share one socket, which this process keeps. So no connection is lost when a worker ends: those that none has
accepted yet wait for the others.
"""

import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from airw._base.concurrency import first_error, in_thread
from airw._base.messages import one_line
from airw.errors import AirwError, StoreError
from airw.serving.logs import LOGGER
from airw.serving.metrics import Metrics
from airw.serving.running import LONGEST_END, GracefulServer, ServerOptions, log_to_stderr, new_server
from airw.serving.shared_metrics import publish_metrics

_POLL = 0.05  # seconds between two looks at a process
_LONGEST_START = 60  # seconds
_PAUSE = 5  # seconds before a worker that could not start is started again

_spawn = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class _Worker:
    """A process, and the end of a pipe on which it reports that it serves."""

    process: SpawnProcess
    reports: Connection

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive()

    async def wait_until_ready(self) -> bool:
        """Return True once the worker serves, or False if it ended before, or takes too long."""
        with anyio.move_on_after(_LONGEST_START):
            while self.is_alive:
                if self.reports.poll():
                    return _read_report(self.reports)
                await anyio.sleep(_POLL)
        return False

    async def stop(self) -> None:
        """Stop the worker: its requests end, or it is killed if that takes too long."""
        self.process.terminate()
        with anyio.move_on_after(LONGEST_END + 5):
            while self.is_alive:  # noqa: ASYNC110 - no event tells that a process ended
                await anyio.sleep(_POLL)
        self.process.kill()
        self.process.join()
        self.reports.close()


def _read_report(reports: Connection) -> bool:
    try:
        return bool(reports.recv())
    except EOFError:  # the worker ended
        return False


class Crew:
    """The workers of a server.

    Args:
        options: What each of them serves.
        listener: The socket that they share.
        count: How many there are.
        folder: Where they add up their numbers.
    """

    def __init__(self, options: ServerOptions, listener: socket.socket, count: int, folder: Path) -> None:
        self._options = options
        self._listener = listener
        self._count = count
        self._folder = folder
        self._workers: list[_Worker] = []
        self._is_outdated = False

    async def start(self) -> None:
        """Start all workers.

        Raises:
            StoreError: If one cannot start.
        """
        self._workers = [self._new_worker() for _ in range(self._count)]
        for worker in self._workers:
            if not await worker.wait_until_ready():
                raise StoreError("a worker of the server could not start; the lines above say why")

    def request_replacement(self) -> None:
        """Make `watch` replace all workers; the new ones read the token file again."""
        self._is_outdated = True

    async def watch(self) -> None:
        """Start a worker whenever one has died, and replace all when that is requested."""
        while True:
            for at, worker in enumerate(self._workers):
                if not worker.is_alive:
                    LOGGER.warning("worker %s died; starting another", worker.process.pid)
                    await self._restart(at)
            if self._is_outdated:
                self._is_outdated = False
                await self._replace_all()
            await anyio.sleep(_POLL)

    async def stop(self) -> None:
        """Stop all workers at the same time, within a bound."""
        async with anyio.create_task_group() as tasks:
            for worker in self._workers:
                tasks.start_soon(worker.stop)

    def kill(self) -> None:
        """End all workers at once."""
        for worker in self._workers:
            worker.process.kill()

    async def _restart(self, at: int) -> None:
        self._workers[at].reports.close()
        self._workers[at] = self._new_worker()
        if not await self._workers[at].wait_until_ready():
            await anyio.sleep(_PAUSE)

    async def _replace_all(self) -> None:
        """Replace the workers one after another; each new one serves before an old one stops."""
        for at, old in enumerate(self._workers):
            new = self._new_worker()
            if not await new.wait_until_ready():
                await new.stop()
                LOGGER.error("a new worker could not start; the old ones go on")
                return
            self._workers[at] = new
            await old.stop()
        LOGGER.info("replaced %d workers", self._count)

    def _new_worker(self) -> _Worker:
        reports, reporter = _spawn.Pipe(duplex=False)
        process = _spawn.Process(
            target=_work, args=(self._options, self._listener, self._folder, reporter), daemon=True
        )
        process.start()
        reporter.close()
        return _Worker(process, reports)


async def run_workers(
    options: ServerOptions, listener: socket.socket, count: int, announce: Callable[[], None]
) -> None:
    """Serve with several processes, until Ctrl-C or SIGTERM; a second one ends requests.

    SIGHUP replaces the workers one after another.

    Args:
        options: What each of them serves.
        listener: The socket that they share.
        count: How many there are.
        announce: Called once all of them answer.

    Raises:
        StoreError: If a worker cannot start.
    """
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    with TemporaryDirectory(prefix="airw-") as folder, anyio.open_signal_receiver(*numbers) as signals:
        crew = Crew(options, listener, count, Path(folder))
        try:
            with first_error():
                await _watch_until_stopped(crew, signals, announce)
        finally:
            with anyio.CancelScope(shield=True):
                await _stop_crew(crew, signals)


async def _watch_until_stopped(
    crew: Crew, signals: AsyncIterator[signal.Signals], announce: Callable[[], None]
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_start_and_watch, crew, announce)
        async for number in signals:
            if number in (signal.SIGINT, signal.SIGTERM):
                break
            crew.request_replacement()
        tasks.cancel_scope.cancel()


async def _start_and_watch(crew: Crew, announce: Callable[[], None]) -> None:
    await crew.start()
    announce()
    await crew.watch()


async def _stop_crew(crew: Crew, signals: AsyncIterator[signal.Signals]) -> None:
    async def kill_at_next_signal() -> None:
        async for number in signals:
            if number in (signal.SIGINT, signal.SIGTERM):
                crew.kill()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kill_at_next_signal)
        await crew.stop()
        tasks.cancel_scope.cancel()


def _work(options: ServerOptions, listener: socket.socket, folder: Path, reporter: Connection) -> None:
    """Serve in this process, a worker, until SIGTERM."""
    for name in ("SIGINT", "SIGHUP"):  # a terminal sends them to all processes; only the first one decides
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    log_to_stderr()
    try:
        anyio.run(_serve, options, listener, folder, reporter)
    except AirwError as error:  # the token file changed meanwhile, for example
        LOGGER.error("%s", one_line(str(error)))
        sys.exit(1)


async def _serve(options: ServerOptions, listener: socket.socket, folder: Path, reporter: Connection) -> None:
    application = options.make_app()
    server = new_server(application)
    metrics: Metrics = application.state.service.metrics
    metrics.folder = folder
    with first_error():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_when_told, server)
            tasks.start_soon(_report_start, server, reporter)
            tasks.start_soon(_publish, metrics, folder)
            await server.serve([listener])
            tasks.cancel_scope.cancel()
    publish_metrics(folder, metrics.to_text())


async def _publish(metrics: Metrics, folder: Path) -> None:
    """Write the numbers of this process every second, for whichever process is asked for all."""
    while True:
        await in_thread(publish_metrics, folder, metrics.to_text())
        await anyio.sleep(1)


async def _stop_when_told(server: GracefulServer) -> None:
    """Stop the server at SIGTERM, or when the process that started this one is gone."""
    parent = os.getppid()

    async def stop_without_parent() -> None:
        while os.getppid() == parent:  # noqa: ASYNC110 - no event tells it either
            await anyio.sleep(1)
        server.should_exit = True

    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_without_parent)
            async for _ in signals:
                server.should_exit = True


async def _report_start(server: GracefulServer, reporter: Connection) -> None:
    await server.has_started.wait()
    reporter.send("ready")
    reporter.close()

"""Real uvicorn servers on the loopback interface, in a thread or in processes.

    with serve(app(corpora)) as server:
        httpx.post(f"{server.url}/search", json={"corpus": "notes", "query": "keys"})

`serve_in_process` runs processes that a test may kill. It takes the name of a function that makes the application, as
an application cannot be sent to another process. `Wire` sends bytes to a server, for requests that no client sends.
"""

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from airw.serving import app
from airw.serving.running import listen, spare_collector
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
MEGABYTE = 1 << 20
_SETTINGS = {"log_level": "critical", "access_log": False, "lifespan": "on", "timeout_graceful_shutdown": 5}
_ENDED_BY_THE_LOOP = {"_shutdown_watcher"}  # of sse-starlette, which MCP streams with: one for each event loop


class _Server(uvicorn.Server):
    """A server that reports when it accepts connections."""

    def __init__(self, config, report):
        super().__init__(config)
        self._report = report

    async def startup(self, sockets=None):
        await super().startup(sockets)
        if self.started:
            self._report()


@dataclass
class LoopbackServer:
    """A server in a thread of this process.

    Attributes:
        url: Its address, without a slash at the end.
        loop: Its event loop, for `asyncio.run_coroutine_threadsafe`.
        tasks_left: After its end: the tasks that still were there when it had shut down.
        connections_left: After its end: the connections that still were open then.
    """

    port: int
    url: str
    loop: asyncio.AbstractEventLoop | None = None
    tasks_left: list[str] = field(default_factory=list)
    connections_left: int = 0
    _uvicorn: uvicorn.Server | None = None

    @property
    def connections(self) -> int:
        """The number of connections that clients have open."""
        return len(self._uvicorn.server_state.connections)

    def tasks(self) -> int:
        """Return the number of tasks of the event loop."""
        return self.call(lambda: len(asyncio.all_tasks()))

    def call(self, function):
        """Return what a function returns on the event loop of the server."""

        async def run():
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE)

    def stop(self):
        """Request the end of the server; the block around it waits for that."""
        self._uvicorn.should_exit = True


@contextmanager
def serve(application, *, max_stall=60, **settings):
    """Run an application on a port of the loopback; yield its `LoopbackServer`.

    The settings are those of uvicorn. Connections that are still open at the end get 5 seconds to finish. The system
    drops a client that takes nothing for `max_stall` seconds.
    """
    listener = _listen(max_stall=max_stall)
    config = uvicorn.Config(application, **{**_SETTINGS, **settings})
    started, problems = threading.Event(), []
    server = LoopbackServer(listener.getsockname()[1], _url_of(listener))
    server._uvicorn = _Server(config, started.set)

    async def main():
        server.loop = asyncio.get_running_loop()
        await server._uvicorn.serve(sockets=[listener])
        server.connections_left = len(server._uvicorn.server_state.connections)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        tasks = {task for task in tasks if task.get_coro().__qualname__ not in _ENDED_BY_THE_LOOP}
        if tasks:  # uvicorn does not wait for those that it has cancelled
            _, tasks = await asyncio.wait(tasks, timeout=PATIENCE / 2)
        server.tasks_left = [str(task) for task in tasks]

    def run():
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 (raised again by the block)
            problems.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, name="loopback server")
    thread.start()
    try:
        if not started.wait(PATIENCE) or not server._uvicorn.started:
            raise RuntimeError("the server did not start") from (problems[0] if problems else None)
        yield server
    finally:
        server.stop()
        thread.join(PATIENCE)
        listener.close()
    if thread.is_alive() or problems:
        raise RuntimeError("the server did not end well") from (problems[0] if problems else None)


@dataclass
class ServerProcess:
    """One or more processes that serve one port.

    Attributes:
        url: Their address, without a slash at the end.
        processes: The processes, each with its own event loop.
    """

    port: int
    url: str
    processes: list[subprocess.Popen]

    def kill(self, at=0):
        """End a process as the loss of its machine would."""
        self.processes[at].kill()
        self.processes[at].wait(PATIENCE)

    def pause(self, at=0):
        """Stop a process: it keeps its connections and answers nothing."""
        self.processes[at].send_signal(signal.SIGSTOP)

    def resume(self, at=0):
        """Continue a paused process."""
        self.processes[at].send_signal(signal.SIGCONT)

    def memory(self, at=0) -> int:
        """Return the bytes of memory that a process holds."""
        return memory_of(self.processes[at].pid)


@contextmanager
def serve_in_process(factory, *arguments, workers=1, port=0, folder=ROOT, environment=None, **settings):
    """Run an application in processes of its own; yield a `ServerProcess`.

    Args:
        factory: The function that makes the application, as `"module:function"`.
        arguments: The arguments of the function; JSON values.
        workers: The number of processes. They share one port.
        port: The port; 0 for one that is free.
        folder: The working folder of the processes.
        environment: Variables to add to their environment.
        settings: The settings of uvicorn.
    """
    listener = _listen(port)
    plan = json.dumps({"factory": factory, "arguments": arguments, "settings": {**_SETTINGS, **settings}})
    command = [sys.executable, "-m", "tests.support.serving", str(listener.fileno()), plan]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    variables = {**os.environ, "PYTHONPATH": paths, **(environment or {})}
    server = ServerProcess(listener.getsockname()[1], _url_of(listener), [])
    try:
        for _ in range(workers):
            server.processes.append(
                subprocess.Popen(
                    command,
                    pass_fds=[listener.fileno()],
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=folder,
                    env=variables,
                )
            )
        listener.close()  # a port of killed processes refuses connections
        for process in server.processes:
            if process.stdout.readline() != "started\n":
                raise RuntimeError("the server did not start")
        yield server
    finally:
        listener.close()
        _end(server.processes)


def _end(processes):
    for process in processes:
        with suppress(OSError):
            process.send_signal(signal.SIGCONT)
            process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)
        process.stdout.close()


def _listen(port=0, **options):
    listener = listen("127.0.0.1", port, **options)
    # Else a small piece waits for the acknowledgement of the one before, which takes 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _url_of(listener):
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def memory_of(pid="self") -> int:
    """Return the bytes of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def files_of(pid="self") -> int:
    """Return the number of files and sockets that a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@dataclass(frozen=True)
class RawAnswer:
    """An answer as it came: its status (0 for none), its headers and all bytes after them."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Wire:
    """A connection that sends bytes as they are.

    It is closed at the end of the `with` block, or by `abort` as a lost network does.
    """

    def __init__(self, port, *, seconds=PATIENCE, receive_bytes=None, source="127.0.0.1"):
        self.socket = socket.socket()
        if receive_bytes is not None:  # before the connection, so that the window is small from its start
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(seconds)
        self.socket.bind((source, 0))  # a server counts what each address asks
        self.socket.connect(("127.0.0.1", port))

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.socket.close()

    def send(self, data) -> bool:
        """Send bytes; return False if the server has closed the connection."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def finish(self):
        """Send the end of the requests; answers can still come."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def abort(self):
        """Close the connection with a reset, without an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()

    def read_until(self, mark, *, most=1 << 24) -> bytes:
        """Return what comes until a mark has come.

        It is less if the server closes the connection or is silent.
        """
        data = bytearray()
        with suppress(OSError):
            seen = 0
            while data.find(mark, max(0, seen - len(mark))) < 0 and len(data) < most:
                seen = len(data)
                piece = self.socket.recv(65_536)
                if not piece:
                    break
                data += piece
        return bytes(data)

    def read_answer(self) -> RawAnswer:
        """Return one answer; its body is read by its length, or else to the end of the connection."""
        head, _, body = self.read_until(b"\r\n\r\n").partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = headers.get("content-length", "")
        with suppress(OSError):
            while status and (not length.isdigit() or len(body) < int(length)):
                piece = self.socket.recv(65_536)
                if not piece:
                    break
                body += piece
        return RawAnswer(status, headers, body)


def exchange(port, data, **options) -> RawAnswer:
    """Send bytes on a connection with the options of `Wire`, and return the answer."""
    with Wire(port, **options) as wire:
        wire.send(data)
        return wire.read_answer()


def request_bytes(method, path, body=b"", **headers) -> bytes:
    """Return a correct request; `_` in the names of headers stands for `-`."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"host": "127.0.0.1", "connection": "close", **headers}
    if content and "transfer_encoding" not in fields:
        fields = {"content_type": "application/json", "content_length": str(len(content)), **fields}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + content


def serve_files(paths, options=None):
    """Return the application of corpora in files, for `serve_in_process`."""
    return app(paths, **(options or {}))


def _main():
    descriptor, plan = int(sys.argv[1]), json.loads(sys.argv[2])
    listener = socket.socket(fileno=descriptor)
    module, _, name = plan["factory"].partition(":")
    application = getattr(importlib.import_module(module), name)(*plan["arguments"])
    spare_collector()  # as `airw serve` does
    server = _Server(uvicorn.Config(application, **plan["settings"]), lambda: print("started", flush=True))
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again that has ended it
        asyncio.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    _main()

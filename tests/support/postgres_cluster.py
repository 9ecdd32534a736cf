"""Four PostgreSQL servers as one: a coordinator, and three nodes that hold the rows.

They are Debian's PostgreSQL 15, whose `postgres_fdw` reaches from server to server, with pgvector as `.ci/pgvector`
builds it. A copy of the server's programs beside links to its files finds pgvector without installing it. All listen on
Unix sockets in a folder that only their user can enter, and end with this process.
"""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest

VERSION = "15"
INSTALLED = {"lib": Path("/usr/lib/postgresql", VERSION), "share": Path("/usr/share/postgresql", VERSION)}
PGVECTOR = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "airw", f"pgvector-{VERSION}")
SETUP = Path(__file__).with_name("create_distributed_table.sql")
USER = "postgres"  # a server refuses to run as root; Debian's package brings this user
NODES = 3
SETTINGS = """
listen_addresses = ''
shared_buffers = 16MB
fsync = off
enable_partitionwise_join = on
enable_partitionwise_aggregate = on
"""
CONNECT = """
CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (
    host '{host}', dbname 'postgres', extensions 'vector',
    async_capable 'true', parallel_commit 'true', batch_size '1000'
);
CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (user '{user}', password_required 'false');
"""


@cache
def get_cluster() -> "Cluster":
    """Return the cluster of this process, started at the first call; or skip the test."""
    if not (INSTALLED["lib"] / "bin" / "postgres").exists() or not (PGVECTOR / "vector.so").exists():
        pytest.skip(f"PostgreSQL {VERSION} with pgvector is missing: run .ci/pgvector")
    folder = Path(tempfile.mkdtemp(prefix="airw-cluster-"))
    cluster = Cluster(folder)
    atexit.register(shutil.rmtree, folder)
    atexit.register(cluster.stop)
    cluster.start()
    return cluster


class Cluster:
    """A coordinator, to which clients connect, and nodes behind it, numbered from 0."""

    def __init__(self, folder: Path) -> None:
        programs = copy_programs(folder)
        if os.geteuid() == 0:
            shutil.chown(folder, USER, USER)
        names = ["coordinator", *(f"node_{number}" for number in range(NODES))]
        first = folder / names[0]
        options = ["--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        run([programs / "initdb", *options, "--pgdata", first])
        with (first / "postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write(SETTINGS)
        for name in names[1:]:
            run(["cp", "--archive", first, folder / name])
        self.coordinator, *self.nodes = [Server(programs, folder / name) for name in names]

    @property
    def dsn(self) -> str:
        """The address of the coordinator."""
        return self.coordinator.dsn

    def start(self) -> None:
        """Start all servers, and make the nodes known to the coordinator."""
        for server in (self.coordinator, *self.nodes):
            server.start()
        for node in self.nodes:
            node.execute("CREATE EXTENSION vector")
        self.coordinator.execute("CREATE EXTENSION vector; CREATE EXTENSION postgres_fdw; CREATE EXTENSION dblink")
        for number, node in enumerate(self.nodes):
            self.coordinator.execute(CONNECT.format(name=f"node_{number}", host=node.folder, user=USER))
        self.coordinator.execute(SETUP.read_text(encoding="utf-8"))

    def stop(self) -> None:
        """Stop all servers."""
        for server in (self.coordinator, *self.nodes):
            server.stop()


class Server:
    """One server: its folder, and its process while it runs."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._process: subprocess.Popen | None = None

    @property
    def dsn(self) -> str:
        """The address of the server."""
        return f"postgresql://{USER}@/postgres?host={self.folder}"

    def execute(self, statements: str) -> str:
        """Run SQL, and return what `psql` prints: a line a row, and nothing else."""
        psql = INSTALLED["lib"] / "bin" / "psql"
        options = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
        return run([psql, *options, "--dbname", self.dsn, "--command", statements])

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        status = self.folder / "postmaster.pid"
        status.unlink(missing_ok=True)  # left by a server that was killed
        with (self.folder / "log").open("ab") as log:
            command = [self._programs / "postgres", "-D", self.folder, "-k", self.folder]
            self._process = subprocess.Popen(as_user(command), stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not (status.exists() and status.read_text(encoding="utf-8").rstrip().endswith("ready")):
            if self._process.poll() is not None or time.monotonic() > deadline:
                pytest.fail((self.folder / "log").read_text(encoding="utf-8", errors="replace")[-1000:])
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server and the processes of its connections at once, as a power cut does."""
        if self._process is not None:
            pid = self._process.pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
            self._end(signal.SIGKILL)
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server without waiting for its clients."""
        self._end(signal.SIGQUIT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)
            self._process = None


def copy_programs(folder: Path) -> Path:
    """Copy the programs of a server, which then finds pgvector; return their folder."""
    copied = {name: folder / name / "postgresql" / VERSION for name in INSTALLED}
    libraries, extensions = copied["lib"] / "lib", copied["share"] / "extension"
    for made, installed in ((libraries, INSTALLED["lib"] / "lib"), (copied["share"], INSTALLED["share"])):
        made.mkdir(parents=True)
        for file in installed.iterdir():
            if file.name != "extension":
                (made / file.name).symlink_to(file)
    extensions.mkdir()
    for file in (INSTALLED["share"] / "extension").iterdir():
        (extensions / file.name).symlink_to(file)
    for file in PGVECTOR.iterdir():
        shutil.copy(file, libraries if file.suffix == ".so" else extensions)
    programs = copied["lib"] / "bin"
    programs.mkdir()
    for name in ("postgres", "initdb"):
        shutil.copy(INSTALLED["lib"] / "bin" / name, programs)
    return programs


def as_user(command: list[str | Path]) -> list[str]:
    """Return the command, for a user who may run servers, and to end with this process."""
    user = [f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *user, "--pdeathsig", "QUIT", "--", *map(str, command)]


def run(command: list[str | Path]) -> str:
    """Run a command as the user of the servers, and return what it prints."""
    done = subprocess.run(as_user(command), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout

"""Several processes use one registry at the same time, and some are killed.

Nothing is lost, and no lock outlives its process.
"""

import json
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import anyio
import pytest

from airw.corpora import list_corpora, maintain, register, unregister
from airw.errors import StoreBusy

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]  # as in the processes of these tests
PROCESSES, EACH = 8, 50
PRELUDE = """
import os, signal, sys
from functools import partial
import anyio
from airw.corpora import list_corpora, maintain, register
def say(word):
    print(word, flush=True)
"""


@contextmanager
def start_process(code, *arguments):
    """Start another process that imports the library, and kill it at the end."""
    command = [sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


RACING = f"""
# Forked, so that the library is imported once; the parent starts no thread before.
import time
may_go_on, tell = os.pipe()

async def main(process):
    for number in range({EACH}):
        if number == {EACH} // 2:
            os.read(may_go_on, 1)
        await register(f"p{{process}}-{{number}}", "notes", root="/srv", embedder="light")

children = []
for process in range({PROCESSES}):
    children.append(os.fork())
    if children[-1] == 0:
        anyio.run(main, process)
        os._exit(0)
last, reads = 0, 0
while last < {PROCESSES * EACH}:
    found = len(list_corpora())
    assert found >= last, (found, last)
    last, reads = found, reads + 1
    if reads == 20:
        os.write(tell, b"x" * {PROCESSES})
    time.sleep(0.01)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_every_registration_of_eight_processes_is_stored_while_one_reads():
    with start_process(RACING) as process:
        _, complaints = process.communicate(timeout=100)
    assert process.returncode == 0, complaints
    assert set(list_corpora()) == {f"p{process}-{number}" for process in range(PROCESSES) for number in range(EACH)}


FOREVER = """
async def main():
    number = 0
    while True:
        await register("vault", "notes", root=f"/srv/{number}", embedder="light")
        number += 1
        say(number)

anyio.run(main)
"""


async def test_a_process_killed_while_it_registers_leaves_a_whole_registry_and_no_lock(home):
    await register("other", "notes", root="/srv")
    with start_process(FOREVER) as process:
        process.stdout.readline()
        await anyio.sleep(0.05)
        process.kill()
        rest, _ = process.communicate()
    done = len(rest.split()) + 1
    # The last one may have been stored but not yet reported.
    assert list_corpora()["vault"].params["root"] in (f"/srv/{done - 1}", f"/srv/{done}")
    with anyio.fail_after(60):
        await unregister("vault")
    assert list(list_corpora()) == ["other"]


KILLED_AT = """
import airw.corpora.registry as file
from pathlib import Path

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[1] == "half-written":
    os.fsync = die
elif sys.argv[1] == "not yet in place":
    Path.replace = die
else:
    file._sync_folder = die
anyio.run(partial(register, "vault", "notes", root="/new"))
"""


@pytest.mark.parametrize(
    ("moment", "kept"), [("half-written", "/old"), ("not yet in place", "/old"), ("in place", "/new")]
)
async def test_a_process_killed_at_the_worst_moment_leaves_the_old_or_the_new_registry(home, moment, kept):
    await register("vault", "notes", root="/old")
    with start_process(KILLED_AT, moment) as process:
        process.communicate(timeout=30)
    assert process.returncode == -9
    assert {name: each.params["root"] for name, each in list_corpora().items()} == {"vault": kept}
    with anyio.fail_after(60):
        await register("other", "notes", root="/srv")
    assert list(list_corpora()) == ["other", "vault"]
    assert sorted(file.name for file in home.iterdir()) == ["registry.json", "registry.lock"]


MAINTAINING = """
def stop(*_):
    say("building")
    signal.pause()

anyio.run(partial(maintain, progress=stop))
"""


async def test_one_maintenance_runs_at_a_time_and_a_killed_one_keeps_no_lock(tmp_path):
    (tmp_path / "a.md").write_text("rotate the keys")
    await register("vault", "notes", root=tmp_path, embedder="light")
    with start_process(MAINTAINING) as process:
        assert process.stdout.readline() == "building\n"
        for ask in (maintain, partial(maintain, "vault")):
            with pytest.raises(StoreBusy, match="another maintenance still holds"):
                await ask()
        assert [each.action for each in (await maintain(dry_run=True)).corpora] == ["due"]
        process.kill()
        process.wait()
        report = await maintain()
    assert [(each.name, each.action) for each in report.corpora] == [("vault", "built")]
    json.dumps(report.to_dict())

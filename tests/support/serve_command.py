"""`airw serve` in a process of its own."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import httpx

from airw.cli import main
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


@dataclass
class Serving:
    """A running `airw serve`, with its address and the lines it logs."""

    process: subprocess.Popen
    url: str
    lines: list[str] = field(default_factory=list)


@contextmanager
def run_serve(*options, name="serve"):
    """Run `airw serve`, or another command that serves, on a port that the system chooses."""
    command = [sys.executable, "-m", "airw", name, *map(str, options), "--port", "0"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    lines = []
    reader = Thread(target=lambda: lines.extend(line for line in process.stderr), daemon=True)
    reader.start()
    try:
        printed = process.stdout.readline()
        address = re.search(r"http://\S+/", printed)
        assert address, lines
        yield Serving(process, address[0], lines)
    finally:
        process.kill()
        process.wait()
        reader.join(PATIENCE)
        process.stdout.close()
        process.stderr.close()


def build_notes(parent):
    """Build a corpus of two notes in the home of the test, and return their folder."""
    folder = parent / "notes"
    folder.mkdir()
    (folder / "keys.md").write_text("# Keys\nRotate the signing keys. See [the vault](vault.md).", encoding="utf-8")
    (folder / "vault.md").write_text("# Vault\nThe vault is locked.", encoding="utf-8")
    assert main(["build", str(folder), "--embedder", "light"]) == 0
    return folder


def refuses(url):
    """Return whether nobody listens at an address any more."""
    try:
        httpx.get(url)
    except httpx.ConnectError:
        return True
    except httpx.HTTPError:
        pass
    return False

"""Limits of the system, in a child process.

Each call that meets one works, or raises a typed error with advice. The limits are too many open files, files that may
not grow, and a full disk.
"""

import errno
import os
import subprocess

import pytest

from tests.support.corpora import run

pytestmark = pytest.mark.slow

CALLS = r"""
import itertools, resource, signal
import airw
from airw.embedders import CachedEmbedder, resolve_embedder
from airw.errors import AirwError
from airw.policies import Beam

folder, limit = path.parent, sys.argv[2]
before, free = resource.getrlimit(resource.RLIMIT_NOFILE), 0
notes = folder / "notes"
notes.mkdir()
for number in range(5):
    (notes / f"n{number}.md").write_text(f"# Note {number}\nhello [[n{(number + 1) % 5}]]")
(folder / "lines.jsonl").write_text('{"id": "a", "text": "hello"}')
(folder / "skills" / "k").mkdir(parents=True)
(folder / "skills" / "k" / "SKILL.md").write_text("---\nname: k\ndescription: d\n---\nhello")
new = (folder / f"c{number}.airw" for number in itertools.count())

async def build_at(file, source):
    async with airw.build(source, store=file):
        pass

async def open_at(file):
    async with airw.open_corpus(file) as corpus:
        await corpus.search("hello")

async def embed():
    cached = CachedEmbedder(resolve_embedder("light"), path=folder / "cache.db")
    try:
        await cached.embed_documents([f"text {next(new)}"])
    finally:
        await cached.aclose()

async def list_all():
    airw.corpora.list_corpora()

def calls(corpus):
    options = {"name": "n", "embedder": "light"}
    return {
        "open": lambda: open_at(path),
        "build again": lambda: build_at(path, airw.from_notes(notes, **options)),
        "build notes": lambda: build_at(next(new), airw.from_notes(notes, **options)),
        "build files": lambda: build_at(next(new), airw.from_files(notes, **options)),
        "build lines": lambda: build_at(next(new), airw.from_jsonl(folder / "lines.jsonl", **options)),
        "build skills": lambda: build_at(next(new), airw.from_skills(roots=folder / "skills", **options)),
        "search words": lambda: corpus.search("hello", mode="lexical"),
        "search vectors": lambda: corpus.search("hello", mode="dense", filter={"title": {"$contains": "N"}}),
        "discover": lambda: airw.discover([path, folder / "other.airw"], "hello"),
        "traverse": lambda: airw.top_k(airw.traverse("hello", corpus, policy=Beam()), k=3),
        "upsert": lambda: corpus.upsert({f"{next(new).name}.md": "changed " * 20_000}),
        "delete": lambda: corpus.delete(["n1.md"]),
        "copy": lambda: airw.corpora.copy_corpus(path, next(new)),
        "check": lambda: airw.corpora.check_corpus_file(path),
        "list": list_all,
        "maintain": lambda: airw.maintain(),
        "embed": embed,
    }

def take_files():
    # All descriptors below the limit are used, but for those that stay free.
    most = max(map(int, os.listdir("/proc/self/fd"))) + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for _ in range(free):
        os.close(taken.pop())
    return taken

def fill_disk():
    with open(folder / "ballast", "wb", 0) as file:
        try:
            while True:
                file.write(bytes(1_000))
        except OSError:
            pass

async def try_call(name, call):
    taken = take_files() if limit == "files" else []
    try:
        with anyio.fail_after(60):
            await call()
        said = "works"
    except AirwError as error:
        said = f"{type(error).__name__}: {error}"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in taken:
            os.close(descriptor)
    print(f"{name}: {said}", flush=True)

async def main():
    global free
    await build_at(path, airw.from_notes(notes, name="n", embedder="light"))
    await build_at(folder / "other.airw", airw.from_notes(notes, name="o", embedder="light"))
    async with airw.open_corpus(path) as corpus:
        for call in calls(corpus).values():  # modules are loaded before
            await call()
        if limit == "size":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        elif limit == "full":
            fill_disk()
        for free in range(9 if limit == "files" else 1):
            for name, call in calls(corpus).items():
                await try_call(name, call)

anyio.run(main)
"""
COUNT = 17
MOUNT = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=8m none "$0" && exec "$@"']


def can_mount(folder):
    """Return whether this system lets us mount a small disk."""
    try:
        return subprocess.run([*MOUNT, folder, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("limit", ["files", "size", "full"])
def test_each_call_that_meets_a_limit_works_or_raises_a_typed_error(tmp_path, limit, monkeypatch):
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "home"))
    folder = tmp_path / "disk"
    folder.mkdir()
    if limit == "full" and not can_mount(folder):
        pytest.skip("needs the right to mount a disk")
    before = [*MOUNT, folder] if limit == "full" else []
    lines = run(CALLS, folder / "notes.airw", limit, before=before).splitlines()
    assert len(lines) == COUNT * (9 if limit == "files" else 1), "each call prints one line"
    failed = [line for line in lines if not line.endswith(": works")]
    assert 5 <= len(failed) < len(lines)
    for line in failed:
        assert line.split(": ")[1] in {"StoreError", "SourceError", "DiscoveryError"}, line
        if limit == "files":
            assert os.strerror(errno.EMFILE) in line or "close some files" in line, line
        else:
            assert "space" in line or "choose a path" in line, line

"""The embedding cache: stored vectors of another embedder, its limit and its faults."""

import gc
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.embedders import CachedEmbedder, HashingEmbedder, cached, embedder_from
from airw.errors import ArgumentError, EmbedderError, StoreBusy, StoreCorrupt, StoreError
from airw.protocols import Embedder
from tests.support.drawing import examples

DIM = 4
ENTRY = 128 + 4 * DIM


def vector(*parts: str) -> np.ndarray:
    """Return the vector for these strings and no others; its length is almost one."""
    seed = int.from_bytes(sha256("|".join(parts).encode("utf-8", "surrogatepass")).digest()[:8], "little")
    row = np.random.default_rng(seed).standard_normal(DIM)
    return (row / np.linalg.norm(row) * (1 + 1e-6)).astype(np.float32)


class Recorder:
    """An embedder that records its calls and embeds queries and documents differently."""

    dim = DIM

    def __init__(self, id="recorder-v1"):
        self.id = id
        self.calls = []

    async def embed_documents(self, texts):
        await anyio.lowlevel.checkpoint()
        self.calls.append(list(texts))
        return np.array([vector(self.id, "document", text) for text in texts], np.float32).reshape(-1, DIM)

    async def embed_query(self, text):
        await anyio.lowlevel.checkpoint()
        self.calls.append(text)
        return vector(self.id, "query", text)


class Never(Recorder):
    """An embedder that must not be called."""

    async def embed_documents(self, texts):
        raise AssertionError(f"asked for {texts!r}")

    async def embed_query(self, text):
        raise AssertionError(f"asked for {text!r}")


class Unloaded(Never):
    """A model that knows its width only after it is loaded."""

    @property
    def dim(self):
        raise EmbedderError("the width is known once it is loaded")


def documents(texts, id="recorder-v1"):
    return np.array([vector(id, "document", text) for text in texts], np.float32).reshape(-1, DIM)


def sql(path, statement, *values):
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as raw:
        return raw.execute(statement, values).fetchall()


def count_bytes(path) -> int:
    """Return the bytes of all entries, and check that the stored sum agrees."""
    [(total,)] = sql(path, "SELECT bytes FROM total")
    [(entries,)] = sql(path, "SELECT ifnull(sum(128 + 4 * dim), 0) FROM entry JOIN vector USING (id)")
    [(vectors,)] = sql(path, "SELECT ifnull(sum(124 + length(data)), 0) FROM vector")  # 4 of the 128 are its checksum
    assert total == entries == vectors
    return total


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "vectors.cache"


# --- the same as without it -----------------------------------------------------------------------------------------


async def test_vectors_equal_those_of_the_other_embedder_bit_for_bit_at_first_and_later(path):
    texts = ["keys", "", "Straße \ud800 \0 \U0001f600\n", "bread" * 10_000]
    for place in (None, path):
        inner = Recorder()
        async with CachedEmbedder(inner, path=place) as embedder:
            assert isinstance(embedder, Embedder)
            assert (embedder.id, embedder.dim) == (inner.id, inner.dim)
            for _ in range(2):
                rows = await embedder.embed_documents(texts)
                assert rows.dtype == np.float32
                assert rows.tobytes() == documents(texts).tobytes()
                row = await embedder.embed_query("keys")
                assert row.shape == (DIM,)
                assert row.tobytes() == vector(inner.id, "query", "keys").tobytes()
            assert inner.calls == [texts, "keys"]


async def test_one_call_embeds_all_missing_texts_without_duplicates(path):
    inner = Recorder()
    async with CachedEmbedder(inner, path=path) as embedder:
        await embedder.embed_documents(["b", "a"])
        rows = await embedder.embed_documents(["c", "a", "d", "c", "b", "d", "c"])
        assert inner.calls == [["b", "a"], ["c", "d"]]
        assert (rows == documents(["c", "a", "d", "c", "b", "d", "c"])).all()


@pytest.mark.slow
async def test_thousands_of_texts_are_one_call_in_their_order(path):
    texts = [f"text {number % 5_000}" for number in range(6_000)]
    inner = Recorder()
    async with CachedEmbedder(inner, path=path) as embedder:
        await embedder.embed_documents(texts[:100])
        rows = await embedder.embed_documents(texts)
        assert (rows == documents(texts)).all()
        assert (await embedder.embed_documents(texts[::-1]) == rows[::-1]).all()
    assert inner.calls == [texts[:100], texts[100:5_000]]


async def test_without_texts_the_answer_is_empty_with_the_right_width():
    assert (await CachedEmbedder(Recorder()).embed_documents([])).shape == (0, DIM)


async def test_an_answer_may_be_changed_without_changing_the_next_one():
    async with CachedEmbedder(Recorder()) as embedder:
        for _ in range(2):
            rows = await embedder.embed_documents(["a", "b"])
            assert (rows == documents(["a", "b"])).all()
            rows[:] = 0


async def test_stored_vectors_need_no_model(path):
    """Not even the width needs it, which some models know only after they are loaded."""
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_documents(["a", "b"])
        await embedder.embed_query("a")
    async with CachedEmbedder(Unloaded(), path=path) as embedder:
        assert (await embedder.embed_documents(["b", "a"]) == documents(["b", "a"])).all()
        assert (await embedder.embed_query("a") == vector("recorder-v1", "query", "a")).all()


async def test_ids_in_one_file_never_mix(path):
    """They do not mix even if an id and a text, joined, are the same string."""
    ids = ["m", "m1", "m|document", "mdocument", "\ud800", ""]
    texts = ["a", "1a", "document", "documenta", "query", ""]
    for new in (True, False):
        for id in ids:
            async with CachedEmbedder(Recorder(id) if new else Never(id), path=path) as embedder:
                assert (await embedder.embed_documents(texts) == documents(texts, id)).all()
                assert (await embedder.embed_query("a") == vector(id, "query", "a")).all()


async def test_an_inner_embedder_of_another_width_with_the_same_id_is_called_again(path):
    wide = embedder_from(lambda texts: np.ones((len(texts), 9)), id="recorder-v1", dim=9)
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_documents(["a", "b"])
    async with CachedEmbedder(wide, path=path) as embedder:
        assert (await embedder.embed_documents(["a", "b"])).shape == (2, 9)
    assert count_bytes(path) == 2 * (128 + 36)


async def test_a_model_with_another_width_than_stored_is_an_error_until_its_width_is_known(path):
    class Changed(Recorder):
        @property
        def dim(self):
            if not self.calls:
                raise EmbedderError("the width is known once it is loaded")
            return 9

        async def embed_documents(self, texts):
            self.calls.append(texts)
            return np.eye(9, dtype=np.float32)[: len(texts)]

    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_documents(["a"])
    async with CachedEmbedder(Changed(), path=path) as embedder:
        with pytest.raises(EmbedderError, match=r"shape \(1, 4\), not \(1, 9\)"):
            await embedder.embed_documents(["a", "b"])
        assert (await embedder.embed_documents(["a", "b"])).shape == (2, 9)


async def test_the_file_contains_no_texts(path):
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_documents(["a secret"])
        written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert len(written) > 1_000
    assert b"secret" not in written
    assert b"recorder" not in written


# --- the limit ------------------------------------------------------------------------------------------------------

some_texts = st.lists(st.sampled_from("abcdefgh"), max_size=12)
steps = st.lists(st.tuples(st.sampled_from(["document", "query"]), some_texts), max_size=12)


class Model:
    """A model of the cache in five lines: its texts in order of use, the latest last."""

    def __init__(self, room):
        self.room, self.held = room, OrderedDict()

    def missing(self, kind, texts) -> list[str]:
        distinct = list(dict.fromkeys(texts))
        new = [text for text in distinct if (kind, text) not in self.held]
        for text in [*(text for text in distinct if text not in new), *new]:
            self.held.pop((kind, text), None)
            self.held[kind, text] = None
        while len(self.held) > self.room:
            self.held.popitem(last=False)
        return new


@settings(max_examples=examples(40))
@given(steps, st.integers(0, 7), st.integers(1, ENTRY - 1), st.booleans())
def test_any_calls_equal_the_inner_embedder_and_evict_the_least_recently_used(steps, room, spare, reopens):
    """The size never exceeds the limit; the order of use outlives a closed cache."""

    async def run(path):
        model, inner = Model(room), Recorder()
        embedder = CachedEmbedder(inner, path=path, max_bytes=room * ENTRY + spare)
        for kind, texts in steps:
            inner.calls.clear()
            if kind == "document":
                assert (await embedder.embed_documents(texts) == documents(texts)).all()
                if texts:
                    missing = model.missing(kind, texts)
                    assert inner.calls == ([missing] if missing else [])
            else:
                for text in texts:
                    assert (await embedder.embed_query(text) == vector(inner.id, kind, text)).all()
                assert inner.calls == [text for text in texts if model.missing(kind, [text])]
            if path.exists():
                assert count_bytes(path) == len(model.held) * ENTRY
            if reopens:
                await embedder.aclose()
                embedder = CachedEmbedder(inner, path=path, max_bytes=room * ENTRY + spare)
        await embedder.aclose()

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(run, Path(folder) / "c")


@pytest.mark.slow
async def test_a_call_larger_than_the_limit_keeps_its_last_texts(path):
    texts = [f"text {number}" for number in range(3_000)]
    inner = Recorder()
    async with CachedEmbedder(inner, path=path, max_bytes=100 * ENTRY) as embedder:
        assert (await embedder.embed_documents(texts) == documents(texts)).all()
        assert count_bytes(path) == 100 * ENTRY
        await embedder.embed_documents(texts[-100:])
    assert len(inner.calls) == 1


@pytest.mark.slow
async def test_the_file_does_not_grow_when_entries_make_room(path):
    async with CachedEmbedder(HashingEmbedder(384), path=path, max_bytes=200 * (128 + 4 * 384)) as embedder:
        sizes = []
        for start in range(0, 4_000, 200):
            await embedder.embed_documents([f"text {start + number}" for number in range(200)])
            [(pages,)] = sql(path, "PRAGMA page_count")
            [(size,)] = sql(path, "PRAGMA page_size")
            sizes.append(pages * size)
    assert max(sizes) < 1.5 * 200 * (128 + 4 * 384)


async def test_uses_are_written_only_after_there_are_many(path, monkeypatch):
    texts = [f"text {number}" for number in range(40)]
    monkeypatch.setattr(cached, "_PENDING_USES", 40)
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_documents(texts)
        [(before,)] = sql(path, "SELECT max(used) FROM entry")
        await embedder.embed_documents(texts[:39])
        assert sql(path, "SELECT max(used) FROM entry") == [(before,)]
        await embedder.embed_documents(texts[:40])
        assert sql(path, "SELECT max(used) FROM entry") == [(before + 40,)]


# --- concurrent use -------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_concurrent_calls_each_get_their_own_answer(path):
    async def work(embedder, seed):
        chooser = random.Random(seed)
        for _ in range(15):
            texts = [f"text {chooser.randrange(60)}" for _ in range(chooser.randrange(1, 20))]
            assert (await embedder.embed_documents(texts) == documents(texts, embedder.id)).all()
            assert (await embedder.embed_query(texts[0]) == vector(embedder.id, "query", texts[0])).all()

    limit = 40 * ENTRY
    async with (
        CachedEmbedder(Recorder("one"), path=path, max_bytes=limit) as one,
        CachedEmbedder(Recorder("two"), path=path, max_bytes=limit) as two,
        anyio.create_task_group() as group,
    ):
        for seed in range(6):
            group.start_soon(work, (one, two)[seed % 2], seed)
    assert count_bytes(path) <= limit


def test_one_embedder_serves_one_event_loop_after_another():
    embedder = CachedEmbedder(Recorder())
    for backend in ("asyncio", "trio", "asyncio"):
        rows = anyio.run(embedder.embed_documents, ["a", "b"], backend=backend)
        assert (rows == documents(["a", "b"])).all()
    assert len(embedder._embedder.calls) == 1


HAMMER = """
import random, sys, anyio
from airw.embedders import CachedEmbedder, HashingEmbedder
path, seed, rounds, limit = sys.argv[1], *map(int, sys.argv[2:])
async def main():
    chooser, inner = random.Random(seed), HashingEmbedder(16)
    async with CachedEmbedder(inner, path=path, max_bytes=limit) as embedder:
        for number in range(rounds):
            texts = [f"text {chooser.randrange(500)}" for _ in range(50)]
            assert (await embedder.embed_documents(texts) == await inner.embed_documents(texts)).all()
            print(number, flush=True)
anyio.run(main)
"""


def hammer(path, seed, *, rounds, limit=200 * (128 + 64)):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HAMMER, str(path), str(seed), str(rounds), str(limit)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_processes_share_one_file(path):
    """Both begin with no file, write at the same time, and evict what the other wrote."""
    workers = [hammer(path, seed, rounds=60) for seed in (1, 2)]
    for worker in workers:
        printed, problems = worker.communicate(timeout=60)
        assert worker.returncode == 0, problems
        assert printed.split() == [str(number) for number in range(60)]
    assert 0 < count_bytes(path) <= 200 * (128 + 64)


@pytest.mark.slow
def test_a_text_embedded_by_one_process_is_stored_for_another(path):
    worker = hammer(path, 5, rounds=1, limit=1 << 20)
    worker.communicate(timeout=60)
    chooser = random.Random(5)
    texts = [f"text {chooser.randrange(500)}" for _ in range(50)]
    inner = Never("hashing-v2-16")
    inner.dim = 16
    rows = anyio.run(CachedEmbedder(inner, path=path).embed_documents, texts)
    assert (rows == anyio.run(HashingEmbedder(16).embed_documents, texts)).all()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_process_killed_at_any_moment_leaves_a_whole_file(path):
    chooser = random.Random(3)
    for seed in range(6):
        worker = hammer(path, seed, rounds=100_000)
        for _ in range(chooser.randrange(1, 30)):
            assert worker.stdout.readline()
        time.sleep(chooser.random() / 100)
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        assert sql(path, "PRAGMA integrity_check") == [("ok",)]
        assert 0 < count_bytes(path) <= 200 * (128 + 64)
    worker = hammer(path, 99, rounds=20)
    _, problems = worker.communicate(timeout=60)
    assert worker.returncode == 0, problems


# --- cancelling and closing -----------------------------------------------------------------------------------------


async def test_a_cancelled_call_leaves_the_cache_usable(path):
    class Slow(Recorder):
        async def embed_documents(self, texts):
            await anyio.sleep(0 if self.calls else 60)
            return await super().embed_documents(texts)

    inner = Slow()
    async with CachedEmbedder(inner, path=path) as embedder:
        with anyio.move_on_after(0.05) as scope:
            await embedder.embed_documents(["a"])
        assert scope.cancelled_caught
        inner.calls.append("from now on quick")
        assert (await embedder.embed_documents(["a"]) == documents(["a"])).all()


@pytest.mark.slow
async def test_cancelling_at_any_moment_never_causes_a_wrong_answer_later(path):
    chooser = random.Random(11)
    async with CachedEmbedder(Recorder(), path=path, max_bytes=300 * ENTRY) as embedder:
        for _ in range(40):
            texts = [f"text {chooser.randrange(900)}" for _ in range(100)]
            with anyio.move_on_after(chooser.random() * 0.008):
                assert (await embedder.embed_documents(texts) == documents(texts)).all()
        texts = [f"text {number}" for number in range(900)]
        assert (await embedder.embed_documents(texts) == documents(texts)).all()
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]
    assert count_bytes(path) == 300 * ENTRY


async def test_a_closed_cache_raises_an_error_and_closing_twice_is_harmless(path):
    for place in (None, path):
        async with CachedEmbedder(Recorder(), path=place) as embedder:
            await embedder.embed_query("a")
        await embedder.aclose()
        with pytest.raises(StoreError, match="closed; create another"):
            await embedder.embed_query("a")


async def test_a_cache_that_was_never_used_closes_and_creates_no_file(path):
    async with CachedEmbedder(Recorder(), path=path):
        pass
    assert not path.exists()


async def test_a_cache_that_is_not_closed_closes_itself_without_a_warning(path, recwarn):
    for place in (None, path):
        embedder = CachedEmbedder(Recorder(), path=place)
        await embedder.embed_documents(["a"])
        if place:
            assert path.with_name(path.name + "-wal").exists()
        del embedder
        gc.collect()
    assert not path.with_name(path.name + "-wal").exists()  # the last to close tidies up
    assert not recwarn.list


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE vector SET data = zeroblob(length(data))",
        "UPDATE vector SET data = substr(data, 1, 8)",
        "UPDATE vector SET data = substr(data, 1, 19)",
        "UPDATE vector SET data = CAST(data || data AS BLOB)",
        "UPDATE vector SET data = x''",
        "UPDATE vector SET data = CAST(substr(data, 1, 8) || x'0000c07f' || substr(data, 13) AS BLOB)",
        "UPDATE vector SET data = CAST(substr(data, 1, 8) || x'01' || substr(data, 10) AS BLOB)",
        "UPDATE vector SET data = (SELECT data FROM vector AS other WHERE other.id = 3 - vector.id)",
        "DELETE FROM vector",
        "UPDATE entry SET dim = 3 WHERE id = 1",
    ],
    ids=["zeros", "short", "odd", "long", "empty", "nan", "a-bit", "swapped", "gone", "another-width"],
)
@pytest.mark.parametrize("known", [True, False], ids=["width-known", "width-unknown"])
async def test_a_damaged_vector_is_embedded_again(path, statement, known):
    """This is true for any damage, and whether the model knows its width before loading."""

    class Loading(Recorder):
        @property
        def dim(self):
            if not known and not self.calls:
                raise EmbedderError("the width is known once it is loaded")
            return DIM

    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_documents(["a", "b"])
    sql(path, statement)
    inner = Loading()
    async with CachedEmbedder(inner, path=path) as embedder:
        for _ in range(2):
            assert (await embedder.embed_documents(["a", "b"]) == documents(["a", "b"])).all()
    assert len(inner.calls) == 1
    if not statement.startswith("UPDATE entry"):
        assert count_bytes(path) == 2 * ENTRY


def flip_byte(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x5A]) + content[at + 1 :]


@pytest.mark.slow
async def test_with_a_flipped_byte_answers_are_right_or_there_is_an_error_with_a_remedy(path):
    texts = [f"text {number}" for number in range(300)]
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_documents(texts)
    content = path.read_bytes()
    chooser, answers = random.Random(2), 0
    for at in [*range(0, 100, 12), *(chooser.randrange(len(content)) for _ in range(30))]:
        path.write_bytes(flip_byte(content, at))
        with suppress(StoreError):
            async with CachedEmbedder(Recorder(), path=path) as embedder:
                assert (await embedder.embed_documents(texts) == documents(texts)).all()
                answers += 1
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert answers > 10


def garbage(path):
    path.write_bytes(b"not a database at all " * 400)


def cut_short(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_a_table(path):
    sql(path, "DROP TABLE vector")


def without_a_total(path):
    sql(path, "DELETE FROM total")


def newer(path):
    sql(path, "PRAGMA user_version = 9")


@pytest.mark.parametrize("spoil", [garbage, cut_short, without_a_table, without_a_total, newer])
async def test_a_damaged_file_is_an_error_with_the_advice_to_delete_it(path, spoil):
    """Deleting it is enough."""
    texts = [f"text {number}" for number in range(500)]
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_documents(texts)
    spoil(path)
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        with pytest.raises(StoreCorrupt, match=r"vectors\.cache.*delete it") as caught:
            await embedder.embed_documents(texts)
    assert "\n" not in str(caught.value)
    path.unlink()
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        assert (await embedder.embed_documents(texts) == documents(texts)).all()


async def test_a_database_of_another_program_is_refused_and_not_changed(path):
    sql(path, "CREATE TABLE mine (x)")
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="another application; choose another path"):
        await CachedEmbedder(Recorder(), path=path).embed_query("a")
    assert path.read_bytes() == before


async def test_an_impossible_path_is_an_error_that_names_it(path):
    for place in (path.parent, path / "in" / "no" / "folder"):
        with pytest.raises(StoreError, match=r"cannot be read or written .* that you can write to"):
            await CachedEmbedder(Recorder(), path=place).embed_query("a")


async def test_a_full_disk_is_an_error_and_nothing_is_half_written(path):
    """The page limit of the database simulates the disk."""
    texts = [f"text {number}" for number in range(500)]
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_documents(["a"])
        embedder._file._raw.execute("PRAGMA max_page_count = 1")  # raised to what is there
        with pytest.raises(StoreError, match="cannot grow"):
            await embedder.embed_documents(texts)
        assert (await embedder.embed_documents(["a"]) == documents(["a"])).all()
        assert count_bytes(path) == ENTRY


async def test_while_another_process_writes_reading_continues_and_writing_waits(path):
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_documents(["a"])
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert (await embedder.embed_documents(["a"]) == documents(["a"])).all()
            with anyio.move_on_after(0.1) as scope:
                await embedder.embed_documents(["b"])
            assert scope.cancelled_caught  # and soon, although the other process still has the lock
            async with anyio.create_task_group() as group:
                group.start_soon(embedder.embed_documents, ["c"])
                await anyio.sleep(0.1)
                other.execute("ROLLBACK")
        assert len(sql(path, "SELECT id FROM entry")) == 2


async def test_a_file_locked_for_too_long_is_an_error(path, monkeypatch):
    monkeypatch.setattr(cached, "_WAIT", 0.1)
    embedder = CachedEmbedder(Recorder(), path=path)
    await embedder.embed_documents(["a"])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            with pytest.raises(StoreBusy, match=r"another process has locked .*vectors\.cache'"):
                await embedder.embed_documents(["b"])
        await embedder.embed_documents(["a"])  # a use, which closing writes down
        with pytest.raises(StoreBusy):
            await embedder.aclose()
    with pytest.raises(StoreError, match="closed"):
        await embedder.embed_documents(["a"])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (np.ones((1, DIM), np.float32), r"shape \(2, 4\), not \(1, 4\)"),
        (np.ones((2, DIM + 1), np.float32), r"shape \(2, 4\), not \(2, 5\)"),
        (np.full((2, DIM), np.nan, np.float32), "not finite"),
        ([[1.0] * DIM, [1.0]], "one width"),
        (None, "must return"),
    ],
)
async def test_an_invalid_answer_is_refused_and_not_stored(path, answer, why):
    class Wrong(Recorder):
        async def embed_documents(self, texts):
            return answer

        async def embed_query(self, text):
            return answer if answer is None else answer[0] if np.shape(answer[0]) != (DIM,) else [["x"]]

    async with CachedEmbedder(Wrong(), path=path) as embedder:
        with pytest.raises(EmbedderError, match=f"'recorder-v1' .*{why}"):
            await embedder.embed_documents(["a", "b"])
        with pytest.raises(EmbedderError, match="'recorder-v1'"):
            await embedder.embed_query("a")
    assert count_bytes(path) == 0


async def test_an_error_of_the_inner_embedder_is_not_wrapped():
    class Fails(Recorder):
        async def embed_documents(self, texts):
            raise EmbedderError("quota spent")

    with pytest.raises(EmbedderError, match=r"^quota spent$"):
        await CachedEmbedder(Fails()).embed_documents(["a"])


@pytest.mark.parametrize("bad", ["one string", ["fine", b"bytes"], [None]])
async def test_a_value_that_is_not_a_list_of_strings_is_refused(bad):
    with pytest.raises(EmbedderError, match="CachedEmbedder takes"):
        await CachedEmbedder(Never()).embed_documents(bad)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"embedder": 3}, "embedder"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_bytes": 1.5}, "max_bytes"),
        ({"path": 3}, "path"),
        ({"path": ""}, "path"),
        ({"path": ":memory:"}, "path"),
    ],
)
def test_invalid_options_are_refused_when_a_cache_is_created(options, name):
    with pytest.raises(ArgumentError, match=name):
        CachedEmbedder(**{"embedder": Recorder(), **options})


def test_it_accepts_a_specification_and_its_repr_shows_the_inner_embedder(tmp_path):
    embedder = CachedEmbedder("light", path=tmp_path / "c")
    assert embedder.id == "hashing-v2-512"
    assert repr(embedder) == f"CachedEmbedder(HashingEmbedder(dim=512, version='v2'), path={str(tmp_path / 'c')!r})"
    assert repr(CachedEmbedder("light")) == "CachedEmbedder(HashingEmbedder(dim=512, version='v2'))"


FORKED = """
import asyncio, os, signal, sys, threading, time, warnings
from airw.embedders import CachedEmbedder, HashingEmbedder
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads, from Python 3.12 on
embedder = CachedEmbedder(HashingEmbedder(), path=sys.argv[1])
row, has_ended = asyncio.run(embedder.embed_query("before")), []

def write():
    number = 0
    while not has_ended:
        asyncio.run(embedder.embed_documents([f"{number} {text}" for text in range(200)]))
        number += 1

threading.Thread(target=write).start()
for turn in range(12):
    time.sleep(0.01)  # so that each child begins at another point of a write
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        same = asyncio.run(embedder.embed_query("before")) == row
        os._exit(not same.all())
    if os.waitpid(child, 0)[1]:
        print("a child failed or hung")
        break
has_ended.append(True)
"""


@pytest.mark.slow
def test_a_process_that_is_forked_during_a_write_uses_the_cache(path):
    command = [sys.executable, "-c", FORKED, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert (done.stdout, done.stderr) == ("", "")


async def test_a_cache_that_computes_what_it_stores_is_refused_before_a_row_is_read(path):
    async with CachedEmbedder(Recorder(), path=path) as embedder:
        await embedder.embed_query("a")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        computed = "data BLOB AS (instr(zeroblob(900000000), zeroblob(400000000) || x'01'))"
        connection.execute("UPDATE sqlite_schema SET sql = replace(sql, 'data BLOB NOT NULL', ?)", [computed])
    with pytest.raises(StoreCorrupt, match="contains the table 'vector', which airw did not make; delete it"):
        await CachedEmbedder(Recorder(), path=path).embed_query("a")

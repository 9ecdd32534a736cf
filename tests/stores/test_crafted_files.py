"""Corpus files that a stranger crafted.

Each call answers or raises an error of the library, and soon.
"""

import json
import random
import resource
import shutil
import sqlite3
from contextlib import closing

import anyio
import pytest

import airw
from airw.cli import main
from airw.corpora import build, open_corpus
from airw.errors import AirwError, StoreCorrupt
from airw.protocols import ArtifactIds, Calibrations, Counts, Edges, Ledger, Matching, RecordsOf, UnresolvedLinks, ask
from airw.sources import from_mapping
from airw.stores import SqliteStore, copy_file
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.asyncio_only,
    pytest.mark.filterwarnings("ignore::airw.errors.UnknownFieldWarning"),
]

MOST_MEMORY = 500_000  # KiB; the largest value here has 30 MB
DEEP = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
CONFIG = "UPDATE setting SET value = {} WHERE kind = 'config'"


def set_config(field, value):
    return [(CONFIG.format(f"json_set(value, '$.{field}', json(?))"), [json.dumps(value)])]


# An expression that needs gigabytes, and one that needs minutes, both without an end for whoever waits.
HUGE = "printf('%.900000000c', 'x')"
LONG = "instr(zeroblob(900000000), zeroblob(400000000) || x'01') > 0"


def edit(table, old, new):
    """Return the statement that changes a part of the schema, without running what it says."""
    return "UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = ?", [old, new, table]


OPENED = {
    "artifacts are an endless view": [
        "DROP TABLE artifact",
        f"""CREATE VIEW artifact AS {ENDLESS} SELECT 'a' || x AS id, 'v' AS version, 'hashing-v1-512' AS embedder_id,
        's' AS strategy_id, 'x' AS extractor_id, '' AS source FROM c""",
    ],
    "settings are an endless view": [
        "ALTER TABLE setting RENAME TO s",
        f"CREATE VIEW setting AS {ENDLESS} SELECT kind, key, value FROM s, c WHERE x < 0",
    ],
    "a trigger never ends": [
        f"CREATE TRIGGER t AFTER INSERT ON artifact BEGIN INSERT INTO gone (record_id) {ENDLESS} SELECT x FROM c; END"
    ],
    "a trigger deletes everything": ["CREATE TRIGGER t AFTER INSERT ON artifact BEGIN DELETE FROM record; END"],
    "records are a virtual table": [
        "ALTER TABLE record RENAME TO r",
        "CREATE VIRTUAL TABLE record USING fts5 (id, artifact_id, kind, idx, metadata, text)",
    ],
    "texts are computed, and huge": [edit("record", "text TEXT NOT NULL", f"v TEXT, text TEXT AS ({HUGE} || v)")],
    "settings are computed without an end": [
        edit("setting", "value TEXT NOT NULL", f"v TEXT, value TEXT AS (iif({LONG}, '', v))")
    ],
    "an index has a huge expression": ["CREATE INDEX i ON record (kind)", edit("i", "(kind)", f"({HUGE} || kind)")],
    "an index of airw has another condition": [edit("link_by_ref", "(ref)", f"(ref) WHERE ref > {HUGE}")],
    "a check never ends": [edit("record", "text TEXT NOT NULL", f"text TEXT NOT NULL CHECK ({LONG})")],
    "a table more is computed": [f"CREATE TABLE mine (x, y AS ({HUGE}))"],
    "a table more among many is computed": [
        *(f"CREATE TABLE t{number} (x)" for number in range(100)),
        f"CREATE TABLE z (x, y AS ({HUGE}))",
    ],
    "a statement is huge": [edit("artifact", "source TEXT", f"source /*{'x' * 2_000_000}*/ TEXT")],
    "an expression is deep": [edit("bucket", "live INTEGER", f"live INTEGER DEFAULT {'(' * 900}1{')' * 900}")],
    "a table of the text index is computed": [edit("record_text_docsize", "sz BLOB", f"sz BLOB AS ({HUGE})")],
    "the text index is a table": ["DROP TABLE record_text", "CREATE TABLE record_text (text)"],
    "a collation is foreign": [edit("name", "key TEXT", "key TEXT COLLATE evil")],
    "a column has a collation of SQLite": [edit("record", "id TEXT", "id TEXT COLLATE NOCASE")],
    "a table is strict": [edit("artifact", "WITHOUT ROWID", "WITHOUT ROWID, STRICT")],
    "the ledger has rowids": [edit("artifact", "WITHOUT ROWID", "")],
    "a default is computed": [edit("bucket", "live INTEGER NOT NULL", f"live INTEGER NOT NULL DEFAULT ({HUGE})")],
    "a column conflicts by deleting": [
        edit("record", "id TEXT NOT NULL UNIQUE", "id TEXT NOT NULL UNIQUE ON CONFLICT REPLACE")
    ],
    "records have a foreign key": [
        edit("record", "artifact_id TEXT NOT NULL", "artifact_id TEXT NOT NULL REFERENCES artifact ON DELETE CASCADE")
    ],
    "an index is unique": [edit("link_by_ref", "CREATE INDEX", "CREATE UNIQUE INDEX")],
    "an index more has a part": ["CREATE INDEX i ON record (kind) WHERE kind > 'a'"],
    "two tables have one name in another case": [
        """INSERT INTO sqlite_schema SELECT type, 'RECORD', 'RECORD', rootpage, 'CREATE TABLE RECORD (x)'
        FROM sqlite_schema WHERE name = 'bucket'"""
    ],
    "a view has the name of a table in another schema": ["CREATE VIEW 'temp.record' AS SELECT 1"],
    "a trigger is on a view": [
        "CREATE VIEW v AS SELECT 1 AS x",
        f"CREATE TRIGGER t INSTEAD OF INSERT ON v BEGIN INSERT INTO gone (record_id) {ENDLESS} SELECT x FROM c; END",
    ],
    "a virtual table more": ["CREATE VIRTUAL TABLE more USING fts5 (x)"],
    "a table more has names of functions": ["CREATE TABLE m (x DEFAULT (randomblob(900000000)))"],
    "the text index reads another table": [edit("record_text", "content='record'", "content='setting'")],
    "the text index has another tokenizer": [edit("record_text", "tokenize=", "prefix='1 2 3', tokenize=")],
    "a statement is NULL": ["UPDATE sqlite_schema SET sql = NULL WHERE name = 'record'"],
    "a statement is bytes": ["UPDATE sqlite_schema SET sql = x'00ff' WHERE name = 'record'"],
    "a statement is of another table": [edit("bucket", "bucket", "gone")],
    "a root page does not exist": ["UPDATE sqlite_schema SET rootpage = 99999999 WHERE name = 'bucket'"],
    "a table more has the name of a schema": ['CREATE TABLE "main.record" (x)'],
    "tables are missing": ["DROP TABLE link", "DROP TABLE name", "DROP TABLE gone"],
    "settings nest deeply": [(CONFIG.format("?"), [DEEP])],
    "settings are a list": [(CONFIG.format("?"), ["[1]"])],
    "settings are a number": [(CONFIG.format("?"), ["7"])],
    "settings are no JSON": [(CONFIG.format("?"), ["{"])],
    "settings lack the embedder": [CONFIG.format("json_remove(value, '$.embedder')")],
    "settings lack the width": [CONFIG.format("json_remove(value, '$.dim')")],
    "the embedder is a number": set_config("embedder", 7),
    "the embedder is null": set_config("embedder", None),
    "the embedder is a path with NUL": set_config("embedder", "/x\0y"),
    "the embedder is a path of 100,000 characters": set_config("embedder", "/" + "x" * 100_000),
    "the name is a number": set_config("name", 7),
    "the name is huge": set_config("name", "x" * 100_000),
    "the source is a list": set_config("source", []),
    "the width is a text": set_config("dim", "x"),
    "the width is negative": set_config("dim", -3),
    "the recipes are a number": set_config("recipes", 7),
    "a recipe is a number": set_config("recipes", {"notes": 7}),
}
"""Files that must not even be opened, by what a stranger did to them."""

CALLED = {
    "metadata nest deeply": [("UPDATE record SET metadata = ?", [DEEP])],
    "metadata are a list": ["UPDATE record SET metadata = '[1]'"],
    "metadata are a number": ["UPDATE record SET metadata = '1'"],
    "metadata have NaN": ["""UPDATE record SET metadata = '{"a": NaN}'"""],
    "metadata have a number of 5,000 digits": [("UPDATE record SET metadata = ?", ['{"a": ' + "9" * 5000 + "}"])],
    "metadata have half a character": [("UPDATE record SET metadata = ?", ['{"a": "\\ud800"}'])],
    "metadata are bytes": ["UPDATE record SET metadata = x'ff00'"],
    "texts are bytes": ["UPDATE record SET text = x'ff00'"],
    "texts are numbers": ["UPDATE record SET text = 5, artifact_id = 7"],
    "artifact ids are bytes": ["UPDATE record SET artifact_id = x'00ff' WHERE rowid % 2"],
    "record ids are bytes": ["UPDATE record SET id = CAST(id AS BLOB) WHERE rowid % 2"],
    "kinds are bytes": ["UPDATE record SET kind = x'00ff' WHERE rowid % 2"],
    "ledger ids are bytes": ["UPDATE artifact SET id = CAST(id AS BLOB) WHERE id > 'n1'"],
    "an index is a text": ["UPDATE record SET idx = 'x'"],
    "an index is a huge number": ["UPDATE record SET idx = 9223372036854775807"],
    "a calibration is a number": ["INSERT INTO setting VALUES ('calibration', 'x', '7')"],
    "the mark is a list": ["UPDATE setting SET value = '[]' WHERE kind = 'file'"],
    "the mark is a path": ["""UPDATE setting SET value = '"../../x"' WHERE kind = 'file'"""],
    "the mark is missing": ["DELETE FROM setting WHERE kind = 'file'"],
    "the saved vectors are a number": ["INSERT OR REPLACE INTO setting VALUES ('vectors', '', '7')"],
    "the saved vectors are a path": [
        """INSERT OR REPLACE INTO setting VALUES ('vectors', '', '{"columns": "../../x", "vectors": 7, "rows": "x"}')"""
    ],
    "a vector is long": ["UPDATE vector SET data = zeroblob(5000000) WHERE rowid = 1"],
    "a vector is empty": ["UPDATE vector SET data = x'' WHERE rowid = 1"],
    "a checksum is bytes": ["UPDATE vector SET sum = x'00' WHERE rowid = 1"],
    "the count of rows is huge": ["UPDATE bucket SET live = 1000000000"],
    "the count of rows is negative": ["UPDATE bucket SET live = -5"],
    "the count of rows is a text": ["UPDATE bucket SET live = 'x'"],
    "tombstones are at their end": ["INSERT INTO gone VALUES (9223372036854775807, 'x')"],
    "a link has an unknown state": ["UPDATE link SET state = 'weird', target = 'zzz'"],
    "a link has no target": ["UPDATE link SET state = 'resolved', target = 'zzz'"],
    "a link has bytes": ["UPDATE link SET type = x'ff', origin = x'00'"],
    "the last row is the last possible one": ["UPDATE record SET rowid = 9223372036854775807 WHERE rowid = 1"],
    "ids are NULL": ["UPDATE OR IGNORE name SET artifact_id = NULL", "UPDATE link SET target = NULL"],
    "a link leads to itself": ["UPDATE link SET target = artifact_id, state = 'resolved'"],
    "positions of links are bytes": ["UPDATE link SET position = x'ff'"],
    "a weight is infinite": ["UPDATE link SET weight = 9e999"],
    "a weight is a text": ["UPDATE link SET weight = 'x'"],
    "a text is long": ["UPDATE record SET text = CAST(zeroblob(30000000) AS TEXT) WHERE rowid = 1"],
    "a text has many words": ["UPDATE record SET text = replace(hex(zeroblob(500000)), '0', 'w ') WHERE rowid = 2"],
    "metadata are long": [("UPDATE record SET metadata = ? WHERE rowid = 1", ['{"a": "' + "x" * 10_000_000 + '"}'])],
    "metadata have many fields": [
        ("UPDATE record SET metadata = ? WHERE rowid = 1", [json.dumps({f"f{at}": at for at in range(50_000)})])
    ],
    "metadata have one field twice": ["""UPDATE record SET metadata = '{"a": 1, "a": [1], "A": 2}'"""],
    "rowids are negative": ["UPDATE record SET rowid = -9223372036854775808 WHERE rowid = 2"],
    "the last number is the last possible one": ["UPDATE sqlite_sequence SET seq = 9223372036854775807"],
    "the last number is a text": ["UPDATE sqlite_sequence SET seq = 'x'"],
    "the last numbers are missing": ["DELETE FROM sqlite_sequence"],
    "statistics of SQLite are false": [
        "ANALYZE",
        "UPDATE sqlite_stat1 SET stat = '9223372036854775807 9223372036854775807 sz=-5 noskipscan'",
    ],
    "the text index ranks by a foreign function": ["INSERT INTO record_text_config VALUES ('rank', 'evil(1)')"],
    "the text index has another version": ["UPDATE record_text_config SET v = 99 WHERE k = 'version'"],
    "the text index has huge pages": ["INSERT INTO record_text_config VALUES ('pgsz', 999999999)"],
    "the text index has no structure": ["DELETE FROM record_text_data WHERE id = 10"],
    "the text index has a false structure": ["UPDATE record_text_data SET block = randomblob(500) WHERE id = 10"],
    "the text index has false averages": ["UPDATE record_text_data SET block = x'ffffffffffffffff7f' WHERE id = 1"],
    "segments of the text index are false": ["UPDATE record_text_data SET block = randomblob(300) WHERE id > 10"],
    "the text index points nowhere": ["UPDATE record_text_idx SET pgno = 99999999"],
    "a root page is of another table": [
        """UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'gone')
        WHERE name = 'bucket'"""
    ],
    "a root page is the first": ["UPDATE sqlite_schema SET rootpage = 1 WHERE name = 'link_by_ref'"],
    "pages move": ["PRAGMA journal_mode = DELETE", "PRAGMA auto_vacuum = FULL", "VACUUM"],
    "pages are small": ["PRAGMA journal_mode = DELETE", "PRAGMA page_size = 512", "VACUUM"],
    "pages are large": ["PRAGMA journal_mode = DELETE", "PRAGMA page_size = 65536", "VACUUM"],
    "deleted bytes are cleared": ["PRAGMA secure_delete = ON", "DELETE FROM name", "VACUUM"],
    "the text index is empty": ["INSERT INTO record_text (record_text) VALUES ('delete-all')"],
    "the text index lacks lengths": ["DELETE FROM record_text_docsize"],
    "lengths of texts are texts": ["UPDATE record_text_docsize SET sz = 'x'"],
}
"""Files that can be opened, but not all calls can answer."""


HEADER = {
    "the size of a page": (16, 2),
    "the version to write": (18, 1),
    "the version to read": (19, 1),
    "unused bytes of a page": (20, 1),
    "payload fractions": (21, 3),
    "the count of changes": (24, 4),
    "the count of pages": (28, 4),
    "the first free page": (32, 4),
    "the count of free pages": (36, 4),
    "the number of the schema": (40, 4),
    "the format of the schema": (44, 4),
    "the cache": (48, 4),
    "the largest root page": (52, 4),
    "the encoding": (56, 4),
    "the version of the user": (60, 4),
    "the mode of vacuum": (64, 4),
    "the application": (68, 4),
    "the version that is valid": (92, 4),
    "the version of SQLite": (96, 4),
}
"""The fields of the first bytes of a file: where they are, and how long."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a small corpus without a fault."""
    path = tmp_path_factory.mktemp("whole") / "notes.airw"
    texts = {"a": "hello [b](b)", "b": "bye", **{f"n{number}": f"text {number}" for number in range(20)}}

    async def make():
        async with build(from_mapping(texts, name="notes", embedder="light"), store=path):
            pass

    anyio.run(make)
    return path


@pytest.fixture
def path(whole, tmp_path):
    return shutil.copy(whole, tmp_path / "notes.airw")


def craft(path, statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(*([statement] if isinstance(statement, str) else statement))


CALLS = {
    "dense": lambda corpus: corpus.search("hello", k=5),
    "lexical": lambda corpus: corpus.search("hello text", mode="lexical", k=5),
    "filter": lambda corpus: corpus.search("hello", mode="hybrid", filter={"a": {"$gt": 3}}),
    "surfaces": lambda corpus: corpus.search("hello", mode="hybrid", surfaces=["document"]),
    "ids": lambda corpus: ask(corpus.store, ArtifactIds()),
    "ledger": lambda corpus: ask(corpus.store, Ledger()),
    "records": lambda corpus: ask(corpus.store, RecordsOf(["a", "n1"])),
    "first records": lambda corpus: ask(corpus.store, RecordsOf(["a", "n1"], limit=1)),
    "neighbors": lambda corpus: ask(corpus.store, Edges(["a"], "both")),
    "matching": lambda corpus: ask(corpus.store, Matching([("a", 1)])),
    "counts": lambda corpus: ask(corpus.store, Counts()),
    "calibration": lambda corpus: ask(corpus.store, Calibrations()),
    "unresolved": lambda corpus: ask(corpus.store, UnresolvedLinks()),
    "walk": lambda corpus: airw.top_k(airw.traverse("hello", corpus, policy=airw.policies.Beam(), timeout=5), k=5),
    "discover": lambda corpus: airw.discover(corpus, "hello"),
    "upsert": lambda corpus: corpus.upsert({"a": "changed", "new": "words"}),
    "delete": lambda corpus: corpus.delete(["b"]),
}


async def fail_typed(call):
    """Await a call, and return its error if it is one of the library."""
    try:
        with anyio.fail_after(PATIENCE):
            await call
    except AirwError as error:
        caught = error
    else:
        return None
    assert "\n" not in str(caught)
    assert len(str(caught)) < 1000
    return caught


QUICK = (
    "artifacts are an endless view",
    "a trigger never ends",
    "texts are computed, and huge",
    "settings nest deeply",
    "settings lack the width",
)


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in OPENED]
)
async def test_a_file_with_a_foreign_schema_or_foreign_settings_is_not_opened(path, fault):
    craft(path, OPENED[fault])
    error = await fail_typed(open_corpus(path))
    assert isinstance(error, StoreCorrupt)
    assert "remove it and build it again" in str(error)


@pytest.mark.parametrize("fault", ["texts are computed, and huge", "settings are computed without an end"])
async def test_no_door_reads_a_row_of_a_file_with_a_foreign_schema(path, fault, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AIRW_HOME", str(tmp_path))
    craft(path, OPENED[fault])
    corpora = tmp_path / "corpora"
    corpora.mkdir()
    shutil.copy(path, corpora / "notes.airw")
    doors = {
        "store": lambda: SqliteStore.open(path),
        "build": lambda: build(from_mapping({"a": "hello"}, name="notes", embedder="light"), store=path),
        "copy": lambda: copy_file(path, tmp_path / "copy.airw"),
    }
    for name, door in doors.items():
        assert isinstance(await fail_typed(door()), StoreCorrupt), name
    [damage] = await airw.corpora.check_corpus_file(path)
    assert "which airw did not make" in damage
    for command in (["ls"], ["info", "notes"], ["info", str(path)], ["search", "notes", "hello"]):
        code = await anyio.to_thread.run_sync(main, command)
        printed, said = capsys.readouterr()
        assert "which airw did not make" in printed + said
        assert code == (1 if command == ["ls"] else 2)


@pytest.mark.slow
@pytest.mark.parametrize("fault", CALLED)
async def test_each_call_on_a_file_with_foreign_values_answers_or_raises_a_typed_error(path, fault):
    craft(path, CALLED[fault])
    assert await use(path) is None


async def use(path):
    """Open a file and ask it everything.

    Each call answers or raises an error of the library, in bounded memory.
    """
    opened, before = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def enter():
        opened.append(await open_corpus(path))

    error = await fail_typed(enter())
    for corpus in opened:
        async with corpus:
            for name, call in CALLS.items():
                try:
                    await fail_typed(call(corpus))
                except Exception as fault:
                    fault.add_note(f"in {name}")
                    raise
    await fail_typed(airw.corpora.check_corpus_file(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY
    return error


@pytest.mark.slow
@pytest.mark.parametrize("value", [b"\x00", b"\x01", b"\x7f", b"\xff"], ids=["0", "1", "127", "255"])
@pytest.mark.parametrize("field", HEADER)
async def test_a_file_whose_first_bytes_are_foreign_is_read_or_refused(path, field, value):
    start, length = HEADER[field]
    craft(path, ["PRAGMA journal_mode = DELETE"])
    data = bytearray(path.read_bytes())
    data[start : start + length] = value * length
    path.write_bytes(data)
    await use(path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
async def test_a_file_with_bytes_of_chance_is_read_or_refused(path, seed):
    craft(path, ["PRAGMA journal_mode = DELETE"])
    draw, data = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(1 + 20 * (seed % 4)):
        at = draw.randrange(100, len(data))
        data[at : at + 4] = draw.randbytes(4)
    path.write_bytes(data[: len(data) - 5_000 * (seed % 3)])
    await use(path)


@pytest.mark.slow
async def test_a_file_in_another_encoding_is_read_or_refused(path, tmp_path):
    copy = tmp_path / "copy.airw"
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(copy, isolation_level=None)) as new:
        new.execute("PRAGMA encoding = 'UTF-16le'")
        tables = old.execute(
            "SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY type = 'index'"
        ).fetchall()
        for name, sql in tables:
            if name.startswith("record_text_") or name == "sqlite_sequence":
                continue
            new.execute(sql)
            if sql.startswith("CREATE TABLE"):
                for row in old.execute(f"SELECT * FROM {name}"):
                    new.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        new.execute("INSERT INTO record_text (record_text) VALUES ('rebuild')")
        for pragma in ("application_id", "user_version"):
            new.execute(f"PRAGMA {pragma} = {old.execute(f'PRAGMA {pragma}').fetchone()[0]}")
    await use(copy)

"""Sources: every item is an artifact or a problem that names it.

The order of the items is the same at each reading.
"""

import gzip
import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import aclosing
from datetime import date

import anyio
import numpy as np
import pytest
from hypothesis import given, strategies as st

from airw import build
from airw.errors import ArgumentError, SourceError
from airw.indexing import Chunked, Notes, Package, Skill, WholeText
from airw.links import MarkdownLinks
from airw.protocols import RecordsOf, Source, ask
from airw.sources import CorpusSource, content_hash, from_files, from_jsonl, from_mapping, from_notes, from_records
from airw.stores import MemoryStore
from airw.values import Artifact, ItemProblem
from tests.support.reading import read, read_reasons, write
from tests.support.waiting import PATIENCE

# Names and the change signal


@pytest.mark.parametrize("name", ["", "-a", ".a", "a/b", "a b", "é", "a" * 101, "a\n", None, 3])
def test_a_name_that_is_invalid_for_a_corpus_is_refused_on_construction(name):
    with pytest.raises(ArgumentError, match="name"):
        CorpusSource(name, {})


@pytest.mark.parametrize("scope", [None, "text", ["a"], [("a", "b")]])
def test_a_scope_that_is_no_mapping_is_refused_on_construction(scope):
    with pytest.raises(ArgumentError, match="mapping"):
        from_mapping(scope, name="x")


def test_every_source_satisfies_the_protocol_and_defaults_as_documented(tmp_path):
    made = from_mapping({}, name="m"), from_files(tmp_path), from_jsonl("r.jsonl"), from_notes(tmp_path)
    assert all(isinstance(source, Source) and source.embedder == "default" for source in made)
    assert [source.indexing_strategy for source in made] == [WholeText(), WholeText(), WholeText(), Notes()]
    assert [source.edge_extractor for source in made] == [None, None, None, MarkdownLinks()]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Artifact("a", "text"), Artifact("a", "text", {"owner": "me"})),
        (Artifact("a", "text", {"owner": "you"}), Artifact("a", "text", {"owner": "me"})),
        (Artifact("a", {"text": "T", "body": "1"}), Artifact("a", {"text": "T", "body": "2"})),
        (Artifact("a", "text"), Artifact("a", b"text")),
        (Artifact("a", '{"x":1}'), Artifact("a", {"x": 1})),
        (Artifact("a", '{"x":1}', {"y": 2}), Artifact("a", '{"x":1}{"y":2}')),
        (Artifact("a", "\ud800"), Artifact("a", "\ud801")),
    ],
)
def test_a_change_of_only_text_or_only_metadata_changes_the_signal(one, other):
    assert content_hash(one) != content_hash(other)


def test_the_signal_does_not_depend_on_the_order_of_keys_or_on_the_id():
    one = Artifact("a", {"x": {"p": 1, "q": 2}, "y": [1]}, {"m": 1, "n": date(2026, 11, 21)})
    other = Artifact("b", {"y": [1], "x": {"q": 2, "p": 1}}, {"n": date(2026, 11, 21), "m": 1})
    assert content_hash(one) == content_hash(other)


CYCLE = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        3,
        float("nan"),
        [1, "x"],
        {1: "a", "b": 2},
        {(1, 2): "a"},
        {"x": object},
        {"n": np.arange(3)},
        {"d": date(2026, 1, 1)},
        {"s": {"b", "a"}},
        bytearray(b"x"),
        memoryview(b"x"),
        {"f": {"x": CYCLE}},
        "\udfff",
        {"\ud800": 1},
    ],
)
def test_the_signal_takes_any_value_and_repeats(raw):
    assert content_hash(Artifact("a", raw, {"m": raw})) == content_hash(Artifact("a", raw, {"m": raw}))


def test_the_signal_of_a_text_takes_few_calls():
    """It is made for each artifact of each build; JSON would need hundreds of calls."""
    artifact, calls = Artifact("a", "x" * 500), []
    sys.setprofile(lambda frame, event, function: calls.append(function) if event.endswith("call") else None)
    try:
        content_hash(artifact)
    finally:
        sys.setprofile(None)
    assert len(calls) < 20


# Mappings


async def test_a_mapping_is_read_in_its_own_order_with_metadata_from_the_function():
    source = from_mapping({"b": "B", "a": {"text": "A"}}, name="m", metadata_of=lambda key, raw: {"of": key})
    assert await read(source) == [Artifact("b", "B", {"of": "b"}), Artifact("a", {"text": "A"}, {"of": "a"})]
    assert await read(source) == await read(source)


@pytest.mark.parametrize("key", [3, None, "", ("a", "b")])
async def test_an_id_that_is_no_string_is_a_problem_and_the_rest_is_read(key):
    problem, artifact = await read(from_mapping({key: "x", "ok": "y"}, name="m"))
    assert (problem.item, artifact.id) == (str(key), "ok")
    assert repr(key) in problem.reason


@pytest.mark.parametrize(
    "entry", [{"a\ud800": "x"}, {"a": "x\ud800"}, {"a": {"text": "x", "tags": ["\udfff"]}}, {"a": {"\ud800": "x"}}]
)
async def test_a_lone_surrogate_is_a_problem_that_can_be_printed(entry):
    artifacts, problems = await read_reasons(from_mapping({**entry, "ok": "é🎉"}, name="m"))
    assert list(artifacts) == ["ok"]
    assert len(problems) == 1
    for item, reason in problems.items():
        assert "surrogate" in reason
        item.encode()


async def test_a_lone_surrogate_in_metadata_is_a_problem():
    items = await read(from_mapping({"a": "x"}, name="m", metadata_of=lambda key, raw: {"owner": "\ud800"}))
    assert isinstance(items[0], ItemProblem)


async def test_fields_that_contain_themselves_are_a_problem():
    _, problems = await read_reasons(from_mapping({"a": {"x": CYCLE}}, name="m"))
    assert list(problems) == ["a"]


async def test_a_failure_of_the_metadata_function_is_a_problem_of_the_item():
    def metadata_of(id, raw):
        return {"size": 1 / len(raw)}

    artifacts, problems = await read_reasons(from_mapping({"a": "", "b": "xx"}, name="m", metadata_of=metadata_of))
    assert artifacts["b"].metadata == {"size": 0.5}
    assert "ZeroDivisionError" in problems["a"]


async def test_a_lazy_mapping_is_read_one_item_at_a_time_and_survives_an_unreadable_one():
    class Lazy(Mapping):
        def __init__(self):
            self.reads = []

        def __iter__(self):
            return iter(["a", "bad", "c"])

        def __len__(self):
            return 3

        def __getitem__(self, key):
            self.reads.append(key)
            if key == "bad":
                raise OSError("disk\non fire")
            return key.upper()

    lazy = Lazy()
    async with aclosing(from_mapping(lazy, name="m").items()) as items:
        assert (await anext(items)).raw == "A"
        assert lazy.reads == ["a"]
    artifacts, problems = await read_reasons(from_mapping(lazy, name="m"))
    assert list(artifacts) == ["a", "c"]
    assert problems == {"bad": "cannot be read: OSError: disk on fire"}


# Files


async def test_files_are_sorted_by_path_and_have_path_and_filename(tmp_path):
    write(tmp_path, {"b.md": "B", "a/z.md": "Z", "a.md": "A", "a/.hidden.md": "no", "c.txt": "no", "a/x.MD": "X"})
    items = await read(from_files(tmp_path))
    assert [item.id for item in items] == ["a.md", "a/x.MD", "a/z.md", "b.md"]
    assert items[2] == Artifact("a/z.md", "Z", {"path": str(tmp_path / "a" / "z.md"), "filename": "z.md"})


async def test_pattern_exclude_and_metadata_function_apply_to_the_relative_path(tmp_path):
    write(tmp_path, {"a/x.txt": "X", "a/y.txt": "Y", "b/x.txt": "no", "a/x.md": "no"})
    source = from_files(
        tmp_path,
        pattern=r"^a/.*\.txt",
        exclude=lambda path: path.endswith("y.txt"),
        metadata_of=lambda key, text: {"filename": text},
    )
    assert [(item.id, item.metadata["filename"]) for item in await read(source)] == [("a/x.txt", "X")]


async def test_a_relative_root_yields_absolute_paths_and_the_name_of_the_folder(tmp_path, monkeypatch):
    write(tmp_path, {"My notes!/a.md": "A"})
    monkeypatch.chdir(tmp_path / "My notes!")
    source = from_files(".")
    assert source.name == "My-notes"
    assert (await read(source))[0].metadata["path"] == str(tmp_path / "My notes!" / "a.md")


async def test_byte_order_mark_is_dropped_and_line_ends_stay(tmp_path):
    write(tmp_path, {"a.md": b"\xef\xbb\xbf# T\r\nx\r\n"})
    assert (await read(from_files(tmp_path)))[0].raw == "# T\r\nx\r\n"


async def test_a_file_that_cannot_be_read_is_a_problem_that_names_it_and_the_rest_is_read(tmp_path):
    root = write(
        tmp_path / "root",
        {
            "binary.md": b"\x7fELF\0\0",
            "utf16.md": "text".encode("utf-16"),
            "latin.md": "caf\u00e9".encode("latin-1"),
            "large.md": b"x" * 1001,
            "just.md": b"x" * 1000,
            "empty.md": b"",
            "inside.md": "I",
        },
    )
    with (root / "sparse.md").open("wb") as file:
        file.truncate(200 * 2**20)
    write(tmp_path, {"secret.md": "S", "other/o.md": "O"})
    (root / "leak.md").symlink_to(tmp_path / "secret.md")
    (root / "linked.md").symlink_to(root / "inside.md")
    (root / "broken.md").symlink_to(root / "gone.md")
    (root / "self.md").symlink_to(root / "self.md")
    (root / "loop").symlink_to(root)
    (root / "way-out").symlink_to(tmp_path / "other")
    os.mkfifo(root / "pipe.md")
    artifacts, problems = await read_reasons(from_files(root, max_bytes=1000))
    assert list(artifacts) == ["empty.md", "inside.md", "just.md", "linked.md"]
    expected = {
        "binary.md": "NUL",
        "utf16.md": "not UTF-8 at byte 0",
        "latin.md": "not UTF-8 at byte 3",
        "large.md": "has 1001 bytes, more than max_bytes=1000",
        "sparse.md": "has 209715200 bytes, more than max_bytes=1000",
        "leak.md": "leads out of the folder",
        "broken.md": "cannot be read",
        "self.md": "cannot be read",
        "pipe.md": "not a regular file",
        "loop": "a link to a folder, which is not followed",
        "way-out": "a link to a folder, which is not followed",
    }
    assert problems.keys() == expected.keys()
    assert [name for name, words in expected.items() if words not in problems[name]] == []


async def test_a_link_to_a_folder_is_not_reported_if_it_is_excluded(tmp_path):
    write(tmp_path, {"a.md": "A", "vendor/b.md": "B"})
    (tmp_path / "vendor/linked").symlink_to(tmp_path)
    (problem, artifact) = await read(from_files(tmp_path, exclude=lambda path: path == "vendor/b.md"))
    assert (problem.item, problem.lost, artifact.id) == ("vendor/linked", False, "a.md")
    (artifact,) = await read(from_files(tmp_path, exclude=lambda path: path.startswith("vendor/")))
    assert artifact.id == "a.md"


async def test_a_file_that_vanishes_while_reading_is_a_problem(tmp_path):
    write(tmp_path, {f"{number:03}.md": "x" for number in range(130)})
    items = from_files(tmp_path).items()
    assert (await anext(items)).id == "000.md"
    (tmp_path / "129.md").unlink()
    (tmp_path / "128.md").unlink()
    (tmp_path / "128.md").mkdir()
    rest = [item async for item in items]
    assert len(rest) == 129
    assert [item.item for item in rest if isinstance(item, ItemProblem)] == ["128.md", "129.md"]


async def test_names_of_any_length_and_script_are_ids_and_undecodable_names_are_problems(tmp_path):
    names = ["🎉 party.md", "日本語/ノート.md", "a" * 200 + ".md", "new\nline.md", "e\u0301.md"]
    write(tmp_path, dict.fromkeys(names, "x"))
    (tmp_path / os.fsdecode(b"caf\xe9.md")).write_text("x")
    artifacts, problems = await read_reasons(from_files(tmp_path))
    assert artifacts.keys() == set(names)
    assert list(problems) == ["caf\\xe9.md"]


@pytest.mark.parametrize("make", [from_files, from_notes])
async def test_a_root_that_is_missing_or_a_file_or_empty_is_an_error_on_reading(make, tmp_path):
    write(tmp_path, {"a.txt": "x"})
    for root, words in [
        ("gone", "does not exist"),
        ("a.txt", "is not a folder"),
        (".", "1 left out: does not match the pattern"),
    ]:
        source = make(tmp_path / root, name="x")
        with pytest.raises(SourceError, match=words):
            await read(source)


@pytest.mark.parametrize("settings", [{"pattern": "("}, {"pattern": None}, {"max_bytes": 0}, {"name": "a/b"}])
def test_settings_that_cannot_work_are_refused_on_construction(settings, tmp_path):
    with pytest.raises(ArgumentError, match="|".join(settings)):
        from_files(tmp_path, **settings)


@pytest.mark.parametrize(
    "make", [lambda root: from_files(root, pattern="jsonl$"), lambda root: from_jsonl(root / "a.jsonl")]
)
async def test_leaving_early_closes_open_files(make, tmp_path):
    """An open file would warn, and warnings are errors."""
    jsonl(tmp_path / "a.jsonl", *({"id": number} for number in range(200)))
    async with aclosing(make(tmp_path).items()) as items:
        assert isinstance(await anext(items), Artifact)
    with pytest.raises(StopAsyncIteration):
        await anext(items)


# JSON Lines


def jsonl(path, *lines, opener=open):
    with opener(path, "wb") as file:
        file.write(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


@pytest.mark.parametrize(("suffix", "opener"), [("jsonl", open), ("jsonl.gz", gzip.open)])
async def test_objects_become_artifacts_with_every_other_field_as_metadata(tmp_path, suffix, opener):
    rows = [{"id": f"r{number}", "text": "T", "title": "A", "links": ["r0"], "year": 2026} for number in range(150)]
    source = from_jsonl(jsonl(tmp_path / f"My set.{suffix}", *rows, opener=opener))
    items = await read(source)
    assert source.name == "My-set"
    assert [item.id for item in items] == [row["id"] for row in rows]
    assert items[0].metadata == {"title": "A", "links": ["r0"], "year": 2026}
    assert source.indexing_strategy.decompose(items[0]).surfaces[0].text == "A\n\nT"


async def test_keys_choose_the_id_the_text_and_the_metadata(tmp_path):
    path = jsonl(tmp_path / "x.jsonl", {"key": "a", "body": "B", "text": "T", "x": 5, "y": {"z": 1}})
    source = from_jsonl(path, id_key="key", text_key="body")
    (item,) = await read(source)
    assert (item.id, item.metadata) == ("a", {"text": "T", "x": 5, "y": {"z": 1}})
    assert source.indexing_strategy.decompose(item).surfaces[0].text == "B"
    (item,) = await read(from_jsonl(path, id_key="key", metadata_keys=["y", "absent"], strategy=Chunked()))
    assert item.metadata == {"y": {"z": 1}}


async def test_a_broken_line_is_a_problem_with_its_number_and_the_rest_is_read(tmp_path):
    path = jsonl(
        tmp_path / "x.jsonl",
        b'\xef\xbb\xbf{"id": "first"}',
        b"",
        b"  \r",
        b'{"id": "cut',
        b"[1]",
        b"null",
        {"text": "no id"},
        {"id": ""},
        {"id": None},
        {"id": True},
        {"id": ["x"]},
        b'{"id": NaN}',
        b'{"id": "\xff"}',
        b'{"id": "deep", "x": ' + b"[" * 100_000,
        b'{"id": "\\ud800"}',
        {"id": "first"},
        {"id": 0},
        {"id": "0"},
        {"id": 1.5},
    )
    artifacts, problems = await read_reasons(from_jsonl(path))
    assert list(artifacts) == ["first", "0", "1.5"]
    numbers = [int(item.split(":")[1]) for item in problems if item.startswith("x.jsonl:")]
    assert numbers == [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18]
    assert problems["x.jsonl:16"] == "the id 'first' on line 16 is already on line 1"
    assert "surrogate" in problems["\\ud800"]


async def test_a_file_of_records_that_is_missing_or_empty_or_damaged_is_an_error_on_reading(tmp_path):
    whole = gzip.compress(b'{"id": "a"}\n' * 9)
    write(tmp_path, {"empty.jsonl": "", "cut.jsonl.gz": whole[:-9], "plain.jsonl.gz": '{"id": "a"}'})
    for name in ["gone.jsonl", "", "empty.jsonl", "cut.jsonl.gz", "plain.jsonl.gz"]:
        source = from_jsonl(tmp_path / name, name="x")
        with pytest.raises(SourceError, match=name or tmp_path.name):
            await read(source)


FIELDS = {"title": "Sourdough", "text": "Bake a loaf.", "year": 2026, "tags": ["rye"], "photo": b"jpeg"}
MAPPINGS = {
    "from_mapping": lambda strategy: from_mapping({"a": FIELDS}, name="x", strategy=strategy, embedder="light"),
    "CorpusSource": lambda strategy: CorpusSource("x", {"a": FIELDS}, strategy or WholeText(), embedder="light"),
    "from_records": lambda strategy: from_records(
        [{"id": "a", **FIELDS}], name="x", strategy=strategy, embedder="light"
    ),
    "upsert": lambda strategy: from_mapping({}, name="x", strategy=strategy, embedder="light"),
}


@pytest.mark.parametrize("strategy", [None, Chunked(), WholeText(kind="whole")], ids=["default", "chunks", "whole"])
@pytest.mark.parametrize("kind", MAPPINGS)
async def test_every_field_of_a_mapping_is_found_by_its_words_or_by_a_filter(kind, strategy):
    async with build(MAPPINGS[kind](strategy), store=MemoryStore()) as corpus:
        if kind == "upsert":
            await corpus.upsert({"a": FIELDS})
        assert [hit.artifact_id for hit in await corpus.search("sourdough", mode="lexical")] == ["a"]
        filters = [{"title": "Sourdough"}, {"year": 2026}, {"tags": {"$contains": "rye"}}]
        assert [len(await corpus.search("loaf", filter=filter)) for filter in filters] == [1, 1, 1]
        [hit] = await corpus.search("loaf", mode="lexical")
        assert hit.text == "Sourdough\n\nBake a loaf."
        assert not {"text", "photo"} & hit.metadata.keys()


async def test_a_long_string_is_text_or_metadata_but_not_both():
    article = {"title": "Keys", "body": "rotate " * 1_000}
    for fields, text_key, expected in (
        (article, None, {"title": "Keys"}),
        (article, "body", {"title": "Keys"}),
        ({**article, "text": "x"}, None, {"title": "Keys", "body": article["body"]}),
    ):
        source = from_mapping({"a": fields}, name="x", strategy=WholeText(text_key=text_key))
        (item,) = await read(source)
        assert (item.metadata, item.raw) == (expected, fields)


async def test_an_upsert_of_fields_equals_a_build_of_them():
    for strategy in (WholeText(text_key="body"), Skill(), Package()):
        items = {"a": {"name": None, "body": "Bake.", "description": "d", "license": "MIT", "deps": ["x"]}}
        async with (
            build(from_mapping(items, name="x", strategy=strategy, embedder="light"), store=MemoryStore()) as built,
            build(from_mapping({}, name="x", strategy=strategy, embedder="light"), store=MemoryStore()) as upserted,
        ):
            await upserted.upsert(items)
            records = await ask(built.store, RecordsOf(["a"]))
            assert records == await ask(upserted.store, RecordsOf(["a"]))
            assert records[0][0].metadata["license"] == "MIT"


@pytest.mark.slow
async def test_a_line_that_is_too_long_is_a_problem_and_the_others_are_read(tmp_path):
    lines = [{"id": "a", "text": "x"}, {"id": "b", "text": "y" * 5_000_000}, {"id": "c", "text": "z"}]
    for name, opener in (("x.jsonl", open), ("x.jsonl.gz", gzip.open)):
        path = jsonl(tmp_path / name, *lines, opener=opener)
        artifacts, problems = await read_reasons(from_jsonl(path, name="x"))
        assert [*artifacts] == ["a", "c"]
        assert problems == {f"{name}:2": "line 2 has 5000024 bytes, more than max_bytes=2000000"}
        artifacts, problems = await read_reasons(from_jsonl(path, name="x", max_bytes=5_000_024))
        assert (len(artifacts), problems) == (3, {})
    with pytest.raises(ArgumentError, match="max_bytes"):
        from_jsonl("x.jsonl", max_bytes=0)


@pytest.mark.slow
async def test_a_compressed_file_may_not_expand_without_bound(tmp_path):
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(b"a" * 2**20) * 200)
    with pytest.raises(SourceError, match=r"expands to more than 200 times its size; .* decompress it"):
        await read(from_jsonl(tmp_path / "bomb.jsonl.gz"))
    (tmp_path / "small.jsonl.gz").write_bytes(gzip.compress(b'{"id": "a", "text": "' + b"a" * 1_500_000 + b'"}'))
    assert len(await read(from_jsonl(tmp_path / "small.jsonl.gz"))) == 1


async def test_an_endless_line_can_be_cancelled(tmp_path):
    with (tmp_path / "line.jsonl").open("wb") as file:
        file.truncate(2**38)  # a sparse file, which takes minutes to read
    with anyio.move_on_after(0.1) as scope:
        await build(from_jsonl(tmp_path / "line.jsonl", embedder="light"), store=MemoryStore(), on_error="skip")
    assert scope.cancelled_caught


async def test_a_pipe_and_a_device_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", "/dev/zero"):
        with pytest.raises(SourceError, match="not a regular file"):
            await read(from_jsonl(path, name="x"))


def test_metadata_keys_as_one_string_are_refused():
    with pytest.raises(ArgumentError, match="metadata_keys"):
        from_jsonl("x.jsonl", metadata_keys="title")


# Notes


async def test_frontmatter_becomes_metadata_and_its_fields_take_precedence(tmp_path):
    text = "---\ntitle: T\nday: 2026-11-21\ntags: [a]\npath: theirs\nn: .nan\n3: x\n---\n# Heading\n"
    write(tmp_path, {"a.md": text, "b.md": "# Heading", "c.md": "plain"})
    a, b, c = await read(from_notes(tmp_path))
    assert (a.raw, b.metadata["title"], c.metadata["title"]) == (text, "Heading", "c")
    assert a.metadata == {
        "title": "T",
        "day": "2026-11-21",
        "tags": ["a"],
        "n": None,
        "3": "x",
        "path": "theirs",
        "airw_path": str(tmp_path / "a.md"),
        "filename": "a.md",
    }


@pytest.mark.parametrize(
    "yaml",
    ["a: [", "just prose", "- a", "a: &a [*a]", "a: " + "[" * 60_000, "a: !!python/name:os.system"],
)
async def test_a_note_with_unreadable_frontmatter_is_indexed_without_it_and_reported(tmp_path, yaml):
    write(tmp_path, {"a.md": f"---\n{yaml}\n---\n# Heading"})
    problem, note = await read(from_notes(tmp_path))
    assert (problem.item, problem.lost) == ("a.md", False)
    assert (note.id, note.metadata.keys()) == ("a.md", {"title", "path", "filename"})


async def test_a_yaml_bomb_costs_no_time(tmp_path):
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    write(tmp_path, {"a.md": f"---\n{bomb}---\n"})
    began = time.perf_counter()
    problem, _ = await read(from_notes(tmp_path))
    assert "alias" in problem.reason
    assert time.perf_counter() - began < PATIENCE


async def test_an_id_or_alias_of_another_note_is_reported_once_and_a_title_is_not(tmp_path):
    heads = {
        "a.md": "id: x\ntitle: One\naliases: [Uno, Eins]",
        "b.md": "title: One\nid: x",
        "c.md": "title: UNO\naliases: eins\nid: y",
        "d.md": "aliases: [D, D, d]\ntitle: D",
    }
    write(tmp_path, {name: f"---\n{head}\n---\n" for name, head in heads.items()})
    problems = [item for item in await read(from_notes(tmp_path)) if isinstance(item, ItemProblem)]
    assert [(problem.item, problem.reason, problem.lost) for problem in problems] == [
        ("b.md", "id: 'a.md' also has the name 'x', so links to it are ambiguous (line 3)", False),
        ("c.md", "title: 'a.md' also has the name 'UNO', so links to it are ambiguous (line 2)", False),
        ("c.md", "aliases: 'a.md' also has the name 'eins', so links to it are ambiguous (line 3)", False),
    ]


async def test_notes_keep_the_problems_of_files(tmp_path):
    write(tmp_path, {"a.md": b"\xff", "b.md": "x"})
    problem, note = await read(from_notes(tmp_path, exclude=lambda path: path == "c.md"))
    assert (problem.item, problem.lost, note.id) == ("a.md", True, "b.md")


@given(
    st.dictionaries(st.text(max_size=4), st.text(max_size=9) | st.dictionaries(st.text(), st.integers()), max_size=5)
)
async def test_every_entry_of_a_mapping_is_an_artifact_or_a_problem(entries):
    items = await read(from_mapping(entries, name="m"))
    assert len(items) == len(entries)
    assert all(isinstance(item, Artifact | ItemProblem) for item in items)


ANY_FIELDS = st.dictionaries(
    st.text(max_size=3),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=2),
    max_size=3,
)


@given(st.lists(st.tuples(st.text(max_size=8) | st.binary(max_size=3) | ANY_FIELDS, ANY_FIELDS), max_size=6))
def test_many_contents_have_the_hashes_that_each_has_alone(contents):
    artifacts = [Artifact(str(number), raw, metadata) for number, (raw, metadata) in enumerate(contents)]
    source = CorpusSource("letters", {})
    assert source.signal_changes(artifacts) == [content_hash(artifact) for artifact in artifacts]


async def test_the_pages_of_a_source_contain_its_items():
    mapping = {
        "a": "x",
        "": "no name",
        "b": {"text": "y", "deep": [{"c": 1}]},
        "c": "\ud800",
        **{str(n): "z" for n in range(200)},
    }
    source = from_mapping(mapping, name="m", metadata_of=lambda name, raw: {"length": 1 // (name != "7")})
    items = [item async for item in source.items()]
    assert [item async for page in source.pages() for item in page] == items

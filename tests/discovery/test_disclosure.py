"""Disclosure of selected hits: from files, loaders and stores, and as passages."""

import json
import math
import os
import sys
import threading
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import ir
import numpy as np
import pytest
from hypothesis import given, strategies as st

from airw import build, embedder_from, from_mapping
from airw.corpora import Corpus, corpus_path, records_for_artifact
from airw.discovery import LEVELS, Disclosure, Selection, SentenceWindow, WholeArtifact, disclose, expand, select
from airw.discovery.disclosure import OpenFolder
from airw.errors import ArgumentError, ArgumentKindError, CorpusNotFound, NoLedgerEntry, SeedNotFound
from airw.indexing import Chunked
from airw.protocols import RecordsOf
from airw.stores import MemoryStore
from airw.testing import ScriptedStore
from airw.values import SearchHit
from tests.support.ids import plain


def hit(name="a", source=None, index=None, /, **metadata):
    return SearchHit(name, "chunk", 0.5, f"summary of {name}", metadata, source, index)


def selection(*hits):
    return select(hits, strategy="top_k", max_k=99)


def select_paths(*pointers):
    return selection(*(hit(f"h{at}", path=str(pointer)) for at, pointer in enumerate(pointers)))


async def disclose_body(pointer, **options):
    """Return the body of one pointer, the note about it, and whether it was cut."""
    [found] = await disclose(select_paths(pointer), **options)
    return found.body, found.metadata.get("disclosure"), found.truncated


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def write(path, content="text"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


async def test_the_metadata_level_returns_the_fields_of_the_hit_and_reads_nothing():
    def forbidden(*_):
        raise AssertionError

    class Store(dict):
        get = __getitem__ = forbidden

    chosen = hit("a", "notes", path="/nowhere/a.md", name="A")
    for options in ({}, {"loader": forbidden}, {"store": Store()}, {"roots": ["/nowhere"]}):
        assert await disclose(selection(chosen), level="metadata", **options) == [
            Disclosure(
                artifact_id="a",
                level="metadata",
                name="A",
                score=0.5,
                summary="summary of a",
                pointer="/nowhere/a.md",
                metadata={"path": "/nowhere/a.md", "name": "A"},
                source="notes",
            )
        ]


async def test_a_body_is_the_text_of_the_file_at_the_pointer(root):
    file = write(root / "deep" / "a.md", "Grüße\r\n\nzum Tag\n")
    assert await disclose_body(file, roots=[root]) == ("Grüße\r\n\nzum Tag\n", None, False)
    assert await disclose_body(file, roots=[str(root / "elsewhere"), str(root / "deep")]) == (
        file.read_bytes().decode(),
        None,
        False,
    )
    assert await disclose_body(file, roots=[file]) == (file.read_bytes().decode(), None, False)


async def test_several_hits_are_disclosed_in_their_order(root):
    files = [write(root / f"{at}.md", str(at)) for at in range(40)]
    assert [each.body for each in await disclose(select_paths(*files), roots=[root])] == list(map(str, range(40)))
    assert await disclose(selection(), roots=[root]) == []


async def test_skill_path_takes_precedence_over_path_and_only_a_string_is_a_pointer(root):
    one, two = write(root / "one.md", "one"), write(root / "two.md", "two")
    hits = [
        hit(skill_path=str(one), path=str(two)),
        hit(skill_path="", path=str(two)),
        hit(skill_path=7, path=str(two)),
        hit(path=["p"]),
        hit(path=""),
        hit(),
    ]
    found = await disclose(selection(*hits), roots=[root])
    assert [each.body for each in found] == ["one", "two", "two", None, None, None]
    assert [each.pointer for each in found] == [str(one), str(two), str(two), None, None, None]
    assert all("disclosure" not in each.metadata for each in found)


async def test_a_pointer_that_leaves_the_roots_is_not_read(root, tmp_path):
    """F40."""
    secret = write(tmp_path / "secret.txt", "secret")
    write(tmp_path / "root-too" / "a.md", "secret")
    write(tmp_path / "outside" / "README.md", "secret")
    (root / "link.md").symlink_to(secret)
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "own").mkdir()
    (root / "own" / "README.md").symlink_to(secret)
    for pointer in (
        secret,
        tmp_path / "missing",
        root / ".." / "secret.txt",
        f"{root}-too/a.md",
        root / "link.md",
        root / "folder",
        root / "folder" / "README.md",
        root / "own",
        "/etc/passwd",
    ):
        assert await disclose_body(pointer, roots=[root]) == (None, "pointer_outside_roots", False), pointer


async def test_a_symlink_below_a_root_and_a_root_that_is_a_symlink_are_followed(root, tmp_path):
    write(root / "a.md")
    (root / "link.md").symlink_to(root / "a.md")
    (tmp_path / "way").symlink_to(root)
    assert await disclose_body(root / "link.md", roots=[root]) == ("text", None, False)
    assert await disclose_body(root / "a.md", roots=[tmp_path / "way"]) == ("text", None, False)
    assert await disclose_body(tmp_path / "way" / "a.md", roots=[root]) == ("text", None, False)


async def test_a_relative_pointer_starts_at_the_working_folder(root, monkeypatch):
    write(root / "sub" / "a.md")
    monkeypatch.chdir(root)
    assert await disclose_body("sub/a.md", roots=["sub"]) == ("text", None, False)
    assert await disclose_body("../root/sub/a.md", roots=[root]) == ("text", None, False)
    assert await disclose_body("sub/a.md", roots=["other"]) == (None, "pointer_outside_roots", False)


@pytest.mark.parametrize("level", ["body", "bundled"])
async def test_a_pointer_without_roots_is_an_error_with_its_path_and_a_remedy(level):
    with pytest.raises(ArgumentError, match=r"disclose may not read '/etc/passwd': pass roots=\[\.\.\.\]"):
        await disclose(select_paths("/etc/passwd"), level=level)
    [bare] = await disclose(selection(hit()), level=level)
    assert (bare.body, bare.metadata) == (None, {}), "without a pointer there is nothing to read"


async def test_a_pointer_to_no_readable_file_gets_a_note_and_is_never_waited_for(root):
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to(root / "loop")
    (root / "broken").symlink_to(root / "missing")
    (root / "empty").mkdir()
    odd = (
        root / "missing.md",
        root / "pipe",
        root / "loop",
        root / "broken",
        root / "empty",
        f"{root}/a\0b",
        f"{root}/\udcff\ud800",
        root / ("n" * 300),
    )
    with anyio.fail_after(60):
        for pointer in odd:
            assert await disclose_body(pointer, roots=[root]) == (None, "pointer_unreadable", False), pointer
        assert await disclose_body("/dev/zero", roots=["/dev"]) == (None, "pointer_unreadable", False)


async def test_one_unreadable_hit_does_not_affect_the_others(root):
    found = await disclose(select_paths(root / "missing", write(root / "a.md")), roots=[root])
    assert [each.body for each in found] == [None, "text"]


@pytest.mark.parametrize(
    ("content", "body", "note"),
    [
        (b"\xef\xbb\xbfmarked", "marked", None),
        (b"", "", None),
        (b"caf\xe9", None, "pointer_not_text"),
        (b"cut short \xc3", None, "pointer_not_text"),
        ("wide".encode("utf-16"), None, "pointer_not_text"),
        ("wide".encode("utf-16-le"), None, "pointer_not_text"),
        (b"PK\x03\x04\x00\x00", None, "pointer_not_text"),
    ],
)
async def test_a_file_that_is_not_utf_8_is_not_text(root, content, body, note):
    assert await disclose_body(write(root / "a", content), roots=[root]) == (body, note, False)


@pytest.mark.parametrize("character", ["a", "é", "€", "😀"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
async def test_a_long_body_is_cut_at_twenty_thousand_characters_and_marked_truncated(root, character, mark):
    """F40."""
    for count, cut in ((19_999, False), (20_000, False), (20_001, True), (90_000, True)):
        file = write(root / "long.md", mark + (character * count).encode())
        body, note, truncated = await disclose_body(file, roots=[root])
        assert (body, note, truncated) == (character * min(count, 20_000), "truncated" if cut else None, cut)


async def test_the_body_of_a_folder_is_its_readme(root):
    for name in ("README.txt", "README.rst", "README.md"):
        write(root / "folder" / name, name)
        assert await disclose_body(root / "folder", roots=[root]) == (name, None, False)
    (root / "folder" / "README.md").unlink()
    (root / "folder" / "README.md").mkdir()
    assert (await disclose_body(root / "folder", roots=[root]))[0] == "README.rst"
    assert (await disclose_body(root / "folder", roots=[root / "folder"]))[0] == "README.rst"


# Bundles


async def bundle_of(pointer, *roots, **options):
    [found] = await disclose(select_paths(pointer), level="bundled", roots=roots, **options)
    return found.bundle, found.metadata.get("disclosure")


async def test_a_bundle_lists_the_other_files_of_a_skill_and_of_a_folder(root, tmp_path):
    outside = write(tmp_path / "outside" / "x.md").parent
    for name in ("SKILL.md", "README.md", "a.txt", "a/b.md", "a/SKILL.md", "a-b", "z/y/x.py"):
        write(root / "skill" / name)
    (root / "skill" / "link.md").symlink_to(root / "skill" / "a.txt")
    (root / "skill" / "folder").symlink_to(outside)
    write(root / "skill" / ".git" / "config")
    write(root / "skill" / ".hidden")
    if sys.platform == "linux":  # on other systems no file can have such a name
        write(root / "skill" / os.fsdecode(b"not UTF-8 \xff"))
    os.mkfifo(root / "skill" / "pipe")
    (root / "skill" / "empty").mkdir()
    others = ("a-b", "a.txt", "a/SKILL.md", "a/b.md", "z/y/x.py")
    assert await bundle_of(root / "skill" / "SKILL.md", root) == (("README.md", *others), None)
    assert await bundle_of(root / "skill", root) == (("SKILL.md", *others), None)
    assert await bundle_of(root / "skill" / "a.txt", root) == ((), None)
    assert await bundle_of(root / "skill" / "SKILL.md", root / "skill" / "SKILL.md") == ((), None), "not below the root"
    [plain] = await disclose(select_paths(root / "skill"), roots=[root])
    assert (plain.bundle, plain.body, plain.level) == ((), "text", "body")


NAMES = st.lists(st.lists(st.sampled_from(["a", "a.b", "a-", "B", "é", "a0"]), min_size=1, max_size=3), max_size=8)


@given(NAMES)
def test_every_bundle_is_sorted_like_paths(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("bundle")
    for name in names:
        path = root.joinpath(*name)
        if not any(each.is_file() for each in path.parents) and not path.is_dir():
            write(path)
    expected = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    assert list(anyio.run(bundle_of, root, root)[0]) == expected


async def test_a_bundle_ends_at_a_thousand_files_with_a_note(root):
    write(root / "SKILL.md")
    for at in range(1_001):
        write(root / "d" / f"{at:04}", b"")
    files = tuple(f"d/{at:04}" for at in range(1_001))
    assert await bundle_of(root / "SKILL.md", root) == (files[:1_000], "bundle_truncated")
    (root / "d" / "0000").unlink()
    assert await bundle_of(root / "SKILL.md", root) == (files[1:], None)


async def test_a_folder_without_permission_hides_only_its_own_files(root, monkeypatch):
    for name in ("SKILL.md", "a/x", "b/x", "c/x"):
        write(root / name)
    scandir = os.scandir

    def scandir_or_refuse(path):
        if Path(path) == root / "b":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scandir_or_refuse)
    assert await bundle_of(root / "SKILL.md", root) == (("a/x", "c/x"), None)


async def test_a_bundle_needs_roots_even_if_a_loader_or_store_returns_the_body(root):
    write(root / "SKILL.md")
    write(root / "other.md")
    pointer = str(root / "SKILL.md")
    assert await bundle_of(pointer, store={pointer: "stored"}) == ((), None)
    assert await bundle_of(pointer, root, store={pointer: "stored"}) == (("other.md",), None)
    assert await bundle_of(pointer, root, loader=lambda _: "loaded") == (("other.md",), None)
    assert await bundle_of(pointer, root / "sub", loader=lambda _: "loaded") == ((), "pointer_outside_roots")


FILES = ["in/a.md", "in/SKILL.md", "in/README.md", "in/deep/README.md", "out/a.md", "out/README.md"]


@given(
    st.fixed_dictionaries(dict.fromkeys(FILES, st.sampled_from(["text", "text", "in/a.md", "out/a.md", "in", "out"]))),
    st.sampled_from(["in", "in/deep", "in/link", "in/README.md", "in/SKILL.md", "in/../out/a.md", "out", "missing"]),
    st.sampled_from(["in", "in/deep", "out", "out/a.md"]),
)
def test_nothing_outside_the_roots_is_told_wherever_links_lead(tmp_path_factory, files, pointer, target):
    """A file is a text, the name of its own place, or a link to another place."""
    base = tmp_path_factory.mktemp("links").resolve()
    for folder in ("in/deep", "out"):
        (base / folder).mkdir(parents=True)
    for place, content in files.items():
        if content == "text":
            write(base / place, place)
        else:
            (base / place).symlink_to(base / content)
    (base / "in/link").symlink_to(base / target)

    async def main():
        return await disclose(select_paths(base / pointer), level="bundled", roots=[base / "in"])

    [found] = anyio.run(main)
    own = {place for place, content in files.items() if content == "text" and place.startswith("in/")}
    assert found.body is None or found.body in own
    path = Path(os.path.realpath(base / pointer))  # which ends at a loop of links
    folder = path if path.is_dir() else path.parent
    assert {(folder / name).relative_to(base).as_posix() for name in found.bundle} <= own


async def test_an_open_folder_tells_neither_hidden_files_nor_those_that_are_not_open(root):
    for name in ("SKILL.md", "a/x", "b/x", ".git/x", "secret.md"):
        write(root / name)
    folder = OpenFolder(root, hidden=False, is_open=lambda path: not {"b", "secret.md"} & {*path.parts})
    assert await bundle_of(root / "SKILL.md", folder) == (("a/x",), None)
    for name in (".git/x", "b/x", "secret.md"):
        assert await disclose_body(root / name, roots=[folder]) == (None, "pointer_outside_roots", False), name


# Loaders and stores


async def load_body(loader, chosen=None):
    [found] = await disclose(selection(hit(path="/p") if chosen is None else chosen), loader=loader)
    return found.body, found.metadata.get("disclosure")


async def test_a_sync_or_async_loader_returns_the_body_for_the_metadata():
    async def later(metadata):
        await anyio.lowlevel.checkpoint()
        return metadata["path"].upper()

    assert await load_body(later) == ("/P", None)
    assert await load_body(lambda metadata: metadata["path"].upper()) == ("/P", None)
    assert await load_body(str, hit()) == ("{}", None), "also where there is no pointer"
    assert await load_body(lambda _: "x" * 30_000) == ("x" * 30_000, None), "its text is not cut"


async def test_a_loader_that_returns_nothing_gets_a_note_if_the_hit_has_a_pointer():
    assert await load_body(lambda _: None) == (None, "pointer_unreadable")
    assert await load_body(lambda _: None, hit()) == (None, None)


async def test_a_failing_loader_affects_only_its_own_hit():
    """F40."""

    def loader(metadata):
        if metadata["path"] == "/bad":
            raise ValueError("of no use:\n  line two")
        return "fine"

    found = await disclose(select_paths("/good", "/bad", "/good"), loader=loader)
    assert [each.body for each in found] == ["fine", None, "fine"]
    assert found[1].metadata == {"path": "/bad", "disclosure": "loader_failed: ValueError: of no use: line two"}


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (KeyError(), "loader_failed: KeyError"),
        (StopIteration(3), None),
        (ExceptionGroup("both", [ValueError("x")]), "loader_failed: ExceptionGroup: both (1 sub-exception)"),
        (RuntimeError("long " * 1000), None),
    ],
)
async def test_an_error_of_a_loader_becomes_one_short_line(error, note):
    def loader(_):
        raise error

    body, told = await load_body(loader)
    assert body is None
    assert told.startswith("loader_failed: ")
    assert len(told) <= 220
    assert "\n" not in told
    assert note in (None, told)


@pytest.mark.parametrize(("value", "kind"), [(b"bytes", "bytes"), (3, "int"), (["a"], "list"), (Path("p"), "")])
async def test_a_loader_or_store_that_returns_no_text_gets_a_note(value, kind):
    """F40."""
    body, note = await load_body(lambda _: value)
    assert body is None
    assert note.startswith(f"loader_failed: returned {kind}")
    assert note.endswith(", not text")
    [found] = await disclose(select_paths("/p"), store={"/p": value})
    assert (found.body, found.metadata["disclosure"]) == (None, note.replace("loader", "store"))


async def test_a_store_returns_the_body_for_the_pointer():
    found = await disclose(selection(hit(path="/p"), hit(path="/q"), hit()), store={"/p": "payload"})
    assert [(each.body, each.metadata.get("disclosure")) for each in found] == [
        ("payload", None),
        (None, "pointer_unreadable"),
        (None, None),
    ]


async def test_a_failing_store_affects_only_its_own_hit():
    class Store(dict):
        def get(self, key):
            if key == "/bad":
                raise OSError("the disk is gone")
            return "fine"

    found = await disclose(select_paths("/bad", "/good"), store=Store())
    assert [each.body for each in found] == [None, "fine"]
    assert found[0].metadata["disclosure"] == "store_failed: OSError: the disk is gone"


async def test_bodies_are_loaded_concurrently_and_off_the_event_loop():
    barrier = threading.Barrier(4)

    def loader(metadata):
        barrier.wait(timeout=60)
        return metadata["path"]

    found = await disclose(select_paths("/a", "/b", "/c", "/d"), loader=loader)
    assert [each.body for each in found] == ["/a", "/b", "/c", "/d"]


async def test_cancelling_a_disclosure_is_not_a_failure_of_the_loader():
    async def loader(_):
        await anyio.sleep_forever()

    with anyio.move_on_after(0.01) as scope:
        await disclose(select_paths("/p"), loader=loader)
    assert scope.cancelled_caught


async def test_neither_a_loader_nor_a_caller_can_change_the_selection():
    chosen = selection(hit(path="/p", tags=["x"]))

    def loader(metadata):
        metadata["tags"].append("y")
        return metadata.pop("path")

    [found] = await disclose(chosen, loader=loader)
    assert found.metadata == {"path": "/p", "tags": ["x"]}
    found.metadata["tags"].append("z")
    assert chosen == selection(hit(path="/p", tags=["x"]))


# Passages

EMBEDDER = embedder_from(lambda texts: [[1.0] for _ in texts], id="ones", dim=1)
TEXTS = {"a": "zero one two three", "b": "four five six seven"}


def corpus_of(name="notes", items=None, store=None):
    strategy = Chunked(chunk_size=10, overlap=5)
    source = from_mapping(items or TEXTS, name=name, strategy=strategy, embedder=EMBEDDER)
    return build(source, store=MemoryStore() if store is None else store)


async def passages(corpus, *hits, policy=None, **options):
    found = await disclose(
        selection(*hits), level="metadata", expand=policy or WholeArtifact(), corpus=corpus, **options
    )
    return [each.passage or each.metadata.get("expansion") for each in found]


async def test_each_hit_gets_its_passage_and_keeps_its_summary():
    async with corpus_of() as corpus:
        chosen = selection(hit("b", "notes", 0), hit("a", "notes", 1))
        found = await disclose(chosen, level="metadata", expand=SentenceWindow(0), corpus=corpus)
    assert [(each.passage, each.summary, each.metadata) for each in found] == [
        ("four five", "summary of b", {}),
        ("one two", "summary of a", {}),
    ]


async def test_without_a_passage_a_note_states_the_reason():
    async with corpus_of() as corpus:
        hits = [
            hit("a", "notes", 0),
            hit("z", "notes", 0),
            hit("a", "notes", 99),
            hit("a", "other", 0),
            hit("a", None, 0),
        ]
        assert await passages(corpus, *hits, policy=SentenceWindow()) == [
            "zero one two",
            "no_ledger_entry",
            "seed_not_found",
            "no_corpus_for_source",
            "zero one two",
        ]


@given(
    st.lists(
        st.tuples(st.sampled_from("abz"), st.sampled_from(["notes", None]), st.none() | st.integers(0, 5)), max_size=4
    ),
    st.sampled_from([SentenceWindow(), SentenceWindow(0), WholeArtifact()]),
)
async def test_a_passage_is_the_one_that_expand_returns(seeds, policy):
    hits = [hit(name, source, index) for name, source, index in seeds]
    async with corpus_of() as corpus:
        expected, mistakes = [], []
        for each in hits:
            try:
                expected.append((await expand(each, corpus, policy=policy)).text)
            except NoLedgerEntry:
                expected.append("no_ledger_entry")
            except SeedNotFound:
                expected.append("seed_not_found")
            except ArgumentError as error:
                mistakes.append(str(error))
        if mistakes:
            with pytest.raises(ArgumentError, match="surface_index"):
                await passages(corpus, *hits, policy=policy)
        else:
            assert await passages(corpus, *hits, policy=policy) == expected


async def test_a_disclosure_has_the_notes_of_its_passage_and_of_its_body():
    async with corpus_of() as corpus:
        chosen = selection(hit("z", "notes", 0, path="/missing"))
        [found] = await disclose(chosen, expand=WholeArtifact(), corpus=corpus, store={})
    assert found.metadata == {"path": "/missing", "disclosure": "pointer_unreadable", "expansion": "no_ledger_entry"}


async def test_each_hit_is_expanded_in_the_corpus_of_its_source():
    other = {"a": "another"}
    async with corpus_of() as notes, corpus_of("other", other) as second:
        hits = [hit("a", "other", 0), hit("a", "notes", 0), hit("a", "third", 0), hit("a", None, 0)]
        expected = ["another", "zero one two three", "no_corpus_for_source", "no_corpus_for_source"]
        assert await passages({"notes": notes, "other": second}, *hits) == expected
        assert await passages([notes, second], *hits) == expected
        assert await passages((notes, second, second), *hits) == expected
        assert await passages({"third": notes}, *hits[1:3]) == ["no_corpus_for_source", "zero one two three"]
        assert await passages({}, *hits) == ["no_corpus_for_source"] * 4


async def test_each_corpus_is_read_once_however_many_hits_it_has():
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(corpus_of(name)) for name in ("one", "two", "three")]
        stores = [ScriptedStore(each.store) for each in opened]
        corpora = {
            each.name: Corpus(each.name, store, each.embedder) for each, store in zip(opened, stores, strict=True)
        }
        hits = [hit(name, source, 0) for source in ("one", "two") for name in ("a", "b", "z", "a")]
        assert (
            await passages(corpora, *hits)
            == ["zero one two three", "four five six seven", "no_ledger_entry", "zero one two three"] * 2
        )
    assert [store.calls for store in stores] == [{RecordsOf: 1}, {RecordsOf: 1}, {}]


async def test_a_mistake_of_a_policy_is_raised():
    async with corpus_of() as corpus:
        [foreign, *_] = await records_for_artifact(corpus, "b")
        with pytest.raises(ArgumentError, match="may only choose"):
            await passages(corpus, hit("a", "notes", 0), policy=lambda *_: [foreign])
        with pytest.raises(ArgumentError, match="surface_index"):
            await passages(corpus, hit("a", "notes"), policy=SentenceWindow())


@pytest.mark.asyncio_only
async def test_corpora_are_found_by_name_and_by_path_without_their_embedder(tmp_path):
    named, other = corpus_path("notes"), tmp_path / "file.airw"
    named.parent.mkdir(parents=True)
    for path, name in ((named, "built-as"), (other, "theirs")):
        async with corpus_of(name, store=path):
            pass
    one, two = hit("a", "notes", 0), hit("b", "theirs", 0)
    expected = ["zero one two three", "four five six seven"]
    assert await passages({"notes": "NOTES", "theirs": other}, one, two) == expected
    assert await passages(["Notes", str(other)], one, two) == expected
    assert await passages("notes", one, two) == [expected[0], "no_corpus_for_source"]
    assert await passages(other, one, two) == ["no_corpus_for_source", expected[1]]
    assert await passages({"notes": "notes", "absent": "absent"}, one) == expected[:1], "the other is not opened"
    with pytest.raises(CorpusNotFound):
        await passages("absent", one)


# Arguments


@pytest.mark.parametrize(
    "options",
    [
        {"level": "everything"},
        {"level": None},
        {"loader": lambda _: None, "store": {}},
        {"loader": "read"},
        {"store": ["/p"]},
        {"expand": WholeArtifact()},
        {"corpus": "notes"},
        {"expand": WholeArtifact(), "corpus": 3},
        {"expand": "window", "corpus": {}},
        {"roots": "/notes"},
        {"roots": Path("/notes")},
        {"roots": b"/notes"},
        {"roots": [""]},
        {"roots": [3]},
        {"roots": None},
        {"roots": ["a\0b"]},
    ],
    ids=plain,
)
async def test_invalid_arguments_are_refused(options):
    with pytest.raises((ArgumentError, CorpusNotFound)) as caught:
        await disclose(select_paths("/p"), **options)
    assert "\n" not in str(caught.value)
    with pytest.raises((ArgumentError, CorpusNotFound)):
        await disclose(selection(), **options)


async def test_a_value_that_is_not_a_selection_is_refused():
    with pytest.raises(ArgumentKindError, match="selection must be a Selection"):
        await disclose([hit()])


def test_a_disclosure_converts_to_json():
    told = Disclosure("a", "body", "A", np.float32(math.nan), "s", metadata={"n": math.inf, "t": (1,)}, bundle=("x",))
    assert json.loads(json.dumps(told.to_dict(), allow_nan=False)) == {
        "artifact_id": "a",
        "level": "body",
        "name": "A",
        "score": None,
        "summary": "s",
        "body": None,
        "pointer": None,
        "metadata": {"n": None, "t": [1]},
        "source": None,
        "passage": None,
        "truncated": False,
        "bundle": ["x"],
    }


# As in `ir`


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree")
    write(root / "a.md", "body of a")
    write(root / "readme" / "README.rst", "a readme")
    write(root / "bare" / "a.py", "no readme")
    return root


METADATA = st.fixed_dictionaries(
    {},
    optional={
        "path": st.sampled_from(["a.md", "readme", "bare", "missing", "", None, 3]),
        "skill_path": st.sampled_from(["a.md", "missing", "", 3]),
        "name": st.sampled_from(["N", "", None, 3]),
    },
)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), METADATA, st.sampled_from([None, "x"])), max_size=3),
    st.sampled_from(LEVELS),
    st.sampled_from(["files", "loader", "store"]),
)
def test_random_selections_are_disclosed_like_in_ir(tree, rows, level, way):
    """All ten fields are equal, except for inputs where the two differ on purpose.

    These are not generated: pointers that leave the roots, texts that are too long or not UTF-8,
    and loaders and stores that fail or return no text. The bundle is new and not compared.
    """
    rows = [
        (
            name,
            {
                key: str(tree / value) if value and key != "name" and isinstance(value, str) else value
                for key, value in own.items()
            },
            source,
        )
        for name, own, source in rows
    ]
    options = {
        "files": {},
        "loader": {"loader": lambda metadata: metadata.get("name") and str(metadata["name"])},
        "store": {"store": {str(tree / "a.md"): "stored"}},
    }[way]
    ours = [SearchHit(name, "chunk", 0.5, "s", own, source) for name, own, source in rows]
    theirs = [ir.SearchHit(name, "chunk", 0.5, "s", own, source) for name, own, source in rows]
    chosen = Selection(ours, ours, not ours, "r")

    async def main():
        return await disclose(chosen, level=level, roots=[tree], **options)

    expected = ir.disclose(ir.Selection(theirs, theirs, not theirs, "r"), level=level, **options)
    found = [replace(each, bundle=()).to_dict() for each in anyio.run(main)]
    assert found == [{**each.to_dict(), "truncated": False, "bundle": []} for each in expected]

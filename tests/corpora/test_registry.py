"""The registry: definitions, refused arguments, and building and searching by name."""

import gc
import json
import os
import sys
from pathlib import Path

import anyio
import pytest
from hypothesis import given, strategies as st

from airw._base.file_lock import hold_file
from airw.corpora import (
    Definition,
    Maintenance,
    build_corpus,
    corpus_names,
    coverage,
    list_corpora,
    maintain,
    open_corpus,
    register,
    retriever_for,
    retrievers,
    unregister,
)
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError, CorpusNotFound, SourceError, StoreCorrupt, StoreError
from airw.indexing import Chunked, WholeText
from airw.links import MarkdownLinks, extractor_from
from airw.stores import MemoryStore


@pytest.fixture
def vault(tmp_path):
    """A folder of two notes."""
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "keys.md").write_text("rotate the signing keys")
    (folder / "bread.md").write_text("bake a loaf of bread")
    return folder


def registry(home) -> Path:
    return home / "registry.json"


# Definitions


async def test_a_definition_is_stored_unchanged(home):
    maintenance = Maintenance("interval", every_hours=2.5, window=("22:00", "06:00"))
    strategy = Chunked(chunk_size=300, overlap=20)
    given = await register(
        "vault",
        "files",
        root="/srv/vault",
        pattern=r"\.txt$",
        embedder="light",
        strategy=strategy,
        maintenance=maintenance,
    )
    assert list_corpora() == {"vault": given}
    assert given.params == {"root": "/srv/vault", "pattern": r"\.txt$"}
    assert (given.name, given.kind, given.embedder, given.maintenance) == ("vault", "files", "light", maintenance)
    source = list_corpora()["vault"].source()
    assert (source.name, source.embedder, source.indexing_strategy) == ("vault", "light", strategy)


async def test_corpora_are_sorted_by_name_and_the_file_does_not_depend_on_the_order_of_registering(home):
    for name in ("c", "a", "b"):
        await register(name, "notes", root="/srv")
    first = registry(home).read_bytes()
    assert list(list_corpora()) == ["a", "b", "c"]
    await unregister("a")
    await register("a", "notes", root="/srv")
    assert registry(home).read_bytes() == first


async def test_registering_a_name_again_replaces_its_definition():
    await register("vault", "notes", root="/old", embedder="light")
    await register("vault", "files", root="/new")
    assert list_corpora() == {"vault": Definition("vault", "files", {"root": "/new"})}


async def test_two_spellings_of_a_name_are_the_same_corpus():
    await register("Vault", "notes", root="/old")
    await register("vault", "notes", root="/new")
    assert [(name, each.params["root"]) for name, each in list_corpora().items()] == [("vault", "/new")]
    await unregister("VAULT")
    assert list_corpora() == {}


async def test_reading_the_registry_creates_no_files(home):
    assert list_corpora() == {}
    assert dict(retrievers()) == {}
    assert (await maintain()).corpora == ()
    assert not home.exists()


async def test_paths_are_stored_as_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/users/me")
    (tmp_path / "models" / "mini").mkdir(parents=True)
    await register("a", "notes", root="notes", embedder="models/mini")
    await register("b", "jsonl", path=Path("~/data.jsonl"), embedder=Path("other"))
    found = list_corpora()
    assert (found["a"].params["root"], found["a"].embedder) == (f"{tmp_path}/notes", f"{tmp_path}/models/mini")
    assert (found["b"].params["path"], found["b"].embedder) == ("/users/me/data.jsonl", f"{tmp_path}/other")


async def test_a_strategy_may_be_passed_as_its_specification():
    spec = {"name": "WholeText", "params": {"text_key": "body"}}
    await register("a", "jsonl", path="/data.jsonl", strategy=spec)
    assert list_corpora()["a"].source().indexing_strategy == WholeText(text_key="body")


async def test_an_extractor_that_comes_with_airw_is_stored():
    await register("a", "files", root="/srv", edge_extractor=MarkdownLinks(inline_type="mentions"))
    assert list_corpora()["a"].source().edge_extractor == MarkdownLinks(inline_type="mentions")


async def test_unregistering_removes_the_definition_and_leaves_the_built_corpus(home, vault):
    await register("vault", "notes", root="/srv")
    corpus = home / "corpora" / "vault.airw"
    corpus.parent.mkdir()
    corpus.write_text("built")
    await unregister("vault")
    assert (list_corpora(), corpus.read_text()) == ({}, "built")


SCHEDULES = st.none() | st.sampled_from(
    [Maintenance("manual"), Maintenance("interval", 6), Maintenance(window=("09:00", "17:30"))]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), JSON, max_size=4), SCHEDULES)
def test_a_definition_is_the_same_after_json(params, maintenance):
    params = {f"x{name}": value for name, value in params.items()}  # not one that is read as a path
    definition = Definition(
        "vault", "files", params, strategy=Chunked(chunk_size=99, overlap=9), maintenance=maintenance
    )
    assert definition.params == params
    assert Definition(**json.loads(json.dumps(definition.to_dict()))) == definition


# Refused arguments


class Own:
    id = "own"

    def decompose(self, artifact):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"kind": "sessions"}, "no kind 'sessions'.*files, jsonl, notes, packages, records, reports, skills"),
        ({"kind": ["notes"]}, "no kind"),
        ({"name": "a/b"}, "'a/b' cannot name a corpus"),
        ({"name": ".."}, "cannot name a corpus"),
        ({"name": None}, "None cannot name a corpus"),
        ({"root": None}, "kind 'notes'"),
        ({"patern": "x"}, r"takes root, pattern, .*not 'patern'"),
        ({"kind": "jsonl"}, r"takes path, .*not 'root'"),
        ({"pattern": "("}, "regular expression"),
        ({"max_bytes": True}, "max_bytes"),
        ({"exclude": str.isupper}, r"exclude=<method .* cannot be written as JSON"),
        ({"max_bytes": float("nan")}, "max_bytes=nan cannot be registered"),
        ({"exclude": {1: "a"}}, r"exclude=\{1: 'a'\} cannot be registered"),
        ({"embedder": HashingEmbedder()}, "an object cannot be written as JSON"),
        ({"embedder": ""}, "embedder must be .*, not ''"),
        ({"embedder": "http://localhost:1/v1"}, "add the model"),
        ({"strategy": Own()}, "strategy must be one that comes with airw"),
        ({"strategy": {"name": "Own"}}, "no strategy 'Own'; known"),
        ({"strategy": {"name": "Chunked", "params": {"size": 1}}}, "Chunked"),
        (
            {"edge_extractor": extractor_from(lambda name, fields: {}, id="x")},
            "only edge extractors that come with airw",
        ),
        ({"maintenance": "daily"}, "maintenance must be a Maintenance, not 'daily'"),
        ({"maintenance": {"reindex": "interval"}}, "needs every_hours"),
        ({"maintenance": {"every": 1}}, "maintenance takes reindex, every_hours, window, not 'every'"),
    ],
)
async def test_unusable_arguments_are_refused_in_one_line_before_any_file_is_created(home, given, why):
    with pytest.raises(ArgumentError, match=why) as caught:
        await register(**{"name": "vault", "kind": "notes", "root": "/srv", **given})
    assert "\n" not in str(caught.value)
    assert not home.exists()


@pytest.mark.parametrize(
    ("kind", "needed"), [("files", "root"), ("notes", "root"), ("jsonl", "path"), ("records", "fetcher")]
)
async def test_the_error_of_a_kind_names_its_required_options(home, kind, needed):
    with pytest.raises(ArgumentError, match=f"kind '{kind}' needs {needed}="):
        await register("vault", kind)
    assert not home.exists()


@pytest.mark.parametrize(
    "ask",
    [
        build_corpus,
        unregister,
        maintain,
        coverage,
        lambda name: anyio.to_thread.run_sync(retriever_for, name),
        lambda name: anyio.to_thread.run_sync(retrievers().__getitem__, name),
    ],
    ids=["build_corpus", "unregister", "maintain", "coverage", "retriever_for", "retrievers"],
)
async def test_an_unknown_name_is_a_key_error_that_contains_the_fix_and_creates_no_files(home, ask):
    with pytest.raises(CorpusNotFound, match=r"no corpus 'skils'.*known: skills.*register\('skils', kind") as caught:
        await ask("skils")
    assert isinstance(caught.value, KeyError)
    assert not home.exists()


async def test_the_error_for_an_unknown_name_suggests_similar_registered_names():
    await register("vault", "notes", root="/srv")
    await register("letters", "notes", root="/srv")
    with pytest.raises(CorpusNotFound, match="known: vault, letters;"):
        await build_corpus("vualt")
    with pytest.raises(CorpusNotFound, match="known: letters, vault;"):
        await build_corpus("xyz")


# A damaged file, and one that cannot be written


@pytest.mark.parametrize("spec", ["./mini", "models/mini", "~/mini", "a/b/c"])
def test_a_relative_model_folder_in_the_registry_is_never_used(home, tmp_path, monkeypatch, spec):
    """The working folder may belong to a stranger."""
    (tmp_path / "models" / "mini").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    home.mkdir()
    entry = {"kind": "notes", "params": {"root": str(tmp_path)}, "embedder": spec}
    (home / "registry.json").write_text(json.dumps({"version": 1, "corpora": {"vault": entry}}))
    definition = list_corpora()["vault"]
    assert definition.embedder == spec
    with pytest.raises(ArgumentError, match="must not be a relative folder"):
        definition.source()


ENTRY = {"kind": "notes", "params": {}, "embedder": "light", "strategy": None, "maintenance": None}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"version": 1, "corpora": {"a"',
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"corpora": {}}',
        b'{"version": 1}',
        b'{"version": 1, "corpora": []}',
        b'{"version": 1, "corpora": {"a": 3}}',
        b'{"version": 1, "corpora": {"a": {}}}',
        b"[" * 100_000,
        json.dumps({"version": 1, "corpora": {"../a": ENTRY}}).encode(),
        json.dumps({"version": 1, "corpora": {"a": {**ENTRY, "more": 1}}}).encode(),
        json.dumps({"version": 1, "corpora": {"a": {**ENTRY, "params": [1]}}}).encode(),
        json.dumps({"version": 1, "corpora": {"a": {**ENTRY, "maintenance": "daily"}}}).encode(),
        json.dumps({"version": 1, "corpora": {"a": ENTRY, "A": ENTRY}}).encode(),
    ],
)
async def test_a_damaged_registry_is_an_error_that_names_the_file_and_is_not_written_over(home, content):
    home.mkdir()
    registry(home).write_bytes(content)
    for call in (list_corpora, lambda: len(retrievers()), lambda: retriever_for("a")):
        with pytest.raises(StoreCorrupt, match=r"registry\.json' is damaged") as caught:
            call()
        assert "\n" not in str(caught.value)
    for ask in (register("a", "notes", root="/srv"), unregister("a"), build_corpus("a"), maintain()):
        with pytest.raises(StoreCorrupt, match="damaged"):
            await ask
    assert registry(home).read_bytes() == content


async def test_a_registry_from_a_newer_version_is_an_error_that_mentions_it(home):
    home.mkdir()
    registry(home).write_text('{"version": 2, "corpora": {}}')
    with pytest.raises(StoreCorrupt, match="version 2, but this airw reads version 1; update airw"):
        list_corpora()


async def test_a_kind_of_a_newer_version_leaves_the_other_corpora_usable(home):
    await register("vault", "notes", root="/srv")
    content = json.loads(registry(home).read_text())
    content["corpora"]["later"] = {**ENTRY, "kind": "wikis"}
    registry(home).write_text(json.dumps(content))
    assert list(list_corpora()) == ["later", "vault"]
    with pytest.raises(ArgumentError, match="no kind 'wikis'"):
        await build_corpus("later")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
async def test_a_full_disk_is_an_error_and_leaves_the_registry_as_it_was(home):
    await register("vault", "notes", root="/srv")
    before = registry(home).read_bytes()
    (home / "registry.json.new").symlink_to("/dev/full")
    with pytest.raises(StoreError, match=r"registry\.json' cannot be written"):
        await register("other", "notes", root="/srv")
    assert registry(home).read_bytes() == before
    await register("other", "notes", root="/srv")
    assert list(list_corpora()) == ["other", "vault"]


async def test_a_home_that_cannot_be_created_or_read_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AIRW_HOME", os.fspath(tmp_path / "file" / "home"))
    with pytest.raises(StoreError, match="cannot be read"):
        list_corpora()
    with pytest.raises(StoreError, match="cannot be made"):
        await register("vault", "notes", root="/srv")


async def test_a_cancelled_registration_stores_nothing_and_keeps_no_lock(home):
    await register("vault", "notes", root="/srv")
    async with hold_file(home / "registry.lock", timeout=0):
        with anyio.move_on_after(0.1) as scope:
            await register("other", "notes", root="/srv")
    assert scope.cancelled_caught
    assert list(list_corpora()) == ["vault"]
    with anyio.fail_after(60):
        await register("other", "notes", root="/srv")


# Functions that a definition names


@pytest.fixture
def fetchers(tmp_path, monkeypatch):
    """A package with a function that returns records; its import creates a file."""
    package = tmp_path / "code" / "airw_fetched"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    trace = tmp_path / "imported"
    (package / "notes.py").write_text(
        f"open({str(trace)!r}, 'w').close()\n"
        "def records():\n    return [{'id': 'a', 'text': 'rotate the keys'}, {'id': 'b', 'text': 'bread'}]\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delenv("AIRW_FETCHERS", raising=False)
    yield trace
    for name in ("airw_fetched", "airw_fetched.notes"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "listed", [None, "", "other", "airw", "airw_fetch", "airw_fetched.notes.records", "airw_fetched.n"]
)
async def test_a_function_outside_the_allowed_modules_is_not_registered(home, fetchers, monkeypatch, listed):
    if listed is not None:
        monkeypatch.setenv("AIRW_FETCHERS", listed)
    for kind, fetcher in (("records", "airw_fetched.notes:records"), ("skills", "airw_fetched.notes.records")):
        with pytest.raises(
            ArgumentError, match=r"would import 'airw_fetched\.notes', which AIRW_FETCHERS does not list"
        ):
            await register("fetched", kind, fetcher=fetcher)
    assert not home.exists()
    assert not fetchers.exists()


@pytest.mark.asyncio_only
@pytest.mark.parametrize("listed", ["airw_fetched", "other, airw_fetched.notes"])
async def test_a_function_of_an_allowed_module_is_imported_by_the_build_alone(fetchers, monkeypatch, listed):
    monkeypatch.setenv("AIRW_FETCHERS", listed)
    await register("fetched", "records", fetcher="airw_fetched.notes:records", embedder="light")
    assert not fetchers.exists()
    async with build_corpus("fetched") as corpus:
        assert corpus.report.added == 2
    assert fetchers.exists()


async def test_the_registry_alone_cannot_make_a_build_import_anything(fetchers, monkeypatch):
    monkeypatch.setenv("AIRW_FETCHERS", "airw_fetched")
    await register("fetched", "records", fetcher="airw_fetched.notes:records", embedder="light")
    monkeypatch.delenv("AIRW_FETCHERS")
    assert list_corpora()["fetched"].params == {"fetcher": "airw_fetched.notes:records"}
    for ask in (build_corpus, maintain, coverage):
        with pytest.raises(ArgumentError, match="AIRW_FETCHERS does not list"):
            await ask("fetched")
    assert not (await maintain()).ok
    assert not fetchers.exists()


@pytest.mark.parametrize("fetcher", [list, [{"id": "a"}], "records", "os.system:", 3])
async def test_a_registered_fetcher_is_written_as_a_name(home, fetcher):
    with pytest.raises(ArgumentError):
        await register("fetched", "records", fetcher=fetcher)
    assert not home.exists()


# Building and searching by name


@pytest.mark.asyncio_only
async def test_a_registered_corpus_builds_incrementally_and_is_searched_by_name(vault):
    await register("vault", "files", root=vault, pattern=r"keys\.md$", embedder="light")
    async with build_corpus("VAULT") as corpus:
        assert (corpus.name, corpus.report.added) == ("vault", 1)
    await register("vault", "files", root=vault, embedder="light")
    seen = []
    async with build_corpus("vault", progress=seen.append) as corpus:
        assert (corpus.report.added, corpus.report.unchanged) == (1, 1)
        assert [hit.artifact_id for hit in await corpus.search("bread", k=1)] == ["bread.md"]
    assert seen[-1].done == 2
    async with open_corpus("vault") as corpus:
        assert corpus.embedder_id == HashingEmbedder().id


@pytest.fixture
def tree(tmp_path):
    """A folder with items for every kind except `records`."""
    tree = tmp_path / "tree"
    files = {
        "notes/a.md": "rotate the keys",
        "data.jsonl": '{"id": "a", "text": "rotate the keys"}',
        "skills/rotate/SKILL.md": "---\nname: rotate\ndescription: Rotate the keys.\n---\n",
        "packages/keys/pyproject.toml": '[project]\nname = "keys"\ndescription = "Rotate the keys"\n',
        "projects/group/project/docs/plan.md": "rotate the keys",
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("files", {"root": "notes"}),
        ("notes", {"root": "notes"}),
        ("jsonl", {"path": "data.jsonl"}),
        ("skills", {"roots": ["skills"]}),
        ("skills", {"roots": "skills"}),
        ("packages", {"root": "packages", "exclude": ("other*",)}),
        ("reports", {"projects_root": "projects"}),
    ],
)
async def test_every_kind_builds_from_any_working_folder(tree, tmp_path, monkeypatch, kind, params):
    monkeypatch.chdir(tree)
    await register("some", kind, embedder="light", **params)
    monkeypatch.chdir(tmp_path)
    async with build_corpus("some") as corpus:
        assert (corpus.name, corpus.report.added, corpus.report.problems) == ("some", 1, ())
        assert len(await corpus.search("rotate the keys")) == 1
    found = await coverage("some")
    assert (found.ratio, found.outdated, found.gone) == (1.0, (), ())


@pytest.mark.asyncio_only
async def test_options_of_a_build_are_passed_on(vault):
    await register("vault", "notes", root=vault, embedder="light")
    async with build_corpus("vault"):
        (vault / "bread.md").unlink()
    async with build_corpus("vault", full=False) as corpus:
        assert corpus.report.removed == 0
    with pytest.raises(ArgumentError, match="batch_size"):
        await build_corpus("vault", batch_size=0)


async def test_a_registered_corpus_may_be_built_into_a_store_of_the_caller(home, vault):
    await register("vault", "notes", root=vault, embedder="light")
    async with build_corpus("vault", store=MemoryStore()) as corpus:
        assert [hit.artifact_id for hit in await corpus.search("bread", k=1)] == ["bread.md"]
    assert corpus_names() == []


@pytest.fixture
def projects(tmp_path, monkeypatch):
    """A folder of projects with one report, which the preset `reports` reads."""
    docs = tmp_path / "projects" / "group" / "project" / "docs"
    docs.mkdir(parents=True)
    (docs / "plan.md").write_text("rotate the keys")
    monkeypatch.setenv("AIRW_PROJECTS", str(tmp_path / "projects"))
    return docs


@pytest.mark.asyncio_only
async def test_a_preset_is_registered_by_its_first_successful_build(projects):
    async with build_corpus("Reports", embedder="light") as corpus:
        assert (corpus.name, corpus.report.added) == ("reports", 1)
    assert list_corpora() == {"reports": Definition("reports", "reports", embedder="light")}
    async with build_corpus("reports") as corpus:
        assert corpus.report.unchanged == 1


@pytest.mark.asyncio_only
async def test_a_preset_whose_build_fails_is_not_registered(home, projects):
    (projects / "plan.md").unlink()
    with pytest.raises(SourceError):
        await build_corpus("reports", embedder="light")
    assert not home.exists()


@pytest.mark.asyncio_only
async def test_a_definition_with_the_name_of_a_preset_takes_precedence(vault, projects):
    given = await register("skills", "notes", root=vault, embedder="light")
    async with build_corpus("skills", embedder="light") as corpus:
        assert corpus.report.added == 2
    assert list_corpora() == {"skills": given}


@pytest.mark.asyncio_only
async def test_a_preset_that_cannot_be_registered_after_its_build_is_closed_again(home, projects):
    def damage(_):
        registry(home).write_text("{")

    with pytest.raises(StoreCorrupt, match="damaged"):
        await build_corpus("reports", embedder="light", progress=damage)
    gc.collect()  # an open store would warn, and warnings are errors
    registry(home).unlink()
    async with build_corpus("reports", embedder="light") as corpus:
        assert corpus.report.unchanged == 1


@pytest.mark.asyncio_only
async def test_a_retriever_by_name_opens_at_its_first_call(vault):
    await register("vault", "notes", root=vault, embedder="light")
    retriever = retriever_for("vault", mode="lexical", k=1)
    with pytest.raises(CorpusNotFound, match="there is no corpus 'vault'"):
        await retriever("keys")
    async with build_corpus("vault"), retriever:
        assert [hit.artifact_id for hit in await retriever("keys")] == ["keys.md"]
    await unregister("vault")
    async with retriever_for("Vault", mode="lexical") as retriever:
        assert [hit.artifact_id for hit in await retriever("bread")] == ["bread.md"]


@pytest.mark.parametrize("name", ["./vault", Path("vault"), "vault.airw/x", None])
def test_a_retriever_by_name_accepts_names_only(name):
    with pytest.raises(ArgumentError, match="cannot name a corpus"):
        retriever_for(name)


@pytest.mark.asyncio_only
async def test_retrievers_are_a_current_view_that_opens_on_use_and_closes_together(vault):
    async with retrievers(mode="lexical", k=1) as known:
        assert (list(known), "vault" in known) == ([], False)
        await register("vault", "notes", root=vault, embedder="light")
        await register("unbuilt", "notes", root=vault, embedder="light")
        async with build_corpus("vault"):
            pass
        assert (list(known), len(known), "vault" in known, 3 in known) == (["unbuilt", "vault"], 2, True, False)
        found = await known["vault"]("keys")
        assert [hit.artifact_id for hit in found] == ["keys.md"]
        assert known["VAULT"] is known["vault"]
        await unregister("unbuilt")
        assert list(known) == ["vault"]
        kept = known["vault"]
    with pytest.raises(StoreError, match="closed"):
        await kept("keys")
    with pytest.raises(StoreError, match=r"create others with retrievers\(\)"):
        known["vault"]
    await known.aclose()


def test_the_options_of_retrievers_are_checked_at_once():
    with pytest.raises(ArgumentError, match="mode"):
        retrievers(mode="fuzzy")


@pytest.mark.asyncio_only
async def test_the_error_for_a_built_but_unregistered_corpus_suggests_to_register_it(vault):
    await register("vault", "notes", root=vault, embedder="light")
    async with build_corpus("vault"):
        pass
    await unregister("vault")
    assert corpus_names() == ["vault"]
    with pytest.raises(CorpusNotFound, match=r"'vault' is built, but not registered; call register\('vault'"):
        await maintain("vault")

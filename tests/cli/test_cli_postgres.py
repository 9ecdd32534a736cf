"""Commands on corpora that are on a server, by name and by address."""

import json
import sys

import anyio
import pytest

from airw.corpora import home, list_corpora
from airw.errors import StoreError
from airw.stores import PostgresStore
from tests.support.postgres import drop_corpus, fresh_name, server_dsn

SECRET = "postgresql://ada:s3cret@db.example/kb"


@pytest.mark.parametrize(
    "words",
    [
        ["build", ".", "--store", SECRET],
        ["build", ".", f"--store={SECRET}"],
        ["register", "x", "notes", "--root", ".", "--store", SECRET],
        ["search", f"{SECRET}#notes", "keys"],
        ["copy", "notes", SECRET],
        ["info", "-c", f"{SECRET}#notes"],
        ["unknown", SECRET],
    ],
)
def test_a_password_on_the_command_line_is_refused_with_what_to_write(words, output_of):
    error = r"airw: the command line must not contain a password: write 'postgresql://ada:\$PASSWORD@db.example/kb.*\n"
    assert output_of(*words, code=2, err=error) == ""
    assert not home().exists()


@pytest.mark.parametrize(
    "address",
    [
        SECRET.replace("postgresql", "postgresql+asyncpg"),
        SECRET.replace("postgresql", "POSTGRESQL"),
        f" {SECRET}",
        SECRET.replace("//", "/"),
        "postgresql:///kb?%70assword=s3cret",
        "host=db.example dbname=kb password=s3cret",
    ],
)
def test_a_password_in_any_form_of_an_address_is_refused_and_not_shown(address, output_of):
    for words in (["build", ".", f"--store={address}"], ["info", "-c", address], ["copy", "notes", address]):
        error = r"airw: the command line must not contain a password: write '(?!.*s3cret).*PASSWORD.*\n"
        assert output_of(*words, code=2, err=error) == ""
    assert not home().exists()


def test_an_address_is_no_source(output_of):
    output_of("build", "postgresql://db.example/kb", code=2, err=r"airw: SOURCE is what to index.*--store .*kb`\n")


def test_a_registration_without_its_server_is_listed_and_can_be_forgotten(output_of, tmp_path):
    store = "postgresql://ada:$AIRW_NO_SUCH@127.0.0.1:1/kb"
    output_of("register", "far", "notes", "--root", tmp_path, "--store", store)
    output_of("register", "near", "notes", "--root", tmp_path)
    assert "near" in output_of("ls", code=1, err="airw: far: .*AIRW_NO_SUCH.*\n")
    error = r"airw: .*; to forget only its registration: python -c .*unregister, 'far'\)\"\n"
    output_of("rm", "far", code=2, err=error)
    assert list(list_corpora()) == ["far", "near"]
    words = ["register", "x" * 70, "notes", "--root", tmp_path, "--store", "postgresql:///kb"]
    output_of(*words, code=2, err="airw: .*use a name of 1 to 58 bytes without NUL and ~\n")


def test_a_name_leads_to_its_server_while_a_build_runs(output_of, tmp_path, monkeypatch):
    address, seen = "postgresql://127.0.0.1:1/kb", []

    async def fail(*_, **__):
        seen.append(list_corpora()["notes"].store)
        raise StoreError("the build ends here")

    monkeypatch.setattr("airw.cli.corpora._run_build", fail)
    words = ["build", tmp_path, "--name", "notes", "--store", address, "--embedder", "light"]
    output_of(*words, code=2, err="airw: the build ends here\n")
    assert seen == [address]
    assert not list_corpora()  # nothing is there


def test_an_address_names_the_source_that_is_registered_with_it(output_of, tmp_path):
    (tmp_path / "a.md").write_text("sign")
    output_of("register", "far", "notes", "--root", tmp_path, "--store", "postgresql://127.0.0.1:1/kb#other")
    assert "far" in output_of("maintain", "postgresql://127.0.0.1:1/kb#other", "--dry-run")
    for command in ("maintain", "coverage"):
        error = (
            "airw: no corpus is registered with the store 'postgresql://127.0.0.1:1/kb#far', so .*register it first\n"
        )
        output_of(command, "postgresql://127.0.0.1:1/kb#far", code=2, err=error)


def test_an_unreachable_server_is_one_line(output_of):
    output_of("search", "postgresql://127.0.0.1:1/kb#notes", "keys", code=2, err=r"airw: .*127.0.0.1:1/kb.*\n")
    output_of("info", "postgresql://127.0.0.1:1/kb", code=2, err=r"airw: .*add the name of one after '#'.*\n")


def test_without_the_extra_the_error_names_what_to_install(output_of, monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    error = r"airw: .*airw\[postgres\].*\n"
    output_of("search", "postgresql://127.0.0.1:1/kb#notes", "keys", code=2, err=error)
    output_of("build", ".", "--store", "postgresql://127.0.0.1:1/kb", "--embedder", "light", code=2, err=error)
    assert not list_corpora()


@pytest.fixture
def name():
    name = fresh_name("cli")
    yield name
    for suffix in ("", ".copy"):
        anyio.run(drop_corpus, server_dsn(), name + suffix)


@pytest.fixture
def notes(tmp_path, name):
    """A folder of linked notes with the name of the corpus."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "keys.md").write_text("# Keys\nRotate the signing keys, see [[bread]] and [[missing]].")
    (folder / "bread.md").write_text("# Bread\nBake a loaf of bread.")
    return folder


@pytest.mark.slow
class TestOnAServer:
    def test_a_folder_is_built_there_and_every_command_finds_it_by_name(self, notes, name, output_of, objects):
        told = output_of("build", notes, "--store", server_dsn(), "--embedder", "light")
        assert f"{server_dsn()}#{name} contains 2 documents" in told
        assert list_corpora()[name].store == server_dsn()
        assert not (home() / "corpora").exists()
        assert "0 added, 0 updated, 2 unchanged" in output_of("build", name)
        [hit] = [each for each in objects("search", "keys", "-k", "1") if each["type"] == "hit"]
        assert hit["artifact_id"] == "keys.md"
        assert "keys.md" in output_of("traverse", name, "keys")
        output_of("discover", name, "signing keys")
        assert "bread.md" in output_of("link", "tree", "keys.md")
        assert "bread.md" in output_of("link", "list", name, "keys.md")
        assert "missing" in output_of("link", "check", name, "-v")
        assert "Bake" in output_of("context", name, "--note", "bread")
        assert name in output_of("ls")
        assert "100.0%" in output_of("coverage", name)
        assert "2 unchanged" in output_of("maintain", name)
        assert name in output_of("__complete", "search", name[:3])
        (notes / "bread.md").unlink()
        assert "1 removed" in output_of("build", notes)
        output_of("rm", name)
        assert not list_corpora()
        assert name not in anyio.run(PostgresStore.list_corpora, server_dsn())

    def test_an_address_takes_the_place_of_a_name(self, notes, name, output_of, objects, monkeypatch):
        address = f"{server_dsn()}#{name}"
        output_of("build", notes, "--name", "other", "--store", address, "--embedder", "light")
        assert [hit["artifact_id"] for hit in objects("search", address, "bread", "-k", "1") if hit["type"] == "hit"]
        monkeypatch.setenv("AIRW_CORPUS", address)
        assert "bread.md" in output_of("link", "tree", "keys.md")
        output_of("rm", address)
        output_of("search", address, "bread", code=2, err=f"airw: there is no corpus '{name}' on .*\n")
        assert "not built yet" in output_of("ls")

    def test_info_shows_the_store_without_secrets(self, notes, name, output_of, objects, monkeypatch):
        monkeypatch.setenv("KB_PASSWORD", "s3cret")
        address = server_dsn().replace("postgres@", "postgres:$KB_PASSWORD@")
        output_of("register", name, "notes", "--root", notes, "--embedder", "light", "--store", address)
        assert "not built yet" in output_of("info", name)
        output_of("build", name, "--language", "none")
        told = output_of("info", name)
        assert "kind           server (PostgreSQL)" in told
        assert f"address        {address}#{name}" in told
        assert "language       none: words as they are" in told
        [about] = objects("info", name)
        assert (about["store"], about["path"], about["address"]) == ("server", None, f"{address}#{name}")
        assert "s3cret" not in told + json.dumps(about) + (home() / "registry.json").read_text()
        output_of("info", name, "--check", code=2, err=r"airw: --check reads a corpus file; .*\n")

    def test_copies_go_there_and_back(self, notes, name, tmp_path, output_of):
        output_of("build", notes, "--embedder", "light")
        address = f"{server_dsn()}#{name}"
        assert output_of("copy", name, server_dsn()) == f"copied {name} to {address}\n"
        output_of("copy", name, server_dsn(), code=2, err=r"airw: .*exists; use --force to replace it\n")
        output_of("copy", name, server_dsn(), "--force")
        output_of("copy", address, tmp_path / "back.airw")
        assert "keys.md" in output_of("search", tmp_path / "back.airw", "keys")
        output_of("rm", name)
        assert name in output_of("restore", name, address)
        assert "keys.md" in output_of("search", name, "keys")

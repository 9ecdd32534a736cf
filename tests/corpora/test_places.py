"""Where a corpus is: a name, a path or an address; no server is needed to know it."""

import pickle
from pathlib import Path

import pytest

from airw.corpora import (
    CorpusAddress,
    as_retriever,
    build,
    copy_corpus,
    corpus_names,
    corpus_path,
    home,
    list_corpora,
    locate,
    open_corpus,
    prepare_ingest,
    register,
    remove_corpus,
    restore_corpus,
    unregister,
)
from airw.discovery import discover
from airw.errors import ArgumentError, CorpusNotFound, StoreError
from airw.sources import from_mapping
from airw.stores import MemoryStore

SECRET = "postgresql://ada:s3cret@127.0.0.1:1/kb"
ADDRESS = "postgresql://ada:$KB_PASSWORD@db.example/kb"


async def test_a_registered_store_is_where_the_name_leads(tmp_path):
    await register("Vault", "notes", root=tmp_path, embedder="light", store=ADDRESS)
    assert locate("vault") == (CorpusAddress(ADDRESS, "Vault"), "Vault")
    assert corpus_names() == ["Vault"]
    assert list_corpora()["Vault"].store == ADDRESS
    assert corpus_path("vault") == home() / "corpora" / "vault.airw"
    await register("Vault", "notes", root=tmp_path, embedder="light", store=f"{ADDRESS}#notes")
    assert str(locate("VAULT").place) == f"{ADDRESS}#notes"
    await unregister("vault")
    assert locate("vault") == (home() / "corpora" / "vault.airw", "vault")
    assert corpus_names() == []


@pytest.mark.parametrize(
    ("store", "message"),
    [
        (SECRET, r"must not contain a password: write 'postgresql://ada:\$PASSWORD@127.0.0.1:1/kb'"),
        ("notes.airw", "must be the address of a server, such as .*; not 'notes.airw'"),
        ("mysql://ada:s3cret@db/kb", "not 'mysql://…'"),
        (Path("notes.airw"), "must be the address of a server"),
        ("postgresql://db/kb#two words", "cannot name a corpus"),
        (f"postgresql://db/kb#{'n' * 70}", "cannot be a schema"),
        ("postgresql://db/kb?sslmod=require", "has a parameter 'sslmod'"),
        ("postgresql://db:99999/kb", "port that is not a number from 1"),
        ("postgresql://ada:s3cret/kb", "must not contain a password"),
        ("postgresql:///kb?%70assword=s3cret", "must not contain a password"),
    ],
)
async def test_a_store_that_cannot_be_registered_is_an_error_without_its_password(store, message, tmp_path):
    with pytest.raises(ArgumentError, match=message) as caught:
        await register("vault", "notes", root=tmp_path, store=store)
    assert "s3cret" not in str(caught.value)
    assert not home().exists()


@pytest.mark.asyncio_only
async def test_a_password_in_an_address_is_shown_nowhere():
    address = CorpusAddress(SECRET, "notes")
    retriever = as_retriever(f"{SECRET}#notes")
    shown = [str(address), repr(address), repr(locate(f"{SECRET}#notes")), repr(retriever)]
    for call in (open_corpus(f"{SECRET}#notes"), build(from_mapping({"a": "b"}, name="n"), store=SECRET)):
        with pytest.raises(StoreError) as caught:
            await call
        shown += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
    await retriever.aclose()
    with pytest.raises(StoreError) as caught:
        await retriever("keys")
    assert not [text for text in (*shown, str(caught.value)) if "s3cret" in text]


@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    "address",
    [
        "postgresql+asyncpg://ada:s3cret@db/kb",
        Path("postgresql+asyncpg://ada:s3cret@db/kb"),
        " Postgres://ada:s3cret@db/kb#notes",
        "postgresql:/ada:s3cret@db/kb",
        "host=db user=ada password=s3cret",
    ],
)
async def test_an_address_in_another_form_is_never_read_as_a_file(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = from_mapping({"a": "b"}, name="notes", embedder="light")
    for call in (
        lambda: open_corpus(address),
        lambda: build(source, store=address),
        lambda: copy_corpus(address, tmp_path / "copy.airw"),
        lambda: restore_corpus("notes", address),
        lambda: remove_corpus(address),
    ):
        with pytest.raises(ArgumentError, match="write 'postgresql://user@host/database'") as caught:
            await call()
        assert "s3cret" not in str(caught.value)
    assert not list(tmp_path.rglob("*s3cret*"))


async def test_an_address_where_a_name_is_needed_is_shown_without_its_password(tmp_path):
    for address in (f"{SECRET}#notes", "postgresql+asyncpg://ada:s3cret@db/kb"):
        with pytest.raises(ArgumentError, match="cannot name a corpus") as caught:
            await register(address, "notes", root=tmp_path)
        assert "s3cret" not in str(caught.value)


def test_the_scheme_of_an_address_is_read_without_case():
    assert str(locate("POSTGRESQL://ada:s3cret@db/kb#notes").place) == "POSTGRESQL://ada@db/kb#notes"


@pytest.mark.asyncio_only
async def test_a_plan_never_carries_a_password(monkeypatch):
    with pytest.raises(ArgumentError, match="must not contain a password"):
        await prepare_ingest(from_mapping({}, name="notes"), store=SECRET, embedder="light")
    monkeypatch.setenv("KB_PASSWORD", "s3cret")
    assert b"s3cret" not in pickle.dumps(CorpusAddress(ADDRESS, "notes"))


@pytest.mark.asyncio_only
async def test_an_address_without_a_corpus_opens_nothing():
    with pytest.raises(ArgumentError, match=r"address of a database.*after '#'"):
        await open_corpus("postgresql://db.example/kb")
    with pytest.raises(ArgumentError, match="is on a server and has no file"):
        corpus_path("postgresql://db.example/kb#notes")


@pytest.mark.asyncio_only
@pytest.mark.parametrize("options", [{"durability": "full"}, {"durability": "normal"}])
async def test_what_is_for_files_is_refused_for_a_server(options):
    with pytest.raises(
        ArgumentError, match=r"durability is for a corpus file, not for 'postgresql://db\.example/kb#notes'"
    ):
        await build(from_mapping({}, name="notes"), store="postgresql://db.example/kb", **options)
    if options.get("durability") == "full":
        with pytest.raises(ArgumentError, match="durability is for a corpus file"):
            await open_corpus("postgresql://db.example/kb#notes", **options)


@pytest.mark.asyncio_only
async def test_a_corpus_of_many_is_named_after_its_address_too():
    async with build(from_mapping({"a": "b"}, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        with pytest.raises(ArgumentError, match="notes"):  # two corpora of one name
            await discover([corpus, "postgresql://db.example/kb#notes"], "b")


async def test_a_damaged_registry_does_not_hide_a_file(tmp_path):
    home().mkdir(parents=True)
    (home() / "registry.json").write_text("{")
    assert locate("notes").place == home() / "corpora" / "notes.airw"
    with pytest.raises(CorpusNotFound):
        await open_corpus("notes")

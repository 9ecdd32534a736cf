"""Passwords are never shown, certificates are verified, roles need few rights."""

import logging
import socket
import ssl
import subprocess
import traceback

import numpy as np
import pytest

from airw.errors import AirwError, StoreError
from airw.protocols import ArtifactIds, Change, Config, Counts, Rank, ask
from airw.stores import PostgresStore
from airw.values import ArtifactChange, LedgerEntry, Record
from tests.support.postgres import PostgresServer, drop_corpus, fresh_name
from tests.support.relay import PostgresRelay

pytestmark = [pytest.mark.asyncio_only]

SECRET = "hunter2 +%/:@"
QUOTED = "hunter2%20%2B%25%2F%3A%40"
HOST = "db.example"


@pytest.fixture(scope="module")
def server():
    with PostgresServer(listens=True) as server:
        yield server


@pytest.fixture(scope="module")
async def roles(server):
    """A role that owns what it makes, one that writes and one that reads."""
    await server.execute(
        f"CREATE ROLE owner LOGIN PASSWORD '{SECRET}'; GRANT CREATE ON DATABASE postgres TO owner;"
        "CREATE ROLE writer LOGIN PASSWORD 'w'; CREATE ROLE reader LOGIN PASSWORD 'r'"
    )
    await server.execute("CREATE EXTENSION IF NOT EXISTS vector")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """For each name, the context of a server with its certificate, and its authority."""
    folder = tmp_path_factory.mktemp("certificates")

    def make(name):
        key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
        subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context, certificate

    return {name: make(name) for name in (HOST, "other.example")}


@pytest.fixture
def far_host(monkeypatch):
    """A name that is not of this machine, but leads to it."""
    resolve = socket.getaddrinfo

    def find(host, *args, **kwargs):
        return resolve("127.0.0.1" if host in (HOST, HOST.encode()) else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", find)


def change(id):
    """An artifact of three records."""
    records = [Record(Record.make_id(id, "document", i), id, "document", i, f"text {i}") for i in range(3)]
    return ArtifactChange(LedgerEntry(id, "v1", "e", "s"), records, np.eye(3, 8, dtype=np.float32))


def texts_of(error):
    """All that a traceback shows of an error and its causes, without lines of code."""
    return "".join(line for line in traceback.format_exception(error) if "    " not in line)


@pytest.mark.slow
async def test_a_password_in_an_address_is_used_and_never_shown(server, roles, caplog):
    name = fresh_name()
    dsn = server.tcp_dsn("owner", password=QUOTED)
    caplog.set_level(logging.DEBUG)
    async with PostgresStore(dsn, name) as store:
        assert await ask(store, Counts())
        assert "hunter2" not in f"{store!r} {store} {store.address} {vars(store)} {store._database.place}"
    with pytest.raises(StoreError) as closed:
        await ask(store, Counts())
    await PostgresStore.remove(dsn, name)
    assert "hunter2" not in texts_of(closed.value)
    assert "hunter2" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda dsn: dsn.replace("owner", "nobody"),
        lambda dsn: dsn.replace("/postgres", "/nothing"),
        lambda dsn: dsn.replace("/postgres", "/two\nlines\x1b[2J"),
        lambda dsn: dsn.replace("127.0.0.1", "127.0.0.2"),
        lambda dsn: f"{dsn}?sslmode=require",
        lambda dsn: f"{dsn}?sslrootcert=/no/file&sslmode=verify-full",
        lambda dsn: f"{dsn}?sslmod=require",
        lambda dsn: f"{dsn}?password={QUOTED}",
        lambda dsn: f"{dsn}?%70assword={QUOTED}",
        lambda dsn: dsn.replace("postgresql:", "postgresql+asyncpg:"),
        lambda dsn: f"{dsn}?sslrootcert=%00",
        lambda dsn: f"{dsn}#notes",
        lambda dsn: dsn.replace("127.0.0.1:", "127.0.0.1:x"),
        lambda dsn: dsn.replace(QUOTED, "hunter2x"),
        lambda dsn: dsn.replace(QUOTED, "hunter2:/?#@x"),
    ],
)
async def test_no_error_shows_a_password_in_its_message_or_its_causes(server, roles, change):
    with pytest.raises(AirwError) as caught:
        await PostgresStore.open(change(server.tcp_dsn("owner", password=QUOTED)), "notes", create=False)
    assert "hunter2" not in texts_of(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.slow
async def test_a_database_that_is_missing_is_an_error_with_a_next_step(server):
    with pytest.raises(StoreError, match=r'"nodb" does not exist.*; create the database, or name another'):
        await PostgresStore.open(server.dsn("nodb"), "notes", create=False)


@pytest.mark.slow
async def test_a_server_without_tls_needs_none_on_this_machine_whatever_the_negotiation(server, roles, monkeypatch):
    monkeypatch.setenv("PGSSLNEGOTIATION", "direct")
    assert await PostgresStore.list_corpora(server.tcp_dsn("reader", password="r")) is not None
    monkeypatch.setenv("PGSSLMODE", "require")
    with pytest.raises(StoreError):
        await PostgresStore.list_corpora(server.tcp_dsn("reader", password="r"))


@pytest.mark.slow
async def test_the_password_comes_from_the_variable_that_the_address_names(server, roles, monkeypatch):
    dsn, name = server.tcp_dsn("owner", password="$KB_PASSWORD"), fresh_name()
    with pytest.raises(StoreError, match="KB_PASSWORD with the password, which is not set"):
        await PostgresStore.open(dsn, name)
    monkeypatch.setenv("KB_PASSWORD", SECRET)
    async with PostgresStore(dsn, name) as store:
        assert "$KB_PASSWORD" in store.address
    # Without any, PostgreSQL's own variable has it.
    monkeypatch.setenv("PGPASSWORD", SECRET)
    async with await PostgresStore.open(server.tcp_dsn("owner"), name):
        pass
    await PostgresStore.remove(dsn, name)
    monkeypatch.setenv("KB_PASSWORD", "hunter3")
    with pytest.raises(StoreError, match="refuses this role or password") as caught:
        await PostgresStore.open(dsn, name)
    assert "hunter" not in texts_of(caught.value)


@pytest.mark.slow
async def test_the_password_comes_from_a_file_of_passwords(server, roles, monkeypatch, tmp_path):
    file, name = tmp_path / "pgpass", fresh_name()
    file.write_text(f"127.0.0.1:{server.port}:postgres:second:s\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    await server.execute("CREATE ROLE second LOGIN PASSWORD 's'; GRANT CREATE ON DATABASE postgres TO second")
    async with PostgresStore(server.tcp_dsn("second"), name):
        pass
    await drop_corpus(server.dsn(), name)


@pytest.mark.slow
async def test_the_certificate_of_a_far_server_is_verified_by_default(server, certificates, far_host):
    context, authority = certificates[HOST]
    name = fresh_name()
    async with PostgresRelay(server, tls=context).run() as relay:
        with pytest.raises(StoreError, match="sslrootcert=FILE") as caught:
            await PostgresStore.open(relay.dsn(host=HOST), name)
        assert "certificate" in str(caught.value)
        assert "\n" not in str(caught.value)
        async with PostgresStore(relay.dsn(host=HOST, parameters=f"?sslrootcert={authority}"), name) as store:
            assert await ask(store, ArtifactIds()) == []
        async with PostgresStore(relay.dsn(host=HOST, parameters="?sslmode=require"), name) as store:
            assert await ask(store, ArtifactIds()) == []
    await drop_corpus(server.dsn(), name)


@pytest.mark.slow
async def test_the_certificate_of_another_name_is_refused(server, certificates, far_host):
    context, authority = certificates["other.example"]
    name = fresh_name()
    async with PostgresRelay(server, tls=context).run() as relay:
        with pytest.raises(StoreError, match="cannot be reached"):
            await PostgresStore.open(relay.dsn(host=HOST, parameters=f"?sslrootcert={authority}"), name)
        parameters = f"?sslrootcert={authority}&sslmode=verify-ca"
        async with PostgresStore(relay.dsn(host=HOST, parameters=parameters), name):
            pass
    await drop_corpus(server.dsn(), name)


@pytest.mark.slow
async def test_a_far_server_without_tls_gets_no_password(server, far_host):
    async with PostgresRelay(server).run() as relay:
        with pytest.raises(StoreError, match="cannot be"):
            await PostgresStore.open(relay.dsn(host=HOST, login="owner:hunter2"), "notes")
        assert relay.questions == 0  # only the wish for TLS was sent, and the connection ended


@pytest.mark.slow
async def test_a_server_of_this_machine_needs_no_certificate(server, certificates):
    context, _ = certificates["other.example"]
    name = fresh_name()
    async with PostgresRelay(server, tls=context).run() as relay, PostgresStore(relay.dsn(host="localhost"), name):
        pass
    await drop_corpus(server.dsn(), name)


GRANTS = """
GRANT USAGE ON SCHEMA "airw_{0}" TO reader, writer;
GRANT SELECT ON ALL TABLES IN SCHEMA "airw_{0}" TO reader, writer;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA "airw_{0}" TO reader;
GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "airw_{0}" TO writer;
GRANT USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA "airw_{0}" TO writer;
"""


@pytest.mark.slow
async def test_roles_with_least_rights_read_and_write(server, roles, monkeypatch):
    name = fresh_name()
    owner, writer, reader = (
        server.tcp_dsn(role, password=password)
        for role, password in (("owner", QUOTED), ("writer", "w"), ("reader", "r"))
    )
    async with PostgresStore(owner, name):
        pass
    with pytest.raises(StoreError, match="this role may not"):
        await PostgresStore.open(reader, name)
    await server.execute(GRANTS.format(name))
    async with await PostgresStore.open(writer, name) as store, store.writing(timeout=0):
        await store.apply(Change([change("a1"), change("a2")]))
        await store.apply(Change([change("a2")], removals=["a1"]))
        await store.apply(Change(config={"a": 1}))
    async with await PostgresStore.open(reader, name) as store:
        assert await ask(store, ArtifactIds()) == ["a2"]
        assert await ask(store, Config()) == {"a": 1}
        assert len((await ask(store, Rank(["text"], 3)))[0].record_ids) == 3
        with pytest.raises(StoreError, match="this role may not do that"):
            await store.apply(Change(config={"a": 2}))
        with pytest.raises(StoreError, match="may not"):
            await PostgresStore.remove(reader, name)
    with pytest.raises(StoreError, match="may not create a schema; the owner of the database runs"):
        await PostgresStore.open(reader, fresh_name(), create=True)
    await PostgresStore.remove(owner, name)


@pytest.mark.slow
async def test_a_missing_extension_names_what_its_owner_runs(server, roles):
    await server.execute("CREATE DATABASE bare")
    dsn = server.tcp_dsn("reader", password="r").replace("/postgres", "/bare")
    with pytest.raises(StoreError, match="runs: CREATE EXTENSION IF NOT EXISTS vector SCHEMA public"):
        await PostgresStore.open(dsn, "notes", create=True)
    async with PostgresStore(server.dsn("bare"), "notes"):  # a role that may, creates it
        pass
    assert await PostgresStore.list_corpora(server.dsn("bare")) == ["notes"]

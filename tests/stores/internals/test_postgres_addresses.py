"""Addresses of servers: the corpus in them, and passwords, which no message shows."""

import time

import pytest
from hypothesis import example, given, strategies as st

from airw.errors import ArgumentError, StoreError
from airw.stores import (
    has_password,
    hide_password,
    is_server_address,
    refuse_mistaken_address,
    refuse_password,
    split_corpus,
)
from airw.stores.postgres.addresses import check_server_address, connect_options

SECRETS = [
    "postgresql://ada:s3cret@db.example/kb",
    "postgresql://ada:s3cret@db.example:5433/kb?sslmode=require#notes",
    "postgres://ada:s3cret@one:1,two:2/kb",
    "postgresql://ada:s3cret@@db.example/kb",
    "postgresql://ada:s3/s3cret#x@db.example/kb#notes",
    "postgresql://ada:s3?s3cret@db.example/kb",
    "postgresql://db.example/kb?user=ada&password=s3cret",
    "postgresql://db.example/kb?password=s3cret&user=ada#notes",
    "postgresql://ada:$KB@db.example/kb?Password=s3cret",
    "postgresql://ada:$s3cret@db.example/kb",
    "POSTGRESQL://ada:s3cret@db.example/kb",
    *(
        f"postgresql:///kb?{name}s3cret"
        for name in (
            *(
                "%70assword=",
                "pass%77ord=",
                "passwd=",
                "pwd=",
                "PGPASSWORD=",
                " password=",
                "+password=",
                "password%20=",
            ),
            *("user=ada;password=", "options=-c%20password=", "application_name=x;password=", "password=a#"),
        )
    ),
    *(
        f"postgresql://{login}"
        for login in (
            *("ada%3As3cret@db/kb", "ada%3as3cret@db/kb", "ada:s3cret", "ada:s3cret/kb", "ada:a/s3/kb", "ada:s3?x=1"),
            *("ada:a,s3cret/kb", "ada:x@db/kb@s3cret", "ada@db/kb@s3cret", "ada:x@db/kb#s3cret@x", "ada%3As3cret"),
            *("ada;password=s3cret@db/kb", "db:s3cret/kb#notes", "ada:12@db:s3cret/kb"),
        )
    ),
]
MISTAKEN = [
    "postgresql:ada:s3cret@db/kb",
    "postgres:ada:s3cret@db",
    "postgresql+asyncpg://ada:s3cret@db/kb",
    "postgresql+psycopg://ada:s3cret@db/kb#notes",
    " postgresql://ada:s3cret@db/kb",
    "'postgresql://ada:s3cret@db/kb'",
    "postgresql:/ada:s3cret@db/kb",
    "jdbc:postgresql://db/kb?user=ada&password=s3cret",
    "host=db dbname=kb user=ada password=s3cret",
    "dbname=kb password = 's3cret'",
]
OPEN = [
    "postgresql://db.example/kb",
    "postgresql://ada@db.example:5432/kb?sslmode=require",
    "postgresql://ada:$KB_PASSWORD@db.example/kb",
    "postgresql:///kb?host=/run/postgresql",
    "postgresql://ada@[::1]:5432,two:5433/kb#notes",
    "postgresql://%2Frun%2Fpostgresql/kb",
    "postgresql://ada:@/kb?host=/run/postgresql",
]


@pytest.mark.parametrize("address", SECRETS)
def test_a_password_is_found_hidden_and_refused_wherever_it_stands(address):
    assert has_password(address)
    hidden = hide_password(address)
    assert "s3" not in hidden
    assert is_server_address(hidden)
    assert hide_password(hidden) == hidden
    assert not has_password(hidden)
    with pytest.raises(ArgumentError) as refused:
        refuse_password("the registry", address)
    assert "s3" not in str(refused.value)
    assert "$PASSWORD@" in str(refused.value)


PARTS = st.lists(st.sampled_from([*":@/?#,&=$;%", "%40", "%3A", "%3a", "db", "$KB", "[::1]", "password", "\n", "5"]))


@given(PARTS.map("".join), PARTS.map("".join), st.sampled_from(["", "?sslmode=require", "#notes", "?host=a"]))
@example("a?", "=1@x", "")
def test_no_password_is_shown_whatever_it_contains(before, after, end):
    address = f"postgresql://ada:{before}s3cret{after}@db.example/kb{end}"
    assert has_password(address)
    hidden = hide_password(address)
    assert "s3cret" not in hidden
    assert hide_password(hidden) == hidden
    assert not has_password(hidden)
    assert "s3cret" not in words_of(refuse_password, address)
    assert "s3cret" not in words_of(check_server_address, address)


@pytest.mark.parametrize("start", ["", "postgresql://", "postgresql://ada:", "x:/"])
@pytest.mark.parametrize(
    "part", ["a", "pass", ":", "@", "a@", ":@", ",", "a,", ":1,", "%3A", "=", "&a", "/", "[", "?", "#"]
)
def test_a_long_text_is_read_in_no_time(start, part):
    began = time.perf_counter()
    for end in ("", "]", "@", "\n"):
        hide_password(start + part * (100_000 // len(part)) + end)
    assert time.perf_counter() - began < 5


def words_of(check, address):
    """Return what a check says about an address, in its message and its causes."""
    try:
        check("the registry", address)
    except ArgumentError as error:
        return f"{error} {error.__cause__} {error.__context__}"
    return ""


@pytest.mark.parametrize("value", MISTAKEN)
def test_an_address_in_another_form_is_refused_and_never_shown(value):
    assert not is_server_address(value)
    assert "s3" not in hide_password(value)
    assert has_password(value)
    with pytest.raises(ArgumentError, match="write 'postgresql://user@host/database'") as refused:
        refuse_mistaken_address("store", value)
    assert "s3" not in str(refused.value)


@pytest.mark.parametrize("value", ["notes", "./postgres/notes.airw", "/srv/postgresql/16", "postgres", "C:/notes/a:b"])
def test_a_name_or_path_is_no_address_in_another_form(value):
    refuse_mistaken_address("store", value)
    assert hide_password(value) == value
    assert not has_password(value)


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        ("sslmode=require#notes", "///kb?sslmode=require#notes"),
        ("sslmod=require", "///kb?…"),
        ("sslmode=require&s3cret#notes", "///kb?…"),
        ("password=s3cret&sslmode=require#notes", "//…"),
    ],
)
def test_parameters_are_shown_if_all_are_known(parameters, shown):
    assert hide_password(f"postgresql:///kb?{parameters}") == f"postgresql:{shown}"


def test_of_a_wrong_value_no_more_is_shown_than_of_its_address():
    for address in ("postgresql:///kb?sslmode=x;password=s3cret", "postgresql://ada:s3?s3cret=1@db:x/kb"):
        with pytest.raises(ArgumentError) as refused:
            check_server_address("dsn", address)
        assert "s3" not in str(refused.value).replace("another sslmode", "")


@pytest.mark.parametrize("address", OPEN)
def test_an_address_without_a_password_is_shown_as_it_is(address):
    refuse_password("the registry", address)
    assert hide_password(address) == address.replace("ada:@", "ada@")
    assert not has_password(address)


def test_the_corpus_is_named_after_the_last_number_sign():
    assert split_corpus("postgresql://db/kb?a=1#notes") == ("postgresql://db/kb?a=1", "notes")
    assert split_corpus("postgresql://ada:a#b@db/kb") == ("postgresql://ada:a#b@db/kb", None)
    assert not any(map(is_server_address, ["notes", "./postgresql://x", "http://db/kb", None, 5]))


def test_a_password_comes_from_the_variable_that_the_address_names(monkeypatch):
    monkeypatch.setenv("KB_PASSWORD", "a/b@c:d#e")
    address = "postgresql://ada:$KB_PASSWORD@db/kb?sslmode=disable"
    assert connect_options(address)["password"] == "a/b@c:d#e"
    assert connect_options("postgresql://ada:s3%40cret@db/kb")["password"] == "s3@cret"
    assert "password" not in connect_options("postgresql://ada@db/kb")
    monkeypatch.delenv("KB_PASSWORD")
    with pytest.raises(StoreError, match="needs the environment variable KB_PASSWORD"):
        connect_options(address)
    monkeypatch.setenv("KB_PASSWORD", "s3cret\udcff")
    with pytest.raises(StoreError, match="variable KB_PASSWORD contains an unpaired surrogate") as caught:
        connect_options(address)
    assert "s3cret" not in f"{caught.value!r} {caught.value.__context__!r}"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresql://db/kb?sslrootcert=%00", "contains a NUL character"),
        ("postgresql://db/k\0b", "contains a NUL character"),
        ("postgresql://db/\ud800", "contains an unpaired surrogate"),
        ("postgresql://db/kb?target_session_attrs=bogus", "must be one of any, primary"),
        ("postgresql://db/kb?sslmode=verify-full&sslmode=disable", "a parameter twice"),
        ("postgresql://db/kb?host=/tmp", r"hosts after '//' and as \?host="),
        ("postgresql://db:1/kb?port=2", "not one port for each host"),
        ("postgresql:///kb?s3cret", "has a parameter, which"),
        *((f"postgresql://db:{port}/kb", "1 to 65535") for port in ("-1", "0", "99999999", "65536", "\u0663", "x")),
        *((f"postgresql://one,two/kb?port={ports}", "1 to 65535") for ports in ("1,2,3", "1,-2", "1,")),
    ],
)
def test_an_address_that_no_server_can_have_is_refused_without_asking_one(address, words):
    with pytest.raises(ArgumentError, match=words) as refused:
        check_server_address("dsn", address)
    assert "s3" not in str(refused.value)
    assert str(refused.value).isprintable()


def test_variables_of_the_environment_stand_in_for_what_an_address_lacks(monkeypatch):
    monkeypatch.setenv("PGHOST", "one,two")
    monkeypatch.setenv("PGPORT", "1,2")
    options = connect_options("postgresql:///kb?sslmode=disable")
    assert (options["host"], options["port"]) == (["one", "two"], [1, 2])
    monkeypatch.setenv("PGPORT", "x")
    with pytest.raises(ArgumentError, match="PGPORT"):
        connect_options("postgresql:///kb")
    check_server_address("dsn", "postgresql:///kb")  # what can be registered does not depend on them
    assert connect_options("postgresql://db:5/kb")["port"] == [5]


@pytest.mark.parametrize(
    ("address", "variable", "verifies"),
    [
        ("postgresql://db/kb", "disable", True),  # never weaker than without it
        ("postgresql://db/kb", "allow", True),
        ("postgresql://127.0.0.1/kb", "verify-full", True),
        ("postgresql://127.0.0.1/kb", "require", False),
        ("postgresql://db/kb?sslmode=require", "verify-full", False),
    ],
)
def test_the_mode_of_the_environment_can_only_make_a_connection_safer(address, variable, verifies, monkeypatch):
    monkeypatch.setenv("PGSSLMODE", variable)
    monkeypatch.setenv("PGSSLNEGOTIATION", "direct")
    options = connect_options(address)
    assert (options["ssl"].check_hostname, options["ssl"].verify_mode > 0) == (verifies, verifies)
    assert options["direct_tls"] is False


def test_the_authority_and_the_mode_of_the_environment_are_checked(monkeypatch):
    monkeypatch.setenv("PGSSLROOTCERT", "/no/file")
    with pytest.raises(StoreError, match="certificate that cannot be read"):
        connect_options("postgresql://db/kb")
    monkeypatch.setenv("PGSSLMODE", "verify_full")
    with pytest.raises(ArgumentError, match="PGSSLMODE is 'verify_full'"):
        connect_options("postgresql://db/kb")

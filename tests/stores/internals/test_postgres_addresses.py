"""Addresses of servers: the corpus in them, and passwords, which no message shows."""

import pytest

from airw.errors import ArgumentError, StoreError
from airw.stores import has_password, hide_password, is_server_address, refuse_password, split_corpus
from airw.stores.postgres.addresses import reveal_password

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
]
OPEN = [
    "postgresql://db.example/kb",
    "postgresql://ada@db.example:5432/kb?sslmode=require",
    "postgresql://ada:$KB_PASSWORD@db.example/kb",
    "postgresql:///kb?host=/run/postgresql",
    "postgresql://ada:@/kb?host=/run/postgresql",
]


@pytest.mark.parametrize("address", SECRETS)
def test_a_password_is_found_hidden_and_refused_wherever_it_stands(address):
    assert has_password(address)
    hidden = hide_password(address)
    assert "s3" not in hidden
    assert is_server_address(hidden)
    assert not has_password(hidden)
    with pytest.raises(ArgumentError) as refused:
        refuse_password("the registry", address)
    assert "s3" not in str(refused.value)
    assert "$PASSWORD@" in str(refused.value)


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
    address = "postgresql://ada:$KB_PASSWORD@db/kb?x=1"
    assert reveal_password(address) == "postgresql://ada:a%2Fb%40c%3Ad%23e@db/kb?x=1"
    assert reveal_password("postgresql://ada:plain@db/kb") == "postgresql://ada:plain@db/kb"
    monkeypatch.delenv("KB_PASSWORD")
    with pytest.raises(StoreError, match="needs the environment variable KB_PASSWORD"):
        reveal_password(address)

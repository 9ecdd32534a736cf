"""Addresses of PostgreSQL servers, whose passwords are never shown.

```text
postgresql://user:$NAME@host:5432/database?sslmode=require#notes
                  ~~~~~                                    ~~~~~
                  the environment variable                 the corpus
                  that has the password
```
"""

import os
import re

from airw._base.checks import find_text_fault
from airw._base.messages import short_repr
from airw.errors import ArgumentError, StoreError

PARAMETERS = (
    *("host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey"),
    *("application_name", "target_session_attrs"),
)
"""The parameters that an address can have after `?`."""

_SCHEMES = ("postgresql://", "postgres://")
# How other programs write addresses: with a driver, without `//`, in quotes.
_MISTAKEN = re.compile(r"\W*[\w+.:-]*postgres\w*(\+\w+)?:/", re.IGNORECASE)
_MOST_BEFORE = 100  # characters in which the scheme of such an address is looked for
_SECRET_WORD = re.compile(r"\b\w*pass\w*\s*=|\bpwd\s*=", re.IGNORECASE)
_SCHEME = re.compile(r"\W{0,9}[\w+.:-]{0,60}?:/{1,2}")
# Capital letters, so that a password that begins with "$" is hardly ever read as a name.
_VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
_COLON = re.compile(":|%3A", re.IGNORECASE)
_PLACE = re.compile(r"(/.*|\[[^\]]*\]|[^:]*)(:[0-9]*)?")


def is_server_address(value: object) -> bool:
    """Return whether a value is the address of a server, and not a name or a path.

    Example:
        >>> is_server_address("postgresql://db.example/kb"), is_server_address("./notes.airw")
        (True, False)
    """
    return isinstance(value, str) and value[:13].lower().startswith(_SCHEMES)


def refuse_mistaken_address(parameter: str, value: str) -> None:
    """Refuse what was meant as the address of a server but would be read as a file.

    Its message never shows the value, which may contain a password anywhere.

    Raises:
        ArgumentError: If a value looks like such an address.

    Example:
        >>> refuse_mistaken_address("store", "postgresql+asyncpg://ada:secret@db.example/kb")
        Traceback (most recent call last):
            ...
        airw.errors.ArgumentError: store looks like the address of a server in another form: write \
'postgresql://user@host/database'
    """
    if not is_server_address(value) and (_MISTAKEN.match(value[:_MOST_BEFORE]) or _SECRET_WORD.search(value)):
        raise ArgumentError(
            f"{parameter} looks like the address of a server in another form: write 'postgresql://user@host/database'"
        )


def check_corpus_address(dsn: str, corpus: str) -> None:
    """Check the address of a database and the name of a corpus in it; no server is asked.

    Raises:
        ArgumentError: If a part of the address is not known, or the name cannot be that of a schema.

    Example:
        >>> check_corpus_address("postgresql://db.example/kb?sslmode=maybe", "notes")
        Traceback (most recent call last):
            ...
        airw.errors.ArgumentError: 'postgresql://db.example/kb?sslmode=maybe' has sslmode='maybe'; it must be one of \
disable, prefer, require, verify-ca, verify-full
    """
    from airw.stores.postgres._connecting import check_server_address
    from airw.stores.postgres._schema import schema_of

    check_server_address("the address", dsn)
    schema_of(corpus)


def split_corpus(address: str) -> tuple[str, str | None]:
    """Return the address of a database, and the corpus named after `#`, or `None`.

    Example:
        >>> split_corpus("postgresql://db.example/kb#notes"), split_corpus("postgresql://db.example/kb")
        (('postgresql://db.example/kb', 'notes'), ('postgresql://db.example/kb', None))
    """
    database, mark, corpus = address.rpartition("#")
    return (database, corpus) if mark and "@" not in corpus else (address, None)


def hide_password(address: str) -> str:
    """Return an address without its password; the name of a variable stays.

    Example:
        >>> hide_password("postgresql://ada:secret@db.example/kb#notes")
        'postgresql://ada@db.example/kb#notes'
        >>> hide_password("postgresql://ada:$KB_PASSWORD@db.example/kb")
        'postgresql://ada:$KB_PASSWORD@db.example/kb'
    """
    return _show(address)[0]


def has_password(address: str) -> bool:
    """Return whether an address contains a password itself, and not the name of a variable.

    Example:
        >>> [has_password(f"postgresql://ada{part}@db.example/kb") for part in ("", ":secret", ":$KB_PASSWORD")]
        [False, True, False]
    """
    return _show(address)[1]


def refuse_password(place: str, address: str) -> None:
    """Refuse an address that contains a password where others could read it.

    Args:
        place: Where the address would be kept or seen, for the message.
        address: The address.

    Raises:
        ArgumentError: If it contains a password.

    Example:
        >>> refuse_password("the registry", "postgresql://ada:secret@db.example/kb")
        Traceback (most recent call last):
            ...
        airw.errors.ArgumentError: the registry must not contain a password: write \
'postgresql://ada:$PASSWORD@db.example/kb', where PASSWORD is an environment variable that has it
    """
    if has_password(address):
        start, user, _, rest = _split(hide_password(address))
        at = rest if rest.startswith("@") else f"@{rest}"
        start = start if is_server_address(start) else _SCHEMES[0]
        example = short_repr(f"{start}{user or 'USER'}:$PASSWORD{at}")
        raise ArgumentError(
            f"{place} must not contain a password: write {example}, where PASSWORD is an environment variable that "
            "has it"
        )


def reveal_password(address: str) -> str:
    """Return an address with the password from the environment variable that it names.

    Raises:
        StoreError: If it names a variable that is not set, or whose value cannot be sent.
    """
    start, user, password, rest = _split(address)
    name = _VARIABLE.fullmatch(password)
    if name is None:
        return address
    from urllib.parse import quote

    value = os.environ.get(name[1])
    if value is None:
        raise StoreError(
            f"{short_repr(hide_password(address))} needs the environment variable {name[1]} with the password, which "
            "is not set"
        )
    if fault := find_text_fault(value, allow_nul=False):
        raise StoreError(f"the password in the environment variable {name[1]} contains {fault.partition(' at ')[0]}")
    return f"{start}{user}:{quote(value, safe='')}{rest}"


def find_password(address: str) -> str | None:
    """Return the password to connect with; `None` if an address has none.

    Raises:
        StoreError: If it names a variable that is not set.

    Example:
        >>> find_password("postgresql://ada:s%40cret@db.example/kb")
        's@cret'
    """
    from urllib.parse import unquote

    return unquote(_split(reveal_password(address))[2]) or None


def drop_password(address: str) -> str:
    """Return an address without its password or the name of a variable.

    Example:
        >>> drop_password("postgresql://ada:$KB_PASSWORD@db.example/kb")
        'postgresql://ada@db.example/kb'
    """
    start, user, _, rest = _split(address)
    return f"{start}{user}{rest}"


def _split(address: str) -> tuple[str, str, str, str]:
    """Return the scheme, the user, the password, and the rest from `@` on.

    A password may contain characters that should have been escaped, so it ends at the last `@` before the parameters.
    """
    scheme = _SCHEME.match(address)
    if scheme is None:
        return address, "", "", ""
    whole = address[scheme.end() :]
    before, question, parameters = whole.partition("?")
    if "@" in parameters and ":" in before and "@" not in before:
        before, question, parameters = whole, "", ""  # the `?` is a part of the password
    login, at, host = before.rpartition("@")
    # An escaped colon was meant to separate, too: better no role with a colon than a password that is shown.
    user, *password = _COLON.split(login, maxsplit=1)
    return scheme[0], user, "".join(password), f"{at}{host}{question}{parameters}"


def _show(address: str) -> tuple[str, bool]:
    """Return an address as it may be shown, and whether it contains a password."""
    start, user, password, rest = _split(address)
    places, question, query = rest.partition("?")
    if not _is_clear(f"{user}:{password}", places):
        return f"{start}…", True
    name = password if _VARIABLE.fullmatch(password) else ""
    query, is_secret = _show_parameters(query)
    shown = f"{start}{user}{name and ':'}{name}{places}{question}{query}"
    # Words such as "password=" can stand where no rule expects them.
    if _SECRET_WORD.search(_unquote(shown)):
        return f"{start}…" if rest else "…", True
    return shown, is_secret or password != name


def _is_clear(login: str, places: str) -> bool:
    """Return whether it is certain what is the password and what is the host.

    It is not if the host was forgotten, as then the password stands where the port should, or if another `@` follows
    the host.
    """
    if "/" in login.partition("@")[2]:
        return False
    hosts = re.split("[/#]", places.removeprefix("@"), maxsplit=1)[0]
    return all(_PLACE.fullmatch(place) for place in _unquote(hosts).split(","))


def _show_parameters(query: str) -> tuple[str, bool]:
    """Return the parameters as they may be shown, and whether one of them contains a password.

    Only those that are known have their values.
    """
    query, corpus = split_corpus(query)
    shown, is_secret, is_known = [], False, True
    for part in query.split("&"):
        name, _, value = part.partition("=")
        is_known = _unquote(name) in PARAMETERS or not part
        if is_known:
            shown.append(part)
        elif re.search("pass|pwd", _unquote(name), re.IGNORECASE):
            is_secret = is_secret or bool(value)
        else:
            is_secret = is_secret or bool(_SECRET_WORD.search(_unquote(part)))
            shown.append(f"{name}=…" if value and name.isidentifier() else "…")
    # A "#" may also be a part of the last value.
    end = "" if corpus is None else f"#{corpus if is_known else '…'}"
    return "&".join(shown) + end, is_secret


def _unquote(text: str) -> str:
    from urllib.parse import unquote_plus

    return unquote_plus(text)

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

from airw._base.messages import short_repr
from airw.errors import ArgumentError, StoreError

_SCHEMES = ("postgresql://", "postgres://")
# Capital letters, so that a password that begins with "$" is hardly ever read as a name.
_VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
_SECRETS = re.compile(r"([?&])(?:password|sslpassword)=([^&#]*)(&?)", re.IGNORECASE)


def is_server_address(value: object) -> bool:
    """Return whether a value is the address of a server, and not a name or a path.

    Example:
        >>> is_server_address("postgresql://db.example/kb"), is_server_address("./notes.airw")
        (True, False)
    """
    return isinstance(value, str) and value.startswith(_SCHEMES)


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
    start, user, password, rest = _split(address)
    shown = f":{password}" if _VARIABLE.fullmatch(password) else ""
    rest = _SECRETS.sub(lambda match: match[1] if match[3] else "", rest)
    return f"{start}{user}{shown}{rest}"


def has_password(address: str) -> bool:
    """Return whether an address contains a password itself, and not the name of a variable.

    Example:
        >>> [has_password(f"postgresql://ada{part}@db.example/kb") for part in ("", ":secret", ":$KB_PASSWORD")]
        [False, True, False]
    """
    _, _, password, rest = _split(address)
    is_literal = bool(password) and not _VARIABLE.fullmatch(password)
    return is_literal or any(match[2] for match in _SECRETS.finditer(rest))


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
        example = short_repr(f"{start}{user or 'USER'}:$PASSWORD{at}")
        raise ArgumentError(
            f"{place} must not contain a password: write {example}, where PASSWORD is an environment variable that "
            "has it"
        )


def reveal_password(address: str) -> str:
    """Return an address with the password from the environment variable that it names.

    Raises:
        StoreError: If it names a variable that is not set.
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
    scheme, mark, whole = address.partition("://")
    before, question, parameters = whole.partition("?")
    if "@" in parameters and ":" in before and "@" not in before:
        before, question, parameters = whole, "", ""  # the `?` is a part of the password
    login, at, host = before.rpartition("@")
    user, _, password = login.partition(":")
    return f"{scheme}{mark}", user, password, f"{at}{host}{question}{parameters}"

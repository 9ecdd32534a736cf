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
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, unquote_plus

from airw._base.checks import find_text_fault
from airw._base.messages import short_repr
from airw.errors import ArgumentError, StoreError

_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")  # the safest last
# The parameters that an address can have after `?`, and their values if these are few.
_PARAMETERS: Mapping[str, Sequence[str]] = {
    "host": (),
    "port": (),
    "sslmode": _MODES,
    "sslrootcert": (),
    "sslcert": (),
    "sslkey": (),
    "application_name": (),
    "target_session_attrs": ("any", "primary", "standby", "prefer-standby", "read-write", "read-only"),
}
_SCHEMES = ("postgresql://", "postgres://")
_PLACE = r"(?:\[[^\]@/?#]*\]|(?:(?!%3A)[^:@/?#,\[\]])*)(?::[0-9]*)?"
# A password may contain characters that should have been escaped, so it ends at the last `@`. An escaped colon was
# meant to separate, too: better no address with one than a password that is shown.
_ADDRESS = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)"
    r"(?:(?P<user>(?:(?!%3A)[^:@/?#;=&])*)(?::(?P<password>.*))?@)?"
    rf"(?P<places>{_PLACE}(?:,{_PLACE})*)"
    r"(?:/(?P<database>[^@/?#]*))?(?:\?(?P<query>[^@#]*))?(?:#[^@#]*)?",
    re.IGNORECASE | re.DOTALL,
)
_PLACES = re.compile(r"(?:^|,)(/[^,]*|\[[^,]*\]|[^:,]*)(?::([^,]*))?")
# How other programs write addresses: with a driver, without `//`, in quotes.
_MISTAKEN = re.compile(r"\W*[\w+.:-]*postgres\w*(\+\w+)?:(/|[^/\s]*@)", re.IGNORECASE)
_MOST_BEFORE = 100  # characters in which the scheme of such an address is looked for
_COLON = re.compile(":|%3A", re.IGNORECASE)
_SCHEME = re.compile(r"[\w+.-]{1,30}://")
_SECRET_WORD = re.compile(r"pass\w{0,30}\s{0,9}=|\bpwd\s{0,9}=", re.IGNORECASE)  # bounded, so that it stays fast
# Capital letters, so that a password that begins with "$" is hardly ever read as a name.
_VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
_WRONG_PORT = "a port that is not a number from 1 to 65535"
_SOCKETS = "/run/postgresql,/var/run/postgresql,/tmp"  # where servers put their sockets
_DEFAULT_HOSTS = "localhost" if sys.platform == "win32" else f"{_SOCKETS},localhost"
_SETTINGS = {
    # A statement that was planned while its table was small would read all of the large one.
    "enable_seqscan": "off",
    "jit": "off",  # compiling a statement takes longer than all but the longest run
    # How the index of vectors is searched.
    "hnsw.ef_search": "200",
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.scan_mem_multiplier": "4",
}
_KEPT_STATEMENTS = 200  # that a connection keeps prepared; all of a store are fewer


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
        airw.errors.ArgumentError: 'postgresql://db.example/kb?sslmode=maybe' has another sslmode; it must be one of \
disable, prefer, require, verify-ca, verify-full
    """
    from airw.stores.postgres._schema import schema_of

    check_server_address("the address", dsn)
    schema_of(corpus)


def check_server_address(parameter: str, dsn: object) -> None:
    """Check that one can connect with an address.

    Raises:
        ArgumentError: If it is not the address of a server, or a part of it is not known.
    """
    if not is_server_address(dsn):
        # It could be anything, also an address with a password and a wrong start.
        raise ArgumentError(f"{parameter} must be an address such as 'postgresql://user@host/database'")
    address = str(dsn)
    if split_corpus(address)[1] is not None:
        shown = short_repr(hide_password(address))
        raise ArgumentError(f"{parameter} must not have a corpus after '#': {shown}; pass it as the argument corpus")
    # An address that is registered must not depend on the variables of this process.
    _parse(address, {})


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

    What could be a password is not shown, either: an address that cannot be read is hardly shown at all.

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
        user, _, rest = hide_password(address).partition("//")[2].rpartition("@")
        example = f"{user}:$PASSWORD@{rest}" if user else "USER:$PASSWORD@HOST/DATABASE"
        raise ArgumentError(
            f"{place} must not contain a password: write {short_repr(f'postgresql://{example}')}, where PASSWORD is an "
            "environment variable that has it"
        )


def _show(address: str) -> tuple[str, bool]:
    """Return an address as it may be shown, and whether it contains a password."""
    is_secret = _SECRET_WORD.search(unquote_plus(address)) is not None  # such words can stand anywhere
    _, slash, rest = address.partition(":/")
    if not slash and _MISTAKEN.match(address[:_MOST_BEFORE]):
        rest = address
    has_login = "@" in rest and _COLON.search(rest.lstrip("/").partition("/")[0]) is not None
    if not is_server_address(address) and not is_secret and not has_login:
        return address, False
    parts = _ADDRESS.fullmatch(address)
    # After another `@`, a slash begins the database: then the last `@` is behind the host.
    if parts is None or is_secret or "/" in (parts["password"] or "").partition("@")[2]:
        scheme = _SCHEME.match(address)
        return f"{scheme[0] if scheme else ''}…", True
    user, password = parts["user"], parts["password"] or ""
    name = f":{password}" if _VARIABLE.fullmatch(password) else ""
    login = "" if user is None else f"{user}{name}@"
    # Values of parameters that are not known could be anything, and the corpus a part of the last.
    is_known = all(name in _PARAMETERS for name, _ in parse_qsl(parts["query"] or "", keep_blank_values=True))
    end = address[parts.start("places") :] if is_known else f"{address[parts.start('places') : parts.start('query')]}…"
    return f"{parts['scheme']}{login}{end}", bool(password) and not name


def _parse(dsn: str, environment: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return arguments of `asyncpg.connect` that an address has, and its parameters.

    Raises:
        ArgumentError: If a part is not known, or cannot be.
    """
    shown, parts = short_repr(hide_password(dsn)), _ADDRESS.fullmatch(dsn)
    if fault := find_text_fault(unquote(dsn), allow_nul=False):
        raise ArgumentError(f"{shown} contains {fault.rpartition(' at position')[0]}")
    if parts is None:
        raise ArgumentError(
            f"{shown} cannot be read, or has {_WRONG_PORT}: write 'postgresql://user:$NAME@host:5432/database', with "
            "'%40' for '@' and the like"
        )
    pairs = parse_qsl(parts["query"] or "", keep_blank_values=True)
    parameters = dict(pairs)
    for name, value in pairs:
        if name not in _PARAMETERS:
            given = f" {short_repr(name)}" if value and name.isidentifier() else ""
            raise ArgumentError(
                f"{shown} has a parameter{given}, which PostgresStore does not know; it knows {', '.join(_PARAMETERS)}"
            )
        if value not in (choices := _PARAMETERS[name] or (value,)):
            raise ArgumentError(f"{shown} has another {name}; it must be one of {', '.join(choices)}")
    if len(parameters) < len(pairs) or (parts["places"] and "host" in parameters):
        raise ArgumentError(
            f"{shown} has a parameter twice, or hosts after '//' and as ?host=; write them in one place"
        )
    text = unquote(parts["places"]) or parameters.get("host") or environment.get("PGHOST") or _DEFAULT_HOSTS
    places = _PLACES.findall(text)
    ports = (parameters.get("port") or environment.get("PGPORT") or "5432").split(",")
    ports = ports * len(places) if len(ports) == 1 else ports
    is_fit = len(ports) == len(places) and not ("port" in parameters and any(own for _, own in places))
    ports = [own or port for (_, own), port in zip(places, ports, strict=False)]
    if not is_fit or not all(re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65_536 for port in ports):
        raise ArgumentError(f"{shown} has {_WRONG_PORT}, or not one port for each host; see PGPORT, too")
    options: dict[str, Any] = {name: unquote(parts[name]) for name in ("user", "password", "database") if parts[name]}
    return options | {"host": [host.strip("[]") for host, _ in places], "port": [*map(int, ports)]}, parameters


def connect_options(dsn: str) -> dict[str, Any]:
    """Return the arguments of `asyncpg.connect` for an address.

    The server's certificate is verified, also its name, unless its host is this machine, or the address has another
    `sslmode`. Of several hosts, the one that is the primary server at that time is taken.

    Raises:
        ArgumentError: If a part of the address is not known.
        StoreError: If it names an environment variable that is not set, or a file that cannot be read.
    """
    shown = short_repr(hide_password(dsn))
    options, parameters = _parse(dsn, os.environ)
    if variable := _VARIABLE.fullmatch(options.get("password", "")):
        options["password"] = _password_of(variable[1], shown)
    named = {"application_name": parameters.get("application_name", "airw")}
    if len(options["host"]) > 1 or "target_session_attrs" in parameters:
        options["target_session_attrs"] = parameters.get("target_session_attrs", "primary")
    return options | {
        "ssl": _choose_tls(options["host"], parameters, shown),
        "direct_tls": False,  # or PGSSLNEGOTIATION would decide, also for connections without TLS
        "server_settings": _SETTINGS | named,
        "statement_cache_size": _KEPT_STATEMENTS,
        "max_cached_statement_lifetime": 0,
        "max_cacheable_statement_size": 0,
    }


def _password_of(name: str, shown: str) -> str:
    """Return the password in an environment variable."""
    value = os.environ.get(name)
    if value is None:
        raise StoreError(f"{shown} needs the environment variable {name} with the password, which is not set")
    if fault := find_text_fault(value, allow_nul=False):
        raise StoreError(f"the password in the environment variable {name} contains {fault.partition(' at ')[0]}")
    return value


def _choose_tls(hosts: Sequence[str], parameters: Mapping[str, str], shown: str) -> Any:
    """Return the argument `ssl` of `asyncpg.connect`."""
    import ssl

    mode = parameters.get("sslmode") or _choose_mode(hosts)
    if mode == "disable":
        return False
    if mode == "prefer":
        return mode
    authority = parameters.get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    try:
        context = ssl.create_default_context(cafile=None if authority == "system" else authority)
        if "sslcert" in parameters:
            context.load_cert_chain(parameters["sslcert"], parameters.get("sslkey"))
    except OSError as error:
        raise StoreError(
            f"{shown} names a certificate that cannot be read ({error.strerror or 'not a certificate'}); check "
            "sslrootcert, sslcert and sslkey"
        ) from error
    context.check_hostname = mode == "verify-full"
    if mode == "require" and authority is None:  # as in PostgreSQL's own tools
        context.verify_mode = ssl.CERT_NONE
    return context


def _choose_mode(hosts: Sequence[str]) -> str:
    """Return the mode of an address without one: `PGSSLMODE` can only make it safer."""
    default = "prefer" if all(map(_is_local, hosts)) else "verify-full"
    wanted = os.environ.get("PGSSLMODE") or default
    if wanted == "allow":
        return default
    if wanted not in _MODES:
        raise ArgumentError(f"PGSSLMODE is {short_repr(wanted)}; it must be one of {', '.join(_MODES)}")
    return max(default, wanted, key=_MODES.index)


def _is_local(host: str) -> bool:
    if host.startswith("/") or host == "localhost":
        return True
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

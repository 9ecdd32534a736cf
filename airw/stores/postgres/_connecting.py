"""What a connection is made with: parts of an address, certificates, settings."""

import os
import ssl
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, unquote

from airw._base.messages import short_repr
from airw.errors import ArgumentError, StoreError
from airw.stores.postgres.addresses import (
    PARAMETERS,
    drop_password,
    find_password,
    hide_password,
    is_server_address,
    split_corpus,
)

_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
_SOCKETS = ("/run/postgresql", "/var/run/postgresql", "/tmp")  # noqa: S108 - where servers put their sockets
_DEFAULT_HOSTS = ("localhost",) if sys.platform == "win32" else (*_SOCKETS, "localhost")
_SETTINGS = {
    "application_name": "airw",
    # A statement that was planned while its table was small would read all of the large one.
    "enable_seqscan": "off",
    "jit": "off",  # compiling a statement takes longer than all but the longest run
}
_KEPT_STATEMENTS = 200  # that a connection keeps prepared; all of a store are fewer


def check_server_address(parameter: str, dsn: object) -> str:
    """Return an address if one can connect with it.

    Raises:
        ArgumentError: If it is not the address of a server, or a part of it is not known.
    """
    if not is_server_address(dsn):
        # It could be anything, also an address with a password and a wrong start.
        raise ArgumentError(f"{parameter} must be an address such as 'postgresql://user@host/database'")
    address = str(dsn)
    shown = short_repr(hide_password(address))
    if split_corpus(address)[1] is not None:
        raise ArgumentError(f"{parameter} must not have a corpus after '#': {shown}; pass it as the argument corpus")
    _parse_address(address)
    return address


def connect_options(dsn: str, *, is_replica: bool = False) -> dict[str, Any]:
    """Return the arguments of `asyncpg.connect` for an address.

    The server's certificate is verified, also its name, unless its host is this machine, or the address has another
    `sslmode`. Of several hosts, the one that is the primary server at that time is taken.

    Args:
        dsn: The address.
        is_replica: Take any of several hosts.

    Raises:
        ArgumentError: If a part of the address is not known.
        StoreError: If it names an environment variable that is not set, or a file that cannot be read.
    """
    shown = short_repr(hide_password(dsn))
    user, database, hosts, ports, parameters = _parse_address(dsn)
    options: dict[str, Any] = {
        "host": hosts,
        "port": ports,
        "ssl": _choose_tls(hosts, parameters, shown),
        "server_settings": dict(_SETTINGS),
        "statement_cache_size": _KEPT_STATEMENTS,
        "max_cached_statement_lifetime": 0,
        "max_cacheable_statement_size": 0,
    }
    known = {"user": user, "database": database, "password": find_password(dsn)}
    options |= {name: value for name, value in known.items() if value}
    if "application_name" in parameters:
        options["server_settings"]["application_name"] = parameters["application_name"]
    wanted = parameters.get("target_session_attrs")
    if wanted is not None or len(hosts) > 1:
        options["target_session_attrs"] = wanted or ("any" if is_replica else "primary")
    return options


def _parse_address(dsn: str) -> tuple[str, str, list[str], list[int], dict[str, str]]:
    """Return user, database, hosts, ports and parameters of an address."""
    shown = short_repr(hide_password(dsn))
    main, _, query = drop_password(dsn).partition("://")[2].partition("?")
    parameters = _parse_parameters(query, shown)
    login, database = _split_database(main)
    user, _, places = login.rpartition("@")
    hosts, ports = _parse_hosts(places, parameters, shown)
    return unquote(user), unquote(database), hosts, ports, parameters


def _split_database(main: str) -> tuple[str, str]:
    """Return login and places, and the database after the next slash."""
    start = main.rfind("@") + 1
    end = main.find("/", start)
    return (main, "") if end < 0 else (main[:end], main[end + 1 :])


def _parse_parameters(query: str, shown: str) -> dict[str, str]:
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    for name in parameters:
        if name not in PARAMETERS:
            raise ArgumentError(
                f"{shown} has a parameter {short_repr(name)}, which PostgresStore does not know; it knows "
                f"{', '.join(PARAMETERS)}"
            )
    mode = parameters.get("sslmode")
    if mode is not None and mode not in _MODES:
        raise ArgumentError(f"{shown} has sslmode={short_repr(mode)}; it must be one of {', '.join(_MODES)}")
    return parameters


def _parse_hosts(places: str, parameters: dict[str, str], shown: str) -> tuple[list[str], list[int]]:
    """Return the hosts of an address, and the port of each."""
    text = unquote(places) or parameters.get("host") or os.environ.get("PGHOST") or ""
    hosts, ports = [], []
    for place in text.split(",") if text else _DEFAULT_HOSTS:
        host, port = _split_port(place)
        hosts.append(host)
        ports.append(port)
    given = (parameters.get("port") or os.environ.get("PGPORT") or "5432").split(",")
    given = given * len(hosts) if len(given) == 1 else given
    try:
        return hosts, [int(port or default) for port, default in zip(ports, given, strict=True)]
    except ValueError:
        raise ArgumentError(f"{shown} has a port that is not a number, or not as many ports as hosts") from None


def _split_port(place: str) -> tuple[str, str]:
    """Return host and port, where the host may be a folder of sockets, or IPv6."""
    if place.startswith("/"):
        return place, ""
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = place.partition(":")
    return host, port


def _is_local(host: str) -> bool:
    if host.startswith("/") or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _choose_tls(hosts: Sequence[str], parameters: dict[str, str], shown: str) -> Any:
    """Return the argument `ssl` of `asyncpg.connect`."""
    mode = parameters.get("sslmode") or ("prefer" if all(map(_is_local, hosts)) else "verify-full")
    if mode == "disable":
        return False
    if mode == "prefer":
        return mode
    authority = parameters.get("sslrootcert")
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

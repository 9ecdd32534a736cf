"""What a connection is made with: parts of an address, certificates, settings."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

from airw._base.checks import find_text_fault
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

_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")  # the safest last
_CHOICES = {
    "sslmode": _MODES,
    "target_session_attrs": ("any", "primary", "standby", "prefer-standby", "read-write", "read-only"),
}
_PORT = re.compile("[0-9]{1,5}")
_SOCKETS = ("/run/postgresql", "/var/run/postgresql", "/tmp")  # noqa: S108 - where servers put their sockets
_DEFAULT_HOSTS = ("localhost",) if sys.platform == "win32" else (*_SOCKETS, "localhost")
_SETTINGS = {
    "application_name": "airw",
    # A statement that was planned while its table was small would read all of the large one.
    "enable_seqscan": "off",
    "jit": "off",  # compiling a statement takes longer than all but the longest run
    # How the index of vectors is searched.
    "hnsw.ef_search": "200",
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.scan_mem_multiplier": "4",
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
    # An address that is registered must not depend on the variables of this process.
    _parse_address(address, {})
    return address


def connect_options(dsn: str) -> dict[str, Any]:
    """Return the arguments of `asyncpg.connect` for an address.

    The server's certificate is verified, also its name, unless its host is this machine, or the address has another
    `sslmode`. Of several hosts, the one that is the primary server at that time is taken.

    Raises:
        ArgumentError: If a part of the address is not known.
        StoreError: If it names an environment variable that is not set, or a file that cannot be read.
    """
    shown = short_repr(hide_password(dsn))
    user, database, hosts, ports, parameters = _parse_address(dsn, os.environ)
    options: dict[str, Any] = {
        "host": hosts,
        "port": ports,
        "ssl": _choose_tls(hosts, parameters, shown),
        "direct_tls": False,  # or PGSSLNEGOTIATION would decide, also for connections without TLS
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
        options["target_session_attrs"] = wanted or "primary"
    return options


def _parse_address(dsn: str, environment: Mapping[str, str]) -> tuple[str, str, list[str], list[int], dict[str, str]]:
    """Return user, database, hosts, ports and parameters of an address."""
    shown = short_repr(hide_password(dsn))
    if fault := find_text_fault(unquote(dsn), allow_nul=False):
        raise ArgumentError(f"{shown} contains {fault.rpartition(' at position')[0]}")
    main, _, query = drop_password(dsn).partition("://")[2].partition("?")
    login, database = _split_database(main)
    user, _, places = login.rpartition("@")
    parameters = _parse_parameters(query, shown)
    if places and "host" in parameters:
        raise ArgumentError(f"{shown} has hosts after '//' and as ?host=; write them in one place")
    hosts, ports = _parse_hosts(places, parameters, shown, environment)
    return unquote(user), unquote(database), hosts, ports, parameters


def _split_database(main: str) -> tuple[str, str]:
    """Return login and places, and the database after the next slash."""
    start = main.rfind("@") + 1
    end = main.find("/", start)
    return (main, "") if end < 0 else (main[:end], main[end + 1 :])


def _parse_parameters(query: str, shown: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in PARAMETERS:
            given = f" {short_repr(name)}" if value and name.isidentifier() else ""
            raise ArgumentError(
                f"{shown} has a parameter{given}, which PostgresStore does not know; it knows {', '.join(PARAMETERS)}"
            )
        if name in parameters:
            raise ArgumentError(f"{shown} has the parameter {name!r} twice; write it once")
        if value not in (choices := _CHOICES.get(name, (value,))):
            raise ArgumentError(f"{shown} has {name}={short_repr(value)}; it must be one of {', '.join(choices)}")
        parameters[name] = value
    return parameters


def _parse_hosts(
    places: str, parameters: Mapping[str, str], shown: str, environment: Mapping[str, str]
) -> tuple[list[str], list[int]]:
    """Return the hosts of an address, and the port of each."""
    text = unquote(places) or parameters.get("host") or environment.get("PGHOST") or ""
    hosts, ports = [], []
    for place in text.split(",") if text else _DEFAULT_HOSTS:
        host, port = _split_port(place)
        hosts.append(host)
        ports.append(port)
    if any(ports) and "port" in parameters:
        raise ArgumentError(f"{shown} has ports after '//' and as ?port=; write them in one place")
    given = (parameters.get("port") or environment.get("PGPORT") or "5432").split(",")
    given = given * len(hosts) if len(given) == 1 else given
    ports = [port or default for port, default in zip(ports, given, strict=False)]
    if len(given) != len(hosts) or not all(_PORT.fullmatch(port) and 0 < int(port) < 65_536 for port in ports):
        raise ArgumentError(
            f"{shown} has a port that is not a number from 1 to 65535, or not as many ports as hosts; see PGPORT, too"
        )
    return hosts, [int(port) for port in ports]


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
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _choose_mode(hosts: Sequence[str]) -> str:
    """Return the mode of an address without one: `PGSSLMODE` can only make it safer."""
    default = "prefer" if all(map(_is_local, hosts)) else "verify-full"
    wanted = os.environ.get("PGSSLMODE") or default
    if wanted == "allow":
        return default
    if wanted not in _MODES:
        raise ArgumentError(f"PGSSLMODE is {short_repr(wanted)}; it must be one of {', '.join(_MODES)}")
    return max(default, wanted, key=_MODES.index)


def _choose_tls(hosts: Sequence[str], parameters: dict[str, str], shown: str) -> Any:
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

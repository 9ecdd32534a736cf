"""The base of an API, as a user or a stranger's corpus writes it."""

import re

from airw.errors import ArgumentError

_URL = re.compile(
    r"(?P<origin>https?://(\[(?P<v6>[\da-f:.]+)\]|(?P<host>[\w.-]+))(:(?P<port>\d{1,5}))?)(?P<path>(/[^\s\\\0-\x1f\x7f]*)?)",
    re.ASCII | re.IGNORECASE,
)
_EXAMPLE = "such as 'http://localhost:8080/v1'"


def base_url(url: str, *, path: str) -> str:
    """Give the base of an API in one spelling, without the `path` that requests go to below it.

    What may be secret in a URL is never repeated.

    Raises:
        ArgumentError: It is not one.
    """
    if not isinstance(url, str):
        raise ArgumentError(f"url must be the base of an API, {_EXAMPLE}, not {type(url).__name__}")
    given = url.strip()
    if "@" in re.split(r"[/?#\\]", given.partition("://")[2], maxsplit=1)[0]:
        raise ArgumentError("url must hold no user or password: keys are read from the environment, see api_key_env")
    if "?" in given:
        raise ArgumentError(
            f"url must be the base of an API without a query, {_EXAMPLE}: keys are read from the environment"
        )
    if "#" in given:
        raise ArgumentError(f"url must be the base of an API without '#', {_EXAMPLE}: the model is the second argument")
    parts = _URL.fullmatch(given)
    if parts is None or not _is_host(parts["host"], parts["v6"]) or int(parts["port"] or 0) > 65_535:
        raise ArgumentError(f"url must be the base of an API, {_EXAMPLE}, not {given[:200]!r}")
    base = parts["origin"].lower() + parts["path"].rstrip("/")
    if base.endswith(path):
        raise ArgumentError(f"url must be the base of an API, so write {base.removesuffix(path)!r}")
    return base


def _is_host(name: str | None, v6: str | None) -> bool:
    """Say whether the HTTP library will take a host for one."""
    from ipaddress import AddressValueError, IPv4Address, IPv6Address

    try:
        if v6:
            IPv6Address(v6)
        elif name and re.fullmatch(r"[\d.]+", name):
            IPv4Address(name)
    except AddressValueError:
        return False
    return bool(v6 or (name and not name.startswith((".", "-"))))

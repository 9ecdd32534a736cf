"""URLs of servers: the base of an API, and its origin."""

import re

from airw.errors import ArgumentError

_URL = re.compile(
    r"(?P<origin>https?://(\[(?P<v6>[\da-f:.]+)\]|(?P<host>[\w.-]+))(:(?P<port>\d{1,5}))?)(?P<path>(/[^\s\\\0-\x1f\x7f]*)?)",
    re.ASCII | re.IGNORECASE,
)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_EXAMPLE = "such as 'http://localhost:8080/v1'"


def base_url(url: str, *, path: str) -> str:
    """Return the base URL of an API in a normal form.

    Args:
        url: The URL that the caller passed.
        path: The path of the requests below the base, which the URL must not include.

    Raises:
        ArgumentError: If it is not such a URL; the message never repeats a part that may be secret.
    """
    if not isinstance(url, str):
        raise ArgumentError(f"url must be the base of an API, {_EXAMPLE}, not {type(url).__name__}")
    text = url.strip()
    # These checks come first: a URL with a password or a query must not appear in a message.
    if "@" in re.split(r"[/?#\\]", text.partition("://")[2], maxsplit=1)[0]:
        raise ArgumentError("url must not contain a user or password; keys are read from the environment: api_key_env")
    if "?" in text:
        raise ArgumentError(
            f"url must be the base of an API without a query, {_EXAMPLE}; keys are read from the environment"
        )
    if "#" in text:
        raise ArgumentError(f"url must be the base of an API without '#', {_EXAMPLE}; the model is the second argument")
    parts = _URL.fullmatch(text)
    if parts is None or not _is_host(parts["host"], parts["v6"]) or int(parts["port"] or 0) > 65_535:
        raise ArgumentError(f"url must be the base of an API, {_EXAMPLE}, not {text[:200]!r}")
    base = parts["origin"].lower() + parts["path"].rstrip("/")
    if base.endswith(path):
        raise ArgumentError(f"url must be the base of an API; write {base.removesuffix(path)!r}")
    return base


def origin_of(url: str) -> str:
    """Return the origin of a URL in a normal form: scheme, host and port, in lower case.

    The default port of the scheme is left out.

    Raises:
        ArgumentError: If it is not such a URL.

    Example:
        >>> origin_of("HTTPS://Example.com:443/v1"), origin_of("http://localhost:8080/v1")
        ('https://example.com', 'http://localhost:8080')
    """
    scheme, _, rest = base_url(url, path="#").partition("://")
    return f"{scheme}://{rest.partition('/')[0].removesuffix(_DEFAULT_PORTS[scheme])}"


def _is_host(name: str | None, v6: str | None) -> bool:
    """Return whether the HTTP library will accept a host name or an IPv6 address."""
    from ipaddress import AddressValueError, IPv4Address, IPv6Address

    try:
        if v6:
            IPv6Address(v6)
        elif name and re.fullmatch(r"[\d.]+", name):
            IPv4Address(name)
    except AddressValueError:
        return False
    return bool(v6 or (name and not name.startswith((".", "-"))))

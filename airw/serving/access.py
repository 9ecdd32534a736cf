"""Who may do what: tokens, and the rights of each for each corpus."""

import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from airw._base.checks import check_kind, check_strings, check_token
from airw._base.messages import short_repr
from airw.errors import ArgumentError, CorpusNotFound
from airw.serving.problems import AccessDenied

ALL = "*"
"""In place of names: all of them."""

_SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Token:
    """A token that a client sends as `Authorization: Bearer <value>`, and what it allows.

    Args:
        value: The secret, at least 16 characters.
        read: The corpora that its bearer may read; `"*"` for all.
        write: The corpora that its bearer may also change; `"*"` for all. They may be read, too.
        label: The name of the bearer, for logs.

    Raises:
        ArgumentError: If the value is too short or has other characters than those of a header.

    Example:
        >>> Token(value="correct-horse-battery", read=["notes"], label="ada")
        Token(label='ada', read=['notes'], write=[])
    """

    value: str
    read: Collection[str] = (ALL,)
    write: Collection[str] = ()
    label: str = ""

    def __post_init__(self) -> None:
        """Check the value."""
        if not isinstance(self.value, str) or len(self.value) < _SHORTEST_TOKEN:
            raise ArgumentError(f"a token must be a string of at least {_SHORTEST_TOKEN} characters")
        check_token("a token", self.value)
        check_kind("label", self.label, str, "be a string", error=ArgumentError)
        for name in ("read", "write"):
            check_strings(name, getattr(self, name))

    def __repr__(self) -> str:
        return f"Token(label={self.label!r}, read={list(self.read)!r}, write={list(self.write)!r})"


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of one request, with the names of the corpora that it may read and change.

    Args:
        label: Who it is, for logs; `""` without a token.
        readable: The corpora that it may read.
        writable: The corpora that it may change.
        key: What is equal for all requests with one token; `""` without a token.
    """

    label: str
    readable: tuple[str, ...]
    writable: frozenset[str]
    key: str = ""

    def require_read(self, names: Iterable[str]) -> None:
        """Refuse corpora that the caller may not read, as if they did not exist.

        Raises:
            CorpusNotFound: For the first such name.
        """
        for name in names:
            if name not in self.readable:
                raise CorpusNotFound(f"there is no corpus {short_repr(name)} here")

    def require_write(self, name: str) -> None:
        """Refuse a corpus that the caller may not change.

        Raises:
            CorpusNotFound: If the caller may not even read it.
            AccessDenied: If it may only read it.
        """
        self.require_read([name])
        if name not in self.writable:
            raise AccessDenied(f"corpus {name!r} cannot be changed with this token", 403)


class Access:
    """Finds out who calls, from the header `Authorization`.

    Args:
        names: The corpora of the server.
        tokens: The tokens; empty for a server that everybody may read.
        writable: Without tokens: the corpora that everybody may change.

    Raises:
        ArgumentError: If a token is none or names an unknown corpus, two are equal, or both kinds of rights are given.
    """

    def __init__(self, names: Sequence[str], tokens: Sequence[Token] = (), *, writable: Collection[str] = ()) -> None:
        if not isinstance(tokens, list | tuple) or not all(isinstance(token, Token) for token in tokens):
            raise ArgumentError("tokens must be a list of Token objects; read_tokens reads them from a file")
        if isinstance(writable, str):
            raise ArgumentError(f"writable must be a list of names, not {short_repr(writable)}")
        if tokens and writable:
            raise ArgumentError("writable is for a server without tokens; name the corpora in write of each token")
        self._anonymous = None if tokens else _make_caller("", names, (ALL,), writable)
        # Digests have one length, so that comparing them takes the same time whatever the client sent.
        self._callers: Mapping[bytes, Caller] = {
            _digest(token.value): _make_caller(token.label, names, token.read, token.write, key=f"token {number}")
            for number, token in enumerate(tokens, 1)
        }
        if len(self._callers) < len(tokens):
            raise ArgumentError("two tokens have the same value; each bearer needs one of its own")

    @property
    def needs_token(self) -> bool:
        """True if a client needs a token."""
        return self._anonymous is None

    def identify(self, authorization: str | None) -> Caller:
        """Return who calls.

        Raises:
            AccessDenied: If tokens are needed, and this header contains none of them.
        """
        if self._anonymous is not None:
            return self._anonymous
        scheme, _, value = (authorization or "").partition(" ")
        if scheme.casefold() == "bearer":
            sent, found = _digest(value.strip()), None
            for digest, caller in self._callers.items():  # all of them, in any case
                if hmac.compare_digest(digest, sent):
                    found = caller
            if found is not None:
                return found
        raise AccessDenied("send a valid token as 'Authorization: Bearer …'", 401)


def client_of(caller: Caller, scope: Mapping[str, Any]) -> str:
    """Return what is equal for all requests of one client, for limits of each client.

    With a token, it is the token. Without one, it is the address. Of an IPv6 address the first half counts: whoever has
    one address has all that begin with it.

    Args:
        caller: Who calls.
        scope: The ASGI scope of the request.

    Example:
        >>> nobody = Caller("", ("notes",), frozenset())
        >>> client_of(nobody, {"client": ("2001:db8::1", 50000)}), client_of(nobody, {"client": ("10.0.0.1", 50000)})
        ('2001:db8::/64', '10.0.0.1')
    """
    if caller.key:
        return caller.key
    host, _ = scope.get("client") or ("", 0)
    try:
        address = ip_address(host)
    except ValueError:  # a socket of the file system, or a test
        return str(host)
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ip_network((int(address), 64), strict=False))


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()


def _make_caller(
    label: str, names: Sequence[str], read: Collection[str], write: Collection[str], key: str = ""
) -> Caller:
    if unknown := [name for name in (*read, *write) if name != ALL and name not in names]:
        raise ArgumentError(
            f"there is no corpus {short_repr(unknown[0])} to give rights to; served: {', '.join(names)}"
        )
    writable = frozenset(names if ALL in write else write)
    readable = tuple(name for name in names if ALL in read or name in read or name in writable)
    return Caller(label, readable, writable, key)

"""What asyncpg and the network raise, as errors of this library.

The texts of a server are a stranger's words. They are shown on one line and cut, and a password in them is hidden.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from airw._base.messages import error_text, one_line
from airw.errors import AirwError, StoreBusy, StoreCorrupt, StoreError
from airw.stores._stored_values import DamagedValue

_EXTRA = "PostgresStore needs asyncpg: pip install 'airw[postgres]'"
_STARTING = "57P03"  # or stopping
_ENDED = ("57P01", "57P02", "57P05", "08", _STARTING)  # by an administrator, a crash, a timeout, the network
_CHANGED_PLAN = "0A000"  # a prepared statement does not fit the tables any more
_INTERNAL = "InternalClientError"
_NO_PRIMARY = "TargetServerAttributeNotMatched"  # none of several hosts is a primary server
_UNLIKE = "different vector dimensions"  # the text of pgvector for vectors of several widths


class ConnectionLost(StoreError):
    """A connection ended while it was used, so a call that only reads may be made again."""


class ServerUnreachable(StoreError):
    """A connection could not be made; `may_return` is set if the server may only be starting."""

    def __init__(self, message: str, *, may_return: bool = False) -> None:
        super().__init__(message)
        self.may_return = may_return


_Answer = tuple[type[StoreError], str]

# By the first characters of the state by which PostgreSQL names an error; {0} is the place, {1} the server's text.
_LOST = (ConnectionLost, "{0}: the connection was lost ({1}); call again")
_DAMAGED = (StoreCorrupt, "{0} is damaged ({1}); restore a copy")
_ANSWERS: dict[str, _Answer] = {
    "53300": (StoreBusy, "{0} takes no more connections ({1}); set a smaller max_connections"),
    "28": (StoreError, "{0} refuses this role or password ({1})"),
    "3D000": (StoreError, "{0} cannot be opened ({1}); create the database, or name another"),
    **dict.fromkeys((*_ENDED, "40001"), _LOST),  # 40001: a standby removes rows that a query still reads
    **dict.fromkeys(("55P03", "40P01"), (StoreBusy, "{0} is locked by others ({1}); try again later")),
    **dict.fromkeys(
        ("3F000", "42P01"), (StoreError, "{0} was removed while open, or lacks a table ({1}); build it again")
    ),
    "42501": (StoreError, "{0}: this role may not do that ({1}); its owner can grant it"),
    "25006": (StoreError, "{0} cannot be written here ({1}); connect to the primary server"),
    **dict.fromkeys(("XX001", "XX002"), _DAMAGED),
}


def load_asyncpg() -> ModuleType:
    """Return asyncpg.

    Raises:
        StoreError: If it is not installed, or the event loop is not asyncio.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise StoreError(
            "PostgresStore runs on asyncio only, because asyncpg does; on trio, use MemoryStore, which runs on both"
        ) from None
    try:
        import asyncpg
    except ImportError as error:
        raise StoreError(_EXTRA) from error
    return asyncpg  # type: ignore[no-any-return, unused-ignore]


@contextmanager
def translate_connect_errors(server: str, secret: str | None = None) -> Iterator[None]:
    """Raise errors of connecting as errors of this library.

    Args:
        server: The address of the server, without its password.
        secret: The password, which must not be in any message.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever asyncpg raises, it must not show a password
        text = _words(error, secret)
        # What contains the secret must not be shown as a cause, either.
        cause = None if secret and secret in str(error) else error
        if isinstance(error, TimeoutError):
            raise ServerUnreachable(f"{server} does not answer; check the address, and that it runs") from cause
        if isinstance(error, OSError) or is_lost(error):
            is_certificate = "certificate" in text
            hint = "name its authority with sslrootcert=FILE" if is_certificate else "check that it runs"
            message = f"{server} cannot be reached ({text}); {hint}"
            raise ServerUnreachable(message, may_return=not is_certificate) from cause
        raise _translate(server, error, text, "{0} cannot be opened ({1})") from cause


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Raise errors of statements as errors of this library.

    Args:
        place: What is read or written, such as "corpus 'notes' on postgresql://host/db".
    """
    try:
        yield
    except AirwError:
        raise
    except Exception as error:
        is_known = isinstance(error, DamagedValue | OSError) or _state_of(error) or is_lost(error)
        if not is_known:  # neither of the server nor of a row
            raise
        raise _translate(place, error, _words(error), "{0}: the server reports an error ({1})") from error


def _translate(place: str, error: Exception, text: str, other: str) -> StoreError:
    """Return the error of this library; `other` is the text of one that is not listed."""
    state = _state_of(error)
    answer: _Answer = next(
        (answer for start, answer in _ANSWERS.items() if state.startswith(start)), (StoreError, other)
    )
    if is_lost(error):
        answer = _LOST
    if isinstance(error, DamagedValue) or (state == "22000" and text.startswith(_UNLIKE)):
        answer = _DAMAGED
    return answer[0](answer[1].format(place, text))


def is_lost(error: BaseException) -> bool:
    """Return whether an error says that a connection is of no more use."""
    if state := _state_of(error):
        return state.startswith(_ENDED) or (state == _CHANGED_PLAN and "cached" in str(error))
    # What asyncpg raises by itself has no state. It raises an internal error for a call on a connection that the server
    # has ended between two statements, as long as it has not noticed the end.
    name = type(error).__name__
    return (
        isinstance(error, ConnectionError | EOFError)
        or name in (_INTERNAL, _NO_PRIMARY)
        or (name == "InterfaceError" and "clos" in str(error))
    )


def _state_of(error: BaseException) -> str:
    """Return the five characters by which PostgreSQL names an error, or "" for others."""
    return getattr(error, "sqlstate", None) or ""


def _words(error: Exception, secret: str | None = None) -> str:
    """Return the message of a server on one line, without details of rows."""
    text = getattr(error, "message", None) or error.args[0] if error.args else ""
    if isinstance(error, OSError) or not isinstance(text, str):
        text = str(error)
    if type(error).__name__ == _INTERNAL:
        text = "the server has ended it"  # what asyncpg says is about itself
    if secret:
        text = text.replace(secret, "…")
    return one_line(text) or error_text(error)

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
_REFUSED = "28"  # the class of states of a role or password that the server does not accept
_TOO_MANY = "53300"  # connections
_LOCKED = ("55P03", "40P01")  # a lock was not available in time, or two transactions wait for each other
_MISSING = ("3F000", "42P01")  # a schema or a table
_FORBIDDEN = "42501"
_READ_ONLY = "25006"
_INTERNAL = "InternalClientError"
_NO_PRIMARY = "TargetServerAttributeNotMatched"  # none of several hosts is a primary server
_DAMAGED = ("XX001", "XX002")
_NO_DATABASE = "3D000"
_UNLIKE = ("22000", "different vector dimensions")  # the state and text of pgvector for vectors of several widths
_STARTING = "57P03"  # or stopping
_ENDED = ("57P01", "57P02", "57P05", "08")  # by an administrator, a crash, a timeout, the network
_CANCELLED_BY_REPLAY = "40001"  # on a standby, rows that a query still reads are removed
_CHANGED_PLAN = "0A000"  # a prepared statement does not fit the tables any more


class ConnectionLost(StoreError):
    """A connection ended while it was used, so a call that only reads may be made again."""


class ServerUnreachable(StoreError):
    """A connection could not be made; `may_return` is set if the server may only be starting."""

    def __init__(self, message: str, *, may_return: bool = False) -> None:
        super().__init__(message)
        self.may_return = may_return


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
    except AirwError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever asyncpg raises, it must not show a password
        state = _state_of(error)
        text = _words(error, secret)
        # What contains the secret must not be shown as a cause, either.
        cause = None if secret and secret in str(error) else error
        if state == _TOO_MANY:
            raise StoreBusy(f"{server} takes no more connections ({text}); set a smaller max_connections") from cause
        if state.startswith(_REFUSED):
            raise StoreError(f"{server} refuses this role or password ({text})") from cause
        if state == _NO_DATABASE:
            raise StoreError(f"{server} cannot be opened ({text}); create the database, or name another") from cause
        if isinstance(error, TimeoutError):
            raise ServerUnreachable(f"{server} does not answer; check the address, and that it runs") from cause
        if state == _STARTING or isinstance(error, OSError) or is_lost(error):
            is_certificate = "certificate" in text
            hint = "name its authority with sslrootcert=FILE" if is_certificate else "check that it runs"
            raise ServerUnreachable(
                f"{server} cannot be reached ({text}); {hint}", may_return=not is_certificate
            ) from cause
        raise StoreError(f"{server} cannot be opened ({text})") from cause


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
        translated = _translate(place, error)
        if translated is None:
            raise
        raise translated from error


def _translate(place: str, error: Exception) -> StoreError | None:
    """Return the error of this library; `None` if it is neither of the server nor of a row."""
    state, text = _state_of(error), _words(error)
    if isinstance(error, DamagedValue):
        return StoreCorrupt(f"{place} is damaged ({text}); restore a copy")
    if is_lost(error) or state == _CANCELLED_BY_REPLAY:
        return ConnectionLost(f"{place}: the connection was lost ({text}); call again")
    if state in _LOCKED:
        return StoreBusy(f"{place} is locked by others ({text}); try again later")
    if state in _MISSING:
        return StoreError(f"{place} was removed while open, or lacks a table ({text}); build it again")
    if state == _FORBIDDEN:
        return StoreError(f"{place}: this role may not do that ({text}); its owner can grant it")
    if state == _READ_ONLY:
        return StoreError(f"{place} cannot be written here ({text}); connect to the primary server")
    if state in _DAMAGED or (state == _UNLIKE[0] and text.startswith(_UNLIKE[1])):
        return StoreCorrupt(f"{place} is damaged ({text}); restore a copy")
    if state or isinstance(error, OSError):
        return StoreError(f"{place}: the server reports an error ({text})")
    return None


def is_outdated_plan(error: BaseException) -> bool:
    """Return whether a statement failed only because its tables changed since it was prepared."""
    cause = error.__cause__ or error
    return _state_of(cause) == _CHANGED_PLAN and "cached" in str(cause)


def _state_of(error: BaseException) -> str:
    """Return the five characters by which PostgreSQL names an error, or "" for others."""
    return getattr(error, "sqlstate", None) or ""


def is_lost(error: BaseException) -> bool:
    """Return whether an error says that a connection is of no more use."""
    state = _state_of(error)
    if state:
        return state == _STARTING or state.startswith(_ENDED)
    if isinstance(error, ConnectionError | EOFError):
        return True
    # What asyncpg raises by itself has no state. It raises an internal error for a call on a connection that the server
    # has ended between two statements, as long as it has not noticed the end.
    name = type(error).__name__
    return name in (_INTERNAL, _NO_PRIMARY) or (name == "InterfaceError" and "clos" in str(error))


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

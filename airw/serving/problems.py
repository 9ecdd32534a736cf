"""Errors as answers: the status and the JSON of each error of the library."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from airw import errors
from airw._base.messages import one_line
from airw.errors import AirwError, ArgumentError
from airw.serving.bodies import BodyTooLarge
from airw.serving.paths import hide_in_message

MEDIA_TYPE = "application/problem+json"
_LONGEST = 500  # characters of a message


class AccessDenied(AirwError):
    """The caller may not do this; `status` is 401 without a valid token, else 403."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class TooManyRequests(AirwError):
    """The server has too much to do; `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class AnswerTooLarge(ArgumentError):
    """The answer to a request has more bytes than the server sends at once."""


class BodyTooSlow(AirwError):
    """The body of a request did not arrive in time."""


class ServerStopping(AirwError):
    """The server is going to stop; another one, or the same one later, can answer."""


class DeadlinePassed(AirwError):
    """The request took longer than its deadline."""


class WalkNotHeld(errors.WalkNotExtendable):
    """The server does not hold this walk, or no longer."""


# The first class that fits decides, so the special ones come first.
_STATUSES: tuple[tuple[type[AirwError], int], ...] = (
    (BodyTooLarge, 413),
    (AnswerTooLarge, 413),
    (TooManyRequests, 429),
    (BodyTooSlow, 408),
    (DeadlinePassed, 504),
    (ServerStopping, 503),
    (WalkNotHeld, 410),
    (errors.StoreBusy, 409),
    (errors.CorpusNotFound, 404),
    (errors.NoLedgerEntry, 404),
    (errors.SeedNotFound, 404),
    (errors.EmbedderMismatch, 400),
    (errors.EmbedderUnavailable, 503),
    (errors.RerankerUnavailable, 503),
    (errors.EmbedderError, 502),
    (errors.RerankerError, 502),
    (errors.DiscoveryError, 502),
    (errors.StoreError, 503),
    (errors.PolicyError, 400),
    (errors.WalkNotExtendable, 400),
    (errors.ArgumentError, 400),
    (errors.FilterError, 400),
    (errors.SourceError, 400),
)


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error; 500 for one that nobody expected.

    Example:
        >>> status_of(errors.NoLedgerEntry("no")), status_of(ZeroDivisionError())
        (404, 500)
    """
    if isinstance(error, AccessDenied):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def describe_problem(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON.

    `error` is its class, `detail` its message on one line, and `status` the HTTP status.

    The message of an unexpected error stays in the log: it may contain what the caller must not see. No message
    contains absolute paths.
    """
    status = status_of(error)
    is_known = isinstance(error, AirwError) and status != 500
    name = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in errors.__all__), "AirwError")
    detail = (
        one_line(hide_in_message(str(error)), longest=_LONGEST) if is_known else "the server failed; its log says why"
    )
    return {"error": name if is_known else "AirwError", "status": status, "detail": detail}


def problem(error: BaseException) -> Response:
    """Return the answer to a request that failed with this error."""
    headers: Mapping[str, str] = {}
    if isinstance(error, TooManyRequests):
        headers = {"Retry-After": str(error.retry_after)}
    elif isinstance(error, errors.StoreBusy | ServerStopping):
        headers = {"Retry-After": "1"}
    elif isinstance(error, AccessDenied) and error.status == 401:
        headers = {"WWW-Authenticate": "Bearer"}
    return answer_problem(describe_problem(error), headers)


def answer_problem(content: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer with a problem that is described already."""
    return JSONResponse(content, status_code=content["status"], headers=headers, media_type=MEDIA_TYPE)

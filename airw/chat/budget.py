"""The token budget of a chat client: reserved before a request, charged after it."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from airw.errors import ChatBudgetSpent, ChatError

CHARS_PER_TOKEN = 4
_RECHECK_SECONDS = 0.01


@dataclass(slots=True)
class Charge:
    """The cost of one request.

    Args:
        estimate: The tokens that the request is expected to cost at most.
        tokens: The tokens it did cost, once there is an answer.
    """

    estimate: int
    tokens: int | None = None

    def after(self, error: ChatError) -> int:
        """Return the cost of a request that failed."""
        if self.tokens is not None:
            return self.tokens
        return 0 if _is_free(error) else self.estimate


class TokenBudget:
    """The tokens that a client has used and may use, in all event loops and threads.

    Args:
        limit: The tokens to use; a request that costs more than its estimate can exceed it. `None` only counts.
        label: The name of the model and its server in errors.
    """

    def __init__(self, limit: int | None, label: str) -> None:
        self._limit = limit
        self._label = label
        self._lock = threading.Lock()
        self._reserved = 0
        self.used: int = 0

    @asynccontextmanager
    async def reserve(self, estimate: int) -> AsyncIterator[Charge]:
        """Reserve tokens for one request inside the block.

        A request often costs less than its estimate, so reserved tokens may become free: wait for that.

        Raises:
            ChatBudgetSpent: If there are too few tokens even if running requests cost nothing.
        """
        while not self._try_reserve(estimate):  # noqa: ASYNC110 - a request on another event loop may free tokens
            await anyio.sleep(_RECHECK_SECONDS)
        charge = Charge(estimate)
        # After a cancellation or an unexpected error, the server may have done the work: charge the estimate.
        cost = estimate
        try:
            yield charge
            cost = estimate if charge.tokens is None else charge.tokens
        except ChatError as error:
            cost = charge.after(error)
            raise
        finally:
            with self._lock:
                self._reserved -= estimate
                self.used += cost

    def _try_reserve(self, estimate: int) -> bool:
        """Reserve tokens; return False if they may become free when other requests end.

        Raises:
            ChatBudgetSpent: If the estimate exceeds what is left.
        """
        with self._lock:
            left = None if self._limit is None else self._limit - self.used
            if left is not None and estimate > left:
                raise ChatBudgetSpent(
                    f"token_budget={self._limit:,} has {max(0, left):,} tokens left, but a request to {self._label} "
                    f"may use {estimate:,}; allow more tokens"
                )
            if left is not None and self._reserved + estimate > left:
                return False
            self._reserved += estimate
            return True


def estimate_tokens(prompt: str, max_tokens: int) -> int:
    """Return the estimated tokens of a request: a quarter of the characters, and `max_tokens`.

    Texts such as Japanese may cost more.
    """
    return -(-len(prompt) // CHARS_PER_TOKEN) + max_tokens


def _is_free(error: ChatError) -> bool:
    """Return whether a failed request cost nothing: the server refused or never received it."""
    import httpx

    # Errors of HTTP statuses and keys have no cause. An answer that arrived and cannot be used always has one.
    return error.__cause__ is None or isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)

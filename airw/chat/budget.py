"""The tokens that a chat client may use: reserved before a request, charged after it."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from airw.errors import ChatBudgetSpent, ChatError

CHARS_PER_TOKEN = 4
_RECHECK = 0.01


@dataclass(slots=True)
class Charge:
    """What one request will have cost: `tokens` once an answer came, until then what it may cost at most."""

    estimate: int
    tokens: int | None = None

    def after(self, error: ChatError) -> int:
        """Return the cost of a request that failed."""
        if self.tokens is not None:
            return self.tokens
        return 0 if _is_unworked(error) else self.estimate


class Budget:
    """Counts tokens, for all event loops and threads; without `most` it only counts."""

    def __init__(self, most: int | None, label: str) -> None:
        """Name in errors what is asked by `label`."""
        self._most = most
        self._label = label
        self._lock = threading.Lock()
        self._reserved = 0
        self.used = 0

    @asynccontextmanager
    async def reserved(self, estimate: int) -> AsyncIterator[Charge]:
        """Hold as many tokens back for one request; waits while requests on their way hold those it needs.

        Raises:
            ChatBudgetSpent: So many are not left, whatever those requests turn out to cost.
        """
        while not self._reserve(estimate):  # noqa: ASYNC110 - who frees tokens may run on another event loop
            await anyio.sleep(_RECHECK)
        charge = Charge(estimate)
        cost = estimate  # a request that is cancelled may have been worked on
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

    def _reserve(self, estimate: int) -> bool:
        """Return whether the tokens are now held; not while others hold them."""
        with self._lock:
            left = None if self._most is None else self._most - self.used
            if left is not None and estimate > left:
                raise ChatBudgetSpent(
                    f"{self._label} is not asked: of token_budget={self._most:,} {max(0, left):,} are left, and the "
                    f"request may take {estimate:,}; allow more tokens"
                )
            if left is not None and self._reserved + estimate > left:
                return False
            self._reserved += estimate
            return True


def estimated(prompt: str, max_tokens: int) -> int:
    """Return the tokens that a request may take."""
    return -(-len(prompt) // CHARS_PER_TOKEN) + max_tokens


def _is_unworked(error: ChatError) -> bool:
    """Return whether the server refused a request, or never got it, so that it cost nothing."""
    import httpx

    return error.__cause__ is None or isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)

"""Async tests on the virtual clock, where time is exact on a machine of any speed."""

import inspect
from functools import partial, wraps

from airw.testing import run_on_virtual_clock


def on_virtual_clock(test):
    """Run an async test on the virtual clock, on each event loop that it would run on.

    Its fixtures must be sync. Threads and sockets take real time, so a test that uses them belongs on a real clock.
    """

    @wraps(test)
    def run(*instance, anyio_backend, **arguments):
        run_on_virtual_clock(partial(test, *instance, **arguments), backend=anyio_backend)

    signature = inspect.signature(test)
    backend = inspect.Parameter("anyio_backend", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), backend])
    return run

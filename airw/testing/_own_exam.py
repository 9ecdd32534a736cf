"""The exam of a store of one's own, which a function in a file opens."""

import runpy
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from airw._base.messages import error_text, short_repr
from airw.errors import ArgumentError
from airw.testing.stores import StoreSuite


def read_suite(target: str, capabilities: Sequence[str] | None, *, read_only: bool) -> StoreSuite:
    """Return the suite of the store that a function in a file opens.

    Args:
        target: The path of the file, a colon, and the name of the function.
        capabilities: What the store offers; `None` for all.
        read_only: Whether the function is called with the artifacts, too.

    Raises:
        ArgumentError: If the file cannot be run, or has no such function.
    """
    file, _, name = target.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise ArgumentError(f"ADDRESS must be an address, or FILE.py:FUNCTION, not {short_repr(target)}")
    try:
        names: dict[str, Any] = runpy.run_path(file, run_name="examined")
    except Exception as error:
        raise ArgumentError(f"{file} cannot be run: {error_text(error)}") from error
    make: Callable[..., AbstractAsyncContextManager[Any]] | None = names.get(name)
    if not callable(make):
        raise ArgumentError(f"{file} has no function {name}")
    if capabilities is None:
        return StoreSuite(make, read_only=read_only)
    return StoreSuite(make, capabilities=capabilities, read_only=read_only)

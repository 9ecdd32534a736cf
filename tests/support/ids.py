"""Ids of parametrised tests."""

import re


def plain(value) -> str:
    """Return the `repr` without memory addresses, so that an id is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))

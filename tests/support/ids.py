"""Ids of parametrised tests."""

import re


def plain(value) -> str:
    """Its `repr` without addresses of objects, so that the id is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))

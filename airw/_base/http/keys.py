"""Keys of servers in environment variables: one key, or one for each origin.

```text
AIRW_EMBEDDER_KEY=sk-1                                                for any server that the user names
AIRW_EMBEDDER_KEY=https://a.example=sk-1,http://localhost:8080=sk-2   each key for its origin, none for others
```
"""

import os
import re

from airw._base.http.urls import origin_of
from airw.errors import ArgumentError


class KeyFault(Exception):
    """A variable contains no valid key; the message never repeats its value."""


def read_key(variable: str, url: str) -> str:
    """Return the key in a variable for the server of a URL, or `""` if there is none.

    Raises:
        KeyFault: If the key could not be sent, or the variable contains a list that cannot be read.
    """
    value = os.environ.get(variable, "").strip()
    key = _find_bound_key(value, variable, origin_of(url)) if "://" in value else value
    # The HTTP library would refuse such a key too, and show it in its error.
    if not key.isascii() or not key.isprintable():
        raise KeyFault(f"the environment variable {variable} contains no valid key; keys are printable ASCII")
    return key


def describe_key(variable: str, url: str) -> str:
    """Return the name of a variable and whether it has a key for the server of a URL."""
    if not os.environ.get(variable, "").strip():
        state = "is not set"
    else:
        state = "is set" if read_key(variable, url) else f"has no key for {origin_of(url)}"
    return f"the environment variable {variable}, which {state}"


def _find_bound_key(value: str, variable: str, origin: str) -> str:
    for entry in re.split(r"[,\s]+", value):
        # An origin contains no `=`, but a key may.
        entry_origin, _, key = entry.partition("=")
        try:
            is_for_origin = origin_of(entry_origin) == origin
        except ArgumentError:
            # Without the error as its context: that would repeat a part of the value.
            is_for_origin = None
        if is_for_origin is None or not key:
            raise KeyFault(
                f"the environment variable {variable} contains neither one key nor a list such as "
                "https://a.example=KEY,http://localhost:8080=KEY"
            )
        if is_for_origin:
            return key
    return ""

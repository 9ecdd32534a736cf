"""How the reference reads docstrings."""

import re
from typing import Any

from griffe import Extension, Object


class ExampleSections(Extension):
    """Examples are under "Example:", which the reader of docstrings knows in the plural only."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rename the section of an object."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)

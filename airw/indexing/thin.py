"""Which artifacts say little of themselves."""

from collections.abc import Mapping
from dataclasses import dataclass

from airw._base.checks import check_count
from airw.indexing._fields import text_field
from airw.indexing._text import text_of
from airw.indexing.synthesis import check_name
from airw.values import Artifact

__all__ = ["ThinDescription", "thin_description_predicate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinDescription:
    """Says which artifacts say little of themselves, so that a synopsis is worth its cost.

    Args:
        min_chars: Characters from which on a description is enough.
        field: The field of a mapping that holds the description; of other artifacts the text counts.

    Raises:
        ArgumentError: `min_chars` is negative, or `field` is blank or not a string.

    Example:
        >>> thin = ThinDescription(min_chars=10)
        >>> thin(Artifact("a", {"description": ""})), thin(Artifact("b", {"description": "Parses dates."}))
        (True, False)
    """

    min_chars: int = 40
    field: str = "description"

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        check_count("min_chars", self.min_chars)
        check_name("field", self.field)

    @property
    def id(self) -> str:
        """Name it and its parameters."""
        return repr(self)

    def __call__(self, artifact: Artifact) -> bool:
        """Say whether the description, without white space around it, is shorter than `min_chars`.

        Raises:
            SourceError: It is no text.
        """
        raw = artifact.raw
        said = text_field(artifact, raw, self.field) if isinstance(raw, Mapping) else text_of(artifact)
        return len(said.strip()) < self.min_chars


thin_description_predicate = ThinDescription()
"""True of an artifact whose `description` is shorter than 40 characters: `with_synopsis(..., when=...)`."""

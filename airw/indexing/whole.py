"""One surface for the whole text."""

from dataclasses import dataclass

from airw.indexing._reading import check_kind, clean_fields, text_of
from airw.values import Artifact, IndexPlan, Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeText:
    """Make one surface of an artifact's whole text; blank text makes none.

    The text is the raw string, UTF-8 bytes, or of a mapping the field `text_key`, else its `text`, else its string
    values, one a line. Filter fields are the artifact's metadata.

    Args:
        text_key: The field of a mapping that holds the text.
        kind: The kind of the surface.

    Raises:
        ArgumentError: A parameter is blank or not a string.

    Example:
        >>> plan = WholeText().decompose(Artifact("a", "some text", {"year": 2026}))
        >>> plan.surfaces[0].text, plan.filter_fields
        ('some text', {'year': 2026})
    """

    text_key: str | None = None
    kind: str = "document"

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        check_kind(self.kind, self.text_key)

    @property
    def id(self) -> str:
        """Name the strategy and its parameters."""
        return repr(self)

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one artifact."""
        text = text_of(artifact, self.text_key)
        surfaces = [Surface(artifact.id, self.kind, text)] if text.strip() else []
        return IndexPlan(clean_fields(artifact), surfaces)

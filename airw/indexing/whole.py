"""A strategy that makes one surface of the whole text."""

from dataclasses import dataclass

from airw.indexing._reading import check_kind, clean_fields, read_with_title, text_id
from airw.values import Artifact, IndexPlan, Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeText:
    """Makes one surface of the whole text of an artifact; no surface if the text is blank.

    The text is the raw value if that is a string or UTF-8 bytes. The text of a mapping is its field `text_key`;
    without a `text_key`, the fields `title` and `text`, and if there is no `text`, all string values, one per line.
    Filter fields are the artifact's metadata.

    Args:
        text_key: The field of a mapping that contains the text.
        kind: The kind of the surface.

    Raises:
        ArgumentError: If a parameter is blank or not a string.

    Example:
        >>> plan = WholeText().decompose(Artifact("a", "some text", {"year": 2026}))
        >>> plan.surfaces[0].text, plan.filter_fields
        ('some text', {'year': 2026})
    """

    text_key: str | None = None
    kind: str = "document"

    def __post_init__(self) -> None:
        """Check all parameters."""
        check_kind(self.kind, self.text_key)

    @property
    def id(self) -> str:
        """The name of the strategy and its parameters; builds compare it to notice a change."""
        return text_id(self, self.text_key)

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one artifact."""
        text = read_with_title(artifact, self.text_key)
        surfaces = [Surface(artifact.id, self.kind, text)] if text.strip() else []
        return IndexPlan(clean_fields(artifact), surfaces)

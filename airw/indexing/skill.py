"""Skills: searched by what they are called and say they do."""

from dataclasses import dataclass

from airw._base.json import json_clean
from airw.indexing._reading import clean_fields, field_surface, record_of, text_field
from airw.values import Artifact, IndexPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    r"""Make one `capability` surface of a skill's name and description; its body is not indexed.

    The raw value is a mapping with `name`, `description` and `parent`; what is missing or `None` is blank, but a skill
    without a name is called as its artifact. A text is a name. The name and the description stand a blank line apart;
    where both are blank there is no surface. Filter fields are `name`, `parent`, and over these the artifact's
    metadata.

    Example:
        >>> plan = Skill().decompose(Artifact("s1", {"name": "deploy", "description": "Ship it.", "parent": "ops"}))
        >>> plan.surfaces[0].text, plan.filter_fields
        ('deploy\n\nShip it.', {'name': 'deploy', 'parent': 'ops'})
    """

    @property
    def id(self) -> str:
        """Name the strategy."""
        return repr(self)

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one skill."""
        record = record_of(artifact)
        name = text_field(artifact, record, "name", artifact.id)
        said = text_field(artifact, record, "description")
        fields = {"name": name, "parent": json_clean(record.get("parent")), **clean_fields(artifact)}
        return IndexPlan(fields, field_surface(artifact.id, "capability", (name, said), "\n\n"))

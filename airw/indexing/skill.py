"""A strategy for skills: one surface of the name and the description."""

from dataclasses import dataclass

from airw._base.json import json_clean
from airw.indexing._reading import field_surface, merge_fields, record_of, text_field
from airw.values import Artifact, IndexPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    r"""Makes one `capability` surface of the name and the description of a skill.

    The body of the skill is not indexed. The raw value is a mapping with `name`, `description` and `parent`. Fields
    that are missing or `None` count as blank; a missing name is replaced by the artifact's id. A raw value that is a
    text counts as the name. A blank line separates name and description. There is no surface if both are blank.

    Filter fields are `name` and `parent`. The artifact's metadata are added and win.

    Example:
        >>> plan = Skill().decompose(Artifact("s1", {"name": "deploy", "description": "Ship it.", "parent": "ops"}))
        >>> plan.surfaces[0].text, plan.filter_fields
        ('deploy\n\nShip it.', {'name': 'deploy', 'parent': 'ops'})
    """

    @property
    def id(self) -> str:
        """The name of the strategy; builds compare it to notice a change."""
        return repr(self)

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one skill."""
        record = record_of(artifact)
        name = text_field(artifact, record, "name", artifact.id)
        description = text_field(artifact, record, "description")
        fields = merge_fields(artifact, {"name": name, "parent": json_clean(record.get("parent"))})
        return IndexPlan(fields, field_surface(artifact.id, "capability", (name, description), "\n\n"))

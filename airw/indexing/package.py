"""A strategy for packages: the description, the chunks of the readme and the dependencies."""

from dataclasses import dataclass
from typing import Any

from airw._base.checks import check_flag
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw._base.requirements import bare_name
from airw.errors import ArgumentError
from airw.indexing._reading import field_surface, merge_fields, record_of, text_field, text_list
from airw.indexing.windows import Windowed, chunk_surfaces
from airw.values import Artifact, IndexPlan, Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class Package(Windowed):
    """Makes `description`, `readme_chunk` and, on request, `deps` surfaces of a package.

    The raw value is a mapping with `name`, `description`, `readme`, `owner` and `deps`, a list of requirements. Fields
    that are missing or `None` count as blank; a missing name is replaced by the artifact's id. A raw value that is a
    text counts as the name. Blank surfaces are left out.

    The description surface joins name and description. Chunks of the readme and their metadata are made as by
    `Chunked`. Their offsets count in the readme, and `chunk_index` counts chunks only, whereas the `surface_index` of a
    record counts all surfaces.

    Filter fields are `name`, `owner`, `has_readme` and `deps` (unchanged). The artifact's metadata are added and win.

    Args:
        chunk_size: Maximum characters of a chunk.
        overlap: Maximum characters that a chunk repeats of the previous chunk.
        embed_deps: Whether to add a last surface with the names of the requirements. The names are in lower case,
            without versions and without duplicates.
        deps_template: The text of that surface; `{deps}` is replaced by the names, separated by commas.
        max_tokens: Maximum tokens of a chunk, counted in the chunk alone and without a model's special tokens. Only a
            chunk that cannot be cut further (one token, one character) can exceed it. `chunk_size` is then no limit of
            its own: a chunk repeats at most `max_tokens * overlap / chunk_size` tokens.
        tokenizer: A function from a text to the offsets of its tokens, or a tokenizer that `token_offsets` accepts.
            Required with `max_tokens`.

    Raises:
        ArgumentError: If `chunk_size` or `max_tokens` is below 1, or `overlap` is negative or not below `chunk_size`.
            Also if only one of `max_tokens` and `tokenizer` is given, `embed_deps` is not a bool, or `deps_template`
            does not contain `{deps}`.

    Example:
        >>> raw = {"name": "walker", "description": "Walks graphs.", "deps": ["NumPy>=1.26", "anyio", "numpy"]}
        >>> plan = Package(embed_deps=True).decompose(Artifact("walker", raw))
        >>> [(surface.kind, surface.text) for surface in plan.surfaces]
        [('description', 'walker: Walks graphs.'), ('deps', 'Built on these packages: numpy, anyio')]
    """

    chunk_size: int = 1500
    overlap: int = 200
    embed_deps: bool = False
    deps_template: str = "Built on these packages: {deps}"
    max_tokens: int | None = None
    tokenizer: Any = None

    def __post_init__(self) -> None:
        """Check all parameters."""
        Windowed.__post_init__(self)
        check_flag("embed_deps", self.embed_deps)
        if not isinstance(self.deps_template, str) or "{deps}" not in self.deps_template:
            raise ArgumentError(
                f"deps_template must be a string that contains {{deps}}, not {short_repr(self.deps_template)}"
            )

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one package."""
        record = record_of(artifact)
        name = text_field(artifact, record, "name", artifact.id)
        readme = text_field(artifact, record, "readme")
        summary = text_field(artifact, record, "description")
        deps = text_list(artifact, record, "deps")
        owner = json_clean(record.get("owner"))
        fields = {"name": name, "owner": owner, "has_readme": bool(readme.strip()), "deps": deps}
        description = field_surface(artifact.id, "description", (name, summary), ": ")
        fields = merge_fields(artifact, fields)
        chunks = chunk_surfaces(artifact.id, readme, "readme_chunk", self._window, fields=fields)
        return IndexPlan(fields, [*description, *chunks, *self._deps_surface(artifact.id, deps)])

    def _deps_surface(self, artifact_id: str, requirements: list[str]) -> list[Surface]:
        names = dict.fromkeys(name for requirement in requirements if (name := bare_name(requirement).lower()))
        if not self.embed_deps or not names:
            return []
        return field_surface(artifact_id, "deps", (self.deps_template.replace("{deps}", ", ".join(names)),), "")

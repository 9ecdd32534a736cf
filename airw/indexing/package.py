"""Packages: a description to route by, the chunks of the readme, and what they depend on."""

from dataclasses import dataclass
from typing import Any

from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw._base.requirements import bare_name
from airw.errors import ArgumentError
from airw.indexing._reading import clean_fields, field_surface, record_of, text_field, text_list
from airw.indexing.windows import Window, chunk_surfaces
from airw.values import Artifact, IndexPlan, Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """Make a `description` surface of a package's name and description, then `readme_chunk`s, then perhaps `deps`.

    The raw value is a mapping with `name`, `description`, `readme`, `owner` and `deps`, a list of requirements; what is
    missing or `None` is blank, but a package without a name is called as its artifact. A text is a name. Blank surfaces
    are left out. Chunks of the readme and their metadata are as `Chunked` makes them: offsets are those in the readme,
    and `chunk_index` counts the chunks alone, while a record's `surface_index` counts all surfaces. Filter fields are
    `name`, `owner`, `has_readme`, `deps` as given, and over these the artifact's metadata.

    Args:
        chunk_size: Characters of a chunk, at most.
        overlap: Characters that a chunk repeats of its predecessor, at most.
        embed_deps: Whether a last surface says the bare, lower-cased names of the requirements, each once.
        deps_template: What that surface says; `{deps}` stands for the names, divided by commas.
        max_tokens: Tokens of a chunk, at most, also when it is read alone, without the special ones that a model adds;
            only a single token can be more. Then `chunk_size` and `overlap` say what share of a chunk is repeated.
        tokenizer: Counts them and says where they end: a function, or a tokenizer that `token_offsets` takes.

    Raises:
        ArgumentError: `chunk_size` or `max_tokens` is below 1, `overlap` is negative or not below `chunk_size`, of
            `max_tokens` and `tokenizer` one is given without the other, `embed_deps` is neither true nor false, or
            `deps_template` has no place for the names.

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
        """Check every parameter at birth."""
        object.__setattr__(self, "tokenizer", self._window.tokenizer)  # adapted
        if not isinstance(self.embed_deps, bool):
            raise ArgumentError(f"embed_deps must be True or False, not {short_repr(self.embed_deps)}")
        if not isinstance(self.deps_template, str) or "{deps}" not in self.deps_template:
            raise ArgumentError(
                f"deps_template must be a string that holds {{deps}}, not {short_repr(self.deps_template)}"
            )

    @property
    def _window(self) -> Window:
        return Window(self.chunk_size, self.overlap, self.max_tokens, self.tokenizer)

    @property
    def id(self) -> str:
        """Name the strategy and its parameters."""
        return repr(self)

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one package."""
        record = record_of(artifact)
        name, readme = text_field(artifact, record, "name", artifact.id), text_field(artifact, record, "readme")
        said, deps = text_field(artifact, record, "description"), text_list(artifact, record, "deps")
        own = {"name": name, "owner": json_clean(record.get("owner")), "has_readme": bool(readme.strip()), "deps": deps}
        about = field_surface(artifact.id, "description", (name, said), ": ")
        chunks = chunk_surfaces(artifact.id, readme, "readme_chunk", self._window)
        return IndexPlan({**own, **clean_fields(artifact)}, [*about, *chunks, *self._deps(artifact.id, deps)])

    def _deps(self, artifact_id: str, requirements: list[str]) -> list[Surface]:
        names = dict.fromkeys(name for each in requirements if (name := bare_name(each).lower()))
        if not self.embed_deps or not names:
            return []
        return field_surface(artifact_id, "deps", (self.deps_template.replace("{deps}", ", ".join(names)),), "")

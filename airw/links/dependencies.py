"""Links that filter fields hold: what a package depends on, and what a skill belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airw._base.requirements import bare_name
from airw.links.adapters import CallableLinks
from airw.values import Artifact, Extraction

__all__ = ["CHILD", "NEXT", "PARENT", "PREV", "REF", "DependencyLinks", "default_edge_extractor"]

NEXT = "NEXT"
"""The type of a link to what follows."""
PREV = "PREV"
"""The type of a link to what comes before."""
PARENT = "PARENT"
"""The type of a link to what something belongs to."""
CHILD = "CHILD"
"""The type of a link to what belongs to something."""
REF = "REF"
"""The type of a link to what something depends on or refers to."""


@dataclass(frozen=True, slots=True)
class DependencyLinks:
    """Find what the filter fields of a package or a skill say it depends on, and what it belongs to.

    Each requirement in the list `deps` becomes a `REF` link to the package it names, without versions, extras and
    markers and in lower case; the text `parent` becomes a `PARENT` link. Each target comes once, and an artifact never
    names itself, in whatever case. Links have the origin `"derived"`; which names an artifact answers to, in any
    spelling of a package's name, `extractor_from` says. The raw value is not read.

    It is also a function of an id and filter fields, for those who want to wrap it.

    Example:
        >>> DependencyLinks()("app", {"deps": ["NumPy>=1.26", "anyio[trio]", "numpy", "App"], "parent": "tools"})
        {'REF': ['numpy', 'anyio'], 'PARENT': ['tools']}
        >>> DependencyLinks().extract(Artifact("app", ""), {"deps": ["NumPy>=1.26"]}).links[0].target_ref
        'numpy'
    """

    @property
    def id(self) -> str:
        """Name the extractor."""
        return repr(self)

    def __call__(self, artifact_id: str, filter_fields: Mapping[str, Any]) -> dict[str, list[str]]:
        """Give the targets by edge type; a type without any is left out."""
        own = artifact_id.lower()
        deps, parent = filter_fields.get("deps"), filter_fields.get("parent")
        names = [bare_name(str(each)).lower() for each in deps] if isinstance(deps, list | tuple) else []
        refs = [name for name in dict.fromkeys(names) if name and name != own]
        parents = [parent] if isinstance(parent, str) and parent and parent.lower() != own else []
        return {type: targets for type, targets in ((REF, refs), (PARENT, parents)) if targets}

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Give the links of one artifact, and the names it answers to."""
        return CallableLinks(self, self.id).extract(artifact, fields)


default_edge_extractor = DependencyLinks()
"""What `from_packages` and `from_skills` find links with; an extractor, and a function of an id and filter fields."""

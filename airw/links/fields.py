"""Links that filter fields hold: what a function finds in them, what packages depend on, what skills belong to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from airw._base.requirements import bare_name, distribution_name
from airw.errors import ArgumentError, SourceError
from airw.values import Artifact, Extraction, Link

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

EdgeFunction: TypeAlias = Callable[[str, Mapping[str, Any]], Mapping[str, Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class CallableLinks:
    """The extractor that `extractor_from` makes of a function.

    Args:
        function: Called with an artifact's id and filter fields; gives the targets by edge type.
        id: Names the function; another id means extracting again.

    Raises:
        ArgumentError: `function` is not callable, or `id` is blank.
    """

    function: EdgeFunction
    id: str

    def __post_init__(self) -> None:
        """Check both at birth."""
        if not callable(self.function):
            raise ArgumentError(f"an extractor needs a function of an id and filter fields, not {self.function!r}")
        if not isinstance(self.id, str) or not self.id.strip():
            raise ArgumentError(f"id must name the function and its version, not be {self.id!r}")

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Give the links the function finds, each once, in its order, and the names of the artifact.

        Raises:
            SourceError: The function's answer is not a mapping of edge type to a list of targets.
        """
        answer = self.function(artifact.id, fields)
        if not isinstance(answer, Mapping):
            raise SourceError(f"{self.id} must give a mapping of edge type to targets, not {answer!r:.80}")
        links = dict.fromkeys(link for type_, targets in answer.items() for link in self._links(type_, targets))
        # The second tier lets a reference name a package (PEP 503) however either spells it.
        name = distribution_name(artifact.id)
        spellings = dict.fromkeys((artifact.id.casefold(), *(name.replace("-", mark) for mark in "-_.")))
        return Extraction(list(links), [[artifact.id], list(spellings)])

    def _links(self, type_: Any, targets: Any) -> Iterator[Link]:
        if not isinstance(type_, str) or isinstance(targets, str) or not isinstance(targets, Sequence):
            raise SourceError(f"{self.id} must give a list of targets for {type_!r}, not {targets!r:.80}")
        for target in targets:
            match target:
                case str() if target:
                    yield Link(target, type_, "derived")
                case [str() as source, str() as artifact_id] if source and artifact_id:
                    yield Link(artifact_id, type_, "derived", target_source=source)
                case _:
                    raise SourceError(f"{self.id}: a target is an id or [source, id], not {target!r:.80}")


def extractor_from(function: EdgeFunction, *, id: str) -> CallableLinks:
    """Make an edge extractor of a function `(artifact_id, filter_fields) -> {edge_type: [target, …]}`.

    A target is an id, or `[source, id]` in another corpus. Links get the origin `"derived"`. An artifact answers to its
    id, then to its id in lower case, as it is and with `-`, `_` or `.` for each run of these.

    Raises:
        ArgumentError: `function` is not callable, or `id` is blank.

    Example:
        >>> extractor = extractor_from(lambda id, fields: {"REF": fields["deps"]}, id="deps-1")
        >>> [(link.target_source, link.target_ref, link.type, link.origin) for link in
        ...  extractor.extract(Artifact("app", ""), {"deps": ["numpy", ["pypi", "anyio"]]}).links]
        [(None, 'numpy', 'REF', 'derived'), ('pypi', 'anyio', 'REF', 'derived')]
    """
    return CallableLinks(function, id)


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

"""Extractors that read links from filter fields, such as the dependencies of a package."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from airw._base.checks import check_kind
from airw._base.messages import short_repr
from airw._base.requirements import bare_name, distribution_name
from airw.errors import ArgumentError, SourceError
from airw.values import Artifact, Extraction, Link

NEXT = "NEXT"
"""The edge type from a record of an artifact to the next one."""
PREV = "PREV"
"""The edge type from a record to the previous one: the inverse of `NEXT`."""
PARENT = "PARENT"
"""The edge type from a part to the whole it belongs to."""
CHILD = "CHILD"
"""The edge type from a whole to one of its parts: the inverse of `PARENT`."""
REF = "REF"
"""The edge type to an artifact that another one depends on or refers to."""

_WIKI_LINK = re.compile(r"\s*\[\[([^\[\]|#]+)(?:[|#][^\[\]]*)?\]\]\s*")

EdgeFunction: TypeAlias = Callable[[str, Mapping[str, Any]], Mapping[str, Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class CallableLinks:
    """An edge extractor that calls a function; `extractor_from` makes it.

    Args:
        function: A function of an artifact's id and filter fields. It returns the targets by edge type.
        id: The name of the function. If it changes, the next build extracts all links again.

    Raises:
        ArgumentError: If `function` is not callable, or `id` is blank.
    """

    function: EdgeFunction
    id: str

    def __post_init__(self) -> None:
        """Check both fields."""
        check_kind("function", self.function, Callable, "be callable with an id and filter fields", error=ArgumentError)
        if not isinstance(self.id, str) or not self.id.strip():
            raise ArgumentError(f"id must be the name and version of the function, not {short_repr(self.id)}")

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Return the links of the function, without duplicates, and the artifact's names.

        Raises:
            SourceError: If the function does not return a mapping of edge types to lists of targets.
        """
        targets_by_type = self.function(artifact.id, fields)
        if not isinstance(targets_by_type, Mapping):
            raise SourceError(
                f"{self.id} returned {short_repr(targets_by_type)}; return a mapping of edge types to targets"
            )
        links = dict.fromkeys(
            link for type_, targets in targets_by_type.items() for link in self._to_links(type_, targets)
        )
        # The first tier is the exact id. The second one is for packages, whose names mean the same in any case and
        # with any of `-`, `_` and `.` (PEP 503): a reference may use another spelling than the id.
        name = distribution_name(artifact.id)
        spellings = dict.fromkeys((artifact.id.casefold(), *(name.replace("-", mark) for mark in "-_.")))
        return Extraction(list(links), [[artifact.id], list(spellings)])

    def _to_links(self, type_: Any, targets: Any) -> Iterator[Link]:
        if not isinstance(type_, str) or isinstance(targets, str) or not isinstance(targets, Sequence):
            raise SourceError(f"{self.id} returned {short_repr(targets)} for {type_!r}; return a list of targets")
        for target in targets:
            match target:
                case str() if target:
                    yield Link(target, type_, "derived")
                case [str() as source, str() as artifact_id] if source and artifact_id:
                    yield Link(artifact_id, type_, "derived", target_source=source)
                case _:
                    raise SourceError(
                        f"{self.id} returned the target {short_repr(target)}; return an id or [source, id]"
                    )


def extractor_from(function: EdgeFunction, *, id: str) -> CallableLinks:
    """Return an edge extractor that calls a function.

    The links have the origin `"derived"`. An artifact has two name tiers. The first is its id. The second is its id in
    lower case, as it is and with each run of `-`, `_` and `.` replaced by any one of them.

    Args:
        function: `(artifact_id, filter_fields) -> {edge_type: [target, …]}`. A target is an id, or `[source, id]` for
            an artifact of another corpus.
        id: The name of the function and its version. If it changes, the next build extracts all links again.

    Raises:
        ArgumentError: If `function` is not callable, or `id` is blank.

    Example:
        >>> extractor = extractor_from(lambda id, fields: {"REF": fields["deps"]}, id="deps-1")
        >>> [(link.target_source, link.target_ref, link.type, link.origin) for link in
        ...  extractor.extract(Artifact("app", ""), {"deps": ["numpy", ["pypi", "anyio"]]}).links]
        [(None, 'numpy', 'REF', 'derived'), ('pypi', 'anyio', 'REF', 'derived')]
    """
    return CallableLinks(function, id)


def record_links(artifact: Artifact) -> Extraction:
    """Return the links in the fields `links` and `requires` of a record.

    Builds without an extractor call it. A field is read like one of a note's frontmatter. It is an id, ids separated by
    commas, a list of entries, or a mapping of edge types to any of these. An entry is an id, `{"id": …, "type": …}`, or
    `[source, id]` for an artifact of another corpus. An id may be written as a wiki link. Without a type, links have
    the type `"related"` in `links` and `"requires"` in `requires`. URLs and links of an artifact to itself are no
    links. A value of another kind is a problem.

    Example:
        >>> for link in record_links(Artifact("a", {"links": {"cites": ["b", 7]}, "requires": "c, [[d]]"})).links:
        ...     print(link.type, link.target_ref)
        cites b
        cites 7
        requires c
        requires d
    """
    links: dict[Link, None] = {}
    problems: dict[str, str] = {}
    for name, default_type in (("links", "related"), ("requires", "requires")):
        value: Any = artifact.raw.get(name) if isinstance(artifact.raw, Mapping) else None
        is_typed = isinstance(value, Mapping) and not _is_entry(value)
        for type_, entries in value.items() if is_typed else [(default_type, value)]:
            for entry in _split_entries(entries):
                link = _read_entry(entry, type_)
                if link is None:
                    reason = f"{name}: an entry must be an id, or a mapping with id and type, not {short_repr(entry)}"
                    problems.setdefault(name, reason)
                elif "://" not in link.target_ref and (link.target_source, link.target_ref) != (None, artifact.id):
                    links[link] = None
    return Extraction(list(links), problems=list(problems.values()))


def _is_entry(value: Mapping[Any, Any]) -> bool:
    return "id" in value and value.keys() <= {"id", "type"}


def _split_entries(value: Any) -> Sequence[Any]:
    """Return the items of a list, or the parts of a text between commas."""
    if isinstance(value, str) and not _WIKI_LINK.fullmatch(value):
        return [part for part in map(str.strip, value.split(",")) if part]
    if value is None or isinstance(value, list | tuple):
        return value or ()
    return [value]


def _read_entry(entry: Any, type_: Any) -> Link | None:
    match entry:
        case {"id": target} if _is_entry(entry) and not isinstance(target, Mapping | list | tuple):
            return _read_entry(target, entry.get("type", type_))
        case [str() as target]:  # what YAML makes of a wiki link without quotation marks
            return _read_entry(target, type_)
        case [str() as source, str() as target] if source and target and isinstance(type_, str) and type_:
            return Link(target, type_, "typed", target_source=source)
        case str() | int() | float() if not isinstance(entry, bool) and isinstance(type_, str) and type_:
            target = _WIKI_LINK.sub(r"\1", str(entry).strip()).strip()
            return Link(target, type_, "typed") if target else None
    return None


@dataclass(frozen=True, slots=True)
class DependencyLinks:
    """An edge extractor for packages and skills: it reads the fields `deps` and `parent`.

    Each requirement in the list `deps` becomes a `REF` link to the package, in lower case and without versions, extras
    and markers. The text `parent` becomes a `PARENT` link, unless there is a field `base_path`: the parent of a skill
    that was read from a folder is the name of another folder. There are no duplicates, and no links from an artifact to
    itself, in any spelling of case. Links have the origin `"derived"`; `extractor_from` describes the names of an
    artifact. Of the raw value, the fields `links` and `requires` are read as those of a record.

    An instance is also a function of an id and filter fields, which other functions can wrap.

    Example:
        >>> DependencyLinks()("app", {"deps": ["NumPy>=1.26", "anyio[trio]", "numpy", "App"], "parent": "tools"})
        {'REF': ['numpy', 'anyio'], 'PARENT': ['tools']}
        >>> DependencyLinks().extract(Artifact("app", ""), {"deps": ["NumPy>=1.26"]}).links[0].target_ref
        'numpy'
    """

    @property
    def id(self) -> str:
        """The extractor id: the name of the class, and the version of its rules."""
        return f"{self!r} 2"

    def __call__(self, artifact_id: str, filter_fields: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the targets by edge type, without types that have no targets."""
        own_name = artifact_id.lower()
        deps, parent = filter_fields.get("deps"), filter_fields.get("parent")
        if "base_path" in filter_fields:
            parent = None
        names = [bare_name(str(requirement)).lower() for requirement in deps] if isinstance(deps, list | tuple) else []
        refs = [name for name in dict.fromkeys(names) if name and name != own_name]
        parents = [parent] if isinstance(parent, str) and parent and parent.lower() != own_name else []
        return {type: targets for type, targets in ((REF, refs), (PARENT, parents)) if targets}

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Return the links and the names of an artifact; see `extractor_from` for the names."""
        derived, written = CallableLinks(self, self.id).extract(artifact, fields), record_links(artifact)
        return replace(derived, links=[*derived.links, *written.links], problems=written.problems)


default_edge_extractor: Final = DependencyLinks()
"""The extractor of `from_packages` and `from_skills`; it is also a function of an id and filter fields."""

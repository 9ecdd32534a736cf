"""The distributions that are installed in this Python environment."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airw._base.requirements import distribution_name

if TYPE_CHECKING:
    from importlib.metadata import Distribution, PackageMetadata

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_EXTRA = re.compile(r"\bextra\b")


@dataclass(frozen=True, slots=True)
class Installed:
    """One distribution, or what is left of one.

    Args:
        place: Where its metadata lie.
        name: As it is spelled there; blank where the metadata cannot be read.
        version: Blank where there is none.
        fields: What is indexed of it.
        metadata: What else is known of it.
    """

    place: str
    name: str = ""
    version: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Give the name as PEP 503 spells it, so that requirements find it."""
        return distribution_name(self.name)


def installed() -> Iterator[Installed]:
    """Read the distributions in the order in which an import looks for them, those of one folder by name.

    A folder that is on the path twice counts once.
    """
    from importlib.metadata import distributions

    found: dict[str, Distribution] = {}
    for each in distributions():
        found.setdefault(_place(each), each)
    order = {folder: at for at, folder in enumerate(dict.fromkeys(map(_folder, found.values())))}
    for place in sorted(found, key=lambda place: (order[_folder(found[place])], place)):
        yield _read(place, found[place])


def _folder(distribution: "Distribution") -> str:
    return str(distribution.locate_file(""))


def _place(distribution: "Distribution") -> str:
    # Public names lead to the folder it is installed in only; finders other than importlib's may have no path at all.
    return str(getattr(distribution, "_path", None) or _folder(distribution))


def _read(place: str, distribution: "Distribution") -> Installed:
    try:
        about = distribution.metadata
        name = _said(about, "Name")
        required = about.get_all("Requires-Dist") or distribution.requires or ()
    except Exception:  # noqa: BLE001 - whatever a finder raises, this distribution cannot be read
        return Installed(place)
    version = _said(about, "Version")
    fields = {
        "name": name,
        "description": _said(about, "Summary"),
        "readme": _said(about, "Description"),
        "deps": [each for each in required if not _is_of_extra(each)],
    }
    metadata = {"version": version, "home_page": _home_page(about), "path": _file(place)}
    return Installed(place, name, version, fields, metadata)


def _said(about: "PackageMetadata", name: str) -> str:
    value = str(about[name]) if name in about else ""
    return "" if value.strip() == "UNKNOWN" else value.strip()  # what setuptools once wrote for nothing


def _home_page(about: "PackageMetadata") -> str:
    labelled = (each.partition(",") for each in about.get_all("Project-URL") or ())
    urls = {re.sub(r"[\W_]", "", label).casefold(): url.strip() for label, _, url in labelled}
    return _said(about, "Home-page") or urls.get("homepage", "")


def _file(place: str) -> str:
    """Give the file of the metadata, which also holds the long description; blank where there is none."""
    return next((str(file) for name in ("METADATA", "PKG-INFO", "") if (file := Path(place, name)).is_file()), "")


def _is_of_extra(requirement: str) -> bool:
    return _EXTRA.search(_QUOTED.sub("", requirement.partition(";")[2])) is not None

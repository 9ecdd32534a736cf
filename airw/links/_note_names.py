"""What others may call a note, and what a link that is written in a note calls its target: the two must agree.

A name that begins with `/` is a path below the root and counts exactly; only notes in that place carry it. All other
names are carried as they are and folded, and wiki links ask for them folded.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from airw._base.frontmatter import NOTE_SUFFIX, strip_suffix

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|mailto:")
_VAULT = re.compile(r"dendron://[^/]+/")  # a note of another vault, by its name there
_TEMPLATE = re.compile(r"\{[{%]")  # what a site generator fills in
_ANCHOR = re.compile(r"[#^]")
# Of two sides either may be the label, and what looks like an anchor may be prose: "C# for beginners", "x^2".
_ANCHORS = re.compile(r"(?<=\S)#(?=\S)|(?<=\S)\^"), re.compile(r"(?<=\S)#(?=\S)|(?<=\S)\^(?=[\w-]{6,}\Z)")
_INDEX = frozenset({"index", "_index"})


class Unusable(ValueError):
    """Why one reference is no link."""


class Ref(NamedTuple):
    """A name of the target, a second one, and whether the link leads to a place within it."""

    name: str
    other: str | None = None
    anchored: bool = False


def fold(name: str) -> str:
    """Fold case and composition, so that `CAFÉ` with a combining accent is `café`."""
    return _composed(_composed(name).casefold())


def scalar(value: Any) -> str | None:
    """Give a name or number as text; `None` for anything else."""
    return str(value).strip() if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None


def listed(value: Any) -> list[Any]:
    """Give the items of a list, or anything else as the one item."""
    return value if isinstance(value, list) else [value]


def note_names(artifact_id: str, fields: Mapping[str, Any], title: str) -> list[list[str]]:
    """Give the names of a note in four tiers: its id, its paths, its short names, its titles."""
    path = strip_suffix(artifact_id)
    parts = path.split("/")
    numbers = [scalar(value) for key, value in fields.items() if f"{key}-{scalar(value)}" == parts[-1]]
    ends = ["/".join(parts[at:]) for at in range(len(parts) - 1, 0, -1)] or parts
    titles = [title, *map(scalar, listed(fields.get("aliases")))]  # a title such as README.md is no path
    folder = _folder_names(_composed(path))
    return [
        [artifact_id],
        _once([*_both_cases([path]), "/" + _composed(path), _composed(artifact_id), *folder[0]], but=artifact_id),
        _once([*_both_cases([*ends, scalar(fields.get("id")), *numbers]), *folder[1]]),
        _once([*_both_cases(strip_suffix(each) for each in titles if each), *folder[2]]),
    ]


def _folder_names(path: str) -> tuple[list[str], list[str], list[str]]:
    """Give what a link to a folder, with and without `/` at its end, calls a note that may stand for that folder."""
    above, _, stem = path.rpartition("/")
    folder, bare = (f"/{above}/", f"/{above}") if above else ("/", "")
    page = f"/{path}/"
    if stem in _INDEX:
        return [folder], [bare], [page]
    return ([], [folder], [bare, page]) if stem.casefold() == "readme" else ([], [], [page])


def _both_cases(names: Iterable[str | None]) -> list[str]:
    """Give each name that says something as it is and folded."""
    return [form for name in names if name for form in (name, fold(name))]


def _once(names: Iterable[str], *, but: str = "") -> list[str]:
    return [name for name in dict.fromkeys(names) if name and name != but]


def wiki_ref(written: str, artifact_id: str) -> Ref | None:
    """Give what `[[written]]` names; of two sides, both, as some tools write the label first.

    Raises:
        Unusable: It leads out of the root.
    """
    sides = re.split(r"\\?\|", written, maxsplit=1)
    anchors = _ANCHORS if len(sides) == 2 else [_ANCHOR]
    sides = [_VAULT.sub("", side.strip()) for side in sides]
    if any(_URL.match(side) or side.startswith(("#", "^")) for side in sides):
        return None
    cut = [anchor.split(side, maxsplit=1) for anchor, side in zip(anchors, sides, strict=True) if side]
    names = [_wiki_name(side[0].strip(), artifact_id) for side in cut]
    if not names:
        return None
    return Ref(names[0], names[-1] if names[-1] != names[0] else None, any(len(side) == 2 for side in cut))


def _wiki_name(name: str, artifact_id: str) -> str:
    if name.startswith(("./", "../", "/")):
        return _path_name(_composed(_placed(name, artifact_id)))
    return strip_suffix(fold(name))


def path_ref(written: str, artifact_id: str) -> Ref | None:
    """Give what the target of a markdown link names: the id that a file in that place has, else its path after a `/`.

    Raises:
        Unusable: It leads out of the root, or names no file.
    """
    path, *anchor = re.split(r"[?#]", written, maxsplit=1)
    if not path or _SCHEME.match(path) or _TEMPLATE.search(path):
        return None
    from urllib.parse import unquote

    place = _placed(unquote(path), artifact_id)
    name, composed = _path_name(place), _path_name(_composed(place))
    return Ref(name, composed if composed != name else None, bool(anchor))


def _path_name(place: str) -> str:
    return place if NOTE_SUFFIX.search(place) else f"/{place}"


def _placed(path: str, artifact_id: str) -> str:
    """Give a path below the root; one of a folder ends with `/`, but that of the root is empty."""
    if "\0" in path:
        raise Unusable(f"the link {path!r} holds a NUL, which is in no file's name")
    parts = [] if path.startswith("/") else artifact_id.split("/")[:-1]
    steps = path.split("/")
    for step in steps:
        if step == "..":
            if not parts:
                raise Unusable(f"the link {path!r} leads out of the root")
            parts.pop()
        elif step not in ("", "."):
            parts.append(step)
    return "/".join(parts) + ("/" if parts and steps[-1] in ("", ".", "..") else "")


def typed_ref(entry: str, artifact_id: str) -> Ref | None:
    """Give what a name in the frontmatter names: as a wiki link or a path, where it is written as one.

    Raises:
        Unusable: It leads out of the root.
    """
    if wiki := re.fullmatch(r"\[\[([^\[\]]+)\]\]", entry):
        return wiki_ref(wiki[1], artifact_id)
    if entry.startswith(("./", "../", "/")):
        return path_ref(entry, artifact_id)
    composed = _composed(entry)
    return None if _URL.match(entry) else Ref(entry, composed if composed != entry else None)


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)

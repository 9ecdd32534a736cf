"""The names by which links can refer to a note, and the references that links contain.

A note has names in four tiers: its id, its paths, its short names, its titles. Stores add a fifth tier: all these names
in any case. A reference means the note that has it in the strongest tier, if there is exactly one. So the more exact
name wins: a title that somebody gives a note cannot take over links that refer to another note by its path. Nothing is
guessed: two notes with the same name in that tier make the link ambiguous.

Names and references must agree. A name that begins with `/` is a path below the root: only notes in that place have it.
All other names exist as written and folded, and wiki links are looked up folded.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from airw._base.frontmatter import NOTE_SUFFIX, strip_suffix
from airw.values import fold_name

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|mailto:")
_VAULT = re.compile(r"dendron://[^/]+/")  # Dendron's prefix of a note in another vault
_TEMPLATE = re.compile(r"\{[{%]")  # a placeholder for a site generator
_ANCHOR = re.compile(r"[#^]")
# If a wiki link has two sides, either may be the label, and labels contain `#` and `^` as in "C# for beginners" and
# "x^2". So the anchor of the first and of the last side must look like one.
_SIDE_ANCHORS = re.compile(r"(?<=\S)#(?=\S)|(?<=\S)\^"), re.compile(r"(?<=\S)#(?=\S)|(?<=\S)\^(?=[\w-]{6,}\Z)")
_PART = re.compile(r"[\w-]+")
_MAX_ENDS = 64  # of a path, the shortest first; their total length grows with the square of their number
_INDEX_STEMS = frozenset({"index", "_index"})


class UnusableReference(ValueError):
    """A reference that cannot become a link; the message is the reason."""


class NoteRef(NamedTuple):
    """A reference to a note.

    Args:
        name: The name of the target.
        or_name: A second name, as in `[[one|other]]`, if either may be the name of the target.
        has_anchor: True if the link leads to a place within the target.
    """

    name: str
    or_name: str | None = None
    has_anchor: bool = False


def to_text(value: Any) -> str | None:
    """Return a string or a number as text; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return str(value).strip()
    except ValueError:  # Python writes no integer of thousands of digits
        return None


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, and any other value as a list of one item."""
    return value if isinstance(value, list) else [value]


def note_names(artifact_id: str, fields: Mapping[str, Any], title: str) -> list[list[str]]:
    """Return the names of a note in four tiers, strongest first; see the module for why."""
    path = strip_suffix(artifact_id)
    parts = path.split("/")
    folder_paths = _folder_names(_compose(path))
    # 2. The whole path, without the suffix and below the root: hardly any other note has it.
    paths = [*_add_folded([path]), "/" + _compose(path), _compose(artifact_id), *folder_paths[0]]
    # 3. Short names: the ends of the path, the `id` from the frontmatter, and `165` for `eip-165` with `eip: 165`.
    #    They are mostly unique, but notes in other folders may have them, too.
    ends = ["/".join(parts[start:]) for start in range(len(parts) - 1, max(0, len(parts) - 1 - _MAX_ENDS), -1)] or parts
    stem = fold_name(parts[-1])
    numbers = [to_text(value) for key, value in fields.items() if fold_name(f"{key}-{to_text(value)}") == stem]
    short_names = [*_add_folded([*ends, to_text(fields.get("id")), *numbers]), *folder_paths[1]]
    # 4. Titles and aliases, also without suffix: written for readers, so several notes often have the same.
    aliases = map(to_text, as_list(fields.get("aliases")))
    titles = _add_folded(strip_suffix(name) for name in (title, *aliases) if name)
    return [
        [artifact_id],
        _deduplicate(paths, without=artifact_id),
        _deduplicate(short_names),
        _deduplicate([*titles, *folder_paths[2]]),
    ]


def _folder_names(path: str) -> tuple[list[str], list[str], list[str]]:
    """Return the folder paths that mean this note, for the second, third and fourth tier.

    A link to `a/` means the index note of the folder, else its README, else the note `a.md`. A link to `a` prefers the
    note `a.md`, whose path is in the second tier. The tiers of these names produce that order.
    """
    parent, _, stem = path.rpartition("/")
    with_slash, without_slash = (f"/{parent}/", f"/{parent}") if parent else ("/", "")
    own_path = f"/{path}/"
    if stem in _INDEX_STEMS:
        return [with_slash], [without_slash], [own_path]
    if stem.casefold() == "readme":
        return [], [with_slash], [without_slash, own_path]
    return [], [], [own_path]


def _add_folded(names: Iterable[str | None]) -> list[str]:
    """Return each name that is not empty, followed by its folded form."""
    return [form for name in names if name for form in (name, fold_name(name))]


def _deduplicate(names: Iterable[str], *, without: str = "") -> list[str]:
    return [name for name in dict.fromkeys(names) if name and name != without]


def parse_wiki_ref(written: str, artifact_id: str) -> NoteRef | None:
    """Return the reference of `[[written]]`; `None` for URLs and places in the same note.

    Of two sides, the first is the target, as in Obsidian. Only if the second one is plainly written as a target, which
    Dendron puts there, it counts, too.

    Raises:
        UnusableReference: If the link leads out of the root.
    """
    sides = [side.strip() for side in re.split(r"\\?\|", written, maxsplit=1)]
    if any(_URL.match(_VAULT.sub("", side)) or side.startswith(("#", "^")) for side in sides):
        return None
    anchors = _SIDE_ANCHORS if len(sides) == 2 else [_ANCHOR]
    split_sides = [anchor.split(_VAULT.sub("", side), maxsplit=1) for anchor, side in zip(anchors, sides, strict=True)]
    targets = [split_sides[place] for place in _find_targets(sides, split_sides)]
    names = [_wiki_name(target[0].strip(), artifact_id) for target in targets]
    if not names:
        return None
    has_anchor = any(len(target) == 2 for target in targets)
    return NoteRef(names[0], names[-1] if names[-1] != names[0] else None, has_anchor)


def _find_targets(sides: Sequence[str], split_sides: Sequence[Sequence[str]]) -> list[int]:
    """Return the places of the sides that may be the target of a link, the likely one first."""
    places = [place for place, side in enumerate(sides) if side]
    if len(places) < 2 or _VAULT.match(sides[0]):
        return places[:1]
    if _VAULT.match(sides[1]):
        return [1]
    if _is_dotted(split_sides[0]):
        return [0, 1] if _is_dotted(split_sides[1]) else [0]
    if _is_path(split_sides[0]):
        return [0]
    if _is_dotted(split_sides[1]):
        return [1, 0]
    return [0, 1] if _is_path(split_sides[1]) else [0]


def _is_dotted(side: Sequence[str]) -> bool:
    """Return whether a side is a name such as `topic.tags.2021`, or has an anchor.

    A label such as `v1.2` is none.
    """
    parts = strip_suffix(side[0]).split(".")
    is_name = all(map(_PART.fullmatch, parts)) and sum(not part[0].isdigit() for part in parts) > 1
    return len(side) == 2 or is_name


def _is_path(side: Sequence[str]) -> bool:
    return " " not in side[0] and ("/" in side[0] or NOTE_SUFFIX.search(side[0]) is not None)


def _wiki_name(name: str, artifact_id: str) -> str:
    if name.startswith(("./", "../", "/")):
        return _path_name(_compose(_resolve_path(name, artifact_id)))
    return strip_suffix(fold_name(name))


def parse_path_ref(written: str, artifact_id: str) -> NoteRef | None:
    """Return the reference of a markdown link; `None` for URLs, templates and anchors.

    It is the id of a note in that place or, for a path without the suffix of a note, the path after a `/`. A path
    without a leading `/`, `./` or `../` may also begin at the root.

    Raises:
        UnusableReference: If the link leads out of the root, or cannot be a file name.
    """
    path, *anchor = re.split(r"[?#]", written, maxsplit=1)
    if not path or _SCHEME.match(path) or _TEMPLATE.search(path):
        return None
    from urllib.parse import unquote

    path = unquote(path)
    place = _resolve_path(path, artifact_id)
    name, composed_name = _path_name(place), _path_name(_compose(place))
    or_name = composed_name
    if composed_name == name and path.split("/")[0] not in (".", ".."):
        or_name = _path_name(_compose(_resolve_path(f"/{path}", artifact_id)))
    return NoteRef(name, or_name if or_name != name else None, bool(anchor))


def _path_name(place: str) -> str:
    return place if NOTE_SUFFIX.search(place) else f"/{place}"


def _resolve_path(path: str, artifact_id: str) -> str:
    """Return a path relative to the root; that of a folder ends with `/`, the root is empty."""
    if "\0" in path:
        raise UnusableReference(f"the link {path!r} contains a NUL character, which no file name can contain")
    parts = [] if path.startswith("/") else artifact_id.split("/")[:-1]
    steps = path.split("/")
    for step in steps:
        if step == "..":
            if not parts:
                raise UnusableReference(f"the link {path!r} leads out of the root")
            parts.pop()
        elif step not in ("", "."):
            parts.append(step)
    return "/".join(parts) + ("/" if parts and steps[-1] in ("", ".", "..") else "")


def parse_typed_ref(entry: str, artifact_id: str) -> NoteRef | None:
    """Return the reference of an entry in the frontmatter: a wiki link, a path, or a name.

    Raises:
        UnusableReference: If the link leads out of the root.
    """
    if wiki := re.fullmatch(r"\[\[([^\[\]]+)\]\]", entry):
        return parse_wiki_ref(wiki[1], artifact_id)
    if entry.startswith(("./", "../", "/")):
        return parse_path_ref(entry, artifact_id)
    composed_name = _compose(entry)
    return None if _URL.match(entry) else NoteRef(entry, composed_name if composed_name != entry else None)


def _compose(name: str) -> str:
    return unicodedata.normalize("NFC", name)

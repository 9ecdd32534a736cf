"""The names by which links can refer to a note, and the references that links contain.

A store compares the reference of a link with the names of all notes. A note has its names in tiers, strongest first:

- 0: its id, which is its path from the root of the tree;
- 1 to 3: its place, as `./a/b` for `a/b.md` and `./a/` for an index note, and the names for wiki links: in tier 1 its
  path without the suffix, in tier 2 the ends of that path and the `id` of the frontmatter, in tier 3 title and aliases;
- 4 to 6: its path from the root of the tree, as `/a/b`, and the addresses that it declares;
- 7 to 9: its path from the root of the site, and the addresses that site generators make of its path.

Stores add all names in any case as the weakest tier. A reference means the note that has it in the strongest tier, if
exactly one has it there. So an exact name wins: a title cannot take over the links to a place. And nothing is guessed:
two notes with one name in the same tier make a link ambiguous.

A path in a link is looked up relative to its note (as `./a/b` or, with a suffix, as the id), then from a root (`/a/b`).
The name in a wiki link is folded.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from airw._base.frontmatter import NOTE_SUFFIX, strip_suffix
from airw.values import fold_name

WIKI_LINK = re.compile(r"!?\[\[([^\[\]\n]+)\]\]")
_PATH_WORD = r"""(?!["'])(?:[^()<>"\s]|\([^()\n]*+\))++"""  # other programs than CommonMark allow several
PATH_LINK = re.compile(
    rf"""!?\[[^\[\]\n]*+\]\((?:<([^<>\n]*+)>|((?:{_PATH_WORD}(?:[ \t]++{_PATH_WORD})*+)?))"""
    r"""(?:[ \t]++["'][^"'\n]*+["'])?[ \t]*+\)"""
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|mailto:")
_VAULT = re.compile(r"dendron://[^/]+/")  # Dendron's prefix of a note in another vault
_TEMPLATE = re.compile(r"\{[{%]")
_BLOCK = re.compile(r"\(\([\w-]+\)\)")  # Logseq's reference to a block, by its id
_PATH_END = re.compile(r"[?#]")
_ANCHOR = re.compile(r"[#^]")
# If a wiki link has two sides, either may be the label, and labels contain `#` and `^` as in "C# for beginners" and
# "x^2". So the anchor of the first and of the last side must look like one.
_SIDE_ANCHORS = re.compile(r"(?<=\S)#(?=\S)|(?<=\S)\^"), re.compile(r"(?<=\S)#(?=\S)|(?<=\S)\^(?=[\w-]{6,}\Z)")
_PART = re.compile(r"[\w-]+")
_MAX_ENDS = 64  # of a path, the shortest first; their total length grows with the square of their number
_HTML = re.compile(r"(?:(?:(?<=/)|\A)index)?\.html\Z", re.IGNORECASE)
_INDEX = re.compile(r"_?index", re.IGNORECASE)
_LOGSEQ_SLASH = re.compile(r"___|%2F", re.IGNORECASE)  # in the name of a file, for a note named `A/B`
_POSTS = re.compile(r"/_posts(?=/)")  # Jekyll's folder of posts, and its folders of other documents
_COLLECTION = re.compile(r"(?<=/)_(?=[^/]+/)")
_DATE = re.compile(r"(?<=/)(\d{4})-(\d\d)-(\d\d)[-_](?=[^/])")
_JOURNAL = re.compile(r"(\d{4})_(\d\d)_(\d\d)", re.ASCII)  # a file of Logseq for the notes of a day
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CARD_ID = re.compile(r"(\d{12}|\d{14})(?:[ _-]|\Z)", re.ASCII)  # the time at which a note of a card index was made
_POSITION = re.compile(r"(?<=/)\d{1,3}[ ]*[-_.]+[ ]*(?=[^\W\d])")  # a prefix by which site generators sort notes


class UnusableReference(ValueError):
    """A reference that cannot become a link; the message is the reason."""


class Reference(NamedTuple):
    """A reference to a note.

    Args:
        name: The name of the target.
        or_name: A second name, which counts if the first one means no note or has a weaker tier.
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


def list_names(value: Any) -> list[str]:
    """Return the names in a field: one name, or a list."""
    return [name for name in map(to_text, value if isinstance(value, list) else [value]) if name]


def list_aliases(fields: Mapping[str, Any]) -> list[str]:
    """Return the aliases that a note declares.

    They are lists, or texts with commas. `[[a]]` is `a`, as in Logseq.
    """
    values = [fields.get("aliases"), fields.get("alias")]
    lists = [value.split(",") if isinstance(value, str) else value for value in values]
    return [name.removeprefix("[[").removesuffix("]]") for value in lists for name in list_names(value)]


def note_names(artifact_id: str, fields: Mapping[str, Any], title: str, root: str = "") -> list[list[str]]:
    """Return the names of a note in tiers, strongest first; see the module for their order.

    Args:
        artifact_id: The path of the note from the root of the tree.
        fields: The fields of its frontmatter.
        title: Its title.
        root: The folder that is the root of the site, or the address at which the root of the tree is published, as
            `/docs`; `""` for the root of the tree.
    """
    whole = _compose(artifact_id)
    path = strip_suffix(whole)
    *folders, stem = path.split("/")
    starts = range(len(folders), max(-1, len(folders) - _MAX_ENDS), -1)
    short_names = ["/".join([*folders, stem][start:]) for start in starts] + list_names(fields.get("id"))
    # A file `eip-165` with the field `eip: 165` is also called `165`.
    texts = ((key, text) for key, value in fields.items() if (text := to_text(value)))
    short_names += [text for key, text in texts if fold_name(f"{key}-{text}") == fold_name(stem)]
    if _LOGSEQ_SLASH.search(stem):
        short_names.append(_LOGSEQ_SLASH.sub("/", stem))
    titles = [strip_suffix(name) for name in (title, *list_aliases(fields))]
    if folders[-1:] == ["journals"]:
        titles += _name_day(stem)
    places = _place_names(f"/{path}")
    tiers = [[artifact_id]]
    for names, level in zip(([path], short_names, titles), places, strict=True):
        tiers.append([*names, *map(fold_name, names), *(f".{place}" for place in level)])
    tiers += places
    relative, rooted = _find_own_places("".join(f"/{name}" for name in folders), fields, is_index=len(places[0]) > 1)
    tiers[1].append(whole)
    tiers[3] += [f".{place}" for place in (*relative, *rooted)]
    tiers[4] += [f"/{whole}", *relative, *rooted]
    tiers += _name_in_site(whole, fields, root, relative, rooted)
    known: set[str] = {""}
    for number, names in enumerate(tiers):  # a name counts in its strongest tier
        tiers[number] = [name for name in dict.fromkeys(names) if name not in known]
        known.update(names)
    return tiers


def _name_in_site(
    whole: str, fields: Mapping[str, Any], root: str, relative: Sequence[str], rooted: Sequence[str]
) -> list[list[str]]:
    """Return the last three tiers of names: those that a note has in a site.

    Args:
        whole: The path of the note, with its suffix.
        fields: The fields of its frontmatter.
        root: The root of the site, as in `note_names`.
        relative: The addresses that it declares below its folder.
        rooted: Those that it declares from a root.
    """
    path = strip_suffix(whole)
    folder, _, stem = f"/{path}".rpartition("/")
    below = path[len(root) :] if root and path.startswith(f"{root}/") else ""
    if root.startswith("/"):
        below = f"{root}/{path}"
    published = [below, _make_published_path(f"/{path}"), _make_published_path(below)]
    if _POSTS.search(f"/{path}"):
        published.append(f"{_join_categories(fields)}{published[2] or published[1]}")
    places = [_place_names(place) for place in published if place]
    first, second, third = ([name for names in places for name in names[level]] for level in range(3))
    if below:
        first.append(below + whole[len(path) :])
    # Hugo publishes `slug: c` below the root of the site, Starlight from that root.
    first += [place[len(root) + 1 :] for place in relative if root and place.startswith(f"/{root}/")]
    first += _list_addresses(f"/{slug}" for slug in list_names(fields.get("slug")))
    # Docusaurus publishes `docs/a.md` with `slug: /start` as `/docs/start`, and leaves out the prefixes by which files
    # and folders are sorted.
    top = f"{folder}/".split("/")[1]
    first += [f"/{top}{place}" for place in rooted if top]
    if plain_stem := _make_published_path(f"/{stem}"):
        first += _list_addresses([f"{folder}{plain_stem}", f".{folder}{plain_stem}"])
    if plain_folder := _make_published_path(f"{folder}/.")[:-2]:
        first += _find_own_places(plain_folder, fields, is_index=False)[0]
    # Wikis of GitHub name the page `Getting Started` so; Hugo and Foam call `topic/index.md` by the name of its folder.
    weak_names = [stem.replace("-", " "), *([folder.rpartition("/")[2]] if _INDEX.fullmatch(stem) else [])]
    weak_names += [card[1] for card in [_CARD_ID.match(stem)] if card]
    third += [name for weak in weak_names for name in (weak, fold_name(weak))]
    return [first, second, third]


def _place_names(place: str) -> tuple[list[str], list[str], list[str]]:
    """Return the paths that may mean the note in a place, in three tiers.

    `/a/` means the index note of the folder, else its README, else the note `/a/a` or `/a`. To `/a`, the note `/a` is
    the nearest.
    """
    folder, _, stem = place.rpartition("/")
    name = stem.casefold()
    if name in {"index", "_index"}:
        return [place, f"{folder}/"], [folder], [f"{place}/"]
    if name == "readme":
        return [place], [f"{folder}/"], [folder, f"{place}/"]
    if name == folder.rpartition("/")[2].casefold():
        return [place], [], [f"{folder}/", folder, f"{place}/"]
    return [place], [], [f"{place}/"]


def _find_own_places(folder: str, fields: Mapping[str, Any], *, is_index: bool) -> tuple[list[str], list[str]]:
    """Return the addresses that a note declares: below its folder, and from a root."""
    names = [*list_names(fields.get("slug")), *list_names(fields.get("id"))]
    addresses = [path for key in ("permalink", "url", "redirect_from") for path in list_names(fields.get(key))]
    rooted = [f"/{path.lstrip('/')}" for path in addresses]
    rooted += [path for path in (*names, *list_aliases(fields)) if path.startswith("/")]
    # A post in a folder of its own, as `blog/today/index.md`, is published beside that folder.
    bases = [folder, folder.rpartition("/")[0]] if is_index else [folder]
    relative = [f"/{_join(base.split('/')[1:], path)}" for base in bases for path in names if not path.startswith("/")]
    return _list_addresses(relative), _list_addresses(rooted)


def _list_addresses(paths: Iterable[str]) -> list[str]:
    """Return paths as links may write them; a pattern such as `/:year/:title` is none."""
    plain = (_HTML.sub("", _compose(path)).rstrip("/") for path in paths if ":" not in path)
    return [form for path in plain for form in (path, f"{path}/")]


def _make_published_path(path: str) -> str:
    """Return the path at which Jekyll or Docusaurus publish a note, or `""` if it is the same.

    Example:
        >>> [_make_published_path(path) for path in ("/_docs/01-start", "/blog/2024-05-01-hello", "/a/b")]
        ['/docs/start', '/blog/2024/05/01/hello', '']
    """
    published = _COLLECTION.sub("", _DATE.sub(r"\1/\2/\3/", _POSTS.sub("", path)))
    published = _POSITION.sub("", published)
    return "" if published == path else published


def _name_day(stem: str) -> list[str]:
    """Return how links call the notes of a day in Logseq.

    Example:
        >>> _name_day("2024_01_01")
        ['Jan 1st, 2024', '2024-01-01']
    """
    match = _JOURNAL.fullmatch(stem)
    if match is None or not 1 <= int(match[2]) <= 12:
        return []
    day = int(match[3])
    ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return [f"{_MONTHS[int(match[2]) - 1]} {day}{ending}, {match[1]}", "-".join(match.groups())]


def _join_categories(fields: Mapping[str, Any]) -> str:
    """Return the folders below which Jekyll publishes a post, such as `/news/python`."""
    values = [fields.get("categories"), fields.get("category")]
    lists = [value.split() if isinstance(value, str) else value for value in values]
    return "".join(f"/{name.lower()}" for value in lists for name in list_names(value))


def parse_reference(
    written: str, artifact_id: str, *, is_path: bool = False, label_first: bool = False
) -> Reference | None:
    """Return the reference that an author wrote; `None` for URLs and places in the same note.

    It may be a wiki link, a markdown link, a path, or a name.

    Args:
        written: The reference.
        artifact_id: The note that contains it.
        is_path: Whether a text that could be a name is a path, as in `[text](path)`.
        label_first: Whether the label comes first in wiki links with two sides of which neither is an address.

    Raises:
        UnusableReference: If it cannot be looked up.
    """
    written = written.strip()
    if wiki := WIKI_LINK.fullmatch(written):
        return _parse_wiki(wiki[1], artifact_id, label_first=label_first)
    if link := PATH_LINK.fullmatch(written):
        return _parse_path(link[1] or link[2] or "", artifact_id)
    if is_path or written.startswith(("./", "../", "/")) or NOTE_SUFFIX.search(_PATH_END.split(written)[0]):
        return _parse_path(written, artifact_id)
    if not written or _URL.match(written):
        return None
    # A name that could be a path is looked up as both.
    place = _parse_path(written, artifact_id) if "/" in written else None
    name = _compose(written)
    return Reference(place.name, name, place.has_anchor) if place else Reference(name)


def _parse_path(written: str, artifact_id: str) -> Reference | None:
    path, *anchor = _PATH_END.split(written, maxsplit=1)
    if _BLOCK.fullmatch(written):
        raise UnusableReference("references to blocks of Logseq are not followed; link to the page")
    # A name may contain a colon: `re: b.md` is no address of another kind.
    is_file = NOTE_SUFFIX.search(path) and "//" not in path and not path.startswith("mailto:")
    if not path or (_SCHEME.match(path) and not is_file):
        return None
    if _TEMPLATE.search(path):
        raise UnusableReference(
            "a link contains a template of a site generator, such as {{ url }}, and is not followed"
        )
    from urllib.parse import unquote

    path = _HTML.sub("", _compose(unquote(path)).replace("\\", "/"))
    if "\0" in path:
        raise UnusableReference(f"the link {written!r:.80} contains a NUL character, which no file name can contain")
    path = path.removeprefix("@site")  # the root of the site in Docusaurus
    *folders, file = _compose(artifact_id).split("/")
    if path.startswith("/"):
        return Reference(_name_from_root(_join([], path)), None, bool(anchor))
    place = _join(folders, path)
    is_exact = NOTE_SUFFIX.search(place) or place.startswith("../")
    if path.split("/")[0] not in {".", ".."}:
        other = _join([], path)
    elif NOTE_SUFFIX.search(path) or len(_place_names(f"/{strip_suffix(file)}")[0]) > 1:
        other = place
    else:  # from the address of the note, which published notes have as a folder: `../b` in `a.md` is `/b`
        other = _join([*folders, strip_suffix(file)], path)
    or_name = None if other.startswith("../") else f"/{other}"
    return Reference(place if is_exact else f"./{place}", or_name, bool(anchor))


def _name_from_root(place: str) -> str:
    return place if place.startswith("../") else f"/{place}"


def _join(folders: Sequence[str], path: str) -> str:
    """Return a path in a folder, relative to the root of the tree.

    A path of a folder ends with `/`, that of the root is empty, and one out of the root begins with `../`.
    """
    parts, outside = list(folders), 0
    steps = path.split("/")
    for step in steps:
        if step == ".." and parts:
            parts.pop()
        elif step == "..":
            outside += 1
        elif step not in {"", "."}:
            parts.append(step)
    is_folder = parts and steps[-1] in {"", ".", ".."}
    return "../" * outside + "/".join(parts) + "/" * bool(is_folder)


class WikiSide(NamedTuple):
    """One side of `[[one|other]]`.

    Args:
        name: The name or path, without an anchor.
        has_anchor: Whether it has an anchor, as in `a#heading`.
        likeness: How much it looks like an address: 1 for `a.b`, `a#heading`, `a/b` and `a.md`, but 0 for `v1.2`, and
            2 with the name of a vault of Dendron.
    """

    name: str
    has_anchor: bool
    likeness: int


def split_wiki(written: str) -> list[WikiSide]:
    """Return the sides of a wiki link that are not empty.

    Example:
        >>> [(side.name, side.likeness) for side in split_wiki("Tags|topic.tags#new")]
        [('Tags', 0), ('topic.tags', 1)]
    """
    sides = [side for side in map(str.strip, re.split(r"\\?\|", written, maxsplit=1)) if side]
    anchors = _SIDE_ANCHORS if len(sides) == 2 else [_ANCHOR]
    return [_read_side(side, anchor) for side, anchor in zip(sides, anchors, strict=False)]


def _read_side(side: str, anchor: re.Pattern[str]) -> WikiSide:
    name, *rest = anchor.split(_VAULT.sub("", side), maxsplit=1)
    words = strip_suffix(name).split(".")
    is_dotted = all(map(_PART.fullmatch, words)) and sum(not word[0].isdigit() for word in words) > 1
    is_path = " " not in name and ("/" in name or NOTE_SUFFIX.search(name) is not None)
    likeness = 2 if _VAULT.match(side) else int(bool(rest) or is_dotted or is_path)
    return WikiSide(name.strip(), bool(rest), likeness)


def _parse_wiki(written: str, artifact_id: str, *, label_first: bool) -> Reference | None:
    """Return the reference of `[[written]]`, of the side that is the target."""
    sides = split_wiki(written)
    if not sides:
        return None
    # Of equal sides, `max` returns the first.
    ordered = sides[::-1] if label_first else sides
    name, has_anchor, likeness = max(ordered, key=lambda side: side.likeness)
    if not name or name.startswith(("#", "^")) or _URL.match(name):
        return None
    if name.startswith(("./", "../", "/")):
        place = _parse_path(name, artifact_id)
        return place and place._replace(has_anchor=has_anchor)
    # `topic.markdown` may be the name of `topic.markdown.md`, or the file of the note `topic`.
    folded = fold_name(name)
    stem = strip_suffix(folded)
    other = stem if stem != folded else None
    # A label such as `I/O` only looks like an address. So if the order names the other side, that is tried as well.
    if other is None and likeness == 1 and not has_anchor and ordered[0].name != name:
        other = strip_suffix(fold_name(ordered[0].name))
    # In a card index the number counts, and the words after it may be those of an earlier title.
    if other is None and (card := _CARD_ID.match(folded)) and card[1] != folded:
        other = card[1]
    return Reference(folded, other, has_anchor)


def _compose(name: str) -> str:
    return unicodedata.normalize("NFC", name)

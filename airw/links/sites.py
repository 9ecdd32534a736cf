"""What all notes of a tree together tell about their links.

That is the root of their site, and the order of label and target in wiki links.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any, cast
from urllib.parse import unquote

from airw._base.frontmatter import FENCED, strip_suffix
from airw.errors import SourceError
from airw.links._commonmark import read_templates, text_of
from airw.links._note_names import split_wiki
from airw.links.markdown import MarkdownLinks
from airw.protocols import EdgeExtractor
from airw.values import Artifact, fold_name

# The path of a link from a root, in a markdown link, a definition or a tag; an image is none.
_ROOTED = re.compile(r"""(?:(?<!!)\[[^\[\]]*+\](?:\(|:[ \t]*)<?|\b(?:href|to)=["']?)/([^\s()<>"'#?{}]+)""")
_CODE = re.compile(r"`[^`\n]+`")
_TWO_SIDES = re.compile(r"\[\[([^\[\]|\n]+\|[^\[\]\n]+)\]\]")
_LEAST_LINKS = 3  # different ones, that show the address of a tree
_MAX_PARTS = 64  # of a path; the length of all its ends grows with the square of their number
_SUFFIX = re.compile(r"(?:(?:^|/)index)?\.html\Z|/\Z", re.IGNORECASE)
_INDEX = re.compile(r"(?:^|/)(?:_?index|readme)\Z", re.IGNORECASE)


@dataclass(slots=True)
class SiteSurvey:
    """Counts in all notes of a tree where their rooted links and wiki links could lead.

    Of each note its path stays in memory, and of each different link its target.
    """

    _paths: dict[str, None] = field(default_factory=dict)
    _rooted: Counter[str] = field(default_factory=Counter)
    _linking: Counter[str] = field(default_factory=Counter)  # rooted links by the folder of their notes
    _two_sides: Counter[str] = field(default_factory=Counter)

    def add(self, artifacts: Iterable[Artifact]) -> None:
        """Count the links of more notes; an artifact without text has none."""
        for artifact in artifacts:
            if artifact.id in self._paths:
                continue
            self._paths[artifact.id] = None
            try:
                text = text_of(artifact)
            except SourceError:  # the extraction of its links will report it
                continue
            if "](" in text or "]:" in text or "=" in text:
                plain = read_templates(_CODE.sub("", FENCED.sub("", text)))
                paths = [fold_name(unquote(path)) for path in _ROOTED.findall(plain)]
                self._rooted.update(strip_suffix(_SUFFIX.sub("", path)) for path in paths)
                self._linking[artifact.id.rpartition("/")[0]] += len(paths)
            if "|" in text:
                self._two_sides.update(_TWO_SIDES.findall(text))

    def find_root(self) -> str:
        """Return the folder under which most rooted links lead to a note.

        Of equals, it is the highest, then the one whose notes contain most of these links. It is `""` for the root of
        the tree. If more links lead to a note without their beginning, as `/docs/a` to `a.md`, it is that beginning,
        `/docs`.
        """
        places = [_INDEX.sub("", strip_suffix(id)) for id in self._paths]
        votes = self._count_folders(places) | self._count_addresses(set(map(fold_name, places)))

        def rank(root: str) -> tuple[Any, ...]:
            inside = sum(count for folder, count in self._linking.items() if f"{folder}/".startswith(f"{root}/"))
            return -votes[root], root.startswith("/"), len(root.split("/")), -inside, root

        most = max(votes.values(), default=0)
        return min((root for root in votes if votes[root] == most), key=rank, default="")

    def _count_folders(self, places: Sequence[str]) -> Counter[str]:
        """Return for each folder the number of links that lead to a note below it."""
        counts: Counter[str] = Counter()
        found: set[tuple[str, str]] = set()
        for place in places:
            parts = place.split("/")
            for start in range(max(0, len(parts) - _MAX_PARTS), len(parts)):
                folder, end = "/".join(parts[:start]), fold_name("/".join(parts[start:]))
                if end in self._rooted and (folder, end) not in found:  # an index and a note may have one place
                    found.add((folder, end))
                    counts[folder] += self._rooted[end]
        return counts

    def _count_addresses(self, places: Collection[str]) -> Counter[str]:
        """Return for each address of the whole tree the number of links that lead to a note."""
        links: dict[str, list[str]] = {}
        for link in self._rooted:
            parts = link.split("/")
            for start in range(1, len(parts) if len(parts) <= _MAX_PARTS else 0):
                if "/".join(parts[start:]) in places:
                    links.setdefault("/".join(["", *parts[:start]]), []).append(link)
        # One link alone does not tell an address from a link to nothing.
        certain = {each: own for each, own in links.items() if max(_LEAST_LINKS, len(self._rooted) / 2) <= len(own)}
        return Counter({address: sum(self._rooted[link] for link in own) for address, own in certain.items()})

    def has_labels_first(self) -> bool:
        """Return whether wiki links with two sides mostly have their target on the right.

        A link counts if one side is the name of a note, and the other is not, or looks less like an address. A single
        link between plain names may have a label that is a note by chance, so two are needed.
        """
        paths = [strip_suffix(fold_name(id)) for id in self._paths]
        names = {*paths, *(path.rpartition("/")[2] for path in paths)}
        plain = addresses = 0
        for written, count in self._two_sides.items():
            found = [
                1 + side.likeness if strip_suffix(fold_name(side.name)) in names else 0 for side in split_wiki(written)
            ]
            if len(found) == 2 and found[0] != found[1]:
                votes = count if found[1] > found[0] else -count
                plain += votes if max(found) == 1 else 0
                addresses += votes if max(found) > 1 else 0
        return plain + addresses > 0 and (addresses > 0 or plain > 1)

    def prepare(self, extractor: EdgeExtractor) -> EdgeExtractor:
        """Return the extractor, and those within it, with what the survey found."""
        return with_site(extractor, self.find_root(), label_first=self.has_labels_first())


def with_site(extractor: EdgeExtractor, root: str, *, label_first: bool) -> EdgeExtractor:
    """Return an extractor of markdown links for the site that an earlier build found."""
    if isinstance(extractor, MarkdownLinks):
        found = "" if extractor.root is not None else root
        return replace(extractor, found_root=found, label_first=label_first)
    inner = getattr(extractor, "inner", None)
    if inner is None or not is_dataclass(extractor):
        return extractor
    prepared = with_site(inner, root, label_first=label_first)
    return extractor if prepared == inner else cast("EdgeExtractor", replace(extractor, inner=prepared))


def site_of(extractor: EdgeExtractor) -> dict[str, Any] | None:
    """Return what an extractor knows of its site, as JSON, if it reads markdown links.

    Example:
        >>> site_of(MarkdownLinks(found_root="docs"))
        {'root': 'docs', 'label_first': False}
    """
    if isinstance(extractor, MarkdownLinks):
        return {"root": extractor.found_root, "label_first": extractor.label_first}
    inner = getattr(extractor, "inner", None)
    return None if inner is None else site_of(inner)

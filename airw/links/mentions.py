"""Mentions: the titles of other notes in the text of a note, without a link to them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_count, check_number
from airw._base.frontmatter import note_title, read_frontmatter
from airw._base.messages import short_repr
from airw.errors import ArgumentError, SourceError
from airw.links._commonmark import paragraphs, text_of
from airw.links._note_names import fold, listed, scalar
from airw.links.markdown import MarkdownLinks
from airw.protocols import CorpusWideExtractor, EdgeExtractor
from airw.values import Artifact, Extraction, Link

_FEW = 10
_WORD = re.compile(r"\w+")
_EDGE = re.compile(r"\b")
_EMPHASIS = re.compile(r"(?<!\w)_+|_+(?!\w)")
_SPACES = re.compile(r"[^\S \n]+|  +")
_CELLS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleMentions:
    r"""Find the links that another extractor finds, and where the text of a note names other notes by their titles.

    A mention is a link of the origin `"derived"` with file and line, one for each note that is named: where it comes
    first. Titles and the frontmatter's `aliases` are looked for without regard to case, as whole words, also across
    the end of a line; of two that overlap the one that begins first counts, then the longer one. Code, comments, HTML
    tags, frontmatter, links, their texts and addresses are no place for a mention. A note that the other extractor
    finds a link to is mentioned all the same: what a link leads to is known only when it is resolved.

    Not looked for are titles that are too short or too common. Those that several notes have are no mention of either,
    nor of a note whose title is a part of them. In scripts without spaces between words a title is a word only where
    other marks surround it.

    All titles must be known before the first note is read: `build` reads the source once more for that, and where any
    title has come, gone or changed, finds the links of every note again, without embedding it. A title that is put in
    by hand counts from the next build on.

    Args:
        inner: Finds the links; its names are those of the notes.
        type: The type of mentions.
        min_chars: The length of the shortest title that is looked for.
        max_share: A title is too common when more than this share of the notes, and more than ten of them, hold all its
            words; of several words the shares are multiplied, as if each came by itself.

    Raises:
        ArgumentError: A value cannot be used.

    Example:
        >>> notes = [Artifact("sort.md", "# Merge sort"), Artifact("a.md", "It runs a merge\nsort first.")]
        >>> [(link.target_ref, link.line) for link in TitleMentions().over(notes).extract(notes[1], {}).links]
        [('sort.md', 1)]
    """

    inner: EdgeExtractor = field(default_factory=MarkdownLinks)
    type: str = "mentions"
    min_chars: int = 4
    max_share: float = 0.1

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        if not isinstance(self.inner, EdgeExtractor) or isinstance(self.inner, CorpusWideExtractor):
            raise ArgumentError(
                f"inner must be an extractor that reads one artifact at a time, not {short_repr(self.inner)}"
            )
        if not isinstance(self.type, str) or not self.type:
            raise ArgumentError(f"type must be a non-empty string, not {short_repr(self.type)}")
        check_count("min_chars", self.min_chars, least=1)
        check_number("max_share", self.max_share, least=0, most=1)

    @property
    def id(self) -> str:
        """Name the extractor and its settings."""
        return f"TitleMentions({self.inner.id}, {self.type!r}, {self.min_chars}, {self.max_share})"

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Refuse: what `survey` or `over` gives finds links.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError("TitleMentions must know all titles first: build() tells it, else use over(artifacts)")

    def survey(self) -> "TitleSurvey":
        """Begin to collect the titles of all notes.

        Raises:
            ArgumentError: What looks for them is not installed.
        """
        _automaton(["title"])
        return TitleSurvey(self)

    def over(self, artifacts: Iterable[Artifact]) -> "MentionFinder":
        """Give the extractor that knows the titles of these notes, for an ingest in partitions, say.

        Raises:
            ArgumentError: What looks for them is not installed.
        """
        survey = self.survey()
        survey.add(artifacts)
        return survey.extractor()


class TitleSurvey:
    """Collects the titles of notes, and how common their words are; what it holds of a note is its titles."""

    def __init__(self, settings: TitleMentions) -> None:
        self._settings = settings
        self._seen: set[str] = set()
        self._holder: dict[str, str] = {}
        self._words = _WordCounts()

    def add(self, artifacts: Iterable[Artifact]) -> None:
        """Collect the titles of some more notes; an artifact without text has none."""
        for artifact in artifacts:
            if artifact.id in self._seen:
                continue
            self._seen.add(artifact.id)
            try:
                text = text_of(artifact)
            except SourceError:  # which it will be again when its links are asked for
                continue
            self._words.add(_folded(text))
            for title in _titles_of(artifact, text):
                if self._holder.setdefault(title, artifact.id) != artifact.id:
                    self._holder[title] = ""

    def extractor(self) -> "MentionFinder":
        """Give the extractor that knows the titles collected."""
        titles = {title: holder for title, holder in sorted(self._holder.items()) if self._telling(title)}
        return MentionFinder(self._settings.inner, self._settings.type, titles)

    def _telling(self, title: str) -> bool:
        most = max(self._settings.max_share, _FEW / self._words.texts)
        return len(title) >= self._settings.min_chars and self._words.share(title) <= most


@dataclass(frozen=True, slots=True)
class MentionFinder:
    """What `TitleMentions` becomes once all titles are known.

    Args:
        inner: Finds the links.
        type: The type of mentions.
        titles: The note of each title, folded; `""` where several have it.

    Raises:
        ArgumentError: A title is blank or no text, or what looks for them is not installed.
    """

    inner: EdgeExtractor
    type: str
    titles: Mapping[str, str] = field(repr=False)
    id: str = field(init=False, compare=False)
    _targets: Sequence[str] = field(init=False, repr=False, compare=False)
    _automaton: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make what finds the titles."""
        if not all(isinstance(title, str) and title and isinstance(note, str) for title, note in self.titles.items()):
            raise ArgumentError(f"titles must map a title to the id of its note, not be {short_repr(self.titles)}")
        said = json.dumps(sorted(self.titles.items()))
        digest = blake2b(said.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        object.__setattr__(self, "id", f"MentionFinder({self.inner.id}, {self.type!r}, titles={digest})")
        object.__setattr__(self, "_targets", list(self.titles.values()))
        object.__setattr__(self, "_automaton", _automaton([_edged(title) for title in self.titles]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without the automaton."""
        return MentionFinder, (self.inner, self.type, self.titles)

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Give the links of the inner extractor, then the mentions in order of line; and its names.

        Raises:
            SourceError: The raw value is neither a string nor a mapping with a string `text`.
        """
        found = self.inner.extract(artifact, fields)
        problems = list(found.problems)
        lines = self._lines(artifact.id, text_of(artifact), problems)
        mentions = [Link(target, self.type, "derived", file=artifact.id, line=line) for target, line in lines.items()]
        return Extraction([*found.links, *mentions], found.names, problems)

    def _lines(self, own: str, text: str, problems: list[str]) -> dict[str, int]:
        """Give the first line where each other note is named."""
        lines = {own: 0}
        for paragraph in paragraphs(text):
            named = self._named(paragraph.text, paragraph.line)
            if named.keys() <= lines.keys():  # so that few paragraphs have to be read for what is no prose
                continue
            if paragraph.unreadable:
                problems.append(f"too many brackets on one line: not read for mentions (line {paragraph.line})")
                continue
            lines = (named if paragraph.plain else self._named(paragraph.prose(), paragraph.line)) | lines
        del lines[own]
        return dict(sorted(lines.items(), key=lambda each: each[1]))

    def _named(self, text: str, line: int) -> dict[str, int]:
        """Give the notes that a text names, and the first line where it names each."""
        lines, read, named = _edged(_folded(text)), 0, dict[str, int]()
        # Edges are part of what is looked for, so that of whole words alone the first and the longest are found.
        for title, start, _ in self._automaton.find_matches_as_indexes(lines.replace("\n", " ")):
            line += lines.count("\n", read, start)
            read = start
            if target := self._targets[title]:
                named.setdefault(target, line)
        return named


def _automaton(patterns: Sequence[str]) -> Any:
    try:
        from ahocorasick_rs import AhoCorasick, MatchKind
    except ImportError as error:
        raise ArgumentError("mentions of titles need ahocorasick-rs: pip install 'airw[mentions]'") from error
    return AhoCorasick(patterns, matchkind=MatchKind.LeftmostLongest)


def _folded(text: str) -> str:
    """Fold case, composition and white space, and drop underscores around words; lines stay lines."""
    text = _SPACES.sub(" ", text.lower() if text.isascii() else fold(text))
    text = _EMPHASIS.sub("", text) if "_" in text else text
    return text.replace(" \n", "\n").replace("\n ", "\n")


def _edged(text: str) -> str:
    """Mark where words begin and end, so that one text is found in another only as whole words."""
    return _EDGE.sub("\1", text)


def _titles_of(artifact: Artifact, text: str) -> Iterator[str]:
    """Yield the title and the aliases of a note, folded; those without a letter or digit are left out."""
    front = read_frontmatter(text)
    declared = {**artifact.metadata, **front.fields}
    title = note_title(artifact.id, declared, text, front.body)
    for name in (title, *map(scalar, listed(declared.get("aliases")))):
        if _WORD.search(called := " ".join(_folded(name or "").split())):
            yield called


class _WordCounts:
    """Counts in how many texts each word is, in 8 MB whatever the vocabulary and whatever the order of the texts.

    A count is never too low. It is too high where the words that share its two cells, as few do, are in more texts.
    """

    def __init__(self) -> None:
        self.texts = 0
        self._counts = np.zeros((2, _CELLS), np.uint32)

    def add(self, text: str) -> None:
        """Count the words of a folded text."""
        self.texts += 1
        for row, cells in zip(self._counts, _cells(list(set(_WORD.findall(text)))), strict=True):
            row[np.unique(cells)] += np.uint32(1)

    def share(self, title: str) -> float:
        """Return the share of texts that would hold all words of a folded title if each word came by itself."""
        rows = zip(self._counts, _cells(sorted(set(_WORD.findall(title)))), strict=True)
        return float(np.prod(np.min([row[cells] for row, cells in rows], axis=0) / self.texts))


def _cells(words: Sequence[str]) -> NDArray[Any]:
    """Return the cell of each word in either row."""
    hashes = np.array([crc32(word.encode("utf-8", "surrogatepass")) for word in words], np.uint32)
    return np.stack([hashes % _CELLS, hashes >> 12])

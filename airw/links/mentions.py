"""Mentions: titles of other notes in the text of a note, without a link."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from airw.links._note_names import as_list, to_text
from airw.links.markdown import MarkdownLinks
from airw.protocols import CorpusWideExtractor, EdgeExtractor
from airw.values import Artifact, Extraction, Link, fold_name

_MAX_CHARS = 500  # of a title; a longer one is no name, and the search needs memory for each character
_NEVER_COMMON = 10  # notes: a title in so few is never too common, whatever their share
_WORD = re.compile(r"\w+")
_WORD_EDGE = re.compile(r"\b")
_EMPHASIS = re.compile(r"(?<!\w)_+|(?<!_)_++(?!\w)")
_SPACES = re.compile(r"[^\S \n]+|  +")
_CELLS = 1 << 20  # per row of counts


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleMentions:
    r"""An edge extractor that adds mentions to the links of another extractor.

    A mention is the title of another note in the text. It becomes a link with the origin `"derived"`, a file and a
    line: one per mentioned note, at its first place. The search is for titles and the `aliases` of the frontmatter, in
    any case, as whole words, also across the end of a line. If two titles overlap, the one that begins first counts,
    then the longer one. Code, comments, HTML tags, frontmatter, links with their texts, and URLs are skipped. A note
    can be mentioned and linked in the same text: the target of a link is known only after the extraction.

    Titles that are too short, longer than 500 characters, or too common are skipped. A title of several notes is a
    mention of none of them. It also hides shorter titles that are part of it. In scripts without spaces between words,
    a title is found only between other characters, such as punctuation.

    All titles must be known before the first note is read. So `build` reads the source twice. If a title appeared,
    disappeared or changed, it extracts the links of every note again, without embedding them. The title of a note from
    `upsert` counts from the next build on.

    Args:
        inner: The extractor of the other links. It also returns the names of the notes.
        type: The type of mentions.
        min_chars: The length of the shortest title to search for.
        max_share: The share of notes from which on a title is too common: more notes than this, and more than ten,
            contain all its words. The shares of several words are multiplied, as if words were independent.

    Raises:
        ArgumentError: If a parameter is not valid.

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
        """Check all parameters."""
        if not isinstance(self.inner, EdgeExtractor) or isinstance(self.inner, CorpusWideExtractor):
            raise ArgumentError(
                f"inner must be an extractor that needs only one artifact at a time, not {short_repr(self.inner)}"
            )
        if not isinstance(self.type, str) or not self.type:
            raise ArgumentError(f"type must be a non-empty string, not {short_repr(self.type)}")
        check_count("min_chars", self.min_chars, least=1)
        check_number("max_share", self.max_share, least=0, most=1)

    @property
    def id(self) -> str:
        """The extractor id: the class and its settings."""
        return f"TitleMentions({self.inner.id}, {self.type!r}, {self.min_chars}, {self.max_share})"

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Raise an error: extraction needs all titles, so use the result of `survey` or `over`.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError("TitleMentions.extract cannot read one artifact alone; use build() or over(artifacts)")

    def survey(self) -> "TitleSurvey":
        """Return a survey that collects the titles of all notes.

        Raises:
            ArgumentError: If the library for the search is not installed.
        """
        _build_automaton(["title"])  # fails now rather than after a long survey
        return TitleSurvey(self)

    def over(self, artifacts: Iterable[Artifact]) -> "MentionFinder":
        """Return an extractor that knows the titles of these notes; partitioned ingests need it.

        Raises:
            ArgumentError: If the library for the search is not installed.
        """
        survey = self.survey()
        survey.add(artifacts)
        return survey.extractor()


class TitleSurvey:
    """Collects the titles of notes, and counts how common their words are.

    Of each note only its id and its titles stay in memory.
    """

    def __init__(self, settings: TitleMentions) -> None:
        self._settings = settings
        self._seen_ids: set[str] = set()
        self._note_of: dict[str, str] = {}  # by title; empty if several notes have it
        self._words = _WordCounts()

    def add(self, artifacts: Iterable[Artifact]) -> None:
        """Collect the titles of more notes; an artifact without text has none."""
        for artifact in artifacts:
            if artifact.id in self._seen_ids:
                continue
            self._seen_ids.add(artifact.id)
            try:
                text = text_of(artifact)
            except SourceError:  # the extraction of its links will report it
                continue
            self._words.add(_fold_text(text))
            for title in _titles_of(artifact, text):
                if self._note_of.setdefault(title, artifact.id) != artifact.id:
                    self._note_of[title] = ""

    def extractor(self) -> "MentionFinder":
        """Return an extractor that knows the collected titles."""
        titles = {title: note for title, note in sorted(self._note_of.items()) if self._is_distinctive(title)}
        return MentionFinder(self._settings.inner, self._settings.type, titles)

    def _is_distinctive(self, title: str) -> bool:
        max_share = max(self._settings.max_share, _NEVER_COMMON / self._words.text_count)
        has_length = self._settings.min_chars <= len(title) <= _MAX_CHARS
        return has_length and self._words.share(title) <= max_share


@dataclass(frozen=True, slots=True)
class MentionFinder:
    """The extractor that `TitleMentions` makes once all titles are known.

    It searches for all titles in one pass over a text, however many they are, by an automaton (Aho and Corasick,
    Efficient String Matching, 1975).

    Args:
        inner: The extractor of the other links.
        type: The type of mentions.
        titles: The id of the note for each folded title; `""` if several notes have the title.

    Raises:
        ArgumentError: If a title is empty, too long or not a string, or the library for the search is not installed.
    """

    inner: EdgeExtractor
    type: str
    titles: Mapping[str, str] = field(repr=False)
    id: str = field(init=False, compare=False)
    _targets: Sequence[str] = field(init=False, repr=False, compare=False)
    _automaton: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the titles and build the automaton."""
        if not all(isinstance(title, str) and title and isinstance(note, str) for title, note in self.titles.items()):
            raise ArgumentError(f"titles must be a mapping of titles to note ids, not {short_repr(self.titles)}")
        if longest := max((title for title in self.titles if len(title) > _MAX_CHARS), key=len, default=None):
            raise ArgumentError(
                f"a title has at most {_MAX_CHARS} characters, not {len(longest)}: {short_repr(longest)}"
            )
        if not isinstance(self.type, str) or not self.type:
            raise ArgumentError(f"type must be a non-empty string, not {short_repr(self.type)}")
        # The id depends on all titles: if one changes, a build extracts the links of every note again.
        text = json.dumps(sorted(self.titles.items()))
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        object.__setattr__(self, "id", f"MentionFinder({self.inner.id}, {self.type!r}, titles={digest})")
        object.__setattr__(self, "_targets", list(self.titles.values()))
        automaton = _build_automaton([_mark_word_edges(title) for title in self.titles])
        object.__setattr__(self, "_automaton", automaton)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the titles without the automaton, which is built again."""
        return MentionFinder, (self.inner, self.type, self.titles)

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Return the links and names of the inner extractor, and the mentions in order of line.

        Raises:
            SourceError: If the raw value is neither a string nor a mapping with a string `text`.
        """
        inner = self.inner.extract(artifact, fields)
        problems = list(inner.problems)
        lines = self._mention_lines(artifact.id, text_of(artifact), problems)
        mentions = [Link(target, self.type, "derived", file=artifact.id, line=line) for target, line in lines.items()]
        return replace(inner, links=[*inner.links, *mentions], problems=problems)

    def _mention_lines(self, artifact_id: str, text: str, problems: list[str]) -> dict[str, int]:
        """Return the first line where each other note is mentioned, in order of line."""
        lines = {artifact_id: 0}  # a note does not mention itself
        for paragraph in paragraphs(text):
            # Search the raw text first: only the few paragraphs with new titles need the slow search for markup.
            mentioned = self._search_titles(paragraph.text, paragraph.line)
            if mentioned.keys() <= lines.keys():
                continue
            if paragraph.is_unreadable:
                problems.append(f"too many brackets on one line; mentions on it are not read (line {paragraph.line})")
                continue
            if not paragraph.is_prose:
                mentioned = self._search_titles(paragraph.mask_markup(), paragraph.line)
            for note, line in mentioned.items():
                lines.setdefault(note, line)
        del lines[artifact_id]
        return dict(sorted(lines.items(), key=lambda item: item[1]))

    def _search_titles(self, text: str, line: int) -> dict[str, int]:
        """Return the notes whose titles are in a text, each with the first line of its title."""
        text = _mark_word_edges(_fold_text(text))
        counted = 0  # newlines before this position are in `line` already
        first_lines: dict[str, int] = {}
        # Titles and text contain marks at the edges of words. So the automaton matches whole words only, and picks the
        # first and longest title among these.
        for index, start, _ in self._automaton.find_matches_as_indexes(text.replace("\n", " ")):
            line += text.count("\n", counted, start)
            counted = start
            if target := self._targets[index]:
                first_lines.setdefault(target, line)
        return first_lines


def _build_automaton(patterns: Sequence[str]) -> Any:
    try:
        from ahocorasick_rs import AhoCorasick, MatchKind
    except ImportError as error:
        raise ArgumentError("TitleMentions needs ahocorasick-rs: pip install 'airw[mentions]'") from error
    return AhoCorasick(patterns, matchkind=MatchKind.LeftmostLongest)


def _fold_text(text: str) -> str:
    """Fold case, composition and white space; remove emphasis by `_`; newlines stay."""
    text = _SPACES.sub(" ", fold_name(text))
    text = _EMPHASIS.sub("", text) if "_" in text else text
    return text.replace(" \n", "\n").replace("\n ", "\n")


def _mark_word_edges(text: str) -> str:
    return _WORD_EDGE.sub("\1", text)


def _titles_of(artifact: Artifact, text: str) -> Iterator[str]:
    """Yield the title and the aliases of a note, folded; skip those without a letter or digit."""
    front = read_frontmatter(text)
    fields = {**artifact.metadata, **front.fields}
    title = note_title(artifact.id, fields, text, front.body)
    for name in (title, *map(to_text, as_list(fields.get("aliases")))):
        folded_name = " ".join(_fold_text(name or "").split())
        if _WORD.search(folded_name):
            yield folded_name


class _WordCounts:
    """The number of texts that contain each word, in 8 MB of memory for any vocabulary.

    It is a count-min sketch (Cormode and Muthukrishnan, 2005) of two rows: a word has a cell in each, and the lower of
    the two counts is its count. It is never too low. It is too high only if other words share both cells, which is
    rare. The order of the texts does not matter.
    """

    def __init__(self) -> None:
        self.text_count = 0
        self._counts = np.zeros((2, _CELLS), np.uint32)

    def add(self, text: str) -> None:
        """Count the words of a folded text."""
        self.text_count += 1
        for row, cells in zip(self._counts, _cells_of(list(set(_WORD.findall(text)))), strict=True):
            row[np.unique(cells)] += np.uint32(1)

    def share(self, title: str) -> float:
        """Return the share of texts with all words of a title, if words are independent."""
        rows = zip(self._counts, _cells_of(sorted(set(_WORD.findall(title)))), strict=True)
        return float(np.prod(np.min([row[cells] for row, cells in rows], axis=0) / self.text_count))


def _cells_of(words: Sequence[str]) -> NDArray[Any]:
    """Return the cells of words, `(2, n)`: one per row of the sketch."""
    hashes = np.array([crc32(word.encode("utf-8", "surrogatepass")) for word in words], np.uint32)
    return np.stack([hashes % _CELLS, hashes >> 12])

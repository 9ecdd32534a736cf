"""Shared names: links between notes that have a rare name in common."""

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from airw._base.checks import check_count, check_filled
from airw._base.frontmatter import note_title, read_frontmatter
from airw._base.messages import short_repr
from airw.errors import ArgumentError, SourceError
from airw.links._commonmark import paragraphs, text_of
from airw.links._word_counts import WordCounts, hash_word
from airw.links.markdown import MarkdownLinks
from airw.links.mentions import LAST_PARENTHESES, digest_of, is_id_list, normalize_text
from airw.protocols import CorpusWideExtractor, EdgeExtractor, Survey
from airw.values import Artifact, Extraction, Link, fold_name, round_weight

_MIN_CHARS = 4  # of a name; most shorter ones mean several things
_MAX_WORDS = 10  # of a name; more capitals in a row are a heading
_WORD = re.compile(r"\w+")
_JOINTS = ["of", "the", "de", "del", "della", "di", "da", "du", "la", "le", "van", "von", "der", "den"]
# A word that may begin with a capital, or an initial such as "J."; Python then asks for the capital.
_PART = r"(?:[^\W\d_a-z]\w?\.(?= )|[^\W\d_a-z][\w'\u2019-]*+)"
_RUN = re.compile(rf"(?<![\w'\u2019-]){_PART}(?:[ \n](?:(?:{'|'.join(_JOINTS)})[ \n]){{0,2}}{_PART})*")
_TITLE_WORD = re.compile(r"[\w'\u2019-]+")
_POSSESSIVE = re.compile(r"['\u2019]s?\Z")
# The text before a word that does not begin a sentence: a word, a comma, or an opening quotation mark.
_INSIDE = re.compile(r"[\w,)'\"\u2019\u201d-][ \n]\Z|[('\"\u2018\u201c]\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedNames:
    """An edge extractor that adds links between notes with a rare name in common.

    Two passages about "Hedy Lamarr" belong together, even if no note has this title and neither links to the other. A
    name is a run of words with capitals; small words such as "of" may stand between them. It counts if 2 to `rare`
    notes hold it. A link has the origin `"derived"`, a file and a line: that of the first shared name. It is a guess,
    so its weight is below 1. A note that `inner` mentions already gets no second link.

    - At the beginning of a sentence, the first word may be an ordinary one: "When Hedy Lamarr" is also "Hedy Lamarr".
      A single word there is no name.
    - A name of one word counts only if at most as many notes have the word in small letters.
    - The title of a note, without parentheses at its end, is one of its names.
    - Scripts without capital letters have no such names, so notes in them get no links. In German, where all nouns have
      a capital, rare nouns count as names.

    These links help where texts name what others are about, as in an encyclopaedia. They rarely help elsewhere: two
    news items that share a name are about the same event at best. `diagnose()` measures that as `named`.

    All names must be known before the first note is read, as for `TitleMentions`. If a shared name appeared or
    disappeared, a build extracts the links of every note again, without embedding them. Of each note, the survey keeps
    its id and 16 bytes for each of its names.

    Args:
        inner: The extractor of the other links; it may be `TitleMentions`.
        type: The type of the links.
        rare: The most notes that may share a name.
        weight: The weight of the links.

    Raises:
        ArgumentError: If a parameter is not valid.

    Example:
        >>> notes = [Artifact("a.md", "Patented by Hedy Lamarr."), Artifact("film.md", "Hedy Lamarr starred.")]
        >>> [(link.target_ref, link.weight) for link in SharedNames().over(notes).extract(notes[0], {}).links]
        [('film.md', 0.85)]
    """

    inner: EdgeExtractor = field(default_factory=MarkdownLinks)
    type: str = "shares"
    rare: int = 5
    weight: float = 0.85

    def __post_init__(self) -> None:
        """Check all parameters."""
        if not isinstance(self.inner, EdgeExtractor) or isinstance(self.inner, SharedNames):
            raise ArgumentError(f"inner must be an extractor of other links, not {short_repr(self.inner)}")
        check_filled("type", self.type)
        check_count("rare", self.rare, least=2)
        object.__setattr__(self, "weight", round_weight("weight", self.weight))

    @property
    def id(self) -> str:
        """The extractor id: the class and its settings."""
        return f"SharedNames({self.inner.id}, {self.type!r}, {self.rare}, {self.weight})"

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Raise an error: extraction needs all names, so use the result of `survey` or `over`.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError("SharedNames.extract cannot read one artifact alone; use build() or over(artifacts)")

    def survey(self) -> "NameSurvey":
        """Return a survey that collects the names in all notes.

        Raises:
            ArgumentError: If the library that `inner` searches with is not installed.
        """
        return NameSurvey(self)

    def over(self, artifacts: Iterable[Artifact]) -> "SharedNameFinder":
        """Return an extractor that knows the names in these notes; partitioned ingests need it."""
        survey = self.survey()
        survey.add(artifacts)
        return survey.extractor()


class NameSurvey:
    """Collects the names in notes, as hashes, and counts the words that are written small."""

    def __init__(self, settings: SharedNames) -> None:
        self._settings = settings
        inner = settings.inner
        self._inner: Survey | None = inner.survey() if isinstance(inner, CorpusWideExtractor) else None
        self._ids: dict[str, int] = {}
        # One entry per name and note: the hash of the name, the number of the note, and the hash of the word if it is
        # one word, else 0.
        self._hashes, self._holders, self._words = array("Q"), array("I"), array("I")
        self._small_words = WordCounts()

    def add(self, artifacts: Iterable[Artifact]) -> None:
        """Collect the names in more notes; an artifact without text has none."""
        for artifact in artifacts:
            if self._inner is not None:
                self._inner.add([artifact])
            if artifact.id in self._ids:
                continue
            number = self._ids[artifact.id] = len(self._ids)
            try:
                text = text_of(artifact)
            except SourceError:  # the extraction of its links will report it
                continue
            words = {*_WORD.findall(text), *_TITLE_WORD.findall(text)}
            self._small_words.add({fold_name(word) for word in words if word.islower()})
            for name in _find_names(artifact, text):
                self._hashes.append(_hash(name))
                self._holders.append(number)
                self._words.append(0 if " " in name else hash_word(name))

    def extractor(self) -> "SharedNameFinder":
        """Return an extractor that knows the names that few notes share."""
        settings = self._settings
        inner = settings.inner if self._inner is None else self._inner.extractor()
        ids, names = list(self._ids), dict[str, Sequence[str]]()
        for name, holders in self._iterate_shared():
            names[f"{name:016x}"] = sorted(ids[number] for number in holders)
        return SharedNameFinder(inner, settings.type, settings.weight, dict(sorted(names.items())))

    def _iterate_shared(self) -> Iterator[tuple[int, list[int]]]:
        """Yield the hash and the notes of each name that few notes share."""
        hashes, holders, words = (np.array(column, np.uint64) for column in (self._hashes, self._holders, self._words))
        order = np.argsort(hashes, kind="stable")
        hashes, holders, words = hashes[order], holders[order], words[order]
        starts = np.flatnonzero(np.r_[True, hashes[1:] != hashes[:-1]]) if len(hashes) else np.empty(0, np.int64)
        counts = np.diff(np.r_[starts, len(hashes)])
        shared = (counts >= 2) & (counts <= self._settings.rare)
        starts, counts = starts[shared], counts[shared]
        # A word that more notes have in small letters is no name.
        is_name = (words[starts] == 0) | (self._small_words.counts(words[starts].astype(np.uint32)) <= counts)
        for start, count in zip(starts[is_name].tolist(), counts[is_name].tolist(), strict=True):
            yield int(hashes[start]), holders[start : start + count].astype(int).tolist()


@dataclass(frozen=True, slots=True)
class SharedNameFinder:
    """The extractor that `SharedNames` makes once all names are known.

    Args:
        inner: The extractor of the other links.
        type: The type of the links.
        weight: The weight of the links.
        names: The ids of the notes that share a name, by its hash in hexadecimal.

    Raises:
        ArgumentError: If a parameter is not valid.
    """

    inner: EdgeExtractor
    type: str
    weight: float
    names: Mapping[str, Sequence[str]] = field(repr=False)
    id: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Check the names."""
        if not all(isinstance(name, str) and is_id_list(notes) for name, notes in self.names.items()):
            raise ArgumentError(f"names must be a mapping of hashes to lists of ids, not {short_repr(self.names)}")
        check_filled("type", self.type)
        object.__setattr__(self, "weight", round_weight("weight", self.weight))
        # The id depends on all names: if one changes, a build extracts the links of every note again.
        digest = digest_of(sorted((name, list(notes)) for name, notes in self.names.items()))
        object.__setattr__(
            self, "id", f"SharedNameFinder({self.inner.id}, {self.type!r}, {self.weight}, names={digest})"
        )

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Return what the inner extractor does, and the links by shared names, in order of line.

        Raises:
            SourceError: If the raw value is neither text nor a mapping of fields.
        """
        inner = self.inner.extract(artifact, fields)
        known = {artifact.id, *(link.target_ref for link in inner.links if link.origin == "derived")}
        lines: dict[str, int] = {}
        for name, line in _find_names(artifact, text_of(artifact)).items():
            for note in self.names.get(f"{_hash(name):016x}", ()):
                if note not in known:
                    lines[note] = min(line, lines.get(note, line))
        shared = [
            Link(note, self.type, "derived", file=artifact.id, line=line, weight=self.weight)
            for note, line in sorted(lines.items(), key=lambda item: (item[1], item[0]))
        ]
        return replace(inner, links=[*inner.links, *shared])


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class _Run(NamedTuple):
    """A run of words with capitals: the name, its line, and whether it begins a sentence."""

    words: list[str]
    line: int
    is_first: bool


def _find_names(artifact: Artifact, text: str) -> dict[str, int]:
    """Return the names in a note, folded, each with its first line."""
    lines: dict[str, int] = {}
    front = read_frontmatter(text)
    title = note_title(artifact.id, {**artifact.metadata, **front.fields}, text, front.body) or ""
    if any(map(str.isupper, title)):
        name = LAST_PARENTHESES.sub("", normalize_text(title, is_cased=True))
        _add_name(lines, _TITLE_WORD.findall(name), 1)
    if title and text.startswith(f"{title}\n"):  # a title above the text, which is no part of its first sentence
        text = "\0" * len(title) + text[len(title) :]
    for run in _find_runs(text):
        if not run.is_first:
            _add_name(lines, run.words, run.line)
        elif len(run.words) > 1:
            _add_name(lines, run.words, run.line)
            _add_name(lines, run.words[1:], run.line)
    return lines


def _add_name(lines: dict[str, int], words: Sequence[str], line: int) -> None:
    name = fold_name(" ".join(words))
    if len(name) >= _MIN_CHARS and len(words) <= _MAX_WORDS:
        lines.setdefault(name, line)


def _find_runs(text: str) -> Iterator[_Run]:
    """Yield the runs of words with capitals in the prose of a text."""
    for paragraph in paragraphs(text):
        if paragraph.is_unreadable:
            continue
        prose = normalize_text(paragraph.text if paragraph.is_prose else paragraph.mask_markup(), is_cased=True)
        line, counted = paragraph.line, 0
        for match in _RUN.finditer(prose):
            start = match.start()
            line += prose.count("\n", counted, start)
            counted = start
            is_first = not _INSIDE.search(prose, max(0, start - 2), start)
            parts = [_POSSESSIVE.sub("", part) for part in match.group().replace(".", "").split()]
            for words in _split_run(parts):
                yield _Run(words, line, is_first and words[0] == parts[0])


def _split_run(parts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the runs of words that begin with capitals, of any alphabet."""
    words: list[str] = []
    for part in [*parts, ""]:
        if part[:1].isupper() or (words and part in _JOINTS):
            words.append(part)
        elif words:
            while words[-1] in _JOINTS:
                words.pop()
            yield words
            words = []

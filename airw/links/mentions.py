"""Mentions: titles of other notes in the text of a note, without a link."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any

from airw._base.checks import check_count, check_filled, check_flag, check_number
from airw._base.frontmatter import note_title, read_frontmatter
from airw._base.messages import short_repr
from airw.errors import ArgumentError, SourceError
from airw.links._commonmark import paragraphs, text_of
from airw.links._note_names import list_aliases
from airw.links._word_counts import WordCounts
from airw.links.markdown import MarkdownLinks
from airw.protocols import CorpusWideExtractor, EdgeExtractor
from airw.values import Artifact, Extraction, Link, fold_name

_MAX_CHARS = 500  # of a title; a longer one is no name, and the search needs memory for each character
_NEVER_COMMON = 10  # notes: a title in so few is never too common, whatever their share
_HALF = 0.5  # the share of notes from which on a word says nothing about what a title means
_WORD = re.compile(r"\w+")
# A word with a capital after a small one: neither the beginning of a sentence nor a heading made it a capital.
_CAPITAL_INSIDE = re.compile(r"(?<![\w'\u2019])[^\W\d_A-Z][\w'\u2019]* (?=([^\W\d_a-z]\w*))")
_WORD_EDGE = re.compile(r"\b")
_EMPHASIS = re.compile(r"(?<!\w)_+|(?<!_)_++(?!\w)")
LAST_PARENTHESES = re.compile(r"\s*\([^()]*\)\Z")
_SPACES = re.compile(r"[^\S \n]+|  +")


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleMentions:
    r"""An edge extractor that adds mentions to the links of another extractor.

    A mention is the title of another note in the text. It becomes a link with the origin `"derived"`, a file and a
    line: one per mentioned note, at its first place. The search is for titles and the `aliases` of the frontmatter, as
    whole words, also across the end of a line. If two titles overlap, the one that begins first counts, then the longer
    one. Code, comments, HTML tags, frontmatter, links with their texts, and URLs are skipped. A note can be mentioned
    and linked in the same text: the target of a link is known only after the extraction.

    What stands in parentheses at the end of a title only tells it from others: "Mercury (planet)" is also found as
    "Mercury". Such a short form leads to all notes that share it, unless it is the whole title of a note.

    Case counts, as a capital can mark a name. The texts decide: a capital marks a name if at least as many texts have
    the word with a capital inside a sentence, after a small word, as have it in small letters.

    - A name is found as it is written: "Apple" in "by Apple", at the beginning of a sentence, but not in "an apple".
      Its ordinary words may be small: "Paris Agreement" is also found in "the Paris agreement". Up to `shared` notes
      may share a name; each of them is mentioned.
    - Several ordinary words, such as "Loss Function", are found as a name, as "loss function" and as "Loss function".
      If several notes share such a title, it is a mention of none: most often it is a heading, as "Getting started".
    - One ordinary word, such as "Point", is skipped: any text contains it. `cased=False` finds these, too.
    - A title without a capital, or with one at its beginning only, is found as several ordinary words are. Examples are
      "numpy" and "Merge sort", and all titles in scripts without case.

    Titles that are too short, longer than 500 characters, or too common are skipped. A title that too many notes share
    also hides shorter titles that are part of it. In scripts without spaces between words, a title is found only
    between other characters, such as punctuation.

    All titles must be known before the first note is read. So `build` reads the source twice. If a title appeared,
    disappeared or changed, it extracts the links of every note again, without embedding them. The title of a note from
    `upsert` counts from the next build on.

    Args:
        inner: The extractor of the other links. It also returns the names of the notes.
        type: The type of mentions.
        min_chars: The length of the shortest title to search for.
        max_share: The share of notes from which on a title is too common: more notes than this, and more than ten,
            contain all its words. The shares of several words are multiplied, as if words were independent.
        shared: The most notes that may share a name; 1 skips all shared titles.
        cased: Whether the case of titles counts. `False` finds all in any case, as if they were names. It suits a
            glossary, whose titles are single ordinary words.

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
    shared: int = 5
    cased: bool = True

    def __post_init__(self) -> None:
        """Check all parameters."""
        if not isinstance(self.inner, EdgeExtractor) or isinstance(self.inner, CorpusWideExtractor):
            raise ArgumentError(
                f"inner must be an extractor that needs only one artifact at a time, not {short_repr(self.inner)}"
            )
        check_filled("type", self.type)
        check_count("min_chars", self.min_chars, least=1)
        check_number("max_share", self.max_share, least=0, most=1)
        check_count("shared", self.shared, least=1)
        check_flag("cased", self.cased)

    @property
    def id(self) -> str:
        """The extractor id: the class and its settings."""
        guards = f"{self.min_chars}, {self.max_share}, {self.shared}, {self.cased}"
        return f"TitleMentions({self.inner.id}, {self.type!r}, {guards})"

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
        # The notes of each title, and of each title without its parentheses; one more than count are enough.
        self._notes: dict[str, list[str]] = {}
        self._notes_by_short: dict[str, list[str]] = {}
        self._words = WordCounts()
        self._cased_words = WordCounts()  # small words, and capitals inside a sentence

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
            is_cased = self._settings.cased
            self._words.add(_WORD.findall(normalize_text(text, is_cased=False)))
            if is_cased:
                small = [word for word in _WORD.findall(text) if not word[0].isupper()]
                self._cased_words.add([*small, *_CAPITAL_INSIDE.findall(text)])
            for title in _titles_of(artifact, text, is_cased=is_cased):
                self._add_title(self._notes, title, artifact.id)
                if (short := LAST_PARENTHESES.sub("", title)) != title and _WORD.search(short):
                    self._add_title(self._notes_by_short, short, artifact.id)

    def _add_title(self, notes_by_title: dict[str, list[str]], title: str, note: str) -> None:
        notes = notes_by_title.setdefault(title, [])
        if note not in notes and len(notes) <= self._settings.shared:
            notes.append(note)

    def extractor(self) -> "MentionFinder":
        """Return an extractor that knows the collected titles."""
        settings = self._settings
        found: dict[str, set[str]] = {}
        limits: dict[str, int] = {}  # the most notes that may have a form; the strictest of its titles counts
        for title, notes in {**self._notes_by_short, **self._notes}.items():
            if self._is_distinctive(title):
                is_name = not settings.cased or self._is_name(title)
                for form in self._list_forms(title, is_name=is_name):
                    found.setdefault(form, set()).update(notes)
                    limits[form] = min(limits.get(form, settings.shared), settings.shared if is_name else 1)
        titles = {
            form: sorted(notes) if len(notes) <= limits[form] else []
            for form, notes in sorted(found.items())
            if len(form) <= _MAX_CHARS  # in capitals, "ß" becomes "SS"
        }
        return MentionFinder(settings.inner, settings.type, titles, settings.cased)

    def _is_distinctive(self, title: str) -> bool:
        has_length = self._settings.min_chars <= len(title) <= _MAX_CHARS
        return has_length and self._is_below(self._settings.max_share, title)

    def _is_below(self, share: float, text: str) -> bool:
        """Return whether at most a share of the notes, or few notes, contain all words of a text."""
        return self._words.share(fold_name(text)) <= max(share, _NEVER_COMMON / self._words.text_count)

    def _is_name(self, title: str) -> bool:
        """Return whether a title has a capital that marks a name."""
        return any(map(self._is_name_word, _WORD.findall(title)))

    def _is_name_word(self, word: str) -> bool:
        small, share = word.lower(), self._cased_words.share
        return small != word and share(small) <= share(word)

    def _list_forms(self, title: str, *, is_name: bool) -> set[str]:
        """Return the forms in which a text may write a title."""
        words, forms = title.split(" "), {title}
        if not self._settings.cased:
            return forms
        if not any(map(str.isupper, title)) or (len(words) > 1 and not any(map(str.isupper, title[1:]))):
            # No capital but that of the beginning, as of a sentence: it marks nothing.
            forms |= _change_case(words)
        elif is_name:
            # The other words of a name are often written small, as in "Paris agreement".
            forms.add(_WORD.sub(lambda match: word if self._is_name_word(word := match[0]) else word.lower(), title))
        else:
            # Ordinary words. One alone could mean anything; two are rarely together by chance, unless one is "the".
            telling = [word for word in _WORD.findall(title) if self._is_below(_HALF, word)]
            if len(words) == 1:
                return set()
            # Parentheses show that a title alone is ambiguous.
            if len(telling) > 1 and title in self._notes:
                forms |= _change_case(words)
        return forms


@dataclass(frozen=True, slots=True)
class MentionFinder:
    """The extractor that `TitleMentions` makes once all titles are known.

    It searches for all titles in one pass over a text, however many they are, by an automaton (Aho and Corasick,
    Efficient String Matching, 1975).

    Args:
        inner: The extractor of the other links.
        type: The type of mentions.
        titles: The ids of the notes for each title as it is searched for; none if too many notes have it.
        cased: Whether the case of titles counts; if not, titles are folded as `fold_name` does it.

    Raises:
        ArgumentError: If a title is empty, too long or not a string, or the library for the search is not installed.
    """

    inner: EdgeExtractor
    type: str
    titles: Mapping[str, Sequence[str]] = field(repr=False)
    cased: bool = True
    id: str = field(init=False, compare=False)
    _forms: Sequence[str] = field(init=False, repr=False, compare=False)
    _targets: Sequence[Sequence[str]] = field(init=False, repr=False, compare=False)
    _automaton: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the titles and build the automaton."""
        if not all(isinstance(title, str) and title and is_id_list(notes) for title, notes in self.titles.items()):
            raise ArgumentError(f"titles must be a mapping of titles to lists of ids, not {short_repr(self.titles)}")
        if longest := max((title for title in self.titles if len(title) > _MAX_CHARS), key=len, default=None):
            raise ArgumentError(
                f"a title has at most {_MAX_CHARS} characters, not {len(longest)}: {short_repr(longest)}"
            )
        check_filled("type", self.type)
        check_flag("cased", self.cased)
        # The id depends on all titles: if one changes, a build extracts the links of every note again.
        digest = digest_of(sorted((title, list(notes)) for title, notes in self.titles.items()))
        name = f"MentionFinder({self.inner.id}, {self.type!r}, {self.cased}, titles={digest})"
        object.__setattr__(self, "id", name)
        object.__setattr__(self, "_forms", list(self.titles))
        object.__setattr__(self, "_targets", list(self.titles.values()))
        automaton = _build_automaton([_mark_word_edges(title) for title in self.titles])
        object.__setattr__(self, "_automaton", automaton)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the titles without the automaton, which is built again."""
        return MentionFinder, (self.inner, self.type, self.titles, self.cased)

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Extraction:
        """Return the links and names of the inner extractor, and the mentions in order of line.

        Raises:
            SourceError: If the raw value is neither text nor a mapping of fields.
        """
        inner = self.inner.extract(artifact, fields)
        problems = list(inner.problems)
        lines = self._mention_lines(artifact, text_of(artifact), problems)
        mentions = [Link(target, self.type, "derived", file=artifact.id, line=line) for target, line in lines.items()]
        return replace(inner, links=[*inner.links, *mentions], problems=problems)

    def _mention_lines(self, artifact: Artifact, text: str, problems: list[str]) -> dict[str, int]:
        """Return the first line where each other note is mentioned, in order of line."""
        own_names = {fold_name(title) for title in _titles_of(artifact, text, is_cased=self.cased)}
        search = partial(self._search_titles, own_id=artifact.id, own_names=own_names)
        lines = {artifact.id: 0}  # a note does not mention itself
        for paragraph in paragraphs(text):
            # Search the raw text first: only the few paragraphs with new titles need the slow search for markup.
            mentioned = search(paragraph.text, paragraph.line)
            if mentioned.keys() <= lines.keys():
                continue
            if paragraph.is_unreadable:
                problems.append(f"too many brackets on one line; mentions on it are not read (line {paragraph.line})")
                continue
            if not paragraph.is_prose:
                mentioned = search(paragraph.mask_markup(), paragraph.line)
            for note, line in mentioned.items():
                lines.setdefault(note, line)
        del lines[artifact.id]
        return dict(sorted(lines.items(), key=lambda item: item[1]))

    def _search_titles(self, text: str, line: int, *, own_id: str, own_names: set[str]) -> dict[str, int]:
        """Return the notes whose titles are in a text, each with the first line of its title."""
        text = _mark_word_edges(normalize_text(text, is_cased=self.cased))
        counted = 0  # newlines before this position are in `line` already
        first_lines: dict[str, int] = {}
        # Titles and text contain marks at the edges of words. So the automaton matches whole words only, and picks the
        # first and longest title among these.
        for index, start, _ in self._automaton.find_matches_as_indexes(text.replace("\n", " ")):
            line += text.count("\n", counted, start)
            counted = start
            targets = self._targets[index]
            # In a note with the title "Mercury (planet)", "Mercury" means no other.
            if own_id in targets and fold_name(self._forms[index]) not in own_names:
                targets = [own_id]
            for target in targets:
                first_lines.setdefault(target, line)
        return first_lines


def _build_automaton(patterns: Sequence[str]) -> Any:
    try:
        from ahocorasick_rs import AhoCorasick, MatchKind
    except ImportError as error:
        raise ArgumentError("TitleMentions needs ahocorasick-rs: pip install 'airw[mentions]'") from error
    return AhoCorasick(patterns, matchkind=MatchKind.LeftmostLongest)


def is_id_list(ids: object) -> bool:
    """Return whether a value is a list of ids."""
    return isinstance(ids, list | tuple) and all(isinstance(id, str) for id in ids)


def digest_of(content: object) -> str:
    """Return a short text that is the same for equal JSON values only."""
    return blake2b(json.dumps(content).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _change_case(words: Sequence[str]) -> set[str]:
    """Return a title in small letters, as at the beginning of a sentence, and as in a heading."""
    small = " ".join(words).lower()
    return {small, small[:1].upper() + small[1:], " ".join(word[:1].upper() + word[1:] for word in words)}


def normalize_text(text: str, *, is_cased: bool) -> str:
    """Normalize composition and white space, and case if it does not count; newlines stay.

    Emphasis by `_` is removed.
    """
    if not is_cased:
        text = fold_name(text)
    elif not text.isascii():
        text = unicodedata.normalize("NFC", text)
    text = _SPACES.sub(" ", text)
    text = _EMPHASIS.sub("", text) if "_" in text else text
    return text.replace(" \n", "\n").replace("\n ", "\n")


def _mark_word_edges(text: str) -> str:
    return _WORD_EDGE.sub("\1", text)


def _titles_of(artifact: Artifact, text: str, *, is_cased: bool) -> Iterator[str]:
    """Yield the title and the aliases of a note; skip those without a letter or digit."""
    front = read_frontmatter(text)
    fields = {**artifact.metadata, **front.fields}
    title = note_title(artifact.id, fields, text, front.body)
    for name in (title, *list_aliases(fields)):
        normalized = " ".join(normalize_text(name or "", is_cased=is_cased).split())
        if _WORD.search(normalized):
            yield normalized

"""The budget of a bundle: which notes fit whole, and a passage of the first that does not."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from airw.errors import ArgumentError
from airw.values import Edge, NodeId
from airw.views.bundled import Bundle, BundledNote, Form, NoteLinks

_DIGITS = 10  # reserved for a count that is not known yet
_MAX_NAMED = 10  # notes that are left out and named; more are counted
_MAX_NAMES = 400  # characters of their ids together
_LEAST_NAMES = 10  # with less space, notes are counted and not named
_LEAST = 40  # characters of a passage; a shorter one says nothing
_TOKEN_CHARACTERS = 64  # hardly any token is longer
_CLOSE = 0.995  # of the budget: then the search for the longest passage ends
_SPACE = re.compile(r"\s")
_SNAP = 20  # characters: the farthest that a cut moves to the next space


@dataclass(slots=True)
class Budget:
    """A limit on the size of the printed document.

    `used` is the size so far. It includes the frame: the document without notes, in which every limit has left out the
    largest possible count and some notes are named. So there is always space for the lines that say what was left out.

    Args:
        limit: The name of the limit.
        most: The limit.
        measure: Returns the size of a text.
        form: The format of the document.
        frame: The document without notes.
        adds_up: True if the size of a text is the sum of the sizes of its parts.
        unit: How much of `most` is one in the limit that the caller passed: an estimated token is 4 bytes.
    """

    limit: str
    most: int
    measure: Callable[[str], int]
    form: Form
    frame: Bundle
    adds_up: bool
    unit: int = 1
    names_size: int = field(default=0, init=False)
    frame_size: int = field(default=0, init=False)
    used: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Measure the frame.

        Raises:
            ArgumentError: If the frame alone does not fit.
        """
        least = self._measure_frame(())
        if least > self.most:
            needed, passed = -(-least // self.unit), self.most // self.unit
            raise ArgumentError(f"{self.limit} must be at least {needed}, the size without notes, not {passed}")
        # The ids of notes that are left out get a tenth of the rest.
        length = min(_MAX_NAMES, (self.most - least) // 10)
        self.frame = replace(self.frame, omitted=("9" * length,) if length >= _LEAST_NAMES else ())
        self.used = self.frame_size = self._measure_frame(())
        self.names_size = self.used - least

    def _measure_frame(self, notes: Sequence[BundledNote]) -> int:
        return self.size_of(replace(self.frame, notes=tuple(notes)), digits=_DIGITS)

    def size_of(self, bundle: Bundle, *, digits: int = 0) -> int:
        """Return the size of the printed document, and of so many digits more."""
        return self.measure(self.form.whole(bundle) + "9" * digits)

    def size_with(self, notes: Sequence[BundledNote], note: BundledNote, used: int) -> int:
        """Return the size with one more note; `used` is the size with `notes` alone."""
        size = used + self.measure(self.form.note(note))
        # The tokens of parts need not add up to those of the whole: measure the whole if it may fit.
        return size if self.adds_up or size > self.most else self._measure_frame([*notes, note])

    def has_space_for(self, bundle: Bundle) -> bool:
        """Return True if the printed document fits."""
        return self.size_of(bundle) <= self.most

    def has_space_for_names(self, ids: Sequence[NodeId]) -> bool:
        """Return True if these ids fit into the space that is reserved for names."""
        return self.size_of(Bundle("", omitted=tuple(ids))) - self.size_of(Bundle("")) <= self.names_size

    @property
    def most_characters(self) -> int:
        """A number of characters that cannot fit if a text has more."""
        return self.most if self.adds_up else self.most * _TOKEN_CHARACTERS


@dataclass(slots=True)
class WaitingNote:
    """A note for which there may be no space.

    Args:
        id: Its id.
        limit: The budget that it exceeds.
        note: The note without its links; `None` if it is known not to fit.
        out: Its outgoing edges.
        match: The text in it that was found, around which a passage is cut.
    """

    id: NodeId
    limit: str
    note: BundledNote | None = None
    out: Sequence[Edge] = ()
    match: str = ""


class Choice(NamedTuple):
    """The last notes of a bundle, and those that are left out."""

    notes: Sequence[BundledNote]
    left_out: Sequence[WaitingNote]


def choose_last_notes(
    bundle: Bundle, waiting: Sequence[WaitingNote], budgets: Sequence[Budget], links: NoteLinks
) -> Choice:
    """Choose which of the waiting notes a bundle contains besides those that it has.

    If all fit, all are chosen. Otherwise notes are taken in order, as long as they fit. The next one is cut to a
    passage, which gets at least half of the space that is left. Smaller notes after it may fit into the other half.
    """
    filling = _Filling(bundle, waiting, budgets, links)
    if not filling.add_all():
        filling.add_in_order()
        filling.add_passage()
        filling.add_smaller()
        filling.grow_passage()
    return Choice(filling.chosen, filling.left_out)


def complete_bundle(bundle: Bundle, left_out: Sequence[WaitingNote], budgets: Sequence[Budget]) -> Bundle:
    """Return a bundle that counts the notes that are left out, and names the first of them."""
    counts = dict(bundle.left_out)
    for each in left_out:
        counts[each.limit] = counts.get(each.limit, 0) + 1
    ids = [each.id for each in left_out[:_MAX_NAMED]]
    while ids and not all(budget.has_space_for_names(ids) for budget in budgets):
        ids.pop()
    return replace(bundle, left_out=dict(sorted(counts.items())), omitted=tuple(ids))


class _Filling:
    """The last notes of a bundle, while they are chosen."""

    def __init__(
        self, bundle: Bundle, waiting: Sequence[WaitingNote], budgets: Sequence[Budget], links: NoteLinks
    ) -> None:
        self._bundle, self._budgets, self._links = bundle, budgets, links
        self._waiting = list(waiting)
        self._mosts = [budget.most for budget in budgets]
        self._whole: BundledNote | None = None  # the note of the passage
        self._match, self._place = "", 0  # the text in it that was found, and the position of the passage in `chosen`
        self.chosen: list[BundledNote] = []
        self.left_out: list[WaitingNote] = []
        # The frame has space for any counts. Now they are known, so that more is left for notes.
        pairs = zip(budgets, self._measure_bound(), strict=True)
        self._used = [min(budget.used, size) for budget, size in pairs]

    def _measure_bound(self) -> list[int]:
        """Return sizes that the document with the notes chosen so far does not exceed."""
        bundle = replace(complete_bundle(self._bundle, self._waiting, ()), omitted=())
        document = replace(bundle, notes=(*bundle.notes, *self.chosen))
        return [budget.size_of(document, digits=_DIGITS) + budget.names_size for budget in self._budgets]

    def add_all(self) -> bool:
        """Add all notes if they fit together with no line about notes that are left out."""
        links, notes = self._links.copy(), list[BundledNote]()
        for each in self._waiting:
            if each.note is None:
                return False
            notes.append(links.link(each.note, each.out))
            links.add(each.id, each.out)
        document = replace(self._bundle, notes=(*self._bundle.notes, *notes))
        if not all(budget.has_space_for(document) for budget in self._budgets):
            return False
        self.chosen = notes
        return True

    def add_in_order(self) -> None:
        """Add notes in order, up to the first that does not fit."""
        while self._waiting and (self._add(self._waiting[0]) or self._add_exactly(self._waiting[0])):
            self._waiting.pop(0)

    def add_passage(self) -> None:
        """Add the shortest passage of the next note, if there is space."""
        if not self._waiting or (note := self._waiting[0].note) is None:
            return
        first, *rest = self._waiting
        whole = self._links.link(note, first.out)
        self.chosen.append(cut_note(whole, first.match, _LEAST))
        if not self._has_space(rest):
            self.chosen.pop()
            return
        # From here on it is in, so that later notes can name their links to it.
        self._whole, self._match, self._place = whole, first.match, len(self.chosen) - 1
        self._links.add(first.id, first.out)
        self._waiting = rest
        passage = self.chosen[-1]
        sizes = [budget.measure(budget.form.note(passage)) for budget in self._budgets]
        self._used = [used + size for used, size in zip(self._used, sizes, strict=True)]
        self._mosts = [used + (most - used) // 2 for used, most in zip(self._used, self._mosts, strict=True)]

    def add_smaller(self) -> None:
        """Add the notes that fit into the space that is left.

        If there is a passage, they get half of it.
        """
        while self._waiting:
            each = self._waiting[0]
            if not (self._add(each) or (self._whole is None and self._add_exactly(each))):
                self.left_out.append(each)
            self._waiting.pop(0)

    def grow_passage(self) -> None:
        """Make the passage as long as the space that is left; the note may even fit whole."""
        if self._whole is None:
            return
        low = _LEAST
        size = high = min(len(self._whole.content), *(budget.most_characters for budget in self._budgets))
        while low < high:
            self.chosen[self._place] = cut_note(self._whole, self._match, size)
            document = self._document(())
            shares = [budget.size_of(document) / budget.most for budget in self._budgets]
            low, high = (size, high) if max(shares) <= 1 else (low, size - 1)
            if _CLOSE <= max(shares) <= 1:
                break
            size = (low + high + 1) // 2
        self.chosen[self._place] = cut_note(self._whole, self._match, low)

    def _add(self, each: WaitingNote) -> bool:
        """Add a note if the sum of the sizes says that it fits."""
        if each.note is None:
            return False
        note = self._links.link(each.note, each.out)
        notes = [*self._bundle.notes, *self.chosen]
        pairs = zip(self._budgets, self._used, strict=True)
        sizes = [budget.size_with(notes, note, used) for budget, used in pairs]
        if any(size > most for size, most in zip(sizes, self._mosts, strict=True)):
            return False
        self._accept(each, note, sizes)
        return True

    def _add_exactly(self, each: WaitingNote) -> bool:
        """Add a note if the whole document fits; the sum of the sizes is a little more."""
        if each.note is None:
            return False
        note = self._links.link(each.note, each.out)
        self.chosen.append(note)
        has_space = self._has_space([other for other in self._waiting if other is not each])
        sizes = self._measure_bound()
        self.chosen.pop()
        if has_space:
            self._accept(each, note, sizes)
        return has_space

    def _accept(self, each: WaitingNote, note: BundledNote, sizes: list[int]) -> None:
        self._used = sizes
        self.chosen.append(note)
        self._links.add(each.id, each.out)

    def _has_space(self, rest: Sequence[WaitingNote]) -> bool:
        document = self._document(rest)
        return all(budget.has_space_for(document) for budget in self._budgets)

    def _document(self, rest: Sequence[WaitingNote]) -> Bundle:
        """Return the bundle if all others, and `rest`, were left out."""
        notes = (*self._bundle.notes, *self.chosen)
        return complete_bundle(replace(self._bundle, notes=notes), [*self.left_out, *rest], self._budgets)


def cut_note(note: BundledNote, match: str, size: int) -> BundledNote:
    """Return a note with at most `size` characters of its text, around the match."""
    if size >= len(note.content):
        return note
    return replace(note, content=cut_text(note.content, match, size), is_passage=True)


def cut_text(text: str, match: str, size: int) -> str:
    """Return at most `size` characters of a text, around a part of it.

    There is a `…` where the text is cut.

    Example:
        >>> cut_text("one two three four five six", "three", 19)
        '… three four five …'
        >>> cut_text("one two three four five six", "", 12)
        'one two …'
    """
    room = size - 4  # two marks, each with a space
    at = max(0, text.find(match))
    # A third of what remains beside the match comes before it.
    start = max(0, min(at - max(0, room - len(match)) // 3, len(text) - room))
    if start and (space := _SPACE.search(text, start, start + _SNAP)):
        start = space.end()
    end = min(len(text), start + room)
    if end < len(text):
        last_space = max(text.rfind(space, end - min(_SNAP, room // 50 + 4), end + 1) for space in " \n")
        end = last_space if last_space > start else end
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"

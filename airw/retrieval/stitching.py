"""Records of one artifact as one text, where what two chunks share is said once."""

from collections.abc import Sequence
from itertools import pairwise

from airw.values import Record


def stitch(records: Sequence[Record]) -> str:
    """Put the texts of records, which come in plan order, together.

    Where a chunk begins inside its predecessor, by the offsets `start` and `end` that both were stored with, the shared
    part is left out; where it begins at its end, nothing comes between. Anything else is parted by a blank line: other
    kinds, gaps, records without offsets or with some that are not those of their text. What offsets claim to be shared
    is compared first, so that nothing is lost.

    Example:
        >>> cuts = [("signing keys", 0, 12), ("keys rotate", 8, 19)]
        >>> records = [Record(f"r{at}", "a", "chunk", at, text, {"start": start, "end": end})
        ...            for at, (text, start, end) in enumerate(cuts)]
        >>> stitch(records)
        'signing keys rotate'
    """
    parts = [record.text for record in records[:1]]
    for previous, record in pairwise(records):
        shared = _shared(previous, record)
        parts += ["\n\n", record.text] if shared is None else [record.text[shared:]]
    return "".join(parts)


def _shared(previous: Record, record: Record) -> int | None:
    """Count the characters that a record repeats of its neighbour's end; `None` where the two are no neighbours."""
    if record.surface_kind != previous.surface_kind or record.surface_index != previous.surface_index + 1:
        return None
    before, after = _span(previous), _span(record)
    if before is None or after is None or not 0 <= (count := before[1] - after[0]) <= len(record.text):
        return None
    return count if previous.text.endswith(record.text[:count]) else None


def _span(record: Record) -> tuple[int, int] | None:
    """Give the offsets of a record where they are of its text: an event's `start` and `end`, say, are not."""
    start, end = record.metadata.get("start"), record.metadata.get("end")
    if type(start) is not int or type(end) is not int or end - start != len(record.text):
        return None
    return start, end

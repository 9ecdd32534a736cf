"""Records of one artifact as one text, where what two chunks share is said once."""

from collections.abc import Sequence
from itertools import pairwise

from airw.values import Record

__all__ = ["stitched"]


def stitched(records: Sequence[Record]) -> str:
    """Put the texts of records, which come in plan order, together.

    Where a chunk begins inside its predecessor, by the offsets `start` and `end` that both were stored with, the shared
    part is left out; where it begins at its end, nothing comes between. Anything else is parted by a blank line: other
    kinds, gaps, records without offsets. What offsets claim to be shared is compared first, so that nothing is lost.

    Example:
        >>> cuts = [("signing keys", 0, 12), ("keys rotate", 8, 19)]
        >>> records = [Record(f"r{at}", "a", "chunk", at, text, {"start": start, "end": end})
        ...            for at, (text, start, end) in enumerate(cuts)]
        >>> stitched(records)
        'signing keys rotate'
    """
    parts = [record.text for record in records[:1]]
    for previous, record in pairwise(records):
        shared = _shared(previous, record)
        parts += ["\n\n", record.text] if shared is None else [record.text[shared:]]
    return "".join(parts)


def _shared(previous: Record, record: Record) -> int | None:
    """Count the characters that a record repeats of its neighbour's end; `None` where the two are no neighbours."""
    neighbours = record.surface_kind == previous.surface_kind and record.surface_index == previous.surface_index + 1
    start, end = record.metadata.get("start"), previous.metadata.get("end")
    if not neighbours or type(start) is not int or type(end) is not int or not 0 <= end - start <= len(record.text):
        return None
    count = end - start
    return count if previous.text.endswith(record.text[:count]) else None

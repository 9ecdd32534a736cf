"""Join the records of one artifact into one text, without repeating the overlap of chunks."""

from collections.abc import Sequence
from itertools import pairwise

from airw.values import Record


def stitch(records: Sequence[Record]) -> str:
    """Join the texts of records, which must be in plan order.

    Two neighbouring chunks are joined by their stored offsets, `start` and `end`, or `span`. If a chunk begins inside
    its predecessor, their overlap appears once; if it begins exactly at its end, nothing is inserted. A blank line
    separates all other records: those of another kind, those after a gap, and those whose offsets are missing or do not
    fit their text. The overlap is compared character by character before it is dropped, so no text is lost.

    Example:
        >>> cuts = [("signing keys", 0, 12), ("keys rotate", 8, 19)]
        >>> records = [Record(f"r{i}", "a", "chunk", i, text, {"start": start, "end": end})
        ...            for i, (text, start, end) in enumerate(cuts)]
        >>> stitch(records)
        'signing keys rotate'
    """
    parts = [record.text for record in records[:1]]
    for previous, record in pairwise(records):
        overlap = _count_overlap(previous, record)
        parts += ["\n\n", record.text] if overlap is None else [record.text[overlap:]]
    return "".join(parts)


def _count_overlap(previous: Record, record: Record) -> int | None:
    """Count the characters that both records share; return `None` if they do not touch."""
    before, after = _find_span(previous), _find_span(record)
    is_next = record.surface_kind == previous.surface_kind and record.surface_index == previous.surface_index + 1
    if is_next and before and after:
        overlap = before[1] - after[0]
        # Offsets may be stale or mean something else: trust them only if the texts agree.
        if 0 <= overlap <= len(record.text) and previous.text.endswith(record.text[:overlap]):
            return overlap
    return None


def _find_span(record: Record) -> tuple[int, int] | None:
    """Return the offsets of a record if they fit its text.

    `start` and `end` may be fields of the artifact, such as the dates of an event; the offsets are then in `span`.
    """
    get = record.metadata.get
    for span in (get("span"), [get("start"), get("end")]):
        match span:
            case [int(start), int(end)] if end - start == len(record.text):
                return start, end
    return None

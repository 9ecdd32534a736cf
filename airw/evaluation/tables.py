"""Tables of text."""

from collections.abc import Sequence


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as lines: the first column to the left, the others to the right.

    Example:
        >>> print(format_table(["system", "mrr"], [["flat", "0.75"], ["beam", "1.00"]]))
        system   mrr
        flat    0.75
        beam    1.00
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for first, *cells in (header, *rows):
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *aligned]).rstrip())
    return "\n".join(lines)


def format_number(value: float | None, digits: int = 3) -> str:
    """Return a number with a fixed number of digits, or `-` for `None`.

    Example:
        >>> format_number(0.5), format_number(None)
        ('0.500', '-')
    """
    return "-" if value is None else f"{value:.{digits}f}"

"""TOML tables in the blocks of site generators: `[[cascade]]` there is no wiki link.

Site generators have blocks between two tags, such as `{{< code-toggle >}}` and `{{< /code-toggle >}}`. CommonMark does
not know them. Some contain markdown, with links, others contain settings in TOML. So a line counts as a table only if
an assignment follows.
"""

import re
from collections.abc import Iterator, Sequence

_TAG = re.compile(
    r"\{\{[<%][ \t]*(/?)[ \t]*([\w./-]+)"  # Hugo: {{< name >}} and {{< /name >}}, also with %
    r"|\{%-?[ \t]*(end)?([\w-]+)"  # Liquid and its kin: {% name %} and {% endname %}
)
_FENCE = re.compile(r"\+\+\+[ \t]*")  # the frontmatter of a note in TOML
_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_DOTTED_KEY = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_ARRAY_TABLE = re.compile(rf"[ \t]*\[\[[ \t]*{_DOTTED_KEY}[ \t]*\]\][ \t]*(?:#.*)?")
_TABLE = re.compile(rf"[ \t]*\[[ \t]*{_DOTTED_KEY}[ \t]*\][ \t]*(?:#.*)?")
_ASSIGNMENT = re.compile(rf"[ \t]*{_DOTTED_KEY}[ \t]*=[ \t]*[^\s=].*")
_IGNORED = re.compile(r"[ \t]*(?:#.*)?")


def find_toml_tables(text: str) -> set[int]:
    r"""Return the lines that begin a TOML table `[[name]]` within a block of a site generator.

    Args:
        text: The text, in which `\n` ends a line.

    Returns:
        The numbers of these lines, counted from 0.

    Example:
        >>> find_toml_tables("[[a]]\n{{< code-toggle >}}\n[[cascade]]\ndraft = true\n{{< /code-toggle >}}")
        {2}
        >>> find_toml_tables("{{< note >}}\n[[see also]]\n{{< /note >}}")
        set()
    """
    if "{{" not in text and "{%" not in text and not _FENCE.match(text):
        return set()
    lines = text.split("\n")
    tables: set[int] = set()
    for first, last in _merge(_find_blocks(lines)):
        # From the end up: a table counts if the next line that says anything is an assignment, or such a table.
        is_toml = False
        for number in range(last, first, -1):
            line = lines[number]
            if _ARRAY_TABLE.fullmatch(line):
                tables |= {number} if is_toml else set()
            elif not _TABLE.fullmatch(line) and not _IGNORED.fullmatch(line):
                is_toml = _ASSIGNMENT.fullmatch(line) is not None
    return tables


def _find_blocks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each block; blocks may nest and overlap."""
    if _FENCE.fullmatch(lines[0]):
        closing = (number for number, line in enumerate(lines) if number and _FENCE.fullmatch(line))
        yield from ((0, number) for number in [next(closing, None)] if number is not None)
    opened: dict[str, int] = {}  # the last line that opened a block of this name, until the block is closed
    for number, line in enumerate(lines):
        for slash, name, end, other_name in _TAG.findall(line):
            key = f"{{{{{name}" if name else f"{{%{other_name}"
            if not slash and not end:
                opened[key] = number
            elif key in opened:
                yield opened.pop(key), number


def _merge(blocks: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the blocks without those inside others, so that each line is read once."""
    end = -1
    for first, last in sorted(blocks, key=lambda block: (block[0], -block[1])):
        if last > end:
            yield max(first, end), last
            end = last

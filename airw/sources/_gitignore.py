"""What `.gitignore` files leave out, as git reads them."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from airw._base.messages import short_repr

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_RULES = 100_000
"""The most bytes of a `.gitignore`: the longest that people publish have a tenth of that."""

_MAX_STARS = 3  # in one name of a pattern: the time to match a file name grows with this power of its length
_UNCLEAR_SET = re.compile(r"\[[^\]]*(?:\[|--|&&|~~|\|\|)")  # Python warns of these in regular expressions


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of the `.gitignore` files in a folder and above it.

    Args:
        files: The folder of each file, an absolute path with "/" at its end, and its rules; the outermost first.
    """

    files: tuple[tuple[str, "GitIgnoreSpec"], ...] = ()

    def ignores(self, path: str) -> bool:
        """Return whether the rules leave out an absolute path; that of a folder ends with "/".

        The file next to the path decides, unless none of its rules is about the path.
        """
        for folder, spec in reversed(self.files):
            if (is_ignored := spec.check_file(path.removeprefix(folder)).include) is not None:
                return is_ignored
        return False

    def extend(self, folder: str, data: bytes) -> tuple[Self, str | None]:
        """Return these rules and those of a `.gitignore` in `folder`, and the problem with it."""
        spec, problem = _parse_rules(data)
        return type(self)((*self.files, (folder, spec))), problem


def _parse_rules(data: bytes) -> tuple["GitIgnoreSpec", str | None]:
    """Return the rules of a file, and its problem.

    Lines that cannot be used are left out; the problem names the first of them.
    """
    from pathspec import GitIgnoreSpec

    # The names of files are decoded in this way, too, so that bytes that are not UTF-8 still match.
    lines = [line.removesuffix("\r") for line in os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).split("\n")]
    faults = {number: fault for number, line in enumerate(lines) if (fault := _find_fault(line, GitIgnoreSpec))}
    spec = GitIgnoreSpec.from_lines(line for number, line in enumerate(lines) if number not in faults)
    if not faults:
        return spec, None
    first = min(faults)
    more = f"; so are {len(faults) - 1} other lines" if len(faults) > 1 else ""
    return spec, f"the pattern {short_repr(lines[first])} {faults[first]}, so it is ignored (line {first + 1}){more}"


def _find_fault(line: str, parser: type["GitIgnoreSpec"]) -> str | None:
    if line.startswith("#"):
        return None
    if line.count("**") > _MAX_STARS or any(len(re.findall(r"\*+", name)) > _MAX_STARS for name in line.split("/")):
        return f"has more than {_MAX_STARS} stars"
    if _UNCLEAR_SET.search(line):
        return "has a set of characters that is not understood"
    try:
        parser.from_lines([line])
    except (ValueError, re.error):
        return "is not valid"
    return None


def find_repository(folder: Path) -> Path | None:
    """Return the folder with `.git`, this one or the next above it; `None` if there is none."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)

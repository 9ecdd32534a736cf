"""What `.gitignore` files leave out, as git reads them."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

from airw._base.messages import short_repr

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_Rule: TypeAlias = tuple[re.Pattern[str], bool]

MAX_RULES = 100_000
"""The most bytes of a `.gitignore`: the longest that people publish have a tenth of that."""

_MAX_STARS = 3  # in one name of a pattern: the time to match a file name grows with this power of its length
_UNCLEAR_SET = re.compile(r"\[[^\]]*(?:\[|--|&&|~~|\|\|)")  # Python warns of these in regular expressions


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of the `.gitignore` files in a folder and above it.

    Args:
        files: The folder of each file, an absolute path with "/" at its end, and its rules; the outermost first. A
            rule is a pattern, and whether the paths that it matches are left out.
    """

    files: tuple[tuple[str, Sequence[_Rule]], ...] = ()

    def ignores(self, path: str) -> bool:
        """Return whether the rules leave out an absolute path; that of a folder ends with "/".

        The last rule about the path decides, of the file next to it that has one.
        """
        for folder, rules in reversed(self.files):
            place = path.removeprefix(folder)
            for pattern, is_ignored in reversed(rules):
                if any(_is_whole(match) for match in pattern.finditer(place)):
                    return is_ignored
        return False

    def extend(self, folder: str, data: bytes) -> tuple[Self, str | None]:
        """Return these rules and those of a `.gitignore` in `folder`, and the problem with it."""
        rules, problem = _parse_rules(data)
        return type(self)((*self.files, (folder, rules))), problem


def _is_whole(match: re.Match[str]) -> bool:
    """Return whether a rule is about a path, not about a folder that contains it.

    The group `ps_d` is the slash behind the name that the rule is about. Without it, `a/**` is about what is in `a/`.
    """
    if match.groupdict().get("ps_d"):
        return match.end("ps_d") == len(match.string)
    return match[0] != match.string or not match[0].endswith("/")


def _parse_rules(data: bytes) -> tuple[list[_Rule], str | None]:
    """Return the rules of a file, and its problem.

    Lines that cannot be used are left out; the problem names the first of them.
    """
    from pathspec import GitIgnoreSpec
    from pathspec.pattern import RegexPattern

    # The names of files are decoded in this way, too, so that bytes that are not UTF-8 still match.
    lines = [line.removesuffix("\r") for line in os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).split("\n")]
    faults = {number: fault for number, line in enumerate(lines) if (fault := _find_fault(line, GitIgnoreSpec))}
    spec = GitIgnoreSpec.from_lines(line for number, line in enumerate(lines) if number not in faults)
    # Not `check_file` of the library: there, `*` wins over a later `!*/`.
    rules = [
        (each.regex, bool(each.include)) for each in spec.patterns if isinstance(each, RegexPattern) and each.regex
    ]
    if not faults:
        return rules, None
    first = min(faults)
    more = f"; so are {len(faults) - 1} other lines" if len(faults) > 1 else ""
    return rules, f"the pattern {short_repr(lines[first])} {faults[first]}, so it is ignored (line {first + 1}){more}"


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

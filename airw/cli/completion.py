"""Completes words in a shell: the scripts, and the candidates that they ask for.

The scripts know nothing of the commands. At each TAB they call `airw __complete WORD ...`, which prints a candidate a
line. Without candidates the shell completes the names of files.
"""

import argparse
from collections.abc import Iterable, Sequence
from contextlib import suppress

from airw.cli.parser import parser
from airw.cli.printing import print_line, write

COMPLETE = "__complete"
"""The word that a script calls `airw` with; no command has this name."""

_BASH = """\
_airw() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(airw __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}
complete -o default -F _airw airw
"""
_ZSH = """\
#compdef airw
_airw() {
    local -a found
    found=(${(f)"$(airw __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then
        compadd -S '' -- ${(M)found:#*=}
        compadd -- ${found:#*=}
    else
        _files
    fi
}
compdef _airw airw
"""
_FISH = """\
function __airw_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (commandline -ct)
    set -l found (airw __complete $words "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c airw -f -a '(__airw_complete)'
"""
SCRIPTS = {"bash": _BASH, "fish": _FISH, "zsh": _ZSH}


async def script(arguments: argparse.Namespace) -> int:
    """Print the script of a shell."""
    write(SCRIPTS[arguments.shell])
    return 0


def print_candidates(words: Sequence[str]) -> int:
    """Print what the last of the words may become, one candidate a line."""
    # A candidate is only a help: whatever fails, the shell shows none.
    with suppress(Exception):
        for candidate in find_candidates(words):
            print_line(candidate)
    return 0


def find_candidates(words: Sequence[str]) -> list[str]:
    """Return what the last word may become, sorted.

    Args:
        words: The words after `airw`; the last one is the one that is written now, and may be empty.

    Example:
        >>> find_candidates(["link", "tr"])
        ['tree']
        >>> find_candidates(["search", "keys", "--mode", "le"])
        ['lexical']
    """
    *before, current = _join_values(words)
    command: argparse.ArgumentParser = parser()
    positionals = 0
    option: argparse.Action | None = None
    for word in before:
        groups = _groups(command)
        if option is not None:
            option = None
        elif word.startswith("-"):
            option = _find_option(command, word)
        elif groups and word in groups.choices:
            command, positionals = groups.choices[word], 0
        else:
            positionals += 1
    prefix = ""
    if option is None and current.startswith("--") and "=" in current:
        name, _, current = current.partition("=")
        option, prefix = _find_option(command, name), f"{name}="
    values = _values(command, option, positionals, current, before)
    return [f"{prefix}{value}" for value in sorted(set(values)) if value.startswith(current)]


def _join_values(words: Sequence[str]) -> list[str]:
    """Return the words without `=` between option and value, where bash splits them."""
    joined: list[str] = []
    for word in words:
        if word == "=" and joined and joined[-1].startswith("--"):
            continue
        joined.append(word)
    # Nothing is written after the `=` yet.
    return [*joined, ""] if words and words[-1] == "=" else joined


def _groups(command: argparse.ArgumentParser) -> "argparse._SubParsersAction[argparse.ArgumentParser] | None":
    actions = command._actions  # noqa: SLF001 - argparse has no public list of options
    return next((each for each in actions if isinstance(each, argparse._SubParsersAction)), None)  # noqa: SLF001


def _find_option(command: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    """Return the option of this name if a value follows it."""
    action = command._option_string_actions.get(word)  # noqa: SLF001 - argparse has no public list of options
    return action if action is not None and action.nargs is None else None


def _values(
    command: argparse.ArgumentParser, option: argparse.Action | None, position: int, current: str, words: Sequence[str]
) -> Iterable[str]:
    """Return the values of an option, the options, or the words of a position."""
    if option is not None:
        if option.dest == "set":
            return _policy_parameters(words)
        return _corpora() if option.dest in ("corpus", "write") else map(str, option.choices or ())
    if current.startswith("-"):
        return list(command._option_string_actions)  # noqa: SLF001 - argparse has no public list of options
    if groups := _groups(command):
        return groups.choices
    expected = [action for action in command._actions if not action.option_strings]  # noqa: SLF001
    if not expected:
        return ()
    action = expected[min(position, len(expected) - 1)]
    if action.choices:
        return map(str, action.choices)
    return _corpora() if _takes_corpus(action, position) else ()


def _takes_corpus(action: argparse.Action, position: int) -> bool:
    """Return True if a corpus may be named here: first, or in a list anywhere."""
    text = str(action.metavar)
    is_list = "CORPUS ..." in text or (text == "CORPUS" and action.nargs == "*")
    return is_list or (position == 0 and ("CORPUS" in text or text == "SOURCE"))


def _corpora() -> list[str]:
    from airw.cli.resolve import list_names

    return list_names()


def _policy_parameters(words: Sequence[str]) -> list[str]:
    from airw.cli.policies import list_parameters

    places = [place for place, word in enumerate(words) if word == "--policy"]
    name = words[places[-1] + 1] if places else "eager"
    return [f"{parameter}=" for parameter in list_parameters(name)]

"""Rewrites messages of the library in the words of the command line.

The library's messages name parameters and functions, such as `max_hops` or `register(...)`. Users of the command line
know options and commands: `--max-hops`, `airw register NAME KIND`. They also know documents, not artifacts.
"""

import argparse
import re
from functools import cache

from airw import errors

_QUOTED = r"(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\b[a-z][a-z+]*://\S*"  # and addresses
_ARGUMENTS = r"\((?:[^()]|\([^()]*\))*\)"  # of a call, with calls among them
_PHRASES = (
    # Functions become commands.
    (rf"\bcall (?=(?:build(?:_corpus)?|register|calibrate_min_score){_ARGUMENTS})", "run "),
    (rf"\bbuild(?:_corpus)?{_ARGUMENTS}", "`airw build SOURCE`"),
    (rf"\bregister{_ARGUMENTS}", "`airw register NAME KIND`"),
    (rf"\bcalibrate_min_score{_ARGUMENTS}", "`airw calibrate CASES.jsonl --save`"),
    (rf"open it with \S*open_corpus{_ARGUMENTS}", "only the program that built it can search it"),
    (r"\S*\.__init__\(\) got an unexpected keyword argument", "there is no parameter"),
    (r"\S*\.__init__\(\) missing \d+ required [\w-]+ arguments?:", "missing parameters:"),
    # Values that only a program can pass are not offered.
    (rf",? or (?:None\b|a callable(?: {_ARGUMENTS} -> \w+)?)", ""),
    (rf", an Embedder, or \S*embedder_from{_ARGUMENTS}", ""),
    (r"[;:] pass \{name: corpus\}[^;]*", "; search each corpus once"),
    (r"\brestore a copy of it", "restore a copy with `airw restore CORPUS FILE`"),
    (r"\bremove it and build it again", "remove it with `airw rm CORPUS` and build it again"),
    (r"\bpass replace=True to replace it", "use --force to replace it"),
    (r"\bpass edge_extractor=\.\.\. again, or force=True", "build it with the program that knows it, or use --force"),
    (r"[;:] pass the embedder [^;]*", "; name the one it was built with by --embedder, or rebuild it"),
    (r"\bpass (?=embedder=)", "name it by "),
    (r"[;:] pass min_score=\{name: number\} instead", "; choose another --strategy"),
    (r"\bneeds (?!(?:path|pattern|projects_root|roots?)=)(\w+)=\.\.\.", r"needs --param \1=…"),
    (r"\bmax_bytes=(\d+)", r"--param max_bytes=\1"),
    (r"\bTrue or False\b", "true or false"),
    (r"\bcontains None\b", "contains null"),
    (r"\bhidden=True", "--hidden"),
    (r"\bfull=True", "without --no-prune"),
    (r"\bfull=False", "--no-prune"),
    (r"\('(\d[^']*)', '(\d[^']*)'\)", r"\1-\2"),
    (r"\('(\d[^']*)',\)", r"\1"),
    (r"\[Errno -?\d+\] ", ""),
    (r"\b(?:give|pass) \{name: number\} or", "use"),
    (rf"; pass your own to \w+{_ARGUMENTS}", ""),
    # Names of exceptions say nothing to a user.
    (r"(?<=\()\w+(?:Error|Exception): ", ""),
    (rf"\b(?:{'|'.join(errors.__all__)}): ", ""),
    (r"\bartifact(s?)\b", r"document\1"),
)
_OTHER_NAMES = {
    "disclose_level": "--disclose",
    "path": "--root",
    "projects_root": "--root",
    "reindex": "--reindex-on",
    "roots": "--root",
    "seed_k": "--start",
    "start_k": "--start",
}


def translate(message: str) -> str:
    """Return a message of the library in the words of the command line.

    Quoted text and addresses stay unchanged.

    Example:
        >>> translate("max_hops must be a whole number of at least 0, not -1")
        '--max-hops must be a whole number of at least 0, not -1'
        >>> translate("corpus 'max_hops' contains no artifact 'a'; register('b', kind, ...) helps")
        "corpus 'max_hops' contains no document 'a'; `airw register NAME KIND` helps"
        >>> translate("postgresql:///artifacts?host=/run is no artifact")
        'postgresql:///artifacts?host=/run is no document'
    """
    rules = _rules()
    # One pattern for all: what begins first wins, so a phrase inside quotes or an address is never replaced.
    pattern = "|".join([_QUOTED, *(f"(?:{phrase})" for phrase, _ in rules)])
    return re.sub(pattern, _replace, message)


def describe_error(error: Exception) -> str:
    """Return an exception as one line for the command line."""
    if isinstance(error, errors.AirwError):
        message = translate(str(error))
    elif isinstance(error, OSError) and error.filename is not None:
        message = f"{error.strerror}: {str(error.filename)!r}"
    else:
        message = f"unexpected error: {type(error).__name__}: {error}"
    return " ".join(message.split())


def _replace(match: re.Match[str]) -> str:
    for phrase, replacement in _rules():
        # The look-behinds and look-aheads of a phrase need the whole message, so match again at the same place.
        rematch = re.compile(phrase).match(match.string, match.start())
        if rematch is not None and rematch.end() == match.end():
            return rematch.expand(replacement)
    return match[0]


@cache
def _rules() -> tuple[tuple[str, str], ...]:
    """Return regular expressions and replacements, built at the first message."""
    rules = list(_PHRASES)
    for name, option in {**_options(), **_OTHER_NAMES}.items():
        parameter = rf"(?<![\w-])(?:an? )?{name}"
        rules += [
            (rf"{parameter}=(?:\.\.\.|True\b)", option),
            (rf"{parameter}=None\b", f"no {option}"),
            (rf"{parameter}=", f"{option} "),
            # A name without underscore may also be a word of the sentence, so replace it only before "must".
            (rf"{parameter}\b" if "_" in name else rf"{parameter}(?= must\b)", option),
        ]
    return tuple(rules)


def _options() -> dict[str, str]:
    """Return the options of all commands, by the name of the parameter that each sets."""
    from airw.cli.parser import parser

    options: dict[str, str] = {}
    parsers: list[argparse.ArgumentParser] = [parser()]
    for command in parsers:
        for action in command._actions:  # noqa: SLF001 - argparse has no public list of options
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                parsers.extend(action.choices.values())
            elif long_options := [option for option in action.option_strings if option.startswith("--")]:
                options.setdefault(action.dest, long_options[0])
            elif action.option_strings:
                options.setdefault(action.dest, action.option_strings[0])
    del options["name"], options["help"]
    return options

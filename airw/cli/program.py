"""The program `airw`: runs one command and prints an error as one line."""

import atexit
import gc
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module

from airw.cli.parser import parser
from airw.cli.printing import escape_output, print_note


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done. 1: done, but something was left out, is missing or failed, as the output says. 2: an error, described by
    one line on stderr. 130: interrupted.

    Example:
        >>> main(["ls"])
        no corpora yet; `airw build FOLDER` builds one
        0
    """
    with escape_output():
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    """Run a command, and turn what ends it early into an exit code."""
    if argv is None:
        # The process ends with this command, and the system frees its memory faster than a last garbage collection.
        atexit.register(gc.freeze)
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["__complete"]:  # a shell asks at each TAB
        from airw.cli.completion import print_candidates

        return print_candidates(words[1:])
    try:
        _refuse_passwords(words)
    except Exception as error:  # noqa: BLE001 - an `ArgumentError`, whose module is not imported yet
        return _print_error(str(error), 2)
    arguments = parser().parse_args(words)
    if arguments.command is None:
        parser().print_help()
        return 0
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _print_error("interrupted", 130)
    except BrokenPipeError:
        # The reader of the output has closed the pipe, as `head` does: end quietly, and let Python flush
        # into another file at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 (a user of the command line never sees a traceback)
        from airw.cli.wording import describe_error

        return _print_error(describe_error(error), 2)


def _refuse_passwords(words: Sequence[str]) -> None:
    """Refuse addresses with passwords, as others can read the words of a command."""
    for word in words:
        folded = word.casefold()
        # A query may contain one of these words alone.
        is_address = "postgres" in folded and ":/" in folded
        if is_address or ("pass" in folded and "host" in folded and "=" in folded):
            from airw.stores import refuse_password

            start = 0 if not is_address else folded.index("postgres")
            refuse_password("the command line", word[start:])


def _run(arguments: Namespace) -> int:
    """Import the module of a command, run the command, and return its exit code."""
    # Commands show their own progress; bars of the libraries that load models would break it.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import anyio

    module, _, function = arguments.run.partition(".")
    code: int = anyio.run(getattr(import_module(f"airw.cli.{module}"), function), arguments)
    return code


def _print_error(message: str, code: int) -> int:
    print_note(message)
    return code

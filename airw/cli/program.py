"""`airw`: parse the arguments, run one command, turn what goes wrong into one line."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module

from airw.cli.parser import parser
from airw.errors import AirwError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code.

    0: done. 1: done, but something was left out, is missing or failed, which is said. 2: an error, one line on
    stderr. 130: interrupted.

    Example:
        >>> main(["ls"])
        no corpora yet; `airw build FOLDER` makes one
        0
    """
    arguments = parser().parse_args(argv)
    if arguments.command is None:
        parser().print_help()
        return 0
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except BrokenPipeError:
        # Whoever read our output has left: end quietly, and keep Python from flushing into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except AirwError as error:
        return _say(str(error), 2)
    except Exception as error:  # noqa: BLE001 (the border of the program: a user never sees a traceback)
        return _say(f"{type(error).__name__}: {error}", 2)


def _run(arguments: Namespace) -> int:
    """Run a command, of which only now the module is imported; give its exit code."""
    import anyio

    module, _, function = arguments.run.partition(".")
    code: int = anyio.run(getattr(import_module(f"airw.cli.{module}"), function), arguments)
    return code


def _say(message: str, code: int) -> int:
    print(f"airw: {' '.join(message.split())}", file=sys.stderr)
    return code

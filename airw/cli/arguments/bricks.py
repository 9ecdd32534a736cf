"""What the arguments of the commands are made of."""

import argparse
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

__all__ = ["Commands", "Parser", "add_command", "add_corpus", "add_formats", "add_mode", "add_query", "add_rerank"]


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as every command does, and lets options stand between words."""

    _mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command's options first, then its words, wherever they stand."""
        if self._mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._mixing = True  # what is called next calls this method again
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False

    def error(self, message: str) -> NoReturn:
        """Leave with the message."""
        self.exit(2, f"airw: {message}; see `{self.prog} --help`\n")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001 - the type has no public name


def add_command(
    sub: Commands,
    name: str,
    run: Callable[..., Any],
    about: str,
    **more: Any,
) -> argparse.ArgumentParser:
    """Add a command that `run` does."""
    made = sub.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **more,
    )
    made.set_defaults(run=run)
    return made


def add_query(
    command: argparse.ArgumentParser,
    words: str = "[CORPUS] QUERY",
    about: str = "the corpus, where there are several, and the query",
) -> None:
    """Let a command take the corpus that it asks, and one word more."""
    command.usage = f"{command.prog} [options] {words}"
    command.add_argument("words", metavar=words, nargs="+", help=about)
    command.add_argument("-c", "--corpus", metavar="CORPUS", help="the corpus; default: the only one, or $AIRW_CORPUS")


def add_corpus(command: argparse.ArgumentParser, about: str) -> None:
    """Let a command take one corpus, as a word or as an option."""
    command.add_argument("name", metavar="CORPUS", nargs="?", help=about)
    command.add_argument("-c", "--corpus", metavar="CORPUS", help="the same, as an option")


def add_mode(command: argparse.ArgumentParser) -> None:
    """Let a command take a way of searching."""
    command.add_argument(
        "-m", "--mode", choices=("dense", "lexical", "hybrid"), default="hybrid", help="default: hybrid"
    )


def add_rerank(command: argparse.ArgumentParser) -> None:
    """Let a command take a reranker."""
    command.add_argument(
        "--rerank",
        metavar="SPEC",
        help="read the best again and score them so: cross-encoder, or cross-encoder:MODEL",
    )


def add_formats(command: argparse.ArgumentParser) -> None:
    """Let a command print for programs, too."""
    command.add_argument("--format", choices=("text", "json"), default="text", help="json: one object a line")

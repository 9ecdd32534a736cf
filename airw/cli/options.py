"""What the parsers of all commands share: how a command is added, and the options that several of them take."""

import argparse
from typing import Any, NoReturn, TypeAlias

ONE_CORPUS = "the corpus; default: the only one, or $AIRW_CORPUS"
"""How commands explain which corpus they ask."""


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


def add_group(sub: Commands, name: str, about: str) -> Commands:
    """Add a command that holds commands."""
    group = sub.add_parser(name, help=about, description=f"{about.capitalize()}.")
    return group.add_subparsers(title="commands", metavar="COMMAND", dest="action", required=True)


def add_command(sub: Commands, name: str, run: str, about: str, **more: Any) -> argparse.ArgumentParser:
    """Add a command; `run` is the module of this package and the function in it that does the work.

    They are named and not imported, so that the parser is built without what the commands need.
    """
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
    add_corpus_option(command)


def add_corpus(command: argparse.ArgumentParser, about: str) -> None:
    """Let a command take one corpus, as a word or as an option."""
    command.add_argument("name", metavar="CORPUS", nargs="?", help=about)
    add_corpus_option(command, "the same, as an option")


def add_corpus_option(command: argparse.ArgumentParser, about: str = ONE_CORPUS) -> None:
    """Let a command take one corpus as an option."""
    command.add_argument("-c", "--corpus", metavar="CORPUS", help=about)


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


def add_link_choice(command: argparse.ArgumentParser) -> None:
    """Let a command choose among links."""
    command.add_argument(
        "-d", "--direction", type=str.lower, choices=("out", "in", "both"), default="both", help="default: both"
    )
    command.add_argument(
        "-T", "--type", "--types", metavar="TYPES", action="append", default=[], help="only links of these types"
    )
    command.add_argument(
        "--exclude-type",
        "--exclude-types",
        metavar="TYPES",
        action="append",
        default=[],
        help="no links of these types",
    )
    command.add_argument("--typed-only", action="store_true", help="only links that are declared in frontmatter")
    command.add_argument("--inline-only", action="store_true", help="only links that stand in the text")
    command.add_argument(
        "--no-inverses", action="store_true", help="call links by the type they are stored with, in either direction"
    )
    command.add_argument(
        "--inverse",
        metavar="TYPE=NAME",
        action="append",
        default=[],
        help="what links of a type are called against their direction; may be given several times",
    )


def add_link_walk(command: argparse.ArgumentParser, *, hops: int) -> None:
    """Let a command follow links."""
    add_link_choice(command)
    command.add_argument("--max-hops", type=int, default=hops, metavar="N", help=f"default: {hops}")
    command.add_argument("--max-nodes", type=int, metavar="N", help="list at most N documents; default: 10000")
    command.add_argument("--max-edges", type=int, metavar="N", help="follow at most N links; default: 100000")
    command.add_argument(
        "--max-fanout", type=int, metavar="N", help="follow at most N links of each document; default: 1000"
    )
    command.add_argument("--weighted", action="store_true", help="go by what links cost, not by hops")
    command.add_argument("--timeout", type=float, metavar="SECONDS", help="stop after this long")
    add_corpus_option(command)


def add_documents(command: argparse.ArgumentParser) -> None:
    """Let a command print a walk in any of its formats."""
    formats = ("text", "json", "records", "dot", "html")
    command.add_argument("--format", choices=formats, default="text", help="default: text")
    command.add_argument("--max-chars", type=int, metavar="N", help="print at most N characters; with --format records")
    command.add_argument("--schema", action="store_true", help="print the JSON schema of --format json, and no more")
    add_output(command)


def add_output(command: argparse.ArgumentParser) -> None:
    """Let a command write to a file."""
    command.add_argument("--output", metavar="FILE", help="write to this file, in UTF-8, instead of standard output")

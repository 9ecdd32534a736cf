"""Functions that add commands, and the options that several commands share."""

import argparse
from typing import Any, NoReturn, TypeAlias

from airw.cli.printing import print_note

ONE_CORPUS = "the corpus; default: $AIRW_CORPUS, or the only corpus"
"""Help text of commands that search one corpus."""


class CommandParser(argparse.ArgumentParser):
    """A parser with one-line errors that allows options between positional words."""

    _is_intermixed = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the options of a command first, then its words, in any order."""
        if self._is_intermixed or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        # `parse_known_intermixed_args` calls this method again.
        self._is_intermixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and the message on one line."""
        print_note(f"{message}; see `{self.prog} --help`")
        self.exit(2)


Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"  # noqa: SLF001 - the type has no public name


def add_group(sub: Commands, name: str, about: str) -> Commands:
    """Add a command that has subcommands, such as `link`."""
    group = sub.add_parser(name, help=about, description=f"{about.capitalize()}.")
    return group.add_subparsers(title="commands", metavar="COMMAND", dest="action", required=True)


def add_command(sub: Commands, name: str, run: str, about: str, **more: Any) -> argparse.ArgumentParser:
    """Add a command.

    Args:
        sub: Where to add it.
        name: Its name.
        run: The function that does the work, as `module.function` of this package. It is not imported here, so that
            the parser is built without the libraries that the commands need.
        about: What the command does, for the list of commands.
        more: Passed to `add_parser`.
    """
    command = sub.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **more,
    )
    command.set_defaults(run=run)
    return command


def add_query(
    command: argparse.ArgumentParser,
    words: str = "[CORPUS] QUERY",
    about: str = "the corpus, if there are several, and the query",
) -> None:
    """Add the corpus to search and one more word."""
    command.usage = f"{command.prog} [options] {words}"
    command.add_argument("words", metavar=words, nargs="+", help=about)
    add_corpus_option(command)


def add_corpus(command: argparse.ArgumentParser, about: str) -> None:
    """Add one corpus, as a word or as an option."""
    command.add_argument("name", metavar="CORPUS", nargs="?", help=about)
    add_corpus_option(command, "the corpus, as an option")


def add_corpus_option(command: argparse.ArgumentParser, about: str = ONE_CORPUS) -> None:
    """Add one corpus as an option."""
    command.add_argument("-c", "--corpus", metavar="CORPUS", help=about)


def add_mode(command: argparse.ArgumentParser) -> None:
    """Add the mode of a search."""
    command.add_argument(
        "-m",
        "--mode",
        choices=("dense", "lexical", "hybrid"),
        default="hybrid",
        help="search by meaning, by words, or by both; default: hybrid",
    )


def add_rerank(command: argparse.ArgumentParser) -> None:
    """Add the reranker."""
    command.add_argument(
        "--rerank",
        metavar="SPEC",
        help="score the best hits again with a reranker: cross-encoder, or cross-encoder:MODEL",
    )


def add_formats(command: argparse.ArgumentParser) -> None:
    """Add the choice between text and JSON."""
    command.add_argument("--format", choices=("text", "json"), default="text", help="json: one object a line")


def add_link_choice(command: argparse.ArgumentParser) -> None:
    """Add the options that choose links."""
    command.add_argument(
        "-d",
        "--direction",
        type=str.lower,
        choices=("out", "in", "both"),
        default="both",
        help="follow links out of a document, into it, or both; default: both",
    )
    command.add_argument(
        "-T",
        "--type",
        "--types",
        metavar="TYPES",
        action="append",
        default=[],
        help="only links of these types, separated by commas; may be repeated",
    )
    command.add_argument(
        "--exclude-type",
        "--exclude-types",
        metavar="TYPES",
        action="append",
        default=[],
        help="no links of these types; may be repeated",
    )
    command.add_argument("--typed-only", action="store_true", help="only links declared in frontmatter")
    command.add_argument("--inline-only", action="store_true", help="only links written in the text")
    command.add_argument(
        "--no-inverses",
        action="store_true",
        help="name every link by its stored type, even when it is followed backwards",
    )
    command.add_argument(
        "--inverse",
        metavar="TYPE=NAME",
        action="append",
        default=[],
        help="the name of links of this type when they are followed backwards; may be repeated",
    )


def add_link_walk(command: argparse.ArgumentParser, *, hops: int) -> None:
    """Add the options of a walk along links."""
    add_link_choice(command)
    command.add_argument(
        "--max-hops", type=int, default=hops, metavar="N", help=f"follow links over at most N hops; default: {hops}"
    )
    command.add_argument("--max-nodes", type=int, metavar="N", help="list at most N documents; default: 10000")
    command.add_argument("--max-edges", type=int, metavar="N", help="follow at most N links; default: 100000")
    command.add_argument(
        "--max-fanout", type=int, metavar="N", help="follow at most N links of each document; default: 1000"
    )
    command.add_argument(
        "--weighted",
        action="store_true",
        help="measure distance by the costs of links instead of by hops",
    )
    command.add_argument("--timeout", type=float, metavar="SECONDS", help="stop after this long")
    add_corpus_option(command)


def add_documents(command: argparse.ArgumentParser) -> None:
    """Add the formats of a walk."""
    formats = ("text", "json", "records", "dot", "html")
    command.add_argument("--format", choices=formats, default="text", help="default: text")
    command.add_argument(
        "--max-chars", type=int, metavar="N", help="print at most N characters; only with --format records"
    )
    command.add_argument("--schema", action="store_true", help="print only the JSON schema of --format json")
    add_output(command)


def add_output(command: argparse.ArgumentParser) -> None:
    """Add the file to write to."""
    command.add_argument("--output", metavar="FILE", help="write to this file, in UTF-8, instead of to standard output")

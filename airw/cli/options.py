"""Functions that add commands, and the options that several commands share.

Options that are parameters of the library have no default here. Help texts read it from the library when they are
printed; see `library_defaults`.
"""

import argparse
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from airw.cli.printing import print_note

ONE_CORPUS = "the corpus; default: $AIRW_CORPUS, or the only corpus"
"""Help text of commands that search one corpus."""

EMBEDDERS = (
    "light (no model needed), default (all-MiniLM-L6-v2), the name or folder of a model, or a model on a server as "
    "http://host:8080/v1#model"
)
"""Help text of what names an embedder."""

ADDRESS = "postgresql://USER:$VARIABLE@HOST/DATABASE#NAME, where VARIABLE has the password, in single quotes"
"""Help text of what names a corpus on a server."""

TREE, PATH = "airw.views.walk_links", "airw.links.CorpusGraph.path"
"""The functions that follow links."""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Writes help texts, with the library's defaults of options."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        place = getattr(action, "place", None)
        if place is None:
            return action.help
        from airw.cli.library_defaults import default_text

        default = default_text(place)
        return action.help if default is None else f"{action.help}; default: {default}"


class CommandParser(argparse.ArgumentParser):
    """A parser with one-line errors that allows options between positional words.

    `describe` is a function that writes the end of the help text, or `None`. It may import libraries, so it is called
    only when help is printed.
    """

    _is_intermixed = False
    epilog: str | None
    describe: Callable[[], str] | None = None

    def format_help(self) -> str:
        """Return the help text."""
        if self.describe is not None:
            self.epilog = self.describe()
        return super().format_help()

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


def add_command(sub: Commands, name: str, run: str, about: str, **more: Any) -> CommandParser:
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
        formatter_class=_HelpFormatter,
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


def add_parameter(command: argparse.ArgumentParser, place: str, *names: str, **more: Any) -> None:
    """Add an option that is a parameter of the library.

    Args:
        command: The command.
        place: The function or class and the parameter, such as `airw.search:k`; help shows its default.
        names: The names of the option.
        more: Passed to `add_argument`.
    """
    command.add_argument(*names, **more).place = place  # type: ignore[attr-defined]


def pick(arguments: argparse.Namespace, *names: str, **renamed: str) -> dict[str, Any]:
    """Return the options that were given; of the others the library's defaults apply.

    Args:
        arguments: Of the command.
        names: Options with the name of their parameter.
        renamed: Options with another name, by the name of the parameter.

    Example:
        >>> pick(argparse.Namespace(k=3, mode=None, disclose="body"), "k", "mode", disclose_level="disclose")
        {'k': 3, 'disclose_level': 'body'}
    """
    values = {name: getattr(arguments, name) for name in names}
    values |= {parameter: getattr(arguments, name) for parameter, name in renamed.items()}
    return {name: value for name, value in values.items() if value is not None}


def parse_whole_number(text: str) -> int:
    """Parse a whole number of at least 1, for argparse."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return number


def parse_embedder(text: str) -> str:
    """Check the specification of an embedder, for argparse: it must not be empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must name an embedder, such as light or default, and not be empty")
    return text


def add_embedder(command: argparse.ArgumentParser) -> None:
    """Add the embedder of an open corpus."""
    command.add_argument(
        "--embedder",
        metavar="SPEC",
        type=parse_embedder,
        help=f"use this embedder, not the one that the corpus names: {EMBEDDERS}",
    )


def add_store(command: argparse.ArgumentParser, default: str) -> None:
    """Add the server that a corpus is on."""
    command.add_argument(
        "--store",
        metavar="ADDRESS",
        help=f"keep the corpus on a PostgreSQL server: {ADDRESS}; #NAME may be missing{default}",
    )


def add_mode(command: argparse.ArgumentParser, function: str) -> None:
    """Add the mode of a search."""
    add_parameter(
        command,
        f"{function}:mode",
        "-m",
        "--mode",
        choices=("dense", "lexical", "hybrid"),
        help="search by meaning, by words, or by both",
    )


def add_fusion(command: argparse.ArgumentParser, function: str) -> None:
    """Add the fusion of a hybrid search."""
    add_parameter(
        command,
        f"{function}:fusion",
        "--fusion",
        choices=("scores", "ranks", "blend", "rrf"),
        help="how hybrid mode combines both rankings: scores or ranks, weighed for each query; blend or rrf, fixed",
    )


def add_rerank(command: argparse.ArgumentParser, function: str) -> None:
    """Add the reranker and the text that it scores."""
    command.add_argument(
        "--rerank",
        metavar="SPEC",
        help="score the best hits again with a reranker: cross-encoder, or cross-encoder:MODEL",
    )
    add_parameter(
        command,
        f"{function}:rerank_text",
        "--rerank-text",
        choices=("surface", "artifact"),
        help="the text that --rerank scores: the matching surface or the whole document",
    )


def add_boost(command: argparse.ArgumentParser) -> None:
    """Add the boost of newer documents."""
    command.add_argument(
        "--boost",
        metavar="SPEC",
        help="prefer newer documents: recency:FIELD:HALF_LIFE, such as recency:date:90d; h, d, w or y",
    )


def add_formats(command: argparse.ArgumentParser) -> None:
    """Add the choice between text and JSON."""
    command.add_argument("--format", choices=("text", "json"), default="text", help="json: one object a line")


def add_link_choice(command: argparse.ArgumentParser) -> None:
    """Add the options that choose links."""
    add_parameter(
        command,
        "airw.links.FollowedLinks:direction",
        "-d",
        "--direction",
        type=str.lower,
        choices=("out", "in", "both"),
        help="follow links out of a document, into it, or both",
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
    command.add_argument("--typed-only", action="store_true", help="only links declared in frontmatter or records")
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


def add_link_walk(command: argparse.ArgumentParser, function: str) -> None:
    """Add the options of a walk along links."""
    add_link_choice(command)
    # Walks have the limits of all walks; the search for a path has its own.
    limits = "airw.values.Limits" if function == TREE else function
    for name, about, place in (
        ("max-hops", "follow links over at most N hops", function),
        ("max-nodes", "list at most N documents", function),
        ("max-edges", "follow at most N links", limits),
        ("max-fanout", "follow at most N links of each document", limits),
    ):
        parameter = name.replace("-", "_")
        add_parameter(command, f"{place}:{parameter}", f"--{name}", type=int, metavar="N", help=about)
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

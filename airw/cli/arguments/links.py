"""The arguments of the commands that follow links: link tree, path, list and check, and context."""

import argparse

from airw.cli import context, links
from airw.cli.arguments.bricks import Commands, add_command, add_formats, add_mode

__all__ = ["add_links"]

_CORPUS = "the corpus; default: the only one, or $AIRW_CORPUS"
_NAMED = "an id, the path of a file, or a title or alias"


def add_links(sub: Commands) -> None:
    """Add link, with all that it can do, and context."""
    about = "follow the links between documents"
    link = sub.add_parser("link", help=about, description=f"{about.capitalize()}.")
    actions = link.add_subparsers(title="commands", metavar="COMMAND", dest="action", required=True)
    _tree(actions)
    _path(actions)
    _list(actions)
    _check(actions)
    _context(sub)


def _tree(actions: Commands) -> None:
    epilog = """Each document is listed where it is found first, breadth-first; `(seen)` marks a link to one that stands
elsewhere. A link that is walked against its direction has an arrow to the left and the name of its inverse, by which it
is also chosen: what A supports is supported-by A. The last line says what was left out, where anything was.
Text is printed while the walk runs; the other formats are one document each.

  airw link tree index.md --max-hops 2 --type supports,supported-by
  airw link tree keys.md vault.md --format json | jq -r '.nodes[].id' | airw context --note -
  airw link tree index.md --format html --output index.html"""
    tree = add_command(actions, "tree", links.tree, "show what documents are linked with, as a tree", epilog=epilog)
    tree.usage = f"{tree.prog} [options] ID ..."
    tree.add_argument("ids", metavar="ID", nargs="*", help=f"where to start: {_NAMED}")
    _add_walk(tree, hops=3)
    _add_documents(tree)


def _path(actions: Commands) -> None:
    epilog = """The exit code is 1 where there is no path; what is said then tells whether a limit may be the cause.

  airw link path keys.md backup.md
  airw link path keys.md backup.md --direction out --max-hops 4 --format json"""
    path = add_command(actions, "path", links.path, "find the shortest path between two documents", epilog=epilog)
    path.usage = f"{path.prog} [options] FROM TO"
    path.add_argument("ids", metavar="FROM TO", nargs="*", help=f"its ends: each {_NAMED}")
    _add_walk(path, hops=10)
    _add_documents(path)


def _list(actions: Commands) -> None:
    epilog = """Links that lead nowhere, or to more than one document, are listed with the line that they are on.

  airw link list keys.md --direction in"""
    listing = add_command(actions, "list", links.listing, "list the links of one document", epilog=epilog)
    listing.add_argument("id", metavar="ID", help=f"the document: {_NAMED}")
    _add_choice(listing)
    _add_corpus(listing)
    listing.add_argument("--format", choices=("text", "json", "records"), default="text", help="default: text")


def _check(actions: Commands) -> None:
    about = "tell how the documents of a corpus hang together, and which links lead nowhere"
    check = add_command(actions, "check", links.check, about)
    _add_corpus(check)
    check.add_argument("-v", "--verbose", action="store_true", help="list those links, each with its file and line")
    check.add_argument("--strict", action="store_true", help="exit with 1 where a link leads nowhere")
    add_formats(check)


def _context(sub: Commands) -> None:
    epilog = """The documents are those of --note, then those of --walk in its order, then those of --query by rank,
each once. A document is printed whole or not at all: one that there is no room for is left out and counted, and smaller
ones after it may still be printed. The budget is of all that is printed. Options for links are as in `link tree`.

  airw context --walk index.md --max-hops 2 --max-chars 20000
  airw context --query "signing keys" -k 5 --note policy.md --max-tokens 4000
  airw link tree index.md --format json | jq -r '.nodes[].id' | airw context --note -"""
    about = "print whole documents, within a budget: named ones, linked ones, found ones"
    bundle = add_command(sub, "context", context.context, about, epilog=epilog)
    _add_selectors(bundle)
    _add_budget(bundle)
    _add_walk(bundle, hops=3)
    bundle.add_argument("--format", choices=("text", "json", "records"), default="text", help="default: text")
    _add_output(bundle)


def _add_selectors(bundle: argparse.ArgumentParser) -> None:
    bundle.add_argument(
        "--walk",
        metavar="ID",
        action="append",
        default=[],
        help=f"follow links from here: {_NAMED}; may be given several times",
    )
    bundle.add_argument(
        "--note",
        metavar="ID",
        action="append",
        default=[],
        help=f"this document: {_NAMED}; `-` reads ids from standard input, one a line; may be given several times",
    )
    bundle.add_argument("--query", metavar="TEXT", help="search for this")
    bundle.add_argument("-k", type=int, default=10, help="how many documents --query finds; default: 10")
    add_mode(bundle)


def _add_budget(bundle: argparse.ArgumentParser) -> None:
    bundle.add_argument("--max-chars", type=int, metavar="N", help="print at most N characters")
    bundle.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="print at most N tokens; estimated, one for 4 bytes, unless --tokenizer counts them",
    )
    bundle.add_argument("--tokenizer", metavar="FILE", help="a tokenizer.json that counts the tokens")


def _add_choice(command: argparse.ArgumentParser) -> None:
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


def _add_walk(command: argparse.ArgumentParser, *, hops: int) -> None:
    """Let a command follow links."""
    _add_choice(command)
    command.add_argument("--max-hops", type=int, default=hops, metavar="N", help=f"default: {hops}")
    command.add_argument("--max-nodes", type=int, metavar="N", help="list at most N documents; default: 10000")
    command.add_argument("--max-edges", type=int, metavar="N", help="follow at most N links; default: 100000")
    command.add_argument(
        "--max-fanout", type=int, metavar="N", help="follow at most N links of each document; default: 1000"
    )
    command.add_argument("--weighted", action="store_true", help="go by what links cost, not by hops")
    command.add_argument("--timeout", type=float, metavar="SECONDS", help="stop after this long")
    _add_corpus(command)


def _add_documents(command: argparse.ArgumentParser) -> None:
    """Let a command print a walk in any of its formats."""
    formats = ("text", "json", "records", "dot", "html")
    command.add_argument("--format", choices=formats, default="text", help="default: text")
    command.add_argument("--max-chars", type=int, metavar="N", help="print at most N characters; with --format records")
    command.add_argument("--schema", action="store_true", help="print the JSON schema of --format json, and no more")
    _add_output(command)


def _add_output(command: argparse.ArgumentParser) -> None:
    command.add_argument("--output", metavar="FILE", help="write to this file, in UTF-8, instead of standard output")


def _add_corpus(command: argparse.ArgumentParser) -> None:
    command.add_argument("-c", "--corpus", metavar="CORPUS", help=_CORPUS)

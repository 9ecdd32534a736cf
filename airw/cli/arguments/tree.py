"""The parser of all commands."""

import argparse
from importlib.metadata import version

from airw.cli.arguments.bricks import Parser
from airw.cli.arguments.corpora import add_corpora
from airw.cli.arguments.finding import add_finding
from airw.cli.arguments.links import add_links
from airw.cli.arguments.models import add_models

__all__ = ["parser"]

_ABOUT = """Find things in collections of documents, and walk their links.

A corpus is one file, made by `airw build` and known by its name. It lives below $AIRW_HOME, else below
$XDG_DATA_HOME/airw or ~/.local/share/airw. Where only one corpus exists, its name may be left out."""

_EXAMPLES = """examples:
  airw build notes/ --embedder light           index a folder of markdown notes
  airw build notes                             again, wherever you are: the folder is known by now
  airw search notes "signing keys"             rank its documents
  airw discover notes "signing keys"           commit to the few that answer, or to none
  airw traverse notes "signing keys"           search, then follow links, printing each hit as it is found
  airw traverse notes "signing keys" --format json | head -n 1
  airw link tree index.md                      show what a document is linked with
  airw context --walk index.md --max-chars 9000
                                               print it and what it is linked with, whole, as far as there is room"""


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    top = Parser(
        prog="airw", description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--version", action="version", version=f"airw {version('airw')}")
    top.set_defaults(command=None)
    sub = top.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    add_corpora(sub)
    add_finding(sub)
    add_links(sub)
    add_models(sub)
    return top

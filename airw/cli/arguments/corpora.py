"""The arguments of the commands that keep corpora: register, build, maintain, coverage, ls, info, rm."""

import argparse

from airw.cli import corpora, upkeep
from airw.cli.arguments.bricks import Commands, add_command, add_corpus, add_formats

__all__ = ["add_corpora"]

_ONE = "the corpus; default: the only one, or $AIRW_CORPUS"
_EMBEDDERS = (
    "light (no model needed), default (all-MiniLM-L6-v2), a model's name or folder, or a server's model as "
    "http://host:8080/v1#model"
)


def add_corpora(sub: Commands) -> None:
    """Add the commands that make corpora, look after them, tell of them and remove them."""
    _build(sub)
    _register(sub)
    _maintain(sub)
    _coverage(sub)
    add_command(sub, "ls", corpora.ls, "list the corpora, and what is registered and not built yet")
    info = add_command(sub, "info", corpora.info, "show what a corpus holds, how it was built and how it is kept")
    add_corpus(info, _ONE)
    add_formats(info)
    rm = add_command(sub, "rm", corpora.rm, "remove a corpus and its registration; its documents stay untouched")
    rm.add_argument("name", metavar="CORPUS", help="the corpus to remove")


def _build(sub: Commands) -> None:
    epilog = """What exists, or holds a separator, is a path: it is built, and registered under its name. Anything else
is the name of a registered corpus, or one of skills, packages and reports, which register themselves.
A second build reads everything again but indexes only what changed, and forgets what is gone.
A build that was interrupted is completed by the next one.
What cannot be read is left out and named; the exit code is then 1."""
    about = "index a folder, a file of JSON lines, or a registered corpus"
    build = add_command(sub, "build", corpora.build_corpus, about, epilog=epilog)
    build.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder of markdown notes, a .jsonl or .jsonl.gz file, or the name of a registered corpus",
    )
    build.add_argument("--name", help="the corpus's name, where SOURCE is a path; default: the folder's or file's")
    build.add_argument(
        "--embedder", metavar="SPEC", help=f"{_EMBEDDERS}; default: what the corpus was built with, else default"
    )
    build.add_argument("--no-prune", action="store_true", help="keep documents that are gone from the source")
    build.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also name what cost no document: odd links, and those that lead nowhere",
    )
    build.add_argument("--force", action="store_true", help="let an empty source empty the corpus")


def _register(sub: Commands) -> None:
    epilog = """Nothing is built: `airw build NAME` does that, and `airw maintain` keeps it up to date.
A name that is registered already gets the new definition; what was built stays until the next build.
Kind records imports and calls the function that `fetcher` names, so its module must be listed in $AIRW_FETCHERS.

  airw register notes notes --root ~/notes --embedder light
  airw register logs jsonl --root logs.jsonl.gz --param text_key=message --reindex-on interval --every-hours 6
  airw register code files --root ~/src --pattern '\\.py$' --strategy Chunked"""
    register = add_command(sub, "register", corpora.register, "tell where a corpus comes from", epilog=epilog)
    register.add_argument("name", metavar="NAME", help="the corpus's name")
    register.add_argument("kind", metavar="KIND", help="files, jsonl, notes, packages, records, reports or skills")
    register.add_argument("--root", metavar="PATH", help="what is read: the folder, or of jsonl the file")
    register.add_argument("--pattern", metavar="REGEX", help="only files whose relative path it finds itself in")
    register.add_argument("--embedder", metavar="SPEC", default="default", help=f"{_EMBEDDERS}; default: default")
    register.add_argument(
        "--strategy",
        metavar="JSON|NAME",
        help="how documents become surfaces, such as Chunked, or with parameters "
        """{"name": "Chunked", "params": {"chunk_size": 800}}; default: the kind's""",
    )
    register.add_argument(
        "--param",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="whatever else the kind takes; VALUE is JSON, or plain text; may be given several times",
    )
    _upkeep(register)


def _upkeep(register: argparse.ArgumentParser) -> None:
    register.add_argument(
        "--reindex-on",
        choices=("source-change", "interval", "manual"),
        help="when `airw maintain` builds it: each time, every so many hours, or only when it is named; "
        "default: the kind's",
    )
    register.add_argument(
        "--every-hours", type=float, metavar="HOURS", help="the interval; implies --reindex-on interval"
    )
    register.add_argument(
        "--window", metavar="HH:MM-HH:MM", help="only at this time of day, such as 22:00-06:00; default: at any"
    )


def _maintain(sub: Commands) -> None:
    epilog = """Safe to be run by a scheduler: what is not due is left alone, what did not change is not embedded again.
The exit code is 1 where a corpus failed; the others are maintained and reported all the same.
It is 2 where another maintenance is running, and where the one corpus that was named failed."""
    maintain = add_command(sub, "maintain", upkeep.maintain, "bring registered corpora up to date", epilog=epilog)
    add_corpus(maintain, "this one, whether it is due or not; default: all that are due")
    maintain.add_argument("--dry-run", action="store_true", help="say what would be built, and build nothing")
    add_formats(maintain)


def _coverage(sub: Commands) -> None:
    epilog = """The source is read, and nothing is embedded or written.
The exit code is 0 where all that the source gives is indexed, and 1 where something is missing."""
    coverage = add_command(
        sub, "coverage", upkeep.coverage, "compare what a corpus holds with what its source gives", epilog=epilog
    )
    add_corpus(coverage, "a registered corpus; default: the only one, or $AIRW_CORPUS")
    coverage.add_argument("-v", "--verbose", action="store_true", help="list the documents, too")
    add_formats(coverage)

"""The parser of all commands, built without importing what the commands need."""

import argparse
from functools import cache
from typing import Any

from airw.cli.evaluating_parser import add_evaluation
from airw.cli.finding_parser import add_finding
from airw.cli.options import (
    ADDRESS,
    EMBEDDERS,
    ONE_CORPUS,
    PATH,
    TREE,
    CommandParser,
    Commands,
    add_command,
    add_corpus,
    add_corpus_option,
    add_documents,
    add_embedder,
    add_formats,
    add_group,
    add_link_choice,
    add_link_walk,
    add_mode,
    add_output,
    add_parameter,
    add_store,
    parse_embedder,
    parse_whole_number,
)
from airw.cli.printing import print_line
from airw.cli.serving_parser import add_mcp, add_serving

_ABOUT = """Find documents in collections and follow their links.

A corpus is one file, which `airw build` writes. You refer to it by its name. Corpora are in $AIRW_HOME if it is set,
else in $XDG_DATA_HOME/airw or ~/.local/share/airw. If there is only one corpus, you may omit its name.
A corpus may also be on a PostgreSQL server; its address postgresql://USER@HOST/DATABASE#NAME may take the place of its
name everywhere."""

_EXAMPLES = """examples:
  airw build notes/ --embedder light           index a folder of markdown notes
  airw build notes                             update it from any folder: its path is registered now
  airw build notes/ --store 'postgresql://ada:$PASSWORD@db.example/kb'
                                               index it on a server
  airw search notes "signing keys"             rank its documents for a query
  airw discover notes "signing keys"           choose the few that answer it, or none
  airw traverse notes "signing keys"           search, follow links, print each hit at once
  airw traverse notes "signing keys" --format json | head -n 1
  airw link tree index.md                      show the links of a document as a tree
  airw context --walk index.md --max-chars 9000
                                               print it and its linked documents, up to a limit"""

_NAMED = "an id, the path of a file, or a title or alias"
_CORPUS = "the corpus, if there are several, and"


class _Version(argparse.Action):
    """Prints the version, and looks it up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print the version and exit."""
        from importlib.metadata import version

        print_line(f"airw {version('airw')}")
        parser.exit()


@cache
def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, which is built once."""
    top = CommandParser(
        prog="airw", description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    top.set_defaults(command=None)
    sub = top.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for add in (_corpora, add_finding, add_evaluation, _links, add_serving, add_mcp, _completion):
        add(sub)
    return top


def _corpora(sub: Commands) -> None:
    """Add the commands that build, maintain, list and remove corpora."""
    _build(sub)
    _register(sub)
    _maintain(sub)
    _coverage(sub)
    add_command(sub, "ls", "corpora.ls", "list all corpora, including those registered but not built yet")
    info = add_command(sub, "info", "corpora.info", "show the contents of a corpus, and how it is built and maintained")
    add_corpus(info, ONE_CORPUS)
    add_formats(info)
    info.add_argument(
        "--check", action="store_true", help="read the whole file and print what is damaged; the exit code is then 1"
    )
    _copies(sub)
    rm = add_command(sub, "rm", "corpora.rm", "remove a corpus and its registration; the documents themselves stay")
    rm.add_argument("name", metavar="CORPUS", help="the corpus to remove")


def _copies(sub: Commands) -> None:
    """Add the commands that copy a corpus and put a copy back."""
    epilog = """Others may search and change the corpus meanwhile. Do not copy the file with other tools while it is in
use: the last writes are in another file beside it.

  airw copy notes notes-backup.airw
  airw copy notes 'postgresql://ada:$PASSWORD@db.example/kb'"""
    about = "copy a corpus to a file or to a server, as a backup or to move it"
    copy = add_command(sub, "copy", "corpora.copy", about, epilog=epilog)
    copy.add_argument("name", metavar="CORPUS", help="the corpus to copy")
    copy.add_argument(
        "target",
        metavar="TARGET",
        help=f"the file of the copy, or its address: {ADDRESS}; default name: that of CORPUS",
    )
    copy.add_argument("--force", action="store_true", help="replace a corpus that is there already")
    epilog = (
        """The copy is checked first, and stays. Programs that have the corpus open continue with the restored one."""
    )
    restore = add_command(sub, "restore", "corpora.restore", "put a copy in the place of a corpus", epilog=epilog)
    restore.add_argument("name", metavar="CORPUS", help="the corpus to replace; it need not exist")
    restore.add_argument("source", metavar="COPY", help=f"the copy: a file, or an address: {ADDRESS}")


def _build(sub: Commands) -> None:
    epilog = """SOURCE is a path if it exists or contains a separator. A path is built, and registered under its name.
Any other SOURCE is the name of a registered corpus, or one of skills, packages and reports, which need no registration.
A second build reads all documents again, indexes only those that changed, and removes those that no longer exist.
An interrupted build is completed by the next build.
Documents that cannot be read are left out and listed; the exit code is then 1."""
    about = "index a folder, a file of JSON lines, or a registered corpus"
    build = add_command(sub, "build", "corpora.build_corpus", about, epilog=epilog)
    build.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder of markdown notes, a .jsonl or .jsonl.gz file, or the name of a registered corpus",
    )
    build.add_argument(
        "--name", help="the name of the corpus, if SOURCE is a path; default: the name of the folder or file"
    )
    build.add_argument(
        "--pattern",
        metavar="REGEX",
        help="only files of the folder whose relative path matches this regular expression somewhere; default: that of "
        "the last build, else files named .md, .markdown or .mdx",
    )
    build.add_argument(
        "--hidden",
        action="store_true",
        help="also read what is hidden or named node_modules, and what a .gitignore names; the next builds do so, too",
    )
    build.add_argument(
        "--root",
        metavar="FOLDER",
        help="the folder in SOURCE where links such as /guide/start begin, the root of a site; '.' is SOURCE itself; "
        "default: that of the last build, else the folder under which most such links lead to a note",
    )
    add_store(build, "; default: where the corpus is registered, else a file")
    build.add_argument(
        "--embedder",
        metavar="SPEC",
        type=parse_embedder,
        help=f"{EMBEDDERS}; default: the embedder of the last build, else default",
    )
    build.add_argument(
        "--language",
        choices=["en", "none"],
        help="the language of the texts, whose words are stemmed; none: words as they are; default: that of the last "
        "build, else en",
    )
    build.add_argument("--no-prune", action="store_true", help="keep documents that are no longer in the source")
    build.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also list smaller problems, and links that lead nowhere",
    )
    build.add_argument(
        "--force",
        action="store_true",
        help="allow an empty source, or one in another folder, to replace all documents, and links to be removed",
    )


def _register(sub: Commands) -> None:
    epilog = """This builds nothing: `airw build NAME` builds the corpus, and `airw maintain` keeps it up to date.
If the name is registered already, the new definition replaces the old one; the next build uses it.
A corpus of kind records imports and calls the function in --param fetcher=MODULE:FUNCTION, so the module must be
listed in $AIRW_FETCHERS.

  airw register notes notes --root ~/notes --embedder light
  airw register logs jsonl --root logs.jsonl.gz --param text_key=message --reindex-on interval --every-hours 6
  airw register code files --root ~/src --pattern '\\.py$' --strategy Chunked"""
    register = add_command(
        sub, "register", "corpora.register", "register a corpus: its source and how to index it", epilog=epilog
    )
    register.add_argument("name", metavar="NAME", help="the name of the corpus")
    register.add_argument(
        "kind", metavar="KIND", help="the kind of its source: files, jsonl, notes, packages, records, reports or skills"
    )
    register.add_argument("--root", metavar="PATH", help="the folder to read; for jsonl, the file")
    register.add_argument(
        "--pattern", metavar="REGEX", help="only files whose relative path matches this regular expression somewhere"
    )
    add_parameter(
        register, "airw.corpora.register:embedder", "--embedder", metavar="SPEC", type=parse_embedder, help=EMBEDDERS
    )
    register.add_argument(
        "--strategy",
        metavar="JSON|NAME",
        help="how documents are split into surfaces, such as Chunked, or with parameters "
        """{"name": "Chunked", "params": {"chunk_size": 800}}; default: that of the kind""",
    )
    register.add_argument(
        "--param",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="any other parameter of the kind; VALUE is JSON or plain text; may be repeated",
    )
    add_store(register, "; default: a file")
    _upkeep(register)


def _upkeep(register: argparse.ArgumentParser) -> None:
    register.add_argument(
        "--reindex-on",
        choices=("source-change", "interval", "manual"),
        help="when `airw maintain` builds it: each time, at an interval, or only when you name it; "
        "default: that of the kind",
    )
    register.add_argument(
        "--every-hours", type=float, metavar="HOURS", help="the interval in hours; implies --reindex-on interval"
    )
    register.add_argument(
        "--window",
        metavar="HH:MM-HH:MM",
        help="build only at this time of day, such as 22:00-06:00; default: at any time",
    )


def _maintain(sub: Commands) -> None:
    epilog = """You can run this from a scheduler: corpora that are not due are skipped, and documents that did not
change are not embedded again.
The exit code is 1 if a corpus failed; the other corpora are still maintained and reported.
It is 2 if another maintenance is running, or if you named one corpus and it failed."""
    maintain = add_command(sub, "maintain", "corpora.maintain", "bring registered corpora up to date", epilog=epilog)
    add_corpus(maintain, "maintain this corpus, even if it is not due; default: all corpora that are due")
    maintain.add_argument("--dry-run", action="store_true", help="print what would be built, but build nothing")
    add_formats(maintain)


def _coverage(sub: Commands) -> None:
    epilog = """This reads the source, but embeds and writes nothing.
The exit code is 0 if all documents of the source are indexed, and 1 if some are missing."""
    coverage = add_command(
        sub, "coverage", "corpora.coverage", "compare the documents of a corpus with its source", epilog=epilog
    )
    add_corpus(coverage, "a registered corpus; default: $AIRW_CORPUS, or the only one")
    coverage.add_argument("-v", "--verbose", action="store_true", help="list the documents as well")
    add_formats(coverage)


def _links(sub: Commands) -> None:
    """Add link with its subcommands, and context."""
    actions = add_group(sub, "link", "follow the links between documents")
    _tree(actions)
    _path(actions)
    _list(actions)
    _check(actions)
    _context(sub)


def _tree(actions: Commands) -> None:
    epilog = """Each document is printed where the walk reaches it first, breadth-first; `(seen)` marks a link to a
document that is printed elsewhere. A link that is followed backwards has an arrow to the left and the name of the
inverse type, which --type takes too: if A supports B, then B is supported-by A. If a limit left anything out, the
last line says how much. Text is printed while the walk runs; the other formats are printed at the end.

  airw link tree index.md --max-hops 2 --type supports,supported-by
  airw link tree keys.md vault.md --format json | jq -r '.nodes[].id' | airw context --note -
  airw link tree index.md --format html --output index.html"""
    tree = add_command(actions, "tree", "links.tree", "show the links of documents as a tree", epilog=epilog)
    tree.usage = f"{tree.prog} [options] [CORPUS] ID ..."
    tree.add_argument(
        "ids", metavar="[CORPUS] ID ...", nargs="*", help=f"{_CORPUS} the documents to start from: {_NAMED}"
    )
    add_link_walk(tree, TREE)
    add_documents(tree)


def _path(actions: Commands) -> None:
    epilog = """The exit code is 1 if there is no path; the output then says whether a limit may be the reason.

  airw link path keys.md backup.md
  airw link path keys.md backup.md --direction out --max-hops 4 --format json"""
    path = add_command(actions, "path", "links.path", "find the shortest path between two documents", epilog=epilog)
    path.usage = f"{path.prog} [options] [CORPUS] FROM TO"
    path.add_argument(
        "ids", metavar="[CORPUS] FROM TO", nargs="*", help=f"{_CORPUS} the first and the last document: each {_NAMED}"
    )
    add_link_walk(path, PATH)
    add_documents(path)


def _list(actions: Commands) -> None:
    epilog = """Links that lead nowhere, or may lead to several documents, are printed with the number of their line.

  airw link list keys.md --direction in"""
    listing = add_command(actions, "list", "links.listing", "list the links of one document", epilog=epilog)
    listing.usage = f"{listing.prog} [options] [CORPUS] ID"
    listing.add_argument("ids", metavar="[CORPUS] ID", nargs="+", help=f"{_CORPUS} the document: {_NAMED}")
    add_link_choice(listing)
    add_corpus_option(listing)
    listing.add_argument("--format", choices=("text", "json", "records"), default="text", help="default: text")


def _check(actions: Commands) -> None:
    about = "check the links of a corpus: how documents are connected, and which links lead nowhere"
    check = add_command(actions, "check", "links.check", about)
    add_corpus(check, ONE_CORPUS)
    check.add_argument(
        "-v", "--verbose", action="store_true", help="list the links that lead nowhere, each with its file and line"
    )
    check.add_argument("--strict", action="store_true", help="exit with code 1 if a link leads nowhere")
    add_formats(check)


def _context(sub: Commands) -> None:
    epilog = """Prints the documents of --note, then those of --walk in the order of the walk, then those of --query by
rank, without duplicates. The first document that does not fit is cut: the output has the passage around the text that
the query found, or its beginning. Others that do not fit are left out and counted; smaller documents after them may
still fit. The budget is for the whole output. Options that choose links are the same as in `link tree`.

  airw context --walk index.md --max-hops 2 --max-chars 20000
  airw context --query "signing keys" -k 5 --note policy.md --max-tokens 4000
  airw link tree index.md --format json | jq -r '.nodes[].id' | airw context --note -"""
    about = "print the text of documents within a budget: by name, along links, or by a query"
    bundle = add_command(sub, "context", "links.context", about, epilog=epilog)
    bundle.add_argument("name", metavar="CORPUS", nargs="?", help=ONE_CORPUS)
    _add_selectors(bundle)
    _add_budget(bundle)
    add_link_walk(bundle, TREE)
    bundle.add_argument("--format", choices=("text", "json", "records"), default="text", help="default: text")
    add_output(bundle)


def _add_selectors(bundle: argparse.ArgumentParser) -> None:
    bundle.add_argument(
        "--walk",
        metavar="ID",
        action="append",
        default=[],
        help=f"follow links from this document: {_NAMED}; may be repeated",
    )
    bundle.add_argument(
        "--note",
        metavar="ID",
        action="append",
        default=[],
        help=f"print this document: {_NAMED}; `-` reads ids from standard input, one a line; may be repeated",
    )
    bundle.add_argument("--query", metavar="TEXT", help="search for this text")
    add_parameter(
        bundle, "airw.views.bundle:k", "-k", type=parse_whole_number, help="print at most K documents of --query"
    )
    add_mode(bundle, "airw.views.bundle")
    add_embedder(bundle)


def _add_budget(bundle: argparse.ArgumentParser) -> None:
    bundle.add_argument("--max-chars", type=int, metavar="N", help="print at most N characters")
    bundle.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="print at most N tokens; estimated as 4 bytes each, unless --tokenizer counts them",
    )
    bundle.add_argument("--tokenizer", metavar="FILE", help="the tokenizer.json file to count tokens with")


def _completion(sub: Commands) -> None:
    epilog = """TAB then completes commands, options, their choices, and the names of corpora.

  bash    eval "$(airw completion bash)"        in ~/.bashrc
  zsh     eval "$(airw completion zsh)"         in ~/.zshrc, after compinit
  fish    airw completion fish | source         in ~/.config/fish/config.fish"""
    about = "print the script that completes airw's words in a shell"
    completion = add_command(sub, "completion", "completion.script", about, epilog=epilog)
    completion.add_argument("shell", choices=("bash", "fish", "zsh"), help="the shell")

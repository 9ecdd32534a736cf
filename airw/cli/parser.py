"""What the command line understands: the parser of all commands, built without anything that the commands need."""

import argparse
import math
from typing import Any

from airw.cli.options import (
    ONE_CORPUS,
    Commands,
    Parser,
    add_command,
    add_corpus,
    add_corpus_option,
    add_documents,
    add_formats,
    add_group,
    add_link_choice,
    add_link_walk,
    add_mode,
    add_output,
    add_query,
    add_rerank,
)

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

_EMBEDDERS = (
    "light (no model needed), default (all-MiniLM-L6-v2), a model's name or folder, or a server's model as "
    "http://host:8080/v1#model"
)
_STRATEGIES = ("conservative", "top_k", "abs_threshold", "rel_threshold", "score_gap")  # as `airw.discovery` has them
_LEVELS = ("metadata", "body", "bundled")
_NAMED = "an id, the path of a file, or a title or alias"


class _Version(argparse.Action):
    """Prints the version of the package, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it and leave."""
        from importlib.metadata import version

        print(f"airw {version('airw')}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    top = Parser(
        prog="airw", description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    top.set_defaults(command=None)
    sub = top.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    _corpora(sub)
    _finding(sub)
    _links(sub)
    _models(sub)
    return top


def _corpora(sub: Commands) -> None:
    """Add the commands that make corpora, look after them, tell of them and remove them."""
    _build(sub)
    _register(sub)
    _maintain(sub)
    _coverage(sub)
    add_command(sub, "ls", "corpora.ls", "list the corpora, and what is registered and not built yet")
    info = add_command(sub, "info", "corpora.info", "show what a corpus holds, how it was built and how it is kept")
    add_corpus(info, ONE_CORPUS)
    add_formats(info)
    rm = add_command(sub, "rm", "corpora.rm", "remove a corpus and its registration; its documents stay untouched")
    rm.add_argument("name", metavar="CORPUS", help="the corpus to remove")


def _build(sub: Commands) -> None:
    epilog = """What exists, or holds a separator, is a path: it is built, and registered under its name. Anything else
is the name of a registered corpus, or one of skills, packages and reports, which register themselves.
A second build reads everything again but indexes only what changed, and forgets what is gone.
A build that was interrupted is completed by the next one.
What cannot be read is left out and named; the exit code is then 1."""
    about = "index a folder, a file of JSON lines, or a registered corpus"
    build = add_command(sub, "build", "corpora.build_corpus", about, epilog=epilog)
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
    register = add_command(sub, "register", "corpora.register", "tell where a corpus comes from", epilog=epilog)
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
    maintain = add_command(sub, "maintain", "corpora.maintain", "bring registered corpora up to date", epilog=epilog)
    add_corpus(maintain, "this one, whether it is due or not; default: all that are due")
    maintain.add_argument("--dry-run", action="store_true", help="say what would be built, and build nothing")
    add_formats(maintain)


def _coverage(sub: Commands) -> None:
    epilog = """The source is read, and nothing is embedded or written.
The exit code is 0 where all that the source gives is indexed, and 1 where something is missing."""
    coverage = add_command(
        sub, "coverage", "corpora.coverage", "compare what a corpus holds with what its source gives", epilog=epilog
    )
    add_corpus(coverage, "a registered corpus; default: the only one, or $AIRW_CORPUS")
    coverage.add_argument("-v", "--verbose", action="store_true", help="list the documents, too")
    add_formats(coverage)


def _finding(sub: Commands) -> None:
    """Add search, traverse, discover, expand and calibrate."""
    _search(sub)
    _traverse(sub)
    _discover(sub)
    _expand(sub)
    _calibrate(sub)


def _search(sub: Commands) -> None:
    epilog = """Scores: cosine in dense mode, BM25 in lexical mode, reciprocal rank fusion of both in hybrid mode."""
    about = "rank the documents of a corpus against a query"
    search = add_command(sub, "search", "finding.search", about, epilog=epilog)
    add_query(search)
    search.add_argument("-k", type=int, default=10, help="how many hits; default: 10")
    add_mode(search)
    search.add_argument("--filter", metavar="JSON", help="""only documents that match, such as '{"status": "Final"}'""")
    search.add_argument("--surfaces", metavar="KINDS", help="only these surface kinds, such as description,chunk")
    search.add_argument("--all-surfaces", action="store_true", help="rank surfaces, not documents by their best one")
    search.add_argument(
        "--fusion",
        choices=("rrf", "blend"),
        default="rrf",
        help="how hybrid mode joins the two: by rank, or cosine and BM25 half and half; default: rrf",
    )
    add_rerank(search)
    search.add_argument(
        "--rerank-text",
        choices=("surface", "artifact"),
        default="surface",
        help="what is read again: what matched, or the whole document; default: surface",
    )
    add_formats(search)


def _traverse(sub: Commands) -> None:
    epilog = """Each hit is printed the moment it is committed: elapsed milliseconds, depth, score, and the path to it.
The end says why the walk stopped and what each limit left out.

  eager           start from a hybrid search and follow links breadth-first
  collapsed-tree  start from summaries and descend to the parts of their documents"""
    walk = add_command(sub, "traverse", "finding.traverse", "search, then follow links; streams", epilog=epilog)
    add_query(walk)
    walk.add_argument("--policy", choices=("eager", "collapsed-tree"), default="eager", help="default: eager")
    walk.add_argument(
        "--max-depth", type=int, metavar="N", help="do not follow links of hits at this depth; default: 2"
    )
    walk.add_argument("--node-budget", type=int, default=64, metavar="N", help="visit at most N documents; default: 64")
    walk.add_argument("--timeout", type=float, metavar="SECONDS", help="stop after this long")
    walk.add_argument("--start", type=int, default=4, metavar="N", help="start from the N best hits; default: 4")
    walk.add_argument(
        "--direction", choices=("out", "in", "both"), default="both", help="which links eager follows; default: both"
    )
    add_formats(walk)


def _discover(sub: Commands) -> None:
    epilog = """Where several corpora are asked, each is reported as it answers, and their hits are fused by rank.
The exit code is 0 also where nothing answers the query, 1 where a corpus failed and others answered,
2 where all failed."""
    discover = add_command(
        sub, "discover", "finding.discover", "commit to the few documents that answer, or to none", epilog=epilog
    )
    words = "[CORPUS ...] QUERY"
    discover.usage = f"{discover.prog} [options] {words}"
    discover.add_argument("words", metavar=words, nargs="+", help="the corpora, where there are several, and the query")
    discover.add_argument(
        "-c",
        "--corpus",
        metavar="CORPUS",
        action="append",
        default=[],
        help="a corpus; may be given several times; default: the only one, or $AIRW_CORPUS",
    )
    discover.add_argument("-k", type=int, default=10, help="how many candidates; default: 10")
    add_mode(discover)
    discover.add_argument(
        "--filter", metavar="JSON", help="""only documents that match, such as '{"status": "Final"}'"""
    )
    discover.add_argument(
        "--strategy", choices=_STRATEGIES, default="conservative", help="how to commit; default: conservative"
    )
    discover.add_argument("--max-k", type=int, default=3, metavar="N", help="commit to at most N; default: 3")
    discover.add_argument(
        "--rel", type=float, default=0.9, metavar="SHARE", help="the share of the best score to reach; default: 0.9"
    )
    discover.add_argument(
        "--min-score",
        type=_floor,
        metavar="NUMBER|auto",
        help="the best score to reach; auto: the one that `calibrate --save` kept",
    )
    _revealing(discover)
    add_rerank(discover)
    discover.add_argument(
        "--source-timeout", type=float, default=30.0, metavar="SECONDS", help="how long each corpus has; default: 30"
    )
    discover.add_argument("--timeout", type=float, metavar="SECONDS", help="how long they have all together")
    add_formats(discover)


def _revealing(discover: argparse.ArgumentParser) -> None:
    discover.add_argument(
        "--disclose",
        choices=_LEVELS,
        default="metadata",
        help="how much to reveal: what is known, the text, or also the files beside it; default: metadata",
    )
    discover.add_argument(
        "--root",
        metavar="FOLDER",
        action="append",
        default=[],
        help="files below it may be read; may be given several times",
    )
    discover.add_argument(
        "--expand", type=int, metavar="N", help="also print what matched with N neighbours on either side"
    )


def _floor(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        floor = float(text)
    except ValueError:
        floor = math.nan
    if not math.isfinite(floor):
        raise argparse.ArgumentTypeError(f"must be a number or auto, not {text!r}")
    return floor


def _expand(sub: Commands) -> None:
    expand = add_command(sub, "expand", "finding.expand", "print what stands around a surface of a document")
    add_query(expand, "[CORPUS] ARTIFACT_ID", "the corpus, where there are several, and the document's id")
    expand.add_argument(
        "--surface-index",
        type=int,
        default=0,
        metavar="N",
        help="the surface, as `search --format json` tells it; default: 0",
    )
    around = expand.add_mutually_exclusive_group()
    around.add_argument(
        "--window", type=int, default=1, metavar="N", help="N surfaces of its kind on either side; default: 1"
    )
    around.add_argument("--parent", action="store_true", help="the whole document")
    add_formats(expand)


def _calibrate(sub: Commands) -> None:
    epilog = """CASES.jsonl holds one object a line: {"query": "…", "gold": ["id", …]}, with an empty gold where nothing
in the corpus answers the query. Both kinds are needed. The floor holds for one mode and one reranker."""
    about = "find the score below which discover should abstain"
    calibrate = add_command(sub, "calibrate", "finding.calibrate", about, epilog=epilog)
    add_query(calibrate, "[CORPUS] CASES.jsonl", "the corpus, where there are several, and the file of cases")
    calibrate.add_argument("-k", type=int, default=10, help="the depth that an answer must be found in; default: 10")
    add_mode(calibrate)
    calibrate.add_argument(
        "--sensitivity-weight",
        type=float,
        default=0.5,
        metavar="SHARE",
        help="how much answering counts against abstaining, from 0 to 1; default: 0.5",
    )
    add_rerank(calibrate)
    calibrate.add_argument("--save", action="store_true", help="keep it for `discover --min-score auto`")
    add_formats(calibrate)


def _links(sub: Commands) -> None:
    """Add link, with all that it can do, and context."""
    actions = add_group(sub, "link", "follow the links between documents")
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
    tree = add_command(actions, "tree", "links.tree", "show what documents are linked with, as a tree", epilog=epilog)
    tree.usage = f"{tree.prog} [options] ID ..."
    tree.add_argument("ids", metavar="ID", nargs="*", help=f"where to start: {_NAMED}")
    add_link_walk(tree, hops=3)
    add_documents(tree)


def _path(actions: Commands) -> None:
    epilog = """The exit code is 1 where there is no path; what is said then tells whether a limit may be the cause.

  airw link path keys.md backup.md
  airw link path keys.md backup.md --direction out --max-hops 4 --format json"""
    path = add_command(actions, "path", "links.path", "find the shortest path between two documents", epilog=epilog)
    path.usage = f"{path.prog} [options] FROM TO"
    path.add_argument("ids", metavar="FROM TO", nargs="*", help=f"its ends: each {_NAMED}")
    add_link_walk(path, hops=10)
    add_documents(path)


def _list(actions: Commands) -> None:
    epilog = """Links that lead nowhere, or to more than one document, are listed with the line that they are on.

  airw link list keys.md --direction in"""
    listing = add_command(actions, "list", "links.listing", "list the links of one document", epilog=epilog)
    listing.add_argument("id", metavar="ID", help=f"the document: {_NAMED}")
    add_link_choice(listing)
    add_corpus_option(listing)
    listing.add_argument("--format", choices=("text", "json", "records"), default="text", help="default: text")


def _check(actions: Commands) -> None:
    about = "tell how the documents of a corpus hang together, and which links lead nowhere"
    check = add_command(actions, "check", "links.check", about)
    add_corpus_option(check)
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
    bundle = add_command(sub, "context", "links.context", about, epilog=epilog)
    _add_selectors(bundle)
    _add_budget(bundle)
    add_link_walk(bundle, hops=3)
    bundle.add_argument("--format", choices=("text", "json", "records"), default="text", help="default: text")
    add_output(bundle)


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


def _models(sub: Commands) -> None:
    """Add model export."""
    actions = add_group(sub, "model", "make models ready")
    epilog = """The vectors stay the same (to 1e-4, which is checked before anything is put in place), and so does the
model's name: a corpus built with the model opens with the export, and the other way round. Where onnxruntime and
tokenizers are installed, a folder with an export is run by them: without torch, and faster.
Exporting takes: pip install 'airw[sentence-transformers,onnx]' onnx"""
    export = add_command(actions, "export", "corpora.export", "export a model for onnxruntime", epilog=epilog)
    export.add_argument("folder", metavar="FOLDER", help="a model folder saved by sentence-transformers")
    export.add_argument(
        "--to", metavar="FOLDER", help="write it here, to be used without the weights; default: into the model folder"
    )

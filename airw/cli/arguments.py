"""What the command line understands."""

import argparse
import math
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NoReturn

from airw.cli import commands, finding
from airw.disclosure import LEVELS
from airw.selection import STRATEGIES

__all__ = ["parser"]

_ABOUT = """Find things in collections of documents, and walk their links.

A corpus is one file, made by `airw build` and known by its name. It lives below $AIRW_HOME, else below
$XDG_DATA_HOME/airw or ~/.local/share/airw. Where only one corpus exists, its name may be left out."""

_EXAMPLES = """examples:
  airw build notes/ --embedder light           index a folder of markdown notes
  airw search notes "signing keys"             rank its documents
  airw discover notes "signing keys"           commit to the few that answer, or to none
  airw traverse notes "signing keys"           search, then follow links, printing each hit as it is found
  airw traverse notes "signing keys" --format json | head -n 1"""


class _Parser(argparse.ArgumentParser):
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
        self.exit(2, f"airw: {message}; see `{self.prog} --help`\n")


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    top = _Parser(
        prog="airw", description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--version", action="version", version=f"airw {version('airw')}")
    top.set_defaults(command=None)
    sub = top.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    _build(sub)
    _search(sub)
    _traverse(sub)
    _discover(sub)
    _expand(sub)
    _calibrate(sub)
    _command(sub, "ls", commands.ls, "list the corpora")
    info = _command(sub, "info", commands.info, "show what a corpus holds and how it was built")
    info.add_argument("name", metavar="CORPUS", nargs="?", help="the corpus; default: the only one, or $AIRW_CORPUS")
    info.add_argument("-c", "--corpus", metavar="CORPUS", help="the same, as an option")
    _formats(info)
    rm = _command(sub, "rm", commands.rm, "remove a corpus; its documents stay untouched")
    rm.add_argument("name", metavar="CORPUS", help="the corpus to remove")
    _model(sub)
    return top


def _command(
    sub: "argparse._SubParsersAction[_Parser]",
    name: str,
    run: Callable[..., Any],
    about: str,
    **more: Any,
) -> argparse.ArgumentParser:
    made = sub.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **more,
    )
    made.set_defaults(run=run)
    return made


def _model(sub: Any) -> None:
    about = "make models ready"
    model = sub.add_parser("model", help=about, description=f"{about.capitalize()}.")
    actions = model.add_subparsers(title="commands", metavar="COMMAND", dest="action", required=True)
    epilog = """The vectors stay the same (to 1e-4, which is checked before anything is put in place), and so does the
model's name: a corpus built with the model opens with the export, and the other way round. Where onnxruntime and
tokenizers are installed, a folder with an export is run by them: without torch, and faster.
Exporting takes: pip install 'airw[sentence-transformers,onnx]' onnx"""
    export = _command(actions, "export", commands.export, "export a model for onnxruntime", epilog=epilog)
    export.add_argument("folder", metavar="FOLDER", help="a model folder saved by sentence-transformers")
    export.add_argument(
        "--to", metavar="FOLDER", help="write it here, to be used without the weights; default: into the model folder"
    )


def _build(sub: Any) -> None:
    epilog = """A second build reads everything again but indexes only what changed, and forgets what is gone.
A build that was interrupted is completed by the next one.
What cannot be read is left out and named; the exit code is then 1."""
    build = _command(
        sub, "build", commands.build_corpus, "index a folder of notes, or a file of JSON lines", epilog=epilog
    )
    build.add_argument("source", metavar="SOURCE", help="a folder of markdown files, or a .jsonl or .jsonl.gz file")
    build.add_argument("--name", help="the corpus's name; default: the folder's or file's")
    build.add_argument(
        "--embedder",
        metavar="SPEC",
        help="light (no model needed), default (all-MiniLM-L6-v2), a model's name or folder, or a server's model as "
        "http://host:8080/v1#model; "
        "default: what the corpus was built with, else default",
    )
    build.add_argument("--no-prune", action="store_true", help="keep documents that are gone from the source")
    build.add_argument(
        "-v", "--verbose", action="store_true", help="also name what cost no document, such as odd links"
    )
    build.add_argument("--force", action="store_true", help="let an empty source empty the corpus")


def _search(sub: Any) -> None:
    epilog = """Scores: cosine in dense mode, BM25 in lexical mode, reciprocal rank fusion of both in hybrid mode."""
    search = _command(sub, "search", commands.search, "rank the documents of a corpus against a query", epilog=epilog)
    _query(search)
    search.add_argument("-k", type=int, default=10, help="how many hits; default: 10")
    _mode(search)
    search.add_argument("--filter", metavar="JSON", help="""only documents that match, such as '{"status": "Final"}'""")
    search.add_argument("--surfaces", metavar="KINDS", help="only these surface kinds, such as description,chunk")
    search.add_argument("--all-surfaces", action="store_true", help="rank surfaces, not documents by their best one")
    search.add_argument(
        "--fusion",
        choices=("rrf", "blend"),
        default="rrf",
        help="how hybrid mode joins the two: by rank, or cosine and BM25 half and half; default: rrf",
    )
    _rerank(search)
    search.add_argument(
        "--rerank-text",
        choices=("surface", "artifact"),
        default="surface",
        help="what is read again: what matched, or the whole document; default: surface",
    )
    _formats(search)


def _traverse(sub: Any) -> None:
    epilog = """Each hit is printed the moment it is committed: elapsed milliseconds, depth, score, and the path to it.
The end says why the walk stopped and what each limit left out.

  eager           start from a hybrid search and follow links breadth-first
  collapsed-tree  start from summaries and descend to the parts of their documents"""
    walk = _command(sub, "traverse", commands.traverse, "search, then follow links; streams", epilog=epilog)
    _query(walk)
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
    _formats(walk)


def _discover(sub: Any) -> None:
    epilog = """Where several corpora are asked, each is reported as it answers, and their hits are fused by rank.
The exit code is 0 also where nothing answers the query, 1 where a corpus failed and others answered,
2 where all failed."""
    discover = _command(
        sub, "discover", finding.discover, "commit to the few documents that answer, or to none", epilog=epilog
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
    _mode(discover)
    discover.add_argument(
        "--filter", metavar="JSON", help="""only documents that match, such as '{"status": "Final"}'"""
    )
    discover.add_argument(
        "--strategy", choices=STRATEGIES, default="conservative", help="how to commit; default: conservative"
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
    _rerank(discover)
    discover.add_argument(
        "--source-timeout", type=float, default=30.0, metavar="SECONDS", help="how long each corpus has; default: 30"
    )
    discover.add_argument("--timeout", type=float, metavar="SECONDS", help="how long they have all together")
    _formats(discover)


def _revealing(discover: argparse.ArgumentParser) -> None:
    discover.add_argument(
        "--disclose",
        choices=LEVELS,
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


def _expand(sub: Any) -> None:
    expand = _command(sub, "expand", finding.expand, "print what stands around a surface of a document")
    _query(expand, "[CORPUS] ARTIFACT_ID", "the corpus, where there are several, and the document's id")
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
    _formats(expand)


def _calibrate(sub: Any) -> None:
    epilog = """CASES.jsonl holds one object a line: {"query": "…", "gold": ["id", …]}, with an empty gold where nothing
in the corpus answers the query. Both kinds are needed. The floor holds for one mode and one reranker."""
    about = "find the score below which discover should abstain"
    calibrate = _command(sub, "calibrate", finding.calibrate, about, epilog=epilog)
    _query(calibrate, "[CORPUS] CASES.jsonl", "the corpus, where there are several, and the file of cases")
    calibrate.add_argument("-k", type=int, default=10, help="the depth that an answer must be found in; default: 10")
    _mode(calibrate)
    calibrate.add_argument(
        "--sensitivity-weight",
        type=float,
        default=0.5,
        metavar="SHARE",
        help="how much answering counts against abstaining, from 0 to 1; default: 0.5",
    )
    _rerank(calibrate)
    calibrate.add_argument("--save", action="store_true", help="keep it for `discover --min-score auto`")
    _formats(calibrate)


def _query(
    command: argparse.ArgumentParser,
    words: str = "[CORPUS] QUERY",
    about: str = "the corpus, where there are several, and the query",
) -> None:
    command.usage = f"{command.prog} [options] {words}"
    command.add_argument("words", metavar=words, nargs="+", help=about)
    command.add_argument("-c", "--corpus", metavar="CORPUS", help="the corpus; default: the only one, or $AIRW_CORPUS")


def _mode(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-m", "--mode", choices=("dense", "lexical", "hybrid"), default="hybrid", help="default: hybrid"
    )


def _rerank(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--rerank",
        metavar="SPEC",
        help="read the best again and score them so: cross-encoder, or cross-encoder:MODEL",
    )


def _formats(command: argparse.ArgumentParser) -> None:
    command.add_argument("--format", choices=("text", "json"), default="text", help="json: one object a line")

"""The arguments of the commands that find: search, traverse, discover, expand, calibrate."""

import argparse
import math

from airw.cli import commands, finding
from airw.cli.arguments.bricks import Commands, add_command, add_formats, add_mode, add_query, add_rerank
from airw.discovery import LEVELS, STRATEGIES

__all__ = ["add_finding"]


def add_finding(sub: Commands) -> None:
    """Add search, traverse, discover, expand and calibrate."""
    _search(sub)
    _traverse(sub)
    _discover(sub)
    _expand(sub)
    _calibrate(sub)


def _search(sub: Commands) -> None:
    epilog = """Scores: cosine in dense mode, BM25 in lexical mode, reciprocal rank fusion of both in hybrid mode."""
    about = "rank the documents of a corpus against a query"
    search = add_command(sub, "search", commands.search, about, epilog=epilog)
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
    walk = add_command(sub, "traverse", commands.traverse, "search, then follow links; streams", epilog=epilog)
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
    add_mode(discover)
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
    add_rerank(discover)
    discover.add_argument(
        "--source-timeout", type=float, default=30.0, metavar="SECONDS", help="how long each corpus has; default: 30"
    )
    discover.add_argument("--timeout", type=float, metavar="SECONDS", help="how long they have all together")
    add_formats(discover)


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


def _expand(sub: Commands) -> None:
    expand = add_command(sub, "expand", finding.expand, "print what stands around a surface of a document")
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
    calibrate = add_command(sub, "calibrate", finding.calibrate, about, epilog=epilog)
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

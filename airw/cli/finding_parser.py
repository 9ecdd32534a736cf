"""The parsers of search, traverse, discover, expand and calibrate."""

import argparse
import math

from airw.cli.options import (
    Commands,
    add_boost,
    add_command,
    add_embedder,
    add_formats,
    add_fusion,
    add_mode,
    add_parameter,
    add_query,
    add_rerank,
    parse_whole_number,
)

# Lists of the library, spelled here so that the parser is built without it. Tests compare them.
_POLICIES = (
    "beam",
    "collapsed-tree",
    "eager",
    "link-walk",
    "mmr",
    "path-coverage",
    "personalized-page-rank",
    "reverse-dependency",
    "scored",
)
_STRATEGIES = ("conservative", "top_k", "abs_threshold", "rel_threshold", "score_gap")
_LEVELS = ("metadata", "body", "bundled")
_PLAIN = """search for all words, also those with signs: "a phrase" (must be there), -word (must not), begin*"""
_FILTER = """only documents that match, such as '{"status": "Final"}'"""


def add_finding(sub: Commands) -> None:
    """Add search, traverse, discover, expand and calibrate."""
    _search(sub)
    _traverse(sub)
    _discover(sub)
    _expand(sub)
    _calibrate(sub)


def _search(sub: Commands) -> None:
    epilog = """Scores: cosine similarity in dense mode, BM25 in lexical mode. Hybrid mode combines both, see --fusion.
Below each document is the part of it that matches best."""
    about = "rank the documents of a corpus for a query"
    search = add_command(sub, "search", "finding.search", about, epilog=epilog)
    add_query(search)
    add_parameter(search, "airw.search:k", "-k", type=parse_whole_number, help="print at most K hits")
    add_mode(search, "airw.search")
    search.add_argument("--filter", metavar="JSON", help=_FILTER)
    search.add_argument("--surfaces", metavar="KINDS", help="only these surface kinds, such as description,chunk")
    search.add_argument(
        "--all-surfaces", action="store_true", help="rank all surfaces, instead of documents by their best surface"
    )
    search.add_argument("--plain", action="store_true", help=_PLAIN)
    add_fusion(search, "airw.search")
    add_rerank(search, "airw.search")
    add_boost(search)
    add_embedder(search)
    add_formats(search)


def _traverse(sub: Commands) -> None:
    about = "search, then follow links, and print each hit at once"
    walk = add_command(sub, "traverse", "finding.traverse", about)
    walk.describe = _describe_policies
    add_query(walk)
    walk.add_argument(
        "--policy", choices=_POLICIES, help="how the walk starts and goes on; default: the one that is marked below"
    )
    walk.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a parameter of the policy, see below; may be repeated",
    )
    walk.add_argument("--start", type=int, metavar="N", help="start from the N best hits; default: the policy's own")
    walk.add_argument(
        "--direction", choices=("out", "in", "both"), help="which links to follow; default: the policy's own"
    )
    walk.add_argument(
        "--max-depth",
        type=int,
        metavar="N",
        help="do not follow links of hits at this depth; default: the policy's own",
    )
    add_parameter(
        walk,
        "airw.traverse:node_budget",
        "--node-budget",
        type=int,
        metavar="N",
        help="visit at most N documents",
    )
    walk.add_argument("--plain", action="store_true", help=_PLAIN)
    walk.add_argument("--timeout", type=float, metavar="SECONDS", help="stop after this long")
    walk.add_argument(
        "--count-beyond-limits",
        action="store_true",
        help="read the links of the last documents too, and count the new ones behind each limit",
    )
    add_embedder(walk)
    walk.add_argument(
        "--format",
        choices=("text", "json", "html"),
        default="text",
        help="json: one object a line; html: a page that draws the walk, printed at its end",
    )


def _describe_policies() -> str:
    """Return the end of the help of `traverse`: the policies and their parameters."""
    from airw.cli.policies import describe_policies

    return f"""Each hit is printed when it is committed: elapsed milliseconds, depth, score, and the path to it.
Below it are the words of the query that it adds to those of its path, if the policy knows them.
The last lines say why the walk stopped and how much each limit left out.

policies and their parameters, for --set NAME=VALUE:
{describe_policies()}
VALUE is JSON or plain text; lists may be written with commas.

  airw traverse notes "signing keys" --policy beam --set width=8 --set seeding=lexical
  airw traverse notes "signing keys" --set roots=index.md,keys.md --format html > walk.html"""


def _discover(sub: Commands) -> None:
    epilog = """With several corpora, each is reported when it answers, and the hits of all are ranked together.
The last line says which rule ended the list. Below each document is the part of it that matches best.
The exit code is 0 even if no document answers the query, 1 if some corpora failed, and 2 if all failed."""
    about = "choose the few documents that answer a query, or none"
    discover = add_command(sub, "discover", "finding.discover", about, epilog=epilog)
    words = "[CORPUS ...] QUERY"
    discover.usage = f"{discover.prog} [options] {words}"
    discover.add_argument("words", metavar=words, nargs="+", help="the corpora, if there are several, and the query")
    discover.add_argument(
        "-c",
        "--corpus",
        metavar="CORPUS",
        action="append",
        default=[],
        help="a corpus to search; may be repeated; default: $AIRW_CORPUS, or the only one",
    )
    add_parameter(discover, "airw.discover:k", "-k", type=parse_whole_number, help="rank this many candidates")
    add_mode(discover, "airw.discover")
    add_fusion(discover, "airw.discover")
    discover.add_argument("--filter", metavar="JSON", help=_FILTER)
    discover.add_argument("--plain", action="store_true", help=_PLAIN)
    _add_selection(discover)
    _add_disclosure(discover)
    add_rerank(discover, "airw.discover")
    add_boost(discover)
    _add_timeouts(discover)
    add_embedder(discover)
    add_formats(discover)


def _add_selection(discover: argparse.ArgumentParser) -> None:
    add_parameter(
        discover,
        "airw.discover:strategy",
        "--strategy",
        choices=_STRATEGIES,
        help="the rule that chooses documents",
    )
    add_parameter(discover, "airw.discover:max_k", "--max-k", type=int, metavar="N", help="choose at most N documents")
    add_parameter(
        discover,
        "airw.discover:rel",
        "--rel",
        type=float,
        metavar="SHARE",
        help="only documents with at least this share of the best score",
    )
    add_parameter(
        discover,
        "airw.discover:min_score",
        "--min-score",
        type=_floor,
        metavar="NUMBER|auto|none",
        help="the lowest score of an answer; auto: the floor that the corpus has stored; none: no floor",
    )


def _add_timeouts(discover: argparse.ArgumentParser) -> None:
    add_parameter(
        discover,
        "airw.discover:source_timeout",
        "--source-timeout",
        type=float,
        metavar="SECONDS",
        help="stop waiting for a corpus after this long",
    )
    discover.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="stop waiting for all corpora after this long"
    )


def _add_disclosure(discover: argparse.ArgumentParser) -> None:
    add_parameter(
        discover,
        "airw.discover:disclose_level",
        "--disclose",
        choices=_LEVELS,
        help="how much to print: metadata only, also the text, or also the files of the document",
    )
    discover.add_argument(
        "--root",
        metavar="FOLDER",
        action="append",
        default=[],
        help="allow reading files in this folder; may be repeated; default: the folders of the corpora",
    )
    discover.add_argument(
        "--expand", type=int, metavar="N", help="also print the matching surface with N neighbours on either side"
    )


def _floor(text: str) -> float | str:
    if text in ("auto", "none"):
        return text
    try:
        floor = float(text)
    except ValueError:
        floor = math.nan
    if not math.isfinite(floor):
        raise argparse.ArgumentTypeError(f"must be a number, auto or none, not {text!r}")
    return floor


def _expand(sub: Commands) -> None:
    expand = add_command(sub, "expand", "finding.expand", "print the text around a surface of a document")
    add_query(expand, "[CORPUS] ARTIFACT_ID", "the corpus, if there are several, and the id of the document")
    expand.add_argument(
        "--surface-index",
        type=int,
        default=0,
        metavar="N",
        help="the number of the surface, as `search --format json` prints it; default: 0",
    )
    around = expand.add_mutually_exclusive_group()
    window = around.add_argument(
        "--window", type=int, metavar="N", help="print N surfaces of the same kind on either side"
    )
    window.place = "airw.discovery.SentenceWindow:k"  # type: ignore[attr-defined] # a group is no parser
    around.add_argument("--parent", action="store_true", help="print the whole document")
    add_formats(expand)


def _calibrate(sub: Commands) -> None:
    epilog = """Each line of CASES.jsonl is one object: {"query": "…", "gold": ["id", …]}. gold contains the ids of the
documents that answer the query, and is empty if none does; the file needs queries of both kinds.
A floor is valid for one mode. It applies to the evidence; with --rerank, to the scores of that reranker."""
    about = "find the floor: the evidence below which discover should choose nothing"
    calibrate = add_command(sub, "calibrate", "finding.calibrate", about, epilog=epilog)
    add_query(calibrate, "[CORPUS] CASES.jsonl", "the corpus, if there are several, and the file of cases")
    function = "airw.evaluation.calibrate_min_score"
    add_parameter(
        calibrate,
        f"{function}:k",
        "-k",
        type=parse_whole_number,
        help="count an answer if it is among the first K hits",
    )
    add_mode(calibrate, function)
    add_fusion(calibrate, "airw.discover")
    add_parameter(
        calibrate,
        f"{function}:sensitivity_weight",
        "--sensitivity-weight",
        type=float,
        metavar="SHARE",
        help="the weight of answering, against abstaining, from 0 to 1",
    )
    add_rerank(calibrate, "airw.search")
    calibrate.add_argument("--save", action="store_true", help="store the floor for `discover --min-score auto`")
    add_embedder(calibrate)
    add_formats(calibrate)

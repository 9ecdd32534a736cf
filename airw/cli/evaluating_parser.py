"""The parsers of eval, compare, eval-select, sweep-select and eval-gen."""

import argparse

from airw.cli.options import (
    Commands,
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
_STRATEGIES = ("conservative", "top_k", "abs_threshold", "rel_threshold", "score_gap")
_OBJECTIVES = (
    "selection_f1",
    "selection_precision",
    "selection_recall",
    "conditional_commit_rate",
    "abstention_accuracy",
    "mean_selected_size",
)
_CASES = """Each line of CASES.jsonl is one object: {"query": "…", "gold": ["id", …]}. gold contains the ids of the
documents that answer the query, and is empty if none does."""
_WORDS = ("[CORPUS] CASES.jsonl", "the corpus, if there are several, and the file of cases")


def add_evaluation(sub: Commands) -> None:
    """Add eval, compare, eval-select, sweep-select and eval-gen."""
    _eval(sub)
    _compare(sub)
    _eval_select(sub)
    _sweep_select(sub)
    _eval_gen(sub)


def _eval(sub: Commands) -> None:
    epilog = f"""{_CASES}
The table has the mean of each measure, then what a query costs: calls of the store, nodes, texts read, cosines
computed, and milliseconds to the first and the last hit. Times are medians, the others means.

  airw eval notes cases.jsonl --mode dense
  airw eval notes cases.jsonl --policy "beam width=8 seeding=hybrid" --rows --format json"""
    evaluate = add_command(sub, "eval", "evaluating.evaluate", "measure a search or a walk on cases", epilog=epilog)
    add_query(evaluate, *_WORDS)
    _add_system(evaluate)
    evaluate.add_argument(
        "--policy", metavar="POLICY", help="walk with this policy instead of searching; see `compare`"
    )
    evaluate.add_argument("--rows", action="store_true", help="with --format json: also print a line for each query")
    add_embedder(evaluate)
    add_formats(evaluate)


def _compare(sub: Commands) -> None:
    epilog = f"""{_CASES}
The table has a row for each system: flat, which is the search; flat + rerank, if --rerank names a reranker; and each
policy. The column after the measures is the difference of the first measure from flat, with its interval of 95 %.

--promote says whether each policy is better than flat and than flat + rerank: both intervals must be above zero, over
at least 20 cases. The exit code is 1 if no policy is.

  airw compare notes cases.jsonl --policy eager --policy "beam width=8 seeding=hybrid"
  airw compare notes cases.jsonl --policy beam --rerank cross-encoder --promote"""
    about = "compare searches and walks on the same cases, in one table"
    compare = add_command(sub, "compare", "evaluating.compare", about, epilog=epilog)
    add_query(compare, *_WORDS)
    _add_system(compare)
    compare.add_argument(
        "--policy",
        metavar="POLICY",
        action="append",
        default=[],
        help="a policy of `airw traverse`, with its settings as NAME=VALUE after it in quotes; may be repeated",
    )
    compare.add_argument("--promote", action="store_true", help="say whether a policy is worth it, and why")
    add_embedder(compare)
    add_formats(compare)


def _add_system(command: argparse.ArgumentParser) -> None:
    add_mode(command, "airw.search")
    add_fusion(command, "airw.search")
    add_rerank(command, "airw.search")
    add_parameter(
        command,
        "airw.evaluation.PolicyWalk:node_budget",
        "--node-budget",
        type=parse_whole_number,
        metavar="N",
        help="let a walk visit at most N documents",
    )
    command.add_argument("--fill", action="store_true", help="add the hits of the search behind those of a walk")
    add_parameter(
        command,
        "airw.evaluation.evaluate:measures",
        "--measures",
        metavar="NAMES",
        help="ndcg, recall, precision, mrr, map, success or all_gold, each with @ and a rank; separated by commas",
    )


def _eval_select(sub: Commands) -> None:
    about = "measure which documents discover chooses from what a search finds"
    command = add_command(sub, "eval-select", "evaluating.evaluate_selection", about, epilog=_CASES)
    add_query(command, *_WORDS)
    function = "airw.evaluation.evaluate_selection"
    _add_candidates(command, function)
    for name, kind, about in (
        ("max-k", parse_whole_number, "choose at most N documents"),
        ("rel", float, "only documents with at least this share of the best score"),
        ("min-score", float, "the lowest score of an answer"),
    ):
        place = f"{function}:{name.replace('-', '_')}"
        add_parameter(command, place, f"--{name}", type=kind, metavar="N", help=about)
    add_rerank(command, "airw.search")
    add_embedder(command)
    add_formats(command)


def _sweep_select(sub: Commands) -> None:
    epilog = f"""{_CASES}
Each query is searched for once. The best setting is in the first row and in the last line."""
    about = "measure a grid of settings of what discover chooses"
    command = add_command(sub, "sweep-select", "evaluating.sweep_selection", about, epilog=epilog)
    add_query(command, *_WORDS)
    function = "airw.evaluation.sweep_selection"
    _add_candidates(command, function)
    add_parameter(
        command,
        f"{function}:objective",
        "-o",
        "--objective",
        choices=_OBJECTIVES,
        metavar="MEASURE",
        help=f"what the best setting is best in: {', '.join(_OBJECTIVES)}",
    )
    add_rerank(command, "airw.search")
    add_embedder(command)
    add_formats(command)


def _add_candidates(command: argparse.ArgumentParser, function: str) -> None:
    add_parameter(
        command, f"{function}:strategy", "--strategy", choices=_STRATEGIES, help="the rule that chooses documents"
    )
    add_parameter(command, f"{function}:k", "-k", type=parse_whole_number, help="choose from the first K hits")
    add_mode(command, function)
    add_fusion(command, "airw.discover")


def _eval_gen(sub: Commands) -> None:
    epilog = """The corpus must be registered, because its source is read again. The model is asked once a document.
The name of a document is hidden from the model, and requests that contain it are dropped.

  AIRW_CHAT=http://localhost:8080/v1#qwen3 airw eval-gen notes cases.jsonl --max-artifacts 50"""
    about = "let a language model write cases for a corpus"
    command = add_command(sub, "eval-gen", "evaluating.generate", about, epilog=epilog)
    add_query(command, "[CORPUS] CASES.jsonl", "the corpus, if there are several, and the file to write")
    cases, whole = "airw.evaluation.generate_cases", "airw.evaluation.generate_case_set"
    add_parameter(command, f"{cases}:k", "-k", type=parse_whole_number, help="write K requests for each document")
    add_parameter(
        command,
        f"{whole}:abstention_share",
        "-a",
        "--abstention-share",
        type=float,
        metavar="SHARE",
        help="the share of requests that no document answers",
    )
    command.add_argument("--max-artifacts", type=parse_whole_number, metavar="N", help="use only N documents")
    add_parameter(command, f"{whole}:theme", "--theme", metavar="TEXT", help="what the corpus is about")
    command.add_argument("--model", metavar="URL#NAME", help="the model to ask; default: that of $AIRW_CHAT")
    command.add_argument("--force", action="store_true", help="replace a file that exists")
    add_formats(command)

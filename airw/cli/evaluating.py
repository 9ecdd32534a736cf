"""The commands that evaluate: eval, compare, eval-select, sweep-select, eval-gen."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from airw import corpora, evaluation
from airw._base.concurrency import in_thread
from airw.cli.options import pick
from airw.cli.output import print_json_line
from airw.cli.policies import documents_of, make_policy, parse_parameters
from airw.cli.printing import print_line, print_note, write
from airw.cli.resolve import corpus_and_word, ensure_built, find_artifact_ids
from airw.corpora.registry import find_definition
from airw.errors import ArgumentError
from airw.evaluation import DiscoveryCase, Evaluation, FlatSearch, PolicyWalk, QueryRow
from airw.policies.specs import list_policies

_MOST_NAMED = 5


@asynccontextmanager
async def _open(arguments: argparse.Namespace) -> AsyncIterator[tuple[corpora.Corpus, list[DiscoveryCase]]]:
    """Open the corpus and read the cases; note answers that the corpus lacks."""
    name, file = corpus_and_word(arguments, "CASES.jsonl")
    cases = await in_thread(evaluation.load_cases, file)
    if not cases:
        raise ArgumentError(f"{file!r} contains no cases")
    await ensure_built(name, arguments.embedder)
    async with corpora.open_corpus(name, **pick(arguments, "embedder")) as corpus:
        _note_missing(await evaluation.find_missing_gold(corpus, cases))
        yield corpus, cases


def _note_missing(missing: Mapping[int, Sequence[str]]) -> None:
    if missing:
        ids = list(dict.fromkeys(id for gone in missing.values() for id in gone))
        more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
        names = ", ".join(map(repr, ids[:_MOST_NAMED]))
        print_note(f"answers of {len(missing)} cases are not in the corpus: {names}{more}")


def _search_options(arguments: argparse.Namespace) -> dict[str, Any]:
    return pick(arguments, "mode", "fusion")


def _rerank_options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {**_search_options(arguments), **pick(arguments, "rerank", "rerank_text")}


def _split(text: str) -> list[str]:
    """Return the words of a policy and its settings; at least one."""
    try:
        return shlex.split(text) or [""]
    except ValueError as error:
        raise ArgumentError(f"--policy {text!r} cannot be split into words: {error}") from error


def _check_distinct(policies: Sequence[str]) -> None:
    """Raise if two policies are equal: each row of a table needs a label of its own."""
    labels = [" ".join(_split(text)) for text in policies]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ArgumentError(f"--policy {twice[0]!r} is given twice; name each policy once")


async def _walk(corpus: corpora.Corpus, text: str, arguments: argparse.Namespace) -> PolicyWalk:
    """Return the walk of a policy and its settings, which are one text."""
    name, *settings = _split(text)
    if name not in list_policies():
        raise ArgumentError(f"--policy must be one of {', '.join(list_policies())}, not {name!r}")
    parameters = parse_parameters(name, settings)
    for key, words in documents_of(parameters).items():
        parameters[key] = await find_artifact_ids(corpus, words)
    policy = make_policy(name, parameters, start=None, direction=None)
    fill = FlatSearch(_search_options(arguments)) if arguments.fill else None
    return PolicyWalk(policy, " ".join([name, *settings]), fill=fill, **pick(arguments, "node_budget"))


def _measures(arguments: argparse.Namespace) -> dict[str, Any]:
    return {} if arguments.measures is None else {"measures": arguments.measures.split(",")}


async def _measure_signals(
    corpus: corpora.Corpus, found: Evaluation, arguments: argparse.Namespace
) -> dict[str, evaluation.AbstentionReport]:
    """Return how well each signal separates the two kinds of cases; nothing if one lacks."""
    if len({row.case.gold_is_none for row in found.rows}) < 2:
        return {}
    evidence = await evaluation.measure_evidence(corpus, [row.case for row in found.rows], **pick(arguments, "mode"))
    signals: dict[str, Callable[[QueryRow], float]] = {
        "best score": evaluation.top_score,
        "margin": evaluation.score_margin,
        "evidence": evidence,
    }
    return {name: evaluation.measure_abstention(found, signal=signal) for name, signal in signals.items()}


async def evaluate(arguments: argparse.Namespace) -> int:
    """Measure one system and print its measures, costs and classes."""
    async with _open(arguments) as (corpus, cases):
        if arguments.policy and arguments.rerank:
            raise ArgumentError("--rerank is for searches; a walk with --policy has no reranker")
        flat = FlatSearch(_rerank_options(arguments), "flat + rerank" if arguments.rerank else "flat")
        system = await _walk(corpus, arguments.policy, arguments) if arguments.policy else flat
        found = await evaluation.evaluate(corpus, cases, system, **_measures(arguments))
        reports = await _measure_signals(corpus, found, arguments)
    if arguments.format == "json":
        for row in found.per_query() if arguments.rows else ():
            print_json_line({"type": "query", **row})
        areas = {name: report.auc for name, report in reports.items()}
        abstention = {"auc": areas.get("best score"), "by_signal": areas}
        print_json_line({"type": "evaluation", **found.to_dict(), "abstention": abstention})
    else:
        write(f"{found}\n")
        for name, report in reports.items():
            print_line(f"{name}: {report}")
    return 0


async def compare(arguments: argparse.Namespace) -> int:
    """Measure several systems on the same cases and print one table."""
    if arguments.promote and not (arguments.policy and arguments.rerank):
        raise ArgumentError("--promote needs --policy POLICY, and --rerank SPEC for the reranked search to beat")
    _check_distinct(arguments.policy)
    async with _open(arguments) as (corpus, cases):
        systems: list[FlatSearch | PolicyWalk] = [FlatSearch(_search_options(arguments))]
        if arguments.rerank:
            systems.append(FlatSearch(_rerank_options(arguments), "flat + rerank"))
        walks = [await _walk(corpus, text, arguments) for text in arguments.policy]
        options = _measures(arguments)
        found = [await evaluation.evaluate(corpus, cases, system, **options) for system in [*systems, *walks]]
    comparison = await in_thread(evaluation.compare, found)
    verdicts = []
    for walk in found[2:] if arguments.promote else ():
        # With many policies one of them looks better by chance, so each has its share of the risk of 5 %.
        decide = partial(evaluation.promote, confidence=1 - 0.05 / len(walks))
        verdicts.append(await in_thread(partial(decide, walk, flat=found[0], reranked=found[1])))
    if arguments.format == "json":
        print_json_line({"type": "comparison", **comparison.to_dict()})
    else:
        write(f"{comparison}\n")
    for verdict in verdicts:
        if arguments.format == "json":
            print_json_line({"type": "promotion", **verdict.to_dict()})
        else:
            print_line(str(verdict))
    return int(arguments.promote and not any(verdict.promoted for verdict in verdicts))


async def evaluate_selection(arguments: argparse.Namespace) -> int:
    """Measure what a rule selects and print it."""
    options = pick(arguments, "strategy", "k", "mode", "fusion", "max_k", "rel", "min_score", "rerank", "rerank_text")
    async with _open(arguments) as (corpus, cases):
        report = await evaluation.evaluate_selection(corpus, cases, **options)
    if arguments.format == "json":
        print_json_line({"type": "selection", **report.to_dict()})
    else:
        write(f"{report}\n")
    return 0


async def sweep_selection(arguments: argparse.Namespace) -> int:
    """Measure a grid of settings and print it, the best first."""
    options = pick(arguments, "strategy", "k", "mode", "fusion", "objective", "rerank", "rerank_text")
    async with _open(arguments) as (corpus, cases):
        sweep = await evaluation.sweep_selection(corpus, cases, **options)
    if arguments.format == "json":
        print_json_line({"type": "sweep", **sweep.to_dict()})
    else:
        write(f"{sweep}\n")
    return 0


async def generate(arguments: argparse.Namespace) -> int:
    """Ask a model for cases, write them, and print how many there are."""
    name, file = corpus_and_word(arguments, "CASES.jsonl")
    if not arguments.force and await in_thread(Path(file).exists):
        raise ArgumentError(f"{file!r} exists; replace it with --force, or name another file")
    source = await in_thread(find_definition(name).source)
    options = pick(arguments, "k", "abstention_share", "max_artifacts", "theme", "model")
    found = await evaluation.generate_case_set(source, corpus_name=name, **options)
    for id, error in found.failed.items():
        print_note(f"left out: {id}: {error}")
    if found.abstention_error:
        print_note(f"left out: cases without an answer: {found.abstention_error}")
    if not found.cases:
        raise ArgumentError(f"no cases were written, so {file!r} is left as it is")
    ids = [item.id async for item in source.items() if hasattr(item, "id")]
    meta = {"corpus": name, "corpus_signature": evaluation.sign_corpus(ids)}
    await in_thread(lambda: evaluation.save_cases(found.cases, file, meta=meta))
    without = sum(case.gold_is_none for case in found.cases)
    counts = {
        "cases": len(found.cases),
        "without_answer": without,
        "too_short": len(found.short),
        "failed": len(found.failed),
    }
    if arguments.format == "json":
        print_json_line({"type": "generated", "file": file, **counts, "dropped": found.dropped})
    else:
        print_line(
            f"{file} contains {len(found.cases)} cases, {without} of them without an answer; left out: {found.dropped} "
            f"requests with the name of their document, {len(found.short)} documents with a short description"
        )
    return int(bool(found.failed or found.abstention_error))

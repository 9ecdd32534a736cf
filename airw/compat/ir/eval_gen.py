"""Cases written by a language model."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from airw import evaluation
from airw.chat import ChatLike
from airw.compat._sync import SyncFunction, run, to_async
from airw.compat.ir.eval import DiscoveryCase, corpus_artifact_ids
from airw.compat.ir.sources import as_source
from airw.evaluation import ABSTENTION_PROMPT as ABSTENTION_PROMPT
from airw.evaluation import NAME_PLACEHOLDER as NAME_PLACEHOLDER
from airw.evaluation import QUERY_PROMPT as BACKTRANSLATION_PROMPT
from airw.evaluation import mask_name as mask_name

DFLT_QUERIES_PER_ARTIFACT = 5
DFLT_ABSTENTION_FRAC = 0.15
DFLT_MIN_DESCRIPTION_CHARS = 20
DFLT_ABSTENTION_THEME = "software developer tools"
QueryGenerator = Callable[..., Sequence[str]]
AbstentionGenerator = Callable[..., Sequence[str]]


def make_default_query_generator(
    *, prompt: str = BACKTRANSLATION_PROMPT, model: ChatLike | None = None
) -> SyncFunction:
    """Return a function that asks a model; see `airw.evaluation.make_query_writer`.

    Raises:
        ChatUnavailable: If there is no model.
    """
    return SyncFunction(evaluation.make_query_writer(prompt=prompt, model=model))


def make_default_abstention_generator(
    *, prompt: str = ABSTENTION_PROMPT, model: ChatLike | None = None
) -> SyncFunction:
    """Return a function that asks a chat model for queries without an answer.

    Raises:
        ChatUnavailable: If there is no model.
    """
    return SyncFunction(evaluation.make_abstention_writer(prompt=prompt, model=model))


def generate_cases(
    source: Any,
    *,
    k: int = DFLT_QUERIES_PER_ARTIFACT,
    mask_names: bool = True,
    query_generator: QueryGenerator | None = None,
    describe: Callable[[Any], str] | None = None,
    min_chars: int = DFLT_MIN_DESCRIPTION_CHARS,
    max_artifacts: int | None = None,
    corpus_name: str | None = None,
) -> list[DiscoveryCase]:
    """Write queries that each artifact answers; see `airw.evaluation.generate_cases`.

    Raises:
        ArgumentError: If a parameter is not valid.
        ChatUnavailable: If there is neither a generator nor a model.
    """
    options: Any = {"mask_names": mask_names, "min_chars": min_chars, "max_artifacts": max_artifacts}
    found = run(
        evaluation.generate_cases,
        as_source(source, embed=False),
        k=k,
        writer=to_async(query_generator),
        corpus_name=corpus_name,
        describe=describe or evaluation.describe_artifact,
        **options,
    )
    return _to_list(found)


def _to_list(found: evaluation.GeneratedCases) -> list[DiscoveryCase]:
    """Return the cases, and warn of artifacts that were left out."""
    for id, error in found.failed.items():
        warnings.warn(f"query generation failed for {id!r}: {error}", stacklevel=3)
    if skipped := len(found.short) + len(found.failed):
        warnings.warn(f"{skipped} artifacts have no cases: a short description, or an error", stacklevel=3)
    return list(found.cases)


def generate_abstention_cases(
    n: int,
    *,
    generator: AbstentionGenerator | None = None,
    theme: str = DFLT_ABSTENTION_THEME,
    corpus_name: str | None = None,
) -> list[DiscoveryCase]:
    """Write queries that nothing answers; see `airw.evaluation.generate_abstention_cases`.

    Raises:
        ChatUnavailable: If there is neither a generator nor a model.
    """
    writer = to_async(generator)
    return run(evaluation.generate_abstention_cases, n, writer=writer, theme=theme, corpus_name=corpus_name)


def build_eval_set(
    source: Any,
    *,
    k: int = DFLT_QUERIES_PER_ARTIFACT,
    abstention_frac: float = DFLT_ABSTENTION_FRAC,
    query_generator: QueryGenerator | None = None,
    abstention_generator: AbstentionGenerator | None = None,
    theme: str = DFLT_ABSTENTION_THEME,
    corpus_name: str | None = None,
    **gen_kwargs: Any,
) -> list[DiscoveryCase]:
    """Write cases of both kinds; see `airw.evaluation.generate_case_set`.

    Raises:
        ArgumentError: If a parameter is not valid.
        ChatUnavailable: If there is neither a generator nor a model.
    """
    found = run(
        evaluation.generate_case_set,
        as_source(source, embed=False),
        k=k,
        abstention_share=abstention_frac,
        writer=to_async(query_generator),
        abstention_writer=to_async(abstention_generator),
        theme=theme,
        corpus_name=corpus_name,
        **gen_kwargs,
    )
    return _to_list(found)


def corpus_signature(source_or_corpus: Any) -> str:
    """Return a short hash of the ids of a source or a corpus, whatever their order."""
    scope = getattr(source_or_corpus, "scope", None)
    return evaluation.sign_corpus(corpus_artifact_ids(source_or_corpus) if scope is None else scope)

"""Generation of cases: a language model writes queries that each artifact answers.

The name of an artifact is masked before the model sees its description, and queries that contain it are dropped.
Otherwise a search for words would find the answer by its name alone.
"""

import hashlib
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from airw._base.checks import check_count, check_number
from airw._base.concurrency import call_user_function, map_bounded
from airw._base.messages import error_text
from airw.chat import ChatLike
from airw.chat.questions import ChatPrompt, function_or_prompt, list_items, strip_bullet
from airw.errors import ArgumentError
from airw.evaluation.cases import DiscoveryCase
from airw.protocols import MaybeAwaitable, Source
from airw.values import Artifact, ItemProblem

NAME_PLACEHOLDER = "this capability"
"""The text in place of a masked name."""

_OTHER_PLACEHOLDER = "the tool"  # for names that the placeholder contains
_MAX_REQUESTS = 8  # at once

QUERY_PROMPT = """\
Below is the description of a document of a collection. Its name is hidden.

{description}

Write {n} different requests of a user that this document answers. Vary the words, the length and the detail. Do not
mention the name of any document, tool or package. Answer with the requests alone, one a line.
"""
"""The default prompt for the queries of an artifact."""

ABSTENTION_PROMPT = """\
A collection of documents is about: {theme}.

Write {n} different requests of a user that sound natural, and that this collection cannot answer because they are about
something else. Answer with the requests alone, one a line.
"""
"""The default prompt for queries without an answer."""

QueryWriter = Callable[..., MaybeAwaitable[Sequence[str]]]
"""`writer(description, n=…)` returns queries; it may be sync or async."""


def mask_name(text: str, name: str, *, placeholder: str = NAME_PLACEHOLDER) -> str:
    """Return a text in which a placeholder stands for a name.

    The words of the name may be joined by spaces, hyphens, underscores or nothing, in any case. Only whole words are
    replaced, and words of one letter do not count.

    Args:
        text: The text.
        name: The name.
        placeholder: What replaces it. If it contains the name itself, `"the tool"` does.

    Example:
        >>> mask_name("CI advisor: asks ci_advisor about specific runs", "ci-advisor")
        'this capability: asks this capability about specific runs'
    """
    pattern = _compile_name(name)
    if pattern is None:
        return text
    chosen = _OTHER_PLACEHOLDER if pattern.search(placeholder) else placeholder
    return pattern.sub(lambda _: chosen, text)


def contains_name(text: str, name: str) -> bool:
    """Return whether a text contains a name, or all of its words if it has several.

    A search for words ignores their order, so it would find the name in such a text.

    Example:
        >>> contains_name("an advisor for my CI", "ci-advisor"), contains_name("an advisor", "ci-advisor")
        (True, False)
    """
    pattern = _compile_name(name)
    if pattern is None:
        return False
    words = set(_words_of(name))
    return bool(pattern.search(text)) or (len(words) > 1 and words <= set(re.findall(r"\w+", text.lower())))


def _words_of(name: str) -> list[str]:
    return [word for word in re.split(r"[\s_-]+", name.lower()) if len(word) > 1]


def _compile_name(name: str) -> re.Pattern[str] | None:
    words = [re.escape(word) for word in _words_of(name)]
    if not words:
        return None
    apart, together = r"[\s_-]+".join(words), "".join(words)
    return re.compile(rf"(?<!\w)(?:{apart}|{together})(?!\w)", re.IGNORECASE)


def make_query_writer(
    *, prompt: str | None = None, model: ChatLike | None = None
) -> Callable[..., Awaitable[list[str]]]:
    """Return a function that asks a chat model for the queries of a description.

    Args:
        prompt: The prompt with `{description}` and `{n}`; `QUERY_PROMPT` by default.
        model: The model, `"http://host:8080/v1#model"` or a `ChatModel`; by default that of the environment variable
            `AIRW_CHAT`.

    Raises:
        ChatUnavailable: If there is no model.
        ArgumentError: If the prompt lacks a placeholder.
    """
    needs = ["description", "n"]
    return _ModelWriter(_prompt_of(prompt, QUERY_PROMPT, needs, model), "description")


def make_abstention_writer(
    *, prompt: str | None = None, model: ChatLike | None = None
) -> Callable[..., Awaitable[list[str]]]:
    """Return a function of `n` and `theme` that asks a model for queries without an answer.

    Args:
        prompt: The prompt with `{theme}` and `{n}`; `ABSTENTION_PROMPT` by default.
        model: The model; see `make_query_writer`.

    Raises:
        ChatUnavailable: If there is no model.
        ArgumentError: If the prompt lacks a placeholder.
    """
    return _ModelWriter(_prompt_of(prompt, ABSTENTION_PROMPT, ["theme", "n"], model), "theme")


def _prompt_of(prompt: str | None, default: str, needs: Sequence[str], model: ChatLike | None) -> ChatPrompt:
    found = function_or_prompt(None, "writer", model=model, prompt=prompt, default=default, needs=needs)
    if not isinstance(found, ChatPrompt):
        raise TypeError
    return found


@dataclass(frozen=True, slots=True)
class _ModelWriter:
    """A writer that asks a chat model."""

    question: ChatPrompt
    about: str

    async def __call__(self, description: str = "", *, n: int, theme: str = "") -> list[str]:
        answer = await self.question(**{self.about: description or theme}, n=n)
        return [strip_bullet(line) for line in list_items(answer)][:n]


@dataclass(frozen=True, slots=True)
class GeneratedCases:
    """Cases that were generated, and what was left out.

    Args:
        cases: The cases.
        short: The artifacts whose description was too short.
        failed: The artifacts for which the model failed, with its error.
        dropped: The number of queries that contained the name of their artifact.
        abstention_error: The error of the model that should write queries without an answer; empty without one.

    Example:
        >>> GeneratedCases((DiscoveryCase("keys", "a"),)).cases[0].gold
        ('a',)
    """

    cases: tuple[DiscoveryCase, ...]
    short: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    dropped: int = 0
    abstention_error: str = ""


def describe_artifact(raw: object) -> str:
    """Return the `description` of a raw value, else its `text`, else all its strings.

    Example:
        >>> describe_artifact({"name": "x", "description": "Rotates keys."})
        'Rotates keys.'
    """
    if not isinstance(raw, Mapping):
        return str(raw)
    for key in ("description", "text"):
        if isinstance(value := raw.get(key), str) and value.strip():
            return value
    return "\n".join(value for value in raw.values() if isinstance(value, str))


def _name_of(artifact: Artifact) -> str:
    name = artifact.raw.get("name") if isinstance(artifact.raw, Mapping) else None
    return name if isinstance(name, str) and name.strip() else artifact.id


async def generate_cases(
    source: Source,
    *,
    k: int = 5,
    mask_names: bool = True,
    writer: QueryWriter | None = None,
    model: ChatLike | None = None,
    describe: Callable[[Any], str] = describe_artifact,
    min_chars: int = 20,
    max_artifacts: int | None = None,
    corpus_name: str | None = None,
) -> GeneratedCases:
    """Write queries that each artifact of a source answers.

    Args:
        source: The source.
        k: The number of queries per artifact.
        mask_names: Whether to hide names from the writer, and drop queries that contain them.
        writer: `writer(description, n=k)` returns queries; by default a chat model is asked.
        model: The chat model; see `make_query_writer`.
        describe: Returns the description of a raw value.
        min_chars: An artifact with a shorter description is left out.
        max_artifacts: Use only so many artifacts, the first in the order of their ids.
        corpus_name: The name of the corpus in the cases.

    Returns:
        The cases in the order of the source, and what was left out. An artifact for which the writer fails is left out.

    Raises:
        ArgumentError: If a value cannot be used.
        ChatUnavailable: If there is neither a writer nor a model.

    Example:
        >>> import anyio
        >>> from airw.sources import from_mapping
        >>> source = from_mapping({"keys.md": "Rotates the signing keys every month."}, name="notes")
        >>> async def main():
        ...     return await generate_cases(source, writer=lambda description, n: ["how do I change my keys?"])
        >>> [(case.query, case.gold) for case in anyio.run(main).cases]
        [('how do I change my keys?', ('keys.md',))]
    """
    check_count("k", k, least=1)
    write = make_query_writer(model=model) if writer is None else _check_writer(writer, model)
    artifacts = [item async for item in source.items() if not isinstance(item, ItemProblem)]
    if max_artifacts is not None:
        artifacts = sorted(artifacts, key=lambda item: item.id)[: check_count("max_artifacts", max_artifacts)]
    descriptions = {item.id: describe(item.raw) or "" for item in artifacts}
    short = [item for item in artifacts if len(descriptions[item.id].strip()) < min_chars]
    left_out = {item.id for item in short}
    usable = [item for item in artifacts if item.id not in left_out]

    async def ask(item: Artifact) -> Sequence[str] | str:
        text = descriptions[item.id]
        shown = mask_name(text, _name_of(item)) if mask_names else text
        try:
            return list(await call_user_function(partial(write, shown, n=k)))
        except Exception as error:  # noqa: BLE001 - one description that a model refuses must not lose all the others
            return error_text(error)

    answers = await map_bounded(ask, usable, limit=_MAX_REQUESTS)
    pairs = [(item, answer) for item, answer in zip(usable, answers, strict=True) if not isinstance(answer, str)]
    found = [(item, query.strip()) for item, queries in pairs for query in queries if query and query.strip()]
    kept = [(item, query) for item, query in found if not (mask_names and contains_name(query, _name_of(item)))]
    metadata = {"generator": "backtranslation", "masked": bool(mask_names)}
    return GeneratedCases(
        cases=tuple(DiscoveryCase(query, (item.id,), corpus_name, item.id, metadata) for item, query in kept),
        short=tuple(item.id for item in short),
        failed={item.id: answer for item, answer in zip(usable, answers, strict=True) if isinstance(answer, str)},
        dropped=len(found) - len(kept),
    )


def _check_writer(writer: QueryWriter, model: ChatLike | None) -> QueryWriter:
    if not callable(writer) or model is not None:
        raise ArgumentError("writer must be a function of a description and n, and cannot be combined with model")
    return writer


async def generate_abstention_cases(
    n: int,
    *,
    writer: QueryWriter | None = None,
    model: ChatLike | None = None,
    theme: str = "software developer tools",
    corpus_name: str | None = None,
) -> list[DiscoveryCase]:
    """Write queries that nothing in a corpus answers.

    Args:
        n: The number of queries; there are fewer if the writer returns fewer.
        writer: `writer(n=n, theme=theme)` returns queries; by default a chat model is asked.
        model: The chat model; see `make_query_writer`.
        theme: What the corpus is about.
        corpus_name: The name of the corpus in the cases.

    Raises:
        ChatUnavailable: If there is neither a writer nor a model.
        ChatError: If the model fails.

    Example:
        >>> import anyio
        >>> async def main():
        ...     return await generate_abstention_cases(1, writer=lambda n, theme: ["a winter in Rome"])
        >>> [case.gold_is_none for case in anyio.run(main)]
        [True]
    """
    if check_count("n", max(n, 0)) == 0:
        return []
    write = make_abstention_writer(model=model) if writer is None else _check_writer(writer, model)
    queries = await call_user_function(partial(write, n=n, theme=theme))
    texts = [query.strip() for query in queries if query and query.strip()][:n]
    return [DiscoveryCase(text, (), corpus_name, None, {"generator": "abstention"}) for text in texts]


async def generate_case_set(
    source: Source,
    *,
    k: int = 5,
    abstention_share: float = 0.15,
    writer: QueryWriter | None = None,
    abstention_writer: QueryWriter | None = None,
    model: ChatLike | None = None,
    theme: str = "software developer tools",
    corpus_name: str | None = None,
    **options: Any,
) -> GeneratedCases:
    """Write cases with an answer, then a share of cases without one.

    Args:
        source: The source.
        k: The number of queries per artifact.
        abstention_share: The share of cases without an answer, from 0 and below 1.
        writer: Writes the queries of an artifact; see `generate_cases`.
        abstention_writer: Writes queries without an answer; see `generate_abstention_cases`.
        model: The chat model for both, where there is no writer.
        theme: What the corpus is about.
        corpus_name: The name of the corpus in the cases.
        **options: Further options of `generate_cases`.

    Returns:
        The cases. If the writer fails for queries without an answer, the others are kept, with the error in
        `abstention_error`.

    Raises:
        ArgumentError: If a value cannot be used.
        ChatUnavailable: If there is neither a writer nor a model.

    Example:
        >>> import anyio
        >>> from airw.sources import from_mapping
        >>> source = from_mapping({"keys.md": "Rotates the signing keys every month."}, name="notes")
        >>> async def main():
        ...     write, invent = lambda text, n: ["change my keys"], lambda n, theme: ["a winter in Rome"]
        ...     return await generate_case_set(source, k=1, writer=write, abstention_writer=invent)
        >>> [case.query for case in anyio.run(main).cases]
        ['change my keys', 'a winter in Rome']
    """
    share = check_number("abstention_share", abstention_share, least=0, most=1)
    if share == 1:
        raise ArgumentError("abstention_share must be below 1, because cases with an answer are needed too")
    # A missing model is an error now, not after the first writer has worked for an hour.
    invent: QueryWriter | None = None
    if share:
        checked = abstention_writer is not None and _check_writer(abstention_writer, None)
        invent = checked or make_abstention_writer(model=model)
    found = await generate_cases(
        source, k=k, writer=writer, model=None if writer else model, corpus_name=corpus_name, **options
    )
    count = math.ceil(share * len(found.cases) / (1 - share) - 1e-9)
    try:
        without = await generate_abstention_cases(count, writer=invent, theme=theme, corpus_name=corpus_name)
    except Exception as error:  # noqa: BLE001 - a model that refuses this must not lose all the cases with an answer
        return replace(found, abstention_error=error_text(error))
    return replace(found, cases=(*found.cases, *without))


def sign_corpus(artifact_ids: Iterable[str]) -> str:
    """Return a short hash of the ids of a corpus, whatever their order.

    In the first line of a case file, it says for which corpus the cases were written.

    Example:
        >>> sign_corpus(["b", "a"]) == sign_corpus(["a", "b"])
        True
    """
    return hashlib.sha256("\n".join(sorted(artifact_ids)).encode()).hexdigest()[:16]

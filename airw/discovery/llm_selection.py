"""A selector that lets a language model choose the hits."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from airw._base.checks import check_count, check_kind, check_query
from airw._base.concurrency import call_user_function
from airw.chat import ChatLike
from airw.chat.questions import ChatPrompt, function_or_prompt, list_items, strip_bullet
from airw.discovery.selection import SourceScales, select, select_by_evidence, weigh_hits
from airw.protocols import MaybeAwaitable, Selector
from airw.values import SearchHit
from airw.values.hits import get_fact

SELECTION_PROMPT = """\
Somebody needs this:

{query}

Search found the candidates below, one a line: a label, a colon, and what the candidate says.

{candidates}

Which of them would really help? Leave out those that merely share words with the need: one good candidate is better
than three of which two mislead. Answer with the labels alone, exactly as they are written, one a line, the most
helpful first. If no candidate helps, answer with the single word: none
"""
"""The default prompt."""

_REASON_MARKS = (": ", " - ", " – ", " — ", " (")  # noqa: RUF001 - marks between a label and a reason in an answer
_NONE = re.compile(r"\W*none\W*(\s.*)?", re.IGNORECASE)


class Chooser(Protocol):
    """Chooses the candidates that help with a query.

    A chooser is a function that reads the candidates as text, `label: text`, one a line.
    """

    def __call__(self, *, query: str, candidates: str) -> MaybeAwaitable[Iterable[str]]:
        """Return the labels of the candidates that help, best first; none to abstain."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSelector:
    """A selector that asks a chooser or a chat model which hits help.

    `make_llm_selector` makes it.
    """

    query: str
    chooser: Chooser | ChatPrompt
    max_candidates: int = 10
    fallback: Selector | None = None

    def __post_init__(self) -> None:
        """Check every parameter."""
        check_query(self.query)
        check_count("max_candidates", self.max_candidates, least=1)
        check_kind("chooser", self.chooser, Callable, "be a function")
        check_kind("fallback", self.fallback, Callable | None, "be a function")

    async def __call__(self, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """Return the chosen hits, best first; none if the chooser abstains."""
        hits_by_label = _assign_labels(hits, self.max_candidates)
        if not hits_by_label:
            return []
        candidates = "\n".join(f"{label}: {_one_line(hit.text)}" for label, hit in hits_by_label.items())
        read_answer = parse_labels if isinstance(self.chooser, ChatPrompt) else _check_labels
        try:
            answer: Any = await call_user_function(partial(self.chooser, query=self.query, candidates=candidates))
            labels = read_answer(answer, list(hits_by_label))
        except Exception:  # noqa: BLE001 - a model or its client may fail in any way; the fallback answers then
            labels = None
        if labels is not None:
            return [hits_by_label[label] for label in labels]
        return list(await call_user_function(self.fallback or _select_close, hits))


def make_llm_selector(
    query: str,
    *,
    chooser: Chooser | None = None,
    prompt: str | None = None,
    max_candidates: int = 10,
    fallback: Selector | None = None,
    model: ChatLike | None = None,
) -> LlmSelector:
    """Make an async selector that lets a function or a chat model choose among the hits.

    The chooser sees each artifact once, with the text of its first hit. The label of a candidate is its artifact id, or
    `source/artifact_id` if several candidates have the same id. An empty answer means to abstain. Unknown labels are
    dropped, and duplicates count once.

    A selection must not depend on a model alone. The fallback selects if the chooser fails, if it returns something
    else than a list of labels, or if it returns only unknown labels.

    Without a chooser, a chat model answers. Its text is read as a list of labels, one a line or separated by commas;
    numbers and quotes around a label are removed. The text `none` means to abstain. With any other text the fallback
    selects.

    Args:
        query: The query that the hits were found for.
        chooser: A function that is called with the keywords `query` and `candidates` (`label: text`, one a line) and
            returns labels, best first. It may be async; if it is sync, it is called in a worker thread.
        prompt: The prompt for the model, with the placeholders `{query}` and `{candidates}`; `SELECTION_PROMPT` by
            default.
        max_candidates: Show the chooser at most this many candidates.
        fallback: The selector to use if the chooser fails; by default the strategy `conservative` of `select`.
        model: The model to ask: `"http://host:8080/v1#model"` or a `ChatModel`; by default the model that the
            environment variable `AIRW_CHAT` names.

    Raises:
        ArgumentError: If a value cannot be used, or a chooser is combined with a model or a prompt.
        ChatUnavailable: If there is neither a chooser nor a model.

    Example:
        >>> import anyio
        >>> selector = make_llm_selector("bread", chooser=lambda query, candidates: ["loaf.md"])
        >>> hits = [SearchHit(name, "document", 1.0, "") for name in ("keys.md", "loaf.md")]
        >>> chosen = anyio.run(selector, hits)
        >>> select(hits, strategy=lambda _: chosen).selected_ids
        ['loaf.md']
    """
    needs = ("query", "candidates")
    function = function_or_prompt(chooser, "chooser", model=model, prompt=prompt, default=SELECTION_PROMPT, needs=needs)
    return LlmSelector(query=query, chooser=function, max_candidates=max_candidates, fallback=fallback)


def _select_close(hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
    """Return the hits that a discovery would select."""
    # The scores of a reranker are compared as they are.
    if any(get_fact(hit.metadata, "retrieval_score") is not None for hit in hits):
        return select(hits).selected
    return select_by_evidence(hits, weigh_hits(hits, lambda _: SourceScales())).selected


def _assign_labels(hits: Sequence[SearchHit], limit: int) -> dict[str, SearchHit]:
    """Return the first hit of each artifact by a unique label of one line."""
    first_hits: dict[tuple[str | None, str], SearchHit] = {}
    for hit in hits:
        first_hits.setdefault(hit.key, hit)
    shortlist = list(first_hits.values())[:limit]
    id_counts = Counter(hit.artifact_id for hit in shortlist)
    hits_by_label: dict[str, SearchHit] = {}
    for hit in shortlist:
        is_unique = id_counts[hit.artifact_id] == 1 or hit.source is None
        label = _one_line(hit.artifact_id if is_unique else f"{hit.source}/{hit.artifact_id}")
        # The id of one artifact may look like the label of another one.
        while label in hits_by_label:
            label += "*"
        hits_by_label[label] = hit
    return hits_by_label


def _check_labels(answer: object, labels: list[str]) -> list[str] | None:
    """Return the valid labels of an answer; `None` if it has only unknown ones."""
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        return None
    answered = [_one_line(label) if isinstance(label, str) else "" for label in answer]
    # A set has no order, so its labels get the order of the candidates.
    order = labels if isinstance(answer, AbstractSet) else dict.fromkeys(answered)
    chosen = [label for label in order if label in answered and label in labels]
    return chosen if chosen or not answered else None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def parse_labels(answer: str, labels: Sequence[str]) -> list[str] | None:
    r"""Return the labels in a model's text without duplicates.

    An empty list means that the model abstains; `None` means that the text cannot be read.

    Example:
        >>> parse_labels("1. `b.md`\n2. a.md: because of its text", ["a.md", "b.md"])
        ['b.md', 'a.md']
        >>> parse_labels("None of them.", ["a.md"])
        []
    """
    lines = list_items(answer)
    chosen = dict.fromkeys(label for line in lines for label in _parse_line(line, labels))
    if chosen:
        return list(chosen)
    # Without lines, a bracket is an empty JSON list.
    abstains = _NONE.fullmatch(lines[0]) if lines else "[" in answer
    return [] if abstains else None


def _parse_line(line: str, labels: Sequence[str]) -> list[str]:
    # A label may look like a list item with its number or bullet, so try the line with and without them.
    readings = [_one_line(line), _one_line(strip_bullet(line))]
    # First the most certain reading: the line is a label.
    for reading in readings:
        if reading in labels:
            return [reading]
    # Models like to add a reason. The longest label wins, because one label may begin with another.
    starts = [
        label for reading in readings for label in labels for mark in _REASON_MARKS if reading.startswith(label + mark)
    ]
    if starts:
        return [max(starts, key=len)]
    # At last, the line may be a list itself.
    parts = [_one_line(strip_bullet(part.strip())) for part in strip_bullet(line).split(",")]
    return [part for part in parts if part in labels]

"""Letting a language model commit to hits."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from airw._base.checks import check_count, check_query
from airw._base.concurrency import call_user_function
from airw._base.messages import short_repr
from airw.chat import ChatLike
from airw.chat.questions import ChatPrompt, function_or_prompt, list_items, strip_bullet
from airw.discovery.selection import select
from airw.errors import ArgumentKindError
from airw.protocols import MaybeAwaitable, Selector
from airw.values import SearchHit

SELECTION_PROMPT = """\
Somebody needs this:

{query}

Search found the candidates below, one a line: a label, a colon, and what the candidate says.

{candidates}

Which of them would really help? Leave out those that merely share words with the need: one good candidate is better
than three of which two mislead. Answer with the labels alone, exactly as they are written, one a line, the most
helpful first. If no candidate helps, answer with the single word: none
"""
"""What a model is asked unless another prompt is given."""

_THEN = (": ", " - ", " – ", " — ", " (")  # noqa: RUF001 - what a model puts between a label and its reason
_NONE = re.compile(r"\W*none\W*(\s.*)?", re.IGNORECASE)


class Chooser(Protocol):
    """Reads the candidates, `label: text` one a line, and gives the labels of those that help with the query."""

    def __call__(self, *, query: str, candidates: str) -> MaybeAwaitable[Iterable[str]]:
        """Give labels, best first; none when no candidate helps."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSelector:
    """Asks a language model, or anybody else who reads, which hits help; `make_llm_selector` makes one."""

    query: str
    chooser: Chooser | ChatPrompt
    max_candidates: int = 10
    fallback: Selector | None = None

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        check_query(self.query)
        check_count("max_candidates", self.max_candidates, least=1)
        for name, value in (("chooser", self.chooser), ("fallback", self.fallback)):
            if not callable(value) and (value is not None or name == "chooser"):
                raise ArgumentKindError(f"{name} must be a function, not {short_repr(value)}")

    async def __call__(self, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """Give the hits chosen, best first; none where the chooser gave no label."""
        labelled = _labelled(hits, self.max_candidates)
        if not labelled:
            return []
        candidates = "\n".join(f"{label}: {_one_line(hit.text)}" for label, hit in labelled.items())
        try:
            labels = await self._labels(candidates, list(labelled))
        except Exception:  # noqa: BLE001 - whatever a model's client raises: the choice must not depend on it alone
            labels = None
        if labels is not None:
            return [labelled[label] for label in labels]
        return select(hits).selected if self.fallback is None else list(await call_user_function(self.fallback, hits))

    async def _labels(self, candidates: str, known: list[str]) -> list[str] | None:
        if isinstance(self.chooser, ChatPrompt):
            return labels_in(await self.chooser(query=self.query, candidates=candidates), known)
        return _labels(await call_user_function(partial(self.chooser, query=self.query, candidates=candidates)), known)


def make_llm_selector(
    query: str,
    *,
    chooser: Chooser | None = None,
    prompt: str | None = None,
    max_candidates: int = 10,
    fallback: Selector | None = None,
    model: ChatLike | None = None,
) -> LlmSelector:
    """Make an async selector that lets a language model choose among the hits.

    The chooser sees one candidate an artifact, by its first hit. A candidate's label is its artifact id, or
    `source/artifact_id` where several candidates have that id. No label given means to abstain. Labels that are not
    known are dropped, repeated ones count once. Where none is known, the answer is no list of labels (text is none), or
    the chooser fails, the fallback chooses, as a model must not be the only thing to rely on.

    Without a chooser a chat model is asked. It answers in text: labels one a line or with commas between them, numbered
    or not, in quotes or not; `none` to abstain. Any other text makes the fallback choose.

    Args:
        query: What the hits were found for.
        chooser: Called with the keywords `query` and `candidates` (`label: text`, one a line), gives labels, best
            first; async, or called in a worker thread.
        prompt: What to ask the model, with `{query}` and `{candidates}` where these go; `SELECTION_PROMPT` when left
            out.
        max_candidates: Show the chooser at most this many.
        fallback: A selector for when the chooser fails; the conservative rule of `select` unless given.
        model: The model to ask, `"http://host:8080/v1#model"` or a `ChatModel`; what `AIRW_CHAT` names when left out.

    Raises:
        ArgumentError: A parameter cannot be used, or there is a chooser and a model or a prompt as well.
        ChatUnavailable: There is neither a chooser nor a model.

    Example:
        >>> import anyio
        >>> selector = make_llm_selector("bread", chooser=lambda query, candidates: ["loaf.md"])
        >>> hits = [SearchHit(name, "document", 1.0, "") for name in ("keys.md", "loaf.md")]
        >>> chosen = anyio.run(selector, hits)
        >>> select(hits, strategy=lambda _: chosen).selected_ids
        ['loaf.md']
    """
    needs = ("query", "candidates")
    asked = function_or_prompt(chooser, "chooser", model=model, prompt=prompt, default=SELECTION_PROMPT, needs=needs)
    return LlmSelector(query=query, chooser=asked, max_candidates=max_candidates, fallback=fallback)


def _labelled(hits: Sequence[SearchHit], limit: int) -> dict[str, SearchHit]:
    """Give the first hit of each artifact under a label of its own, on one line."""
    firsts: dict[tuple[str | None, str], SearchHit] = {}
    for hit in hits:
        firsts.setdefault(hit.key, hit)
    shortlist = list(firsts.values())[:limit]
    ids = Counter(hit.artifact_id for hit in shortlist)
    labelled: dict[str, SearchHit] = {}
    for hit in shortlist:
        alone = ids[hit.artifact_id] == 1 or hit.source is None
        label = _one_line(hit.artifact_id if alone else f"{hit.source}/{hit.artifact_id}")
        while label in labelled:  # an id may look like another one's label
            label += "*"
        labelled[label] = hit
    return labelled


def _labels(answer: object, known: list[str]) -> list[str] | None:
    """Give the known labels of an answer, each once; `None` where it says something and nothing of that is known."""
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        return None
    said = [_one_line(label) if isinstance(label, str) else "" for label in answer]
    order = known if isinstance(answer, AbstractSet) else dict.fromkeys(said)  # a set has no order of its own
    chosen = [label for label in order if label in said and label in known]
    return chosen if chosen or not said else None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def labels_in(answer: str, known: Sequence[str]) -> list[str] | None:
    r"""Give the known labels that a model's text names, each once; `None` where it names none, nor says so.

    Example:
        >>> labels_in("1. `b.md`\n2. a.md: because of its text", ["a.md", "b.md"]), labels_in("None of them.", ["a.md"])
        (['b.md', 'a.md'], [])
    """
    lines = list_items(answer)
    chosen = dict.fromkeys(label for line in lines for label in _labels_of(line, known))
    if chosen:
        return list(chosen)
    says_none = _NONE.fullmatch(lines[0]) if lines else "[" in answer  # an empty JSON list
    return [] if says_none else None


def _labels_of(line: str, known: Sequence[str]) -> list[str]:
    """Give the label that a line is, else the one it starts with, else those it lists."""
    readings = [_one_line(line), _one_line(strip_bullet(line))]
    for reading in readings:
        if reading in known:
            return [reading]
    starts = [label for reading in readings for label in known for mark in _THEN if reading.startswith(label + mark)]
    if starts:
        return [max(starts, key=len)]
    parts = [_one_line(strip_bullet(part.strip())) for part in strip_bullet(line).split(",")]
    return [part for part in parts if part in known]

"""What a discovery tells: each source's answer, and the result of them all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airw._base.json import json_clean
from airw.discovery.disclosure import Disclosure
from airw.values import SearchHit


@dataclass(frozen=True, slots=True)
class Answer:
    """What one source gave.

    Args:
        source: Its name.
        hits: Its own ranking, with its raw scores.
        report: What `DiscoveryResult.signals["per_source"]` says of it.
        error: Why it gave nothing; `None` where it answered.
        embedder_id: What embedded the query; `""` where it did not come so far.
        floor_note: Why there is no floor where one was asked for.
    """

    source: str
    hits: tuple[SearchHit, ...]
    report: Mapping[str, Any]
    error: Exception | None = None
    embedder_id: str = ""
    floor_note: str | None = None

    @property
    def survivors(self) -> tuple[SearchHit, ...]:
        """Give the hits that may be fused: none of a source that abstains."""
        return () if self.report["abstained"] else self.hits


@dataclass(frozen=True, slots=True)
class SourceAnswered:
    """One source of a discovery has answered, failed or run out of time.

    Args:
        source: Its name.
        report: Its `status` (`"ok"`, `"failed"` or `"timeout"`), `error`, `seconds`, `n_retrieved`, `top_score`,
            `floor`, `abstained`, and why it abstained as `reason`.
        hits: Its own ranking, with its raw scores.
        ranking: What all that have answered give together, best first, at most `k`; a hit whose `rank_final` in the
            metadata is true keeps its place whatever the pending sources answer.
        pending: The names of those that have not answered, in the caller's order.
    """

    source: str
    report: Mapping[str, Any]
    hits: tuple[SearchHit, ...]
    ranking: tuple[SearchHit, ...]
    pending: tuple[str, ...]

    @property
    def final(self) -> tuple[SearchHit, ...]:
        """Give the hits of the ranking that keep their places."""
        return tuple(hit for hit in self.ranking if hit.metadata["rank_final"])

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON-clean values."""
        return {
            "source": self.source,
            "report": json_clean(self.report),
            "hits": [hit.to_dict() for hit in self.hits],
            "ranking": [hit.to_dict() for hit in self.ranking],
            "pending": list(self.pending),
        }


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """What was found for a query and committed to, or why nothing was.

    Args:
        query: The query as it was asked.
        mode: The mode of the search; `"walk"` where the corpora were walked.
        strategy: The name of the selection's strategy; `"custom"` for a function.
        disclose_level: How much of each result was revealed.
        results: What was committed to, best first.
        abstained: Whether that is nothing.
        reason: The rule that ended the selection, such as `"rel_threshold"`, or `"abstain:…"`.
        n_retrieved: The candidates of all sources.
        signals: The numbers behind the decision; over several corpora also `merge`, `sources` and `per_source`.
    """

    query: str
    mode: str
    strategy: str
    disclose_level: str
    results: Sequence[Disclosure]
    abstained: bool
    reason: str
    n_retrieved: int
    signals: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        """Give the ids of the artifacts committed to, best first."""
        return [result.artifact_id for result in self.results]

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON-clean values, and `n_selected`."""
        return {
            "query": self.query,
            "mode": self.mode,
            "strategy": self.strategy,
            "disclose_level": self.disclose_level,
            "results": [result.to_dict() for result in self.results],
            "abstained": self.abstained,
            "reason": self.reason,
            "n_retrieved": self.n_retrieved,
            "n_selected": len(self.results),
            "signals": json_clean(self.signals),
        }

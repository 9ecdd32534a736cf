"""What a discovery returns: its result, and the events before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airw._base.json import json_clean
from airw.discovery.disclosure import Disclosure
from airw.discovery.selection import REASONS
from airw.values import SearchHit
from airw.values.hits import get_fact


@dataclass(frozen=True, slots=True)
class SourceAnswered:
    """The event that a source of a discovery has answered, failed or run out of time.

    Args:
        source: The name of the source.
        report: Its `status`, `error`, `seconds`, `n_retrieved`, `top_score`, `floor`, `floor_kind`, `abstained`, and
            `reason`, which is why it abstained. The status is `"ok"`, `"failed"` or `"timeout"`. A walk that was cut by
            its deadline has the status `"timeout"` and its hits so far.
        hits: The ranking of the source, with its raw scores.
        ranking: The fused ranking of all sources that have answered, best first, at most `k` hits. If `rank_final` in
            the metadata of a hit is true, no pending source can change its place any more.
        pending: The names of the sources that have not answered yet, in the caller's order.
    """

    source: str
    report: Mapping[str, Any]
    hits: tuple[SearchHit, ...]
    ranking: tuple[SearchHit, ...]
    pending: tuple[str, ...]

    @property
    def final(self) -> tuple[SearchHit, ...]:
        """Return the hits of the ranking whose places are final."""
        return tuple(hit for hit in self.ranking if get_fact(hit.metadata, "rank_final"))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {
            "source": self.source,
            "report": json_clean(self.report),
            "hits": [hit.to_dict() for hit in self.hits],
            "ranking": [hit.to_dict() for hit in self.ranking],
            "pending": list(self.pending),
        }


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The result of a discovery: the few selected hits, or the reason why there are none.

    Args:
        query: The original query.
        mode: The mode of the search; `"walk"` if the corpora were walked.
        strategy: The name of the selection strategy; `"custom"` for a function.
        disclose_level: The level at which the results are disclosed.
        results: The disclosures of the selected hits, best first.
        abstained: True if nothing was selected.
        reason: The rule that ended the selection, such as `"rel_threshold"`, or `"abstain:…"`.
        n_retrieved: The number of candidates of all sources.
        signals: The numbers behind the decision; for several corpora also `merge`, `sources` and `per_source`.
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
        """Return the ids of the selected artifacts, best first."""
        return [result.artifact_id for result in self.results]

    @property
    def explanation(self) -> str:
        """Return what the reason means, in words; the reason itself if it is not one of `REASONS`."""
        return REASONS.get(self.reason, self.reason)

    @property
    def missing(self) -> dict[str, str]:
        """Return the sources that failed or were late, by name, each with the error.

        A walk that was cut by its deadline is late, though its hits so far take part.
        """
        reports = self.signals.get("per_source", {})
        return {name: report["error"] for name, report in reports.items() if report["status"] != "ok"}

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, `n_selected`, `explanation` and `missing` as JSON values."""
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
            "explanation": self.explanation,
            "missing": [{"source": name, "error": error} for name, error in self.missing.items()],
            "signals": json_clean(self.signals),
        }

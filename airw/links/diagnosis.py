"""What a graph is like, and whether it can help to find things."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from airw._base.json import json_clean
from airw.values import LinkCount, NodeId

__all__ = ["Finding", "GraphDiagnosis", "Outlook"]

Outlook: TypeAlias = Literal["good", "doubtful", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a diagnosis says.

    Args:
        name: What it is about, such as `"dangling"`.
        value: The number behind it.
        is_good: Whether it speaks for the graph, or against it.
        text: What was found, and what would do.
    """

    name: str
    value: float
    is_good: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDiagnosis:
    """What a graph is like, and whether it can help to find things.

    Shares are from 0 to 1; printed, it is a report of a few lines.

    Args:
        artifacts: How many there are.
        edges: The ordered pairs of them that a link leads between.
        links: All links by type, origin and state.
        dangling: The share of links whose target is not there.
        ambiguous: The share of links that may mean several artifacts.
        isolated: The share of artifacts without any edge.
        largest_component: The share of artifacts in the largest group that edges connect.
        in_degrees: Edges to an artifact: the least, quantiles, and the most.
        out_degrees: Edges from an artifact, in the same way.
        in_gini: How unequal in-degrees are: 0 where all are equal, nearly 1 where one artifact has all edges.
        hub_share: The share of edges that lead to the hundredth of artifacts with most, at least to one.
        hubs: The five artifacts to which most edges lead, with their number.
        reach: The share of the other artifacts that is within two hops of one, on average.
        pairs: Linked pairs whose vectors were compared.
        linked_cosine: How alike these are, on average; `None` where too few have vectors.
        random_cosine: How alike pairs are that are made of the ends of different links.
        gain: How many standard deviations linked pairs are more alike than these (Cohen's d).
        gold_pairs: Pairs of artifacts that answer one question together; `None` where no gold was given.
        gold_linked: The share of these that a link connects.
        gold_near: The share of these that are within two hops.
        findings: What follows, the gravest first.
        outlook: Whether walking along links can help to find things: `"good"`, `"doubtful"` or `"bad"`.
    """

    artifacts: int
    edges: int
    links: tuple[LinkCount, ...]
    dangling: float
    ambiguous: float
    isolated: float
    largest_component: float
    in_degrees: Mapping[str, float]
    out_degrees: Mapping[str, float]
    in_gini: float
    hub_share: float
    hubs: tuple[tuple[NodeId, int], ...]
    reach: float
    pairs: int = 0
    linked_cosine: float | None = None
    random_cosine: float | None = None
    gain: float | None = None
    gold_pairs: int | None = None
    gold_linked: float | None = None
    gold_near: float | None = None
    findings: tuple[Finding, ...] = ()
    outlook: Outlook = "doubtful"

    def to_dict(self) -> dict[str, Any]:
        """Give all fields as JSON-clean values."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **{name: json_clean(value) for name, value in plain.items()},
            "links": [_plain(count) for count in self.links],
            "hubs": [{"id": json_clean(id), "edges": edges} for id, edges in self.hubs],
            "findings": [_plain(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        """Write the report."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"outlook: {self.outlook}"
        yield from (f"{'+' if finding.is_good else '-'} {finding.text}" for finding in self.findings)
        yield f"artifacts: {self.artifacts:,}, {self.isolated:.0%} of them without any edge"
        yield f"edges: {self.edges:,}; {self.largest_component:.0%} of the artifacts hang together"
        for count in self.links:
            yield f"links of type {count.type}, {count.origin}, {count.state}: {count.count:,}"
        for name, degrees in (("in", self.in_degrees), ("out", self.out_degrees)):
            yield f"{name}-degree: {', '.join(f'{each} {value:g}' for each, value in degrees.items())}"
        yield f"in-degrees are unequal by {self.in_gini:.2f} (Gini); the top 1 % have {self.hub_share:.0%} of the edges"
        if self.hubs:
            yield f"hubs: {', '.join(f'{id} ({edges:,})' for id, edges in self.hubs)}"
        yield f"within two hops of an artifact: {self.reach:.1%} of the others"


def _plain(value: Any) -> dict[str, Any]:
    return {each.name: json_clean(getattr(value, each.name)) for each in fields(value)}

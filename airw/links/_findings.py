"""What follows from the numbers of a diagnosis; the thresholds, with their reasons."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from airw.links.diagnosis import Finding, GraphDiagnosis, Outlook

__all__ = ["judged"]

# The reasons name what was measured on ten public sets: three markdown vaults, the hyperlinks of a small Wikipedia, two
# citation graphs, and title mentions in three multi-hop question sets.
MANY_DANGLING = 0.25
"""The vaults have 4 to 24 %, mostly links to files that were left out: more is a sign of names that are not found."""

MANY_AMBIGUOUS = 0.05
"""The vaults have under 1 %: more is a sign of names that say too little."""

MANY_ISOLATED = 2 / 3
"""Sets with up to 58 % still gain from their links: with twice as many without as with, most queries find no link."""

MUCH_AT_HUBS = 0.4
"""Links that people wrote give the top hundredth 4 to 25 %; mentions of common titles, which mislead, 54 %."""

LEAST_HUB = 10
"""Fewer edges than this crowd out nothing."""

LEAST_GAIN = 0.3
"""Between what Cohen calls a small effect (0.2) and a medium one (0.5). Links to read on have 0.5 to 1.6; co-citations,
useless before the weak ones are pruned, 0.2."""

WIDE_REACH = 0.25
"""When two hops lead to a quarter of everything, having been reached says little: ranking must do all the work."""

WITHIN_BUDGET = 64
"""So many artifacts are no flood, whatever their share: a walk visits them with the default node budget."""

LEAST_NEAR = 1
"""When two hops lead to fewer artifacts than this, there is next to nothing to walk to."""

LEAST_GOLD = 0.25
"""Title mentions bring 37 to 70 % of the pairs of multi-hop questions within two hops: under a quarter, most chains
break."""

FEW_GOLD = 0.1
"""Under this, nine chains of ten break."""

LEAST_LIFT = 2
"""Pairs that belong together should be within two hops at least this much more often than any two artifacts."""

Check: TypeAlias = Callable[[GraphDiagnosis], Iterator[Finding]]


def judged(diagnosis: GraphDiagnosis) -> GraphDiagnosis:
    """Give a diagnosis with what follows from its numbers: what speaks against the graph first."""
    checks: tuple[Check, ...] = _CHECKS if diagnosis.edges else (_empty,)
    findings = [finding for check in checks for finding in check(diagnosis)]
    ordered = tuple(sorted(findings, key=lambda finding: finding.is_good))
    return replace(diagnosis, findings=ordered, outlook=_outlook(diagnosis, ordered))


def _outlook(diagnosis: GraphDiagnosis, findings: tuple[Finding, ...]) -> Outlook:
    """Go by gold where there is some; else by what is walked to, which must be there, and follow the topic."""
    if not diagnosis.edges:
        return "bad"
    good = {finding.name: finding.is_good for finding in findings}
    if diagnosis.gold_near is not None:
        is_useless = diagnosis.gold_near < FEW_GOLD or diagnosis.gold_near < LEAST_LIFT * diagnosis.reach
        return "good" if good["gold"] else "bad" if is_useless else "doubtful"
    against = [name for name, is_good in good.items() if not is_good and name in ("isolated", "reach", "hubs")]
    return "good" if good.get("alike") and not against else "doubtful"


def _empty(found: GraphDiagnosis) -> Iterator[Finding]:
    text = (
        "no link leads from one artifact to another: give the source an edge_extractor"
        if not found.links
        else "no link leads from one artifact to another: compare what links name (unresolved) with what is there"
    )
    yield Finding("edges", 0, is_good=False, text=text)


def _gold(found: GraphDiagnosis) -> Iterator[Finding]:
    if found.gold_near is None or found.gold_linked is None:
        return
    text = (
        f"{found.gold_near:.0%} of the pairs that answer a question together are within two hops "
        f"({found.gold_linked:.0%} linked), against {found.reach:.1%} of any two: "
    )
    lift = found.gold_near >= LEAST_LIFT * found.reach
    is_good = found.gold_near >= LEAST_GOLD and lift
    advice = (
        "walking along links can find what search alone misses"
        if is_good
        else "most such pairs cannot be walked to; extract more links, such as mentions of titles"
        if lift
        else "links do not tell what belongs together; keep only stronger links"
    )
    yield Finding("gold", found.gold_near, is_good, text + advice)


def _alike(found: GraphDiagnosis) -> Iterator[Finding]:
    if found.gain is None:
        return
    numbers = f"mean cosine {found.linked_cosine:.2f} against {found.random_cosine:.2f}, {found.gain:.1f} deviations"
    if found.gain >= LEAST_GAIN:
        yield Finding("alike", found.gain, is_good=True, text=f"links follow the topic: {numbers}")
    else:
        text = (
            f"linked artifacts are hardly more alike than random ones ({numbers}): follow some types of links only, or "
            "prune weak links; if links lead on to other topics on purpose, judge by gold"
        )
        yield Finding("alike", found.gain, is_good=False, text=text)


def _isolated(found: GraphDiagnosis) -> Iterator[Finding]:
    if found.isolated > MANY_ISOLATED:
        text = (
            f"{found.isolated:.0%} of the artifacts have no link: a walk must start from a search, and stays there; "
            "extract more links"
        )
        yield Finding("isolated", found.isolated, is_good=False, text=text)


def _reach(found: GraphDiagnosis) -> Iterator[Finding]:
    near = found.reach * (found.artifacts - 1)
    if near < LEAST_NEAR:
        text = f"two hops lead to {near:.1f} others on average: there is next to nothing to walk to; extract more links"
        yield Finding("reach", found.reach, is_good=False, text=text)
    elif found.reach > WIDE_REACH and near > WITHIN_BUDGET:
        text = (
            f"two hops lead to {found.reach:.0%} of everything: walk one hop, with a small max_fanout, or with a "
            "policy that ranks by the query"
        )
        yield Finding("reach", found.reach, is_good=False, text=text)


def _hubs(found: GraphDiagnosis) -> Iterator[Finding]:
    if found.hub_share > MUCH_AT_HUBS and found.hubs[0][1] >= LEAST_HUB:
        names = ", ".join(str(id) for id, _ in found.hubs[:3])
        text = (
            f"{found.hub_share:.0%} of the edges lead to the top 1 % ({names}): go by PersonalizedPageRank, which "
            "divides by degree, or leave such names out of the links"
        )
        yield Finding("hubs", found.hub_share, is_good=False, text=text)


def _unresolved(found: GraphDiagnosis) -> Iterator[Finding]:
    if found.dangling > MANY_DANGLING:
        text = (
            f"{found.dangling:.0%} of the links dangle: see unresolved for what they name, and index it or add aliases"
        )
        yield Finding("dangling", found.dangling, is_good=False, text=text)
    if found.ambiguous > MANY_AMBIGUOUS:
        text = (
            f"{found.ambiguous:.0%} of the links may mean several artifacts and lead nowhere: see unresolved for "
            "which, and name them by path or id"
        )
        yield Finding("ambiguous", found.ambiguous, is_good=False, text=text)


_CHECKS: tuple[Check, ...] = (_gold, _alike, _isolated, _reach, _hubs, _unresolved)

"""Boosts: functions that add to the score of a hit, by its metadata."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from numbers import Real
from time import time
from typing import Any

from airw._base.checks import check_count, check_filled, check_kind, check_number, check_strings
from airw._base.messages import short_repr
from airw._base.requirements import requirement_name
from airw.errors import ArgumentError
from airw.reranking.calling import match_spec
from airw.values import SearchHit

_HALF_LIFE = re.compile(r"(\d+(?:\.\d+)?)\s*([hdwy])", re.ASCII | re.IGNORECASE)
_SECONDS = {"h": 3_600, "d": 86_400, "w": 604_800, "y": 31_557_600}
_YEAR = re.compile(r"\d{4}(-\d\d)?", re.ASCII)
_SPEC = re.compile(r"recency:(.+):(.*)", re.DOTALL)
_FIELD = "be the name of a metadata field"
_CHOICES = "a function of a hit, or 'recency:<field>:<half-life>'"


def resolve_boost(spec: str | Callable[[SearchHit], float] | None) -> Callable[[SearchHit], float] | None:
    """Return the boost of a specification; a function and `None` are returned as they are.

    Raises:
        ArgumentError: If it is another text than `"recency:<field>:<half-life>"`.
        ArgumentKindError: If it is neither a text, a function nor `None`.

    Example:
        >>> resolve_boost("recency:date:90d") == recency("date", half_life="90d")
        True
    """
    if spec is None or callable(spec):
        return spec
    field, half_life = match_spec("boost", spec, _SPEC, choices=_CHOICES).groups()
    return recency(field, half_life=half_life)


def recency(
    field: str, *, half_life: str | timedelta, weight: float = 0.5, now: datetime | None = None
) -> Callable[[SearchHit], float]:
    """Make a `boost` that prefers newer artifacts.

    Age takes up to `weight` of the score of a hit: half of that after one half-life, three quarters after two, and so
    on. So an old answer stays above a new artifact that is no answer. A score below 0 moves down as far as it would
    above 0. A date in the future counts as now. A hit without a date loses as much as one that is one half-life old:
    it is neither the newest nor the oldest.

    A date is an ISO text such as `"2026-03-01"` or `"2026-03-01T09:00+02:00"`, a `date` or a `datetime`; without a zone
    it is in UTC. A year, or a year and a month, is its first day. Other numbers are seconds since 1970.

    Args:
        field: The metadata field with the date.
        half_life: A number with `h`, `d`, `w` or `y` for hours, days, weeks or years of 365.25 days; or a `timedelta`.
        weight: The share of the score that age can take, from 0 to 1.
        now: The time from which the age counts; by default that of the search.

    Raises:
        ArgumentError: If `field` is not a name, `half_life` is not a time above 0, `weight` is not a number from 0 to
            1, or `now` is not a `datetime`.

    Example:
        >>> boost = recency("date", half_life="90d", now=datetime(2026, 6, 1))
        >>> round(boost(SearchHit("old", "document", 0.8, "", {"date": "2026-03-03"})), 6)
        -0.2
    """
    check_filled("field", field, _FIELD)
    check_kind("now", now, datetime | None, "be a datetime")
    seconds = 0.0
    if isinstance(half_life, timedelta):
        seconds = half_life.total_seconds()
    elif isinstance(half_life, str) and (parts := _HALF_LIFE.fullmatch(half_life.strip())):
        seconds = float(parts[1]) * _SECONDS[parts[2].lower()]
    if not 0 < seconds < math.inf:
        raise ArgumentError(f"half_life must be a time such as '90d', '12h', '2w' or '1y', not {short_repr(half_life)}")
    share = check_number("weight", weight, least=0, most=1)
    return _Recency(field, seconds, share, _find_seconds(now))


@dataclass(frozen=True, slots=True)
class _Recency:
    field: str
    half_life: float  # seconds
    weight: float
    now: float | None

    def __call__(self, hit: SearchHit) -> float:
        moment = _find_seconds(hit.metadata.get(self.field))
        now = time() if self.now is None else self.now
        half_lives = 1.0 if moment is None else max(0.0, now - moment) / self.half_life
        return -abs(hit.score) * self.weight * (1 - math.pow(0.5, half_lives))


def _find_seconds(value: object) -> float | None:
    """Return the seconds from 1970 to a date; `None` for anything else."""
    with suppress(ValueError, OverflowError):
        text = value.isoformat() if isinstance(value, date) else str(value).strip().upper()
        if _YEAR.fullmatch(text):  # its first day, or that of the month
            text += "-01-01"[len(text) - 4 :]
        elif isinstance(value, Real):
            return check_number("date", value)
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    return None


def dependency_evidence_boost(
    relevant_libs: Iterable[str], *, weight: float, saturate: int = 1, deps_field: str = "deps"
) -> Callable[[SearchHit], float]:
    """Make a `boost` for artifacts that depend on relevant libraries.

    The boost adds `weight * min(n, saturate) / saturate` to the score of a hit. `n` is the number of different
    libraries among `relevant_libs` that the hit's artifact requires. Requirements are evidence that prose is not: a
    description can mention a library that the artifact does not use.

    Args:
        relevant_libs: The relevant libraries; names are compared as PEP 503 normalizes them.
        weight: The largest addition, on the scale of the search: a cosine is about 0.5, an RRF score about 0.03. A
            negative weight lowers scores.
        saturate: The number of libraries that earns the whole weight.
        deps_field: The metadata field with the requirements, a list or a single one. Versions, extras and markers in
            them are ignored.

    Raises:
        ArgumentKindError: If `relevant_libs` is a single string, or contains something else than strings.
        ArgumentError: If `weight` is not a finite number, `saturate` is not a positive whole number, or `deps_field` is
            not a name.

    Example:
        >>> boost = dependency_evidence_boost({"networkx"}, weight=0.1)
        >>> boost(SearchHit("paths", "document", 0.4, "", {"deps": ["NetworkX>=3", "anyio"]}))
        0.1
        >>> boost(SearchHit("tasks", "document", 0.5, "", {"deps": ["anyio"]}))
        0.0
    """
    check_number("weight", weight)
    check_filled("deps_field", deps_field, _FIELD)
    libraries = frozenset(map(requirement_name, check_strings("relevant_libs", relevant_libs))) - {""}
    return _DependencyEvidence(libraries, float(weight), check_count("saturate", saturate, least=1), deps_field)


@dataclass(frozen=True, slots=True)
class _DependencyEvidence:
    libraries: frozenset[str]
    weight: float
    saturate: int
    deps_field: str

    def __call__(self, hit: SearchHit) -> float:
        deps: Any = hit.metadata.get(self.deps_field)
        entries = deps if isinstance(deps, Iterable) and not isinstance(deps, str | Mapping) else [deps]
        required = {requirement_name(entry) for entry in entries if isinstance(entry, str)}
        return self.weight * min(len(self.libraries & required), self.saturate) / self.saturate

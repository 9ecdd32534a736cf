"""Maintenance: build the corpora again that are due."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from airw import corpora
from airw.compat._missing_names import explain_missing
from airw.compat._sync import run
from airw.corpora import MaintenanceOutcome
from airw.errors import StoreBusy

MaintenanceBusy = StoreBusy


@dataclass
class MaintenanceResult:
    """The result of the maintenance of one corpus."""

    name: str
    ran: bool
    reason: str
    reindex: bool = False
    synopsis: bool = False
    records: int | None = None
    error: str | None = None


def maintain(
    name: str | None = None,
    *,
    all: bool = False,
    now: datetime | None = None,
    dry_run: bool = False,
) -> list[MaintenanceResult]:
    """Build one corpus again, or all corpora that are due; see `airw.maintain`.

    Raises:
        CorpusNotFound: If there is no corpus with that name.
        StoreBusy: If another run is active.
    """
    time = now if now is None or now.tzinfo else now.astimezone()
    report = run(corpora.maintain, None if all else name, now=time, dry_run=dry_run)
    return [_to_result(outcome) for outcome in report.corpora]


def maintain_corpus(
    name: str, *, now: datetime | None = None, dry_run: bool = False, full: bool = True
) -> MaintenanceResult:
    """Build one corpus again.

    Raises:
        CorpusNotFound: If there is no corpus with that name.
        NotImplementedError: If `full` is false; call `build_corpus(name, full=False)` instead.
    """
    if not full:
        raise NotImplementedError(
            "maintain_corpus always prunes removed artifacts: call build_corpus(name, full=False) instead"
        )
    return maintain(name, now=now, dry_run=dry_run)[0]


def _to_result(outcome: MaintenanceOutcome) -> MaintenanceResult:
    due = outcome.action in ("built", "failed", "due")
    error = None if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}"
    return MaintenanceResult(outcome.name, outcome.action == "built", outcome.reason, reindex=due, error=error)


_LOCK = "each run holds a file lock, which the system releases when its process ends"

__getattr__: Final = explain_missing(
    __name__, {"single_run": _LOCK, "lock_path": _LOCK, "DFLT_STALE_LOCK_AFTER": _LOCK}
)

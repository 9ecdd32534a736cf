"""Building again what is due."""

from dataclasses import dataclass
from datetime import datetime

from airw import corpora
from airw.compat._missing import missing
from airw.compat._sync import run
from airw.corpora import MaintenanceOutcome
from airw.errors import StoreBusy

MaintenanceBusy = StoreBusy


@dataclass
class MaintenanceResult:
    """What was done about one corpus."""

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
    """Build again one corpus, or those of all that are due; see `airw.maintain`.

    Raises:
        CorpusNotFound: There is none of that name.
        StoreBusy: Another run is active.
    """
    at = now if now is None or now.tzinfo else now.astimezone()
    report = run(corpora.maintain, None if all else name, now=at, dry_run=dry_run)
    return [_result(each) for each in report.corpora]


def maintain_corpus(
    name: str, *, now: datetime | None = None, dry_run: bool = False, full: bool = True
) -> MaintenanceResult:
    """Build one corpus again.

    Raises:
        CorpusNotFound: There is none of that name.
        NotImplementedError: `full=False`: write `build_corpus(name, full=False)`.
    """
    if not full:
        raise NotImplementedError("maintenance prunes what is gone: write build_corpus(name, full=False) instead")
    return maintain(name, now=now, dry_run=dry_run)[0]


def _result(each: MaintenanceOutcome) -> MaintenanceResult:
    due = each.action in ("built", "failed", "due")
    error = None if each.error is None else f"{type(each.error).__name__}: {each.error}"
    return MaintenanceResult(each.name, each.action == "built", each.reason, reindex=due, error=error)


_LOCK = "one run at a time holds a lock of the system, which ends with its process"

__getattr__ = missing(__name__, {"single_run": _LOCK, "lock_path": _LOCK, "DFLT_STALE_LOCK_AFTER": _LOCK})

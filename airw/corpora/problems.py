"""The problems of indexed artifacts, which the settings of a corpus keep for later builds.

A build reads only the artifacts that have changed, but reports the problems of all: a link that leads out of the notes
is still there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airw._base.checks import find_text_fault
from airw._base.messages import escape_controls
from airw.protocols import Change, Config, Store, ask

PROBLEMS_SETTING = "problems"
_MOST = 100  # of one artifact
_LONGEST = 1_000  # characters


def limit_problems(reasons: Sequence[str]) -> list[str]:
    r"""Return the problems of one artifact on a line each; of very many, only the first ones.

    Example:
        >>> limit_problems(["two\nlines"]), limit_problems(["x"] * 2_000)[99:]
        (['two\\nlines'], ['x', '1900 more problems'])
    """
    more = [f"{len(reasons) - _MOST} more problems"] if len(reasons) > _MOST else []
    return [*map(_to_line, reasons[:_MOST]), *more]


def _to_line(reason: str) -> str:
    return escape_controls(reason)[:_LONGEST]


def read_problems(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the problems of all artifacts by id, from the settings of a corpus.

    A stranger may have written them: what no build can have written is left out.
    """
    entries = config.get(PROBLEMS_SETTING)
    problems: dict[str, list[str]] = {}
    for name, reasons in entries.items() if isinstance(entries, Mapping) else ():
        if isinstance(name, str) and isinstance(reasons, list) and not find_text_fault(name, allow_nul=False):
            texts = [_to_line(reason) for reason in reasons[: _MOST + 1] if isinstance(reason, str)]
            problems |= {name: texts} if texts else {}
    return problems


async def keep_problems(store: Store, problems: Mapping[str, Sequence[str]]) -> None:
    """Write the problems of some artifacts to the settings, in place of their earlier ones.

    Call it just before these artifacts are written. Then a build that is killed in between leaves nothing out, for the
    next one reads them again.

    Args:
        store: The store, locked for writing.
        problems: The problems by artifact id; an empty list forgets those of an artifact.
    """
    if not problems:
        return
    config = await ask(store, Config())
    kept = {name: list(reasons) for name, reasons in {**read_problems(config), **problems}.items() if reasons}
    if kept != config.get(PROBLEMS_SETTING, {}):
        others = {name: value for name, value in config.items() if name != PROBLEMS_SETTING}
        await store.apply(Change(config={**others, **({PROBLEMS_SETTING: kept} if kept else {})}))


async def forget_problems(store: Store, artifact_ids: Iterable[str]) -> None:
    """Remove the problems of artifacts that are gone from the settings."""
    await keep_problems(store, dict.fromkeys(artifact_ids, ()))

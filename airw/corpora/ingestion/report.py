"""What ingesting did, in numbers."""

from dataclasses import dataclass

from airw.values import ItemProblem

__all__ = ["BuildReport"]


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build, or an upsert, did.

    Args:
        added: Artifacts that were not in the corpus before.
        updated: Artifacts written again, because they or the way to index them changed.
        unchanged: Artifacts that needed nothing.
        removed: Artifacts taken out, because their source no longer has them; 0 for an upsert.
        problems: What could not be indexed, or not whole, in the order of the pages read.
        seconds: How long it took, waiting for another builder included.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    problems: tuple[ItemProblem, ...] = ()
    seconds: float = 0.0

"""Links and names as rows of tables, for every store that is a database."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from airw.values import Extraction, Link, fold_name

_MAX_TIER = 1_000  # of the names of an artifact; a larger number is damage
FOLDED_TIER = 1 << 30
"""The weakest tier: the folded names of artifacts whose names count in any case."""


class NameRow(NamedTuple):
    """The columns of the table `name`, in their order.

    Args:
        key: A name.
        tier: Its tier; smaller is stronger.
        artifact_id: The artifact that has the name.
    """

    key: str
    tier: int
    artifact_id: str


class LinkRow(NamedTuple):
    """The columns of the table `link`, in their order.

    Args:
        artifact_id: The artifact that contains the link.
        position: Its place among the links of the artifact.
        ref: The reference as written; see `Link` for this and the other fields of a link.
        type: The relation.
        origin: Where the link comes from.
        target_source: The corpus of the target, if it is another one.
        file: The file that contains the link.
        line: The line of the link.
        or_ref: The second reference.
        target: The artifact that the reference means, if it is one.
        state: A `LinkState`, or empty while it is not known.
        folded: The folded reference if it differs.
        or_folded: The folded second reference if it differs.
        weight: The weight, or `None` for 1.
    """

    artifact_id: str
    position: int
    ref: str
    type: str
    origin: str
    target_source: str | None
    file: str | None
    line: int | None
    or_ref: str | None
    target: str | None
    state: str
    folded: str | None
    or_folded: str | None
    weight: float | None


def make_name_rows(artifact_id: str, extraction: Extraction) -> set[NameRow]:
    """Return the names of an artifact; its own id has no row in the strongest tier."""
    rows = {NameRow(name, tier, artifact_id) for tier, names in enumerate(extraction.names) for name in names}
    if extraction.fold_case:
        names = {artifact_id, *(name for name, *_ in rows)}
        rows |= {NameRow(fold_name(name), FOLDED_TIER, artifact_id) for name in names}
    rows.discard(NameRow(artifact_id, 0, artifact_id))
    return rows


def make_link_rows(artifact_id: str, extraction: Extraction) -> Iterator[LinkRow]:
    """Yield the links of an artifact; those within the corpus are not resolved yet."""
    for position, link in enumerate(extraction.links):
        is_foreign = link.target_source is not None
        yield LinkRow(
            artifact_id,
            position,
            link.target_ref,
            link.type,
            link.origin,
            link.target_source,
            link.file,
            link.line,
            link.or_ref,
            None,
            "foreign" if is_foreign else "",
            None if is_foreign else fold_differing(link.target_ref),
            None if is_foreign or link.or_ref is None else fold_differing(link.or_ref),
            None if link.weight == 1 else link.weight,
        )


def make_extraction(artifact_id: str, links: Sequence[Link], names: Iterable[tuple[str, int]]) -> Extraction:
    """Return the links and names of an artifact from its rows.

    Args:
        artifact_id: The artifact.
        links: Its links, in their order.
        names: Its names with their tiers.

    Raises:
        ValueError: If a name has a tier that no extractor makes.
    """
    tiers: dict[int, list[str]] = {}
    for key, tier in sorted(names):
        if (key, tier) != (artifact_id, 0):
            tiers.setdefault(tier, []).append(key)
    # The folded names follow from the others.
    fold_case = tiers.pop(FOLDED_TIER, None) is not None
    if max(tiers, default=0) > _MAX_TIER:
        raise ValueError(f"a name has the tier {max(tiers)}")
    return Extraction(links, [tiers.get(tier, []) for tier in range(max(tiers, default=-1) + 1)], fold_case=fold_case)


def fold_differing(ref: str) -> str | None:
    """Return the folded reference, or `None` if it is the same.

    Example:
        >>> fold_differing("Keys.md"), fold_differing("keys.md")
        ('keys.md', None)
    """
    folded = fold_name(ref)
    return folded if folded != ref else None

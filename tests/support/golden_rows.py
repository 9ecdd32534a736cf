"""Rows of golden files: hits, walks and errors as plain JSON, without what varies."""

import hashlib
import warnings

import airw
from airw import policies


def source_and_id(hit):
    """Return the id of a hit, its surface, and its corpus if there are several."""
    return f"{hit.artifact_id} {hit.surface_kind}.{hit.surface_index}"


def ranking_row(hits, *fields, most=10):
    """Return the first hits, with scores and some fields, and a digest of all ids."""
    first = [[source_and_id(hit), hit.score, *(hit.metadata.get(name) for name in fields)] for hit in hits[:most]]
    if len(hits) <= most:
        return first
    return {"first": first, "count": len(hits), "ids": digest([source_and_id(hit) for hit in hits])}


def digest(value):
    """Return a short digest of a text or of a list of texts."""
    text = value if isinstance(value, str) else "\n".join(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def brief(text):
    """Return a text, or its beginning and digest if it is long."""
    return text if len(text) <= 60 else f"{text[:40]}… {len(text)} {digest(text)}"


async def outcome(answer):
    """Return an answer, or the type of its error, and the types of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            row = await answer
        except airw.AirwError as error:
            row = {"error": type(error).__name__}
    names = sorted({warning.category.__name__ for warning in caught})
    return {"row": row, "warns": names} if names else row


def present(values):
    """Return a mapping without its empty values."""
    return {name: value for name, value in values.items() if value not in (None, 0, "", [], {}, ())}


def make(policy, options):
    """Return a policy of the library from its name and options."""
    scope = {"scope": policies.Scope(**options["scope"])} if "scope" in options else {}
    return getattr(policies, policy)(**{**options, **scope})


def id_text(node):
    """Return the id of a node, with its corpus if it has one."""
    return ":".join(node) if isinstance(node, tuple) else str(node)


def steps_of(walk, hits):
    """Return hits as the path that led to them, the type of the last edge, and the score."""
    return [[" > ".join(map(id_text, walk.path(hit))), hit.metadata.get("walk_edge"), hit.score] for hit in hits]


def first_of(row, most):
    """Return a long row as its beginning, its length and a digest."""
    return row if len(row) <= most else [*row[:most], f"… {len(row)}", digest([step[0] for step in row])]


def summary_of(walk):
    """Return the summary of an ended walk, without time and what is empty."""
    values = {**walk.summary.to_dict(), "seconds": 0, "truncated": walk.summary.truncated}
    values["lost"] = [{name: lost[name] for name in ("name", "status")} for lost in values["lost"]]
    return present(values)


async def walk_row(walk):
    """Return the row of one walk; its final ranking only if it is not the order of the stream."""
    async with walk:
        hits = [hit async for hit in walk]
    ranking = [[id_text(walk.path(hit)[-1]), hit.score] for hit in walk.ranking]
    is_final = ranking == [[id_text(walk.path(hit)[-1]), hit.score] for hit in hits]
    order = "same" if is_final else first_of(ranking, 10)
    return {"hits": first_of(steps_of(walk, hits), 14), "ranking": order, "end": summary_of(walk)}


def provenance_of(hit):
    """Return what the metadata of a hit say of the walk that found it."""
    known = {"walk_depth", "walk_parent", "walk_edge", "seed"}
    added = ("path_", "ppr_", "rank_", "source_")
    return {name: value for name, value in sorted(hit.metadata.items()) if name in known or name.startswith(added)}

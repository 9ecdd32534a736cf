"""Disclosure: what a selection commits to, revealed step by step: what is known, the text itself, the files beside it.

Nothing is read from a file that does not lie below a folder the caller names: a pointer is metadata, and whoever wrote
the corpus could have written any path there.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from airw._base.checks import check_choice
from airw._base.concurrency import call_user_function, in_thread, map_bounded
from airw._base.json import deep_copy, json_clean
from airw._base.messages import error_text, short_repr
from airw.discovery._disclosed_files import UNREADABLE, Body, Bundle, read_body, read_bundle
from airw.discovery.expansion import Corpora, check_policy, passages_from
from airw.discovery.selection import Selection
from airw.errors import ArgumentError, ArgumentKindError
from airw.protocols import MaybeAwaitable, NeighborhoodPolicy
from airw.values import SearchHit

Level: TypeAlias = Literal["metadata", "body", "bundled"]

LEVELS: tuple[Level, ...] = ("metadata", "body", "bundled")
"""How much a disclosure reveals; each level includes the ones before."""

Loader: TypeAlias = Callable[[dict[str, Any]], MaybeAwaitable[str | None]]
"""Gives the body of a hit from its metadata, or `None`."""

_MAX_CONCURRENCY = 16
_NO_PASSAGE: list[tuple[str | None, str | None]] = [(None, None)]


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What is revealed of one chosen hit.

    Args:
        artifact_id: Its artifact.
        level: How much was asked for: `"metadata"`, `"body"` or `"bundled"`.
        name: What to call it: the `name` of its metadata, else its artifact id.
        score: Its score.
        summary: The text that matched.
        body: The text of the artifact itself.
        pointer: Where the artifact's own file or folder is.
        metadata: A copy of the hit's, with a note `disclosure` where the body or the bundle is not whole, and a note
            `expansion` where a passage was asked for and there is none.
        source: The corpus it came from, where known.
        passage: The text around what matched.
        truncated: True where the body was cut.
        bundle: The files beside the body, relative to their folder.

    Example:
        >>> Disclosure("loaf.md", "metadata", "Loaf", 0.5, "bake a loaf").body is None
        True
    """

    artifact_id: str
    level: Level
    name: str
    score: float
    summary: str
    body: str | None = None
    pointer: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    passage: str | None = None
    truncated: bool = False
    bundle: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the twelve fields as JSON-clean values."""
        return {each.name: json_clean(getattr(self, each.name)) for each in fields(self)}


async def disclose(
    selection: Selection,
    *,
    level: Level = "body",
    loader: Loader | None = None,
    store: Mapping[str, Any] | None = None,
    expand: NeighborhoodPolicy | None = None,
    corpus: Corpora | None = None,
    roots: Sequence[str | os.PathLike[str]] = (),
) -> list[Disclosure]:
    """Reveal what a selection chose, one disclosure a hit, in its order; the selection stays as it is.

    ```text
    level       reveals
    metadata    what the hit itself says; nothing is read
    body        also the text that its pointer names, the metadata's skill_path or path
    bundled     also the other files, where that is a folder or a SKILL.md: POSIX paths relative to the folder, sorted,
                the first 1,000; without links and hidden files
    ```

    A body comes from `loader`, else from `store`, else from the file itself: the UTF-8 text below one of the `roots`,
    links resolved, of a folder its README.md, .rst or .txt; cut at 20,000 characters. A bundle is read below `roots`
    whatever gave the body, and is empty without them. What is missing fails no other hit: `metadata["disclosure"]`
    then says `pointer_outside_roots`, `pointer_unreadable` (not there, no file, or nothing was loaded),
    `pointer_not_text`, `truncated`, `bundle_truncated`, `loader_failed: ...` or `store_failed: ...`.

    With `expand`, each hit gets the passage around it, from the records of the corpus it came from, whatever the
    level; where it gets none, `metadata["expansion"]` says `no_corpus_for_source`, `no_ledger_entry` or
    `seed_not_found`.

    Args:
        selection: What `select` gave.
        level: How much to reveal.
        loader: Gives a body from the hit's metadata, a copy of them; async, or called in a worker thread.
        store: Gives a body by its pointer; asked in a worker thread.
        expand: Chooses the records of a passage, as in `expand`; needs `corpus`.
        corpus: Where to find them: an open corpus, a name or a path; several as a list, or by the source of the hits.
        roots: The folders below which files may be read. A pointer that is not absolute counts from the working folder.

    Raises:
        ArgumentError: A parameter cannot be used, one of two that belong together is missing, or there is a pointer to
            read and neither `roots` nor `loader` nor `store`.
        CorpusNotFound: There is no corpus of a name or path.

    Example:
        >>> import anyio
        >>> from airw.discovery.selection import select
        >>> chosen = select([SearchHit("loaf.md", "description", 0.9, "bake a loaf", {"path": "/notes/loaf.md"})])
        >>> async def main():
        ...     return await disclose(chosen, store={"/notes/loaf.md": "Knead, rest, bake."})
        >>> [(each.summary, each.body) for each in anyio.run(main)]
        [('bake a loaf', 'Knead, rest, bake.')]
    """
    if not isinstance(selection, Selection):
        raise ArgumentKindError(f"selection must be what `select` gives, not {short_repr(selection)}")
    check_choice("level", level, LEVELS)
    check_loading(loader, store)
    if (expand is None) != (corpus is None):
        given, missing = ("corpus", "expand") if expand is None else ("expand", "corpus")
        raise ArgumentError(f"{given}= needs {missing}=: a passage takes both, which records and where from")
    if expand is not None:
        check_policy(expand)
    hits, below = selection.selected, _check_roots(roots)
    found = await _payloads(hits, level, loader, store, below)
    passages = (
        _NO_PASSAGE * len(hits) if corpus is None or expand is None else await passages_from(corpus, hits, expand)
    )
    return [_disclosure(level, *parts) for parts in zip(hits, found, passages, strict=True)]


@dataclass(frozen=True, slots=True)
class _Payload:
    """What is read of one hit."""

    body: Body = field(default_factory=Body)
    bundle: Bundle = field(default_factory=Bundle)


async def _payloads(
    hits: Sequence[SearchHit],
    level: Level,
    loader: Loader | None,
    store: Mapping[str, Any] | None,
    roots: Sequence[str | os.PathLike[str]],
) -> list[_Payload]:
    """Fetch body and bundle of each hit, several at once."""
    if level == "metadata":
        return [_Payload()] * len(hits)
    if loader is None and store is None and not roots:
        _check_nothing_to_read(hits)
    below = await in_thread(_resolved, roots)

    async def payload(hit: SearchHit) -> _Payload:
        pointer = _pointer(hit)
        if loader is not None:
            body = await _loaded(
                "loader", loader, {key: deep_copy(value) for key, value in hit.metadata.items()}, pointer
            )
        elif pointer is None:
            return _Payload()
        elif store is not None:
            body = await _loaded("store", store.get, pointer, pointer)
        else:
            body = await in_thread(read_body, pointer, below)
        if level == "body" or pointer is None or not below:
            return _Payload(body)
        return _Payload(body, await in_thread(read_bundle, pointer, below))

    return await map_bounded(payload, hits, limit=_MAX_CONCURRENCY)


async def _loaded(name: str, load: Callable[[Any], Any], asked: object, pointer: str | None) -> Body:
    """Ask a loader or a store, neither of which is ours: whatever goes wrong is a note."""
    try:
        text = await call_user_function(load, asked)
    except Exception as error:  # noqa: BLE001 - it must not take the other hits with it
        return Body(note=f"{name}_failed: {error_text(error).removesuffix(':')}")
    if text is None:
        return Body(note=None if pointer is None else UNREADABLE)
    return Body(text) if isinstance(text, str) else Body(note=f"{name}_failed: gave {type(text).__name__}, not text")


def _disclosure(level: Level, hit: SearchHit, payload: _Payload, passage: tuple[str | None, str | None]) -> Disclosure:
    metadata = {key: deep_copy(value) for key, value in hit.metadata.items()}
    notes = {"disclosure": payload.body.note or payload.bundle.note, "expansion": passage[1]}
    return Disclosure(
        artifact_id=hit.artifact_id,
        level=level,
        name=str(metadata.get("name") or hit.artifact_id),
        score=float(hit.score),
        summary=hit.text,
        body=payload.body.text,
        pointer=_pointer(hit),
        metadata=metadata | {key: note for key, note in notes.items() if note is not None},
        source=hit.source,
        passage=passage[0],
        truncated=payload.body.truncated,
        bundle=payload.bundle.files,
    )


def _pointer(hit: SearchHit) -> str | None:
    """Give the pointer of a hit where it is one that can be followed."""
    named = (hit.metadata.get(key) for key in ("skill_path", "path"))
    return next((value for value in named if isinstance(value, str) and value), None)


def check_loading(loader: object, store: object) -> None:
    """Refuse a loader or a store of bodies that is none, and both at once.

    Raises:
        ArgumentError: It is so.
    """
    if loader is not None and store is not None:
        raise ArgumentError("loader and store cannot both give the bodies: pass one of them")
    if loader is not None and not callable(loader):
        raise ArgumentKindError(f"loader must be a function of a hit's metadata, not {short_repr(loader)}")
    if store is not None and not isinstance(store, Mapping):
        raise ArgumentKindError(f"store must be a mapping from pointer to text, not {short_repr(store)}")


def _check_roots(roots: object) -> tuple[str | os.PathLike[str], ...]:
    """Give the roots where they are a list of folders; an empty string would be the working folder."""
    if isinstance(roots, Iterable) and not isinstance(roots, str | bytes | os.PathLike):
        folders = tuple(roots)
        if all(isinstance(folder, str | os.PathLike) and folder != "" for folder in folders):
            return folders
    hint = f"; one is [{short_repr(roots)}]" if isinstance(roots, str | os.PathLike) else ""
    raise ArgumentKindError(f"roots must be a list of folders, not {short_repr(roots)}{hint}")


def _resolved(roots: Sequence[str | os.PathLike[str]]) -> list[Path]:
    try:
        return [Path(root).resolve() for root in roots]
    except (OSError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"roots holds what is no folder: {error}") from error


def _check_nothing_to_read(hits: Sequence[SearchHit]) -> None:
    for pointer in filter(None, map(_pointer, hits)):
        advice = "pass roots=[...], the folders below which files may be read, or a loader, or a store"
        raise ArgumentError(f"the text of {short_repr(pointer)} may not be read: {advice}")

"""Disclosure of selected hits in three levels: metadata, body, and the files beside it.

Files are only read below folders that the caller names. A pointer is metadata, so the author of a corpus can write any
path into it.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from airw._base.checks import check_choice
from airw._base.concurrency import call_user_function, in_thread, map_bounded
from airw._base.json import deep_copy, json_clean
from airw._base.messages import error_text, short_repr
from airw.discovery._disclosed_files import UNREADABLE, Contents, read_body, read_bundle
from airw.discovery.expansion import Corpora, check_policy, passages_from
from airw.discovery.open_folders import OpenFolder
from airw.discovery.selection import Selection
from airw.errors import ArgumentError, ArgumentKindError
from airw.protocols import MaybeAwaitable, NeighborhoodPolicy
from airw.values import SearchHit, check_hit
from airw.values.hits import POINTERS, with_facts

Level: TypeAlias = Literal["metadata", "body", "bundled"]

LEVELS: tuple[Level, ...] = ("metadata", "body", "bundled")
"""The levels of a disclosure; each level includes the previous ones."""

Loader: TypeAlias = Callable[[dict[str, Any]], MaybeAwaitable[str | None]]
"""A function that returns the body of a hit from its metadata, or `None`."""

_MAX_CONCURRENCY = 16  # hits read at once
_NO_PASSAGE: list[tuple[str | None, str | None]] = [(None, None)]


@dataclass(frozen=True, slots=True)
class Disclosure:
    """The disclosed contents of one selected hit.

    Args:
        artifact_id: The id of the artifact.
        level: The requested level: `"metadata"`, `"body"` or `"bundled"`.
        name: The `name` in the metadata, or the artifact id.
        score: The score of the hit.
        summary: The text that matched.
        body: The text of the artifact itself.
        pointer: The path of the artifact's file or folder.
        metadata: A copy of the hit's metadata. If the body or the bundle is missing or incomplete, `disclosure` is
            added with the reason. If a requested passage is missing, `expansion` is added with the reason.
        source: The corpus of the hit, if it has one.
        passage: The text around the match.
        truncated: True if the body was cut.
        bundle: The paths of the files beside the body, relative to their folder.

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
        """Return all fields as JSON values."""
        return {item.name: json_clean(getattr(self, item.name)) for item in fields(self)}


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
    """Disclose the selected hits at a level, without changing the selection.

    The levels, each with all of the previous ones:

    - `metadata`: the contents of the hit itself; nothing is read.
    - `body`: the text of the file that the pointer names. The pointer is the first of
      `airw_path`, `skill_path` and `path` in the metadata that is a text.
    - `bundled`: the paths of the other files, if the pointer names a folder or a `SKILL.md`. They are POSIX paths
      relative to the folder, sorted, the first 1,000 without links and hidden files.

    A body comes from `loader`, or from `store`, or from the file itself. A file must be UTF-8 text below one of the
    `roots`, after links are resolved; for a folder it is its README.md, .rst or .txt. Its text is cut at 20,000
    characters. A bundle is always read below `roots`, and is empty without them.

    If something is missing, the other hits are not affected. The reason is in `metadata["disclosure"]`:
    `pointer_outside_roots`, `pointer_unreadable` (there is no such file, or nothing was loaded), `pointer_not_text`,
    `truncated`, `bundle_truncated`, `loader_failed: ...` or `store_failed: ...`.

    With `expand`, each hit also gets the passage around it, at every level. The passage comes from the records of the
    hit's corpus. If there is none, the reason is in `metadata["expansion"]`: `no_corpus_for_source`, `no_ledger_entry`
    or `seed_not_found`.

    Args:
        selection: The result of `select`.
        level: The level.
        loader: A function that returns a body from a copy of the hit's metadata. It may be async; if it is sync, it is
            called in a worker thread.
        store: A mapping of bodies by pointer; it is read in a worker thread.
        expand: The policy that chooses the records of a passage, as in `airw.expand`; it needs `corpus`.
        corpus: The corpus of the records: open, or a name or a path; several as a list, or by the source of the hits.
        roots: The folders whose files may be read. A relative pointer starts at the working folder.

    Returns:
        One disclosure a hit, in the order of the selection.

    Raises:
        ArgumentError: If a value cannot be used, only one of `expand` and `corpus` is passed, or there is a pointer to
            read but neither `roots` nor `loader` nor `store`.
        CorpusNotFound: If there is no corpus of a name or path.

    Example:
        >>> import anyio
        >>> from airw.discovery.selection import select
        >>> selection = select([SearchHit("loaf.md", "description", 0.9, "bake a loaf", {"path": "/notes/loaf.md"})])
        >>> async def main():
        ...     return await disclose(selection, store={"/notes/loaf.md": "Knead, rest, bake."})
        >>> [(disclosure.summary, disclosure.body) for disclosure in anyio.run(main)]
        [('bake a loaf', 'Knead, rest, bake.')]
    """
    if not isinstance(selection, Selection):
        raise ArgumentKindError(f"selection must be a Selection, as `select` returns it, not {short_repr(selection)}")
    check_choice("level", level, LEVELS)
    check_loading(loader, store)
    if (expand is None) != (corpus is None):
        present, missing = ("corpus", "expand") if expand is None else ("expand", "corpus")
        raise ArgumentError(f"{present} needs {missing}: a passage takes a policy and the corpus with the records")
    if expand is not None:
        check_policy("expand", expand)
    hits = [check_hit(hit) for hit in selection.selected]
    contents = await _read_contents(hits, level, loader, store, _check_roots(roots))
    if corpus is None or expand is None:
        passages = _NO_PASSAGE * len(hits)
    else:
        passages = await passages_from(corpus, hits, expand)
    return [_to_disclosure(level, *parts) for parts in zip(hits, contents, passages, strict=True)]


async def _read_contents(
    hits: Sequence[SearchHit],
    level: Level,
    loader: Loader | None,
    store: Mapping[str, Any] | None,
    roots: Sequence[str | os.PathLike[str]],
) -> list[Contents]:
    """Read body and bundle of each hit, several hits at once."""
    if level == "metadata":
        return [Contents()] * len(hits)
    if loader is None and store is None and not roots:
        _check_nothing_to_read(hits)
    folders = await in_thread(_resolve_roots, roots)

    async def read(hit: SearchHit) -> Contents:
        pointer = _pointer(hit)
        if loader is not None:
            # A copy: the loader must not change the metadata of the hit.
            metadata = {key: deep_copy(value) for key, value in hit.metadata.items()}
            body = await _load_body("loader", loader, metadata, pointer)
        elif pointer is None:
            return Contents()
        elif store is not None:
            body = await _load_body("store", store.get, pointer, pointer)
        else:
            body = await in_thread(read_body, pointer, folders)
        if level == "body" or pointer is None or not folders:
            return body
        bundle = await in_thread(read_bundle, pointer, folders)
        return replace(body, files=bundle.files, note=body.note or bundle.note)

    return await map_bounded(read, hits, limit=_MAX_CONCURRENCY)


async def _load_body(parameter: str, load: Callable[[Any], Any], argument: object, pointer: str | None) -> Contents:
    """Call the user's loader or store; an error becomes a note."""
    try:
        text = await call_user_function(load, argument)
    except Exception as error:  # noqa: BLE001 - the other hits must not fail with it
        return Contents(note=f"{parameter}_failed: {error_text(error).removesuffix(':')}")
    if text is None:
        return Contents(note=None if pointer is None else UNREADABLE)
    if isinstance(text, str):
        return Contents(text)
    return Contents(note=f"{parameter}_failed: returned {type(text).__name__}, not text")


def _to_disclosure(
    level: Level, hit: SearchHit, contents: Contents, passage: tuple[str | None, str | None]
) -> Disclosure:
    metadata = {key: deep_copy(value) for key, value in hit.metadata.items()}
    notes = {"disclosure": contents.note, "expansion": passage[1]}
    return Disclosure(
        artifact_id=hit.artifact_id,
        level=level,
        name=str(metadata.get("name") or hit.artifact_id),
        score=float(hit.score),
        summary=hit.text,
        body=contents.text,
        pointer=_pointer(hit),
        metadata=with_facts(metadata, {key: note for key, note in notes.items() if note is not None}),
        source=hit.source,
        passage=passage[0],
        truncated=contents.truncated,
        bundle=contents.files,
    )


def _pointer(hit: SearchHit) -> str | None:
    """Return the pointer of a hit if it is a usable string."""
    values = (hit.metadata.get(key) for key in POINTERS)
    return next((value for value in values if isinstance(value, str) and value), None)


def check_loading(loader: object, store: object) -> None:
    """Check the loader and the store of bodies.

    Raises:
        ArgumentError: If one of them cannot be used, or both are passed.
    """
    if loader is not None and store is not None:
        raise ArgumentError("loader and store cannot be combined: pass one of them")
    if loader is not None and not callable(loader):
        raise ArgumentKindError(f"loader must be a function of a hit's metadata, not {short_repr(loader)}")
    if store is not None and not isinstance(store, Mapping):
        raise ArgumentKindError(f"store must be a mapping from pointer to text, not {short_repr(store)}")


def _check_roots(roots: object) -> tuple[str | os.PathLike[str], ...]:
    """Return the roots as a tuple; refuse an empty string, which would be the working folder."""
    if isinstance(roots, Iterable) and not isinstance(roots, str | bytes | os.PathLike):
        folders = tuple(roots)
        if all(isinstance(folder, str | os.PathLike) and folder != "" for folder in folders):
            return folders
    hint = f"; one is [{short_repr(roots)}]" if isinstance(roots, str | os.PathLike) else ""
    raise ArgumentKindError(f"roots must be a list of folders, not {short_repr(roots)}{hint}")


def _resolve_roots(roots: Sequence[str | os.PathLike[str]]) -> list[OpenFolder]:
    try:
        return [(root if isinstance(root, OpenFolder) else OpenFolder(Path(root))).resolve() for root in roots]
    except (OSError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"roots contains an entry that is not a folder: {error}") from error


def _check_nothing_to_read(hits: Sequence[SearchHit]) -> None:
    for pointer in filter(None, map(_pointer, hits)):
        advice = "pass roots=[...], the folders whose files may be read, or a loader, or a store"
        raise ArgumentError(f"disclose may not read {short_repr(pointer)}: {advice}")

"""What a discovery returns: hits, disclosed in three levels, and the events before.

The levels are metadata, body, and the files beside it.

Files are only read below folders that the caller names. A pointer is metadata, so the author of a corpus can write any
path into it.
"""

import os
import stat
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from airw._base.checks import check_choice, check_items, check_kind, find_text_fault
from airw._base.concurrency import call_user_function, in_thread, map_bounded
from airw._base.json import deep_copy, fields_to_json
from airw._base.messages import error_text, short_repr
from airw.discovery.expansion import FUNCTION_OF_RECORDS, Corpora, passages_from
from airw.discovery.selection import REASONS, Selection
from airw.errors import ArgumentError
from airw.protocols import MaybeAwaitable, NeighborhoodPolicy
from airw.values import SearchHit, check_hit
from airw.values.hits import POINTERS, get_fact, with_facts

Level: TypeAlias = Literal["metadata", "body", "bundled"]

LEVELS: tuple[Level, ...] = get_args(Level)
"""The levels of a disclosure; each level includes the previous ones."""

Loader: TypeAlias = Callable[[dict[str, Any]], MaybeAwaitable[str | None]]
"""A function that returns the body of a hit from its metadata, or `None`."""

_MAX_CONCURRENCY = 16  # hits read at once
_MAX_CHARS = 20_000
_MAX_FILES = 1_000
# Enough bytes to find out that a text is too long: a character takes up to 4 bytes, a byte order mark 3.
_MAX_BYTES = 4 * (_MAX_CHARS + 1) + 3
# A pipe without a writer must not block, and a link that replaces the file after the check must not be followed.
_OPEN_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)

_OUTSIDE = "pointer_outside_roots"
_UNREADABLE = "pointer_unreadable"
_TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """A folder whose files may be read, except some; it may be one of `roots`.

    Args:
        path: The folder.
        hidden: Whether files may be read whose name, or that of a folder between, begins with a dot.
        is_open: Returns whether a file or a folder below it may be read, from its path, after links are resolved.
    """

    path: Path
    hidden: bool = True
    is_open: Callable[[Path], bool] = lambda _: True

    def __fspath__(self) -> str:
        return str(self.path)

    def resolve(self) -> "OpenFolder":
        """Return the folder without links."""
        return replace(self, path=self.path.resolve())

    def contains(self, path: Path) -> bool:
        """Return whether a path without links may be read."""
        if not path.is_relative_to(self.path):
            return False
        names = path.relative_to(self.path).parts
        return (self.hidden or not any(name.startswith(".") for name in names)) and self.is_open(path)


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
        return fields_to_json(self)


@dataclass(frozen=True, slots=True)
class SourceAnswered:
    """The event that a source of a discovery has answered, failed or run out of time.

    Args:
        source: The name of the source.
        report: Its `status`, `error`, `seconds`, `n_retrieved`, `top_score`, `floor`, `floor_kind`, `abstained`, and
            `reason`, which is why it abstained. The status is `"ok"`, `"failed"` or `"timeout"`. A walk that was cut by
            its deadline has the status `"timeout"` and its hits so far.
        hits: The ranking of the source, with its raw scores.
        ranking: The fused ranking of all sources that have answered, best first, at most `k` hits. If `rank_final` in
            the metadata of a hit is true, no pending source can change its place any more.
        pending: The names of the sources that have not answered yet, in the caller's order.
    """

    source: str
    report: Mapping[str, Any]
    hits: tuple[SearchHit, ...]
    ranking: tuple[SearchHit, ...]
    pending: tuple[str, ...]

    @property
    def final(self) -> tuple[SearchHit, ...]:
        """Return the hits of the ranking whose places are final."""
        return tuple(hit for hit in self.ranking if get_fact(hit.metadata, "rank_final"))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return fields_to_json(self)


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The result of a discovery: the few selected hits, or the reason why there are none.

    Args:
        query: The original query.
        mode: The mode of the search; `"walk"` if the corpora were walked.
        strategy: The name of the selection strategy; `"custom"` for a function.
        disclose_level: The level at which the results are disclosed.
        results: The disclosures of the selected hits, best first.
        abstained: True if nothing was selected.
        reason: The rule that ended the selection, such as `"rel_threshold"`, or `"abstain:…"`.
        n_retrieved: The number of candidates of all sources.
        signals: The numbers behind the decision; for several corpora also `merge`, `sources` and `per_source`.
    """

    query: str
    mode: str
    strategy: str
    disclose_level: str
    results: Sequence[Disclosure]
    abstained: bool
    reason: str
    n_retrieved: int
    signals: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        """Return the ids of the selected artifacts, best first."""
        return [result.artifact_id for result in self.results]

    @property
    def explanation(self) -> str:
        """Return what the reason means, in words; the reason itself if it is not one of `REASONS`."""
        return REASONS.get(self.reason, self.reason)

    @property
    def missing(self) -> dict[str, str]:
        """Return the sources that failed or were late, by name, each with the error.

        A walk that was cut by its deadline is late, though its hits so far take part.
        """
        reports = self.signals.get("per_source", {})
        return {name: report["error"] for name, report in reports.items() if report["status"] != "ok"}

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, `n_selected`, `explanation` and `missing` as JSON values."""
        told = fields_to_json(self)
        signals = told.pop("signals")
        missing = [{"source": name, "error": error} for name, error in self.missing.items()]
        more = {"n_selected": len(self.results), "explanation": self.explanation, "missing": missing}
        return {**told, **more, "signals": signals}


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
    check_kind("selection", selection, Selection, "be a Selection, as `select` returns it")
    check_choice("level", level, LEVELS)
    check_loading(loader, store)
    if (expand is None) != (corpus is None):
        present, missing = ("corpus", "expand") if expand is None else ("expand", "corpus")
        raise ArgumentError(f"{present} needs {missing}: a passage takes a policy and the corpus with the records")
    check_kind("expand", expand, Callable | None, FUNCTION_OF_RECORDS)
    folders = check_items("roots", roots, str | os.PathLike, "folders")
    if "" in folders:
        raise ArgumentError("roots must contain folders, not ''; the working folder is '.'")
    hits = [check_hit(hit) for hit in selection.selected]
    contents = await _read_contents(hits, level, loader, store, folders)
    passages: list[tuple[str | None, str | None]] = [(None, None)] * len(hits)
    if corpus is not None and expand is not None:
        passages = await passages_from(corpus, hits, expand)
    disclosures = []
    for hit, (body, note, bundle), (passage, gap) in zip(hits, contents, passages, strict=True):
        notes = {"disclosure": note, "expansion": gap}
        disclosure = Disclosure(
            artifact_id=hit.artifact_id,
            level=level,
            name=str(hit.metadata.get("name") or hit.artifact_id),
            score=float(hit.score),
            summary=hit.text,
            body=body,
            pointer=_pointer(hit),
            metadata=with_facts(deep_copy(dict(hit.metadata)), {key: text for key, text in notes.items() if text}),
            source=hit.source,
            passage=passage,
            truncated=note == _TRUNCATED,
            bundle=bundle,
        )
        disclosures.append(disclosure)
    return disclosures


async def _read_contents(
    hits: Sequence[SearchHit],
    level: Level,
    loader: Loader | None,
    store: Mapping[str, Any] | None,
    roots: Sequence[str | os.PathLike[str]],
) -> list[tuple[str | None, str | None, tuple[str, ...]]]:
    """Return the body of each hit, the reason if something is missing or cut, and the bundle."""
    if level == "metadata":
        return [(None, None, ())] * len(hits)
    unread = next(filter(None, map(_pointer, hits)), None)
    if unread and loader is None and store is None and not roots:
        advice = "pass roots=[...], the folders whose files may be read, or a loader, or a store"
        raise ArgumentError(f"disclose may not read {short_repr(unread)}: {advice}")
    folders = await in_thread(_resolve_roots, roots)

    async def read(hit: SearchHit) -> tuple[str | None, str | None, tuple[str, ...]]:
        pointer, body, note = _pointer(hit), None, None
        bundle: tuple[str, ...] = ()
        if loader is not None:
            # A copy: the loader must not change the metadata of the hit.
            body, note = await _load_body("loader", loader, deep_copy(dict(hit.metadata)))
        elif pointer and store is not None:
            body, note = await _load_body("store", store.get, pointer)
        elif pointer:
            body, note = await in_thread(_read_body, pointer, folders)
        if pointer and body is None:
            note = note or _UNREADABLE
        if pointer and level == "bundled" and folders:
            bundle, lack = await in_thread(_list_bundle, pointer, folders)
            note = note or lack
        return body, note, bundle

    return await map_bounded(read, hits, limit=_MAX_CONCURRENCY)


async def _load_body(parameter: str, load: Callable[[Any], Any], argument: object) -> tuple[str | None, str | None]:
    """Return what the user's loader or store returns; an error becomes a note."""
    try:
        body = await call_user_function(load, argument)
    except Exception as error:  # noqa: BLE001 - the other hits must not fail with it
        return None, f"{parameter}_failed: {error_text(error).removesuffix(':')}"
    if body is None or isinstance(body, str):
        return body, None
    return None, f"{parameter}_failed: returned {type(body).__name__}, not text"


def _pointer(hit: SearchHit) -> str | None:
    """Return the pointer of a hit if it is a usable string."""
    values = map(hit.metadata.get, POINTERS)
    return next((value for value in values if isinstance(value, str) and value), None)


def check_loading(loader: object, store: object) -> None:
    """Check the loader and the store of bodies.

    Raises:
        ArgumentError: If one of them cannot be used, or both are passed.
    """
    if loader is not None and store is not None:
        raise ArgumentError("loader and store cannot be combined: pass one of them")
    check_kind("loader", loader, Callable | None, "be a function of a hit's metadata")
    check_kind("store", store, Mapping | None, "be a mapping from pointer to text")


def _resolve_roots(roots: Sequence[str | os.PathLike[str]]) -> list[OpenFolder]:
    try:
        return [(root if isinstance(root, OpenFolder) else OpenFolder(Path(root))).resolve() for root in roots]
    except (OSError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"roots contains an entry that is not a folder: {error}") from error


def _may_read(path: Path, roots: Sequence[OpenFolder]) -> bool:
    return any(root.contains(path) for root in roots)


def _read_body(pointer: str, roots: Sequence[OpenFolder]) -> tuple[str | None, str | None]:
    """Return the text at a pointer, and a note if it is not all of it.

    The pointer is that of a file, or of a folder with a README. It must be below one of the roots, which are resolved
    already.
    """
    try:
        path = Path(pointer).resolve()
        if _may_read(path, roots) and path.is_dir():
            # The README may be a link that leads out of the roots, so it is resolved and checked too.
            path = _readme(path).resolve()
        if not _may_read(path, roots):
            return None, _OUTSIDE
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _OPEN_FLAGS)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None, None
            data = file.read(_MAX_BYTES)
        # The last character may be cut in the middle; only a file that ends here must end well.
        text = getincrementaldecoder("utf-8-sig")().decode(data, final=len(data) < _MAX_BYTES)
        if "\0" in text:  # binary, or text in UTF-16
            return None, "pointer_not_text"
    except UnicodeDecodeError:
        return None, "pointer_not_text"
    except (OSError, ValueError, RuntimeError):  # a NUL in the pointer is a ValueError, a loop of links a RuntimeError
        return None, None
    return text[:_MAX_CHARS], _TRUNCATED if len(text) > _MAX_CHARS else None


def _list_bundle(pointer: str, roots: Sequence[OpenFolder]) -> tuple[tuple[str, ...], str | None]:
    """Return the files beside a body, and a note if they are not all of them.

    The body is a SKILL.md, or the README of a folder. The folder must be below one of the roots, which are resolved
    already.
    """
    try:
        path = Path(pointer).resolve()
        if not _may_read(path, roots):
            return (), _OUTSIDE
        if path.is_dir():
            folder, body_name = path, _readme(path).name
        elif path.name == "SKILL.md" and _may_read(path.parent, roots):
            folder, body_name = path.parent, path.name
        else:
            return (), None
        others = (name for name in _walk_files(folder, roots) if name != body_name)
        # One more than is returned, to find out whether there are more.
        files = tuple(islice(others, _MAX_FILES + 1))
    except (OSError, ValueError, RuntimeError):
        return (), _UNREADABLE
    return files[:_MAX_FILES], "bundle_truncated" if len(files) > _MAX_FILES else None


def _readme(folder: Path) -> Path:
    """Return the README of a folder; a missing path if it has none."""
    candidates = [folder / f"README.{ending}" for ending in ("md", "rst", "txt")]
    return next(filter(Path.is_file, candidates), candidates[0])


def _walk_files(folder: Path, roots: Sequence[OpenFolder]) -> Iterator[str]:
    """Yield the sorted relative POSIX paths of files, without links and hidden files.

    What may not be read is left out.

    A folder is listed only when the caller gets there, so folders behind the last used path cost nothing.
    """
    stack = _list_folder(folder, "")
    while stack:
        name = stack.pop()
        if not _may_read(folder / name, roots):
            continue
        if not name.endswith("/"):
            yield name
            continue
        try:
            stack += _list_folder(folder, name)
        except OSError:  # a folder that may not be listed; its siblings are still listed
            continue


def _list_folder(folder: Path, subfolder: str) -> list[str]:
    """Return the entries of a subfolder in descending order.

    The caller pops from the end, so it gets the first one first. Names of folders end in `/`, so that they sort like
    the paths of their files.
    """
    names = []
    with os.scandir(folder / subfolder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or find_text_fault(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                names.append(f"{subfolder}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                names.append(f"{subfolder}{entry.name}")
    return sorted(names, reverse=True)

"""Links that lead to no artifact.

They lead to a file that is no note, out of the folder, to nothing, or to several notes.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from airw._base.concurrency import in_thread
from airw.protocols import Config, LinkCounts, Store, UnresolvedLinks, ask
from airw.values import LinkCount, NodeId, UnresolvedLink

_FILE_NAME = re.compile(r"[^/]*\.\w{1,10}|[^/]+/")
_SKIPPED_FOLDERS = ("node_modules", ".git")


async def read_unresolved(
    store: Store, ids: Sequence[NodeId] | None = None, *, limit: int | None = None
) -> list[UnresolvedLink]:
    """Return the links of artifacts, or of all, that are no edges, ordered by artifact.

    The last build has looked which of them lead to a file or a folder.
    """
    found = await ask(store, UnresolvedLinks(ids, limit=limit))
    files = await _read_files(store) if found else frozenset()
    return [replace(each, is_file=True) if each.link.target_ref in files else each for each in found]


async def count_links(store: Store) -> list[LinkCount]:
    """Return the numbers of links by type, origin and state, in that order."""
    counts = await ask(store, LinkCounts())
    if not any(count.state == "dangling" for count in counts):
        return counts
    states = Counter(
        (each.link.type, each.link.origin, each.state)
        for each in await read_unresolved(store)
        if each.state != "ambiguous"
    )
    others = [count for count in counts if count.state != "dangling"]
    return sorted([*others, *(LinkCount(*key, count) for key, count in states.items())])


async def _read_files(store: Store) -> Collection[str]:
    """Return the references that the last builds of a store found to lead to files."""
    files = (await ask(store, Config())).get("files") if "settings" in store.capabilities else None
    lists = files.values() if isinstance(files, Mapping) else ()  # a corpus file may be a stranger's
    return {ref for refs in lists if isinstance(refs, list) for ref in refs if isinstance(ref, str)}


async def find_files(store: Store, folder: str, root: str) -> list[str]:
    """Return the references of dangling links that lead to a file or a folder, sorted.

    Args:
        store: The store of the links.
        folder: The folder that contains the notes.
        root: The root of the site, as `MarkdownLinks` has it.
    """
    dangling = [each.link for each in await ask(store, UnresolvedLinks()) if not each.candidates]
    refs = {link.target_ref: link.or_ref for link in dangling if not link.target_ref.startswith("../")}
    return await in_thread(lambda: sorted(_select_files(refs, Path(folder), root))) if refs else []


def _select_files(refs: Mapping[str, str | None], folder: Path, root: str) -> Iterator[str]:
    names: set[str] | None = None
    for ref, or_ref in refs.items():
        if any(_exists(folder, path) for path in _list_paths(ref, or_ref, root)):
            yield ref
        elif or_ref is None and _FILE_NAME.fullmatch(ref):  # the name of a file or a folder, anywhere
            names = _list_names(folder) if names is None else names
            if ref.casefold() in names:
                yield ref


def _list_paths(ref: str, or_ref: str | None, root: str) -> Iterator[str]:
    """Yield the paths below the folder of the notes that a reference may mean."""
    for name in (ref, or_ref):
        if name is not None:
            yield name.removeprefix(".").lstrip("/") or "."
            if name.startswith("/") and root:
                yield name.removeprefix(root).lstrip("/") if root.startswith("/") else f"{root}{name}"


def _exists(folder: Path, path: str) -> bool:
    if ".." in path.split("/"):  # a name that a stranger wrote must not tell what is outside
        return False
    try:
        return any(os.path.lexists(folder / form) for form in (path, f"{path}.html"))
    except (OSError, ValueError):  # names that the file system does not take
        return False


def _list_names(folder: Path) -> set[str]:
    names: set[str] = set()
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        names.update(name.casefold() for name in [*files, *(f"{name}/" for name in folders)])
    return names

"""Which files of the server a client may read: those of the corpora that it may read."""

from functools import partial
from pathlib import Path

from airw._base.concurrency import in_thread, map_bounded
from airw.discovery.disclosure import OpenFolder
from airw.errors import AirwError
from airw.protocols import Config, ask
from airw.serving.service import ClientCall


async def open_roots(call: ClientCall) -> list[OpenFolder]:
    """Return the roots of the server, open to the files that the caller may read.

    An artifact is data of its author, who may write any path into it, so the rights are those for the file. A file is
    one of the corpora that were built from the deepest folder around it. If there is none, it may be one of a corpus
    of which no folder is known. Hidden files are of no corpus.
    """
    readable = set(call.caller.readable)
    owners: dict[Path, set[str]] = {}
    may_be_secret = False
    names = call.service.corpora.names
    if not readable.issuperset(names):
        found = await map_bounded(partial(_find_folders, call), names, limit=len(names))
        for name, folders in zip(names, found, strict=True):
            may_be_secret |= not folders and name not in readable
            for folder in folders:
                owners.setdefault(folder, set()).add(name)

    def is_open(path: Path) -> bool:
        deepest = next((folder for folder in (path, *path.parents) if folder in owners), None)
        return not may_be_secret if deepest is None else owners[deepest] <= readable

    return [OpenFolder(root, hidden=False, is_open=is_open) for root in call.service.roots]


async def _find_folders(call: ClientCall, name: str) -> list[Path]:
    """Return the folders and files that a corpus was built from, without links.

    There are none if they are not known.
    """
    try:
        corpus = await call.service.corpora.get(name, visible=[name])
        settings = await ask(corpus.store, Config()) if "settings" in corpus.store.capabilities else {}
    except AirwError:
        return []
    folders = [Path(origin) for origin in settings.get("origins", {}).values()]
    # A corpus of another machine knows no folder of this one.
    return await in_thread(lambda: [folder.resolve() for folder in folders if folder.is_absolute()])

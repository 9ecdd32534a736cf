"""Which embedders the settings of a corpus may name.

Whoever wrote a corpus, in a file or on a server, chose the embedder in its settings. A server there would receive the
queries, and a key. A model folder may come with the file. So both are used only if the user of this machine named them
too: in the environment, or in a build or a registration here. A name on the hub and the names of airw are always
allowed.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from airw._base.local_models import is_folder, is_hub_name
from airw._base.messages import short_repr
from airw.corpora.naming import home
from airw.embedders import is_builtin
from airw.errors import AirwError, ArgumentError, EmbedderUnavailable

ORIGINS_VARIABLE = "AIRW_ALLOWED_ORIGINS"
FOLDERS_VARIABLE = "AIRW_ALLOWED_FOLDERS"


def check_allowed(spec: str) -> None:
    """Refuse the embedder that the settings of a corpus name, unless the user named it too.

    Nothing is contacted and no model is read.

    Raises:
        EmbedderUnavailable: If it is a server or a folder that nobody allowed, or a relative folder.
        ArgumentError: If `AIRW_ALLOWED_ORIGINS` lists something else than origins, or `AIRW_ALLOWED_FOLDERS` a relative
            folder.

    Example:
        >>> check_allowed("light")
        >>> check_allowed("http://169.254.169.254/v1#m")
        Traceback (most recent call last):
            ...
        airw.errors.EmbedderUnavailable: its settings name the server 'http://169.254.169.254/v1#m', which is not \
allowed here; if you trust it, set AIRW_ALLOWED_ORIGINS=http://169.254.169.254
    """
    if is_builtin(spec):
        return
    if "://" in spec:
        _check_server(spec)
    elif is_hub_name(spec) and not is_folder(spec):
        return
    else:
        _check_folder(spec)


def is_network_path(spec: str) -> bool:
    """Return whether a path may be on another machine.

    Looking for it could send the credentials of the user there.
    """
    return spec.startswith(("//", "\\\\"))


def remember_embedder(spec: str) -> None:
    """Remember that the user of this machine has named this server or folder as an embedder.

    Other specifications need no permission and are not remembered. If the home folder cannot be written, nothing is
    remembered, and opening the corpus explains what would do.
    """
    if "://" in spec or Path(spec).is_absolute():
        file = _memory_of(spec)
        # One file for each embedder, always of the same content: two processes may write it at the same time.
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(_encode(spec))
            draft.replace(file)


def _check_server(spec: str) -> None:
    from airw._base.http import origin_of

    try:
        origin = origin_of(spec.partition("#")[0])
    except ArgumentError as error:
        raise EmbedderUnavailable(f"its settings name {short_repr(spec)}, which is not the URL of a server") from error
    if origin not in map(_origin_of_entry, _list_variable(ORIGINS_VARIABLE)) and not _is_remembered(spec):
        raise EmbedderUnavailable(
            f"its settings name the server {short_repr(spec)}, which is not allowed here; "
            f"if you trust it, set {ORIGINS_VARIABLE}={origin}"
        )


def _check_folder(spec: str) -> None:
    folder = Path(spec)
    # Any file could name a folder beside itself, so that the working folder decides which code and weights are used.
    if is_network_path(spec):
        raise EmbedderUnavailable(f"its settings name the network folder {short_repr(spec)}, which is never used")
    if not folder.is_absolute():
        raise EmbedderUnavailable(
            f"its settings name the relative model folder {short_repr(spec)}, which is never used"
        )
    listed = [Path(entry).expanduser() for entry in _list_variable(FOLDERS_VARIABLE)]
    if relative := [entry for entry in listed if not entry.is_absolute()]:
        raise ArgumentError(
            f"{FOLDERS_VARIABLE} must list whole paths such as /srv/models, separated by commas, "
            f"not {short_repr(str(relative[0]))}"
        )
    allowed = [*listed, *map(Path, filter(None, [os.environ.get("AIRW_MODEL_DIR")]))]
    try:
        # Links and `..` are followed first, so that no path below an allowed folder leads out of it.
        place = folder.resolve()
        is_allowed = any(place.is_relative_to(entry.resolve()) for entry in allowed)
    except (OSError, RuntimeError, ValueError):
        is_allowed = False
    if not is_allowed and not _is_remembered(spec):
        raise EmbedderUnavailable(
            f"its settings name the model folder {short_repr(spec)}, which is not allowed here; "
            f"if you trust it, set {FOLDERS_VARIABLE} to it or to a folder above it"
        )


def _list_variable(name: str) -> list[str]:
    """Return the entries of an environment variable, which are separated by commas."""
    return [entry.strip() for entry in os.environ.get(name, "").split(",") if entry.strip()]


def _origin_of_entry(entry: str) -> str:
    from airw._base.http import origin_of

    try:
        return origin_of(entry)
    except ArgumentError as error:
        raise ArgumentError(
            f"{ORIGINS_VARIABLE} must list origins such as http://localhost:8080, separated by commas, "
            f"not {short_repr(entry)}"
        ) from error


def _is_remembered(spec: str) -> bool:
    with suppress(OSError):
        if _memory_of(spec).read_bytes() == _encode(spec):
            return True
    from airw.corpora.registry import list_corpora

    # A registration is the word of the user too; a registry that cannot be read allows nothing.
    with suppress(AirwError):
        return any(definition.embedder == spec for definition in list_corpora().values())
    return False


def _memory_of(spec: str) -> Path:
    return home() / "embedders" / hashlib.sha256(_encode(spec)).hexdigest()[:32]


def _encode(spec: str) -> bytes:
    # A path may contain bytes that are not UTF-8; Python writes them as surrogates.
    return spec.encode("utf-8", "surrogatepass")

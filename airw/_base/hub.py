"""Models on the Hugging Face hub: their folders in its cache, and their download."""

import json
import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import anyio

from airw._base.concurrency import in_thread
from airw._base.messages import error_text
from airw.errors import AirwError

R = TypeVar("R")

PATIENCE = 5.0
"""Seconds in which the hub must answer before a download begins."""

_POLL_EVERY = 0.02  # seconds
_TRUE = {"1", "ON", "YES", "TRUE"}
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")


def find_snapshot(name: str) -> Path | None:
    """Return the folder of a model in the cache of the hub.

    It is `None` if the model is not wholly there: a download that was interrupted leaves a part of it. Nothing is
    contacted.

    Args:
        name: The name of the model: `owner/model`, or `model` for one of sentence-transformers.
    """
    for repository in _repositories(name):
        try:
            commit = (repository / "refs" / "main").read_text(encoding="ascii").strip()
            folder = repository / "snapshots" / commit
            if commit and _is_complete(folder):
                return folder
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return None


def is_offline() -> bool:
    """Return whether the environment forbids to contact the hub."""
    return any(os.environ.get(name, "").upper() in _TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


async def check_hub(label: str, name: str, *, error: type[AirwError], fix: str) -> None:
    """Check that the hub answers, before a model is downloaded.

    The libraries of the hub try for minutes, in a thread that cannot be cancelled. So this is asked first.

    Args:
        label: What needs the model, for the error.
        name: The name of the model.
        error: The type of the error.
        fix: What would do.

    Raises:
        AirwError: If the hub does not answer within 5 seconds; or if the environment forbids to contact it, and no
            part of the model is in the cache.
    """
    import httpx

    from airw._base.http.calls import load_tls, new_client

    if is_offline():
        if not await in_thread(lambda: any(repository.is_dir() for repository in _repositories(name))):
            raise error(f"{label} is not in the cache of the hub, and HF_HUB_OFFLINE forbids to download it; {fix}")
        return
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
    await in_thread(load_tls)
    try:
        with anyio.fail_after(PATIENCE):
            async with new_client(0) as client:
                # Any answer will do, also a refusal: the hub's own library explains it.
                await client.head(endpoint, timeout=PATIENCE)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as cause:
        # The hub's library may trust other certificates than httpx does by default.
        if not _is_about_certificates(cause):
            # The URL of a mirror may contain a password.
            place = re.sub("//[^/@]*@", "//", endpoint)
            reason = f"no answer within {PATIENCE:g} s" if isinstance(cause, TimeoutError) else error_text(cause)
            raise error(f"{label} cannot be downloaded: the hub {place!r} is not reached ({reason}); {fix}") from cause


async def run_abandonable(function: Callable[[], R]) -> R:
    """Return `function()`, called in a thread that a cancelled caller leaves behind.

    This is for downloads, which cannot be interrupted. Such a thread does not keep the interpreter alive.
    """
    results: list[R] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - raised in the task below
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=work, daemon=True, name="airw download").start()
    while not done.is_set():  # noqa: ASYNC110 - a plain thread cannot set an event of the event loop
        await anyio.sleep(_POLL_EVERY)
    for error in errors:
        raise error
    return results[0]


def _repositories(name: str) -> Iterator[Path]:
    """Yield the folders in which the hub's library would cache a model, the likelier first."""
    names = [name] if "/" in name else [f"sentence-transformers/{name}", name]
    for repository in names:
        yield _cache_folder() / f"models--{repository.replace('/', '--')}"


def _cache_folder() -> Path:
    """Return the folder of the cache, as the libraries of the hub find it."""
    for variable in ("SENTENCE_TRANSFORMERS_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if folder := os.environ.get(variable):
            return Path(folder).expanduser()
    if folder := os.environ.get("HF_HOME"):
        return Path(folder).expanduser() / "hub"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "huggingface" / "hub"


def _is_complete(folder: Path) -> bool:
    """Return whether a folder contains all that loading a model reads."""
    settings = folder / "modules.json"
    # A plain model of transformers has no such file, and no modules beside the model itself.
    modules = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else [{"path": "", "type": ""}]
    paths = [(folder / module["path"], module["type"].rpartition(".")[2]) for module in modules]
    # Of the modules, these two cannot be loaded without their settings; others may have none.
    has_settings = all(
        (path / "config.json").is_file() for path, kind in paths if kind in ("", "Pooling", "Transformer")
    )
    return has_settings and any(any(folder.rglob(name)) for name in _TOKENIZERS) and _has_weights(folder)


def _has_weights(folder: Path) -> bool:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return all((folder / shard).is_file() for shard in shards)
    return any(any(folder.rglob(name)) for name in ("model.safetensors", "pytorch_model.bin"))


def _is_about_certificates(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False

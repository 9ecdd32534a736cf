"""Models that sentence-transformers runs: how they are found and loaded."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, cast

from airw._base.concurrency import in_thread
from airw._base.hub import check_hub, find_snapshot, run_abandonable
from airw._base.local_models import SerialWorker, is_folder, locate_model, require_folder
from airw._base.messages import error_text, one_line
from airw.errors import AirwError

_LIBRARY = "sentence_transformers"
_FIRST_SAFE_VERSION = 6  # before it, the settings of a model folder could name code to run
_INSTALL = "pip install 'airw[sentence-transformers]'"


class HubModel:
    """The base class of what runs a model of sentence-transformers.

    It is loaded at its first use. Two with the same model from the same place are equal.

    Args:
        model: A name on the hub, or a folder.
        fix: The advice in errors.

    Raises:
        ArgumentError: If `model` is neither a name nor a path.
    """

    _NOUN: ClassVar[str]  # in messages
    _MAKER: ClassVar[str]  # the class of sentence-transformers
    _ERROR: ClassVar[type[AirwError]]
    _UNAVAILABLE: ClassVar[type[AirwError]]

    def __init__(self, model: str | os.PathLike[str], *, fix: str) -> None:
        self._name, self._folder = locate_model(model)
        self._fix = fix
        self._model: Any = None
        self._turns = SerialWorker(self._name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._folder or self._name)!r})"

    def __eq__(self, other: object) -> bool:
        """Return True for the same model from the same place; other settings do not matter."""
        if not isinstance(other, type(self)):
            return NotImplemented
        return (self._name, self._folder) == (other._name, other._folder)

    def __hash__(self) -> int:
        return hash((self._name, self._folder))

    def check_runnable(self) -> None:
        """Check that the package and the folder of the model are there, without loading them.

        Raises:
            AirwError: If one of them is missing.
        """
        if self._folder is not None:
            require_folder(self._folder, error=self._UNAVAILABLE, fix=self._fix)
        self._check_library()

    @property
    def _label(self) -> str:
        return f"the {self._NOUN} {self._name!r}"

    def _find_folder(self) -> Path | None:
        """Return the folder of the model; for one of the hub, `None` before its download."""
        return self._folder or find_snapshot(self._name)

    async def _load(self) -> None:
        """Load the model, unless it is loaded already."""
        if self._model is not None:
            return
        if await in_thread(self._find_folder) is not None:
            await self._turns.run(self._load_once)
            return
        self._check_library()
        await check_hub(self._label, self._name, error=self._UNAVAILABLE, fix=self._fix)
        library = await in_thread(self._load_library)
        # A download takes long: a cancelled caller leaves it behind.
        async with self._turns.lock:
            if self._model is None:
                await run_abandonable(partial(self._download, library))

    def _load_once(self) -> None:
        if self._model is None:
            folder = require_folder(cast("Path", self._find_folder()), error=self._UNAVAILABLE, fix=self._fix)
            library = self._load_library()
            with _without_progress_bars():
                self._keep(self._make_model(library, str(folder)))

    def _download(self, library: Any) -> None:
        # sentence-transformers itself would prefer a folder of this name in the working folder, whoever made it.
        if is_folder(self._name):
            raise self._UNAVAILABLE(
                f"{self._label} is a name on the hub, but there is a folder {self._name!r} here too; "
                f"write {f'./{self._name}'!r} for the folder, or start elsewhere"
            )
        model = self._make_model(library, self._name)
        self._check_download()
        self._keep(model)

    def _check_download(self) -> None:
        """Raise if what is in the cache of the hub now is not what was expected."""

    def _make_model(self, library: Any, source: str) -> Any:
        try:
            return getattr(library, self._MAKER)(source)
        except Exception as error:  # any error of four libraries or of the network
            raise self._UNAVAILABLE(
                f"the {self._NOUN} {source!r} cannot be loaded ({error_text(error)}); {self._fix}"
            ) from error

    def _run_model(self, model: Any, method: str, inputs: Sequence[Any], **options: object) -> Any:
        """Return what a method of the model returns; any error becomes one of `_ERROR`."""
        try:
            return getattr(model, method)(inputs, show_progress_bar=False, **options)
        except Exception as error:
            raise self._ERROR(f"{self._label} failed: {error_text(error)}") from error

    def _keep(self, model: Any) -> None:
        """Take a model that was just loaded."""
        self._model = model

    def _check_library(self) -> None:
        """Check that sentence-transformers is installed, without loading it."""
        if find_spec(_LIBRARY) is None:
            raise self._UNAVAILABLE(f"{self._label} needs sentence-transformers: {_INSTALL}; {self._fix}")

    def _load_library(self) -> Any:
        """Load sentence-transformers and return it; this takes seconds."""
        self._check_library()
        try:
            library = import_module(_LIBRARY)
        except ImportError as cause:
            raise self._UNAVAILABLE(
                f"{self._label} needs sentence-transformers ({error_text(cause)}): {_INSTALL}; {self._fix}"
            ) from cause
        version = str(getattr(library, "__version__", "0"))
        major = version.partition(".")[0]
        if not major.isdecimal() or int(major) < _FIRST_SAFE_VERSION:
            raise self._UNAVAILABLE(
                f"{self._label} needs sentence-transformers {_FIRST_SAFE_VERSION} or newer, not {one_line(version)}, "
                f"as older ones run code that a model folder names: {_INSTALL}; {self._fix}"
            )
        return library


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Keep transformers from drawing progress bars, as the terminal belongs to the program."""
    logging = import_module("transformers.utils.logging")
    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()

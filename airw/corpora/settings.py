"""The settings of a corpus, as a build writes them; no I/O."""

from collections.abc import Mapping
from typing import Any

from airw._base.checks import find_text_fault
from airw._base.messages import short_repr
from airw.errors import StoreCorrupt

_SETTING_TEXTS = ("name", "embedder", "embedder_id", "strategy_id", "extractor_id", "source")
_LONGEST_SETTING = 4096  # characters; ids and specifications are much shorter


def check_settings(name: str, config: Mapping[str, Any]) -> None:
    """Check that the settings of a corpus are such as a build writes.

    They may be damaged, or come from a stranger.

    Raises:
        StoreCorrupt: If they are not.
    """
    faults = [
        f"{field!r} is {short_repr(config[field])}"
        for field in _SETTING_TEXTS
        if field in config and not _is_setting_text(config[field])
    ]
    dim, recipes = config.get("dim"), config.get("recipes", {})
    if "embedder_id" in config:
        faults += [f"{field!r} is missing" for field in ("embedder", "dim") if field not in config]
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
            faults.append(f"'dim' is {short_repr(dim)}")
    if not isinstance(recipes, Mapping) or not all(isinstance(recipe, Mapping) for recipe in recipes.values()):
        faults.append(f"'recipes' is {short_repr(recipes)}")
    if faults:
        raise StoreCorrupt(
            f"the settings of corpus {name!r} are damaged: {faults[0]}; restore a copy of it, or remove it and "
            "build it again"
        )


def _is_setting_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_SETTING and not find_text_fault(value, allow_nul=False)

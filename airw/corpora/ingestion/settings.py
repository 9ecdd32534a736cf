"""How the artifacts of each source are made, as the settings of a corpus say it.

```text
"recipes": {source's name in lower case: {"strategy_id", "strategy", "extractor_id", "extractor"}}
```

`strategy` and `extractor` are specifications; `None` where there is none, or nothing that JSON can say.
"""

from collections.abc import Mapping
from typing import Any

from airw.corpora.ingestion.drafts import Recipe
from airw.errors import ArgumentError
from airw.indexing import strategy_from_spec, strategy_spec
from airw.links import extractor_from_spec, extractor_spec
from airw.protocols import EdgeExtractor, IndexingStrategy

__all__ = ["BY_HAND", "edge_extractor_of", "recipes_with", "strategy_of"]

BY_HAND = "upserts"
"""What errors call the source of artifacts that came from no source."""


def recipes_with(recipe: Recipe, config: Mapping[str, Any]) -> dict[str, Any]:
    """Give the recipes of a corpus's settings, with the one of this build."""
    made = {
        "strategy_id": recipe.strategy_id,
        "strategy": strategy_spec(recipe.strategy),
        "extractor_id": recipe.extractor_id,
        "extractor": extractor_spec(recipe.extractor) if recipe.extractor else None,
    }
    return {**config.get("recipes", {}), recipe.source.name.casefold(): made}


def strategy_of(source: str, config: Mapping[str, Any], own: IndexingStrategy | None) -> IndexingStrategy:
    """Give the strategy that a source's artifacts are made with: `own` where it is that one, else from the settings.

    Raises:
        ArgumentError: It is another one, and the settings cannot say which.
    """
    settings = _recipe(source, config)
    if own is not None and own.id == settings.get("strategy_id"):
        return own
    made = None if settings.get("strategy") is None else strategy_from_spec(settings["strategy"])
    # What a specification means may depend on the environment, and on the version of this library.
    if made is None or made.id != settings["strategy_id"]:
        raise ArgumentError(_unknown(config, "strategy", settings.get("strategy_id")))
    return made


def edge_extractor_of(source: str, config: Mapping[str, Any], own: EdgeExtractor | None) -> EdgeExtractor | None:
    """Give the extractor of a source's artifacts, as `strategy_of` gives the strategy; `None` where they have no links.

    Raises:
        ArgumentError: It is another one, and the settings cannot say which.
    """
    settings = _recipe(source, config)
    if not settings.get("extractor_id"):
        return None
    if own is not None and own.id == settings["extractor_id"]:
        return own
    made = None if settings.get("extractor") is None else extractor_from_spec(settings["extractor"])
    if made is None or made.id != settings["extractor_id"]:
        raise ArgumentError(_unknown(config, "edge_extractor", settings["extractor_id"]))
    return made


def _recipe(source: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the recipe of a source; of the one built last for what came from none."""
    recipes: Mapping[str, Mapping[str, Any]] = config.get("recipes", {})
    return recipes.get(source.casefold()) or recipes.get(config["source"].casefold()) or config


def _unknown(config: Mapping[str, Any], what: str, found: object) -> str:
    return (
        f"corpus {config['name']!r} was built with {what}={found}, which its settings do not make here: "
        f"open it with open_corpus({config['name']!r}, {what}=...), or build it again"
    )

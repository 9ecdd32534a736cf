"""Reading a source once before it is indexed, for an extractor of links that has to know all of it."""

from contextlib import aclosing
from dataclasses import replace

from airw._base.concurrency import in_thread
from airw.corpora.ingestion.drafts import Recipe, check_id
from airw.corpora.ingestion.pipeline import Pages
from airw.errors import SourceError
from airw.protocols import CorpusWideExtractor, Source
from airw.values import Artifact

__all__ = ["surveyed"]


async def surveyed(recipe: Recipe, source: Source, page_size: int) -> Recipe:
    """Give the recipe with an extractor that has seen all artifacts of the source, where it holds one that must.

    Problems of items are left to the build.

    Raises:
        SourceError: The source itself cannot be read.
    """
    if not isinstance(recipe.extractor, CorpusWideExtractor):
        return recipe
    survey = await in_thread(recipe.extractor.survey)
    async with aclosing(Pages(source, page_size)) as pages:
        while page := await pages.next():
            await in_thread(survey.add, [item for item in page if isinstance(item, Artifact) and _is_sound(item)])
    return replace(recipe, extractor=await in_thread(survey.extractor))


def _is_sound(artifact: Artifact) -> bool:
    try:
        return check_id(artifact) != ""
    except SourceError:
        return False

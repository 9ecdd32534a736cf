"""What a diagnosis says about the links of a set, and what the links add."""

from collections.abc import Sequence

from airw.evaluation import bootstrap_pairs
from airw.links import CorpusGraph
from airw.protocols import ArtifactIds, ask
from tests.benchmarks.quality.corpora import FLAT, MULTI_HOP, Library, cases_of
from tests.benchmarks.quality.systems import SEARCH, TRAVERSE
from tests.benchmarks.quality.tables import Table, show

HEAD = (
    "set",
    "links",
    "edges a document",
    "without an edge",
    "outlook",
    "mentioned by title",
    "gold linked",
    "R@5 - `search`",
    "nDCG@10 - `search`",
)
KINDS = ("own", "titles", "names")


async def measure(library: Library, names: Sequence[str] = (*MULTI_HOP, *FLAT)) -> list[Table]:
    """Return a table with a row for each set and kind of links."""
    rows = [row for name in names for kind in KINDS if (row := await measure_links(library, name, kind))]
    return [Table("Links", HEAD, rows)]


async def measure_links(library: Library, name: str, kind: str) -> list[str] | None:
    """Return the row of a set; nothing if it has no links of this kind."""
    corpus = await library.open(name, kind)
    # A diagnosis with answers is better, but a user has none before the first evaluation.
    graph = CorpusGraph(corpus)
    blind = await graph.diagnose()
    if not blind.edges:
        return None
    known = set(await ask(corpus.store, ArtifactIds()))  # a document without text is in no corpus
    gold = [group for case in cases_of(name) if len(group := sorted(known.intersection(case.gold))) > 1]
    seeing = await graph.diagnose(gold=gold) if gold else blind
    walk, flat = await library.evaluate(name, TRAVERSE, kind), await library.evaluate(name, SEARCH)
    differences = [str(bootstrap_pairs(walk.values(each), flat.values(each))) for each in ("recall@5", "ndcg@10")]
    numbers = [show(blind.edges / blind.artifacts, 1), show(blind.isolated, 2)]
    return [name, kind, *numbers, blind.outlook, show(blind.named, 2), show(seeing.gold_linked, 2), *differences]

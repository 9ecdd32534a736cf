"""Questions that one document answers: searches beside bm25s, and the defaults."""

from collections.abc import Sequence
from statistics import fmean

from airw.evaluation import Evaluation, FlatSearch, bootstrap_pairs
from tests.benchmarks.quality.corpora import FLAT, MULTI_HOP, Library, read
from tests.benchmarks.quality.systems import BLEND, DENSE, LEXICAL, RRF, SEARCH, TRAVERSE, Discovery, Peer
from tests.benchmarks.quality.tables import Table, show

WORDS = FlatSearch(LEXICAL.options, "lexical, no language")
DEFAULTS = (SEARCH, Discovery(), TRAVERSE)


async def measure(library: Library, names: Sequence[str] = (*FLAT, *MULTI_HOP)) -> list[Table]:
    """Return the tables of the flat sets, and one of the defaults on all sets."""
    flat = [name for name in names if name in FLAT]
    found = {name: await ask_all(library, name) for name in flat}
    tables = []
    for measure, title in (("ndcg@10", "nDCG@10"), ("recall@5", "R@5")):
        head = ["set", "questions", *next(iter(found.values()))] if found else []
        rows = [
            [name, str(next(iter(each.values())).n_gold), *(show(e.means()[measure]) for e in each.values())]
            for name, each in found.items()
        ]
        tables.append(Table(title, head, rows))
    return [*tables, await measure_losses(library, names)]


async def ask_all(library: Library, name: str) -> dict[str, Evaluation]:
    """Return the results of all systems by their names in the table."""
    peers = [Peer("bm25s", read(name)), Peer("bm25s, stop words and stems", read(name), stems=True)]
    systems = [*peers, LEXICAL, DENSE, RRF, BLEND, *DEFAULTS]
    plain = await library.evaluate(name, WORDS, language=None)
    return {WORDS.label: plain, **{system.label: await library.evaluate(name, system) for system in systems}}


async def measure_losses(library: Library, names: Sequence[str]) -> Table:
    """Return the nDCG@10 of each default beside the best single channel of each set."""
    rows = []
    for name in names:
        channels = [await library.evaluate(name, system) for system in (LEXICAL, DENSE)]
        best = max(channels, key=lambda each: fmean(each.values("ndcg@10")))
        row = [name, str(best.n_gold), f"{best.label} {show(fmean(best.values('ndcg@10')))}"]
        for system in DEFAULTS:
            values = (await library.evaluate(name, system)).values("ndcg@10")
            interval = bootstrap_pairs(values, best.values("ndcg@10"))
            share = interval.mean / fmean(best.values("ndcg@10"))
            row.append(f"{interval} ({share:+.1%})" + (", more than 1 % below" if share < -0.01 else ""))
        rows.append(row)
    return Table(
        "Defaults beside the best single channel, nDCG@10",
        ["set", "questions", "best channel", *(s.label for s in DEFAULTS)],
        rows,
    )

"""A corpus whose artifacts are linked in a ring with many cycles."""

from dataclasses import dataclass

from airw import build, from_mapping
from airw.links import extractor_from
from airw.stores import MemoryStore
from airw.values import IndexPlan, Surface

QUERY = "rotate the signing keys"
WORDS = ["keys", "rotate", "signing", "cake", "bread", "walk", "river", "rain"]
SIZE = 14


@dataclass(frozen=True)
class Parts:
    """A strategy with two kinds of surfaces for most artifacts, one for some and none for one.

    Metadata are nested.
    """

    id: str = "parts"

    def decompose(self, artifact):
        number = int(artifact.id)
        text = " ".join(WORDS[number % 8 :] + WORDS[: number % 5])
        kinds = [] if number == 9 else ["description"] if number % 4 == 0 else ["description", "chunk", "chunk"]
        surfaces = [Surface(artifact.id, kind, f"{text} {at}") for at, kind in enumerate(kinds)]
        return IndexPlan({"number": number, "tags": [artifact.id, {"deep": [number]}]}, surfaces)


LINKS = extractor_from(lambda name, _: {"NEXT": [f"{(int(name) + step) % SIZE:02}" for step in (1, 3, 5)]}, id="ring")


def corpus(store=None):
    """Return the context manager that builds and opens the corpus."""
    texts = {f"{number:02}": "" for number in range(SIZE)}
    source = from_mapping(texts, name="ring", strategy=Parts(), embedder="light", edge_extractor=LINKS)
    return build(source, store=store or MemoryStore())

"""The same corpus in `ir` and in airw, of the same texts and vectors."""

import hashlib
import re

import ir
import numpy as np
from ir.store import CorpusStore

from airw import build, embedder_from, from_mapping
from airw.links import extractor_from
from airw.stores import MemoryStore

WIDTH = 64
TEXTS = {
    "keys.md": "Rotate the signing keys every year.\n\nKeep the old key until its tokens are gone.",
    "bread.md": "Bake a loaf of bread.\n\nKnead the dough, and wait until it has risen.",
    "deploy.md": "Deploy the app to the server.\n\nSign the build with the signing key before.",
    "garden.md": "Plant the beans in May.\n\nWater the garden in the evening.",
}
DEFAULTS = {"fusion": "rrf", "alpha": 0.5}
"""The options that searches of `ir` have by default, and those of airw have not."""


def embed(texts, input_type="document"):
    """Embed each word as a direction of its own."""
    rows = []
    for text in texts:
        row = np.zeros(WIDTH)
        for word in re.findall(r"\w+", text.lower()):
            row += np.random.default_rng(int(hashlib.md5(word.encode()).hexdigest()[:8], 16)).normal(size=WIDTH)
        rows.append(row / (np.linalg.norm(row) or 1))
    return np.array(rows, np.float32)


def their_corpus(items, *, name="vault", strategy=None, metadata_of=None, edge_extractor=None):
    source = ir.CorpusSource.from_mapping(items, name=name, strategy=strategy, metadata_of=metadata_of)
    return ir.build(source, store=CorpusStore.memory(), embedder=embed, edge_extractor=edge_extractor)


def our_corpus(items, *, name="vault", strategy=None, metadata_of=None, edge_extractor=None):
    """Build the corpus in airw; `edge_extractor` is a function as `ir` takes it."""
    links = edge_extractor and extractor_from(edge_extractor, id="links")
    embedder = embedder_from(embed, id="words", dim=WIDTH)
    source = from_mapping(
        items, name=name, strategy=strategy, metadata_of=metadata_of, embedder=embedder, edge_extractor=links
    )
    return build(source, store=MemoryStore())


def simple(found):
    """Return a result to compare: numbers as rounded floats, arrays and tuples as lists."""
    if isinstance(found, dict):
        return {key: simple(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [simple(each) for each in found]
    if isinstance(found, np.ndarray):
        return simple(found.tolist())
    return round(float(found), 4) if isinstance(found, float | np.floating) else found

"""What both editions build and walk: made-up notes, questions, and a random graph."""

import itertools
import random

import numpy as np

SYLLABLES = ["ba", "ke", "lo", "mi", "tu", "ra", "sen", "tor", "pli", "gan", "est", "ing", "con", "ver", "qua"]
WORDS, LINKS = 60, 10
DEGREE, DIM, SEEDS = 10, 64, 10

# The words of notes and questions, common ones first; each is as frequent as Zipf's law says.
VOCABULARY = ["".join(each) for each in itertools.islice(itertools.product(SYLLABLES, repeat=4), 20_000)]
random.Random(1).shuffle(VOCABULARY)
FREQUENCIES = list(itertools.accumulate(1 / rank for rank in range(1, len(VOCABULARY) + 1)))


def make_ids(count: int) -> list[str]:
    """Return the ids of `count` notes."""
    return [f"n{at:06}" for at in range(count)]


def make_notes(count: int, *, words: int = WORDS, seed: int = 2) -> dict[str, str]:
    """Return the texts of `count` notes by their ids."""
    draw = random.Random(seed)
    return {id: " ".join(draw.choices(VOCABULARY, cum_weights=FREQUENCIES, k=words)) for id in make_ids(count)}


def make_links(ids: list[str]) -> dict[str, list[str]]:
    """Return the ids to which each note links, drawn at random."""
    draw = random.Random(3)
    return {id: draw.choices(ids, k=LINKS) for id in ids}


def question_of(turn: int) -> str:
    """Return the question of a turn; no two turns ask the same."""
    return " ".join(random.Random(f"question {turn}").choices(VOCABULARY, cum_weights=FREQUENCIES, k=6))


class Digraph:
    """A random graph of numbers, each with ten neighbours and a unit vector."""

    def __init__(self, size: int) -> None:
        draw = np.random.default_rng(7)
        vectors = draw.standard_normal((size, DIM), dtype=np.float32)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self.query = 2 * self.vectors[0] + self.vectors[1]
        self.neighbours = draw.integers(0, size, (size, DEGREE)).tolist()
        self.seeds = draw.choice(size, SEEDS, replace=False).tolist()

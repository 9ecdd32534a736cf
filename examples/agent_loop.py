"""An agent that reads while a walk goes on, until it knows enough: python examples/agent_loop.py [QUESTION]."""

import sys
from pathlib import Path

import anyio

import airw
from airw.policies import Eager

NOTES = Path(__file__).parent / "data" / "eips"
POLICY = Eager(select_k=None, start_k=2, adjacent_k=4, direction="both", seeding="hybrid")


async def enough(question: str, texts: list[str], thinking: float) -> str | None:
    """Say why to stop, or `None` to read on: here a model would be asked, which takes its time."""
    await anyio.sleep(thinking)
    if covered(question, texts) == covered(question, [question]):
        return "every long word of the question is covered"
    return "the token budget is spent" if len(" ".join(texts).split()) > 600 else None


def covered(question: str, texts: list[str]) -> set[str]:
    """Give the long words of the question that stand in the texts, with or without a plural's s."""
    read = " ".join(texts).lower()
    return {word for word in question.lower().split() if len(word) > 4 and word.rstrip("s") in read}


async def answer(question: str, corpus: airw.Corpus, *, patience: float, budget: int, thinking: float) -> None:
    """Read hit by hit until the agent has enough or the walk ends; tell why, and how what it kept was reached."""
    texts: list[str] = []
    kept: list[airw.SearchHit] = []
    verdict = None
    async with airw.traverse(question, corpus, policy=POLICY, timeout=patience, node_budget=budget) as walk:
        async for hit in walk:
            new = covered(question, [hit.text]) - covered(question, texts)
            print(f"{hit.score:.3f}  {hit.artifact_id:12}  {' '.join(sorted(new)) or 'nothing new'}")
            texts.append(hit.text)
            if new:
                kept.append(hit)
            if verdict := await enough(question, texts, thinking):
                break
    if walk.summary:  # as it is after the block, which closed the walk
        why = "cut off by the deadline" if walk.summary.stop == "timeout" else verdict or "not enough yet"
        print(f"stopped: {walk.summary.stop}, {why}; left out: {walk.summary.left_out or 'nothing that was counted'}")
    for hit in kept:
        print(f"  kept {' > '.join(map(str, walk.path(hit)))}")


async def main(question: str) -> None:
    """Ask in peace, then with room for three notes, then with a model that is too slow for the deadline."""
    async with airw.build(airw.from_notes(NOTES, embedder="light"), store=airw.stores.MemoryStore()) as corpus:
        await answer(question, corpus, patience=10, budget=64, thinking=0)
        await answer(question, corpus, patience=10, budget=3, thinking=0)
        await answer(question, corpus, patience=1, budget=64, thinking=0.6)


if __name__ == "__main__":
    anyio.run(main, " ".join(sys.argv[1:]) or "how do wallets sign typed structured data and prevent replay")

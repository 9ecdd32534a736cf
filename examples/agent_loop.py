"""An agent that stops a walk when it knows enough: agent_loop.py [QUESTION]."""

import sys
from pathlib import Path

import anyio

import airw
from airw.policies import Eager

NOTES = Path(__file__).parent / "data" / "eips"
POLICY = Eager(select_k=None, start_k=1, adjacent_k=4)


async def find_reason_to_stop(question: str, texts: list[str], thinking: float) -> str | None:
    """Return why to stop, or `None` to read on. A real agent would ask a model here."""
    await anyio.sleep(thinking)
    if matching_words(question, texts) == matching_words(question, [question]):
        return "every long word of the question is covered"
    return "the token budget is spent" if len(" ".join(texts).split()) > 600 else None


def matching_words(question: str, texts: list[str]) -> set[str]:
    """Return the long words of the question that occur in the texts, without a plural s."""
    content = " ".join(texts).lower()
    return {word for word in question.lower().split() if len(word) > 4 and word.rstrip("s") in content}


async def answer(question: str, corpus: airw.Corpus, *, seconds: float, budget: int, thinking: float) -> None:
    """Read hits until the agent has enough; print why the walk ended and the useful hits."""
    texts: list[str] = []
    useful: list[airw.SearchHit] = []
    reason = None
    async with airw.traverse(question, corpus, policy=POLICY, timeout=seconds, node_budget=budget) as walk:
        async for hit in walk:
            new = matching_words(question, [hit.text]) - matching_words(question, texts)
            print(f"{hit.score:.3f}  {hit.artifact_id:12}  {' '.join(sorted(new)) or 'nothing new'}")
            texts.append(hit.text)
            if new:
                useful.append(hit)
            if reason := await find_reason_to_stop(question, texts, thinking):
                break  # the end of the `async with` block closes the walk
    if walk.summary:
        why = "cut off by the deadline" if walk.summary.stop == "timeout" else reason or "not enough yet"
        print(f"stopped: {walk.summary.stop}, {why}; left out: {walk.summary.left_out or 'nothing that was counted'}")
    for hit in useful:
        print(f"  kept {' > '.join(map(str, walk.path(hit)))}")


async def main(question: str) -> None:
    """Ask without limits, with a budget of three nodes, and with a model that is too slow."""
    async with airw.build(airw.from_notes(NOTES, embedder="light"), store=airw.stores.MemoryStore()) as corpus:
        await answer(question, corpus, seconds=60, budget=64, thinking=0)
        await answer(question, corpus, seconds=60, budget=3, thinking=0)
        await answer(question, corpus, seconds=3, budget=64, thinking=3.5)


if __name__ == "__main__":
    anyio.run(main, " ".join(sys.argv[1:]) or "how do wallets sign typed structured data and prevent replay")

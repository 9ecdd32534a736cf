"""The questions that a built floor is measured with.

Some are foreign to most corpora, the others are made from the texts of the corpus itself.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airw.values import Analyser, Record

FOREIGN = (
    "How long does it take to roast a chicken?",
    "What is the best way to store fresh basil?",
    "chocolate cake without eggs",
    "Which wine goes with grilled fish?",
    "How do I get candle wax out of a tablecloth?",
    "Why does my washing machine leak?",
    "When should I plant tulip bulbs?",
    "How often do I have to water a cactus?",
    "What do hedgehogs eat?",
    "How can I stop my dog from barking at night?",
    "What is the longest river in Africa?",
    "Which countries border Switzerland?",
    "How far is the moon from the earth?",
    "Why is the sky blue?",
    "What causes an earthquake?",
    "Who was the first emperor of China?",
    "When did the Second World War end?",
    "Who painted the Mona Lisa?",
    "Which composer wrote the Four Seasons?",
    "What is the plot of Romeo and Juliet?",
    "films with Charlie Chaplin",
    "Who won the last Olympic marathon?",
    "What are the rules of volleyball?",
    "How many players are in a cricket team?",
    "exercises for a sore back",
    "Is green tea good for the heart?",
    "How do I lower a fever in a child?",
    "What vaccine do I need for a journey to Kenya?",
    "Where can I see the northern lights?",
    "ferries from Greece to Italy",
    "Which airport is closest to Edinburgh?",
    "Do I need a visa for Japan?",
    "What is a good gift for a wedding?",
    "How do I tie a bow tie?",
    "What colour goes with dark blue trousers?",
    "How do I write a letter of condolence?",
    "When is Easter next year?",
    "What is the meaning of the name Clara?",
    "How do I open a savings account?",
    "What is the difference between a lease and a loan?",
    "How is income tax calculated?",
    "Who can be elected to the senate?",
    "How does a bill become a law?",
    "What is the square root of two?",
    "How do I sort a list in Python?",
    "How much memory does a laptop need?",
    "Why is my wireless connection slow?",
    "How do electric cars charge?",
)
"""Everyday questions of many fields.

A corpus may answer a few of them; the floor is measured so that they do not matter.
"""

_FORMS = (
    "{}",
    "Can you tell me something about {}?",
    "{}",
    "I would like to know more about this: {}",
    "{}",
    "Where do I find out about {}, please?",
    "{}",
    "What should I do if I need help with {}?",
)
"""Every second question is worded as people ask, with words that the corpus need not contain."""

_END = re.compile("(?<=[.!?])\\s+|(?<=[\u3002\uff01\uff1f])|\n+")  # also after the full stops of Chinese texts
_WORD = re.compile(r"[^\W_]+")
_LEAST_WORDS, _MAX_CHARS = 4, 300


@dataclass(frozen=True, slots=True)
class OwnQuestion:
    """A question made from a text of a corpus.

    Args:
        text: The question.
        artifact_id: The artifact that the text is from. It does not count as an answer.
        own_words: In how many records of the artifact each word occurs, as the store counts words.
    """

    text: str
    artifact_id: str
    own_words: Mapping[str, int]


def choose_ids(artifact_ids: Sequence[str], count: int) -> list[str]:
    """Return at most `count` of the sorted ids, always the same ones."""
    if len(artifact_ids) <= count:
        return list(artifact_ids)
    return random.Random(0).sample(artifact_ids, count)  # noqa: S311 - a sample, not a secret


def make_own_questions(groups: Sequence[Sequence[Record]], count: int, analyser: Analyser) -> list[OwnQuestion]:
    """Return at most `count` questions from the records of artifacts, each artifact in turn."""
    chance = random.Random(0)  # noqa: S311 - a sample, not a secret
    sentences = [_shuffle_sentences(records, chance) for records in groups if records]
    words = [_count_words(records, analyser) for records in groups if records]
    ids = [records[0].artifact_id for records in groups if records]
    questions: list[OwnQuestion] = []
    for position in range(max(map(len, sentences), default=0)):
        for artifact_id, of_artifact, own_words in zip(ids, sentences, words, strict=True):
            if position < len(of_artifact) and len(questions) < count:
                form = _FORMS[len(questions) % len(_FORMS)]
                text = form.format(of_artifact[position].rstrip(".?!"))
                questions.append(OwnQuestion(text, artifact_id, own_words))
    return questions


def _shuffle_sentences(records: Sequence[Record], chance: random.Random) -> list[str]:
    sentences = list(dict.fromkeys(sentence for record in records for sentence in _split_sentences(record.text)))
    chance.shuffle(sentences)
    return sentences


def _split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that are long enough to be a question.

    If none is, yield its beginning.
    """
    parts = [part.strip()[:_MAX_CHARS] for part in _END.split(text)]
    # A text without spaces between its words, as in Chinese, has long "words".
    long_parts = [part for part in parts if len(_WORD.findall(part)) >= _LEAST_WORDS or not part.isascii()]
    long_parts = [part for part in long_parts if len(part) >= 2 * _LEAST_WORDS]
    if long_parts:
        yield from long_parts
    elif text.strip():
        yield text.strip()[:_MAX_CHARS]


def _count_words(records: Sequence[Record], analyser: Analyser) -> dict[str, int]:
    counts: dict[str, int] = {}
    for words in analyser.split([record.text for record in records]):
        for word in set(words):
            counts[word] = counts.get(word, 0) + 1
    return counts
